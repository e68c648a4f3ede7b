//! Over a restart: the session is another process's, and goes on where it was.

use super::{Content, Membership, Session};
use crate::model::{ChannelDispatch, OutOfView};
use guildhall_stdx::{Instant, SlotKey};

impl Session {
    /// Another process took it over. `is_quiet`: with the guild, so that no event is missing.
    pub fn restore(&mut self, now: Instant, key: SlotKey, is_quiet: bool) {
        self.key = key;
        self.conn = None;
        self.detached_since = Some(now);
        self.is_restoring = self.membership == Membership::Inside;
        if self.is_restoring {
            self.membership = Membership::Entering;
        }
        // The process after the one that made it has it in one form.
        for expected in &mut self.expected {
            if let Content::Channel(ChannelDispatch { out_of_view, .. }) = &mut expected.content
                && matches!(out_of_view, OutOfView::Text(_))
            {
                *out_of_view = OutOfView::Nothing;
            }
        }
        // The client sends its requests again.
        self.chunks.clear();
        // Its knowledge of presences and deleted messages may be outdated until the next event about them.
        self.was_restored |= !is_quiet;
    }

    /// Whether it waits for its guild, without receiving GUILD_CREATE.
    pub fn is_restoring(&self) -> bool {
        self.is_restoring
    }
}
