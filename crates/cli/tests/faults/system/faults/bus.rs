//! Faults of the bus, whatever keeps it.

use crate::system::stage::PUBLISHERS;
use crate::system::{System, certificates};

impl System {
    /// All replicas of the bus are killed, and started again.
    pub fn kill_bus(&mut self) {
        self.buses.iter_mut().for_each(|bus| bus.program.kill());
        for stage in PUBLISHERS {
            self.until("the loss of the bus", |system| {
                let mut of_stage = system.replicas.iter().filter(|replica| replica.stage == stage);
                of_stage.all(|replica| !replica.publishes)
            });
        }
        for number in 0..self.buses.len() {
            self.start_bus(number);
        }
        self.until_published();
    }

    /// One replica of the bus is killed: whoever was connected to it goes on with another.
    pub fn kill_a_bus(&mut self) {
        self.until_published();
        self.buses[0].program.kill();
        self.until_published();
        self.until_work_went_on("work went on without a replica of the bus");
        self.start_bus(0);
    }

    /// All certificates are replaced at once, the CA's too: who reads them late does not understand who was early.
    pub fn replace_certificates(&mut self) {
        self.until_published();
        let before = self.connections();
        certificates::make(self.directory.path());
        self.until_changed(&before);
        self.until_published();
    }
}
