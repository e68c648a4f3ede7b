//! Checker: what every session must have been sent, and whether its client got exactly that.
//!
//! Owns        one `Session` per session the partitions made: the list of its dispatches in order, as the naive
//!             model says they must be, and how far its client has come.
//! Doors       `published`, `deliver`, `to_guild` follow the guild's streams; `identified`, `resume_*`, `timers`,
//!             `look` follow the partitions; `received` holds what a client decoded against all that.
//! Invariants  what is looked up in the product is only which sessions exist, and on which connection they are.
//! Not here    chance: `world.rs`.

use crate::{
    naive::{Change, Event, Known, Shown, State, Texts, chunk_text, found_members, is_half_a_move, status_text},
    session::{Capabilities, Given, Membership, Session, What},
};
use guildhall_guild::GuildRecord;
use guildhall_model::{
    User,
    to_gateway::{MemberQuery, Subscription},
};
use guildhall_partition::Partition;
use guildhall_relay::{
    Event as RelayEvent, MembersAnswer, Payload, RelayId, RelayMessage, SessionKey as KeyInGuild, ToGuild, ToRelay,
};
use guildhall_stdx::{Instant, Now, SlotKey};
use guildhall_test_kit::Dispatch;
use std::{
    collections::{BTreeMap, HashMap},
    rc::Rc,
    sync::Arc,
};

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
    /// The guild when the job began that this is the result of.
    pub begun: Option<Rc<State>>,
}

/// Limits of the partitions that decide about sessions.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    pub resume_window_ms: u64,
    pub gather_deadline_ms: u64,
    pub replay_events_max: u64,
    pub backlog_events_max: u64,
    /// A user account is passive in a guild with more members; none: its `large_threshold`.
    pub passive_above_members: Option<u64>,
    pub presence_events_per_s_max: u32,
    pub presence_burst_max: u32,
    /// Of what sessions that stand together share.
    pub log_events_max: u64,
    pub log_age_ms_max: u64,
}

/// How many presence events a guild makes.
#[derive(Default)]
struct Pace {
    /// Thousandths of events, of those that may come at once.
    used: u64,
    at: Instant,
}

impl Pace {
    fn count(&mut self, now: Now, per_s: u32, burst: u32) -> Result<(), Fault> {
        let back = now.instant.ms_since(self.at) * u64::from(per_s);
        self.used = self.used.saturating_sub(back) + 1_000;
        self.at = now.instant;
        if self.used > u64::from(burst + 1) * 1_000 {
            return fault(format!("more than {per_s} presence events a second, and {burst} at once"));
        }
        Ok(())
    }
}

/// One relay of a partition.
#[derive(Default)]
struct Relay {
    epoch: u32,
    seq: u64,
    state: Option<Rc<State>>,
    /// What passive sessions are told of, since the relay's newest snapshot.
    changes: Vec<Change>,
}

/// A session of a partition: which, and where.
pub type SessionKey = (usize, SlotKey);

fn key_of(session: KeyInGuild) -> SessionKey {
    let slot = SlotKey { slot: session.slot, generation: session.generation };
    (usize::from(session.relay.partition.0), slot)
}

