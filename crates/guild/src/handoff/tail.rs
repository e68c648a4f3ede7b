//! Tail: the state of a stopped guild that neither base nor items carry.

use crate::{
    machine::Guild,
    message_state::MessagesTail,
    publications::PublicationId,
    state::{auto_moderation::RecentTexts, presence::WaitingPresences},
};
use guildhall_guild_protocol::RelayId;
use guildhall_member_list::{Interval, ListId};
use guildhall_model::{Id, UserId};
use guildhall_stdx::Now;
use serde::{Deserialize, Serialize};

/// The last part of a hand-off.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct HandoffTail {
    version: u64,
    /// Ids that the new owner makes are above.
    newest_id: u64,
    messages: MessagesTail,
    presences: WaitingPresences,
    /// With their ages in milliseconds.
    publications: Vec<(PublicationId, u64)>,
    /// With the milliseconds until each is checked.
    temporary: Vec<(UserId, Option<u64>)>,
    /// Empty from a node of an earlier release.
    #[serde(default)]
    recent_texts: RecentTexts,
    /// Relays that must begin again.
    cut: Vec<RelayId>,
    /// Rows of lists that were not sent yet.
    unanswered: Vec<(ListId, RelayId, Vec<Interval>)>,
}

impl HandoffTail {
    /// The same for a process with other relays.
    pub(super) fn without_relays(self) -> Self {
        Self { cut: Vec::new(), unanswered: Vec::new(), ..self }
    }
}

impl Guild {
    /// Sends pending changes of lists, as the last event. Call it before the last `take_handoff`.
    pub fn end_lists(&mut self, now: Now) {
        self.input(|guild| guild.flush_all_lists(now));
    }

    /// State that the items do not carry. The guild must be settled (`is_settled`), and get no further input.
    #[must_use]
    pub fn handoff_tail(&self, now: Now) -> HandoffTail {
        HandoffTail {
            version: self.version(),
            newest_id: self.newest_id(),
            messages: self.messages.tail(now),
            presences: self.presences.waiting(),
            publications: self.publications.ages(now.instant),
            temporary: self.temporary.waits(now),
            recent_texts: self.auto_mod.recent_texts(now.instant),
            cut: self.relays.cut_links(),
            unanswered: self.lists.unanswered(),
        }
    }

    /// Turns a standby that has followed all items into the guild: from now on it emits outputs.
    pub fn take_over(&mut self, now: Now, tail: HandoffTail) {
        // What watchers were sent is what the lists contain, here too.
        self.input(|guild| guild.flush_all_lists(now));
        self.end_standby_work(now);
        let HandoffTail {
            version,
            newest_id,
            messages,
            presences,
            publications,
            temporary,
            recent_texts,
            cut,
            unanswered,
        } = tail;
        self.messages.take_over(now, messages, self.limits.nonces_max);
        self.presences.take_over(now, &self.limits, presences);
        self.publications.take_over(now.instant, publications);
        self.temporary.take_over(now, temporary);
        self.auto_mod.take_over(now.instant, recent_texts);
        self.skip_ids_past(Id::<()>::new(newest_id));
        self.outbox.continue_from(version);
        for relay in cut {
            self.relays.cut(relay);
        }
        self.input(|guild| guild.take_over_lists(unanswered));
    }
}
