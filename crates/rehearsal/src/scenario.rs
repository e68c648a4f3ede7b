//! Scenario: the steps of a rehearsal, and their reader.
//!
//! Owns        the TOML format of scenarios.
//! Doors       `Scenario::parse`.
//! Invariants  S1 text of a file never causes a panic. S2 an error names the line and the correction. (tests
//!             `s1_*`, `s2_*`)
//! Limits      `SCENARIO_BYTES_MAX`, `STEPS_MAX`; times of `WAIT_MS_MAX`, sizes of `BYTES_MAX`, counts of `COUNT_MAX`.
//! Spec        docs/rehearsal.md "The format of a scenario".

use crate::ops;
use guildhall_ws_proto::close_code_is_valid;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::{collections::BTreeMap, ops::Range};
use toml::Spanned;

/// Longest file.
pub const SCENARIO_BYTES_MAX: usize = 256 << 10;
/// Steps of a scenario.
pub const STEPS_MAX: usize = 1_000;
/// Longest single wait.
const WAIT_MS_MAX: u64 = 600_000;
/// Largest generated body.
const BYTES_MAX: usize = 16 << 20;
/// Most events of one step.
const COUNT_MAX: u64 = 100_000;

/// Why a file is no scenario.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ScenarioError {
    /// Line of the file, from 1.
    pub line: usize,
    /// The mistake, with a correction.
    pub message: String,
}

/// Steps that a gateway takes, with the behaviour that it expects of the client.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Name in verdicts.
    pub name: String,
    /// Behaviour of the gateway, in one sentence.
    pub about: String,
    /// Behaviour of a right client, in one sentence.
    pub rule: String,
    /// Limit of the play, from the client's first request on; before that, as long again.
    pub timeout_ms: u64,
    /// Value of HELLO.
    pub heartbeat_interval_ms: u64,
    /// READY names the second listener as `resume_gateway_url`.
    pub resume_elsewhere: bool,
    /// Each with its line.
    pub steps: Vec<(usize, Step)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    about: String,
    rule: String,
    #[serde(default = "default_timeout_ms")]
    timeout_ms: Spanned<u64>,
    #[serde(default = "default_heartbeat_interval_ms")]
    heartbeat_interval_ms: Spanned<u64>,
    #[serde(default)]
    resume_elsewhere: bool,
    steps: Spanned<Vec<Spanned<Step>>>,
}

fn default_timeout_ms() -> Spanned<u64> {
    Spanned::new(0..0, 60_000)
}

fn default_heartbeat_interval_ms() -> Spanned<u64> {
    Spanned::new(0..0, 1_000)
}

fn default_within_ms() -> u64 {
    10_000
}

fn yes() -> bool {
    true
}

fn one() -> u64 {
    1
}

