//! Checker: what every session must have been sent, and whether its client got exactly that.
//!
//! Owns        one `Session` per session the partitions made: the list of its dispatches in order, as the naive
//!             model says they must be, and how far its client has come.
//! Doors       `published`, `deliver`, `to_guild` follow the guild's streams; `identified`, `resume_*`, `timers`,
//!             `look` follow the partitions; `received` holds what a client decoded against all that.
//! Invariants  what is looked up in the product is only which sessions exist, and on which connection they are.
//! Not here    chance: `world.rs`.

use crate::{
    naive::{Event, State, Texts, chunk_text, guild_create_text, guild_delete_text},
    session::{Expected, Membership, Session, What},
};
use guildhall_guild::GuildRecord;
use guildhall_model::{User, to_gateway::RequestGuildMembers};
use guildhall_partition::Partition;
use guildhall_relay::{Event as RelayEvent, Payload, RelayMessage, SessionKey, ToGuild, ToRelay};
use guildhall_stdx::{Now, SlotKey};
use guildhall_test_kit::Dispatch;
use std::{collections::HashMap, rc::Rc, sync::Arc};

/// Something that must not be. The text says what was expected and what came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

pub fn fault<T>(text: impl Into<String>) -> Result<T, Fault> {
    Err(Fault(text.into()))
}

/// A guild's message on its way to a relay, with the guild as it was when the message was made.
#[derive(Clone, Debug)]
pub struct Carried {
    pub message: ToRelay,
    pub state: Rc<State>,
    pub event: Option<Rc<Event>>,
    pub made_at_unix_ms: i64,
}

/// Limits of the partitions that decide about sessions.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    pub resume_window_ms: u64,
    pub gather_deadline_ms: u64,
    pub replay_events_max: u64,
    pub backlog_events_max: u64,
}

/// One partition's relay.
struct Relay {
    epoch: u32,
    seq: u64,
    state: Option<Rc<State>>,
}

/// See the module.
pub struct Checker {
    pub limits: SessionLimits,
    pub sessions: Vec<Session>,
    /// The guild now.
    pub state: Rc<State>,
    by_key: HashMap<SessionKey, usize>,
    by_id: HashMap<Arc<str>, usize>,
    relays: Vec<Option<Relay>>,
    texts: Texts,
    accounts: HashMap<u64, Arc<User>>,
    /// Dispatches that were compared.
    pub compared_count: u64,
}

/// What a session is made of when IDENTIFY succeeded.
pub struct Identified {
    pub key: SessionKey,
    pub id: Arc<str>,
    pub user: Arc<User>,
    pub intents: u32,
    pub large_threshold: Option<u64>,
    pub in_shard: bool,
    pub encoding: guildhall_codec::Encoding,
    pub guilds: Vec<u64>,
    pub conn: SlotKey,
    /// Which of the client's connections.
    pub conn_serial: u64,
}

impl Checker {
    pub fn new(record: &GuildRecord, partitions: usize, limits: SessionLimits, accounts: &[Arc<User>]) -> Self {
        Self {
            limits,
            sessions: Vec::new(),
            state: Rc::new(State::of(record)),
            by_key: HashMap::new(),
            by_id: HashMap::new(),
            relays: (0..partitions).map(|_| None).collect(),
            texts: Texts::default(),
            accounts: accounts.iter().map(|user| (user.id.get(), user.clone())).collect(),
            compared_count: 0,
        }
    }

