//! Keys: credentials of backends.
//!
//! Owns        `Scope`s, the created keys by id, and the root key of the configuration.
//! Doors       `check` for every request; `create`, `list`, `revoke`; `KeyLife` for work that outlives its request.
//! Invariants  K1 a key is stored only as SHA-256 of 256 random bits, and hashes are compared in constant time. K2 a
//!             revoked key is refused once `revoke` returns and after a restart, and its `KeyLife` has ended. K3 a key
//!             cannot create a key with more rights. K4 a key with accounts has the scope `tokens` only. (tests
//!             `guildhall/tests/it/{backend,exact}.rs`)
//! Limits      `KEYS_MAX`, all in memory from the first check on; `KEY_ACCOUNTS_MAX` accounts of each.
//! Not here    scopes that requests need, rate limits: `guildhall-backend`.     Spec  docs/backend-api.md "Keys".

use crate::tokens::random_bytes;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use guildhall_model::{Id, UserId};
use guildhall_stdx::Timestamp;
use guildhall_store::{Store, StoreError, TokenHash};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{OnceCell, watch};

/// Keys of one node. A backend needs a handful.
pub const KEYS_MAX: usize = 1_000;
/// Accounts that one key may name.
pub const KEY_ACCOUNTS_MAX: usize = 1_000;
/// Prefix of every key, by which people and scanners recognise one.
const KEY_START: &str = "ghk_";
const KIND: &str = "admin_key";

/// Permission of a backend key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Read guilds, channels, roles, members and users.
    Read,
    /// Create, replace, change and delete them; import. Reload and drain nodes.
    Write,
    /// Publish events.
    Publish,
    /// Mint, list and revoke tokens of accounts.
    Tokens,
    /// List sessions, close them, follow their changes.
    Sessions,
    /// Make, list and revoke keys that may do no more than itself.
    Keys,
    /// Record what sessions are sent, and compare codecs on it.
    Lab,
    /// Read, write, change and delete messages of any channel, as any account.
    Messages,
    /// Follow what happens in all guilds and direct messages.
    Events,
}

impl Scope {
    /// All scopes, in the order of their bits.
    pub const ALL: [Self; 9] = [
        Self::Read,
        Self::Write,
        Self::Publish,
        Self::Tokens,
        Self::Sessions,
        Self::Keys,
        Self::Lab,
        Self::Messages,
        Self::Events,
    ];

    /// The scope's name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Publish => "publish",
            Self::Tokens => "tokens",
            Self::Sessions => "sessions",
            Self::Keys => "keys",
            Self::Lab => "lab",
            Self::Messages => "messages",
            Self::Events => "events",
        }
    }

    /// The scope with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}

/// A key without its secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Names it. None: the root key of the configuration.
    pub id: Option<u64>,
    /// Name of the key, chosen by its creator.
    pub name: String,
    /// Scopes of the key, ascending.
    pub scopes: Vec<Scope>,
    /// Accounts whose tokens it may create, list, inspect and revoke, ascending. None: all accounts.
    pub accounts: Option<Arc<[UserId]>>,
    /// Time of creation.
    pub created_at: Timestamp,
}

impl Key {
    /// Whether it may manage tokens of this account.
    #[must_use]
    pub fn may_manage_user_tokens(&self, user_id: UserId) -> bool {
        self.may(Scope::Tokens)
            && self.accounts.as_ref().is_none_or(|accounts| accounts.binary_search(&user_id).is_ok())
    }

    /// Whether it has the scope.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.binary_search(&scope).is_ok()
    }
}

/// Reports the end of a key, or of a login with it, to work that continues after its request.
#[derive(Clone, Debug)]
pub struct KeyLife {
    key: watch::Receiver<()>,
    login: Option<watch::Receiver<()>>,
}

impl KeyLife {
    /// Over when the sender is dropped.
    #[must_use]
    pub fn of(key: &watch::Sender<()>) -> Self {
        Self { key: key.subscribe(), login: None }
    }

    /// Over with the key, or when `login` is dropped.
    #[must_use]
    pub fn of_login(&self, login: &watch::Sender<()>) -> Self {
        Self { key: self.key.clone(), login: Some(login.subscribe()) }
    }

