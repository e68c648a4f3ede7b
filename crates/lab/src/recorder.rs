//! Recorder: copies of a tap become frames of a recording.
//!
//! Owns        one recording: its bounds, the dispatches that it drops, and the frames that its caller has yet to
//!             acknowledge.
//! Invariants  P1 nothing leaves the recorder unscrubbed unless `scrubbed` is false. P2 without `private` it has no
//!             direct message and no channel that some members may not view. (tests `p*_*`)
//! Limits      `bytes_max` of frames in all, `WAITING_BYTES_MAX` of frames that wait for the caller, `ms_max`. At each
//!             the recording ends, with that bound as its `Ended`.
//! Not here    sessions that are copied, and the queue: `guildhall_partition::TapSwitch`. The thread and
//!             its CPU budget.

use crate::{
    recording::{Dispatch, End, FORMAT, Header, RecordingWriter, VERSION},
    scrub::{PRIVATE_LISTS, Scrubber, copy_unscrubbed},
};
use anyhow::{Context as _, Result};
use guildhall_codec::{DecodeLimits, Encoding, decode_etf_from_gateway, etf};
use guildhall_model::EventName;
use guildhall_partition::{CopiedSessions, TapMessage, TapReader, TapRule};
use serde_json::value::RawValue;
use std::{
    borrow::Cow,
    collections::HashMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::{Duration, Instant},
};

/// Frames that the caller has not taken. Past it the recording ends: nothing is lost that a caller was promised.
pub const WAITING_BYTES_MAX: usize = 32 << 20;
/// Bodies that are remembered for other sessions, and the longest one.
const RECENT_MAX: usize = 256;
const RECENT_BYTES_MAX: usize = 16 << 10;
/// After this time a frame is made of the data so far, so that a caller sees progress.
const FLUSH_EVERY: Duration = Duration::from_secs(2);

/// Bounds and form of a recording.
#[derive(Clone, Copy, Debug)]
pub struct RecorderParams {
    /// Texts, ids and times are replaced by surrogates.
    pub scrubbed: bool,
    /// Private dispatches are in it; the tap's filter has the same value.
    pub private: bool,
    /// Bytes of frames in all.
    pub bytes_max: u64,
    /// The recording ends after this time.
    pub duration_max: Duration,
    /// Unix time of the start, seconds.
    pub started_at: u64,
    /// Number of the node in its cluster.
    pub node: Option<u32>,
}

/// Why a recording has no further frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// `duration_max`.
    Time,
    /// `bytes_max`.
    Bytes,
    /// The caller took no frames.
    NotTaken,
    /// The caller ended it.
    Stopped,
    /// An error, which is in the log.
    Failed,
}

impl Ended {
    /// Its name in answers.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Bytes => "bytes",
            Self::NotTaken => "not_taken",
            Self::Stopped => "stopped",
            Self::Failed => "failed",
        }
    }
}

/// A recording in progress, or its end.
#[derive(Debug)]
pub struct Recorder {
    params: RecorderParams,
    tap: Option<TapReader>,
    scrubber: Scrubber,
    writer: RecordingWriter,
    header: Header,
    started: Instant,
    flushed: Instant,
    first_ms: Option<u64>,
    sessions: CopiedSessions,
    ended: Option<Ended>,
    /// Scrubbed bodies, by a hash of their originals.
    recent: HashMap<u64, Option<String>>,
    /// Bytes of the recording from `freed_bytes` on.
    frames: Vec<u8>,
    freed_bytes: u64,
    lines_total: u64,
    dropped_total: u64,
}

/// Figures of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecorderStatus {
    /// The header of its files.
    pub header: Header,
    /// Why it ended; none while it runs.
    pub ended: Option<Ended>,
    /// Sessions that it has dispatches of.
    pub sessions_total: u64,
    /// Sessions that are recorded now.
    pub sessions_now: u64,
    /// Sessions that ended early because the queue of copies was full.
    pub sessions_full_total: u64,
    /// Dispatches in it.
    pub dispatches_total: u64,
    /// Dispatches that were left out: events of backends, in scrubbed recordings.
    pub left_out_total: u64,
    /// Bytes of frames so far.
    pub bytes_total: u64,
    /// Bytes of frames that were not taken.
    pub waiting_bytes: u64,
}

