//! The flags of all four stages together, as one process that runs them takes them.
//!
//! Stages share some flags (`--profile`, `--eviction-mode`, …): given once, each stage reads them.

use bailiff_daemonset_syncer::DaemonsetSyncer;
use bailiff_node_health_monitor::NodeHealthMonitor;
use bailiff_runtime::args::{Refusal, parse_from};
use bailiff_stage::shards::{Reach, Replica, stand};
use bailiff_stage::{Env, Stage};
use bailiff_taint_manager::TaintManager;
use bailiff_zone_evictor::ZoneEvictor;
use clap::{ArgMatches, Args, Command, FromArgMatches, Parser};
use tokio::task::JoinHandle;

use crate::StageName;

/// Flags of the four stages.
#[derive(Clone, Debug)]
pub struct StageOptions {
    /// Of the node-health-monitor.
    pub monitor: <NodeHealthMonitor as Stage>::Options,
    /// Of the taint-manager.
    pub taint: <TaintManager as Stage>::Options,
    /// Of the zone-evictor.
    pub zone: <ZoneEvictor as Stage>::Options,
    /// Of the daemonset-syncer.
    pub daemonset: <DaemonsetSyncer as Stage>::Options,
}

/// A command line of nothing but stage flags.
#[derive(Clone, Debug, Parser)]
#[command(name = "stages", no_binary_name = true)]
struct Only {
    #[command(flatten)]
    stages: StageOptions,
}

// === impl StageOptions ===

impl StageOptions {
    /// The options that `flags` (`--name=value` each) ask for.
    ///
    /// # Errors
    /// A flag that no stage has, or a value that is not allowed.
    pub fn parse(flags: impl IntoIterator<Item = String>) -> Result<Self, Refusal> {
        let flags: Vec<String> = flags.into_iter().collect();
        parse_from::<Only>(flags).map(|only| only.stages)
    }

    /// Starts a stage with its part of the options.
    pub fn start(&self, name: StageName, env: Env) -> JoinHandle<Result<(), bailiff_stage::Error>> {
        let options = self.clone();
        match name {
            StageName::NodeHealthMonitor => tokio::spawn(NodeHealthMonitor::run(options.monitor, env)),
            StageName::TaintManager => tokio::spawn(TaintManager::run(options.taint, env)),
            StageName::ZoneEvictor => tokio::spawn(ZoneEvictor::run(options.zone, env)),
            StageName::DaemonsetSyncer => tokio::spawn(DaemonsetSyncer::run(options.daemonset, env)),
        }
    }

    /// Stands for the shards of a stage with its part of the options.
    pub fn stand(&self, name: StageName, replica: &Replica, reach: Reach, shards: u32) {
        match name {
            StageName::NodeHealthMonitor => stand::<NodeHealthMonitor>(replica, &reach.with(self.monitor.clone()), shards),
            StageName::TaintManager => stand::<TaintManager>(replica, &reach.with(self.taint.clone()), shards),
            StageName::ZoneEvictor => stand::<ZoneEvictor>(replica, &reach.with(self.zone.clone()), shards),
            StageName::DaemonsetSyncer => stand::<DaemonsetSyncer>(replica, &reach.with(self.daemonset.clone()), shards),
        }
    }

    fn augment(command: Command, parts: [Command; 4]) -> Command {
        parts.iter().flat_map(Command::get_arguments).fold(command, |command, arg| {
            let is_known = command.get_arguments().any(|known| known.get_id() == arg.get_id());
            if is_known { command } else { command.arg(arg.clone()) }
        })
    }
}

impl Args for StageOptions {
    fn augment_args(command: Command) -> Command {
        let part = || Command::new("part");
        let parts = [
            <NodeHealthMonitor as Stage>::Options::augment_args(part()),
            <TaintManager as Stage>::Options::augment_args(part()),
            <ZoneEvictor as Stage>::Options::augment_args(part()),
            <DaemonsetSyncer as Stage>::Options::augment_args(part()),
        ];
        Self::augment(command, parts)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for StageOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        fn part<T: Args>(matches: &ArgMatches) -> Result<T, clap::Error> {
            let command = T::augment_args(Command::new("part").no_binary_name(true));
            let mut flags = Vec::new();
            for arg in command.get_arguments() {
                let id = arg.get_id().as_str();
                if matches
                    .value_source(id)
                    .is_some_and(|source| source != clap::parser::ValueSource::DefaultValue)
                {
                    for raw in matches.get_raw(id).into_iter().flatten() {
                        flags.push(format!("--{}={}", arg.get_long().unwrap_or(id), raw.to_string_lossy()));
                    }
                }
            }
            let matches = command.try_get_matches_from(flags)?;
            T::from_arg_matches(&matches)
        }
        Ok(Self {
            monitor: part(matches)?,
            taint: part(matches)?,
            zone: part(matches)?,
            daemonset: part(matches)?,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NL-003
    #[test]
    fn a_shared_flag_reaches_every_stage_and_an_unknown_one_is_refused() {
        let parse = |flags: &[&str]| StageOptions::parse(flags.iter().map(|flag| (*flag).to_owned()));
        assert!(parse(&[]).is_ok(), "defaults are allowed");
        assert!(
            parse(&[
                "--profile=upstream",
                "--node-eviction-rate=0.25",
                "--concurrent-daemonset-syncs=3"
            ])
            .is_ok()
        );
        let flags = [
            "--profile=upstream",
            "--controllers=*,-daemonset-controller",
            "--enable-taint-manager=false",
        ];
        let given = parse(&flags).expect("allowed");
        let shared = &given.monitor.shared;
        assert_eq!(shared.profile.to_string(), "upstream");
        assert!(!shared.controllers.daemonset && shared.controllers.taint_eviction);
        for other in [&given.taint.shared, &given.zone.shared, &given.daemonset.shared] {
            assert_eq!(other, shared);
        }
        let refused = parse(&["--no-such-flag=1"]).expect_err("unknown").to_string();
        assert!(refused.contains("--no-such-flag"), "{refused}");
    }
}