    /// Whether the key was revoked, or the login has ended. Reads memory only, because streams check it for every line.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.key.has_changed().is_err() || self.login.as_ref().is_some_and(|login| login.has_changed().is_err())
    }

    /// Completes when the key is revoked, or the login ends.
    pub async fn over(&mut self) {
        let Self { key, login } = self;
        let login_over = async {
            match login {
                Some(login) => ended(login).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = ended(key) => {}
            () = login_over => {}
        }
    }
}

async fn ended(life: &mut watch::Receiver<()>) {
    while life.changed().await.is_ok() {}
}

/// Why no key was made.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// There are enough.
    #[error("there are {KEYS_MAX} keys already: revoke some first")]
    TooMany,
    /// K4, or `KEY_ACCOUNTS_MAX`.
    #[error("a key with accounts names 1 to {KEY_ACCOUNTS_MAX} of them and has the scope `tokens` alone")]
    Accounts,
    /// It could not be stored.
    #[error("the key could not be stored")]
    Store(#[from] StoreError),
}

/// A key in the form in which it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    name: String,
    scopes: Vec<Scope>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    accounts: Option<Vec<UserId>>,
    created_at: Timestamp,
    hash: String,
}

#[derive(Debug)]
struct Known {
    key: Key,
    hash: [u8; 32],
    /// Dropped with the key, which ends every `KeyLife`.
    life: watch::Sender<()>,
}

impl Known {
    fn new(key: Key, hash: [u8; 32]) -> Self {
        Self { key, hash, life: watch::Sender::new(()) }
    }

    fn checked(&self, hash: &[u8; 32]) -> Option<(Key, KeyLife)> {
        let is_it = verify_slices_are_equal(&self.hash, hash).is_ok();
        is_it.then(|| (self.key.clone(), KeyLife::of(&self.life)))
    }
}

pub(crate) struct Keys {
    store: Arc<dyn Store>,
    root: Mutex<Option<Known>>,
    known: OnceCell<Mutex<BTreeMap<u64, Known>>>,
    /// Keys that were revoked since the start: a read that began before does not bring them back.
    revoked: Mutex<BTreeSet<u64>>,
    is_shared: bool,
}