impl Recorder {
    /// Begins with the header. `key` is random, and is nowhere else.
    ///
    /// # Errors
    /// The library's.
    pub fn new(tap: TapReader, params: RecorderParams, key: [u8; 32]) -> Result<Self> {
        let header = Header {
            format: FORMAT.to_owned(),
            version: VERSION,
            scrubbed: params.scrubbed,
            private: params.private,
            started_at: params.started_at,
            node: params.node,
        };
        let mut writer = RecordingWriter::new()?;
        writer.push(&header)?;
        writer.flush()?;
        let now = Instant::now();
        Ok(Self {
            params,
            tap: Some(tap),
            recent: HashMap::new(),
            frames: writer.take(),
            scrubber: Scrubber::new(key),
            writer,
            header,
            started: now,
            flushed: now,
            first_ms: None,
            sessions: CopiedSessions::default(),
            ended: None,
            freed_bytes: 0,
            lines_total: 0,
            dropped_total: 0,
        })
    }

    /// Handles the oldest copy. False: none waits, or the recording has ended.
    pub fn step(&mut self) -> bool {
        self.try_step().unwrap_or_else(|error| {
            tracing::warn!(target: "guildhall::lab", error = format!("{error:#}"), "a recording ends");
            self.end(Ended::Failed);
            false
        })
    }

    fn try_step(&mut self) -> Result<bool> {
        let Some(tap) = &self.tap else { return Ok(false) };
        if self.started.elapsed() >= self.params.duration_max {
            self.end(Ended::Time);
            return Ok(false);
        }
        let message = tap.next();
        if message.is_none() {
            tap.grow(self.started.elapsed());
        }
        if self.flushed.elapsed() >= FLUSH_EVERY {
            self.flushed = Instant::now();
            self.writer.flush()?;
        }
        let has_message = message.is_some();
        if let Some(message) = message {
            self.record(message)?;
        }
        self.frames.append(&mut self.writer.take());
        if self.frames.len() > WAITING_BYTES_MAX {
            self.end(Ended::NotTaken);
        } else if self.bytes_total() >= self.params.bytes_max {
            self.end(Ended::Bytes);
        }
        Ok(has_message)
    }

    fn bytes_total(&self) -> u64 {
        self.freed_bytes + self.frames.len() as u64
    }

    fn record(&mut self, message: TapMessage) -> Result<()> {
        let at_ms = |of: &mut Self, ms: u64| ms.saturating_sub(*of.first_ms.get_or_insert(ms));
        match message {
            // For the bill.
            TapMessage::Frame { .. } => Ok(()),
            TapMessage::End { session, is_full } => {
                let ended = Cow::Borrowed(if is_full { "queue_full" } else { "closed" });
                let at_ms = self.started.elapsed().as_millis() as u64;
                self.writer.push(&End { at_ms, session, ended })
            }
            TapMessage::Dispatch { session, at_ms: ms, encoding, name, seq, payload_bytes, rule, body } => {
                let at_ms = at_ms(self, ms);
                let Some(body) = self.body(name, encoding, rule, &body)? else {
                    self.dropped_total += 1;
                    return Ok(());
                };
                self.lines_total += 1;
                self.writer.push(&Dispatch {
                    at_ms,
                    session,
                    encoding: Cow::Borrowed(encoding.name()),
                    event: Cow::Borrowed(name.as_str()),
                    seq,
                    bytes: payload_bytes as u64,
                    rule: Cow::Borrowed(rule.name()),
                    body: &RawValue::from_string(body).context("a body is JSON")?,
                })
            }
        }
    }

    /// The body for the file; none if a backend defines the event. Sessions that are sent the same body share the work.
    fn body(&mut self, name: EventName, encoding: Encoding, rule: TapRule, body: &[u8]) -> Result<Option<String>> {
        let hides = !self.params.private && rule == (TapRule::Own { has_private: true });
        let mut hasher = DefaultHasher::new();
        (name as usize, encoding as usize, hides, body).hash(&mut hasher);
        let key = hasher.finish();
        if let Some(made) = self.recent.get(&key) {
            return Ok(made.clone());
        }
        let made = self.made_body(name, encoding, hides, body)?;
        if body.len() <= RECENT_BYTES_MAX {
            if self.recent.len() >= RECENT_MAX {
                self.recent.clear();
            }
            self.recent.insert(key, made.clone());
        }
        Ok(made)
    }

