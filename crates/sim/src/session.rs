//! One session as the checker knows it.

use crate::{
    checker::{Fault, Identified, SessionLimits, fault},
    naive::{
        Change, Event, Known, NaiveChannel, PassiveForm, People, Reader, State, Untold, guild_create_text,
        guild_delete_text, list_id, made_text, payload_text, supplemental_text,
    },
};
use guildhall_codec::Encoding;
use guildhall_member_list::ListOp;
use guildhall_model::to_gateway::{MemberQuery, RequestGuildMembers, Subscription};
use guildhall_relay::{Event as RelayEvent, Gate, PartitionId, Payload, RelayId, VoiceEntry};
use guildhall_session::{ReplayEntry, Session as Product};
use guildhall_stdx::{Instant, SlotKey};
use std::{
    collections::{BTreeSet, VecDeque},
    rc::Rc,
    sync::Arc,
};

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
    /// Made by its relay, with the channels that it is about.
    Made(Rc<str>, Rc<[u64]>),
    /// Of a member list, with its id. None: it only takes rows away.
    List(Rc<str>, Option<Rc<str>>),
    /// Made for this session.
    Own(Rc<str>),
    /// READY or READY_SUPPLEMENTAL, before its guilds are known.
    Ready,
    /// RATE_LIMITED; for what is seen when it is read.
    Refusal,
}

/// What a user client can take (docs/protocol.md §8.1).
#[derive(Clone, Copy, Debug)]
pub struct Capabilities(pub u64);

impl Capabilities {
    fn has(self, bit: u32) -> bool {
        self.0 >> bit & 1 == 1
    }

    fn is_prioritized(self) -> bool {
        self.has(4) && self.has(5)
    }

    fn passive(self) -> PassiveForm {
        match (self.has(14), self.has(11)) {
            (true, _) => PassiveForm::V2,
            (false, true) => PassiveForm::V1,
            (false, false) => PassiveForm::Unreads,
        }
    }
}

/// The dispatch under one sequence number.
#[derive(Clone, Debug)]
pub struct Expected {
    pub what: What,
    pub withheld: Withheld,
    /// When it was given.
    pub at: Given,
}

/// When something was given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Given {
    pub at: Instant,
    /// How much had been given to all sessions by then.
    pub total: u64,
}

