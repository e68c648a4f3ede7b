//! Taps: copies of what sampled connections are sent, for the lab and for the bandwidth bill.
//!
//! Owns        the switch that all partitions share (`TapSwitch`), the choice of sessions (`TapFilter`), and the copies
//!             of one connection for all who want them (`ConnTaps`).
//! Invariants  T1 with no tap on, a delivery to a connection that is not in the bill's sample costs one relaxed
//!             load, and nothing is copied. T2 a dispatch that does not fit the queue ends the copies of its
//!             session: a session's copies have no gap but those of T3. T3 private dispatches are copied only for a
//!             filter with `private`. T4 taps change no byte, length or order of what clients are sent. (tests
//!             `t*_*` in tests/it/tap.rs)
//! Limits      `TAPS_MAX` taps at once; `sessions_max` sessions of each; `QUEUE_BYTES_MAX` bytes of copies that wait.
//! Not here    the queue, and for how many sessions there is time: `copies`. What becomes of the copies:
//!             `guildhall-lab` and `bill`.

use crate::{
    copies::{CopiedSessions, CopyLimits, CopyQueue, SessionCopies},
    stream_account::Writer,
    tap_message::{TapMessage, TapRule},
};
use guildhall_codec::{DispatchFrame, Encoding, Framing};
use guildhall_model::GuildId;
use guildhall_session::{Dispatch, Session};
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

/// Taps at once: a recording and a dark launch.
pub const TAPS_MAX: usize = 2;
/// Bytes of copies that wait, of one tap.
const QUEUE_BYTES_MAX: usize = 8 << 20;

/// Sessions to copy from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TapFilter {
    /// One session in this many; 1: all that the other fields admit.
    pub one_in: u32,
    /// Sessions at once.
    pub sessions_max: usize,
    /// Sessions at the start; more follow while the reader keeps up.
    pub sessions_first: usize,
    /// `sessions_max` is for all sessions of the tap, apart from those for which the reader had no time.
    pub counts_ended: bool,
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
    /// All sessions, at most `sessions_max` at once and from the start; without private dispatches.
    #[must_use]
    pub fn all(sessions_max: usize) -> Self {
        Self {
            one_in: 1,
            sessions_max,
            sessions_first: sessions_max,
            counts_ended: false,
            guild_id: None,
            platform: None,
            encoding: None,
            private: false,
        }
    }

    /// Whether `session` is in the sample of the tap with this number: always the same for one session.
    fn admits(&self, session: &Session, tap: u32) -> bool {
        self.guild_id.is_none_or(|guild_id| session.guilds.contains(guild_id))
            && self.encoding.is_none_or(|encoding| session.encoding == encoding)
            && self.platform.as_ref().is_none_or(|platform| *platform == session.platform().name())
            && (self.one_in <= 1 || {
                let mut hasher = DefaultHasher::new();
                (tap, &*session.id).hash(&mut hasher);
                hasher.finish().is_multiple_of(self.one_in.into())
            })
    }
}

/// Turns taps on and off. Clones share it; the default has none.
#[derive(Clone, Debug, Default)]
pub struct TapSwitch(Arc<Switch>);

#[derive(Debug, Default)]
struct Switch {
    /// Changes with every tap that begins, ends or has room for more sessions. 0: there was none.
    generation: AtomicU32,
    taps: Mutex<[Option<Arc<Tap>>; TAPS_MAX]>,
}

#[derive(Debug)]
struct Tap {
    number: u32,
    filter: TapFilter,
    queue: Arc<CopyQueue>,
}

impl TapSwitch {
    fn taps(&self) -> MutexGuard<'_, [Option<Arc<Tap>>; TAPS_MAX]> {
        self.0.taps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a tap. It ends when the reader is dropped. None: there are `TAPS_MAX`.
    #[must_use]
    pub fn start(&self, filter: TapFilter) -> Option<TapReader> {
        let queue = CopyQueue::new(CopyLimits {
            bytes_max: QUEUE_BYTES_MAX,
            sessions_max: filter.sessions_max,
            sessions_first: filter.sessions_first,
            counts_ended: filter.counts_ended,
            is_paced: true,
            private: filter.private,
        });
        let mut taps = self.taps();
        let place = taps.iter_mut().find(|tap| tap.is_none())?;
        let number = self.changed();
        *place = Some(Arc::new(Tap { number, filter, queue: queue.clone() }));
        Some(TapReader { switch: self.clone(), queue })
    }

    /// Each connection looks at the taps again before its next dispatch. Returns the number of the change.
    fn changed(&self) -> u32 {
        self.0.generation.fetch_add(1, Relaxed)
    }
}

/// Takes copies out of a tap. The tap ends with it.
#[derive(Debug)]
pub struct TapReader {
    switch: TapSwitch,
    queue: Arc<CopyQueue>,
}

impl TapReader {
    /// The oldest copy. None: none waits.
    #[must_use]
    pub fn next(&self) -> Option<TapMessage> {
        self.queue.next()
    }

    /// Admits more sessions, if it is time: the reader has caught up, `now` after the start.
    pub fn grow(&self, now: Duration) {
        if self.queue.grow(now) {
            self.switch.changed();
        }
    }