    fn made_body(&mut self, name: EventName, encoding: Encoding, hides: bool, body: &[u8]) -> Result<Option<String>> {
        let json = match encoding {
            Encoding::Json => Cow::Borrowed(body),
            Encoding::Etf => {
                let term = [&[etf::VERSION], body].concat();
                let value = decode_etf_from_gateway(&term, DecodeLimits::default())?;
                Cow::Owned(value.to_string().into_bytes())
            }
        };
        let left_out: &[&str] = if hides { &PRIVATE_LISTS } else { &[] };
        if self.params.scrubbed {
            return Ok(self.scrubber.copy(name, &json, left_out)?);
        }
        Ok(Some(copy_unscrubbed(&json, left_out)?))
    }

    /// Ends the recording. The caller can still take its frames.
    pub fn end(&mut self, ended: Ended) {
        if self.ended.is_none() {
            self.ended = Some(ended);
            self.sessions = CopiedSessions { now: 0, ..self.sessions() };
            self.tap = None;
            if let Err(error) = self.writer.flush() {
                tracing::warn!(target: "guildhall::lab", error = format!("{error:#}"), "the end of a recording is lost");
            }
            self.frames.append(&mut self.writer.take());
        }
    }

    fn sessions(&self) -> CopiedSessions {
        self.tap.as_ref().map_or(self.sessions, TapReader::sessions)
    }

    /// At most `bytes_max` bytes of the recording from byte `from` on; those in front are freed. None: these were freed
    /// before, or are beyond its end.
    pub fn read(&mut self, from: u64, bytes_max: usize) -> Option<Vec<u8>> {
        let skipped = usize::try_from(from.checked_sub(self.freed_bytes)?).ok()?;
        if skipped > self.frames.len() {
            return None;
        }
        self.frames.drain(..skipped);
        self.freed_bytes = from;
        Some(self.frames[..self.frames.len().min(bytes_max)].to_vec())
    }

