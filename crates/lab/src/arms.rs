//! Arms over sessions: what each arm makes of the same dispatches.
//!
//! Owns        the encoders of an arm, one per session (`ArmRun`), and the sums by event.
//! Invariants  M1 all arms get the same messages, in the same order. M2 a message counts with the bytes of its
//!             WebSocket header.
//! Limits      `SESSIONS_MAX` sessions at once; the oldest leaves first.
//! Not here    the grammar and the encoders of one stream: `guildhall_codec::arm`.

use anyhow::{Context as _, Result};
use guildhall_codec::{Arm, ArmEncoder, Dictionaries, DispatchFrame, Encoding, Framing};
use guildhall_model::EventName;
use guildhall_shared_match::{self as shared_match, BodyId, Domain, Form, Limits, Matcher, Scope, Tables, ZstdStream};
use guildhall_ws_proto::{FrameHeader, Opcode};
use rustix::time::{ClockId, clock_gettime};
use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    ops::AddAssign,
    sync::Arc,
};

/// Sessions with encoders at once.
pub const SESSIONS_MAX: usize = 1_024;
/// History of `shared-match`: as a node without settings.
const HISTORY_BYTES_MAX: usize = 64 << 20;
/// Bodies whose place in the history is remembered: other recipients of an event follow soon.
const BODIES_MAX: usize = 4_096;

/// A dispatch as a session is sent it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Session, by any number.
    pub session: u64,
    /// Encoding of the session.
    pub encoding: Encoding,
    /// Name of the event.
    pub name: EventName,
    /// Its number in the session.
    pub seq: u64,
    /// Why the session sees it, as in a recording.
    pub rule: &'a str,
    /// Body in the session's encoding, in ETF without the version byte.
    pub body: &'a [u8],
}

/// Sums of one arm and event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of dispatches.
    pub count: u64,
    /// Bytes before compression, with WebSocket headers.
    pub plain_bytes: u64,
    /// Bytes after it, with WebSocket headers.
    pub wire_bytes: u64,
    /// CPU time of compression.
    pub cpu_ns: u64,
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.plain_bytes += other.plain_bytes;
        self.wire_bytes += other.wire_bytes;
        self.cpu_ns += other.cpu_ns;
    }
}

impl Sum {
    /// Bytes before compression per byte after it; 0 of nothing.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.plain_bytes as f64 / self.wire_bytes.max(1) as f64
    }

    /// CPU time per dispatch, microseconds.
    #[must_use]
    pub fn cpu_us(&self) -> f64 {
        self.cpu_ns as f64 / 1_000.0 / self.count.max(1) as f64
    }
}

/// Bytes of a message with its WebSocket header.
#[must_use]
pub fn framed_bytes(payload_bytes: usize) -> u64 {
    (FrameHeader::new(Opcode::Binary, payload_bytes).len() + payload_bytes) as u64
}

/// CPU time of this thread, nanoseconds.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// One arm, for any number of sessions.
#[derive(Debug)]
pub struct ArmRun {
    arm: Arm,
    dictionaries: Dictionaries,
    writers: Writers,
    sums: BTreeMap<&'static str, Sum>,
    connection_bytes: usize,
}

#[derive(Debug)]
enum Writers {
    Own { encoders: HashMap<u64, ArmEncoder>, order: Vec<u64> },
    Shared(Box<[Option<Shared>; 2]>),
}

/// Streams of one encoding that share a history.
struct Shared {
    matcher: Matcher,
    streams: HashMap<u64, ZstdStream>,
    dictionary: Option<Arc<shared_match::Dictionary>>,
    bodies: HashMap<u64, Option<BodyId>>,
    connection_bytes: usize,
    out: Vec<u8>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("streams", &self.streams.len()).finish_non_exhaustive()
    }
}

