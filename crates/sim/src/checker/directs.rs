//! Direct messages: events for their recipients, and their form in READY.

use super::{Checker, SessionKey};
use crate::{
    model::{ListedDirects, ToldDirect},
    session::What,
};
use guildhall_stdx::Now;
use std::rc::Rc;

impl Checker {
    /// A partition is about to tell those in a direct message something.
    pub fn tell_direct(&mut self, side: usize, told: &Rc<ToldDirect>) {
        for session in self.living(side) {
            if told.is_for(session.reader(), session.is_first_shard) {
                session.expect(What::Direct(told.clone()));
            }
        }
    }

    /// A partition is about to hear which direct messages a session's account has.
    pub fn directs_read(&mut self, now: Now, session: SessionKey, directs: &Rc<ListedDirects>) {
        let Some(session) = self.by_key.get(&session).map(|at| &mut self.sessions[*at]) else { return };
        if session.gone.is_none() {
            session.gather_directs(now.unix.0, directs);
        }
    }
}