    /// Figures up to the last copy that was handled.
    #[must_use]
    pub fn status(&self) -> RecorderStatus {
        let sessions = self.sessions();
        RecorderStatus {
            header: self.header.clone(),
            ended: self.ended,
            sessions_total: sessions.total,
            sessions_now: sessions.now,
            sessions_full_total: sessions.lost_total,
            dispatches_total: self.lines_total,
            left_out_total: self.dropped_total,
            bytes_total: self.bytes_total(),
            waiting_bytes: self.frames.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Line, RecordingReader};
    use guildhall_codec::{encode_etf, encode_json};
    use guildhall_guild_protocol::Clearance;
    use guildhall_partition::{TapFilter, TapSwitch};
    use serde_json::{Value, json};

    fn recorder(scrubbed: bool, private: bool, bytes_max: u64) -> (Recorder, TapSwitch) {
        let switch = TapSwitch::default();
        let filter = TapFilter { counts_ended: true, private, ..TapFilter::all(1) };
        let params = RecorderParams {
            scrubbed,
            private,
            bytes_max,
            duration_max: Duration::from_secs(3_600),
            started_at: 1_790_000_000,
            node: None,
        };
        (Recorder::new(switch.start(filter).unwrap(), params, [6; 32]).unwrap(), switch)
    }

    fn dispatch(encoding: Encoding, name: EventName, rule: TapRule, value: &Value) -> TapMessage {
        let mut body = Vec::new();
        match encoding {
            Encoding::Json => encode_json(value, &mut body).unwrap(),
            Encoding::Etf => encode_etf(value, &mut body).unwrap(),
        }
        let payload_bytes = body.len() + 40;
        TapMessage::Dispatch {
            session: 0,
            at_ms: 5_000,
            encoding,
            name,
            seq: 1,
            payload_bytes,
            rule,
            body: body.into(),
        }
    }

    /// Bodies of the recording.
    fn bodies(mut recorder: Recorder) -> Vec<Value> {
        recorder.end(Ended::Stopped);
        let file = recorder.read(0, usize::MAX).unwrap();
        let mut reader = RecordingReader::new(&*file).unwrap();
        let mut bodies = Vec::new();
        while let Some(line) = reader.next_line().unwrap() {
            if let Line::Dispatch(dispatch) = line {
                bodies.push(serde_json::from_str(dispatch.body.get()).unwrap());
            }
        }
        bodies
    }

    const PUBLIC: TapRule = TapRule::Public(Clearance::Content);

    #[test]
    fn p1_both_encodings_are_scrubbed_unless_the_parameters_forbid_it() {
        let message = json!({"content": "quetzalcoatl", "id": 1_234_567_890_123_456_789_u64, "type": 0});
        for encoding in [Encoding::Json, Encoding::Etf] {
            for is_scrubbed in [true, false] {
                let (mut recorder, _switch) = recorder(is_scrubbed, false, 1 << 30);
                recorder.record(dispatch(encoding, EventName::MessageCreate, PUBLIC, &message)).unwrap();
                recorder.record(dispatch(encoding, EventName::Backend, PUBLIC, &message)).unwrap();
                let status = recorder.status();
                assert_eq!(status.left_out_total, u64::from(is_scrubbed), "the event of a backend");
                let bodies = bodies(recorder);
                assert_eq!(bodies.len(), if is_scrubbed { 1 } else { 2 });
                assert_eq!(bodies[0] == message, !is_scrubbed, "{encoding:?} {}", bodies[0]);
                assert_eq!(bodies[0]["type"], 0);
                assert!(bodies[0]["id"].is_u64() && bodies[0]["content"].as_str().unwrap().len() == 12);
            }
        }
    }

    #[test]
    fn p2_lists_with_private_channels_are_left_out() {
        let guild =
            json!({"id": "1", "channels": [{"name": "hidden"}], "threads": [], "voice_states": [], "roles": []});
        for (rule, private, has_channels) in [
            (TapRule::Own { has_private: true }, false, false),
            (TapRule::Own { has_private: false }, false, true),
            (TapRule::Own { has_private: true }, true, true),
        ] {
            for is_scrubbed in [true, false] {
                let (mut recorder, _switch) = recorder(is_scrubbed, private, 1 << 30);
                recorder.record(dispatch(Encoding::Json, EventName::GuildCreate, rule, &guild)).unwrap();
                let body = &bodies(recorder)[0];
                assert_eq!(body.get("channels").is_some(), has_channels, "{rule:?} {body}");
                assert_eq!(body.get("voice_states").is_some(), has_channels, "{rule:?} {body}");
                assert!(body.get("roles").is_some(), "{body}");
            }
        }
    }

    #[test]
    fn a_recording_ends_at_its_bounds_and_its_bytes_can_be_read_again() {
        let (mut recorder, _switch) = recorder(false, true, 20_000);
        let mut n = 0_u64;
        while recorder.status().ended.is_none() {
            n = n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let text: String = (0..2_000).map(|at| char::from(b'a' + (n.rotate_left(at) % 26) as u8)).collect();
            recorder
                .record(dispatch(Encoding::Json, EventName::MessageCreate, PUBLIC, &json!({"content": text})))
                .unwrap();
            recorder.step();
        }
        assert_eq!(recorder.status().ended, Some(Ended::Bytes));
        let all = recorder.read(0, usize::MAX).unwrap();
        assert_eq!(all.len() as u64, recorder.status().bytes_total);
        assert_eq!(recorder.read(0, 100).unwrap(), all[..100]);
        assert_eq!(recorder.read(50, 100).unwrap(), all[50..150]);
        assert_eq!(recorder.read(49, 100), None, "they were freed");
        assert!(recorder.read(all.len() as u64, 100).unwrap().is_empty());
        assert_eq!(recorder.read(all.len() as u64 + 1, 100), None);
        assert_eq!(recorder.status().waiting_bytes, 0);
        assert!(!recorder.step(), "it has ended");
    }
}
