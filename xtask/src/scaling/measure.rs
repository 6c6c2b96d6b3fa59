//! What is done with a system, and what is read from it meanwhile.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use bailiff_processes::{Usage, metrics};

use super::flags::Flags;
use super::system::{Stage, System};

/// After a change until what it caused has come to rest.
const REST: Duration = Duration::from_secs(5);

/// What one process used.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Process {
    pub(crate) name: String,
    /// Shards it led.
    pub(crate) shards: usize,
    /// Share of a processor while nothing happened but renewals.
    pub(crate) steady: f64,
    /// Memory then, and the most until everything was over, MiB.
    pub(crate) memory: f64,
    pub(crate) peak: f64,
    /// Seconds of a processor that the failure took, above what renewals take anyway.
    pub(crate) failure: f64,
}

/// How long something took to be followed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failover {
    pub(crate) stage: &'static str,
    /// Seconds from the kill until another leads, and until that one works.
    pub(crate) led: f64,
    pub(crate) ready: f64,
}

/// What came of a number of shards.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Run {
    pub(crate) shards: u32,
    /// Seconds from the start of all replicas until they were ready.
    pub(crate) start: f64,
    /// Changes of Leases a second, as each leading monitor was told them.
    pub(crate) renewals: f64,
    pub(crate) processes: Vec<Process>,
    /// Verdicts and taints a second, from the first to the last, and records on topic `node-health` in all.
    pub(crate) verdicts: f64,
    pub(crate) taints: f64,
    pub(crate) records: f64,
    pub(crate) failovers: Vec<Failover>,
}

/// What all processes used until a moment.
struct Sample {
    at: Instant,
    used: BTreeMap<String, Usage>,
}

/// Something that grows from one value to another, and when it was first and last seen to.
struct Growth {
    begin: f64,
    whole: f64,
    value: f64,
    first: Option<(Instant, f64)>,
    last: Option<Instant>,
}

/// Starts a system, measures it and ends it.
pub(crate) fn play(flags: &Flags, shards: u32, binaries: &Path, tell: &mut dyn FnMut(&str)) -> Result<Run, String> {
    tell(&format!("starting a sandbox of {} nodes", flags.nodes));
    let mut system = System::start(flags, shards, binaries)?;
    let mut run = Run {
        shards,
        ..Run::default()
    };
    tell(&format!("starting {} replicas of each stage", flags.replicas_of(shards)));
    let began = Instant::now();
    for _ in 0..flags.replicas_of(shards) {
        Stage::ALL.iter().try_for_each(|&stage| system.add(stage))?;
    }
    system.settle()?;
    run.start = began.elapsed().as_secs_f64();
    // New nodes had a taint, and have it no more.
    system.until("the end of all writes", has_written)?;
    std::thread::sleep(REST);
    tell(&format!("watching renewals for {} s", flags.seconds));
    let renewals = renew(flags, &mut system, &mut run)?;
    tell(&format!("{renewals:.0} renewals/s; {} nodes fail", flags.failing));
    fail(flags, &mut system, &mut run, tell)?;
    tell(&format!(
        "{:.0} verdicts/s, {:.0} taints/s; the nodes are back",
        run.verdicts, run.taints
    ));
    recover(flags, &mut system)?;
    for kill in 0..flags.kills {
        for stage in Stage::ALL {
            tell(&format!("kill {} of {}: {}", kill + 1, flags.kills, stage.name()));
            run.failovers.push(follow(&mut system, stage)?);
        }
    }
    Ok(run)
}

/// Nothing happens but what always does.
fn renew(flags: &Flags, system: &mut System, run: &mut Run) -> Result<f64, String> {
    let monitor = system.leader(Stage::Monitor).ok_or("nobody leads")?;
    let shards = system.replicas[monitor].program.leads().len();
    // Each shard has a watch of its own.
    let told = |system: &System| {
        let labels = [("resource", "leases")];
        let monitor = &system.replicas[monitor];
        Ok::<_, String>(monitor.total("node_health_monitor_kube_client_watch_events_total", &labels)? / shards as f64)
    };
    let (before, first) = (sample(system)?, told(system)?);
    std::thread::sleep(Duration::from_secs(flags.seconds.into()));
    let (after, last) = (sample(system)?, told(system)?);
    let seconds = after.since(&before);
    run.renewals = (last - first) / seconds;
    let mut shards: BTreeMap<&str, usize> = BTreeMap::new();
    for replica in &system.replicas {
        shards.insert(&replica.program.name, replica.program.leads().len());
    }
    for (name, usage) in &after.used {
        run.processes.push(Process {
            name: name.clone(),
            shards: shards.get(name.as_str()).copied().unwrap_or_default(),
            steady: after.cpu_since(&before, name) / seconds,
            memory: usage.memory,
            ..Process::default()
        });
    }
    Ok(run.renewals)
}

