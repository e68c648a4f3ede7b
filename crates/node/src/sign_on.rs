//! Sign-on accounts: the account of a sign-on's subject, and the creation of accounts at the first token of a subject.
//!
//! Owns        the table from subjects to accounts; the rate at which accounts are created.
//! Invariants  A1 a subject has one account for ever, for any number of concurrent tokens and over a crash: the table
//!             is durable before the account is. A2 an invalid token or an inspection creates nothing. A3 a subject of
//!             digits is the id of its account; any other has an id that this node chose. A4 with
//!             `SubjectKind::ExternalId` a subject identifies the account that currently has it as external id, and no
//!             other. (tests `a*_*` in `tests/it/sign_on.rs`)
//! Limits      `SignOnAccounts::per_minute_max`, past it callers get `Busy`; one account is created at a time;
//!             `CACHED_MAX` subjects are remembered. External ids are read from the store for each token, because
//!             backends move them.
//! Not here    tokens: `tokens`, `issuers`.

use crate::{AuthError, Node, TokenFault, cache::Cache, reservations::external_id_name};
use guildhall_model::{User, UserId, smallest_id_at};
use guildhall_stdx::{Allowance, Now, Timestamp};
use guildhall_store::{ExternalKind, Store, StoreError, TokenHash, is_external_id};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::sync::Mutex;

/// Kind of records: the account of a subject.
const SUBJECT: &str = "sign_on_subject";
/// About 100 bytes each.
const CACHED_MAX: usize = 100_000;
const MINUTE_MS: u64 = 60_000;
/// As everywhere.
const NAME_CHARS_MAX: usize = 32;
/// A subject of digits that would be a younger snowflake is refused: ids of the node grow past all that are in use.
const IDS_AHEAD_MS: i64 = 10 * 365 * 86_400_000;

/// Whether accounts are made for subjects that have none.
#[derive(Clone, Copy, Debug, Default)]
pub struct SignOnAccounts {
    /// Accounts are made.
    pub is_on: bool,
    /// Most in a minute.
    pub per_minute_max: u32,
}

/// Meaning of a subject.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SubjectKind {
    /// Digits are the id of an account. Any other subject has an account only if this node made it.
    #[default]
    Id,
    /// The external id of an account, digits too.
    ExternalId,
}

/// The subject of a token of the sign-on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Id(UserId),
    /// An external id.
    External(Arc<str>),
    /// SHA-256 of issuer and subject.
    Named([u8; 32]),
}

impl Subject {
    /// `issuer` is the token's `iss`, or empty.
    pub(crate) fn of_sign_on(kind: SubjectKind, issuer: &str, subject: &str) -> Result<Self, TokenFault> {
        if kind == SubjectKind::ExternalId {
            return if is_external_id(subject) { Ok(Self::External(subject.into())) } else { Err(TokenFault::Subject) };
        }
        if subject.is_empty() {
            return Err(TokenFault::Subject);
        }
        if subject.bytes().all(|byte| byte.is_ascii_digit()) {
            return subject.parse().map(Self::Id).map_err(|_| TokenFault::Subject);
        }
        Ok(Self::Named(TokenHash::of(&format!("{}:{issuer}{subject}", issuer.len())).0))
    }

    /// The subject of a hook; those of issuers begin with a digit.
    pub(crate) fn of_hook(subject: &str) -> Result<Self, TokenFault> {
        if subject.is_empty() {
            return Err(TokenFault::Subject);
        }
        Ok(Self::Named(TokenHash::of(&format!("hook:{subject}")).0))
    }
}

/// A subject without an account, and the names in its token.
#[derive(Clone, Debug)]
pub(crate) struct Newcomer {
    pub(crate) subject: Subject,
    pub(crate) username: Option<String>,
    pub(crate) global_name: Option<String>,
}

/// A name without invisible characters, shortened to the limit.
fn clean_name(text: &str) -> Option<String> {
    let words: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
    let name: String = words.join(" ").chars().take(NAME_CHARS_MAX).collect();
    let name = name.trim_end();
    (!name.is_empty()).then(|| name.to_owned())
}

impl Newcomer {
    fn into_user(self, user_id: UserId) -> User {
        let global_name = self.global_name.as_deref().and_then(clean_name);
        let username = self.username.as_deref().and_then(clean_name).or_else(|| global_name.clone());
        User { global_name, ..User::new(user_id, &username.unwrap_or_else(|| format!("user_{user_id}"))) }
    }
}

pub(crate) struct SignOn {
    store: Arc<dyn Store>,
    settings: SignOnAccounts,
    accounts: Cache<[u8; 32], UserId>,
    /// Held while an account is made.
    making: Mutex<Allowance>,
    made_total: AtomicU64,
}

impl SignOn {
    pub(crate) fn new(store: Arc<dyn Store>, settings: SignOnAccounts) -> Self {
        let (accounts, making) = (Cache::new(CACHED_MAX), Mutex::default());
        Self { store, settings, accounts, making, made_total: AtomicU64::new(0) }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.settings.is_on
    }

    pub(crate) fn made_total(&self) -> u64 {
        self.made_total.load(Ordering::Relaxed)
    }

