//! A bus over etcd as long as the process lives: connects, serves, and begins again when the data are not what they were.

use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bailiff_runtime::shutdown::chain;
use bailiff_runtime::{Clock, Seed};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::driver::{Config, connect};
use super::{Etcd, Standing};
use crate::engine::Engine as _;
use crate::server::Server;

/// Pause before etcd is tried again; a member that is down refuses at once.
const AGAIN_AFTER: Duration = Duration::from_millis(500);
/// An entry that has not come back for so long is worth saying: etcd has had the time to elect a leader.
const WAITING_FOR_LONG: Duration = Duration::from_secs(4);

/// How the bus is doing, to be read from elsewhere. Its clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Status {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug, Default)]
struct Inner {
    /// Why there is no bus, if there is none.
    trouble: Option<String>,
    standing: Option<Arc<Mutex<Standing>>>,
    /// How often a bus was begun.
    starts: u64,
}

/// Serves `server` with engines over etcd, one after another. Ends when it is dropped.
pub async fn serve(config: &Config, server: &Server, clock: &Clock, seed: &Seed, status: &Status) -> Infallible {
    status.set(Some("not connected to etcd yet".to_owned()), None);
    let mut known = Known::default();
    loop {
        match connect(config, seed, || clock.now()).await {
            Ok((engine, driver)) if known.is_further_than(&engine) => {
                let ended = driver.begin_anew().await;
                status.set(Some(chain(&ended)), None);
            }
            Ok((engine, driver)) => {
                let (incarnation, standing) = (engine.incarnation().to_owned(), engine.standing());
                let driving = driver.run();
                tokio::pin!(driving);
                status.set(Some("the replica has not joined yet".to_owned()), None);
                let ended = tokio::select! {
                    biased;
                    ended = &mut driving => ended,
                    engine = joined(engine, clock) => {
                        let (wake, standing) = (engine.wake(), engine.standing());
                        tracing::info!(incarnation = engine.incarnation(), head = engine.head().0, "Replica of the bus is open");
                        server.install(Box::new(engine), Some(wake));
                        status.set(None, Some(standing));
                        driving.await
                    }
                };
                tracing::warn!(reason = chain(&ended), "Bus over etcd has ended: beginning again");
                let position = standing.lock().unwrap_or_else(PoisonError::into_inner).position;
                known = Known { incarnation, position };
                status.set(Some(chain(&ended)), None);
                server.kill();
            }
            Err(error) => {
                let reason = chain(&error);
                tracing::warn!(reason, "etcd cannot be used yet");
                status.set(Some(reason), None);
            }
        }
        tokio::time::sleep(AGAIN_AFTER).await;
    }
}

/// How far this process has read of a bus.
#[derive(Debug, Default)]
struct Known {
    incarnation: String,
    position: u64,
}

impl Known {
    /// True if the same bus does not know any more what was read of it.
    fn is_further_than(&self, engine: &Etcd) -> bool {
        self.incarnation == engine.incarnation() && self.position > engine.position()
    }
}

/// The engine, once it takes part. Nobody uses it before, so nothing comes of its steps.
async fn joined(mut engine: Etcd, clock: &Clock) -> Etcd {
    let wake = engine.wake();
    loop {
        engine.poll(clock.now());
        if engine.is_member() {
            return engine;
        }
        wake.notified().await;
    }
}

// === impl Status ===

impl Status {
    /// Why the bus is not ready, in one sentence; `None` if it is.
    pub fn trouble(&self) -> Option<String> {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.trouble.is_some() {
            return inner.trouble.clone();
        }
        let Some(standing) = self.standing_of(&inner) else {
            return Some("not connected to etcd yet".to_owned());
        };
        if standing.waiting >= WAITING_FOR_LONG {
            let seconds = standing.waiting.as_secs();
            return Some(format!(
                "etcd has not confirmed an entry for {seconds} s: no quorum, it cannot be reached, or it refuses"
            ));
        }
        (!standing.is_member).then(|| "the other replicas count this one as gone".to_owned())
    }

    /// How the replica is doing, and how often one was begun.
    pub fn standing(&self) -> (Standing, u64) {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        (self.standing_of(&inner).unwrap_or_default(), inner.starts)
    }

    fn standing_of(&self, inner: &Inner) -> Option<Standing> {
        let standing = inner.standing.as_ref()?;
        Some(*standing.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, trouble: Option<String>, standing: Option<Arc<Mutex<Standing>>>) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.starts += u64::from(standing.is_some());
        (inner.trouble, inner.standing) = (trouble, standing);
    }
}

impl Collector for Status {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let (standing, starts) = self.standing();
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let gauges = [
            ("joined", "1 while the replica takes part", i64::from(standing.is_member)),
            (
                "log_entries",
                "Entries in the log since the last snapshot",
                number(standing.entries),
            ),
            (
                "log_bytes",
                "Bytes in the log since the last snapshot",
                number(standing.bytes),
            ),
            (
                "snapshot_bytes",
                "Bytes of the last snapshot",
                number(standing.snapshot_bytes),
            ),
        ];
        for (name, help, value) in gauges {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)?;
        }
        let help = "How long the oldest own entry has waited to come back out of the log";
        let metric = encoder.encode_descriptor("unconfirmed_seconds", help, None, MetricType::Gauge)?;
        ConstGauge::new(standing.waiting.as_secs_f64()).encode(metric)?;
        let counters = [
            (
                "malformed_entries",
                "Entries of the log that this format does not know",
                standing.malformed,
            ),
            (
                "append_failures",
                "How often etcd did not take an entry when it was asked to",
                standing.append_failures,
            ),
            ("starts", "How often the replica joined a bus anew", starts),
        ];
        for (name, help, value) in counters {
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(value).encode(metric)?;
        }
        Ok(())
    }
}
