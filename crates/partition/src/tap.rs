//! Taps: copies of the dispatches of sampled sessions, for the lab.
//!
//! Owns        the switch that all partitions share (`TapSwitch`), the choice of sessions (`TapFilter`), and the
//!             bounded queue of copies (`TapReader`).
//! Invariants  T1 with no tap on, a delivery costs one relaxed load, and nothing is copied. T2 a dispatch that does not
//!             fit the queue ends the copies of its session: a session's copies have no gap but those of T3. T3 private
//!             dispatches are copied only for a filter with `private`. T4 taps change no byte, length or order of what
//!             clients are sent. (tests `t*_*` here and in tests/it/tap.rs)
//! Limits      `TAPS_MAX` taps at once; `sessions_max` sessions of each; `QUEUE_BYTES_MAX` bytes of copies that wait.
//! Not here    what becomes of the copies: `guildhall-lab`. The bandwidth bill has a queue of its own: `bill`.

use crate::session_reports::platform_name;
use guildhall_codec::{DispatchFrame, Encoding, Framing};
use guildhall_guild_protocol::{Clearance, Visibility};
use guildhall_model::{EventName, GuildId};
use guildhall_relay::Replayed;
use guildhall_session::{Dispatch, Session};
use std::{
    collections::VecDeque,
    mem,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

/// Taps at once: a recording and a dark launch.
pub const TAPS_MAX: usize = 2;
/// Bytes of copies that wait, of one tap.
const QUEUE_BYTES_MAX: usize = 8 << 20;
/// Bytes that a copy counts for on top of its payload.
const COPY_BYTES: usize = mem::size_of::<TapMessage>();

/// Sessions to copy from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapFilter {
    /// One session in this many; 1: all that the other fields admit.
    pub one_in: u32,
    /// Sessions at once and in all.
    pub sessions_max: usize,
    /// Only members of this guild.
    pub guild_id: Option<GuildId>,
    /// Only sessions on this platform: desktop, mobile, web, embedded or vr.
    pub platform: Option<String>,
    /// Only sessions with this encoding.
    pub encoding: Option<Encoding>,
    /// Also direct messages, and what not every member may view.
    pub private: bool,
}

impl TapFilter {
    fn admits(&self, session: &Session) -> bool {
        self.guild_id.is_none_or(|guild_id| session.guilds.contains(guild_id))
            && self.encoding.is_none_or(|encoding| session.encoding == encoding)
            && self.platform.as_ref().is_none_or(|platform| *platform == platform_name(session.platform()))
    }
}

/// Why a session may see a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TapRule {
    /// Every member of the guild may.
    Public(Clearance),
    /// Members that may view a channel.
    Restricted(Clearance),
    /// Recipients of a direct message.
    Direct,
    /// It was made for the session.
    Own {
        /// Some of its channels are not for every member, or it has direct messages.
        has_private: bool,
    },
}

impl TapRule {
    /// Its name in recordings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public(clearance) => match clearance {
                Clearance::None => "public",
                Clearance::Content => "public+content",
                Clearance::Members => "public+members",
                Clearance::Presences => "public+presences",
                Clearance::Lists => "public+lists",
            },
            Self::Restricted(clearance) => match clearance {
                Clearance::None => "restricted",
                Clearance::Content => "restricted+content",
                Clearance::Members => "restricted+members",
                Clearance::Presences => "restricted+presences",
                Clearance::Lists => "restricted+lists",
            },
            Self::Direct => "direct",
            Self::Own { .. } => "own",
        }
    }

    fn of(dispatch: &Dispatch) -> Self {
        match dispatch.sharing().visibility {
            Visibility::Public(clearance) => Self::Public(clearance),
            Visibility::Restricted { clearance, .. } => Self::Restricted(clearance),
            Visibility::Direct(_) => Self::Direct,
            Visibility::Alone => {
                let has_private = match dispatch.replayed() {
                    Some(Replayed::Guild { places, .. }) => !places().is_empty(),
                    _ => true,
                };
                Self::Own { has_private }
            }
        }
    }

    /// Whether a tap without `private` copies it. Dispatches of a session's start are copied; the reader leaves out
    /// their lists with private channels.
    fn is_copied(self, name: EventName) -> bool {
        match self {
            Self::Public(_) => true,
            Self::Restricted(_) | Self::Direct => false,
            Self::Own { .. } => matches!(
                name,
                EventName::Ready | EventName::ReadySupplemental | EventName::GuildCreate | EventName::GuildMembersChunk
            ),
        }
    }
}

