//! The programs that are measured: Bailiff's bus and stages, or any other controller.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use bailiff_processes::{BINARY, FilePages, Program, Usage, free_address};

use crate::args::BenchFlags;
use crate::figures::Counts;
use crate::proxy::Proxies;

/// Which program is measured.
#[derive(Clone, Debug)]
pub(crate) enum Which {
    /// Bailiff: the bus and the four stages, each a process.
    Bailiff,
    /// The same in one process, which is `bailiff run`.
    Together,
    /// Another one: its words.
    Other(Vec<String>),
}

/// The processes of a program. Dropping it kills them.
#[derive(Debug)]
pub(crate) struct Programs {
    members: Vec<Program>,
    proxies: Proxies,
    is_bailiff: bool,
}

/// The bus.
const BUS: &str = "event-bus";

/// The stages, and flags that not all of them have.
const STAGES: [(&str, &[Flag]); 4] = [
    ("node-health-monitor", &[Flag::Grace]),
    ("taint-manager", &[]),
    ("zone-evictor", &[Flag::Rate]),
    ("daemonset-syncer", &[]),
];

#[derive(Clone, Copy, Debug)]
enum Flag {
    Grace,
    Rate,
}

/// What all of it in one process is called.
const TOGETHER: &str = "bailiff-run";

/// What names of Leases begin with by which the stages elect their leaders: none of a Bailiff that may be installed there.
pub(crate) const LEASE_PREFIX: &str = "bailiff-bench-";

/// How long a process may take to end by itself: longer than `--drain-timeout` (20 s).
const END: Duration = Duration::from_secs(30);

// === impl Flag ===

impl Flag {
    fn of(self, flags: &BenchFlags) -> String {
        match self {
            Self::Grace => format!("--node-monitor-grace-period={}", flags.node_monitor_grace_period),
            Self::Rate => format!("--node-eviction-rate={}", flags.node_eviction_rate),
        }
    }
}

// === impl Which ===

impl Which {
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Bailiff => "bailiff".to_owned(),
            Self::Together => TOGETHER.to_owned(),
            Self::Other(words) => {
                let file = words.first().map(|word| Path::new(word).file_name().unwrap_or_default());
                file.unwrap_or_default().to_string_lossy().into_owned()
            }
        }
    }
}

// === impl Programs ===

impl Programs {
    /// Starts them; they are not at work yet.
    pub(crate) async fn start(which: &Which, flags: &BenchFlags, binaries: &Path, proxies: Proxies) -> Result<Self, String> {
        let mut programs = Self {
            members: Vec::new(),
            proxies,
            is_bailiff: !matches!(which, Which::Other(_)),
        };
        match which {
            Which::Bailiff => programs.start_bailiff(flags, binaries).await?,
            Which::Together => programs.start_together(flags, binaries).await?,
            Which::Other(words) => programs.start_other(&which.name(), words, flags).await?,
        }
        Ok(programs)
    }

    async fn start_bailiff(&mut self, flags: &BenchFlags, binaries: &Path) -> Result<(), String> {
        let bus = free_address()?;
        self.serve(binaries, BUS, vec![BUS.to_owned(), format!("--listen={bus}")])?;
        for (stage, own) in STAGES {
            let mut arguments = vec![stage.to_owned(), format!("--bus={bus}")];
            arguments.extend(self.common(stage, flags).await?);
            arguments.extend(own.iter().map(|flag| flag.of(flags)));
            self.serve(binaries, stage, arguments)?;
        }
        Ok(())
    }

    fn serve(&mut self, binaries: &Path, name: &str, arguments: Vec<String>) -> Result<(), String> {
        self.members
            .push(Program::serve(&binaries.join(BINARY), name.to_owned(), arguments)?);
        Ok(())
    }

    async fn start_together(&mut self, flags: &BenchFlags, binaries: &Path) -> Result<(), String> {
        let mut arguments = vec!["run".to_owned()];
        arguments.extend(self.common(TOGETHER, flags).await?);
        arguments.extend(STAGES.iter().flat_map(|(_, own)| own.iter()).map(|flag| flag.of(flags)));
        self.serve(binaries, TOGETHER, arguments)
    }

    /// Flags of everything of Bailiff's that speaks to the API server.
    async fn common(&mut self, name: &str, flags: &BenchFlags) -> Result<[String; 6], String> {
        let kubeconfig = self.proxies.open(name).await?;
        Ok([
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--kube-api-qps={}", flags.kube_api_qps),
            format!("--kube-api-burst={}", flags.kube_api_qps),
            format!("--leader-elect-resource-name={LEASE_PREFIX}{name}"),
            // On a machine that everything shares the API server may stall for longer than a leader outlives by default. Writes under way
            // are given longer with it. Where nothing stalls, Leases are renewed as often as by default.
            "--leader-elect-lease-duration=90s".to_owned(),
            "--leader-elect-renew-deadline=60s".to_owned(),
        ])
    }