/// See the module.
pub struct Session {
    pub key: SlotKey,
    pub id: Arc<str>,
    pub side: usize,
    pub user: u64,
    pub is_bot: bool,
    pub intents: u32,
    pub large_threshold: u64,
    pub in_shard: bool,
    pub encoding: Encoding,
    pub membership: Membership,
    /// Of the guild here: the one that it entered through, or is about to.
    pub relay: u16,
    /// The guild was small enough when it entered.
    starts_active: bool,
    /// What it subscribed to.
    pub subscription: Subscription,
    watched: BTreeSet<u64>,
    capabilities: Capabilities,
    /// If it is passive: how many of its relay's changes it was told of, and what it knows the guild to be.
    pub told: (usize, Rc<State>),
    /// It has been passive since its view of the guild began.
    pub was_never_active: bool,
    /// What its client knows.
    pub known: Known,
    /// Its client asked for what it had got already, and did not go back.
    pub is_confused: bool,
    /// What the input that is being handled has to tell it of, if it is passive.
    due: Option<Untold>,
    /// Seq 1 comes first.
    pub expected: Vec<Expected>,
    /// What the input that is being handled has to give it.
    pending: VecDeque<What>,
    /// Answers to op 8, which are made when the connection has nothing else to do.
    pub chunks: VecDeque<Rc<str>>,
    /// What its client asked for by op 8, by nonce.
    pub requests: Vec<(String, RequestGuildMembers)>,
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
            relay: 0,
            starts_active: false,
            subscription: Subscription::default(),
            watched: BTreeSet::new(),
            capabilities: if is_bot { Capabilities(0) } else { new.capabilities },
            told: Default::default(),
            was_never_active: false,
            known: Known::default(),
            is_confused: false,
            due: None,
            expected: Vec::new(),
            pending: VecDeque::new(),
            chunks: VecDeque::new(),
            requests: Vec::new(),
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
        session.expect(What::Ready);
        if session.capabilities.is_prioritized() {
            session.expect(What::Ready);
        }
        if is_bot || guilds.is_empty() {
            session.say_ready(None);
        } else {
            session.gather_deadline = Some(gather_deadline);
        }
        session
    }

    pub fn reader(&self) -> Reader<'_> {
        Reader {
            user: self.user,
            is_bot: self.is_bot,
            intents: self.intents,
            is_active: self.is_active(),
            typing: self.subscription.typing,
            member_updates: self.subscription.member_updates,
            watched: &self.watched,
            passive: self.capabilities.passive(),
        }
    }

    fn is_active(&self) -> bool {
        self.is_bot || self.starts_active || self.subscription.typing
    }

    /// It is in the guild, and is told of it now and then only.
    pub fn is_passive(&self) -> bool {
        self.gone.is_none() && self.membership == Membership::Inside && !self.is_active()
    }

    /// The relay that serves it, or is about to.
    pub fn relay_id(&self) -> RelayId {
        RelayId { partition: PartitionId(self.side as u16), index: self.relay }
    }

    /// Its view of the guild has begun, through this relay.
    pub fn is_served_by(&self, relay: RelayId) -> bool {
        self.membership == Membership::Inside && self.relay_id() == relay
    }

    pub fn is_gathering(&self) -> bool {
        self.gather_deadline.is_some()
    }

    /// READY can be said: with the guild, or without.
    fn say_ready(&mut self, guild: Option<&State>) {
        self.gather_deadline = None;
        let (reader, threshold) = (self.reader(), self.large_threshold);
        let is_split = self.capabilities.is_prioritized();
        let guilds = match guild {
            Some(state) if is_split => guild_create_text(state, &People::alone(state, reader), threshold),
            Some(state) => guild_create_text(state, &People::of(state, reader, threshold), threshold),
            None => self.unavailable.clone(),
        };
        let supplemental = is_split.then(|| {
            let people = guild.map(|state| (state.guild_id, People::others(state, reader)));
            supplemental_text(people.as_ref().map(|(id, people)| (*id, people)))
        });
        let ready: Rc<str> = format!("READY user={} session={} guilds=[{guilds}]", self.user, self.id).into();
        // What stands for them has its numbers already.
        let held = self.expected.iter_mut().map(|expected| &mut expected.what).chain(&mut self.pending);
        let said = [Some(ready), supplemental.map(Into::into)];
        for (held, said) in held.zip(said.into_iter().flatten()) {
            *held = What::Own(said);
        }
    }

    pub fn expect(&mut self, what: What) {
        self.pending.push_back(what);
    }

    fn is_told_of_guilds(&self) -> bool {
        !self.is_bot || self.intents & GUILDS != 0
    }

    /// Its view of the guild begins, after so many changes that its relay knows of.
    pub fn enter(&mut self, state: &Rc<State>, passive_above: Option<u64>, changes_count: usize) {
        self.membership = Membership::Inside;
        self.starts_active = state.members.len() as u64 <= passive_above.unwrap_or(self.large_threshold);
        self.told = (changes_count, state.clone());
        self.was_never_active = !self.is_active();
        if self.is_gathering() {
            self.say_ready(Some(state));
        } else if self.is_told_of_guilds() {
            let guild =
                guild_create_text(state, &People::of(state, self.reader(), self.large_threshold), self.large_threshold);
            self.expect(What::Own(format!("GUILD_CREATE {guild}").into()));
        }
    }

    /// It is no longer in the guild, or could not enter it.
    pub fn leave(&mut self, guild_id: u64) {
        self.membership = Membership::None;
        self.chunks.clear();
        self.subscription = Subscription::default();
        self.watched.clear();
        if self.is_gathering() {
            self.unavailable.clear();
            self.say_ready(None);
        } else if self.is_told_of_guilds() {
            self.expect(What::Own(guild_delete_text(guild_id, false).into()));
        }
    }

    /// Its relay lost events: to its client that is an outage.
    pub fn lose_sight(&mut self, guild_id: u64) {
        self.membership = Membership::Entering;
        if self.is_told_of_guilds() {
            self.expect(What::Own(guild_delete_text(guild_id, true).into()));
        }
    }

    /// READY does not wait any longer.
    pub fn gather_until(&mut self, now: Instant) {
        if self.gather_deadline.is_some_and(|deadline| deadline <= now) {
            self.say_ready(None);
        }
    }

    // ── passive updates ──────────────────────────────────────────────────────────────────────────

    /// It subscribes to something else. Returns whether it looks at the guild from now on and did not before, or
    /// the other way round.
    pub fn subscribe(&mut self, change: impl FnOnce(&mut Subscription)) -> bool {
        let before = self.is_active();
        change(&mut self.subscription);
        self.watched = self.subscription.members.iter().map(|user| user.get()).collect();
        self.was_never_active &= !self.is_active();
        before != self.is_active()
    }

    /// It knows everything up to here.
    pub fn knows(&mut self, state: &Rc<State>, changes: &[Change]) {
        self.told = (changes.len(), state.clone());
    }

    /// The next input brings it up to date.
    pub fn owe(&mut self, state: &Rc<State>, changes: &[Change]) {
        let (told_count, before) = std::mem::take(&mut self.told);
        self.due = Some(Untold {
            form: self.capabilities.passive(),
            user: self.user,
            before,
            now: state.clone(),
            changes: changes[told_count..].to_vec(),
        });
        self.knows(state, changes);
    }

    // ── what it was given ────────────────────────────────────────────────────────────────────────

    /// An input was handled: what the product gave the session is held against what it had to.
    pub fn reconcile(&mut self, at: Given, product: &Product, state: Option<&State>) -> Result<(), Fault> {
        for seq in self.expected.len() as u64 + 1..=product.replay.last_seq() {
            let entry = product.replay.entry(seq);
            let event = entry.as_ref().and_then(|entry| entry.dispatch.event());
            let what = match event {
                Some(event) if made_text(&event.payload).is_some() => self.given_update(event, state)?,
                Some(event) if event.name.as_str() == "GUILD_MEMBER_LIST_UPDATE" => self.given_list(event, state)?,
                Some(event) => match self.pending.pop_front() {
                    Some(what) => what,
                    None => {
                        let text = payload_text(event.name.as_str(), &event.payload, 0);
                        return fault(format!(
                            "session {} of {} is given {text}, which is not for it",
                            self.id, self.user
                        ));
                    }
                },
                None => match self.pending.pop_front() {
                    Some(what) => what,
                    None => self.given_answer(entry.as_ref())?,
                },
            };
            self.expected.push(Expected { what, withheld: Withheld::No, at });
        }
        if let Some(missing) = self.pending.front() {
            return fault(format!("session {} of {} is not given {}", self.id, self.user, missing.text()));
        }
        if let Some(due) = self.due.take().filter(Untold::is_due) {
            return fault(format!("session {} of {} is not told of {:?}", self.id, self.user, due.changes));
        }
        Ok(())
    }

    fn given_update(&mut self, event: &RelayEvent, state: Option<&State>) -> Result<What, Fault> {
        let text = made_text(&event.payload).unwrap_or_default();
        let who = format!("session {} of {}", self.id, self.user);
        let Some(due) = self.due.take() else { return fault(format!("{who} is told unasked {text}")) };
        due.check(&event.payload).or_else(|what| fault(format!("{who} is told {text}: {what}")))?;
        let Gate::Channels(channels) = &event.audience.gate else {
            return fault(format!("{who}: a passive update for {:?}", event.audience.gate));
        };
        let channels: Rc<[u64]> = channels.iter().map(|channel| channel.get()).collect();
        let views = |channel: &u64| state.is_some_and(|state| state.viewers(*channel).contains(&self.user));
        if !channels.iter().all(views) {
            return fault(format!("{who} is told of channels it may not view: {text}"));
        }
        Ok(What::Made(text.into(), channels))
    }

    /// A chunk of members, or that there are none now.
    fn given_answer(&mut self, entry: Option<&ReplayEntry>) -> Result<What, Fault> {
        let is_refusal = entry.is_some_and(|entry| {
            let frame = entry.dispatch.frame(self.encoding, entry.redaction);
            frame.body().windows(11).any(|bytes| bytes == b"retry_after")
        });
        match self.chunks.pop_front() {
            chunk if is_refusal => {
                chunk.into_iter().for_each(|chunk| self.chunks.push_front(chunk));
                Ok(What::Refusal)
            }
            Some(chunk) => Ok(What::Own(chunk)),
            None => fault(format!("session {} of {} is answered what it did not ask", self.id, self.user)),
        }
    }

    /// What lists hold is looked at when everything is at rest.
    fn given_list(&mut self, event: &RelayEvent, state: Option<&State>) -> Result<What, Fault> {
        let text: Rc<str> = payload_text(event.name.as_str(), &event.payload, 0).into();
        let list: Option<Rc<str>> = match &event.audience.gate {
            Gate::List(list) => Some(list.to_string().into()),
            _ => None,
        };
        let says_nothing = |op: &ListOp| matches!(op, ListOp::Delete { .. } | ListOp::Invalidate { .. });
        let is_shown = match &event.payload {
            Payload::MemberList(change) => !change.ops.iter().all(says_nothing),
            _ => true,
        };
        let views = list.as_ref().zip(state).is_some_and(|(list, state)| may_look_at(state, self.user, list));
        if is_shown && (!views || self.membership != Membership::Inside) {
            return fault(format!("session {} of {} is shown a list it may not see: {text}", self.id, self.user));
        }
        Ok(What::List(text, list))
    }

    /// It is gone: what it was to be given may have been written before.
    pub fn settle(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        let at = self.expected.last().map(|last| last.at).unwrap_or_default();
        self.expected.extend(pending.into_iter().map(|what| Expected { what, withheld: Withheld::No, at }));
        self.due = None;
    }

    /// It ended. What was sent before may arrive still.
    pub fn end(&mut self, why: &'static str) {
        self.settle();
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
    pub fn why_gone(&self, now: Given, limits: SessionLimits) -> Option<&'static str> {
        let given = (self.expected.len() + self.pending.len()) as u64;
        // What ended it may have been something that its relay made: nobody saw that.
        let unseen = u64::from(self.due.is_some()) + 2 * u64::from(!self.subscription.channels.is_empty());
        let unacknowledged = (given + unseen).saturating_sub(self.received_floor);
        if self.goodbye_on == Some(self.conn_serial) {
            Some("its client said goodbye")
        } else if self.is_expired(now.at, limits.resume_window_ms) {
            Some("it expired")
        } else if self.is_gathering() {
            Some("its connection ended before READY")
        } else if unacknowledged > limits.replay_events_max.min(limits.backlog_events_max) {
            Some("it had more to catch up with than is kept")
        } else if self.may_be_forgotten(now, self.received_floor, limits) {
            Some("what it was to be sent next was forgotten")
        } else {
            None
        }
    }

    /// Whether something after `seq` may not be kept any more by what sessions share.
    pub fn may_be_forgotten(&self, now: Given, seq: u64, limits: SessionLimits) -> bool {
        // What was not looked at in between was given earlier than it seems.
        self.expected.iter().skip(seq as usize).any(|expected| {
            now.at.ms_since(expected.at.at) > limits.log_age_ms_max
                || now.total - expected.at.total >= limits.log_events_max
        })
    }

    /// Marks what a replay from behind `seq` must leave out; `state` is the guild as its relay knows it.
    ///
    /// # Errors
    /// When what is left of a passive update is not for it.
    pub fn withhold_unseen(&mut self, seq: u64, state: Option<&State>, product: &Product) -> Result<(), Fault> {
        let user = self.user;
        let membership = self.membership;
        for (n, expected) in self.expected.iter_mut().enumerate().skip(seq as usize) {
            if expected.withheld == Withheld::Yes {
                continue;
            }
            let may_see = state.is_some_and(|state| match &expected.what {
                What::Event(event, _) => event.may_be_replayed_to(user, state),
                What::Made(_, channels) => {
                    state.members.contains_key(&user) && channels.iter().all(|c| state.viewers(*c).contains(&user))
                }
                What::List(_, Some(list)) => state.members.contains_key(&user) && may_look_at(state, user, list),
                What::List(_, None) => state.members.contains_key(&user),
                What::Own(_) | What::Ready | What::Refusal => true,
            });
            if let What::Own(_) | What::Ready | What::Refusal = expected.what {
                continue;
            }
            expected.withheld = match (may_see, membership) {
                (false, _) if matches!(expected.what, What::Made(..)) => {
                    // If it may view the channel again before the next round, it is not told what was cut out here.
                    self.was_never_active = false;
                    match product.replay.entry(n as u64 + 1) {
                        // Of a passive update the rest is still news.
                        Some(entry) if entry.dispatch.event().is_some() => {
                            expected.what = left_of_update(&entry, user, state)?;
                            Withheld::No
                        }
                        _ => Withheld::Yes,
                    }
                }
                (false, _) => Withheld::Yes,
                (true, Membership::Inside) => expected.withheld,
                (true, Membership::Entering) => Withheld::Maybe,
                (true, Membership::None) => Withheld::Yes,
            };
        }
        Ok(())
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
        let Some(expected) = self.at(seq) else {
            return fault(format!("nothing more was to come, but seq {seq} came: {text}"));
        };
        if expected.withheld == Withheld::Yes {
            return fault(format!("seq {seq} may no longer be seen, but came: {text}"));
        }
        if let What::Refusal = expected.what {
            return self.received_refusal(seq, name, text);
        }
        if *expected.text() != *text {
            return fault(format!("seq {seq} must be: {}\n  but is: {text}", expected.text()));
        }
        Ok(())
    }

    fn at(&self, seq: u64) -> Option<&Expected> {
        self.expected.get(usize::try_from(seq.checked_sub(1)?).ok()?)
    }

    fn received_refusal(&mut self, seq: u64, name: &str, text: &str) -> Result<(), Fault> {
        let nonce = text.split('"').nth(1).unwrap_or("");
        let mut whole_lists = self.requests.iter().filter(|(_, request)| request.query == MemberQuery::All);
        match whole_lists.position(|(asked, _)| asked == nonce) {
            _ if name != "RATE_LIMITED" => return fault(format!("seq {seq} must refuse a list, but is {text}")),
            None => return fault(format!("nobody asked: {text}")),
            Some(0) => return fault(format!("the first is refused: {text}")),
            Some(_) => {}
        }
        self.expected[seq as usize - 1].what = What::Own(text.into());
        Ok(())
    }

    /// The first dispatch after `seq` that must have come.
    pub fn first_missing(&self, seq: u64) -> Option<&Expected> {
        self.expected.iter().skip(seq as usize).find(|expected| expected.withheld == Withheld::No)
    }
}

