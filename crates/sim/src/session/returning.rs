//! Over a restart: the session is another process's, and goes on where it was.

use super::{Membership, Session, What};
use crate::naive::{OutOfView, ToldChannel};
use guildhall_stdx::{Instant, SlotKey};

impl Session {
    /// Another process took it over.
    pub fn returns(&mut self, now: Instant, key: SlotKey) {
        self.key = key;
        self.conn = None;
        self.detached_since = Some(now);
        self.is_returning = self.membership == Membership::Inside;
        if self.is_returning {
            self.membership = Membership::Entering;
        }
        // The process after the one that made it has it in one form.
        for expected in &mut self.expected {
            if let What::Channel(ToldChannel { out_of_view, .. }) = &mut expected.what
                && matches!(out_of_view, OutOfView::Text(_))
            {
                *out_of_view = OutOfView::Nothing;
            }
        }
        // Its client asks again.
        self.chunks.clear();
        // What it believes of others' presences, and of messages that are gone, may be out of date until it is told of them again.
        self.has_returned = true;
    }

    /// It waits for the guild that it was in, which it is not told of then.
    pub fn is_returning(&self) -> bool {
        self.is_returning
    }
}
