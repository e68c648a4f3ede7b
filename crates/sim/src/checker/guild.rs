//! The guild's events, in the order it made them: what they change, and that presences are told as they are.

use super::{Checker, Fault, fault};
use crate::naive::{Event, State, is_half_a_move, status_text};
use guildhall_relay::{Event as RelayEvent, Payload, ToGuild};
use guildhall_stdx::{Instant, Now};
use std::rc::Rc;

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

impl Checker {
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
}