/// A table of keys is whole between any two statements.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Keys {
    /// `is_shared`: other nodes make and revoke keys, too.
    pub(crate) fn new(store: Arc<dyn Store>, is_shared: bool) -> Self {
        Self { store, root: Mutex::new(None), known: OnceCell::new(), revoked: Mutex::default(), is_shared }
    }

    pub(crate) fn set_root(&self, key: &str) {
        *lock(&self.root) = Some(Known::new(root_key(), TokenHash::of(key).0));
    }

    async fn known(&self) -> Result<&Mutex<BTreeMap<u64, Known>>, StoreError> {
        self.known
            .get_or_try_init(async || {
                let records = self.store.records(KIND, &[], KEYS_MAX as u32).await?;
                let known = records.into_iter().filter_map(|(id, data)| {
                    let found = known_of(&id, &data);
                    if found.is_none() {
                        tracing::warn!("a stored key cannot be read: it is not accepted");
                    }
                    found
                });
                Ok(Mutex::new(known.collect()))
            })
            .await
    }

    /// The key with this text, if there is one.
    pub(crate) async fn check(&self, text: &str) -> Result<Option<(Key, KeyLife)>, StoreError> {
        let hash = TokenHash::of(text).0;
        let root = lock(&self.root).as_ref().and_then(|root| root.checked(&hash));
        if root.is_some() {
            return Ok(root);
        }
        let id = text.strip_prefix(KEY_START).and_then(|rest| rest.split_once('_')).and_then(|(id, _)| id.parse().ok());
        let Some(id) = id else { return Ok(None) };
        let known = self.known().await?;
        if let Some(known) = lock(known).get(&id) {
            return Ok(known.checked(&hash));
        }
        if !self.is_shared || lock(&self.revoked).contains(&id) {
            return Ok(None);
        }
        // Another node may have made it.
        let record = self.store.record(KIND, &id.to_be_bytes()).await?;
        let Some((id, found)) = record.and_then(|data| known_of(&id.to_be_bytes(), &data)) else { return Ok(None) };
        let checked = found.checked(&hash);
        if checked.is_some() && !lock(&self.revoked).contains(&id) {
            return Ok(lock(known).entry(id).or_insert(found).checked(&hash));
        }
        Ok(None)
    }

    /// Another node revoked a key, durably.
    pub(crate) fn revoked_elsewhere(&self, id: u64) {
        lock(&self.revoked).insert(id);
        if let Some(known) = self.known.get() {
            lock(known).remove(&id);
        }
    }

    /// Clears the cache, which may be out of date: the next use of a key reads it again.
    pub(crate) fn forget_all(&self) {
        if let Some(known) = self.known.get() {
            lock(known).clear();
        }
    }

    pub(crate) async fn create(
        &self,
        id: Id<()>,
        name: &str,
        scopes: &[Scope],
        accounts: Option<&[UserId]>,
        now: Timestamp,
    ) -> Result<(Key, String), KeyError> {
        let mut scopes = scopes.to_vec();
        scopes.sort_unstable();
        scopes.dedup();
        let accounts = match accounts {
            None => None,
            Some(accounts) => {
                let mut accounts = accounts.to_vec();
                accounts.sort_unstable();
                accounts.dedup();
                if scopes != [Scope::Tokens] || !(1..=KEY_ACCOUNTS_MAX).contains(&accounts.len()) {
                    return Err(KeyError::Accounts);
                }
                Some(Arc::from(accounts))
            }
        };
        let known = self.known().await?;
        if lock(known).len() >= KEYS_MAX {
            return Err(KeyError::TooMany);
        }
        let id = id.get();
        let text = format!("{KEY_START}{id}_{}", URL_SAFE_NO_PAD.encode(random_bytes::<32>()));
        let hash = TokenHash::of(&text).0;
        let key = Key { id: Some(id), name: name.to_owned(), scopes, accounts, created_at: now };
        let record = Record {
            name: key.name.clone(),
            scopes: key.scopes.clone(),
            accounts: key.accounts.as_deref().map(<[UserId]>::to_vec),
            created_at: now,
            hash: URL_SAFE_NO_PAD.encode(hash),
        };
        let data = serde_json::to_vec(&record).expect("strings and numbers serialise");
        self.store.put_record(KIND, &id.to_be_bytes(), &data).await?;
        lock(known).insert(id, Known::new(key.clone(), hash));
        Ok((key, text))
    }

    pub(crate) async fn list(&self) -> Result<Vec<Key>, StoreError> {
        if self.is_shared {
            let records = self.store.records(KIND, &[], KEYS_MAX as u32).await?;
            return Ok(records.iter().filter_map(|(id, data)| Some(known_of(id, data)?.1.key)).collect());
        }
        Ok(lock(self.known().await?).values().map(|known| known.key.clone()).collect())
    }

    pub(crate) async fn revoke(&self, id: u64) -> Result<bool, StoreError> {
        let known = self.known().await?;
        // Refused from now on. If the store fails, the caller gets the error and may try again.
        lock(&self.revoked).insert(id);
        let was_there = lock(known).remove(&id).is_some();
        Ok(self.store.delete_record(KIND, &id.to_be_bytes()).await? || was_there)
    }
}

fn root_key() -> Key {
    Key { id: None, name: "root".to_owned(), scopes: Scope::ALL.to_vec(), accounts: None, created_at: Timestamp(0) }
}

fn known_of(id: &[u8], data: &[u8]) -> Option<(u64, Known)> {
    let id = u64::from_be_bytes(id.try_into().ok()?);
    let Record { name, mut scopes, accounts, created_at, hash } = serde_json::from_slice(data).ok()?;
    scopes.sort_unstable();
    // A record without order would let `binary_search` miss an account.
    let accounts = accounts.map(|mut accounts| {
        accounts.sort_unstable();
        accounts
    });
    let hash = URL_SAFE_NO_PAD.decode(hash).ok()?.try_into().ok()?;
    Some((id, Known::new(Key { id: Some(id), name, scopes, accounts: accounts.map(Arc::from), created_at }, hash)))
}