impl ArmRun {
    /// No session yet.
    ///
    /// # Errors
    /// The arm's encoder cannot be made.
    pub fn new(arm: Arm, encodings: &[Encoding], dictionaries: &Dictionaries) -> Result<Self> {
        let mut shared = [None, None];
        for encoding in encodings {
            if let Arm::SharedMatch(id) = arm {
                shared[*encoding as usize] = Some(Shared::new(*encoding, id, dictionaries)?);
            } else {
                ArmEncoder::new(&arm, *encoding, dictionaries)?;
            }
        }
        let writers = match arm {
            Arm::SharedMatch(_) => Writers::Shared(Box::new(shared)),
            _ => Writers::Own { encoders: HashMap::new(), order: Vec::new() },
        };
        let dictionaries = dictionaries.clone();
        Ok(Self { arm, dictionaries, writers, sums: BTreeMap::new(), connection_bytes: 0 })
    }

    /// The arm whose sums these are.
    #[must_use]
    pub fn arm(&self) -> Arm {
        self.arm
    }

    /// Writes one message, and returns its sum. The next message of the session may refer to it.
    ///
    /// # Errors
    /// The codec cannot write the message.
    pub fn add(&mut self, message: &Message<'_>) -> Result<Sum> {
        let frame = DispatchFrame::from_body(message.encoding, message.name.as_str(), message.body)?;
        let parts = frame.parts(message.seq, Framing::None);
        let slices = parts.slices(0);
        let plain_bytes = slices.iter().map(|slice| slice.len()).sum();
        let started_ns = thread_cpu_ns();
        let wire_bytes = match &mut self.writers {
            Writers::Own { encoders, order } => {
                if let Entry::Vacant(entry) = encoders.entry(message.session) {
                    entry.insert(ArmEncoder::new(&self.arm, message.encoding, &self.dictionaries)?);
                    order.push(message.session);
                    if order.len() > SESSIONS_MAX {
                        encoders.remove(&order.remove(0));
                    }
                }
                let encoder = encoders.get_mut(&message.session).context("it was inserted")?;
                let bytes = encoder.encode(slices)?.len();
                self.connection_bytes = self.connection_bytes.max(encoder.memory_bytes());
                bytes
            }
            Writers::Shared(shared) => {
                let shared = shared[message.encoding as usize].as_mut().context("the arm has no such encoding")?;
                let bytes = shared.write(message, &slices.concat())?;
                self.connection_bytes = self.connection_bytes.max(shared.connection_bytes);
                bytes
            }
        };
        let sum = Sum {
            count: 1,
            plain_bytes: framed_bytes(plain_bytes),
            wire_bytes: framed_bytes(wire_bytes),
            cpu_ns: thread_cpu_ns().saturating_sub(started_ns),
        };
        *self.sums.entry(message.name.as_str()).or_default() += sum;
        Ok(sum)
    }

    /// A session has no further messages.
    pub fn end(&mut self, session: u64) {
        match &mut self.writers {
            Writers::Own { encoders, order } => {
                encoders.remove(&session);
                order.retain(|other| *other != session);
            }
            Writers::Shared(shared) => {
                for shared in shared.iter_mut().flatten() {
                    shared.streams.remove(&session);
                }
            }
        }
    }

    /// Sums by event.
    #[must_use]
    pub fn by_event(&self) -> &BTreeMap<&'static str, Sum> {
        &self.sums
    }

    /// Sum of all events.
    #[must_use]
    pub fn total(&self) -> Sum {
        let mut total = Sum::default();
        self.sums.values().for_each(|sum| total += *sum);
        total
    }

    /// Memory of one connection, the largest.
    #[must_use]
    pub fn connection_bytes(&self) -> usize {
        self.connection_bytes
    }

    /// Memory of all encoders now.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        match &self.writers {
            Writers::Own { encoders, .. } => encoders.values().map(ArmEncoder::memory_bytes).sum(),
            Writers::Shared(shared) => shared.iter().flatten().map(|shared| shared.matcher.heap_bytes()).sum(),
        }
    }
}

