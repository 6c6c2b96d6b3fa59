//! Plays the situations with a program, and another one if there is one, and writes what came of it into the report.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use bailiff_model::{Mono, Wall};
use bailiff_processes::Usage;
use bailiff_runtime::{Clock, Seed};

use crate::args::BenchFlags;
use crate::cluster::{Cluster, connect};
use crate::count::is_work;
use crate::figures::{self, Counts, Latency, Process};
use crate::ledger::Seen;
use crate::observe::Observer;
use crate::plain;
use crate::programs::{Programs, Which};
use crate::progress::Progress;
use crate::proxy::Proxies;
use crate::report::{self, Machine, Played, Report, Run};
use crate::situations::{Act, Line};

/// Between two looks: short against what is waited for, long against what a look costs.
const LOOK: Duration = Duration::from_millis(200);
/// After a situation, so that what it caused last is counted too, and nothing is while it is undone.
const REST: Duration = Duration::from_secs(2);
/// So long nothing is written: everything that is to be done was done.
const QUIET: Duration = Duration::from_secs(5);
/// So long if it just started: kube-controller-manager looks at the nodes every 5 s (`--node-monitor-period`), and at the first time 5 s
/// may have passed until it has all of them.
const QUIET_AT_FIRST: Duration = Duration::from_secs(12);
/// After a node was told to be silent, until it is: a renewal may be under way.
const HUSH: Duration = Duration::from_secs(1);

/// Everything that runs. Programs are dropped before the cluster, so that nobody acts on what is removed.
struct Stand<'a> {
    flags: &'a BenchFlags,
    clock: Clock,
    progress: Progress,
    programs: Programs,
    observer: Observer,
    cluster: Cluster,
    nodes: Vec<String>,
    has_daemonset: bool,
}

/// What was used and counted by a moment.
struct Sample {
    at: Mono,
    measured: BTreeMap<String, Usage>,
    others: BTreeMap<String, Usage>,
    shared: f64,
    counts: Option<Counts>,
}

/// Plays everything. What was played before something went wrong is in the report all the same.
pub(crate) async fn all(flags: &BenchFlags, binaries: &Path, directory: &Path, report: &mut Report) -> Result<(), String> {
    report.machine = Machine {
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        platform: format!("{} {}", std::env::consts::ARCH, std::env::consts::OS),
    };
    report.settings = flags.settings();
    let other = flags.other().map_err(|error| error.to_string())?;
    let ours = if flags.together { Which::Together } else { Which::Bailiff };
    let mut ended = Ok(());
    for which in std::iter::once(ours).chain(other.map(Which::Other)) {
        report.runs.push(Run {
            program: which.name(),
            ..Run::default()
        });
        if let Some(run) = report.runs.last_mut() {
            ended = ended.and(one(flags, &which, binaries, directory, run).await?);
        }
    }
    ended
}

/// A program, from its start to its end, with a cluster of its own. What was played counts, however it ended: that is told apart.
async fn one(
    flags: &BenchFlags,
    which: &Which,
    binaries: &Path,
    directory: &Path,
    run: &mut Run,
) -> Result<Result<(), String>, String> {
    let progress = Progress::new(&run.program);
    let clock = Clock::system();
    progress.begin(&format!("filling a cluster with {} nodes", flags.nodes));
    let mut cluster = Cluster::start(flags, binaries, directory, &clock).await?;
    let observer = Observer::start(&cluster.api, &Seed::from_system());
    fill(flags, &clock, &progress, &mut cluster, &observer).await?;
    let nodes = observer.ledger().names();
    let client = if flags.direct {
        None
    } else {
        Some(connect(&cluster.kubeconfig).await?)
    };
    let proxies = Proxies::new(client, &cluster.kubeconfig, directory);
    progress.begin("starting it");
    // What came and went before was nobody's doing who is measured.
    observer.ledger().take_early_between();
    let mut stand = Stand {
        programs: Programs::start(which, flags, binaries, proxies).await?,
        flags,
        clock,
        progress,
        observer,
        cluster,
        nodes,
        has_daemonset: false,
    };
    let ended = stand.run(run).await.map(|()| stand.programs.end());
    run.early_between = stand.observer.ledger().take_early_between();
    ended
}