    async fn start_other(&mut self, name: &str, words: &[String], flags: &BenchFlags) -> Result<(), String> {
        let kubeconfig = self.proxies.open(name).await?.display().to_string();
        let values = placeholders(flags, kubeconfig);
        let words: Vec<String> = words.iter().map(|word| fill(word, &values)).collect();
        if let [program, arguments @ ..] = words.as_slice() {
            self.members.push(Program::foreign(program, name.to_owned(), arguments)?);
        }
        Ok(())
    }

    /// Complains if one of them ended.
    pub(crate) fn check(&mut self) -> Result<(), String> {
        self.members.iter_mut().try_for_each(Program::check)
    }

    /// They do their work, as far as can be told: Bailiff's say so; another program watches nodes, pods and Leases, if that is counted.
    pub(crate) fn are_at_work(&self) -> bool {
        if self.is_bailiff {
            return self.members.iter().all(Program::is_at_work) && self.stages().all(|stage| !stage.leads().is_empty());
        }
        let Some(counts) = self.proxies.counts() else { return true };
        let watches = |resource: &str| counts.keys().any(|kind| kind.verb == "watch" && kind.resource == resource);
        ["nodes", "pods", "leases"].into_iter().all(watches)
    }

    fn stages(&self) -> impl Iterator<Item = &Program> {
        self.members.iter().filter(|program| program.name != BUS)
    }

    /// What each of them used by now.
    pub(crate) fn usage(&self) -> Result<BTreeMap<String, Usage>, String> {
        let used = self
            .members
            .iter()
            .map(|program| Ok((program.name.clone(), program.usage()?)));
        used.collect()
    }

    /// MiB of pages of files that are counted once too often for each process more that has them, if what they have is added.
    pub(crate) fn shared(&self) -> Result<f64, String> {
        let pages: Result<Vec<FilePages>, String> = self.members.iter().map(Program::file_pages).collect();
        Ok(FilePages::shared(&pages?))
    }

    /// From here on their peaks are counted anew.
    pub(crate) fn forget_peaks(&self) {
        self.members.iter().for_each(Program::forget_peak);
    }

    /// Their requests by now, if they are counted.
    pub(crate) fn counts(&self) -> Option<Counts> {
        self.proxies.counts()
    }

    /// Ends them.
    ///
    /// # Errors
    /// When one of ours had to be killed, or did not end well. How others end is their own matter.
    pub(crate) fn end(mut self) -> Result<(), String> {
        let mut complaint = Ok(());
        // The bus last: stages say goodbye to it.
        while let Some(mut program) = self.members.pop() {
            if !program.end(END) && self.is_bailiff && complaint.is_ok() {
                complaint = Err(format!(
                    "{} did not end within {} s, or not well",
                    program.name,
                    END.as_secs()
                ));
            }
        }
        complaint
    }
}

fn placeholders(flags: &BenchFlags, kubeconfig: String) -> [(&'static str, String); 4] {
    [
        ("{kubeconfig}", kubeconfig),
        ("{node-monitor-grace-period}", flags.node_monitor_grace_period.to_string()),
        ("{node-eviction-rate}", flags.node_eviction_rate.to_string()),
        ("{kube-api-qps}", flags.kube_api_qps.to_string()),
    ]
}

fn fill(word: &str, values: &[(&str, String)]) -> String {
    let replace = |word: String, (name, value): &(&str, String)| word.replace(name, value);
    values.iter().fold(word.to_owned(), replace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_filled_wherever_a_value_stands() {
        let values = [("{kubeconfig}", "/tmp/k".to_owned()), ("{kube-api-qps}", "20".to_owned())];
        assert_eq!(fill("--kubeconfig={kubeconfig}", &values), "--kubeconfig=/tmp/k");
        assert_eq!(fill("{kube-api-qps},{kube-api-qps}", &values), "20,20");
        assert_eq!(fill("{other}", &values), "{other}");
    }

    #[test]
    fn another_program_is_called_as_its_file_is() {
        assert_eq!(Which::Other(vec!["/usr/bin/kcm".to_owned(), "-v".to_owned()]).name(), "kcm");
        assert_eq!(Which::Bailiff.name(), "bailiff");
        assert_eq!(Which::Together.name(), "bailiff-run");
    }
}
