//! The process: allocator, runtime, signals, exit codes. Everything else is in the library.
#![deny(unsafe_code)]

use clap::Parser as _;
use guildhall::cli::{self, Cli, Command, Failure};
use std::{future::Future, process::ExitCode, time::Duration};
use tokio::signal::unix::{Signal, SignalKind, signal};

#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Time limit for blocking work that is still running after everything else has ended.
const RUNTIME_END: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Usage(error)) => complain(&error, 2),
        Err(Failure::Other(error)) => complain(&error, 1),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    if command.keeps_secrets() {
        // Files that the process creates are readable by its user only, also in a directory that others may read.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    }
    // Names and values that are not text cannot be ours.
    let environment = std::env::vars_os().filter_map(|(n, v)| Some((n.into_string().ok()?, v.into_string().ok()?)));
    let environment = environment.collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let stop = stop_signal()?;
        let _unused = ignore_signals()?;
        cli::run(command, environment, stop).await
    });
    // A part that did not stop in time must not delay the end of the process.
    runtime.shutdown_timeout(RUNTIME_END);
    done
}

/// The first SIGTERM or SIGINT; a second one ends the process at once.
fn stop_signal() -> std::io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! { _ = terminate.recv() => (), _ = interrupt.recv() => () }
        tokio::spawn(async move {
            tokio::select! { _ = terminate.recv() => (), _ = interrupt.recv() => () }
            std::process::exit(1);
        });
    })
}

/// Handles signals that would end the process by default and have no meaning here. Scripts that rotate logs send them.
fn ignore_signals() -> std::io::Result<[Signal; 2]> {
    Ok([signal(SignalKind::user_defined1())?, signal(SignalKind::user_defined2())?])
}

/// Prints an error with all its causes.
fn complain(error: &anyhow::Error, code: u8) -> ExitCode {
    eprintln!("guildhall: {error}");
    for cause in error.chain().skip(1) {
        eprintln!("  because {cause}");
    }
    ExitCode::from(code)
}