/// Waits until the cluster is there, its pods run, and all its kubelets renew: while it was filled nobody did.
async fn fill(
    flags: &BenchFlags,
    clock: &Clock,
    progress: &Progress,
    cluster: &mut Cluster,
    observer: &Observer,
) -> Result<(), String> {
    let (wanted, end) = (flags.settings(), clock.now().mono + flags.patience.get());
    let mut filled: Option<Wall> = None;
    loop {
        let (nodes, pods) = observer.ledger().sizes();
        let is_there = cluster.is_filled()? && nodes >= wanted.nodes && pods >= wanted.pods;
        if is_there && filled.is_none() {
            filled = Some(clock.wall());
            progress.begin("waiting for the renewal of every Lease");
        }
        if let Some(filled) = filled {
            let renewals = cluster.renewals().await?;
            let renewed = renewals.values().filter(|at| **at >= filled).count();
            if renewed >= wanted.nodes {
                return Ok(());
            }
            progress.see(&format!("{renewed} of {} Leases renewed", wanted.nodes));
            tokio::time::sleep(REST).await;
        } else {
            progress.see(&format!(
                "{nodes} of {} nodes, {pods} of {} pods run",
                wanted.nodes, wanted.pods
            ));
            tokio::time::sleep(LOOK).await;
        }
        if clock.now().mono > end {
            let last = cluster.program.last_line().unwrap_or_default();
            return Err(format!(
                "the cluster was not there within {}: {nodes} nodes, {pods} pods that run; {} said last: {last}",
                flags.patience,
                cluster.name()
            ));
        }
    }
}

// === impl Stand ===

