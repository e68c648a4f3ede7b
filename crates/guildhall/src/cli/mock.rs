//! `guildhall mock`: a gateway that plays scenarios, and judges what a client does.
//!
//! Owns        the process of the client, which it starts for each scenario and ends afterwards.
//! Limits      `END_WAIT` for that process to end by itself.
//! Not here    scenarios, their play and their verdict: `guildhall-rehearsal`.

use super::{Failure, say};
use anyhow::{Context as _, anyhow};
use clap::Args;
use guildhall_rehearsal::{
    Params, SCENARIO_BYTES_MAX, Scenario, Stage, Verdict, bot_token, built_in, built_in_names, built_in_source, play,
};
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    future::Future,
    io::Read as _,
    net::SocketAddr,
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    path::Path,
    process::{Child, Stdio},
    time::Duration,
};
use tokio::time::{Instant, sleep};

const END_WAIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);

pub(super) const HELP: &str = "\
The gateway waits for one client, plays the scenario, and prints a verdict. It accepts any token,
and serves what libraries read by REST before they connect. Set the addresses of the client before
it logs in, as docs/libraries.md says, or else it sends its token elsewhere.

With a command behind `--`, each scenario starts it with these variables, and ends it afterwards:
  GATEWAY    URL of the gateway, such as ws://127.0.0.1:7411
  API_BASE   base URL of REST without a version, such as http://127.0.0.1:7411/api
  BOT_TOKEN  a token of the form that libraries check
  SCENARIO   name of the scenario

Examples:
  guildhall mock --list
  guildhall mock op-7
  guildhall mock op-7 op-9-false close-4004 -- node bot.js
  guildhall mock --all --json -- python3 bot.py
  guildhall mock --show op-7 > mine.toml; guildhall mock ./mine.toml

Exit codes:
  0  the client passed every scenario
  1  it failed one: the verdict says at which step, and why; or the address is in use
  2  wrong arguments or scenario: the same command fails again";

/// Arguments of `guildhall mock`.
#[derive(Args, Debug)]
pub struct MockArgs {
    /// Names of scenarios, or files; a file's name has a slash or ends in .toml
    #[arg(value_name = "SCENARIO", required_unless_present_any = ["list", "show", "all"])]
    scenarios: Vec<String>,
    /// Play all scenarios of --list
    #[arg(long, conflicts_with = "scenarios")]
    all: bool,
    /// Name the scenarios of this program
    #[arg(long, conflicts_with_all = ["scenarios", "all", "show"])]
    list: bool,
    /// Print the file of a scenario of this program
    #[arg(long, value_name = "NAME", conflicts_with_all = ["scenarios", "all"])]
    show: Option<String>,
    /// Address to listen at; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7411")]
    listen: SocketAddr,
    /// Print each verdict as a line of JSON
    #[arg(long)]
    json: bool,
    /// Multiply the heartbeat interval, and the time that the client has for each step
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = patience)]
    patience: f64,
    /// Limit of a scenario, instead of its own
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: Option<u64>,
    /// Command that runs the client, and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

fn patience(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| "expected a number, like 3".to_owned())?;
    if (0.1..=100.0).contains(&factor) { Ok(factor) } else { Err("expected 0.1 to 100".to_owned()) }
}

pub(super) async fn run(args: MockArgs, stop: impl Future<Output = ()>) -> Result<(), Failure> {
    if args.list {
        list();
        return Ok(());
    }
    if let Some(name) = &args.show {
        let source = built_in_source(name).ok_or_else(|| Failure::Usage(unknown(name)))?;
        say(source);
        return Ok(());
    }
    let scenarios: Vec<Scenario> = match args.all {
        true => built_in_names().filter_map(built_in).collect(),
        false => args.scenarios.iter().map(|name| scenario(name)).collect::<Result<_, _>>().map_err(Failure::Usage)?,
    };
    let listening = || format!("cannot listen on {}: choose another port, or 0", args.listen);
    let mut stage = Stage::open(args.listen).await.with_context(listening)?;
    eprintln!("gateway {}, REST {}, token {}", stage.gateway_url(), stage.api_base(), bot_token());
    tokio::select! {
        biased;
        () = stop => Err(Failure::Other(anyhow!("stopped before the scenarios have ended"))),
        done = play_all(&args, &scenarios, &mut stage) => done,
    }
}

