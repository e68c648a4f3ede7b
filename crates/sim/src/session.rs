//! One session as the checker knows it.

use crate::{
    checker::{Fault, Identified, SessionLimits, fault, guild_create, guild_delete},
    naive::{Event, Reader, State},
};
use guildhall_codec::Encoding;
use guildhall_relay::SessionKey;
use guildhall_stdx::{Instant, SlotKey};
use std::{collections::VecDeque, rc::Rc, sync::Arc};

const GUILDS: u32 = 1;

/// Where a session stands with the guild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Membership {
    None,
    Entering,
    Inside,
}

/// Whether something that was sent once is left out of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Withheld {
    No,
    Yes,
    /// The session was on its way into the guild again: either is right.
    Maybe,
}

#[derive(Clone, Debug)]
pub enum What {
    /// Of the guild, with what is withheld of its content.
    Event(Rc<Event>, u8),
    /// Made for this session.
    Own(Rc<str>),
    /// READY, before its guilds are known.
    Ready,
}

/// The dispatch under one sequence number.
#[derive(Clone, Debug)]
pub struct Expected {
    pub what: What,
    pub withheld: Withheld,
}

/// See the module.
pub struct Session {
    pub key: SessionKey,
    pub id: Arc<str>,
    pub side: usize,
    pub user: u64,
    pub is_bot: bool,
    pub intents: u32,
    pub large_threshold: u64,
    pub in_shard: bool,
    pub encoding: Encoding,
    pub membership: Membership,
    /// Seq 1 comes first.
    pub expected: Vec<Expected>,
    /// Answers to op 8 that come when the connection has nothing else to do.
    pub chunks: VecDeque<Rc<str>>,
    /// Nonces of whole lists that its client asked for.
    pub whole_lists: Vec<String>,
    /// The client is known to have everything up to here.
    pub received_floor: u64,
    /// The highest number that its client ever claimed to have; the server may have forgotten all up to it.
    pub claimed: u64,
    /// Why it does not exist any more.
    pub gone: Option<&'static str>,
    /// The client said goodbye on its connection with this serial number.
    pub goodbye_on: Option<u64>,
    pub conn_serial: u64,
    conn: Option<SlotKey>,
    detached_since: Option<Instant>,
    gather_deadline: Option<Instant>,
    /// What READY says of its guilds while they are not there.
    unavailable: String,
}

impl Session {
    pub fn new(side: usize, new: Identified, gather_deadline: Instant) -> Self {
        let is_bot = new.user.bot;
        let (least, default) = if is_bot { (50, 50) } else { (25, 250) };
        let threshold = new.large_threshold.unwrap_or(default).clamp(least, 250);
        let mut session = Self {
            key: new.key,
            id: new.id,
            side,
            user: new.user.id.get(),
            is_bot,
            intents: new.intents,
            large_threshold: threshold,
            in_shard: new.in_shard,
            encoding: new.encoding,
            membership: Membership::None,
            expected: Vec::new(),
            chunks: VecDeque::new(),
            whole_lists: Vec::new(),
            received_floor: 0,
            claimed: 0,
            gone: None,
            goodbye_on: None,
            conn_serial: new.conn_serial,
            conn: Some(new.conn),
            detached_since: None,
            gather_deadline: None,
            unavailable: String::new(),
        };
        let guilds = if new.in_shard { new.guilds } else { Vec::new() };
        let named: Vec<String> = guilds.iter().map(|id| format!("id={id} unavailable=true")).collect();
        session.unavailable = named.join(",");
        if is_bot || guilds.is_empty() {
            let ready = session.ready_text(&session.unavailable);
            session.expect(What::Own(ready));
        } else {
            session.expect(What::Ready);
            session.gather_deadline = Some(gather_deadline);
        }
        session
    }

    pub fn reader(&self) -> Reader {
        Reader { user: self.user, is_bot: self.is_bot, intents: self.intents }
    }

    pub fn is_gathering(&self) -> bool {
        self.gather_deadline.is_some()
    }

    fn ready_text(&self, guilds: &str) -> Rc<str> {
        format!("READY user={} session={} guilds=[{guilds}]", self.user, self.id).into()
    }

    fn say_ready(&mut self, guilds: &str) {
        self.gather_deadline = None;
        self.expected[0].what = What::Own(self.ready_text(guilds));
    }

    pub fn expect(&mut self, what: What) {
        self.expected.push(Expected { what, withheld: Withheld::No });
    }

    fn is_told_of_guilds(&self) -> bool {
        !self.is_bot || self.intents & GUILDS != 0
    }

    /// Its view of the guild begins.
    pub fn enter(&mut self, state: &State) {
        self.membership = Membership::Inside;
        let guild = guild_create(self, state);
        if self.is_gathering() {
            self.say_ready(&guild);
        } else if self.is_told_of_guilds() {
            self.expect(What::Own(format!("GUILD_CREATE {guild}").into()));
        }
    }

    /// It is no longer in the guild, or could not enter it.
    pub fn leave(&mut self, guild_id: u64) {
        self.membership = Membership::None;
        if self.is_gathering() {
            self.say_ready("");
        } else if self.is_told_of_guilds() {
            self.expect(What::Own(guild_delete(guild_id)));
        }
    }

    /// READY does not wait any longer.
    pub fn gather_until(&mut self, now: Instant) {
        if self.gather_deadline.is_some_and(|deadline| deadline <= now) {
            let unavailable = std::mem::take(&mut self.unavailable);
            self.say_ready(&unavailable);
        }
    }

