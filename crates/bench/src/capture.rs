//! Capture: a bot's connection as a file for `guildhall replay`, for the benchmark of clients (bench/clients).
//!
//! Owns        `guildhall-bench capture`: READY, a GUILD_CREATE of each guild, then messages in these guilds.
//! Limits      `EVENTS_PER_MESSAGE_MAX`.
//! Not here    the events: `guildhall_traffic::Traffic::sitting`.     Spec  docs/rehearsal.md "The format
//!             of a capture".

use anyhow::{Context, Result, ensure};
use clap::Args;
use guildhall_codec::{DispatchFrame, Encoding, Framing};
use guildhall_lab::RecordingWriter;
use guildhall_model::EventName;
use guildhall_traffic::{Chat, PERSONAS, Persona, Traffic};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    str,
};

/// Events of the traffic per message of the capture; those that are no messages are left out.
const EVENTS_PER_MESSAGE_MAX: u64 = 100;
const BOT_ID: &str = "1100000000000000900";

/// `guildhall-bench capture`.
#[derive(Clone, Debug, Args)]
pub struct CaptureArgs {
    /// Guilds, each with one GUILD_CREATE.
    #[arg(long, default_value_t = 2_450, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    guilds: u64,
    /// MESSAGE_CREATE after the guilds.
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    messages: u64,
    /// A sitting of this persona instead, at its own pace: lurker, member, moderator or bot.
    #[arg(long, conflicts_with_all = ["guilds", "messages", "pause_ms"])]
    persona: Option<String>,
    /// Message texts, one JSON object with "turns" per line; a built-in list if absent.
    #[arg(long, value_name = "FILE")]
    chat: Option<PathBuf>,
    /// Between READY and the guilds, and between these and the messages; each of them comes at once.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(0..=60_000))]
    pause_ms: u64,
    /// The same seed and texts yield the same capture.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The capture, replaced if it exists.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Writes the capture.
pub fn run(args: &CaptureArgs) -> Result<()> {
    let chat = match &args.chat {
        Some(path) => Chat::parse(&fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?)?,
        None => Chat::built_in(),
    };
    let mut file = File::new()?;
    if let Some(name) = &args.persona {
        let persona = PERSONAS.into_iter().find(|persona| persona.name == name).context("no persona has this name")?;
        for event in Traffic::sitting(persona, args.seed, chat).take_while(|event| event.at_ms < persona.length_ms()) {
            if event.name != EventName::PassiveUpdateV1.as_str() {
                file.at_us = event.at_ms * 1_000;
                file.dispatch(event.name, &event.body_json)?;
            }
        }
        return file.write(&args.out);
    }
    let bot = PERSONAS.into_iter().find(|persona| persona.is_bot).context("a persona is a bot")?;
    let persona = Persona { guilds: usize::try_from(args.guilds)?, ..bot };
    let mut events = Traffic::sitting(persona, args.seed, chat);
    let guilds: Vec<_> = events.by_ref().take(persona.guilds).collect();
    ensure!(
        guilds.iter().all(|event| event.name == EventName::GuildCreate.as_str()),
        "a bot's sitting begins with guilds"
    );
    let ids: Vec<Value> =
        guilds.iter().map(|event| json!({ "id": event.guild.to_string(), "unavailable": true })).collect();
    file.dispatch(EventName::Ready.as_str(), ready(&ids).to_string().as_bytes())?;
    file.pause(args.pause_ms);
    for event in &guilds {
        file.dispatch(event.name, &event.body_json)?;
    }
    let looked_at = usize::try_from(args.messages * EVENTS_PER_MESSAGE_MAX)?;
    let messages = events.take(looked_at).filter(|event| event.name == EventName::MessageCreate.as_str());
    let mut written = 0;
    file.pause(args.pause_ms);
    for event in messages.take(usize::try_from(args.messages)?) {
        file.dispatch(event.name, &event.body_json)?;
        written += 1;
    }
    ensure!(written == args.messages, "only {written} messages in {looked_at} events");
    file.write(&args.out)
}

/// READY, without the fields that a replay fills.
fn ready(guilds: &[Value]) -> Value {
    json!({
        "v": 10, "guilds": guilds, "session_id": "", "resume_gateway_url": "", "session_type": "normal",
        "user": {
            "id": BOT_ID, "username": "bench", "discriminator": "0", "global_name": null, "avatar": null, "bot": true,
            "mfa_enabled": false, "verified": true, "email": null, "flags": 0,
        },
        "application": { "id": BOT_ID, "flags": 565_248 },
        "private_channels": [], "presences": [], "relationships": [], "user_settings": {},
    })
}

/// Lines of a capture: one connection, JSON without compression, each message in a chunk of its own.
struct File {
    lines: RecordingWriter,
    seq: u64,
    at_us: u64,
}

impl File {
    fn new() -> Result<Self> {
        let mut lines = RecordingWriter::new()?;
        lines.push(&json!({ "format": "guildhall-capture", "version": 1, "scrubbed": false, "started_at": 0 }))?;
        lines.push(&json!({ "at_us": 0, "connection": 0, "open": { "encoding": "json", "compression": "none" } }))?;
        let mut file = Self { lines, seq: 0, at_us: 0 };
        file.message(&json!({ "t": null, "s": null, "op": 10, "d": { "heartbeat_interval": 41_250 } }).to_string())?;
        Ok(file)
    }

    fn pause(&mut self, pause_ms: u64) {
        self.at_us += pause_ms * 1_000;
    }

    fn dispatch(&mut self, name: &str, body: &[u8]) -> Result<()> {
        self.seq += 1;
        let mut frame = DispatchFrame::from_body(Encoding::Json, name, body)?;
        let text = str::from_utf8(frame.write_for(self.seq, Framing::None))?.to_owned();
        self.message(&text)
    }

    fn message(&mut self, text: &str) -> Result<()> {
        let header_bytes = match text.len() {
            0..126 => 2,
            126..65_536 => 4,
            _ => 10,
        };
        let wire_bytes = text.len() + header_bytes;
        let at_us = self.at_us;
        self.lines.push(&json!({ "at_us": at_us, "connection": 0, "chunk": wire_bytes }))?;
        let frame = json!({ "kind": "text", "fin": true, "wire_bytes": wire_bytes, "text": text });
        self.lines.push(&json!({ "at_us": at_us, "connection": 0, "frame": frame }))
    }

    fn write(mut self, path: &Path) -> Result<()> {
        self.lines.flush()?;
        fs::write(path, self.lines.take()).with_context(|| format!("writing {}", path.display()))
    }
}
