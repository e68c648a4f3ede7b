//! Friends: their presences, which only user accounts that are friends of the account are sent.

use super::status_text;
use guildhall_model::Status;
use std::{collections::BTreeSet, rc::Rc};

/// An account's presence for its friends.
#[derive(Clone, Debug)]
pub struct FriendEvent {
    pub of: u64,
    pub to: BTreeSet<u64>,
    pub text: Rc<str>,
}

impl FriendEvent {
    pub fn new(of: u64, to: BTreeSet<u64>, status: Status) -> Self {
        let text = format!("PRESENCE_UPDATE user={of} status={} activities=0", status_text(status));
        Self { of, to, text: text.into() }
    }
}