    /// The id of a subject's account. None: no account was made for it.
    pub(crate) async fn subject_account(&self, subject: &Subject) -> Result<Option<UserId>, StoreError> {
        let key = match subject {
            Subject::Id(user_id) => return Ok(Some(*user_id)),
            Subject::Named(key) => *key,
            Subject::External(text) => {
                let found = self.store.with_external_ids(ExternalKind::User, &[text.to_string()]).await?;
                return Ok(found.first().map(|found| UserId::new(found.id)));
            }
        };
        let miss = match self.accounts.lookup(key) {
            Ok(user_id) => return Ok(Some(user_id)),
            Err(miss) => miss,
        };
        let Some(data) = self.store.record(SUBJECT, &key).await? else { return Ok(None) };
        let user_id = data.try_into().map(|bytes| UserId::new(u64::from_be_bytes(bytes))).ok();
        if let Some(user_id) = user_id {
            self.accounts.fill(miss, key, user_id);
        }
        Ok(user_id)
    }
}

fn may_have(now: Now, user_id: UserId) -> bool {
    let most = smallest_id_at::<()>(Timestamp(now.unix.0.saturating_add(IDS_AHEAD_MS))).get();
    user_id.get() > 0 && user_id.get() <= most
}

impl Node {
    /// Creates the account of a subject, unless a concurrent call did.
    pub(crate) async fn make_account(&self, newcomer: Newcomer) -> Result<Arc<User>, AuthError> {
        let inner = &self.inner;
        let (sign_on, now) = (&inner.sign_on, inner.clock.now());
        let mut making = sign_on.making.lock().await;
        let known = sign_on.subject_account(&newcomer.subject).await.map_err(AuthError::Unavailable)?;
        if let Some(user_id) = known {
            if !may_have(now, user_id) {
                return Err(TokenFault::Subject.into());
            }
            if let Some(user) = inner.directory.user(user_id).await.map_err(AuthError::Unavailable)? {
                return Ok(user);
            }
        }
        if !making.take(now.instant, sign_on.settings.per_minute_max, MINUTE_MS) {
            return Err(AuthError::Busy(TokenFault::AccountRate));
        }
        let mut reserved = None;
        let user_id = match (&newcomer.subject, known) {
            (_, Some(user_id)) => user_id,
            (Subject::Id(user_id), None) => *user_id,
            (Subject::Named(key), None) => {
                let user_id: UserId = self.next_id().await.map_err(AuthError::Unavailable)?;
                let done = inner.store.swap_record(SUBJECT, key, None, Some(&user_id.get().to_be_bytes())).await;
                match done.map_err(AuthError::Unavailable)? {
                    true => user_id,
                    // Another node was faster (A1).
                    false => {
                        let found = sign_on.subject_account(&newcomer.subject).await.map_err(AuthError::Unavailable)?;
                        found.ok_or(AuthError::Busy(TokenFault::UnknownAccount))?
                    }
                }
            }
            (Subject::External(text), None) => {
                // Until its account is there, a backend could take the external id from it.
                let name = external_id_name(ExternalKind::User, text);
                reserved = Some(self.reserve(&name).await.map_err(AuthError::Unavailable)?);
                let user_id: UserId = self.next_id().await.map_err(AuthError::Unavailable)?;
                let external = [(user_id.get(), Some(text.to_string()))];
                match inner.store.put_external_ids(ExternalKind::User, &external).await {
                    Ok(()) => user_id,
                    // A backend gave it to an account at this moment.
                    Err(StoreError::Taken { .. }) => return Err(AuthError::Busy(TokenFault::UnknownAccount)),
                    Err(error) => return Err(AuthError::Unavailable(error)),
                }
            }
        };
        let user = self.add_user(newcomer.into_user(user_id)).await.map_err(AuthError::Unavailable)?;
        if let Some(reserved) = reserved {
            reserved.release().await;
        }
        sign_on.made_total.fetch_add(1, Ordering::Relaxed);
        tracing::info!(%user_id, "an account was made for a subject of the sign-on");
        Ok(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_newcomers() {
        let check = |username: Option<&str>, global_name: Option<&str>, expected: (&str, Option<&str>)| {
            let newcomer = Newcomer {
                subject: Subject::Id(UserId::new(5)),
                username: username.map(ToOwned::to_owned),
                global_name: global_name.map(ToOwned::to_owned),
            };
            let user = newcomer.into_user(UserId::new(5));
            assert_eq!((&*user.username, user.global_name.as_deref()), expected);
        };
        check(Some("ana"), Some("Ana  Álvarez\n"), ("ana", Some("Ana Álvarez")));
        check(None, Some("Ana"), ("Ana", Some("Ana")));
        check(Some(" \u{7}\t"), Some(""), ("user_5", None));
        check(Some(&"x".repeat(40)), None, (&"x".repeat(32), None));
    }

    #[test]
    fn a3_subjects() {
        let of = |issuer, subject| Subject::of_sign_on(SubjectKind::Id, issuer, subject);
        let external = |subject: &str| Subject::of_sign_on(SubjectKind::ExternalId, "i", subject);
        assert_eq!(external("50"), Ok(Subject::External("50".into())), "digits too");
        for wrong in [String::new(), "a b".to_owned(), "ä".to_owned(), "x".repeat(129)] {
            assert_eq!(external(&wrong), Err(TokenFault::Subject), "{wrong}");
        }
        assert_eq!(of("i", "50"), Ok(Subject::Id(UserId::new(50))));
        assert_eq!(of("i", ""), Err(TokenFault::Subject));
        assert_eq!(of("i", "99999999999999999999999"), Err(TokenFault::Subject));
        assert_ne!(of("i", "auth0|5"), of("j", "auth0|5"), "another issuer");
        assert_ne!(of("ia", "b"), of("i", "ab"));
    }
}