/// See the module.
pub struct Checker {
    pub limits: SessionLimits,
    pub sessions: Vec<Session>,
    /// The guild now.
    pub state: Rc<State>,
    by_key: HashMap<SessionKey, usize>,
    by_id: HashMap<Arc<str>, usize>,
    relays: BTreeMap<RelayId, Relay>,
    shown: Shown,
    /// What everybody was last told that a member shows.
    told: BTreeMap<u64, (&'static str, usize)>,
    pace: Pace,
    /// Events and rounds of passive updates that any relay handled.
    given_total: u64,
    texts: Texts,
    pub accounts: HashMap<u64, Arc<User>>,
    /// Dispatches that were compared.
    pub compared_count: u64,
}

/// What a session is made of when IDENTIFY succeeded.
pub struct Identified {
    pub key: SlotKey,
    pub id: Arc<str>,
    pub user: Arc<User>,
    pub intents: u32,
    pub capabilities: Capabilities,
    pub large_threshold: Option<u64>,
    pub in_shard: bool,
    pub encoding: guildhall_codec::Encoding,
    pub guilds: Vec<u64>,
    pub conn: SlotKey,
    /// Which of the client's connections.
    pub conn_serial: u64,
}

impl Checker {
    pub fn new(record: &GuildRecord, limits: SessionLimits, accounts: &[Arc<User>]) -> Self {
        Self {
            limits,
            sessions: Vec::new(),
            state: Rc::new(State::of(record)),
            by_key: HashMap::new(),
            by_id: HashMap::new(),
            relays: BTreeMap::new(),
            shown: Shown::default(),
            told: BTreeMap::new(),
            pace: Pace::default(),
            given_total: 0,
            texts: Texts::default(),
            accounts: accounts.iter().map(|user| (user.id.get(), user.clone())).collect(),
            compared_count: 0,
        }
    }

    pub fn session_by_id(&self, id: &str) -> Option<usize> {
        self.by_id.get(id).copied()
    }

    // ── the guild ────────────────────────────────────────────────────────────────────────────────

    /// A message is about to be handled by the guild.
    pub fn heard(&mut self, message: &ToGuild) {
        self.shown.hear(message, &self.state);
        self.look_at_presences();
    }

    fn look_at_presences(&mut self) {
        let presences = self.shown.presences();
        if self.state.presences != presences {
            Rc::make_mut(&mut self.state).presences = presences;
        }
    }

    /// The guild published an event; `next` is what it published right after.
    pub fn published(&mut self, now: Now, event: &RelayEvent, next: Option<&RelayEvent>) -> Result<Rc<Event>, Fault> {
        let before = self.state.clone();
        match &event.payload {
            Payload::Presence { user_id, presence } => {
                let user = user_id.get();
                let said = (status_text(presence.status), presence.activities.len());
                let shown = self.state.presences.get(&user).copied().unwrap_or(("offline", 0));
                if said != shown {
                    return fault(format!("{user} is told to show {said:?}, but shows {shown:?}"));
                }
                self.told.insert(user, said);
                self.pace.count(now, self.limits.presence_events_per_s_max, self.limits.presence_burst_max)?;
            }
            Payload::MemberRemove(user) => {
                self.shown.forget_user(user.id.get());
                self.told.remove(&user.id.get());
                self.look_at_presences();
            }
            _ => {}
        }
        // Who moves in voice has not left anything, whoever sees it so.
        if State::is_changed_by(event.name.as_str(), &event.payload) && !is_half_a_move(event, next) {
            let mut state = State::clone(&self.state);
            state.apply(event.name.as_str(), &event.payload);
            self.state = Rc::new(state);
        }
        Ok(Rc::new(Event::new(event, next, &before, self.state.clone())))
    }

    /// The guild made an event for one session.
    pub fn direct(&self, event: &RelayEvent) -> Rc<Event> {
        Rc::new(Event::new(event, None, &self.state, self.state.clone()))
    }

    // ── relays ───────────────────────────────────────────────────────────────────────────────────

