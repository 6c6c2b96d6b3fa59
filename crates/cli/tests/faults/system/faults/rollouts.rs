//! Faults of the daemonset-syncer in the middle of a rollout.

use crate::system::{Stage, System};

impl System {
    /// The one that leads is killed.
    pub fn kill_amid_a_rollout(&mut self) {
        self.until_rolling();
        self.kill(Stage::DaemonsetSyncer);
    }

    /// The one that leads is stopped until another does, and goes on then.
    pub fn pause_amid_a_rollout(&mut self) {
        self.until_rolling();
        self.pause(Stage::DaemonsetSyncer);
    }

    /// The one that leads does not reach the API until another leads.
    pub fn cut_amid_a_rollout(&mut self) {
        self.until_rolling();
        self.cut_from_api(Stage::DaemonsetSyncer);
    }
}
