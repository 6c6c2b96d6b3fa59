//! Flags of the stage. Names, meanings and defaults are kube-controller-manager's where it has them (NL-003).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bailiff_model::Shard;
use bailiff_runtime::GoDuration;
use bailiff_runtime::args::{Error, Valid, Validate, go_bool};
use bailiff_taint_core::{Config, Duties, EvictionMode, Profile};
use clap::{ArgAction, Args, ValueEnum};

/// Valid flags of the stage.
pub type Options = Valid<Flags>;

/// A year: nobody means more, and what is added to it stays far inside what clocks can express.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// The controllers of kube-controller-manager that this stage has a part in, with the aliases of their names (NL-001, TE-001).
const NODE_LIFECYCLE: [&str; 2] = ["node-lifecycle-controller", "nodelifecycle"];
const TAINT_EVICTION: [&str; 1] = ["taint-eviction-controller"];
/// One that other stages stand in for; it may be named all the same.
const DAEMONSET: [&str; 2] = ["daemonset-controller", "daemonset"];

/// Flags of the stage.
#[derive(Args, Clone, Debug, PartialEq, Eq)]
#[command(next_help_heading = "Taint manager")]
pub struct Flags {
    /// How pods leave a bad node: by NoExecute taints and their tolerations (taint), or all together after a timeout (node)
    #[arg(
        long,
        env = "BAILIFF_EVICTION_MODE",
        default_value = "taint",
        value_enum,
        value_name = "MODE"
    )]
    pub eviction_mode: EvictionModeFlag,

    /// Old name: false is --eviction-mode=node, true is --eviction-mode=taint
    #[arg(
        long, env = "BAILIFF_ENABLE_TAINT_MANAGER", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool
    )]
    pub enable_taint_manager: Option<bool>,

    /// How long the pods of a node that is not ready are left, with --eviction-mode=node
    #[arg(long, env = "BAILIFF_POD_EVICTION_TIMEOUT", default_value = "5m0s", value_name = "DURATION")]
    pub pod_eviction_timeout: GoDuration,

    /// Which of kube-controller-manager's controllers to stand in for: '*' is all, 'name' is one, '-name' is all but one
    #[arg(
        long,
        env = "BAILIFF_CONTROLLERS",
        default_value = "*",
        value_name = "LIST",
        allow_hyphen_values = true
    )]
    pub controllers: Controllers,

    /// Whether the documented differences from kube-controller-manager apply (bailiff) or not (upstream)
    #[arg(
        long,
        env = "BAILIFF_PROFILE",
        default_value = "bailiff",
        value_enum,
        value_name = "PROFILE"
    )]
    pub profile: ProfileFlag,
}

/// How pods leave a bad node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EvictionModeFlag {
    /// By NoExecute taints and tolerations
    #[default]
    Taint,
    /// All together, after a timeout
    Node,
}

/// Which of the documented differences from kube-controller-manager apply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ProfileFlag {
    /// All of them
    #[default]
    Bailiff,
    /// None that can be switched off
    Upstream,
}

/// A list of controllers, in the form of kube-controller-manager's `--controllers`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Controllers {
    text: String,
    duties: Duties,
}

/// A list of controllers that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownController(String);

// === impl Flags ===

impl Flags {
    /// The core's configuration for a shard.
    pub fn config(&self, shard: Shard) -> Config {
        let Self {
            eviction_mode: _,
            enable_taint_manager: _,
            pod_eviction_timeout,
            controllers,
            profile,
        } = self;
        Config {
            mode: self.mode(),
            profile: match profile {
                ProfileFlag::Bailiff => Profile::Bailiff,
                ProfileFlag::Upstream => Profile::Upstream,
            },
            duties: controllers.duties,
            shard,
            pod_eviction_timeout: pod_eviction_timeout.get(),
            ..Config::default()
        }
    }

    fn mode(&self) -> EvictionMode {
        match (self.eviction_mode, self.enable_taint_manager) {
            (EvictionModeFlag::Node, _) | (_, Some(false)) => EvictionMode::Node,
            (EvictionModeFlag::Taint, _) => EvictionMode::Taint,
        }
    }
}

impl Validate for Flags {
    fn validate(&self) -> Result<(), Error> {
        if self.eviction_mode == EvictionModeFlag::Node && self.enable_taint_manager == Some(true) {
            let allowed = "with --eviction-mode=node allowed is false, or nothing";
            return Err(Error::new("enable-taint-manager", true, allowed));
        }
        if self.pod_eviction_timeout.get() > LONGEST {
            let allowed = "allowed is at most a year, 8760h";
            return Err(Error::new("pod-eviction-timeout", self.pod_eviction_timeout, allowed));
        }
        Ok(())
    }
}

// === impl Controllers ===

impl Controllers {
    /// What is to be stood in for.
    pub fn duties(&self) -> Duties {
        self.duties
    }
}

impl Default for Controllers {
    fn default() -> Self {
        Self {
            text: "*".to_owned(),
            duties: Duties::default(),
        }
    }
}

impl FromStr for Controllers {
    type Err = UnknownController;