    pub fn session_by_id(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    // ── the guild ────────────────────────────────────────────────────────────────────────────────

    /// The guild published an event; `next` is what it published right after.
    pub fn published(&mut self, event: &RelayEvent, next: Option<&RelayEvent>) -> Rc<Event> {
        let before = self.state.clone();
        if State::is_changed_by(event.name.as_str(), &event.payload) {
            let mut state = State::clone(&before);
            state.apply(event.name.as_str(), &event.payload);
            self.state = Rc::new(state);
        }
        Rc::new(Event::new(event, next, &before, self.state.clone()))
    }

    /// The guild made an event for one session.
    pub fn direct(&self, event: &RelayEvent) -> Rc<Event> {
        Rc::new(Event::new(event, None, &self.state, self.state.clone()))
    }

    // ── relays ───────────────────────────────────────────────────────────────────────────────────

    /// A partition says something to the guild.
    pub fn told_guild(&mut self, side: usize, message: &ToGuild) -> Result<(), Fault> {
        match message {
            ToGuild::Subscribe { epoch, .. } => {
                self.relays[side] = Some(Relay { epoch: *epoch, seq: 0, state: None });
            }
            ToGuild::Unsubscribe { .. } => {
                self.relays[side] = None;
            }
            ToGuild::Attach { session, .. } => {
                let Some(at) = self.by_key.get(session) else { return fault("an unknown session attaches") };
                let session = &mut self.sessions[*at];
                if session.membership == Membership::None {
                    session.membership = Membership::Entering;
                }
            }
            ToGuild::Resync { .. }
            | ToGuild::Detach { .. }
            | ToGuild::Presence { .. }
            | ToGuild::Voice { .. }
            | ToGuild::RequestMembers { .. } => {}
        }
        Ok(())
    }

    /// A guild's message is about to be handled by a partition: what its sessions must be sent follows.
    pub fn deliver(&mut self, side: usize, carried: &Carried) -> Result<(), Fault> {
        let message = &carried.message;
        let Some(relay) = self.relays[side].as_mut().filter(|relay| relay.epoch == message.epoch) else {
            return Ok(());
        };
        let is_snapshot = matches!(message.message, RelayMessage::Snapshot { .. });
        if !is_snapshot && message.seq != relay.seq + 1 {
            return Ok(());
        }
        relay.seq = message.seq;
        relay.state = Some(carried.state.clone());
        match &message.message {
            RelayMessage::Snapshot { meta, reset } => {
                carried.state.agrees_with(meta).or_else(|difference| fault(format!("snapshot: {difference}")))?;
                if *reset {
                    let inside = |s: &&mut Session| s.side == side && s.membership == Membership::Inside;
                    let reset = self.sessions.iter_mut().filter(inside);
                    reset.for_each(|session| session.end("it was reset, since events were lost"));
                }
            }
            RelayMessage::Published(_) => self.fan_out(side, carried),
            RelayMessage::Attached { session, view } => {
                let Some(at) = self.by_key.get(session) else { return fault("an unknown session is attached") };
                let session = &mut self.sessions[*at];
                if session.gone.is_none() && session.membership == Membership::Entering {
                    match view {
                        Some(_) => session.enter(&carried.state),
                        None => session.leave(carried.state.guild_id),
                    }
                }
            }
            RelayMessage::Direct { session, event } => {
                if let (Some(at), Some(expected)) = (self.by_key.get(session), &carried.event) {
                    let session = &mut self.sessions[*at];
                    let is_theirs = match &event.payload {
                        Payload::VoiceServer { .. } => {
                            carried.state.voice.get(&session.user).is_some_and(|(_, id)| **id == *session.id)
                        }
                        _ => false,
                    };
                    if session.gone.is_none() {
                        if !is_theirs {
                            return fault(format!("{} for {}, who is not in voice", expected.name, session.id));
                        }
                        session.expect(What::Event(expected.clone(), 0));
                    }
                }
            }
            RelayMessage::Members { session, request, .. } => {
                if let Some(at) = self.by_key.get(session).copied() {
                    self.members(at, request, carried);
                }
            }
            RelayMessage::Unavailable { .. } => return fault("the guild is there"),
        }
        Ok(())
    }

    fn fan_out(&mut self, side: usize, carried: &Carried) {
        let Some(event) = &carried.event else { return };
        for session in self.sessions.iter_mut().filter(|s| s.side == side && s.membership == Membership::Inside) {
            if event.left == Some(session.user) || carried.state.is_deleted {
                session.leave(carried.state.guild_id);
                continue;
            }
            let reader = session.reader();
            if event.is_for(reader) {
                session.expect(What::Event(event.clone(), event.redaction(reader)));
            }
        }
    }

    fn members(&mut self, at: usize, request: &RequestGuildMembers, carried: &Carried) {
        let state = &carried.state;
        let session = &mut self.sessions[at];
        if session.gone.is_some() {
            return;
        }
        let accounts = &self.accounts;
        let names = |user: u64| match accounts.get(&user) {
            Some(user) => [Some(user.username.clone()), user.global_name.clone()].into_iter().flatten().collect(),
            None => Vec::new(),
        };
        const GUILD_MEMBERS: u32 = 1 << 1;
        let may_list = match session.is_bot {
            true => session.intents & GUILD_MEMBERS != 0,
            false => state.may_list_members(session.user, carried.made_at_unix_ms),
        };
        let text = chunk_text(state, session.reader(), request, names, may_list);
        session.chunks.push_back(text.into());
    }

    // ── sessions ─────────────────────────────────────────────────────────────────────────────────

    /// A partition started a session.
    pub fn identified(&mut self, now: Now, side: usize, new: Identified) -> usize {
        let at = self.sessions.len();
        self.by_key.insert(new.key, at);
        self.by_id.insert(new.id.clone(), at);
        let deadline = now.instant.after_ms(self.limits.gather_deadline_ms);
        self.sessions.push(Session::new(side, new, deadline));
        at
    }

    /// A RESUME is about to be handled where the session lives. Whether it must succeed, or none if either is right.
    pub fn resume_must(
        &self,
        at: Option<usize>,
        user: u64,
        encoding: guildhall_codec::Encoding,
        seq: u64,
    ) -> Option<bool> {
        let Some(at) = at else { return Some(false) };
        let session = &self.sessions[at];
        if session.gone.is_some() || session.user != user || session.encoding != encoding || session.is_gathering() {
            return Some(false);
        }
        if seq < session.received_floor {
            // It was told that the client has more, and has forgotten that.
            return Some(false);
        }
        if seq < session.claimed {
            return None;
        }
        // Chunks that are yet to come take numbers too.
        let unknown = session.chunks.len() as u64;
        let last = session.expected.len() as u64;
        if seq > last + unknown {
            return Some(false);
        }
        let kept = last.saturating_sub(seq);
        if seq > last || kept + unknown > self.limits.replay_events_max { None } else { Some(true) }
    }

    /// A RESUME succeeded: everything after `seq` is sent again, except what may no longer be seen.
    pub fn resumed(&mut self, at: usize, conn: SlotKey, conn_serial: u64, seq: u64) {
        let session = &mut self.sessions[at];
        let state = self.relays[session.side].as_ref().and_then(|relay| relay.state.clone());
        session.withhold_unseen(seq, state.as_deref());
        session.resumed(conn, conn_serial, seq);
    }

    /// Time was told to a partition.
    pub fn timers(&mut self, now: Now, side: usize) {
        for session in self.sessions.iter_mut().filter(|session| session.side == side && session.gone.is_none()) {
            session.gather_until(now.instant);
        }
    }

    /// Looks which sessions a partition has, after anything that may have ended one.
    pub fn look(&mut self, now: Now, side: usize, partition: &Partition, timers_ran: bool) -> Result<(), Fault> {
        let found: HashMap<SessionKey, Option<SlotKey>> =
            partition.sessions().map(|session| (session.key, session.conn)).collect();
        for session in self.sessions.iter_mut().filter(|session| session.side == side) {
            match (found.get(&session.key), session.gone) {
                (Some(_), Some(why)) => return fault(format!("session {} is there, but {why}", session.id)),
                (None, Some(_)) => {}
                (Some(conn), None) => session.seen(now.instant, *conn),
                (None, None) => {
                    let Some(why) = session.why_gone(now.instant, self.limits) else {
                        return fault(format!(
                            "session {} of {} is gone without reason: {} dispatches, {} known to have arrived",
                            session.id,
                            session.user,
                            session.expected.len(),
                            session.received_floor
                        ));
                    };
                    session.end(why);
                }
            }
            if session.gone.is_none() && session.membership != Membership::None && self.relays[side].is_none() {
                return fault(format!("session {} is in the guild, but the relay ended", session.id));
            }
            let is_expired = session.is_expired(now.instant, self.limits.resume_window_ms);
            if timers_ran && session.gone.is_none() && is_expired {
                return fault(format!("session {} should have expired", session.id));
            }
        }
        Ok(())
    }

    // ── clients ──────────────────────────────────────────────────────────────────────────────────

    /// A client decoded a dispatch; `seq` is the last it had before. Returns its session.
    pub fn received(&mut self, session: Option<usize>, seq: u64, dispatch: &Dispatch) -> Result<usize, Fault> {
        self.compared_count += 1;
        let at = match (session, dispatch.name.as_str()) {
            (None, "READY") => {
                let id = dispatch.d()["session_id"].as_str().unwrap_or("").to_owned();
                self.session_by_id(&id).ok_or(Fault(format!("READY for session {id:?}, which nobody made")))?
            }
            (None, name) => return fault(format!("{name} without a session")),
            (Some(at), _) => at,
        };
        let text = self.texts.of(dispatch);
        let session = &mut self.sessions[at];
        session.received(seq, dispatch.seq, &dispatch.name, &text)?;
        Ok(at)
    }

    /// Everything has been delivered: what a connected, reading client has not got is missing.
    pub fn check_complete(&self, at: usize, seq: u64) -> Result<(), Fault> {
        let session = &self.sessions[at];
        match session.first_missing(seq) {
            Some(expected) => fault(format!("missing after seq {seq}: {}", expected.text())),
            None if !session.chunks.is_empty() => fault(format!("missing: {}", session.chunks[0])),
            None => Ok(()),
        }
    }

    /// Nothing is under way: sessions are in the guild exactly when their account is, and show what they show.
    pub fn check_at_rest(&self, partitions: &[&Partition]) -> Result<(), Fault> {
        let mut shown: HashMap<u64, guildhall_model::Status> = HashMap::new();
        for session in self.sessions.iter().filter(|session| session.gone.is_none()) {
            let belongs = session.in_shard && self.state.members.contains_key(&session.user);
            let is_inside = session.membership == Membership::Inside;
            if belongs != is_inside {
                return fault(format!(
                    "session {} of {}: in the guild {is_inside}, member {belongs} ({:?})",
                    session.id, session.user, session.membership
                ));
            }
            let product = partitions[session.side].sessions().find(|product| product.key == session.key);
            let status = product.map_or(guildhall_model::Status::Offline, |product| product.presence.status);
            if is_inside {
                let best = shown.entry(session.user).or_default();
                *best = (*best).max(status);
            }
        }
        for user in self.state.members.keys() {
            let expected = crate::naive::status_text(shown.get(user).copied().unwrap_or_default());
            let told = self.state.presences.get(user).copied().unwrap_or("offline");
            if told != expected {
                return fault(format!("{user} was last told to be {told}, but is {expected}"));
            }
        }
        for (user, (_, id)) in &self.state.voice {
            let lives = |at: usize| self.sessions[at].gone.is_none() && self.sessions[at].user == *user;
            if !self.session_by_id(id).is_some_and(lives) {
                return fault(format!("{user} is in voice by session {id}, which is gone"));
            }
        }
        Ok(())
    }
}

impl Expected {
    /// What it must say.
    pub fn text(&self) -> Rc<str> {
        match &self.what {
            What::Event(event, redaction) => event.text(*redaction),
            What::Own(text) => text.clone(),
            What::Ready => "READY, which was not due".into(),
        }
    }
}

/// GUILD_CREATE for a session, as it must be.
pub(crate) fn guild_create(session: &Session, state: &State) -> String {
    guild_create_text(state, session.reader(), session.large_threshold)
}

/// GUILD_DELETE for who left.
pub(crate) fn guild_delete(guild_id: u64) -> Rc<str> {
    guild_delete_text(guild_id, false).into()
}