/// Copy of a dispatch, or the end of a session's copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TapMessage {
    /// The session was sent a dispatch.
    Dispatch {
        /// Ordinal of the session in the tap, from 0.
        session: u64,
        /// Milliseconds of the partition's clock.
        at_ms: u64,
        /// Encoding of the session.
        encoding: Encoding,
        /// Name of the event.
        name: EventName,
        /// Its number in the session.
        seq: u64,
        /// Bytes of the whole payload.
        payload_bytes: usize,
        /// Why the session may see it.
        rule: TapRule,
        /// Body in the session's encoding, in ETF without the version byte.
        body: Box<[u8]>,
    },
    /// No copy of this session follows.
    End {
        /// Ordinal of the session in the tap.
        session: u64,
        /// A dispatch did not fit the queue.
        is_full: bool,
    },
}

/// Turns taps on and off. Clones share it; the default has none.
#[derive(Clone, Debug, Default)]
pub struct TapSwitch(Arc<Switch>);

#[derive(Debug, Default)]
struct Switch {
    /// Changes with every tap that begins or ends. 0: there was none.
    generation: AtomicU32,
    taps: Mutex<[Option<Arc<Tap>>; TAPS_MAX]>,
}

#[derive(Debug)]
struct Tap {
    filter: TapFilter,
    queue: Mutex<Queue>,
    draws: AtomicU64,
    sessions_total: AtomicUsize,
    sessions_full_total: AtomicU64,
    is_ended: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<TapMessage>,
    bytes: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TapSwitch {
    /// Begins a tap. It ends when the reader is dropped. None: there are `TAPS_MAX`.
    #[must_use]
    pub fn start(&self, filter: TapFilter) -> Option<TapReader> {
        let tap = Arc::new(Tap {
            filter,
            queue: Mutex::default(),
            draws: AtomicU64::new(0),
            sessions_total: AtomicUsize::new(0),
            sessions_full_total: AtomicU64::new(0),
            is_ended: AtomicBool::new(false),
        });
        *lock(&self.0.taps).iter_mut().find(|tap| tap.is_none())? = Some(tap.clone());
        self.changed();
        Some(TapReader { switch: self.clone(), tap })
    }

    fn changed(&self) {
        self.0.generation.fetch_add(1, Relaxed);
    }
}

/// Takes copies out of a tap. The tap ends with it.
#[derive(Debug)]
pub struct TapReader {
    switch: TapSwitch,
    tap: Arc<Tap>,
}

impl TapReader {
    /// The oldest copy. None: none waits.
    #[must_use]
    pub fn next(&self) -> Option<TapMessage> {
        let mut queue = lock(&self.tap.queue);
        let message = queue.messages.pop_front()?;
        if let TapMessage::Dispatch { body, .. } = &message {
            queue.bytes -= body.len() + COPY_BYTES;
        }
        Some(message)
    }

    /// Sessions so far, and how many of them ended because the queue was full.
    #[must_use]
    pub fn sessions(&self) -> (u64, u64) {
        (self.tap.sessions_total.load(Relaxed) as u64, self.tap.sessions_full_total.load(Relaxed))
    }

    /// Bytes of copies that wait.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        lock(&self.tap.queue).bytes
    }
}

impl Drop for TapReader {
    fn drop(&mut self) {
        self.tap.is_ended.store(true, Relaxed);
        // Connections forget the tap at their next dispatch.
        *lock(&self.tap.queue) = Queue::default();
        for tap in lock(&self.switch.0.taps).iter_mut() {
            if tap.as_ref().is_some_and(|tap| Arc::ptr_eq(tap, &self.tap)) {
                *tap = None;
            }
        }
        self.switch.changed();
    }
}

/// The taps of one connection.
#[derive(Debug, Default)]
pub(crate) struct ConnTaps {
    /// Generation of the switch by which they were chosen.
    generation: u32,
    taps: Option<Box<[Option<SessionTap>; TAPS_MAX]>>,
}

