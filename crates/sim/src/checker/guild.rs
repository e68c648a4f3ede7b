//! The guild's events in order: their effects, and that published presences are the actual ones.

use super::{Checker, Fault, fault};
use crate::model::{Event, State, Telling, ThreadModel, is_half_a_move, status_text};
use guildhall_guild_protocol::{Event as RelayEvent, Payload, Published, ReplicaUpdate, ResourcePayload, ToGuild};
use guildhall_stdx::{Instant, Now};
use std::{rc::Rc, sync::Arc};

/// How many presence events a guild makes.
#[derive(Default)]
pub(super) struct Pace {
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

/// Whether both events come from one reordering of channels or roles.
fn are_of_one_move(event: &RelayEvent, next: &RelayEvent) -> bool {
    event.name.as_str() == next.name.as_str() && matches!(event.name.as_str(), "CHANNEL_UPDATE" | "GUILD_ROLE_UPDATE")
}

impl Checker {
    /// A message is about to be handled by the guild.
    pub fn heard(&mut self, message: &ToGuild) {
        self.shown.hear(message, &self.state);
        self.look_at_presences();
    }

    pub(super) fn look_at_presences(&mut self) {
        let presences = self.shown.presences();
        if self.state.presences != presences {
            Rc::make_mut(&mut self.state).presences = presences;
        }
    }

    /// The guild published the first of these events, and the others right after it, in the same breath.
    pub fn published(&mut self, now: Now, events: &[Arc<Published>]) -> Result<Rc<Event>, Fault> {
        let Some((published, rest)) = events.split_first() else { return fault("nothing was published") };
        let (event, next) = (&published.event, rest.first().map(|next| &next.event));
        let before = self.state.clone();
        if let ReplicaUpdate::Structure(_) | ReplicaUpdate::Member(_, Some(_)) = &published.replica_update {
            self.viewed_before = before.clone();
        }
        self.check_bans(event)?;
        match &event.payload {
            Payload::Presence { user_id, presence } => {
                let user = user_id.get();
                let published = (status_text(presence.status), presence.activities.len());
                let shown = self.state.presences.get(&user).copied().unwrap_or(("offline", 0));
                if published != shown {
                    return fault(format!("{user} is published as {published:?}, but is {shown:?}"));
                }
                self.published_presences.insert(user, published);
                self.pace.count(now, self.limits.presence_events_per_s_max, self.limits.presence_burst_max)?;
            }
            Payload::MemberRemove(user) => {
                let is_in = |thread: &ThreadModel| thread.members.contains(&user.id.get());
                if let Some((thread, _)) = self.state.threads.iter().find(|(_, thread)| is_in(thread)) {
                    return fault(format!("{} is no member any more, but in thread {thread}", user.id));
                }
                self.shown.forget_user(user.id.get());
                self.published_presences.remove(&user.id.get());
                self.look_at_presences();
            }
            _ => {}
        }
        // A voice move is no departure, even for users who can see only one half of it.
        if State::is_changed_by(event.name.as_str(), &event.payload) && !is_half_a_move(event, next) {
            let mut state = State::clone(&self.state);
            state.apply(event.name.as_str(), &event.payload);
            // A change of several positions or overwrites takes effect at once.
            for next in rest.iter().map(|next| &next.event).take_while(|next| are_of_one_move(event, next)) {
                state.apply(next.name.as_str(), &next.payload);
            }
            self.state = Rc::new(state);
        }
        Ok(Rc::new(Event::new(event, next, [self.viewed_before.clone(), before], self.state.clone(), &self.telling)))
    }

    /// A banned account is not a member, and an account that is not a member is in no thread.
    fn check_bans(&self, event: &RelayEvent) -> Result<(), Fault> {
        let Payload::Resource(resource) = &event.payload else { return Ok(()) };
        if let ResourcePayload::Ban { user, delete_message_s: Some(_) } = &**resource
            && self.state.members.contains_key(&user.id.get())
        {
            return fault(format!("{} is banned, and a member", user.id));
        }
        Ok(())
    }

    /// The guild made an event for one session.
    pub fn direct(&self, event: &RelayEvent) -> Rc<Event> {
        let before = [self.state.clone(), self.state.clone()];
        Rc::new(Event::new(event, None, before, self.state.clone(), &Telling::Usual))
    }
}
