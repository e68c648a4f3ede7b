//! Logins: sessions of operators in the dashboard.
//!
//! Invariants  a login ends `LIFE_S` after it began, and with its key. Tokens are 256 random bits; only their SHA-256
//!             is in memory, and none survives a restart.
//! Limits      `LOGINS_MAX`; a further one ends the oldest.

use crate::{caller::Granted, error::V1Error};
use aws_lc_rs::rand;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use guildhall_stdx::Instant;
use sha2::{Digest as _, Sha256};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Seconds after which an operator logs in again: a working day.
pub(super) const LIFE_S: u64 = 12 * 3_600;
/// Each has some 200 bytes.
const LOGINS_MAX: usize = 1_000;

type Hash = [u8; 32];

struct Login {
    began: Instant,
    granted: Granted,
}

/// Logins by the hash of their token.
#[derive(Default)]
pub(super) struct Logins(Mutex<HashMap<Hash, Login>>);

impl Logins {
    fn all(&self) -> MutexGuard<'_, HashMap<Hash, Login>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a login and returns its token.
    pub fn begin(&self, now: Instant, granted: Granted) -> Result<String, V1Error> {
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).map_err(|_| V1Error::unavailable())?;
        let token = URL_SAFE_NO_PAD.encode(bytes);
        let mut all = self.all();
        all.retain(|_, login| login.holds(now));
        if all.len() >= LOGINS_MAX {
            let oldest = all.iter().min_by_key(|(_, login)| login.began).map(|(hash, _)| *hash);
            oldest.and_then(|oldest| all.remove(&oldest));
        }
        all.insert(hash(&token), Login { began: now, granted });
        Ok(token)
    }

    /// The key of a login that has not ended.
    pub fn find(&self, now: Instant, token: &str) -> Option<Granted> {
        let mut all = self.all();
        let hash = hash(token);
        let login = all.get(&hash)?;
        if login.holds(now) {
            return Some(login.granted.clone());
        }
        all.remove(&hash);
        None
    }

    /// Ends a login.
    pub fn end(&self, token: &str) {
        self.all().remove(&hash(token));
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
