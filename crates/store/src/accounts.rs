//! Accounts: one `User` in memory per account, however many guilds it is in.
//!
//! Owns        weak references to the accounts that were loaded and are still in use somewhere.
//! Invariants  sharing only saves memory: a shared account equals the stored one.
//! Limits      at most twice as many entries as accounts in use after the last sweep, and never fewer than `SWEEP_MIN`.

use guildhall_model::{User, UserId};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// With fewer entries a sweep for unused ones is not worthwhile.
const SWEEP_MIN: usize = 1024;

#[derive(Default)]
pub(crate) struct Accounts(Mutex<Shared>);

#[derive(Default)]
struct Shared {
    users: HashMap<UserId, Weak<User>>,
    sweep_at: usize,
}

impl Accounts {
    /// The account as others have it already, if it is the same; else this one, for others to come.
    pub(crate) fn share(&self, user: User) -> Arc<User> {
        // The map is whole between any two statements, so a panic elsewhere does not spoil it.
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shared.users.get(&user.id).and_then(Weak::upgrade)
            && *known == user
        {
            return known;
        }
        if shared.users.len() >= shared.sweep_at.max(SWEEP_MIN) {
            shared.users.retain(|_, user| user.strong_count() > 0);
            shared.sweep_at = shared.users.len() * 2;
        }
        let user = Arc::new(user);
        shared.users.insert(user.id, Arc::downgrade(&user));
        user
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_accounts_are_shared_until_the_last_use_ends() {
        let accounts = Accounts::default();
        let user = |n: u64, name: &str| User::new(UserId::new(n), name);
        let first = accounts.share(user(1, "ada"));
        assert!(Arc::ptr_eq(&first, &accounts.share(user(1, "ada"))));
        let renamed = accounts.share(user(1, "ada l"));
        assert_eq!((first.username.as_str(), renamed.username.as_str()), ("ada", "ada l"));
        assert!(Arc::ptr_eq(&renamed, &accounts.share(user(1, "ada l"))));

        for n in 2..10_000 {
            accounts.share(user(n, "gone"));
        }
        let shared = accounts.0.lock().unwrap();
        assert!(shared.users.len() <= SWEEP_MIN, "{}", shared.users.len());
        assert!(shared.users.contains_key(&UserId::new(1)), "still in use");
    }
}