    /// Leaves out a session for which the reader has no room.
    pub fn leave_out(&self, session: u64) {
        self.queue.leave_out(session);
    }

    /// How many sessions there are, and were.
    #[must_use]
    pub fn sessions(&self) -> CopiedSessions {
        self.queue.sessions()
    }

    /// Bytes of copies that wait.
    #[must_use]
    pub fn waiting_bytes(&self) -> usize {
        self.queue.waiting_bytes()
    }
}

impl Drop for TapReader {
    fn drop(&mut self) {
        // Connections forget the tap at their next dispatch.
        self.queue.close();
        for tap in self.switch.taps().iter_mut() {
            if tap.as_ref().is_some_and(|tap| Arc::ptr_eq(&tap.queue, &self.queue)) {
                *tap = None;
            }
        }
        self.switch.changed();
    }
}

/// How a frame was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentAs {
    pub seq: u64,
    /// Milliseconds of the partition's clock.
    pub at_ms: u64,
    pub writer: Option<Writer>,
    pub wire_bytes: usize,
}

/// Place of the bill among the copies of a connection, behind the taps.
const BILL: usize = TAPS_MAX;

/// Copies of what one connection is sent.
#[derive(Debug, Default)]
pub(crate) struct ConnTaps {
    /// Generation of the switch by which they were chosen.
    generation: u32,
    /// None: nothing is copied.
    copies: Option<Box<[Option<SessionCopies>; TAPS_MAX + 1]>>,
}

impl ConnTaps {
    /// Samples the connection for the bill from now on.
    pub(crate) fn set_bill(&mut self, copies: SessionCopies) {
        self.copies.get_or_insert_default()[BILL] = Some(copies);
    }

    /// Its copies for the bill; none if it is not sampled.
    pub(crate) fn bill(&self) -> Option<&SessionCopies> {
        self.copies.as_ref()?[BILL].as_ref()
    }

    /// Copies a dispatch that the connection is sent, for each who wants it.
    #[inline]
    pub(crate) fn dispatch(
        &mut self,
        switch: &TapSwitch,
        session: &Session,
        dispatch: &Dispatch,
        frame: &DispatchFrame,
        sent: SentAs,
    ) {
        let generation = switch.0.generation.load(Relaxed);
        if generation != self.generation {
            self.choose(generation, switch, session);
        }
        if self.copies.is_some() {
            self.copy(session, dispatch, frame, sent);
        }
    }

    /// Copies a payload that is no dispatch, for the bill.
    pub(crate) fn control(&mut self, writer: Option<Writer>, payload: &[u8], wire_bytes: usize) {
        if let Some(of) = self.copies.as_mut().and_then(|copies| copies[BILL].as_mut()) {
            of.push(TapMessage::Frame {
                session: of.session(),
                name: None,
                writer,
                wire_bytes,
                payload: payload.into(),
            });
        }
    }

    /// Takes part in taps that began or have room, and leaves those that ended.
    #[cold]
    fn choose(&mut self, generation: u32, switch: &TapSwitch, session: &Session) {
        self.generation = generation;
        let on = switch.taps().clone();
        let mut copies = self.copies.take().map(|copies| *copies).unwrap_or_default();
        for (place, tap) in on.into_iter().enumerate() {
            let Some(tap) = tap else {
                copies[place] = None;
                continue;
            };
            let is_known = copies[place].as_ref().is_some_and(|of| of.is_of(&tap.queue) && !of.is_ended());
            if !is_known {
                copies[place] = if tap.filter.admits(session, tap.number) { tap.queue.admit() } else { None };
            }
        }
        if copies.iter().any(Option::is_some) {
            self.copies = Some(Box::new(copies));
        }
    }

    #[cold]
    fn copy(&mut self, session: &Session, dispatch: &Dispatch, frame: &DispatchFrame, sent: SentAs) {
        let Some(copies) = &mut self.copies else { return };
        let SentAs { seq, at_ms, writer, wire_bytes } = sent;
        let parts = frame.parts(seq, Framing::None);
        let [taps @ .., bill] = &mut **copies;
        if let Some(of) = bill.as_mut().filter(|of| !of.is_ended() && guildhall_accounting::is_on()) {
            let payload = parts.slices(0).concat().into();
            let session = of.session();
            of.push(TapMessage::Frame { session, name: dispatch.name(), writer, wire_bytes, payload });
        }
        let Some(name) = dispatch.name() else { return };
        let rule = TapRule::of(dispatch);
        let mut copied: Option<Arc<[u8]>> = None;
        let is_wanted = |private: bool| private || rule.is_copied(name);
        for of in taps.iter_mut().flatten().filter(|of| !of.is_ended() && is_wanted(of.has_private())) {
            let body = copied.get_or_insert_with(|| frame.body().into()).clone();
            of.push(TapMessage::Dispatch {
                session: of.session(),
                at_ms,
                encoding: session.encoding,
                name,
                seq,
                payload_bytes: parts.len(),
                rule,
                body,
            });
        }
    }
}
