//! Flags that several stages have: one meaning, one type, one place.
//!
//! A process that runs several stages takes each of them once, by its id; so they must be the same in all of them.

use bailiff_model::{Duties, EvictionMode, Profile};
use bailiff_runtime::args::{Error, Valid, Validate, go_bool};
use clap::{ArgAction, Args};

/// Valid shared flags.
pub type SharedArgs = Valid<SharedFlags>;

/// Flags that several stages have. Those that kube-controller-manager has keep its names, meanings and defaults (NL-003).
#[derive(Args, Clone, Debug, Default, PartialEq, Eq)]
#[command(next_help_heading = "All stages")]
pub struct SharedFlags {
    /// Whether the documented differences from kube-controller-manager apply (bailiff) or not (upstream)
    #[arg(long, env = "BAILIFF_PROFILE", default_value_t, value_name = "PROFILE")]
    pub profile: Profile,

    /// How pods leave a bad node: by NoExecute taints and their tolerations (taint), or all together after a timeout (node)
    #[arg(long, env = "BAILIFF_EVICTION_MODE", default_value_t, value_name = "MODE")]
    pub eviction_mode: EvictionMode,

    /// Old name: false is --eviction-mode=node, true is --eviction-mode=taint
    #[arg(
        long, env = "BAILIFF_ENABLE_TAINT_MANAGER", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool
    )]
    pub enable_taint_manager: Option<bool>,

    /// Which of kube-controller-manager's controllers to stand in for: '*' is all, 'name' is one, '-name' is all but one
    #[arg(
        long,
        env = "BAILIFF_CONTROLLERS",
        default_value_t,
        value_name = "LIST",
        allow_hyphen_values = true
    )]
    pub controllers: Duties,
}

// === impl SharedFlags ===

impl SharedFlags {
    /// The eviction mode that both flags about it ask for.
    pub fn mode(&self) -> EvictionMode {
        match (self.eviction_mode, self.enable_taint_manager) {
            (EvictionMode::Node, _) | (_, Some(false)) => EvictionMode::Node,
            (EvictionMode::Taint, _) => EvictionMode::Taint,
        }
    }
}

impl Validate for SharedFlags {
    fn validate(&self) -> Result<(), Error> {
        if self.eviction_mode == EvictionMode::Node && self.enable_taint_manager == Some(true) {
            let allowed = "with --eviction-mode=node allowed is false, or nothing";
            return Err(Error::new("enable-taint-manager", true, allowed));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bailiff_runtime::args::{EXIT_CONFIGURATION, Refusal, parse_from};
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Clone, Debug, Parser)]
    #[command(name = "stage")]
    struct Cli {
        #[command(flatten)]
        shared: SharedArgs,
    }

    fn parse(flags: &[&str]) -> Result<SharedFlags, Refusal> {
        let arguments = std::iter::once("stage").chain(flags.iter().copied());
        parse_from::<Cli>(arguments).map(|cli| cli.shared.into_inner())
    }

    /// NL-003
    #[test]
    fn defaults_are_those_of_kube_controller_manager() {
        Cli::command().debug_assert();
        assert_eq!(parse(&[]).expect("defaults are allowed"), SharedFlags::default());
    }

    /// NL-200, TE-116
    #[test]
    fn the_old_name_of_node_mode_is_accepted() {
        let cases: [(&[&str], EvictionMode); 6] = [
            (&[], EvictionMode::Taint),
            (&["--eviction-mode=node"], EvictionMode::Node),
            (&["--enable-taint-manager=false"], EvictionMode::Node),
            (&["--enable-taint-manager=false", "--eviction-mode=node"], EvictionMode::Node),
            (&["--enable-taint-manager"], EvictionMode::Taint),
            (&["--enable-taint-manager=true", "--eviction-mode=taint"], EvictionMode::Taint),
        ];
        for (flags, mode) in cases {
            assert_eq!(parse(flags).expect("allowed").mode(), mode, "{flags:?}");
        }
    }

    /// NL-001, TE-001, DS-001
    #[test]
    fn profile_and_controllers_are_read() {
        let flags = parse(&["--profile=upstream", "--controllers", "-nodelifecycle,*"]).expect("allowed");
        let controllers = Duties {
            node_lifecycle: false,
            ..Duties::ALL
        };
        assert_eq!((flags.profile, flags.controllers), (Profile::Upstream, controllers));
    }

    #[test]
    fn what_is_wrong_is_answered_with_flag_value_and_what_is_allowed() {
        let cases: [(&[&str], &[&str]); 5] = [
            (&["--profile=kcm"], &["'kcm'", "--profile", "bailiff or upstream"]),
            (&["--eviction-mode=pod"], &["'pod'", "--eviction-mode", "taint or node"]),
            (
                &["--eviction-mode=node", "--enable-taint-manager"],
                &["'true'", "'--enable-taint-manager'", "false"],
            ),
            (&["--enable-taint-manager=no"], &["'no'", "true or false"]),
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