/// One step. All but `connect`, `refuse` and `stays_away` act on the current connection.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// The client connects; the gateway sends HELLO.
    Connect(Connect),
    /// The gateway refuses a request by an HTTP status, and the client repeats it, not too early.
    Refuse(Refuse),
    /// The client sends an opcode.
    Expect(Expect),
    /// The client ends the connection.
    ExpectEnd(ExpectEnd),
    /// The client opens no connection.
    StaysAway(StaysAway),
    /// The gateway answers the IDENTIFY or RESUME that came last.
    Welcome(Welcome),
    /// The gateway sends GUILD_CREATE.
    Guild(Guild),
    /// The gateway sends numbered MESSAGE_CREATE.
    Messages(Messages),
    /// The gateway sends a dispatch.
    Event(Event),
    /// The next dispatches have higher numbers by as many.
    SkipSeq(u64),
    /// The gateway sends the last dispatches again, with their numbers.
    Repeat(u64),
    /// The gateway sends a payload that is no dispatch.
    Send(Control),
    /// The gateway sends a text as a message, whatever it is.
    Raw(String),
    /// The gateway closes the connection.
    Close(Close),
    /// The gateway ends the connection without a close frame.
    Drop(Cut),
    /// The gateway neither reads nor writes, and the connection stays open.
    Freeze(bool),
    /// Whether the gateway acknowledges heartbeats.
    Ack(bool),
    /// Whether the session can be resumed.
    Session(SessionFate),
    /// The gateway serves the connection, and does nothing else.
    WaitMs(u64),
    /// Bytes go out in pieces.
    Pace(Pace),
    /// Messages go out as frames of at most as many bytes; 0: as one.
    Fragment(usize),
    /// Messages are collected, and go out in one write once it is false.
    Hold(bool),
    /// The end of the next compressed message goes out later, as a message of its own.
    LateFlush(LateFlush),
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connect {
    /// Of every connection but the first, for which the client has the time of the scenario.
    #[serde(default = "default_within_ms")]
    pub within_ms: u64,
    /// False: the scenario sends HELLO itself.
    #[serde(default = "yes")]
    pub hello: bool,
    /// Which listener it has to be.
    #[serde(default)]
    pub at: Listener,
    /// It may not connect earlier.
    #[serde(default)]
    pub not_before_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Listener {
    #[default]
    Any,
    /// The address that the client was given.
    First,
    /// That of `resume_gateway_url`.
    Second,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestKind {
    /// Any request that is no upgrade.
    Rest,
    Upgrade,
    /// Whichever comes first.
    First,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refuse {
    pub at: RequestKind,
    pub status: u16,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// JSON body of the answer.
    #[serde(default)]
    pub body: Option<Value>,
    /// The client may not repeat the request earlier.
    #[serde(default)]
    pub not_before_ms: u64,
    /// No other request either.
    #[serde(default)]
    pub global: bool,
    /// The client has to repeat it after `not_before_ms` within this time.
    #[serde(default = "default_within_ms")]
    pub within_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    pub op: OpName,
    /// As right as `op`; its `seq` may be any.
    #[serde(default)]
    pub or: Option<OpName>,
    /// Allowed as well; the verdict notes it.
    #[serde(default)]
    pub tolerated: Option<OpName>,
    #[serde(default = "default_within_ms")]
    pub within_ms: u64,
    /// Number of the last dispatch, in a heartbeat or a RESUME.
    #[serde(default)]
    pub seq: Seq,
    /// The client may end the connection and connect again first.
    #[serde(default)]
    pub reconnects: bool,
    /// Fields that `d` has to have.
    #[serde(default)]
    pub d: Map<String, Value>,
}

/// An opcode by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpName(pub u64);

impl<'de> Deserialize<'de> for OpName {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let text = String::deserialize(reader)?;
        ops::parse(&text).map(Self).ok_or_else(|| {
            let nearest = ops::nearest(&text);
            serde::de::Error::custom(format!("no opcode is called `{text}`: write `{nearest}`, or a number in quotes"))
        })
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seq {
    /// Of a RESUME `last`, of a heartbeat `any`.
    #[default]
    Usual,
    /// The number of the dispatch that the gateway sent last.
    Last,
    /// Any that the gateway sent.
    Any,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectEnd {
    #[serde(default = "default_within_ms")]
    pub within_ms: u64,
    /// 1000 and 1001, which end the session, are right too.
    #[serde(default)]
    pub any_code: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StaysAway {
    pub for_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Welcome {
    /// READY is filled up to this size.
    #[serde(default)]
    pub bytes: usize,
    /// Guilds in READY.
    #[serde(default = "one")]
    pub guilds: u64,
    /// READY is followed by the GUILD_CREATE of each.
    #[serde(default = "yes")]
    pub guild_create: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guild {
    #[serde(default = "one")]
    pub members: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Messages {
    #[serde(default = "one")]
    pub count: u64,
    /// Of each text.
    #[serde(default)]
    pub bytes: usize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    pub name: String,
    #[serde(default)]
    pub d: Value,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    pub op: OpName,
    #[serde(default)]
    pub d: Value,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Close {
    pub code: u16,
    #[serde(default)]
    pub reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cut {
    /// The end of the stream.
    Fin,
    /// A TCP RST, without the rest of the bytes.
    Reset,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionFate {
    /// RESUME is answered by op 9 `false`.
    Ends,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pace {
    /// Of one write; 0: all.
    pub bytes: usize,
    /// Pause behind each.
    #[serde(default)]
    pub every_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LateFlush {
    /// Bytes at the end of the message.
    pub bytes: usize,
    pub wait_ms: u64,
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    /// See [`ScenarioError`].
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        if text.len() > SCENARIO_BYTES_MAX {
            let message = format!("the file has {} bytes: a scenario has at most {SCENARIO_BYTES_MAX}", text.len());
            return Err(ScenarioError { line: 1, message });
        }
        let error = |span: Range<usize>, message: String| ScenarioError { line: line_of(text, span.start), message };
        let file: File = toml::from_str(text).map_err(|of| {
            let span = of.span().unwrap_or(0..0);
            error(span, advice(of.message()))
        })?;
        if file.name.get_ref().is_empty() {
            return Err(error(file.name.span(), "the name is empty: write one such as \"op-7\"".to_owned()));
        }
        for (what, value) in [("timeout_ms", &file.timeout_ms), ("heartbeat_interval_ms", &file.heartbeat_interval_ms)]
        {
            check_ms(what, *value.get_ref(), 100).map_err(|message| error(value.span(), message))?;
        }
        let count = file.steps.get_ref().len();
        if count == 0 || count > STEPS_MAX {
            let message = format!("{count} steps: write 1 to {STEPS_MAX}, the first of them {{ connect = {{}} }}");
            return Err(error(file.steps.span(), message));
        }
        let mut is_connected = false;
        for step in file.steps.get_ref() {
            let at = |message| error(step.span(), message);
            step.get_ref().check().map_err(at)?;
            match step.get_ref() {
                Step::Connect(_) => is_connected = true,
                Step::Refuse(_) | Step::StaysAway(_) | Step::Session(_) => {}
                other if !is_connected => {
                    let message = format!("{} needs a connection: write {{ connect = {{}} }} before it", other.name());
                    return Err(at(message));
                }
                _ => {}
            }
        }
        let lines = |step: Spanned<Step>| (line_of(text, step.span().start), step.into_inner());
        Ok(Self {
            name: file.name.into_inner(),
            about: file.about,
            rule: file.rule,
            timeout_ms: file.timeout_ms.into_inner(),
            heartbeat_interval_ms: file.heartbeat_interval_ms.into_inner(),
            resume_elsewhere: file.resume_elsewhere,
            steps: file.steps.into_inner().into_iter().map(lines).collect(),
        })
    }
}

fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
}

fn check_ms(what: &str, value: u64, least: u64) -> Result<(), String> {
    match (least..=WAIT_MS_MAX).contains(&value) {
        true => Ok(()),
        false => Err(format!("{what} = {value}: write {least} to {WAIT_MS_MAX}")),
    }
}

/// The library's message, with the name that was probably meant.
fn advice(message: &str) -> String {
    let message = message.trim().replace('\n', " ");
    let mut quoted = message.split('`').skip(1).step_by(2);
    let Some(wrong) = quoted.next().filter(|_| message.starts_with("unknown ")) else { return message };
    match quoted.min_by_key(|name| strsim::damerau_levenshtein(name, wrong)) {
        Some(nearest) => format!("{message}: write `{nearest}`"),
        None => message,
    }
}

impl Step {
    /// The word that the file has.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Connect(_) => "connect",
            Self::Refuse(_) => "refuse",
            Self::Expect(_) => "expect",
            Self::ExpectEnd(_) => "expect_end",
            Self::StaysAway(_) => "stays_away",
            Self::Welcome(_) => "welcome",
            Self::Guild(_) => "guild",
            Self::Messages(_) => "messages",
            Self::Event(_) => "event",
            Self::SkipSeq(_) => "skip_seq",
            Self::Repeat(_) => "repeat",
            Self::Send(_) => "send",
            Self::Raw(_) => "raw",
            Self::Close(_) => "close",
            Self::Drop(_) => "drop",
            Self::Freeze(_) => "freeze",
            Self::Ack(_) => "ack",
            Self::Session(_) => "session",
            Self::WaitMs(_) => "wait_ms",
            Self::Pace(_) => "pace",
            Self::Fragment(_) => "fragment",
            Self::Hold(_) => "hold",
            Self::LateFlush(_) => "late_flush",
        }
    }

    /// The step in a few words.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Expect(Expect { op, or: None, .. }) => format!("expect {}", ops::name(op.0)),
            Self::Expect(Expect { op, or: Some(or), .. }) => {
                format!("expect {} or {}", ops::name(op.0), ops::name(or.0))
            }
            Self::Send(Control { op, .. }) => format!("send {}", ops::name(op.0)),
            Self::Close(Close { code, .. }) => format!("close {code}"),
            other => other.name().to_owned(),
        }
    }

    fn check(&self) -> Result<(), String> {
        match self {
            Self::Connect(of) => check_ms("within_ms", of.within_ms, 1),
            Self::Refuse(of) => {
                check_ms("within_ms", of.within_ms, 1)?;
                check_ms("not_before_ms", of.not_before_ms, 0)?;
                if !(400..=599).contains(&of.status) {
                    return Err(format!("status = {}: write an error, 400 to 599", of.status));
                }
                for (name, value) in &of.headers {
                    let is_name = hyper::header::HeaderName::from_bytes(name.as_bytes()).is_ok();
                    if !is_name || hyper::header::HeaderValue::from_str(value).is_err() {
                        return Err(format!("`{name}: {value}` is no header: write a name and a value of ASCII"));
                    }
                }
                Ok(())
            }
            Self::Expect(of) => check_ms("within_ms", of.within_ms, 1),
            Self::ExpectEnd(of) => check_ms("within_ms", of.within_ms, 1),
            Self::StaysAway(of) => check_ms("for_ms", of.for_ms, 1),
            Self::WaitMs(ms) => check_ms("wait_ms", *ms, 1),
            Self::Welcome(of) if of.bytes > BYTES_MAX => Err(too_large("bytes", of.bytes)),
            Self::Welcome(of) if of.guilds > 2_500 => Err(format!("guilds = {}: a shard has at most 2500", of.guilds)),
            Self::Messages(of) if of.bytes > BYTES_MAX => Err(too_large("bytes", of.bytes)),
            Self::Messages(Messages { count, .. })
            | Self::Guild(Guild { members: count })
            | Self::SkipSeq(count)
            | Self::Repeat(count)
                if !(1..=COUNT_MAX).contains(count) =>
            {
                Err(format!("{} = {count}: write 1 to {COUNT_MAX}", self.name()))
            }
            Self::Messages(of) if of.bytes.saturating_mul(of.count as usize) > BYTES_MAX => {
                Err(format!("all messages have more than {BYTES_MAX} bytes: write a smaller count"))
            }
            Self::Event(of) => match of.name.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_'))
                && (1..=64).contains(&of.name.len())
            {
                true => Ok(()),
                false => Err(format!("`{}` is no event name: write 1 to 64 of A-Z, 0-9 and _", of.name)),
            },
            Self::Send(of) if of.op.0 > 255 => Err(format!("op {}: write 0 to 255", of.op.0)),
            Self::Close(of) if !close_code_is_valid(of.code) => {
                Err(format!("close code {} may not be sent: write 1000, or 3000 to 4999", of.code))
            }
            Self::Freeze(false) => Err("freeze = false: a frozen connection stays so; write true".to_owned()),
            Self::Pace(of) if of.every_ms > 10_000 => Err(format!("every_ms = {}: write 0 to 10000", of.every_ms)),
            Self::LateFlush(of) => {
                check_ms("wait_ms", of.wait_ms, 1)?;
                match (1..=BYTES_MAX).contains(&of.bytes) {
                    true => Ok(()),
                    false => Err(too_large("bytes", of.bytes)),
                }
            }
            _ => Ok(()),
        }
    }
}

fn too_large(what: &str, bytes: usize) -> String {
    format!("{what} = {bytes}: write 1 to {BYTES_MAX}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &str = "name = \"a\"\nabout = \"b\"\nrule = \"c\"\n";

    fn refused(text: &str, line: usize, words: &str) {
        let error = Scenario::parse(text).expect_err(text);
        assert_eq!(error.line, line, "{error}");
        assert!(error.message.contains(words), "{error}");
    }

    #[test]
    fn s2_an_error_has_its_line_and_the_correct_form() {
        refused("", 1, "missing field");
        refused("name = \"a\"\nabout\n", 2, "expected");
        refused(&format!("{HEAD}stpes = []"), 4, "write `steps`");
        refused(&format!("{HEAD}steps = []"), 4, "connect");
        refused(&format!("{HEAD}steps = [\n  {{ conect = {{}} }},\n]"), 5, "write `connect`");
        let step = |step: &str| format!("{HEAD}steps = [\n  {{ connect = {{}} }},\n  {{ {step} }},\n]");
        refused(&step("expect = { op = \"identfy\" }"), 6, "write `identify`");
        refused(&step("expect = { op = \"identify\", within = 3 }"), 6, "write `within_ms`");
        refused(&step("expect = { op = \"identify\", within_ms = 0 }"), 6, "write 1 to");
        refused(&step("expect = {}"), 6, "missing field `op`");
        refused(&step("close = { code = 1006 }"), 6, "3000 to 4999");
        refused(&step("close = { code = 70000 }"), 6, "");
        refused(&step("drop = \"fni\""), 6, "write `fin`");
        refused(&step("event = { name = \"lower\" }"), 6, "A-Z");
        refused(&step("messages = { count = 0 }"), 6, "write 1 to");
        refused(&step("messages = { count = 100000, bytes = 100000 }"), 6, "smaller count");
        refused(&step("refuse = { at = \"rest\", status = 200 }"), 6, "400 to 599");
        refused(&step("refuse = { at = \"rest\", status = 429, headers = { \"a b\" = \"c\" } }"), 6, "no header");
        refused(&step("freeze = false"), 6, "write true");
        refused(&format!("{HEAD}steps = [\n  {{ welcome = {{}} }},\n]"), 5, "write { connect = {} }");
        refused(&format!("{HEAD}timeout_ms = 5\nsteps = [{{ connect = {{}} }}]"), 4, "write 100 to");
        refused(&"#".repeat(SCENARIO_BYTES_MAX + 1), 1, "at most");
    }

    proptest! {
        #[test]
        fn s1_no_text_causes_a_panic(text in "\\PC{0,200}") {
            let _ = Scenario::parse(&text);
        }

        #[test]
        fn s1_no_changed_scenario_causes_a_panic(at in 0usize..2_000, with in "[ -~\n]{0,3}", which in 0usize..64) {
            let all: Vec<_> = crate::built_in_names().collect();
            let text = crate::built_in_source(all[which % all.len()]).unwrap_or_default();
            let mut text: Vec<char> = text.chars().collect();
            let at = at % text.len();
            text.splice(at..(at + 1).min(text.len()), with.chars());
            if let Err(error) = Scenario::parse(&text.into_iter().collect::<String>()) {
                prop_assert!(error.line >= 1 && !error.message.is_empty());
            }
        }
    }
}