    /// A partition says something to the guild.
    pub fn told_guild(&mut self, side: usize, message: &ToGuild) -> Result<(), Fault> {
        match message {
            ToGuild::Subscribe { relay, epoch } => {
                self.relays.insert(*relay, Relay { epoch: *epoch, ..Relay::default() });
            }
            ToGuild::Unsubscribe { relay, .. } => drop(self.relays.remove(relay)),
            ToGuild::Attach { session, .. } => {
                let Some(at) = self.by_key.get(&key_of(*session)) else { return fault("an unknown session attaches") };
                let index = session.relay.index;
                let session = &mut self.sessions[*at];
                if session.side != side {
                    return fault("a session attaches from another partition");
                }
                if session.membership == Membership::None {
                    session.membership = Membership::Entering;
                }
                if session.membership == Membership::Entering {
                    session.relay = index;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A guild's message is about to be handled by a partition: what its sessions must be sent follows.
    pub fn deliver(&mut self, carried: &Carried) -> Result<(), Fault> {
        let message = &carried.message;
        let Some(relay) = self.relays.get_mut(&message.relay).filter(|relay| relay.epoch == message.epoch) else {
            return Ok(());
        };
        let is_snapshot = matches!(message.message, RelayMessage::Snapshot { .. });
        if !is_snapshot && message.seq != relay.seq + 1 {
            return Ok(());
        }
        relay.seq = message.seq;
        relay.state = Some(carried.state.clone());
        let changes_count = relay.changes.len();
        match &message.message {
            RelayMessage::Snapshot { picture, reset } => {
                carried.state.agrees_with(picture).or_else(|difference| fault(format!("snapshot: {difference}")))?;
                relay.changes.clear();
                if *reset {
                    let inside = self.sessions.iter_mut().filter(|session| session.is_served_by(message.relay));
                    inside.for_each(|session| session.lose_sight(carried.state.guild_id));
                }
            }
            RelayMessage::Published(_) => {
                self.given_total += 1;
                relay.changes.extend(carried.event.as_ref().and_then(|event| event.change));
                self.fan_out(message.relay, carried);
            }
            RelayMessage::Attached { session, view } => {
                let passive_above = self.limits.passive_above_members;
                let Some(at) = self.by_key.get(&key_of(*session)) else {
                    return fault("an unknown session is attached");
                };
                let session = &mut self.sessions[*at];
                let is_awaited = session.membership == Membership::Entering && session.relay == message.relay.index;
                if session.gone.is_none() && is_awaited {
                    match view {
                        Some(_) => session.enter(&carried.state, passive_above, changes_count),
                        None => session.leave(carried.state.guild_id),
                    }
                }
            }
            RelayMessage::Direct { session, event } => {
                if let (Some(at), Some(expected)) = (self.by_key.get(&key_of(*session)), &carried.event) {
                    let session = &mut self.sessions[*at];
                    // It may be out of sight of the guild for a while, but has not left.
                    let is_here = session.gone.is_none()
                        && session.membership != Membership::None
                        && session.relay_id() == message.relay;
                    let is_theirs = match &event.payload {
                        Payload::VoiceServer { .. } => {
                            carried.state.voice.get(&session.user).is_some_and(|(_, id)| **id == *session.id)
                        }
                        Payload::Presence { user_id, presence } => {
                            let shown = carried.state.presences.get(&user_id.get()).copied();
                            let said = (status_text(presence.status), presence.activities.len());
                            user_id.get() != session.user && said == shown.unwrap_or(("offline", 0))
                        }
                        _ => false,
                    };
                    if is_here {
                        if !is_theirs {
                            return fault(format!("{} for {}, which is not theirs", expected.text(0), session.id));
                        }
                        session.expect(What::Event(expected.clone(), 0));
                    }
                }
            }
            RelayMessage::Members { session, answer } => {
                if let Some(at) = self.by_key.get(&key_of(*session)).copied() {
                    self.members(at, message.relay, answer, carried)?;
                }
            }
            RelayMessage::List(_) => {}
            RelayMessage::Unavailable { .. } => return fault("the guild is there"),
        }
        Ok(())
    }

    fn fan_out(&mut self, relay: RelayId, carried: &Carried) {
        let Some(event) = &carried.event else { return };
        for session in self.sessions.iter_mut().filter(|session| session.is_served_by(relay)) {
            if event.left == Some(session.user) || carried.state.is_deleted {
                session.leave(carried.state.guild_id);
                continue;
            }
            if event.is_for(session.reader()) {
                let redaction = event.redaction(session.reader());
                session.expect(What::Event(event.clone(), redaction));
            }
        }
    }

    /// The relay's passive sessions are about to be told what changed.
    pub fn round(&mut self, relay: RelayId) {
        self.given_total += 1;
        let Some(Relay { state: Some(state), changes, .. }) = self.relays.get_mut(&relay) else { return };
        for session in self.sessions.iter_mut().filter(|session| session.is_served_by(relay) && session.is_passive()) {
            session.owe(state, changes);
        }
    }

    /// A partition is about to handle a subscription of a session.
    pub fn subscribed(&mut self, at: usize, change: impl FnOnce(&mut Subscription)) {
        let session = &mut self.sessions[at];
        if session.is_bot || session.gone.is_some() || session.membership == Membership::None {
            return;
        }
        let has_switched = session.subscribe(change);
        if !has_switched || session.membership != Membership::Inside {
            return;
        }
        let Some(Relay { state: Some(state), changes, .. }) = self.relays.get(&session.relay_id()) else { return };
        if session.is_passive() {
            session.knows(state, changes);
        } else {
            session.owe(state, changes);
        }
    }

    fn members(&mut self, at: usize, relay: RelayId, answer: &MembersAnswer, carried: &Carried) -> Result<(), Fault> {
        const GUILD_MEMBERS: u32 = 1 << 1;
        let state = &carried.state;
        let session = &mut self.sessions[at];
        if session.gone.is_some() || session.membership == Membership::None || session.relay_id() != relay {
            return Ok(());
        }
        let asked = session.requests.iter().find(|(nonce, _)| Some(nonce) == answer.nonce.as_ref());
        let Some((_, request)) = asked else { return fault(format!("an answer to no question: {answer:?}")) };
        let accounts = &self.accounts;
        let names = |user: u64| match accounts.get(&user) {
            Some(user) => [Some(user.username.clone()), user.global_name.clone()].into_iter().flatten().collect(),
            None => Vec::new(),
        };
        let may_list = match session.is_bot {
            true => session.intents & GUILD_MEMBERS != 0,
            false => state.may_list_members(session.user, carried.made_at_unix_ms),
        };
        let (mut found, not_found) = found_members(state, &request.query, names, may_list);
        if let MemberQuery::Prefix { limit, .. } = request.query {
            // Looked for a while ago, when somebody else may have been there.
            let before = carried.begun.as_ref().map(|begun| found_members(begun, &request.query, names, may_list).0);
            let before: Vec<u64> = before.unwrap_or_default().into_iter().take(limit).collect();
            found.retain(|user| before.contains(user));
        }
        let text = chunk_text(state, session.reader(), request, &found, &not_found);
        session.chunks.push_back(text.into());
        Ok(())
    }

    /// Nothing happened since its relay's last round.
    pub fn is_up_to_date(&self, session: &Session) -> bool {
        self.relays.get(&session.relay_id()).is_some_and(|relay| relay.changes.len() == session.told.0)
    }

    // ── sessions ─────────────────────────────────────────────────────────────────────────────────

    /// A partition started a session.
    pub fn identified(&mut self, now: Now, side: usize, new: Identified) -> usize {
        let at = self.sessions.len();
        self.by_key.insert((side, new.key), at);
        self.by_id.insert(new.id.clone(), at);
        let deadline = now.instant.after_ms(self.limits.gather_deadline_ms);
        self.sessions.push(Session::new(side, new, deadline));
        at
    }

    fn given(&self, now: Now) -> Given {
        Given { at: now.instant, total: self.given_total }
    }

    /// A RESUME is about to be handled where the session lives. Whether it must succeed, or none if either is right.
    pub fn resume_must(
        &self,
        now: Now,
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
        let last = session.expected.len() as u64;
        if seq > last {
            return Some(false);
        }
        if !session.is_bot && seq == 0 {
            // READY is forgotten once it was written.
            return None;
        }
        let is_short = last - seq <= self.limits.replay_events_max;
        if is_short && !session.may_be_forgotten(self.given(now), seq, self.limits) { Some(true) } else { None }
    }

    /// A RESUME succeeded: everything after `seq` is sent again, except what may no longer be seen.
    pub fn resumed(
        &mut self,
        at: usize,
        conn: SlotKey,
        conn_serial: u64,
        seq: u64,
        partition: &Partition,
    ) -> Result<(), Fault> {
        let session = &mut self.sessions[at];
        let Some(product) = partition.sessions().find(|product| product.key == session.key) else {
            return fault("a session that is gone was resumed");
        };
        let state = self.relays.get(&session.relay_id()).and_then(|relay| relay.state.clone());
        session.withhold_unseen(seq, state.as_deref(), product)?;
        session.resumed(conn, conn_serial, seq);
        Ok(())
    }

    /// Time was told to a partition.
    pub fn timers(&mut self, now: Now, side: usize) {
        for session in self.sessions.iter_mut().filter(|session| session.side == side && session.gone.is_none()) {
            session.gather_until(now.instant);
        }
    }

    /// Looks which sessions a partition has, after anything that may have ended one.
    pub fn look(&mut self, now: Now, side: usize, partition: &Partition, timers_ran: bool) -> Result<(), Fault> {
        let given = self.given(now);
        let found: HashMap<SlotKey, Option<SlotKey>> =
            partition.sessions().map(|session| (session.key, session.conn)).collect();
        for session in self.sessions.iter_mut().filter(|session| session.side == side) {
            match (found.get(&session.key), session.gone) {
                (Some(_), Some(why)) => return fault(format!("session {} is there, but {why}", session.id)),
                (None, Some(_)) => continue,
                (Some(conn), None) => session.seen(now.instant, *conn),
                (None, None) => {
                    let Some(why) = session.why_gone(given, self.limits) else {
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
            if session.gone.is_none()
                && session.membership != Membership::None
                && !self.relays.contains_key(&session.relay_id())
            {
                return fault(format!("session {} is in the guild, but the relay ended", session.id));
            }
            let is_expired = session.is_expired(now.instant, self.limits.resume_window_ms);
            if timers_ran && session.gone.is_none() && is_expired {
                return fault(format!("session {} should have expired", session.id));
            }
        }
        Ok(())
    }

    /// Holds what a partition gave its sessions against what it had to, once an input was handled.
    pub fn reconcile(&mut self, now: Now, side: usize, partition: &Partition) -> Result<(), Fault> {
        let given = self.given(now);
        for product in partition.sessions() {
            let Some(at) = self.by_key.get(&(side, product.key)) else { return fault("a session that nobody made") };
            let session = &mut self.sessions[*at];
            let state = self.relays.get(&session.relay_id()).and_then(|relay| relay.state.as_deref());
            session.reconcile(given, product, state)?;
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
        if Known::concerns(&dispatch.name, session.is_bot) {
            let applied = session.known.apply(&dispatch.name, &dispatch.d());
            // Who gets operations on rows a second time cannot always carry them out.
            applied.or_else(|what| if session.is_confused { Ok(()) } else { fault(what) })?;
        }
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
    /// `is_observed`: everybody is told of every presence.
    pub fn check_at_rest(&self, partitions: &[&Partition], is_observed: bool) -> Result<(), Fault> {
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
            let status = product.map_or(guildhall_model::Status::Offline, |product| product.profile.presence.status);
            if is_inside {
                let best = shown.entry(session.user).or_default();
                *best = (*best).max(status);
            }
        }
        for user in self.state.members.keys() {
            let expected = status_text(shown.get(user).copied().unwrap_or_default());
            let (known, activities) = self.state.presences.get(user).copied().unwrap_or(("offline", 0));
            let told = self.told.get(user).copied().unwrap_or(("offline", 0));
            if known != expected || is_observed && told != (known, activities) {
                return fault(format!("{user} was last told to be {told:?}, but is {expected}, {activities}"));
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
