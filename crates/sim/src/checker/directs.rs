//! Direct messages: events for their recipients, and their form in READY.

use super::{Checker, Fault, SessionKey, fault};
use crate::{
    model::{DirectEvent, ListedDirects},
    session::Content,
};
use guildhall_stdx::Now;
use std::rc::Rc;

impl Checker {
    /// A partition is about to deliver an event to the recipients of a direct message.
    pub fn publish_direct(&mut self, side: usize, event: &Rc<DirectEvent>) {
        for session in self.living(side) {
            if event.is_for(session.reader(), session.is_first_shard) {
                session.expect(Content::Direct(event.clone()));
            }
        }
    }

    /// A partition has requested the direct messages of a session's account.
    ///
    /// # Errors
    /// READY still has to wait for the guild.
    pub fn directs_requested(&mut self, now: Now, session: SessionKey) -> Result<(), Fault> {
        let deadline = now.instant.after_ms(self.limits.gather_deadline_ms);
        let Some(session) = self.by_key.get(&session).map(|at| &mut self.sessions[*at]) else { return Ok(()) };
        if session.gone.is_none() && !session.directs_requested(now.instant, deadline) {
            return fault(format!("session {} reads direct messages before its guild has answered", session.id));
        }
        Ok(())
    }

    /// A partition is about to hear which direct messages a session's account has.
    pub fn directs_read(&mut self, now: Now, session: SessionKey, directs: &Rc<ListedDirects>) {
        let Some(session) = self.by_key.get(&session).map(|at| &mut self.sessions[*at]) else { return };
        if session.gone.is_none() {
            session.gather_directs(now.unix.0, directs);
        }
    }
}
