//! What is measured, as the command line says.

use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
usage: cargo xtask scaling [--flag=value …]

  --nodes=50000          nodes of the sandbox
  --pods-per-node=1      plain pods on each of them
  --shards=1,2,4         numbers of shards to measure
  --replicas=0           replicas of each stage; 0: one more than there are shards
  --failing=10000        nodes that fail together
  --seconds=60           how long nothing happens but renewals
  --kills=3              how often the holder of a shard is killed, in each stage
  --kube-api-qps=5000    requests a second that a replica may send (and as many at once)
  --binaries=DIRECTORY   where the bailiff to measure is; without it that is built as images hold it
  --output=table         table or json";

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flags {
    pub(crate) nodes: u32,
    pub(crate) pods_per_node: u32,
    pub(crate) shards: Vec<u32>,
    /// 0: one more than there are shards.
    pub(crate) replicas: u32,
    pub(crate) failing: u32,
    pub(crate) seconds: u32,
    pub(crate) kills: u32,
    pub(crate) qps: u32,
    pub(crate) binaries: Option<PathBuf>,
    pub(crate) is_json: bool,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            nodes: 50_000,
            pods_per_node: 1,
            shards: vec![1, 2, 4],
            replicas: 0,
            failing: 10_000,
            seconds: 60,
            kills: 3,
            qps: 5_000,
            binaries: None,
            is_json: false,
        }
    }
}

impl Flags {
    /// Reads a command line.
    ///
    /// # Errors
    /// What is wrong with which flag.
    pub(crate) fn parse(arguments: &[String]) -> Result<Self, String> {
        let mut flags = Self::default();
        for argument in arguments {
            let (name, value) = argument
                .split_once('=')
                .ok_or_else(|| format!("'{argument}': wanted is --flag=value"))?;
            flags.set(name, value)?;
        }
        // A zone counts as disrupted from 55 % on, and where most of it is late everything waits.
        if flags.failing == 0 || flags.failing > flags.nodes / 2 {
            let Self { failing, nodes, .. } = flags;
            return Err(format!("--failing={failing}: allowed is 1 to half of the {nodes} nodes"));
        }
        Ok(flags)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let number = |least: u32| match value.parse() {
            Ok(number) if number >= least => Ok(number),
            _ => Err(format!("{name}={value}: wanted is a number from {least}")),
        };
        match name {
            "--nodes" => self.nodes = number(1)?,
            "--pods-per-node" => self.pods_per_node = number(0)?,
            "--replicas" => self.replicas = number(0)?,
            "--failing" => self.failing = number(1)?,
            "--seconds" => self.seconds = number(1)?,
            "--kills" => self.kills = number(0)?,
            "--kube-api-qps" => self.qps = number(1)?,
            "--binaries" => self.binaries = Some(value.into()),
            "--shards" => {
                let shards = value.split(',').map(|one| one.parse().ok().filter(|&shards| shards > 0));
                let wanted = || format!("{name}={value}: wanted are numbers from 1, such as 1,2,4");
                self.shards = shards.collect::<Option<_>>().ok_or_else(wanted)?;
            }
            "--output" => {
                self.is_json = match value {
                    "json" => true,
                    "table" => false,
                    _ => return Err(format!("{name}={value}: wanted is table or json")),
                }
            }
            _ => return Err(format!("'{name}' is no flag")),
        }
        Ok(())
    }

    /// Replicas of a stage that is divided so.
    pub(crate) const fn replicas_of(&self, shards: u32) -> u32 {
        if self.replicas == 0 { shards + 1 } else { self.replicas }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Flags, String> {
        Flags::parse(&arguments.iter().map(|&argument| argument.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_not_said_is_as_the_usage_says() {
        let defaults = Flags::default();
        assert_eq!(parse(&[]).unwrap(), defaults);
        for (flag, value) in [
            ("nodes", defaults.nodes),
            ("pods-per-node", defaults.pods_per_node),
            ("failing", defaults.failing),
            ("seconds", defaults.seconds),
            ("kills", defaults.kills),
            ("kube-api-qps", defaults.qps),
        ] {
            assert!(USAGE.contains(&format!("--{flag}={value} ")), "{flag}");
        }
        assert_eq!((defaults.replicas_of(1), defaults.replicas_of(4)), (2, 5));
    }

    #[test]
    fn what_is_said_holds() {
        let flags = parse(&["--nodes=100", "--failing=50", "--shards=3", "--replicas=1", "--output=json"]).unwrap();
        assert_eq!(
            (flags.nodes, flags.failing, flags.shards.clone(), flags.is_json),
            (100, 50, vec![3], true)
        );
        assert_eq!(flags.replicas_of(3), 1);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let cases = [
            ("--nodes=many", "--nodes=many: wanted is a number from 1"),
            ("--shards=1,0", "wanted are numbers from 1"),
            ("--failing=25001", "allowed is 1 to half of the 50000 nodes"),
            ("--output=yaml", "wanted is table or json"),
            ("--what=1", "'--what' is no flag"),
            ("nodes", "wanted is --flag=value"),
        ];
        for (argument, wanted) in cases {
            let complaint = parse(&[argument]).unwrap_err();
            assert!(complaint.contains(wanted), "{complaint}");
        }
    }
}
