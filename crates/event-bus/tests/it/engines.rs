//! The engines that the same tests run on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use bailiff_event_bus::engine::etcd::{Config, connect};
use bailiff_event_bus::engine::{Command, Effect, Engine, Etcd, Limits, Memory, Ticket};
use bailiff_event_bus::{ShardStatus, engine};
use bailiff_model::Now;
use bailiff_runtime::Seed;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

use crate::etcd_process::Cluster;

#[path = "../shared/handing_on.rs"]
pub mod handing_on;

use self::handing_on::{Handing, HandsOn};

/// An engine to test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Memory,
    Etcd,
}

/// Makes tests of a function: one on every engine. Where there is no etcd, that one says so and does nothing.
macro_rules! on_every_engine {
    ($name:ident) => {
        mod $name {
            use crate::engines::Kind;

            #[test]
            fn on_memory() {
                super::$name(Kind::Memory);
            }

            #[test]
            fn on_etcd() {
                if crate::etcd_process::is_installed() {
                    super::$name(Kind::Etcd);
                }
            }
        }
    };
    (async $name:ident) => {
        mod $name {
            use crate::engines::Kind;

            #[tokio::test(start_paused = true)]
            async fn on_memory() {
                super::$name(Kind::Memory).await;
            }

            #[tokio::test(start_paused = true)]
            async fn on_etcd() {
                if crate::etcd_process::is_installed() {
                    super::$name(Kind::Etcd).await;
                }
            }
        }
    };
}
pub(crate) use on_every_engine;

/// How long a real etcd may take for one step of a test. Nothing is asserted about it.
const PATIENCE: Duration = Duration::from_secs(60);

impl Kind {
    /// A new bus of this incarnation, where the engine lets others choose it.
    pub fn engine(self, incarnation: String, limits: &Limits, now: Now) -> Box<dyn Engine> {
        match self {
            Self::Memory => Box::new(Memory::new(incarnation, limits.clone())),
            Self::Etcd => Box::new(Handing(Synchronous::new(limits.clone(), now))),
        }
    }
}

/// The engine over etcd for whoever turns the clock: it answers at once, after as much real time as etcd needs, in which no time of
/// the test passes. Its driver works in a runtime of its own.
struct Synchronous {
    engine: Etcd,
    woken: Receiver<()>,
    tasks: [AbortHandle; 2],
}

impl Synchronous {
    fn new(limits: Limits, now: Now) -> Self {
        static PREFIXES: AtomicU64 = AtomicU64::new(0);
        let number = PREFIXES.fetch_add(1, Ordering::Relaxed);
        let config = Config {
            prefix: format!("/test-{number}/"),
            limits,
            ..Config::new(shared_cluster().endpoints())
        };
        let (tx, rx) = sync_channel(1);
        runtime().spawn(async move {
            loop {
                match connect(&config, &Seed::new(number), || now).await {
                    Ok(connected) => return tx.send(connected).unwrap(),
                    Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                }
            }
        });
        let (engine, driver) = rx.recv_timeout(PATIENCE).expect("etcd is there");
        let driving = runtime().spawn(async move {
            Box::pin(driver.run()).await;
        });
        let (tx, woken) = sync_channel(1);
        let wake = engine.wake();
        let waking = runtime().spawn(async move {
            loop {
                wake.notified().await;
                // One that waits already will do.
                let _ = tx.try_send(());
            }
        });
        let mut synchronous = Self {
            engine,
            woken,
            tasks: [driving.abort_handle(), waking.abort_handle()],
        };
        while !synchronous.engine.is_member() {
            synchronous.wait(now);
        }
        synchronous
    }

    fn wait(&mut self, now: Now) -> Vec<Effect> {
        self.woken.recv_timeout(PATIENCE).expect("etcd answers");
        self.engine.poll(now)
    }
}

impl Drop for Synchronous {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl HandsOn for Synchronous {
    type To = Etcd;

    fn to(&self) -> &Etcd {
        &self.engine
    }

    fn to_mut(&mut self) -> &mut Etcd {
        &mut self.engine
    }

    fn apply(&mut self, ticket: Ticket, command: Command, now: Now) -> Vec<Effect> {
        let mut effects = self.engine.poll(now);
        effects.extend(self.engine.apply(ticket, command, now));
        let is_answer = |effect: &Effect| matches!(effect, Effect::Answer { ticket: answered, .. } if *answered == ticket);
        while !effects.iter().any(is_answer) {
            effects.extend(self.wait(now));
        }
        effects
    }

    /// Nobody else writes to it.
    fn may_lag(&self) -> bool {
        false
    }

    fn is_cut_off(&self, _: Now) -> bool {
        false
    }
}

/// Where drivers work: real time, apart from the tests' own.
pub fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2).enable_all().build().unwrap()
    })
}

/// One etcd for all tests that do nothing to it but use it.
pub fn shared_cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| Cluster::start(1))
}
