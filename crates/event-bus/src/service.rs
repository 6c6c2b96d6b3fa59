//! The bus as a process of its own: command line, port, metrics, shutdown.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use bailiff_runtime::args::{DEFAULT_BUS_PORT, TlsArgs, exit_invalid, go_bool, listen_address};
use bailiff_runtime::port::{self, Bounds, Port};
use bailiff_runtime::shutdown::complain;
use bailiff_runtime::{
    Clock, CommonArgs, DeathPolicy, Metrics, Readiness, Seed, Shutdown, Tasks, Ticks, Tls, admin, parse_or_exit, single_threaded,
    telemetry,
};
use clap::{ArgAction, Parser};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::access::Roles;
use crate::engine::etcd;
use crate::server::{Server, ServerOptions};

mod engine;

use self::engine::Engine;
pub use self::engine::EngineFlags;

/// Name in telemetry and health.
const NAME: &str = "event-bus";

/// How often it is looked, at least, whether etcd answers.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The event bus: carries decisions from stage to stage.
#[derive(Clone, Debug, Parser)]
#[command(name = "event-bus", version)]
pub struct Args {
    /// Where the bus is served; port 0 takes any free one and logs it
    #[arg(long, env = "BAILIFF_LISTEN", default_value_t = default_listen(), value_parser = listen_address, value_name = "ADDRESS")]
    pub listen: SocketAddr,

    /// Serve plain text also beyond this machine
    #[arg(
        long, env = "BAILIFF_INSECURE", default_value = "false", value_name = "BOOL", action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", value_parser = go_bool
    )]
    pub insecure: bool,

    /// Table of roles in YAML: who may publish, subscribe, read and reset which topics. It replaces the built-in one, and needs TLS
    #[arg(long, env = "BAILIFF_ROLES", value_name = "FILE")]
    pub roles: Option<PathBuf>,

    /// TLS.
    #[command(flatten)]
    pub tls: TlsArgs,

    /// What keeps it.
    #[command(flatten)]
    pub engine: EngineFlags,

    /// The process.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Why the bus could not start.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot set up telemetry")]
    Telemetry(#[source] telemetry::Error),
    #[error("cannot serve the admin port")]
    Admin(#[source] admin::Error),
    #[error("cannot listen on '{address}' for '--listen'")]
    Bind { address: SocketAddr, source: std::io::Error },
    #[error("cannot listen for signals")]
    Signals(#[source] std::io::Error),
    #[error("cannot start the runtime")]
    Runtime(#[source] std::io::Error),
}

/// Runs the binary: parses the command line, and [serves](serve).
pub fn main() -> ExitCode {
    serve(parse_or_exit())
}

/// Runs the bus as this process, until told to stop; answers the exit code.
pub fn serve(args: Args) -> ExitCode {
    if let Err(error) = args.check() {
        exit_invalid(&error);
    }
    let engine = match args.engine.read(args.insecure, &Clock::system()) {
        Ok(engine) => engine,
        Err(error) => exit_invalid(&error),
    };
    // One thread, as the engine is one: to wake another one for each record costs more than to encode it there. Stages wait for it, so
    // nothing that comes does.
    let served = match single_threaded(None) {
        Ok(runtime) => runtime.block_on(run(args, engine)),
        Err(source) => Err(Error::Runtime(source)),
    };
    served.unwrap_or_else(|error| {
        complain(&error);
        ExitCode::FAILURE
    })
}

impl Args {
    fn check(&self) -> Result<(), bailiff_runtime::args::Error> {
        let ports = [("listen", self.listen), ("admin-listen", self.common.admin_listen)];
        self.tls.check(self.insecure, &ports)?;
        match &self.roles {
            Some(roles) if self.tls.paths().is_none() => {
                let allowed = "allowed only with --tls-cert-file: without TLS nobody knows who a caller is";
                Err(bailiff_runtime::args::Error::new("roles", roles.display(), allowed))
            }
            _ => Ok(()),
        }
    }
}

async fn run(args: Args, engine: Engine) -> Result<ExitCode, Error> {
    let Args {
        listen,
        insecure: _,
        roles,
        tls,
        engine: _,
        common,
    } = args;
    let clock = Clock::system();
    let tls = tls.load(&clock).unwrap_or_else(|error| exit_invalid(&error));
    let roles = roles.as_deref().map(Roles::load).transpose();
    let roles = roles.unwrap_or_else(|error| exit_invalid(&error)).unwrap_or_default();
    let seed = common.seed();
    let telemetry = telemetry::init(NAME, &bailiff_runtime::identity(&seed), &common, tls.as_ref()).map_err(Error::Telemetry)?;
    let admin_port = admin::bind(common.admin_listen).await.map_err(Error::Admin)?;
    let refuse = |source| Error::Bind { address: listen, source };
    let listener = TcpListener::bind(listen).await.map_err(refuse)?;
    let address = listener.local_addr().map_err(refuse)?;
    let shutdown = Shutdown::new();
    shutdown.on_signals().map_err(Error::Signals)?;
    let tasks = Tasks::new(shutdown.clone());
    let (metrics, readiness) = (Metrics::new(), Readiness::new(&clock));
    telemetry.spans().register(&metrics);
    let serving = readiness.check("event bus");

    let server = open(engine, &clock, &seed, &metrics, &readiness, &tasks);
    metrics.register("event_bus", |registry| server.register(registry));
    tracing::info!(%address, admin = %admin_port.address(), incarnation = server.incarnation(), "Event bus is open");
    let ports = port::Metrics::register(&metrics);
    if let Some(tls) = &tls {
        tls.attend(&metrics, &readiness, &tasks);
    }
    let admin_stop = serve_admin(admin_port, admin::router(readiness, metrics), tls.clone(), ports.clone());
    let port = Port::grpc("bus", listener, tls, Bounds::BUS, &ports);
    let bus = server.serve_port(port, roles, shutdown.token().clone());
    tasks.spawn_infallible("grpc", DeathPolicy::EndProcess, bus);
    serving.ok();

    shutdown.triggered().await;
    serving.fail("shutting down");
    let unfinished = tasks.drain(common.drain_timeout.get()).await;
    telemetry.shutdown(Duration::from_secs(2)).await;
    admin_stop.cancel();
    if let Some(failure) = shutdown.failure() {
        tracing::error!(failure, "Ended because of a failure");
    }
    Ok(ExitCode::from(u8::from(
        shutdown.failure().is_some() || !unfinished.is_empty(),
    )))
}

/// Serves the admin port until the token is cancelled: last and on its own, so that a draining bus still answers.
fn serve_admin(port: admin::Bound, router: axum::Router, tls: Option<Tls>, ports: port::Metrics) -> CancellationToken {
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    tokio::spawn(async move { port.serve(router, tls, &ports, stopped).await });
    stop
}

/// The bus, and over etcd the task that serves it with engines.
fn open(engine: Engine, clock: &Clock, seed: &Seed, metrics: &Metrics, readiness: &Readiness, tasks: &Tasks) -> Server {
    let Engine::Etcd(config, files) = engine else {
        return Server::new(ServerOptions::default(), clock, seed);
    };
    let server = Server::idle(ServerOptions::default(), clock, seed);
    let status = etcd::Status::default();
    let exported = status.clone();
    metrics.register("event_bus_etcd", |registry| registry.register_collector(Box::new(exported)));
    let (of, clock, seed) = (server.clone(), clock.clone(), seed.fork("etcd"));
    let watched = status.clone();
    let (stop, until) = (tasks.shutdown().token().clone(), tasks.shutdown().token().clone());
    tasks.spawn_infallible("etcd", DeathPolicy::EndProcess, async move {
        let serving = Box::pin(etcd::serve(&config, &of, &clock, &seed, &watched));
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            never = serving => match never {},
        }
    });
    if let Some(files) = files {
        let watch = files.watch(readiness.check("etcd TLS files"), tasks.shutdown().token().clone());
        tasks.spawn_infallible("etcd TLS files", DeathPolicy::EndProcess, watch);
    }
    let (check, mut every) = (readiness.check("etcd"), Ticks::new(readiness.clock(), LOOK_EVERY));
    tasks.spawn_infallible("etcd readiness", DeathPolicy::EndProcess, async move {
        loop {
            tokio::select! {
                biased;
                () = until.cancelled() => return,
                () = every.tick() => {}
            }
            match status.trouble() {
                Some(reason) => check.fail(reason),
                None => check.ok(),
            }
        }
    });
    server
}

fn default_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], DEFAULT_BUS_PORT))
}

