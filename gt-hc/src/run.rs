//! `gt-hc run`: the server, from its start to SIGTERM and the end of the drain.

use std::{
    io,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use tokio::{
    runtime::{Builder, Runtime},
    signal::unix::{Signal, SignalKind, signal},
};

use crate::{
    drain::{self, Times},
    envoy::Admin,
    exit::Exit,
    log::{Line, Log},
    seconds, server,
    settings::Settings,
    sidecar::Sidecar,
};

/// After a drain that came to its end only now: whoever follows it asks for the outcome.
const LINGER: Duration = Duration::from_secs(1);

/// For the last lines of the log.
const LOG_TIME: Duration = Duration::from_secs(1);

/// Serves until SIGTERM and the end of the drain, or SIGINT. One thread: an answer costs microseconds.
pub fn run(settings: Settings) -> Result<ExitCode, String> {
    let runtime = runtime()?;
    let (log, writer) = Log::start(io::stdout());
    let exit = runtime.block_on(serve(settings, log));
    // Every holder of the log goes with the tasks.
    drop(runtime);
    writer.finish(LOG_TIME);
    exit.map(ExitCode::from)
}

/// What runs the tasks of a command: one thread.
pub fn runtime() -> Result<Runtime, String> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}; is the limit of open files reached?"))
}

async fn serve(settings: Settings, log: Log) -> Result<Exit, String> {
    let no_signals = |error| format!("cannot take signals: {error}");
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let listener = server::listen(settings.listen).await.map_err(|error| error.to_string())?;
    let address = listener.local_addr().map_err(|error| format!("no address to listen on: {error}"))?;

    let sidecar = Sidecar::new(log);
    sidecar.log().tell(
        Line::new(SystemTime::now(), "listening")
            .with("address", address)
            .with("state", sidecar.view().state())
            .with("version", env!("CARGO_PKG_VERSION"))
            .with("drain_timeout", seconds::show(settings.drain_timeout))
            .with("lb_buffer", seconds::show(settings.lb_buffer))
            .with("poll_interval", seconds::show(settings.poll_interval))
            .with("envoy_admin", settings.envoy_admin),
    );
    let times = Times::from(&settings);
    let admin = Admin { address: settings.envoy_admin, ignored: settings.ignored };
    let served = tokio::spawn(server::serve(listener, sidecar.clone()));
    let driven = tokio::spawn(drain::drive(sidecar.clone(), admin, times));
    let ended = tokio::select! {
        exit = signals(&sidecar, &mut terminate, &mut interrupt) => Ok(exit),
        end = served => Err(format!("the server ended: {end:?}")),
        end = driven => Err(format!("the drain's task ended: {end:?}")),
    };
    if let Ok(exit) = ended {
        let state = sidecar.view().state();
        sidecar
            .log()
            .tell(Line::new(SystemTime::now(), "stopped").with("state", state).with("exit", exit.code()));
    }
    ended
}

/// SIGTERM: drains, or lets the drain that is on come to its end. SIGINT, or a second SIGTERM: ends at once.
async fn signals(sidecar: &Sidecar, terminate: &mut Signal, interrupt: &mut Signal) -> Exit {
    let tell = |signal: &str| {
        let state = sidecar.view().state();
        sidecar
            .log()
            .tell(Line::new(SystemTime::now(), "signal").with("signal", signal).with("state", state));
    };
    tokio::select! {
        _ = terminate.recv() => tell("SIGTERM"),
        _ = interrupt.recv() => {
            tell("SIGINT");
            return Exit::Interrupted;
        }
    }
    sidecar.stop();
    tokio::select! {
        () = sidecar.over(LINGER) => sidecar.view().exit(),
        _ = terminate.recv() => {
            tell("SIGTERM");
            Exit::Interrupted
        }
        _ = interrupt.recv() => {
            tell("SIGINT");
            Exit::Interrupted
        }
    }
}
