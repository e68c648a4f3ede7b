//! Relays: effects of the guild's streams on a partition's sessions, and passive updates.

use super::{Checker, Fault, InTransit, SessionKey, fault};
use crate::{
    model::{Change, Gained, State, channel_dispatch, chunk_text, found_members, status_text, view_changes},
    session::{Content, Membership, Session},
};
use guildhall_guild_protocol::{
    HiddenChannels, MembersAnswer, Payload, RelayId, RelayMessage, SessionKey as KeyInGuild, ToGuild,
};
use guildhall_model::to_gateway::{MemberQuery, Subscription};
use guildhall_stdx::{Now, SlotKey};
use std::rc::Rc;

/// One relay of a partition.
#[derive(Default)]
pub(super) struct Relay {
    epoch: u32,
    seq: u64,
    pub(super) state: Option<Rc<State>>,
    /// Changes for passive sessions since the relay's newest snapshot.
    changes: Vec<Change>,
}

fn key_of(session: KeyInGuild) -> SessionKey {
    let slot = SlotKey { slot: session.slot, generation: session.generation };
    (usize::from(session.relay.partition.0), slot)
}

impl Checker {
    /// A partition sends a message to the guild.
    pub fn sent_to_guild(&mut self, side: usize, message: &ToGuild) -> Result<(), Fault> {
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
                session.ask_to_enter(self.state.guild_id, index);
            }
            _ => {}
        }
        Ok(())
    }

    /// A guild's message is about to be handled by a partition: what its sessions must be sent follows.
    pub fn deliver(&mut self, now: Now, in_transit: &InTransit) -> Result<(), Fault> {
        let message = &in_transit.message;
        let Some(relay) = self.relays.get_mut(&message.relay).filter(|relay| relay.epoch == message.epoch) else {
            return Ok(());
        };
        let is_snapshot = matches!(message.message, RelayMessage::Snapshot { .. });
        if !is_snapshot && message.seq != relay.seq + 1 {
            return Ok(());
        }
        relay.seq = message.seq;
        let before = relay.state.replace(in_transit.state.clone());
        let changes_count = relay.changes.len();
        match &message.message {
            RelayMessage::Snapshot { replica, reset } => {
                in_transit.state.agrees_with(replica).or_else(|difference| fault(format!("snapshot: {difference}")))?;
                relay.changes.clear();
                if *reset {
                    let inside = self.sessions.iter_mut().filter(|session| session.is_served_by(message.relay));
                    inside.for_each(|session| session.lose_sight(in_transit.state.guild_id));
                }
            }
            RelayMessage::Published(_) => {
                self.given_total += 1;
                relay.changes.extend(in_transit.event.as_ref().and_then(|event| event.change));
                self.fan_out(now.unix.0, message.relay, before.as_deref(), in_transit);
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
                        Some(_) => session.enter(now.unix.0, &in_transit.state, passive_above, changes_count),
                        None => session.leave(now.unix.0, in_transit.state.guild_id),
                    }
                }
            }
            RelayMessage::Direct { session, event } => {
                if let (Some(at), Some(expected)) = (self.by_key.get(&key_of(*session)), &in_transit.event) {
                    let session = &mut self.sessions[*at];
                    // It may be out of sight of the guild for a while, but has not left.
                    let is_here = session.gone.is_none()
                        && session.membership != Membership::None
                        && session.relay_id() == message.relay;
                    let is_theirs = match &event.payload {
                        Payload::VoiceServer { .. } => {
                            in_transit.state.voice.get(&session.user).is_some_and(|(_, id)| **id == *session.id)
                        }
                        Payload::Presence { user_id, presence } => {
                            let shown = in_transit.state.presences.get(&user_id.get()).copied();
                            let published = (status_text(presence.status), presence.activities.len());
                            user_id.get() != session.user && published == shown.unwrap_or(("offline", 0))
                        }
                        _ => false,
                    };
                    if is_here {
                        if !is_theirs {
                            return fault(format!("{} for {}, which is not theirs", expected.text(0), session.id));
                        }
                        session.expect(Content::Event(expected.clone(), 0));
                    }
                }
            }
            RelayMessage::Members { session, answer } => {
                if let Some(at) = self.by_key.get(&key_of(*session)).copied() {
                    self.members(at, message.relay, answer, in_transit)?;
                }
            }
            RelayMessage::List(_) | RelayMessage::Canary(_) => {}
            RelayMessage::Unavailable { .. } => return fault("the guild is there"),
            RelayMessage::Transferred { .. } => return fault("a session is transferred without other nodes"),
        }
        Ok(())
    }

    fn fan_out(&mut self, now_unix_ms: i64, relay: RelayId, before: Option<&State>, in_transit: &InTransit) {
        let Some(event) = &in_transit.event else { return };
        let hidden = self.limits.hidden_channels;
        let gained = before.map(|before| Gained::between(before, &in_transit.state)).unwrap_or_default();
        for session in self.sessions.iter_mut().filter(|session| session.is_served_by(relay)) {
            if event.left == Some(session.user) || in_transit.state.is_deleted {
                session.leave(now_unix_ms, in_transit.state.guild_id);
                continue;
            }
            if event.is_for(session.reader(), now_unix_ms) {
                match event.channel() {
                    Some(_) if hidden != HiddenChannels::Listed => {
                        channel_dispatch(event, session.user, hidden)
                            .into_iter()
                            .for_each(|dispatch| session.expect(Content::Channel(dispatch)));
                    }
                    _ => session.expect(Content::Event(event.clone(), event.redaction(session.reader()))),
                }
            }
            if session.gets_guild_events() {
                let changes = view_changes(event, session.user, hidden);
                changes.into_iter().for_each(|dispatch| session.expect(Content::Channel(dispatch)));
            }
            if let Some(channels) = gained.by(session.user) {
                session.gain(now_unix_ms, &in_transit.state, channels);
            }
        }
    }

    /// The relay is about to send passive updates.
    pub fn round(&mut self, relay: RelayId) {
        self.given_total += 1;
        let Some(Relay { state: Some(state), changes, .. }) = self.relays.get_mut(&relay) else { return };
        for session in self.sessions.iter_mut().filter(|session| session.is_served_by(relay) && session.is_passive()) {
            session.owe(state, changes);
        }
    }

    /// A partition is about to handle a subscription of a session.
    pub fn subscribed(&mut self, now: Now, at: usize, change: impl FnOnce(&mut Subscription)) {
        let session = &mut self.sessions[at];
        if session.is_bot || session.gone.is_some() || session.membership == Membership::None {
            return;
        }
        let had_threads = session.subscription.threads;
        let has_switched = session.subscribe(change);
        if !had_threads
            && session.membership == Membership::Inside
            && let Some(Relay { state: Some(state), .. }) = self.relays.get(&session.relay_id())
        {
            session.ask_for_threads(now.unix.0, state);
        }
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

    fn members(
        &mut self,
        at: usize,
        relay: RelayId,
        answer: &MembersAnswer,
        in_transit: &InTransit,
    ) -> Result<(), Fault> {
        const GUILD_MEMBERS: u32 = 1 << 1;
        let state = &in_transit.state;
        let session = &mut self.sessions[at];
        if session.gone.is_some() || session.membership == Membership::None || session.relay_id() != relay {
            return Ok(());
        }
        let request = session.requests.iter().find(|(nonce, _)| Some(nonce) == answer.nonce.as_ref());
        let Some((_, request)) = request else { return fault(format!("an answer to no question: {answer:?}")) };
        let accounts = &self.accounts;
        let names = |user: u64| match accounts.get(&user) {
            Some(user) => [Some(user.username.clone()), user.global_name.clone()].into_iter().flatten().collect(),
            None => Vec::new(),
        };
        let may_list = match session.is_bot {
            true => session.intents & GUILD_MEMBERS != 0,
            false => state.may_list_members(session.user, in_transit.made_at_unix_ms),
        };
        let (mut found, not_found) = found_members(state, &request.query, names, may_list);
        if let MemberQuery::Prefix { limit, .. } = request.query {
            // The search ran when the job started; members may have changed since.
            let before = in_transit
                .job_state
                .as_ref()
                .map(|job_state| found_members(job_state, &request.query, names, may_list).0);
            let before: Vec<u64> = before.unwrap_or_default().into_iter().take(limit).collect();
            found.retain(|user| before.contains(user));
        }
        let text = chunk_text(state, session.reader(), request, &found, &not_found);
        session.chunks.push_back(text.into());
        Ok(())
    }

    /// No change since the relay's last round, and an equal view: channels that become visible later are
    /// part of the next update.
    pub fn is_up_to_date(&self, session: &Session) -> bool {
        let (changes_count, then) = &session.known_state;
        let views = |state: &State, channel: u64| state.viewers(channel).contains(&session.user);
        let mut there_then = self.state.channels.keys().filter(|channel| then.channels.contains_key(channel));
        there_then.all(|channel| views(&self.state, *channel) == views(then, *channel))
            && self.relays.get(&session.relay_id()).is_some_and(|relay| relay.changes.len() == *changes_count)
    }
}
