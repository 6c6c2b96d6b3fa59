//! A stage is replaced by another program, in another language, and gets its place back.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::certificates;
use crate::program::{How, Program};
use crate::proxy::Proxy;
use crate::system::{RATE, Stage, System};

/// A Python that has what `examples/maintenance-window` needs, by its path.
pub fn python() -> Option<PathBuf> {
    let program = "import grpc, grpc_tools, requests, yaml, sys; print(sys.executable)";
    let output = Command::new("python3").args(["-c", program]).output().ok()?;
    let path = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| PathBuf::from(path.trim()))
}

impl System {
    /// The zone-evictor is the example in Python for a while, whose maintenance window is always open. It has no standby.
    pub fn swap_the_evictor(&mut self) {
        let Some(python) = python() else { return };
        self.leader(Stage::ZoneEvictor);
        let mut ours: Vec<(bool, u64)> = self
            .replicas
            .iter()
            .filter(|replica| replica.stage == Stage::ZoneEvictor)
            .map(|replica| (!replica.leads.is_empty(), replica.id))
            .collect();
        // Those that stand by first: nobody is to take over.
        ours.sort_unstable();
        for (_, id) in ours {
            self.end(id);
        }
        let start = self.next_start();
        let other = Program::start(&self.other_evictor(python, start), start, self.tell.clone());
        self.until_work_went_on("another program went on with the work of the zone-evictor");
        self.until_work_went_on("another program went on with the work of the zone-evictor");
        drop(other);
        self.record.evictors_stopped += 1;
        for number in 0..2 {
            self.add(Stage::ZoneEvictor, number);
        }
        self.until_published();
        self.until_work_went_on("the zone-evictor went on with the work of another program");
    }

    fn other_evictor(&self, python: PathBuf, start: u64) -> How {
        let kubeconfig = self.directory.path().join(format!("kubeconfig-other-evictor-{start}"));
        self.api.write_kubeconfig(&kubeconfig, self.api.address());
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/maintenance-window/evictor.py");
        let files = certificates::files(self.directory.path(), Stage::ZoneEvictor.name());
        let names = ["BAILIFF_TLS_CERT_FILE", "BAILIFF_TLS_PRIVATE_KEY_FILE", "BAILIFF_TLS_CA_FILE"];
        let tls = names
            .into_iter()
            .zip(files)
            .map(|(name, file)| (name, file.display().to_string()));
        let told = [
            ("KUBECONFIG", kubeconfig.display().to_string()),
            // Certificates are for `127.0.0.1`, where the way begins.
            ("BAILIFF_BUS", Proxy::to(self.buses[0].address).address.to_string()),
            ("BAILIFF_NODE_EVICTION_RATE", RATE.to_string()),
            ("PYTHONDONTWRITEBYTECODE", "1".to_owned()),
        ];
        How {
            name: "other-evictor",
            program: python,
            arguments: vec![program.display().to_string()],
            environment: told.into_iter().chain(tls).collect(),
        }
    }
}