#[cfg(test)]
mod tests {
    use bailiff_runtime::args::parse_from;
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed_and_listens_on_loopback() {
        Args::command().debug_assert();
        let args: Args = parse_from(["event-bus"]).expect("defaults are allowed");
        assert!(args.listen.ip().is_loopback() && !args.insecure);
        assert_eq!(args.check(), Ok(()));
    }

    #[test]
    fn every_flag_is_an_environment_variable() {
        // What is asked of one call is no setting.
        let is_setting = |arg: &&clap::Arg| arg.get_long().is_some_and(|long| long != "print-config");
        for arg in Args::command().get_arguments().filter(is_setting) {
            assert!(arg.get_env().is_some(), "{arg:?}");
        }
    }

    #[test]
    fn plain_text_beyond_this_machine_needs_a_flag() {
        let parse = |flags: &[&str]| -> Args { parse_from(std::iter::once(&"event-bus").chain(flags)).expect("well-formed") };
        assert!(
            parse(&["--roles", "roles.yaml"]).check().is_err(),
            "nobody knows who a caller is"
        );
        for flag in ["--listen", "--admin-listen"] {
            let refused = parse(&[flag, "0.0.0.0:7460"]).check().expect_err("reachable from elsewhere");
            assert!(refused.to_string().contains(flag), "{refused}");
            assert_eq!(parse(&[flag, "0.0.0.0:7460", "--insecure"]).check(), Ok(()));
            let files = ["--tls-cert-file=a", "--tls-private-key-file=b", "--tls-ca-file=c"];
            assert_eq!(parse(&[&[flag, "0.0.0.0:7460"], &files[..]].concat()).check(), Ok(()));
        }
    }
}