/// Copies of one session for one tap.
#[derive(Debug)]
struct SessionTap {
    tap: Arc<Tap>,
    session: u64,
    is_ended: bool,
}

impl ConnTaps {
    /// Copies a dispatch that the connection is sent, if it has taps.
    #[inline]
    pub(crate) fn dispatch(
        &mut self,
        switch: &TapSwitch,
        session: &Session,
        dispatch: &Dispatch,
        frame: &DispatchFrame,
        (seq, at_ms): (u64, u64),
    ) {
        let generation = switch.0.generation.load(Relaxed);
        if generation != self.generation {
            self.choose(generation, switch, session);
        }
        if self.taps.is_some() {
            self.copy(session, dispatch, frame, (seq, at_ms));
        }
    }

    /// Takes part in taps that began, and leaves those that ended.
    #[cold]
    fn choose(&mut self, generation: u32, switch: &TapSwitch, session: &Session) {
        self.generation = generation;
        let on = lock(&switch.0.taps).clone();
        let mut before = self.taps.take().map(|taps| *taps).unwrap_or_default();
        let mut chosen: [Option<SessionTap>; TAPS_MAX] = Default::default();
        for (on, chosen) in on.into_iter().zip(&mut chosen) {
            let Some(tap) = on else { continue };
            let known = before.iter_mut().find(|of| of.as_ref().is_some_and(|of| Arc::ptr_eq(&of.tap, &tap)));
            *chosen = match known {
                Some(known) => known.take(),
                None => tap.draw(session).map(|session| SessionTap { tap, session, is_ended: false }),
            };
        }
        if chosen.iter().any(Option::is_some) {
            self.taps = Some(Box::new(chosen));
        }
    }

    #[cold]
    fn copy(&mut self, session: &Session, dispatch: &Dispatch, frame: &DispatchFrame, (seq, at_ms): (u64, u64)) {
        let Some(name) = dispatch.name() else { return };
        let rule = TapRule::of(dispatch);
        for of in self.taps.iter_mut().flat_map(|taps| taps.iter_mut().flatten()) {
            if of.is_ended || !(of.tap.filter.private || rule.is_copied(name)) {
                continue;
            }
            let message = TapMessage::Dispatch {
                session: of.session,
                at_ms,
                encoding: session.encoding,
                name,
                seq,
                payload_bytes: frame.parts(seq, Framing::None).slices(0).iter().map(|part| part.len()).sum(),
                rule,
                body: frame.body().into(),
            };
            of.push(message, frame.body().len() + COPY_BYTES);
        }
    }
}

impl Tap {
    /// Ordinal of the session, if it is in the sample.
    fn draw(&self, session: &Session) -> Option<u64> {
        if self.is_ended.load(Relaxed) || !self.filter.admits(session) {
            return None;
        }
        // A congruential sequence: no fixed rhythm.
        let draw = self.draws.fetch_add(1, Relaxed).wrapping_mul(6_364_136_223_846_793_005) >> 32;
        if !draw.is_multiple_of(u64::from(self.filter.one_in.max(1))) {
            return None;
        }
        let room = |count: usize| (count < self.filter.sessions_max).then_some(count + 1);
        self.sessions_total.fetch_update(Relaxed, Relaxed, room).ok().map(|ordinal| ordinal as u64)
    }
}

impl SessionTap {
    fn push(&mut self, message: TapMessage, bytes: usize) {
        let mut queue = lock(&self.tap.queue);
        if queue.bytes + bytes > QUEUE_BYTES_MAX {
            drop(queue);
            self.tap.sessions_full_total.fetch_add(1, Relaxed);
            return self.end(true);
        }
        queue.bytes += bytes;
        queue.messages.push_back(message);
    }

    fn end(&mut self, is_full: bool) {
        if !mem::replace(&mut self.is_ended, true) && !self.tap.is_ended.load(Relaxed) {
            // Bounded: one per session.
            lock(&self.tap.queue).messages.push_back(TapMessage::End { session: self.session, is_full });
        }
    }
}

impl Drop for SessionTap {
    fn drop(&mut self) {
        self.end(false);
    }
}