/// Nodes fail together. What the sandbox and the others do to learn of it is left out.
fn fail(flags: &Flags, system: &mut System, run: &mut Run, tell: &mut dyn FnMut(&str)) -> Result<(), String> {
    let began = Instant::now();
    system.set_failing(true)?;
    std::thread::sleep(REST);
    tell(&format!("they are silent since {:.0} s", began.elapsed().as_secs_f64()));
    let before = sample(system)?;
    let records = |system: &System| {
        let text = system.event_bus.metrics()?;
        let labels = [("topic", "node-health")];
        Ok::<_, String>(metrics::sum(&text, "event_bus_published_records_total", &labels))
    };
    let first = records(system)?;
    let mut verdicts = Growth::from(verdicts_of(system)?, flags.failing);
    let mut taints = Growth::from(patches_of(system)?, flags.failing);
    system.until("a verdict and a taint for each of them", |system| {
        verdicts.see(verdicts_of(system)?);
        taints.see(patches_of(system)?);
        Ok(verdicts.is_whole() && taints.is_whole() && has_written(system)?)
    })?;
    std::thread::sleep(REST);
    let after = sample(system)?;
    (run.verdicts, run.taints) = (verdicts.rate(), taints.rate());
    run.records = records(system)? - first;
    for process in &mut run.processes {
        let usual = process.steady * after.since(&before);
        process.failure = (after.cpu_since(&before, &process.name) - usual).max(0.0);
        process.peak = after.used.get(&process.name).map_or(0.0, |usage| usage.peak);
    }
    Ok(())
}

/// They are back, and nothing of it is left.
fn recover(flags: &Flags, system: &mut System) -> Result<(), String> {
    let mut taints = Growth::from(patches_of(system)?, flags.failing);
    system.set_failing(false)?;
    system.until("the recovery of all nodes", |system| {
        taints.see(patches_of(system)?);
        Ok(taints.is_whole() && has_written(system)?)
    })
}

/// Verdicts that stand in the API.
fn verdicts_of(system: &System) -> Result<f64, String> {
    let labels = [("result", "stored")];
    system.total(Stage::Monitor, "node_health_monitor_status_writes_total", &labels)
}

/// Nodes that were patched: a taint came, or went.
fn patches_of(system: &System) -> Result<f64, String> {
    let labels = [("request", "patch_node"), ("result", "done")];
    system.total(Stage::Taints, "taint_manager_requests_total", &labels)
}

/// Nothing waits to be written.
fn has_written(system: &System) -> Result<bool, String> {
    Ok(system.total(Stage::Taints, "taint_manager_waiting_writes", &[])? < 1.0)
}

/// The holder of a shard is killed, and another comes in its place.
fn follow(system: &mut System, stage: Stage) -> Result<Failover, String> {
    system.settle()?;
    let holder = system.leader(stage).ok_or("nobody leads")?;
    let mut holder = system.replicas.remove(holder);
    let killed = Instant::now();
    holder.program.kill();
    drop(holder);
    // The dead are not counted: without a replica that stands by, somebody leads more than before.
    system.until("another leader", |system| Ok(system.leader(stage).is_some()))?;
    let leader = system.leader(stage).ok_or("nobody leads")?;
    let led = system.replicas[leader].program.led_last().unwrap_or(killed);
    system.until("the work of another leader", |system| Ok(system.replicas[leader].is_ready()))?;
    let failover = Failover {
        stage: stage.name(),
        led: (led - killed).as_secs_f64(),
        ready: killed.elapsed().as_secs_f64(),
    };
    system.add(stage)?;
    Ok(failover)
}

fn sample(system: &System) -> Result<Sample, String> {
    let replicas = system.replicas.iter().map(|replica| &replica.program);
    let programs = [&system.sandbox, &system.event_bus].into_iter().chain(replicas);
    let used = programs.map(|program| Ok((program.name.clone(), program.usage()?)));
    Ok(Sample {
        used: used.collect::<Result<_, String>>()?,
        at: Instant::now(),
    })
}

impl Sample {
    fn since(&self, before: &Self) -> f64 {
        (self.at - before.at).as_secs_f64()
    }

    fn cpu_since(&self, before: &Self, name: &str) -> f64 {
        let cpu = |sample: &Self| sample.used.get(name).map_or(0.0, |usage| usage.cpu);
        cpu(self) - cpu(before)
    }
}

impl Growth {
    fn from(begin: f64, by: u32) -> Self {
        Self {
            begin,
            whole: begin + f64::from(by),
            value: begin,
            first: None,
            last: None,
        }
    }

    fn see(&mut self, value: f64) {
        self.see_at(value, Instant::now());
    }

    fn see_at(&mut self, value: f64, at: Instant) {
        if value > self.begin && self.first.is_none() {
            self.first = Some((at, value));
        }
        if value > self.value {
            self.last = Some(at);
        }
        self.value = value;
    }

    fn is_whole(&self) -> bool {
        self.value >= self.whole
    }

    /// A second, between the first look that saw any and the one that saw the last.
    fn rate(&self) -> f64 {
        match (self.first, self.last) {
            (Some((first, value)), Some(last)) if last > first => (self.value - value) / (last - first).as_secs_f64(),
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_of_the_time_in_which_something_grew() {
        let zero = Instant::now();
        let mut growth = Growth::from(5.0, 90);
        for (second, value) in [(0, 5.0), (10, 15.0), (11, 55.0), (12, 95.0), (13, 95.0)] {
            assert!(!growth.is_whole() || second == 13);
            growth.see_at(value, zero + Duration::from_secs(second));
        }
        assert!(growth.is_whole() && (growth.rate() - 40.0).abs() < 1e-9, "{}", growth.rate());
        assert!(Growth::from(1.0, 1).rate().abs() < 1e-9, "nothing was seen");
    }
}
