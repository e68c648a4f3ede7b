//! Announcements of changed accounts to their guilds.
//!
//! Owns        one entry per account with a running announcement.
//! Invariants  T1 an account has at most one announcement at a time, which covers changes during it: none is lost when
//!             the client of the request disconnects. (tests `t1_*`, `s21_6_*` in `tests/it/users.rs`)
//! Limits      one entry per account that changed within the duration of its announcement.

use guildhall_model::UserId;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Accounts; true: changed since the current round of the announcement began.
#[derive(Debug, Default)]
pub(crate) struct Announcements(Mutex<HashMap<UserId, bool>>);

/// The announcement of one account. Ends when it is dropped.
pub(crate) struct Announcement {
    announcements: Arc<Announcements>,
    user_id: UserId,
    has_ended: bool,
}

impl Announcements {
    fn lock(&self) -> MutexGuard<'_, HashMap<UserId, bool>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a change. None: the running announcement covers it.
    pub(crate) fn begin(self: &Arc<Self>, user_id: UserId) -> Option<Announcement> {
        let earlier = self.lock().insert(user_id, true);
        earlier.is_none().then(|| Announcement { announcements: self.clone(), user_id, has_ended: false })
    }
}

impl Announcement {
    /// Whether there is a change to announce. After false the announcement has ended.
    pub(crate) fn take_change(&mut self) -> bool {
        if self.has_ended {
            return false;
        }
        let mut announcements = self.announcements.lock();
        match announcements.get_mut(&self.user_id) {
            Some(changed) if *changed => {
                *changed = false;
                true
            }
            _ => {
                announcements.remove(&self.user_id);
                self.has_ended = true;
                false
            }
        }
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        if !self.has_ended {
            self.announcements.lock().remove(&self.user_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t1_one_announces_and_no_change_is_lost() {
        let announcements = Arc::new(Announcements::default());
        let user = UserId::new(1);
        let mut first = announcements.begin(user).unwrap();
        assert!(first.take_change());
        assert!(announcements.begin(user).is_none() && announcements.begin(user).is_none());
        assert!(announcements.begin(UserId::new(2)).is_some(), "another account");
        assert!(first.take_change(), "once for both");
        assert!(!first.take_change());
        let second = announcements.begin(user).unwrap();
        assert!(!first.take_change(), "its turn has ended");
        drop(first);
        assert!(announcements.begin(user).is_none(), "the second is still running");
        drop(second);
        assert!(announcements.begin(user).is_some(), "an abandoned announcement does not block others");
    }
}