    fn from_str(text: &str) -> Result<Self, UnknownController> {
        let entries: Vec<&str> = text.split(',').map(str::trim).collect();
        for entry in &entries {
            let name = entry.strip_prefix('-').unwrap_or(entry);
            let known = NODE_LIFECYCLE.contains(&name) || TAINT_EVICTION.contains(&name) || DAEMONSET.contains(&name);
            if *entry != "*" && !known {
                return Err(UnknownController(name.to_owned()));
            }
        }
        // As kube-controller-manager: a name that is said counts, else the star.
        let is_enabled = |names: &[&str]| {
            let said = entries.iter().find_map(|entry| match entry.strip_prefix('-') {
                Some(name) if names.contains(&name) => Some(false),
                None if names.contains(entry) => Some(true),
                _ => None,
            });
            said.unwrap_or_else(|| entries.contains(&"*"))
        };
        Ok(Self {
            duties: Duties {
                node_lifecycle: is_enabled(&NODE_LIFECYCLE),
                taint_eviction: is_enabled(&TAINT_EVICTION),
            },
            text: text.to_owned(),
        })
    }
}

impl fmt::Display for Controllers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for UnknownController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = [NODE_LIFECYCLE[0], TAINT_EVICTION[0], DAEMONSET[0]].join(", ");
        write!(
            f,
            "no controller is called '{}'; allowed are *, and with or without a leading '-': {allowed}",
            self.0
        )
    }
}

impl std::error::Error for UnknownController {}

#[cfg(test)]
mod tests {
    use bailiff_runtime::args::{EXIT_CONFIGURATION, Refusal, parse_from};
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    #[command(name = "manager")]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn parse(flags: &[&str]) -> Result<Options, Refusal> {
        parse_from::<Cli>(std::iter::once("manager").chain(flags.iter().copied())).map(|cli| cli.options)
    }

    fn config(flags: &[&str]) -> Config {
        parse(flags).expect("allowed").config(Shard::WHOLE)
    }

    /// NL-003
    #[test]
    fn defaults_are_those_of_kube_controller_manager() {
        Cli::command().debug_assert();
        assert_eq!(config(&[]), Config::default());
        assert_eq!(config(&[]).pod_eviction_timeout, Duration::from_secs(300));
    }

    /// NL-200, TE-116
    #[test]
    fn the_old_name_of_node_mode_is_accepted() {
        let cases: [(&[&str], EvictionMode); 6] = [
            (&["--eviction-mode=node"], EvictionMode::Node),
            (&["--enable-taint-manager=false"], EvictionMode::Node),
            (&["--enable-taint-manager=false", "--eviction-mode=node"], EvictionMode::Node),
            (&["--enable-taint-manager"], EvictionMode::Taint),
            (&["--enable-taint-manager=true", "--eviction-mode=taint"], EvictionMode::Taint),
            (&["--pod-eviction-timeout=9s"], EvictionMode::Taint),
        ];
        for (flags, mode) in cases {
            assert_eq!(config(flags).mode, mode, "{flags:?}");
        }
        assert_eq!(
            config(&["--pod-eviction-timeout=9s"]).pod_eviction_timeout,
            Duration::from_secs(9)
        );
        assert_eq!(config(&["--profile=upstream"]).profile, Profile::Upstream);
    }

    /// NL-001, TE-001
    #[test]
    fn controllers_are_chosen_as_upstream() {
        let cases = [
            ("*", true, true),
            ("node-lifecycle-controller", true, false),
            ("nodelifecycle", true, false),
            ("*,-taint-eviction-controller", true, false),
            ("-node-lifecycle-controller,*", false, true),
            ("daemonset-controller", false, false),
            ("*,-daemonset-controller", true, true),
        ];
        for (list, node_lifecycle, taint_eviction) in cases {
            let duties = Duties {
                node_lifecycle,
                taint_eviction,
            };
            assert_eq!(config(&["--controllers", list]).duties, duties, "{list}");
            assert_eq!(
                list.parse::<Controllers>().map(|parsed| parsed.to_string()),
                Ok(list.to_owned())
            );
        }
    }

    #[test]
    fn what_is_wrong_is_answered_with_flag_value_and_what_is_allowed() {
        let cases: [(&[&str], &[&str]); 6] = [
            (&["--eviction-mode=pod"], &["'pod'", "--eviction-mode", "taint", "node"]),
            (
                &["--eviction-mode=node", "--enable-taint-manager"],
                &["'true'", "'--enable-taint-manager'", "false"],
            ),
            (&["--enable-taint-manager=no"], &["'no'", "true or false"]),
            (
                &["--pod-eviction-timeout=9000h"],
                &["'9000h", "'--pod-eviction-timeout'", "8760h"],
            ),
            (&["--pod-eviction-timeout=300"], &["'300'", "no unit"]),
            (
                &["--controllers=*,-node-ipam"],
                &["'node-ipam'", "--controllers", "taint-eviction-controller"],
            ),
        ];
        for (flags, parts) in cases {
            let refusal = parse(flags).expect_err("not allowed");
            assert_eq!(refusal.exit_code(), EXIT_CONFIGURATION, "{flags:?}");
            for part in parts {
                assert!(refusal.to_string().contains(part), "{flags:?}: {refusal} lacks {part}");
            }
        }
    }
}