fn list() {
    let mut text = String::new();
    for scenario in built_in_names().filter_map(built_in) {
        text.push_str(&format!("{:<20} {}\n", scenario.name, scenario.about));
    }
    say(&text);
}

fn unknown(name: &str) -> anyhow::Error {
    anyhow!("no scenario is called {name}: `guildhall mock --list` names them; a file's name needs a slash or .toml")
}

fn scenario(name: &str) -> anyhow::Result<Scenario> {
    if !name.contains('/') && !name.ends_with(".toml") {
        return built_in(name).ok_or_else(|| unknown(name));
    }
    let file = std::fs::File::open(Path::new(name)).with_context(|| format!("{name} cannot be read"))?;
    let mut text = String::new();
    let bytes_max = SCENARIO_BYTES_MAX as u64 + 1;
    file.take(bytes_max).read_to_string(&mut text).with_context(|| format!("{name} cannot be read as text"))?;
    Scenario::parse(&text).with_context(|| format!("{name} is no scenario"))
}

async fn play_all(args: &MockArgs, scenarios: &[Scenario], stage: &mut Stage) -> Result<(), Failure> {
    let mut failed_count = 0;
    for (index, scenario) in scenarios.iter().enumerate() {
        eprintln!("{}: {}", scenario.name, scenario.about);
        let params =
            Params { patience: args.patience, timeout: args.timeout.map(Duration::from_secs), seed: index as u64 };
        let verdict = match &*args.command {
            [] => play(scenario, stage, params, std::future::pending()).await,
            [program, arguments @ ..] => {
                let environment = environment(stage, scenario);
                let mut client = None;
                let run = async {
                    match client.insert(ClientProcess::start(program, arguments, environment)) {
                        Ok(client) => client.ended().await,
                        Err(_) => String::new(),
                    }
                };
                let verdict = play(scenario, stage, params, run).await;
                if let Some(client) = client {
                    client.map_err(Failure::Usage)?.end().await;
                }
                verdict
            }
        };
        failed_count += usize::from(!verdict.is_passed());
        say(&print(&verdict, args.json)?);
    }
    match failed_count {
        0 => Ok(()),
        count => Err(Failure::Other(anyhow!("{count} of {} scenarios failed", scenarios.len()))),
    }
}

fn print(verdict: &Verdict, json: bool) -> anyhow::Result<String> {
    Ok(if json { serde_json::to_string(verdict)? + "\n" } else { verdict.text() })
}

/// Variables of the client's process.
fn environment(stage: &Stage, scenario: &Scenario) -> [(&'static str, String); 4] {
    [
        ("GATEWAY", stage.gateway_url()),
        ("API_BASE", stage.api_base()),
        ("BOT_TOKEN", bot_token()),
        ("SCENARIO", scenario.name.clone()),
    ]
}

/// The client, in a process group of its own.
struct ClientProcess {
    child: Child,
}

impl ClientProcess {
    fn start(program: &str, arguments: &[String], environment: [(&str, String); 4]) -> anyhow::Result<Self> {
        let output = std::io::stderr().as_fd().try_clone_to_owned()?;
        let child = std::process::Command::new(program)
            .args(arguments)
            .envs(environment)
            .stdin(Stdio::null())
            // Standard output has verdicts alone.
            .stdout(Stdio::from(output))
            .process_group(0)
            .spawn()
            .with_context(|| format!("{program} cannot be started"))?;
        Ok(Self { child })
    }

    async fn ended(&mut self) -> String {
        loop {
            match self.child.try_wait() {
                Ok(None) => sleep(POLL).await,
                Ok(Some(status)) => return status.to_string(),
                Err(error) => return error.to_string(),
            }
        }
    }

    /// Sends SIGTERM, and SIGKILL to the whole group after `END_WAIT`.
    async fn end(mut self) {
        self.signal(Signal::TERM);
        let until = Instant::now() + END_WAIT;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < until {
            sleep(POLL).await;
        }
    }

    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(Pid::from_child(&self.child), signal);
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        let _ = self.child.wait();
    }
}
