//! RESUME: replayed dispatches, and those that must be withheld.

use super::{Content, Membership, Session, Withheld, delivery_check::may_look_at};
use crate::{
    checker::{Fault, fault},
    model::{OutOfView, State, payload_text},
};
use guildhall_guild_protocol::{AudienceRule, Payload, VoiceEntry};
use guildhall_session::{ReplayEntry, Session as Product};
use guildhall_stdx::SlotKey;
use std::{collections::BTreeSet, rc::Rc};

impl Session {
    /// Marks what a replay from behind `seq` must leave out; `state` is the guild as its relay knows it.
    ///
    /// # Errors
    /// When what is left of a passive update is not for it.
    pub fn withhold_unseen(
        &mut self,
        now_unix_ms: i64,
        seq: u64,
        state: Option<&State>,
        product: &Product,
    ) -> Result<(), Fault> {
        let user = self.user;
        let membership = self.membership;
        self.withhold_what_was_left(seq);
        let mut is_sent_all = true;
        for (n, expected) in self.expected.iter_mut().enumerate().skip(seq as usize) {
            if expected.withheld == Withheld::Yes {
                continue;
            }
            if let Content::Friend(_) = expected.content {
                expected.withheld = Withheld::Yes;
                continue;
            }
            if let (Content::Channel(dispatch), Some(state)) = (&mut expected.content, state)
                && let OutOfView::Text(text) = &dispatch.out_of_view
                && state.members.contains_key(&user)
                && !state.viewers(dispatch.id).contains(&user)
            {
                (dispatch.text, dispatch.out_of_view) = (text.clone(), OutOfView::Same);
            }
            let may_see = state.is_some_and(|state| match &expected.content {
                Content::Channel(dispatch) => {
                    let is_in_view = !matches!(dispatch.out_of_view, OutOfView::Nothing)
                        || state.viewers(dispatch.id).contains(&user);
                    state.members.contains_key(&user) && is_in_view
                }
                Content::Event(event, _) => event.may_be_replayed_to(user, state, now_unix_ms),
                Content::Threads(list) => list.is_still_seen(state, user, now_unix_ms),
                Content::Made(_, channels) => {
                    state.members.contains_key(&user) && channels.iter().all(|c| state.viewers(*c).contains(&user))
                }
                Content::List(_, Some(list)) => state.members.contains_key(&user) && may_look_at(state, user, list),
                Content::List(_, None) | Content::GuildNotice(_) | Content::Guild(..) => {
                    state.members.contains_key(&user)
                }
                Content::Own(_) | Content::Direct(_) | Content::Friend(_) | Content::Ready | Content::Refusal => true,
            });
            if let Content::Own(_) | Content::Direct(_) | Content::Ready | Content::Refusal = expected.content {
                continue;
            }
            is_sent_all &= may_see;
            if let (Content::Threads(list), false, Some(state)) = (&expected.content, may_see, state)
                && membership != Membership::None
                && let Some(left) = list.left(state, user, now_unix_ms)
            {
                expected.content = Content::Threads(left);
                expected.withheld = if membership == Membership::Entering { Withheld::Maybe } else { Withheld::No };
                continue;
            }
            expected.withheld = match (may_see, membership) {
                (false, _) if expected.content.has_rest() => {
                    match product.replay.entry(n as u64 + 1) {
                        // The visible rest of a passive update or a voice state is still sent.
                        Some(entry) if entry.dispatch.event().is_some() => {
                            expected.content = rest_of(&entry, user, state)?;
                            Withheld::No
                        }
                        // A dispatch that an earlier replay may have withheld, while the guild was invisible, was part
                        // of GUILD_CREATE.
                        _ if expected.withheld != Withheld::Maybe
                            && matches!(expected.content, Content::Event(..))
                            && membership == Membership::Inside =>
                        {
                            return fault(format!("{user} is left to believe what {} ended", expected.text()));
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
        if let (false, true, Some(state)) = (is_sent_all, self.is_passive(), state) {
            for state in [state, &*self.known_state.1] {
                let viewed = state.channels.keys().filter(|channel| state.viewers(**channel).contains(&user));
                self.uncertain_channels.extend(viewed);
            }
        }
        Ok(())
    }

    /// Of a group that its user was thrown out of, or left: that they are out, and nothing of what was before.
    fn withhold_what_was_left(&mut self, seq: u64) {
        let mut left: BTreeSet<u64> = BTreeSet::new();
        for expected in self.expected.iter_mut().skip(seq as usize).rev() {
            let Content::Direct(event) = &expected.content else { continue };
            if left.contains(&event.channel) {
                expected.withheld = Withheld::Yes;
            } else if event.is_left {
                left.insert(event.channel);
            }
        }
    }

    /// Whether a replay from behind `seq` would show a guild as it was, with what may not be seen there any more. None
    /// if it is not known what an earlier replay left of that.
    pub fn would_show_too_much(&self, now_unix_ms: i64, seq: u64, state: &State) -> Option<bool> {
        let sees = |place: &u64| state.sees_place(self.user, *place, now_unix_ms);
        let reveals = |content: &Content| matches!(content, Content::Guild(_, places) if !places.iter().all(sees));
        let mut is_certain = true;
        for guild in self.expected.iter().skip(seq as usize).filter(|expected| reveals(&expected.content)) {
            match guild.withheld {
                Withheld::No => return Some(true),
                Withheld::Maybe => is_certain = false,
                Withheld::Yes => {}
            }
        }
        is_certain.then_some(false)
    }

    /// A RESUME succeeded.
    pub fn resumed(&mut self, conn: SlotKey, conn_serial: u64, token: u64, seq: u64) {
        self.token = token;
        self.received_floor = self.received_floor.max(seq);
        self.conn = Some(conn);
        self.conn_serial = conn_serial;
        self.detached_since = None;
        self.expect(Content::Own("RESUMED ".into()));
    }
}

/// The visible rest of a passive update or voice state for a user whose view has changed.
fn rest_of(entry: &ReplayEntry, user: u64, state: Option<&State>) -> Result<Content, Fault> {
    let (Some(event), Some(state)) = (entry.dispatch.event(), state) else {
        return fault("an update without a guild is sent again");
    };
    let AudienceRule::Channels(channels) = &event.audience.rule else {
        return fault(format!("a dispatch is replayed to {user}, without permission to see it: {:?}", event.payload));
    };
    let listed: Vec<u64> = match &event.payload {
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
    if let Payload::Voice { state: sent, .. } = &event.payload {
        let who = sent.user_id.get();
        let place = state.voice.get(&who).map(|(channel, _)| *channel);
        if sent.channel_id.map(|id| id.get()) != place.filter(|_| state.shows_in_voice(user, who)) {
            return fault(format!("{user} receives the old voice state of {who} instead of the current one: {sent:?}"));
        }
    }
    let text: Rc<str> = payload_text(event.name.as_str(), &event.payload, 0, state).into();
    let may_view = |channel: &u64| state.viewers(*channel).contains(&user);
    let is_shown = |entry: &VoiceEntry| state.shows_in_voice(user, entry.state.user_id.get());
    if !listed.iter().all(may_view) || !voice.iter().all(is_shown) {
        return fault(format!("{user} receives a dispatch again without permission to see it: {text}"));
    }
    Ok(Content::Made(text, channels.iter().map(|channel| channel.get()).collect()))
}
