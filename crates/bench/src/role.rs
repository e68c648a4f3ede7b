//! Roles: a bench runs as several processes, so that CPU and memory are measured separately.
//!
//! Owns        the line protocol between the bench and its roles: a command is one word and its arguments, an answer is
//!             one line of JSON.
//! Limits      `ANSWER_TIMEOUT` for an answer, unless the bench sets another.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver},
    time::Duration,
};

/// No step takes longer than this on any machine we know; past it the bench fails instead of hanging.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(180);

/// A role in a process of its own. It ends when this is dropped.
pub struct Role {
    name: &'static str,
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Role {
    /// Starts this program again as `name`.
    pub fn start(name: &'static str, args: &[String]) -> Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut child = Command::new(program)
            .args(["role", name])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("starting the {name} process"))?;
        let input = child.stdin.take().context("the child's input")?;
        let output = BufReader::new(child.stdout.take().context("the child's output")?);
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { name, child, input, answers })
    }

    /// Waits for its next answer.
    pub fn answer(&self) -> Result<Value> {
        self.answer_within(ANSWER_TIMEOUT)
    }

    /// The same, where a step may take longer or less long.
    pub fn answer_within(&self, timeout: Duration) -> Result<Value> {
        let line =
            self.answers.recv_timeout(timeout).with_context(|| format!("the {} process did not answer", self.name))?;
        let answer: Value =
            serde_json::from_str(&line).with_context(|| format!("the {} process printed {line:?}", self.name))?;
        if let Some(error) = answer.get("error").and_then(Value::as_str) {
            bail!("the {} process failed: {error}", self.name);
        }
        Ok(answer)
    }

    /// Sends a command without waiting.
    pub fn tell(&mut self, command: &str) -> Result<()> {
        writeln!(self.input, "{command}").with_context(|| format!("talking to the {} process", self.name))
    }

    /// Sends a command and waits for its answer.
    pub fn ask(&mut self, command: &str) -> Result<Value> {
        self.tell(command)?;
        self.answer()
    }

    /// A number of an answer.
    pub fn ask_number(&mut self, command: &str, key: &str) -> Result<u64> {
        number(&self.ask(command)?, key)
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A number in an answer.
pub fn number(answer: &Value, key: &str) -> Result<u64> {
    answer.get(key).and_then(Value::as_u64).with_context(|| format!("no number {key:?} in {answer}"))
}

/// Sends an answer to the bench.
pub fn say(answer: &Value) {
    println!("{answer}");
}

/// Serves the bench until it closes our input: each line is a command and its arguments.
pub fn serve(mut handle: impl FnMut(&str, &[&str]) -> Result<Value>) {
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let mut words = line.split_whitespace();
        let Some(command) = words.next() else { continue };
        let args: Vec<&str> = words.collect();
        match handle(command, &args) {
            Ok(answer) => say(&answer),
            Err(error) => say(&serde_json::json!({"error": format!("{error:#}")})),
        }
    }
}
