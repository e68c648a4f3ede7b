//! Line protocol between the Rust clients of the suite and the runner: one JSON object per line.
//!
//! Owns        stdout (events), the words of commands, the run's settings.
//! Not here    any gateway or library word: a client's `main.rs` translates its library to these events.
//! Spec        ../README.md "The line protocol".

use serde_json::{Value, json};
use std::error::Error;
use std::io::Write as _;

pub type Failure = Box<dyn Error + Send + Sync>;

/// The settings of this run: a JSON file named by the first argument.
pub struct Settings(Value);

impl Settings {
    pub fn read() -> Result<Self, Failure> {
        let path = std::env::args().nth(1).ok_or("no settings file")?;
        Ok(Self(serde_json::from_str(&std::fs::read_to_string(path)?)?))
    }

    pub fn get(&self, key: &str) -> Result<&str, Failure> {
        Ok(self.0[key].as_str().ok_or_else(|| format!("no {key}"))?)
    }
}

/// A command of the runner.
pub enum Command {
    Send { channel_id: u64, content: String },
    Members { guild_id: u64 },
    Register,
    Quit,
}

impl Command {
    pub fn read(line: &str) -> Result<Self, Failure> {
        let line: Value = serde_json::from_str(line)?;
        let text = |key: &str| line[key].as_str().ok_or_else(|| format!("no {key}"));
        Ok(match text("cmd")? {
            "send" => Self::Send { channel_id: text("channel_id")?.parse()?, content: text("content")?.to_owned() },
            "members" => Self::Members { guild_id: text("guild_id")?.parse()? },
            "register" => Self::Register,
            "quit" => Self::Quit,
            other => return Err(format!("unknown command {other}").into()),
        })
    }
}

/// Writes one event line.
pub fn emit(event: &Value) {
    let mut out = std::io::stdout().lock();
    // A closed pipe means the runner is gone, and with it the reader of any complaint.
    _ = writeln!(out, "{event}");
    _ = out.flush();
}

/// Something the library did not like; the runner decides whether a cut socket explains it.
pub fn problem(what: &str, detail: &str) {
    let detail: String = detail.chars().take(2000).collect();
    emit(&json!({"ev": "problem", "what": what, "detail": detail}));
}