    /// It ended. What was sent before may arrive still.
    pub fn end(&mut self, why: &'static str) {
        self.gone = Some(why);
        self.membership = Membership::None;
    }

    /// It exists, on this connection or none.
    pub fn seen(&mut self, now: Instant, conn: Option<SlotKey>) {
        if conn.is_none() && self.conn.is_some() {
            self.detached_since = Some(now);
        } else if conn.is_some() {
            self.detached_since = None;
        }
        self.conn = conn;
    }

    pub fn is_expired(&self, now: Instant, window_ms: u64) -> bool {
        self.detached_since.is_some_and(|since| now.ms_since(since) >= window_ms)
    }

    /// Why it may be gone, if there is a reason.
    pub fn why_gone(&self, now: Instant, limits: SessionLimits) -> Option<&'static str> {
        let unacknowledged =
            self.expected.len() as u64 + self.chunks.len() as u64 - self.received_floor.min(self.expected.len() as u64);
        if self.goodbye_on == Some(self.conn_serial) {
            Some("its client said goodbye")
        } else if self.is_expired(now, limits.resume_window_ms) {
            Some("it expired")
        } else if self.is_gathering() {
            Some("its connection ended before READY")
        } else if unacknowledged > limits.replay_events_max.min(limits.backlog_events_max) {
            Some("it had more to catch up with than is kept")
        } else {
            None
        }
    }

    /// Marks what a replay from behind `seq` must leave out; `state` is the guild as its relay knows it.
    pub fn withhold_unseen(&mut self, seq: u64, state: Option<&State>) {
        let user = self.user;
        let membership = self.membership;
        for expected in self.expected.iter_mut().skip(seq as usize) {
            let What::Event(event, _) = &expected.what else { continue };
            if expected.withheld == Withheld::Yes {
                continue;
            }
            let may_see = state.is_some_and(|state| event.may_be_replayed_to(user, state));
            expected.withheld = match (may_see, membership) {
                (false, _) => Withheld::Yes,
                (true, Membership::Inside) => expected.withheld,
                (true, Membership::Entering) => Withheld::Maybe,
                (true, Membership::None) => Withheld::Yes,
            };
        }
    }

    /// A RESUME succeeded.
    pub fn resumed(&mut self, conn: SlotKey, conn_serial: u64, seq: u64) {
        self.received_floor = self.received_floor.max(seq);
        self.conn = Some(conn);
        self.conn_serial = conn_serial;
        self.detached_since = None;
        self.expect(What::Own("RESUMED ".into()));
    }

    /// The client said in a heartbeat that it has everything up to here.
    pub fn claims(&mut self, seq: u64) {
        self.claimed = self.claimed.max(seq);
    }

    /// The client got an answer to a heartbeat that told this seq.
    pub fn acknowledged(&mut self, seq: u64) {
        self.received_floor = self.received_floor.max(seq);
    }

    /// A dispatch came; the one before it had `last`.
    pub fn received(&mut self, last: u64, seq: u64, name: &str, text: &str) -> Result<(), Fault> {
        let mut next = last + 1;
        while next < seq && self.at(next).is_some_and(|expected| expected.withheld != Withheld::No) {
            next += 1;
        }
        if next != seq {
            let expected = self.at(next).map_or("nothing more".into(), Expected::text);
            return fault(format!("seq {next} must come next ({expected}), seq {seq} came: {text}"));
        }
        let is_answer = matches!(name, "GUILD_MEMBERS_CHUNK" | "RATE_LIMITED");
        let is_known = self.at(seq).is_some_and(|expected| &*expected.text() == text);
        if is_answer && !is_known {
            return self.received_answer(seq, name, text);
        }
        let Some(expected) = self.at(seq) else {
            return fault(format!("nothing more was to come, but seq {seq} came: {text}"));
        };
        if expected.withheld == Withheld::Yes {
            return fault(format!("seq {seq} may no longer be seen, but came: {text}"));
        }
        if !is_known {
            return fault(format!("seq {seq} must be: {}\n  but is: {text}", expected.text()));
        }
        Ok(())
    }

    fn at(&self, seq: u64) -> Option<&Expected> {
        self.expected.get(usize::try_from(seq.checked_sub(1)?).ok()?)
    }

    /// Answers to op 8 take their number when they are written: only now is it known which.
    fn received_answer(&mut self, seq: u64, name: &str, text: &str) -> Result<(), Fault> {
        if name == "RATE_LIMITED" {
            let nonce = text.split('"').nth(1).unwrap_or("");
            match self.whole_lists.iter().position(|asked| asked == nonce) {
                None => return fault(format!("nobody asked: {text}")),
                Some(0) => return fault(format!("the first is refused: {text}")),
                Some(_) => {}
            }
        } else {
            match self.chunks.iter().position(|chunk| &**chunk == text) {
                Some(0) => drop(self.chunks.pop_front()),
                _ => {
                    let due: Vec<&str> = self.chunks.iter().map(|chunk| &**chunk).collect();
                    let known = self.at(seq).map(Expected::text);
                    return fault(format!(
                        "seq {seq} is a chunk that is not the next: {text}\n  due: {due:?}, known: {known:?}"
                    ));
                }
            }
        }
        let expected = Expected { what: What::Own(text.into()), withheld: Withheld::No };
        self.expected.insert(seq as usize - 1, expected);
        Ok(())
    }

    /// The first dispatch after `seq` that must have come.
    pub fn first_missing(&self, seq: u64) -> Option<&Expected> {
        self.expected.iter().skip(seq as usize).find(|expected| expected.withheld == Withheld::No)
    }
}