/// Whether a user views any channel that has this list.
fn may_look_at(state: &State, user: u64, list: &str) -> bool {
    let has_list = |channel: &NaiveChannel| list_id(state, channel) == list;
    let of_list = state.channels.iter().filter(|(_, channel)| has_list(channel));
    of_list.into_iter().any(|(id, _)| state.viewers(*id).contains(&user))
}

/// What is left of a passive update for a user who views other channels by now.
fn left_of_update(entry: &ReplayEntry, user: u64, state: Option<&State>) -> Result<What, Fault> {
    let (Some(event), Some(state)) = (entry.dispatch.event(), state) else {
        return fault("an update without a guild is sent again");
    };
    let Gate::Channels(channels) = &event.audience.gate else {
        return fault(format!("what was given is sent again to {user}, who may not see it: {:?}", event.payload));
    };
    let told: Vec<u64> = match &event.payload {
        Payload::PassiveDelta(delta) => delta.channels.iter().map(|(channel, _)| channel.get()).collect(),
        Payload::PassiveSnapshot(snapshot) => snapshot.channels.iter().map(|(channel, _)| channel.get()).collect(),
        Payload::Unread(channels) => channels.iter().map(|(channel, _)| channel.get()).collect(),
        _ => Vec::new(),
    };
    let voice = match &event.payload {
        Payload::PassiveDelta(delta) => delta.voice.as_slice(),
        Payload::PassiveSnapshot(snapshot) => snapshot.voice.as_slice(),
        _ => &[],
    };
    let text: Rc<str> = made_text(&event.payload).unwrap_or_default().into();
    let may_view = |channel: &u64| state.viewers(*channel).contains(&user);
    let is_shown = |entry: &VoiceEntry| state.shows_in_voice(user, entry.state.user_id.get());
    if !told.iter().all(may_view) || !voice.iter().all(is_shown) {
        return fault(format!("{user} is told again what they may not see any more: {text}"));
    }
    Ok(What::Made(text, channels.iter().map(|channel| channel.get()).collect()))
}

impl What {
    fn text(&self) -> Rc<str> {
        match self {
            Self::Event(event, redaction) => event.text(*redaction),
            Self::Made(text, _) | Self::List(text, _) | Self::Own(text) => text.clone(),
            Self::Ready => "READY, which was not due".into(),
            Self::Refusal => "RATE_LIMITED".into(),
        }
    }
}

impl Expected {
    /// What it must say.
    pub fn text(&self) -> Rc<str> {
        self.what.text()
    }
}
