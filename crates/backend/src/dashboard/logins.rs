//! Logins: sessions of operators in the dashboard.
//!
//! Invariants  L1 a login ends `LIFE_S` after it began, with its key, or by a log-out; streams that it opened end with
//!             it. L2 logins of one key do not end those of another. Tokens are 256 random bits; only their SHA-256 is
//!             in memory, and none survives a restart. (tests `l*_*`)
//! Limits      `KEY_LOGINS_MAX` of one key; a further one ends the key's oldest. `guildhall_node::KEYS_MAX` bounds the
//!             number of keys.

use crate::{caller::Granted, error::V1Error};
use aws_lc_rs::rand;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use guildhall_stdx::Instant;
use sha2::{Digest as _, Sha256};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use tokio::sync::watch;

/// Seconds after which an operator logs in again: a working day.
pub(super) const LIFE_S: u64 = 12 * 3_600;
/// Each has some 300 bytes.
const KEY_LOGINS_MAX: usize = 20;

pub(super) type Hash = [u8; 32];

struct Login {
    began: Instant,
    granted: Granted,
    /// Dropped with the login, which ends its streams.
    life: watch::Sender<()>,
}

/// Logins by the hash of their token.
#[derive(Default)]
pub(super) struct Logins(Mutex<HashMap<Hash, Login>>);

impl Logins {
    fn all(&self) -> MutexGuard<'_, HashMap<Hash, Login>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a login and returns its token, with the token's hash.
    pub fn begin(&self, now: Instant, granted: Granted) -> Result<(String, Hash), V1Error> {
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).map_err(|_| V1Error::unavailable())?;
        let token = URL_SAFE_NO_PAD.encode(bytes);
        let mut all = self.all();
        all.retain(|_, login| login.holds(now));
        let of_key = |login: &Login| login.granted.0.id == granted.0.id;
        if all.values().filter(|login| of_key(login)).count() >= KEY_LOGINS_MAX {
            let own = all.iter().filter(|(_, login)| of_key(login));
            let oldest = own.min_by_key(|(_, login)| login.began).map(|(hash, _)| *hash);
            oldest.and_then(|oldest| all.remove(&oldest));
        }
        let hash = hash(&token);
        all.insert(hash, Login { began: now, granted, life: watch::Sender::new(()) });
        Ok((token, hash))
    }

    /// The key of a login that has not ended.
    pub fn find(&self, now: Instant, token: &str) -> Option<Granted> {
        let mut all = self.all();
        let hash = hash(token);
        let login = all.get(&hash)?;
        if login.holds(now) {
            let Granted(key, life) = &login.granted;
            return Some(Granted(key.clone(), life.of_login(&login.life)));
        }
        all.remove(&hash);
        None
    }

    /// Ends a login.
    pub fn end(&self, token: &str) {
        self.end_hash(hash(token));
    }

    /// Ends the login with this hash of its token.
    pub fn end_hash(&self, hash: Hash) {
        self.all().remove(&hash);
    }
}

impl Login {
    fn holds(&self, now: Instant) -> bool {
        now.ms_since(self.began) < LIFE_S * 1_000 && !self.granted.1.is_over()
    }
}

fn hash(token: &str) -> Hash {
    Sha256::digest(token).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_node::{Key, KeyLife};
    use guildhall_stdx::Timestamp;

    struct World {
        logins: Logins,
        lives: Vec<watch::Sender<()>>,
    }

    impl World {
        /// With this number of keys.
        fn new(keys_count: usize) -> Self {
            Self { logins: Logins::default(), lives: (0..keys_count).map(|_| watch::Sender::new(())).collect() }
        }

        fn granted(&self, key: usize) -> Granted {
            // The first is the root key.
            let id = (key as u64).checked_sub(1);
            let key_of = Key { id, name: String::new(), scopes: Vec::new(), accounts: None, created_at: Timestamp(0) };
            Granted(key_of, KeyLife::of(&self.lives[key]))
        }

        fn begin(&self, key: usize, at_ms: u64) -> String {
            self.logins.begin(Instant(at_ms), self.granted(key)).unwrap().0
        }
    }

    #[test]
    fn l2_a_key_ends_its_own_logins_alone() {
        let world = World::new(2);
        let operator = world.begin(0, 0);
        let of_other: Vec<String> = (0..1_100).map(|ms| world.begin(1, ms)).collect();
        let now = Instant(2_000);
        assert!(world.logins.find(now, &operator).is_some());
        let held = of_other.iter().filter(|token| world.logins.find(now, token).is_some()).count();
        assert_eq!(held, KEY_LOGINS_MAX);
        assert!(world.logins.find(now, of_other.last().unwrap()).is_some(), "the oldest go");
        assert_eq!(world.logins.all().len(), KEY_LOGINS_MAX + 1);
    }

    #[tokio::test]
    async fn l1_streams_end_with_their_login() {
        let world = World::new(2);
        let (one, other) = (world.begin(1, 0), world.begin(1, 0));
        let life = |token: &str| world.logins.find(Instant(1), token).unwrap().1;
        let (mut of_one, of_other) = (life(&one), life(&other));
        world.logins.end(&one);
        of_one.over().await;
        assert!(of_one.is_over() && !of_other.is_over());
        let (_, hash) = world.logins.begin(Instant(1), world.granted(0)).unwrap();
        world.logins.end_hash(hash);
        assert!(world.logins.find(Instant(LIFE_S * 1_000), &other).is_none());
        assert!(of_other.is_over(), "its time has passed");
        let last = world.begin(1, 0);
        let mut of_last = life(&last);
        drop(world.lives);
        of_last.over().await;
        assert!(of_last.is_over(), "its key was revoked");
    }
}