impl Shared {
    fn new(encoding: Encoding, id: Option<guildhall_codec::DictionaryId>, dictionaries: &Dictionaries) -> Result<Self> {
        let dictionary = match id {
            None => None,
            Some(id) => {
                let known = dictionaries.find(id).filter(|known| known.encoding == encoding);
                let known =
                    known.with_context(|| format!("there is no dictionary {id} for {}: load it", encoding.name()))?;
                let dictionary = &known.dictionary;
                Some(Arc::new(shared_match::Dictionary::new(dictionary.number(), dictionary.content())?))
            }
        };
        let form = match encoding {
            Encoding::Json => Form::Json,
            Encoding::Etf => Form::Etf,
        };
        let limits = Limits { history_bytes_max: HISTORY_BYTES_MAX, ..Limits::default() };
        let matcher = Matcher::new(form, Tables::built_in(form), limits);
        let (streams, bodies) = (HashMap::new(), HashMap::new());
        Ok(Self { matcher, streams, dictionary, bodies, connection_bytes: 0, out: Vec::new() })
    }

    fn write(&mut self, message: &Message<'_>, plain: &[u8]) -> Result<usize> {
        if !self.streams.contains_key(&message.session) && self.streams.len() < SESSIONS_MAX {
            let stream = match &self.dictionary {
                Some(dictionary) => ZstdStream::with_dictionary(dictionary.clone()),
                None => ZstdStream::default(),
            };
            self.streams.insert(message.session, stream);
            self.matcher.set_connections(self.streams.len());
        }
        self.out.clear();
        if self.bodies.len() >= BODIES_MAX {
            self.bodies.clear();
        }
        let recipients = self.streams.len() as u32;
        let text = scope_of(message).and_then(|scope| {
            let mut hasher = DefaultHasher::new();
            (message.name as usize, message.body, message.rule).hash(&mut hasher);
            let push = || self.matcher.push(scope, recipients, message.name.as_str(), message.body);
            *self.bodies.entry(hasher.finish()).or_insert_with(push)
        });
        let stream = self.streams.get_mut(&message.session).context("there are too many sessions at once")?;
        let is_written = text.is_some_and(|text| self.matcher.zstd(stream, text, message.seq, &mut self.out).is_ok());
        if !is_written {
            self.out.clear();
            self.matcher.zstd_standalone(stream, plain, &mut self.out);
        }
        self.connection_bytes = self.connection_bytes.max(size_of::<ZstdStream>() + stream.heap_bytes());
        Ok(self.out.len())
    }
}

/// Scope of a dispatch in the history; none for a session's own.
fn scope_of(message: &Message<'_>) -> Option<Scope> {
    let (rule, clearance) = message.rule.split_once('+').unwrap_or((message.rule, ""));
    let clearances = ["", "content", "members", "presences", "lists"];
    let view = clearances.iter().position(|name| *name == clearance)? as u8;
    let of = |name: &str| number_behind(message.body, name).unwrap_or(0);
    let (guild, channel) = (of("guild_id"), of("channel_id"));
    let domain = match rule {
        "public" => Domain::Public { guild, view },
        "restricted" => Domain::Restricted { guild, channel, view },
        "direct" => Domain::Direct { channel },
        _ => return None,
    };
    Some(Scope { domain, class: channel })
}

/// The first id in a field of this name, in either encoding.
fn number_behind(body: &[u8], name: &str) -> Option<u64> {
    let at = body.windows(name.len()).position(|window| window == name.as_bytes())? + name.len();
    let rest = &body[at..];
    match rest {
        [b'"', b':', b'"', digits @ ..] => {
            let end = digits.iter().position(|byte| *byte == b'"')?;
            std::str::from_utf8(&digits[..end]).ok()?.parse().ok()
        }
        // SMALL_BIG_EXT of eight bytes.
        [110, 8, 0, bytes @ ..] => Some(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?)),
        _ => None,
    }
}