impl Stand<'_> {
    /// From the start of the program to the last situation.
    async fn run(&mut self, run: &mut Run) -> Result<(), String> {
        let began = self.clock.now().mono;
        self.wait("its start", self.flags.patience.get(), |stand| {
            Ok((!stand.programs.are_at_work()).then(|| "it does not work yet".to_owned()))
        })
        .await?;
        run.start_seconds = self.since(began);
        self.come_to_rest("its first writes", QUIET_AT_FIRST).await?;
        for line in self.flags.played() {
            let played = self
                .play(line)
                .await
                .map_err(|complaint| format!("{}: {}: {complaint}", run.program, line.name))?;
            run.situations.push(played);
        }
        run.weigh();
        Ok(())
    }

    /// Plays a situation, measures it, and undoes it.
    async fn play(&mut self, line: Line) -> Result<Played, String> {
        let nodes = line.whose.map(|part| self.nodes[self.flags.parts().range(part)].to_vec());
        if line.act == Act::Change && !self.has_daemonset {
            self.progress.begin("creating a DaemonSet to be updated");
            self.create().await?;
            self.roll_out().await?;
            self.come_to_rest("the rollout", QUIET).await?;
        }
        self.progress.begin(&format!("playing {}", line.name));
        self.programs.forget_peaks();
        let before = self.sample()?;
        self.observer.ledger().begin(self.clock.wall());
        let concerned = nodes.as_deref().unwrap_or_default();
        let plain_cpu_seconds = self.act(line.act, concerned).await?;
        let seconds = self.since(before.at);
        tokio::time::sleep(REST).await;
        let after = self.sample()?;
        let seen = self.observer.ledger().end();
        self.undo(line.act, concerned).await?;
        Ok(played(
            line,
            nodes.map_or(self.nodes.len(), |nodes| nodes.len()),
            seconds,
            (&before, &after),
            seen,
            plain_cpu_seconds,
        ))
    }

    /// Lets it happen, and waits until everything that follows was done; answers what plain evictions took of a processor, in seconds.
    async fn act(&mut self, act: Act, nodes: &[String]) -> Result<Option<f64>, String> {
        let mut plain_cpu_seconds = None;
        match act {
            Act::Wait => {
                let (began, rest) = (self.clock.now().mono, self.flags.rest.get());
                let bound = rest + self.flags.patience.get();
                self.wait("rest", bound, |stand| {
                    let left = rest.as_secs_f64() - stand.since(began);
                    Ok((left > 0.0).then(|| format!("resting, {left:.0} s left")))
                })
                .await?;
            }
            Act::Silence => {
                self.cluster.silence(nodes, true).await?;
                tokio::time::sleep(HUSH).await;
                self.expect(nodes).await?;
                self.evict("the pods of the silent nodes", nodes).await?;
            }
            Act::Taint => {
                self.cluster.taint(nodes, true).await?;
                self.evict("the pods of the tainted nodes", nodes).await?;
            }
            Act::Evict => {
                let targets = self.cluster.pods_on(nodes).await?;
                self.observer.ledger().take_over(self.clock.wall(), nodes);
                let kubeconfig = self.cluster.kubeconfig.clone();
                plain_cpu_seconds = Some(plain::evict(kubeconfig, self.clock.clone(), targets).await?);
                self.evict("the pods of the nodes that were taken over", nodes).await?;
            }
            Act::Create => {
                self.create().await?;
                self.roll_out().await?;
                self.see_created().await?;
            }
            Act::Change => {
                self.cluster.change_daemonset().await?;
                self.roll_out().await?;
                self.see_created().await?;
            }
        }
        Ok(plain_cpu_seconds)
    }

    /// Everything is as it was, but for pods that are gone.
    async fn undo(&mut self, act: Act, nodes: &[String]) -> Result<(), String> {
        match act {
            Act::Wait | Act::Evict | Act::Create | Act::Change => {}
            Act::Silence => self.cluster.silence(nodes, false).await?,
            Act::Taint => self.cluster.taint(nodes, false).await?,
        }
        if nodes.is_empty() {
            return self.come_to_rest("the last writes", QUIET).await;
        }
        self.progress.begin("waiting for the recovery");
        let all = self.nodes.len();
        self.wait("the recovery of all nodes", self.flags.patience.get(), |stand| {
            let healthy = stand.observer.ledger().healthy();
            Ok((healthy < all).then(|| format!("{healthy} of {all} nodes are healthy")))
        })
        .await?;
        self.come_to_rest("the recovery", QUIET).await
    }

    /// Reads when the graces of silent nodes end.
    async fn expect(&mut self, nodes: &[String]) -> Result<(), String> {
        let renewals = self.cluster.renewals().await?;
        let grace = self.flags.node_monitor_grace_period.get();
        let mut ledger = self.observer.ledger();
        for name in nodes {
            let renewed = renewals.get(name).ok_or_else(|| format!("node {name} has no Lease"))?;
            ledger.expect(name, *renewed, grace);
        }
        Ok(())
    }

    /// Waits until silent nodes are Unknown and no pod is left on these.
    async fn evict(&mut self, what: &str, nodes: &[String]) -> Result<(), String> {
        let flags = self.flags;
        // Precise enough for a bound: at the slowest all nodes are in one zone.
        #[allow(clippy::cast_precision_loss)]
        let turns = Duration::from_secs_f64(nodes.len() as f64 / flags.node_eviction_rate);
        let tolerated = Duration::from_secs(flags.toleration_seconds.into());
        let bound = flags.node_monitor_grace_period.get() + tolerated + turns + flags.patience.get();
        self.wait(what, bound, |stand| {
            let ledger = stand.observer.ledger();
            let (undetected, staying) = (ledger.undetected(), ledger.staying(nodes));
            let is_open = undetected + staying > 0;
            Ok(is_open.then(|| format!("{undetected} nodes are not Unknown, {staying} pods are not deleted")))
        })
        .await
    }

    async fn create(&mut self) -> Result<(), String> {
        self.cluster.create_daemonset().await?;
        self.has_daemonset = true;
        Ok(())
    }

    /// Waits until the DaemonSet says that it is everywhere.
    async fn roll_out(&mut self) -> Result<(), String> {
        let (end, nodes) = (self.clock.now().mono + self.flags.patience.get(), self.nodes.len());
        loop {
            self.check()?;
            let set = self.cluster.daemonset().await?;
            if set.is_complete(nodes) {
                return Ok(());
            }
            let (seen, created) = (set.status.told(), self.observer.ledger().created());
            self.progress.see(&format!("{seen}, {created} pods made"));
            if self.clock.now().mono > end {
                return Err(format!("the rollout was not complete within {}: {seen}", self.flags.patience));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Waits until the pods of a rollout were seen: its end is read, and they come over a watch, which may be behind.
    async fn see_created(&mut self) -> Result<(), String> {
        let all = self.nodes.len();
        self.wait("the sight of all daemon pods", self.flags.patience.get(), |stand| {
            let created = stand.observer.ledger().created();
            Ok((created < all).then(|| format!("{created} of {all} daemon pods were seen")))
        })
        .await
    }

    /// Waits until nothing is written any more.
    async fn come_to_rest(&mut self, what: &str, quiet: Duration) -> Result<(), String> {
        self.progress.begin(&format!("waiting for the end of {what}"));
        let mut last = (self.work(), self.clock.now().mono);
        self.wait(what, self.flags.patience.get(), move |stand| {
            let (work, now) = (stand.work(), stand.clock.now().mono);
            if work != last.0 {
                last = (work, now);
            }
            let is_quiet = now.saturating_since(last.1) >= quiet;
            Ok((!is_quiet).then(|| format!("{work} writes until now")))
        })
        .await
    }

    /// Writes by now, but for those that never come to rest. Where requests are not counted, it is what changes of nodes and pods; what
    /// is written to anything else is not seen then.
    fn work(&self) -> u64 {
        let Some(counts) = self.programs.counts() else {
            return self.observer.ledger().changes();
        };
        let work = counts.iter().filter(|(kind, _)| is_work(&kind.verb, &kind.resource));
        work.map(|(_, count)| count).sum()
    }

    /// Waits until there is nothing more to wait for: `open` says what is. A process that ends ends this.
    async fn wait(
        &mut self,
        what: &str,
        bound: Duration,
        mut open: impl FnMut(&Self) -> Result<Option<String>, String>,
    ) -> Result<(), String> {
        let end = self.clock.now().mono + bound;
        loop {
            self.check()?;
            let Some(seen) = open(self)? else { return Ok(()) };
            self.progress.see(&seen);
            if self.clock.now().mono > end {
                return Err(format!("{what} did not come about within {} s: {seen}", bound.as_secs()));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    fn check(&mut self) -> Result<(), String> {
        self.cluster.program.check()?;
        self.programs.check()
    }

    fn since(&self, began: Mono) -> f64 {
        self.clock.now().mono.saturating_since(began).as_secs_f64()
    }

    fn sample(&self) -> Result<Sample, String> {
        let own = Usage::of(std::process::id())?;
        Ok(Sample {
            at: self.clock.now().mono,
            measured: self.programs.usage()?,
            others: BTreeMap::from([
                (self.cluster.name().to_owned(), self.cluster.usage()?),
                ("bench".to_owned(), own),
            ]),
            shared: self.programs.shared()?,
            counts: self.programs.counts(),
        })
    }
}

/// What a situation came to.
fn played(
    line: Line,
    nodes: usize,
    seconds: f64,
    (before, after): (&Sample, &Sample),
    seen: Seen,
    plain_cpu_seconds: Option<f64>,
) -> Played {
    let watched = after.at.saturating_since(before.at).as_secs_f64();
    let process = |is_measured: bool| {
        let of = move |sample: &Sample| {
            if is_measured {
                sample.measured.clone()
            } else {
                sample.others.clone()
            }
        };
        let (earlier, later) = (of(before), of(after));
        later.into_iter().map(move |(name, usage)| {
            let earlier = earlier.get(&name).copied().unwrap_or_default();
            Process::between(&name, is_measured, &earlier, &usage, watched)
        })
    };
    let processes: Vec<Process> = process(true).chain(process(false)).collect();
    let counts = before.counts.as_ref().zip(after.counts.as_ref());
    let requests = counts.map(|(before, after)| report::requests(figures::between(before, after)));
    let (evicted, evictions) = (seen.evicted.len() + seen.unseen, seen.evictions());
    let are_due_together = matches!(line.act, Act::Taint | Act::Evict);
    let evictions_per_second = seen.evictions_per_second().filter(|_| are_due_together);
    let mut played = Played {
        situation: line.situation,
        nodes,
        seconds,
        sum: Process::sum(&processes, (before.shared, after.shared)),
        shared: after.shared,
        processes,
        requests,
        detection: Latency::of(seen.detections),
        eviction: Latency::of(evictions),
        creation: Latency::of(seen.creations),
        evictions_per_second,
        plain_cpu_seconds,
        requests_per_eviction: None,
        early: seen.early,
    };
    // Both are far below what a float holds exactly.
    #[allow(clippy::cast_precision_loss)]
    if let Some(requests) = played.requests_for_it().filter(|_| line.act != Act::Evict) {
        played.requests_per_eviction = figures::ratio(requests as f64, evicted as f64);
    }
    played
}
