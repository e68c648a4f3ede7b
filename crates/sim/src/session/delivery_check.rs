//! Dispatches that the product added to a session for one input, compared with the expected ones.

use super::{Content, DeliveryTime, Expected, Membership, Session, Withheld};
use crate::{
    checker::{Fault, fault},
    model::{ChannelModel, PendingUpdates, State, list_id, made_text, payload_text},
};
use guildhall_guild_protocol::{AudienceRule, Event as RelayEvent, Payload};
use guildhall_member_list::ListOp;
use guildhall_session::{ReplayEntry, Session as Product};
use std::rc::Rc;

impl Session {
    /// Nothing was given, and nothing had to be.
    pub fn has_no_news(&self, product: &Product) -> bool {
        self.pending.is_empty() && self.due.is_none() && product.replay.last_seq() <= self.expected.len() as u64
    }

    /// After an input: compares the added dispatches with the expected ones.
    pub fn reconcile(&mut self, at: DeliveryTime, product: &Product, state: Option<&State>) -> Result<(), Fault> {
        for seq in self.expected.len() as u64 + 1..=product.replay.last_seq() {
            let entry = product.replay.entry(seq);
            let event = entry.as_ref().and_then(|entry| entry.dispatch.event());
            let content = match event {
                Some(event) if made_text(&event.payload).is_some() => self.given_update(event, state)?,
                Some(event) if event.name.as_str() == "GUILD_MEMBER_LIST_UPDATE" => self.given_list(event, state)?,
                Some(event) => match self.pending.pop_front() {
                    Some(content) => content,
                    None => {
                        let state = state.cloned().unwrap_or_default();
                        let text = payload_text(event.name.as_str(), &event.payload, 0, &state);
                        return fault(format!(
                            "session {} of {} is given {text}, which is not for it",
                            self.id, self.user
                        ));
                    }
                },
                None => match self.pending.pop_front() {
                    Some(content) => content,
                    None => self.given_answer(entry.as_ref())?,
                },
            };
            self.expected.push(Expected { content, withheld: Withheld::No, at });
        }
        if let Some(missing) = self.pending.front() {
            return fault(format!("session {} of {} is not given {}", self.id, self.user, missing.text()));
        }
        if let Some(due) = self.due.take().filter(PendingUpdates::is_due) {
            return fault(format!("session {} of {} does not receive {:?}", self.id, self.user, due.changes));
        }
        Ok(())
    }

    fn given_update(&mut self, event: &RelayEvent, state: Option<&State>) -> Result<Content, Fault> {
        let text = made_text(&event.payload).unwrap_or_default();
        let who = format!("session {} of {}", self.id, self.user);
        let Some(due) = self.due.take() else { return fault(format!("{who} receives an unexpected {text}")) };
        due.check(&event.payload).or_else(|reason| fault(format!("{who} receives {text}: {reason}")))?;
        let AudienceRule::Channels(channels) = &event.audience.rule else {
            return fault(format!("{who}: a passive update for {:?}", event.audience.rule));
        };
        let channels: Rc<[u64]> = channels.iter().map(|channel| channel.get()).collect();
        let views = |channel: &u64| state.is_some_and(|state| state.viewers(*channel).contains(&self.user));
        if !channels.iter().all(views) {
            return fault(format!("{who} receives channels it may not view: {text}"));
        }
        Ok(Content::Made(text.into(), channels))
    }

    /// A chunk of members, or that there are none now.
    fn given_answer(&mut self, entry: Option<&ReplayEntry>) -> Result<Content, Fault> {
        let is_refusal = entry.is_some_and(|entry| {
            let frame = entry.dispatch.frame(self.encoding, entry.redaction);
            frame.body().windows(11).any(|bytes| bytes == b"retry_after")
        });
        match self.chunks.pop_front() {
            chunk if is_refusal => {
                chunk.into_iter().for_each(|chunk| self.chunks.push_front(chunk));
                Ok(Content::Refusal)
            }
            Some(chunk) => Ok(Content::GuildNotice(chunk)),
            None => {
                let text = entry.map(|entry| {
                    let frame = entry.dispatch.frame(self.encoding, entry.redaction);
                    let body: String = String::from_utf8_lossy(frame.body()).chars().take(200).collect();
                    format!("{} {body}", String::from_utf8_lossy(frame.name()))
                });
                let text = text.unwrap_or_else(|| "a forgotten request".to_owned());
                fault(format!(
                    "session {} of {} receives an answer that it did not request: {text}",
                    self.id, self.user
                ))
            }
        }
    }

    /// Contents of lists are checked at rest (`checker/at_rest.rs`).
    fn given_list(&mut self, event: &RelayEvent, state: Option<&State>) -> Result<Content, Fault> {
        let text: Rc<str> = payload_text(event.name.as_str(), &event.payload, 0, &State::default()).into();
        let list: Option<Rc<str>> = match &event.audience.rule {
            AudienceRule::List(list) => Some(list.to_string().into()),
            _ => None,
        };
        let only_removes = |op: &ListOp| matches!(op, ListOp::Delete { .. } | ListOp::Invalidate { .. });
        let is_shown = match &event.payload {
            Payload::MemberList(change) => !change.ops.iter().all(only_removes),
            _ => true,
        };
        let views = list.as_ref().zip(state).is_some_and(|(list, state)| may_look_at(state, self.user, list));
        if is_shown && (!views || self.membership != Membership::Inside) {
            return fault(format!("session {} of {} is shown a list it may not see: {text}", self.id, self.user));
        }
        Ok(Content::List(text, list))
    }
}

/// Whether a user views any channel that has this list.
pub(super) fn may_look_at(state: &State, user: u64, list: &str) -> bool {
    let has_list = |channel: &ChannelModel| list_id(state, channel) == list;
    let of_list = state.channels.iter().filter(|(_, channel)| has_list(channel));
    of_list.into_iter().any(|(id, _)| state.viewers(*id).contains(&user))
}
