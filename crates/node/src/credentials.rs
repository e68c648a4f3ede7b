//! Credentials: the node's functions for tokens of accounts and keys of backends.
//!
//! Not here    how they are checked and stored: `tokens`, `keys`, `sign_on`; other nodes: `revocations`.

use crate::{
    Issuers, Key, KeyError, KeyFault, KeyLife, Membership, Node, Scope, TokenFault, TokenKind, TokenRef, cluster,
    refusals::refuse, revocations, sign_on::Subject, tokens,
};
use guildhall_model::{GuildId, User, UserId};
use guildhall_stdx::Timestamp;
use guildhall_store::{SIGN_INS_MAX, SignIn, StoreError, TokenHash};
use std::{collections::HashMap, sync::Arc};

/// Effect of a good token whose subject has no account.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Newcomers {
    /// The account is made, if the settings permit it.
    GetAccounts,
    AreRefused,
}

/// A checked token.
#[derive(Clone, Debug)]
pub struct Account {
    pub user: Arc<User>,
    /// Internal id of the token among the account's tokens. Reveals nothing about the token.
    pub token: u64,
    /// When the token expires. None: never.
    pub expires_at: Option<Timestamp>,
}

/// A token that was revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Revoked {
    /// Account of the token.
    pub user_id: UserId,
    /// As `Account::token`.
    pub token: u64,
    /// Sessions that were closed.
    pub closed: u64,
}

/// All tokens of an account were revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllRevoked {
    /// Bot tokens. User tokens are not stored, so they are not counted.
    pub count: u64,
    /// Sessions that were closed.
    pub closed: u64,
}

/// Why a token is not accepted.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The token is invalid.
    #[error("the token is not valid: {0}")]
    Invalid(TokenFault),
    /// It could not be checked now: try again.
    #[error("the token could not be checked")]
    Unavailable(#[source] StoreError),
    /// The token's key may be fetched soon: the caller may try again.
    #[error("the keys of the token's issuer are being fetched")]
    KeysComing,
    /// The account of a valid token cannot be created now, or a hook cannot check the token now: try again.
    #[error("{0}")]
    Busy(TokenFault),
    /// This node of a cluster has no lease, so it does not know what other nodes revoke.
    #[error("this node has no part in its cluster now")]
    NoLease,
}

impl From<TokenFault> for AuthError {
    fn from(fault: TokenFault) -> Self {
        Self::Invalid(fault)
    }
}

/// Result of `Node::inspect_token`.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// Which kind it is, and until when it is valid in Unix seconds; none if it is refused before that is known.
    pub kind: Option<TokenKind>,
    /// Account of the token, if its signature is valid or the token is stored.
    pub user_id: Option<UserId>,
    /// Unix seconds; bot tokens have no end.
    pub expires_at_s: Option<u64>,
    /// Reason of the refusal; none for a valid token.
    pub fault: Option<TokenFault>,
}

impl Inspected {
    fn of(verified: tokens::Verified, fault: Option<TokenFault>) -> Self {
        let tokens::Verified { user_id, kind, expires_at_s, .. } = verified;
        Self { kind: Some(kind), user_id, expires_at_s, fault }
    }
}

impl Node {
    /// Checks a bot or user token, with or without `Bot ` or `Bearer `. May make the account of a
    /// subject of the sign-on.
    ///
    /// # Errors
    /// `Invalid` for every token that does not name an account; `Unavailable` when the store did not answer;
    /// `KeysComing` and `Busy` for one that may be good later.
    pub async fn authenticate(&self, token: &str) -> Result<Account, AuthError> {
        let checked = self.check_token(token, Newcomers::GetAccounts).await;
        if let Err(AuthError::Invalid(fault) | AuthError::Busy(fault)) = checked {
            self.count_refused_token(fault);
        }
        Ok(checked?.0)
    }

    /// The token without its account, by the hook or by the node.
    async fn verify(&self, token: &str) -> Result<tokens::Verified, AuthError> {
        let now = self.inner.clock.now().unix;
        if let Some(hooks) = self.inner.hooks.get()
            && let Some(mut verified) = hooks.check_token(tokens::bare(token), now).await?
        {
            if let Some(newcomer) = &verified.newcomer {
                let account = self.inner.sign_on.subject_account(&newcomer.subject).await;
                verified.user_id = account.map_err(AuthError::Unavailable)?;
            }
            return Ok(verified);
        }
        self.inner.tokens.check(token, now).await
    }

    async fn check_token(&self, token: &str, newcomers: Newcomers) -> Result<(Account, tokens::Verified), AuthError> {
        if !self.has_lease() {
            return Err(AuthError::NoLease);
        }
        let verified = self.verify(token).await?;
        let makes_accounts =
            newcomers == Newcomers::GetAccounts && (self.inner.sign_on.is_on() || verified.kind == TokenKind::Hook);
        let user = match verified.user_id {
            Some(user_id) => self.inner.directory.user(user_id).await.map_err(AuthError::Unavailable)?,
            None => None,
        };
        let user = match (user, &verified.newcomer) {
            (Some(user), _) => user,
            (None, Some(newcomer)) if makes_accounts => self.make_account(newcomer.clone()).await?,
            (None, Some(newcomer)) if matches!(newcomer.subject, Subject::Id(_) | Subject::External(_)) => {
                return Err(TokenFault::UnknownAccount.into());
            }
            (None, _) if verified.user_id.is_none() => return Err(TokenFault::Subject.into()),
            (None, _) => return Err(TokenFault::UnknownAccount.into()),
        };
        if user.bot && verified.kind != TokenKind::Bot {
            return Err(TokenFault::BotAccount.into());
        }
        let expires_ms = verified.expires_at_s.and_then(|s| i64::try_from(s).ok()?.checked_mul(1000));
        let expires_at = expires_ms.map(Timestamp);
        Ok((Account { user, token: tokens::mark_of_token(token), expires_at }, verified))
    }

    /// As `authenticate`, for a bot token that is remembered with its account; with the account's guilds if they are
    /// wanted. Never waits; none if that needs a read or a hook.
    #[must_use]
    pub fn authenticate_at_once(&self, token: &str, wants_guilds: bool) -> Option<(Account, Option<Arc<[GuildId]>>)> {
        if self.inner.hooks.get().is_some() || !self.has_lease() {
            return None;
        }
        let (user_id, token) = self.inner.tokens.remembered_bot(tokens::bare(token))?;
        let user = self.inner.directory.remembered_user(user_id)?;
        let guilds = if wants_guilds { Some(self.inner.directory.remembered_guilds(user_id)?) } else { None };
        Some((Account { user, token, expires_at: None }, guilds))
    }

    /// Reads the bot tokens among these, with their accounts and the guilds of these, in one call of the store, unless
    /// they are remembered. `authenticate_at_once` has them then. Takes the first `SIGN_INS_MAX` of them.
    pub async fn read_bots(&self, tokens: impl Iterator<Item = &str>) {
        let to_read = tokens.filter_map(|token| {
            let (hash, user_id, miss) = self.inner.tokens.bot_to_read(tokens::bare(token))?;
            let misses = self.inner.directory.misses(user_id);
            (miss.is_some() || !misses.is_empty()).then_some((hash, (miss, user_id, misses)))
        });
        let to_read: HashMap<_, _> = to_read.take(SIGN_INS_MAX).collect();
        if to_read.is_empty() {
            return;
        }
        let hashes: Vec<TokenHash> = to_read.keys().copied().collect();
        // A failure shows again where the caller checks them one by one.
        for SignIn { hash, record, user, guilds } in self.inner.store.sign_ins(&hashes).await.unwrap_or_default() {
            let Some((miss, claimed, misses)) = to_read.get(&hash).filter(|(_, id, _)| *id == record.user_id) else {
                continue;
            };
            if let Some(miss) = miss {
                self.inner.tokens.remember_bot(*miss, hash, *claimed);
            }
            if let Some(user) = user {
                self.inner.directory.remember(misses, &user, guilds.as_deref());
            }
        }
    }

    /// Checks a token as `authenticate` does, without counting it.
    ///
    /// # Errors
    /// `Unavailable` if the store did not answer, `KeysComing` if the issuer's keys are being fetched.
    pub async fn inspect_token(&self, token: &str) -> Result<Inspected, AuthError> {
        let fault = match self.check_token(token, Newcomers::AreRefused).await {
            Ok((_, verified)) => return Ok(Inspected::of(verified, None)),
            Err(AuthError::Invalid(fault)) => fault,
            Err(error) => return Err(error),
        };
        // A valid token of an account that does not exist is invalid too.
        match self.verify(token).await {
            Ok(verified) => Ok(Inspected::of(verified, Some(fault))),
            Err(AuthError::Invalid(_)) => {
                Ok(Inspected { kind: None, user_id: None, expires_at_s: None, fault: Some(fault) })
            }
            Err(error) => Err(error),
        }
    }

    /// Counts and logs a token that was refused before the node saw it.
    pub fn count_refused_token(&self, fault: TokenFault) {
        refuse(&self.inner.tokens_refused, fault, self.inner.clock.now().instant);
    }

    /// Counts and logs a key that was refused.
    pub fn count_refused_key(&self, fault: KeyFault) {
        refuse(&self.inner.keys_refused, fault, self.inner.clock.now().instant);
    }

    /// Refused tokens since the start, by reason.
    #[must_use]
    pub fn refused_tokens(&self) -> Vec<(&'static str, u64)> {
        self.inner.tokens_refused.counts()
    }

    /// Refused keys since the start, by reason.
    #[must_use]
    pub fn refused_keys(&self) -> Vec<(&'static str, u64)> {
        self.inner.keys_refused.counts()
    }

    /// Accounts that were made for subjects of the sign-on since the start.
    #[must_use]
    pub fn sign_on_accounts_made(&self) -> u64 {
        self.inner.sign_on.made_total()
    }

    /// How often tokens were revoked so far: read before `authenticate`, for `unless_revoked`.
    #[must_use]
    pub fn revocations(&self) -> u64 {
        self.inner.tokens.revocations()
    }

    /// Runs `then`, unless a token was revoked since the count was `revocations`; then the caller has to check again.
    /// No token is revoked while `then` runs, so it must not wait.
    pub fn unless_revoked<T>(&self, revocations: u64, then: impl FnOnce() -> T) -> Option<T> {
        self.inner.tokens.unless_revoked(revocations, then)
    }

    /// Creates a bot token (base64 of the id without padding, a dot, random parts). Only its hash is stored.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn mint_bot_token(&self, user_id: UserId) -> Result<String, StoreError> {
        self.inner.tokens.mint_bot_token(user_id, self.inner.clock.now().unix).await
    }

    /// Mints a user token: a JWT that is valid for `ttl_s` seconds.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn mint_user_token(&self, user_id: UserId, ttl_s: u64) -> Result<String, StoreError> {
        Ok(self.mint_expiring_token(user_id, ttl_s).await?.0)
    }

    /// As [`Node::mint_user_token`]; with the Unix second at which the token expires.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn mint_expiring_token(&self, user_id: UserId, ttl_s: u64) -> Result<(String, u64), StoreError> {
        self.inner.tokens.mint_user_token(user_id, ttl_s, self.inner.clock.now().unix).await
    }

    /// Revokes a token, durably, and closes its sessions with 4004; `None` if it was not valid. No node accepts it once
    /// this returns.
    ///
    /// # Errors
    /// The store cannot be written. The token may be revoked then, and other nodes may still accept it: the caller has
    /// to repeat the call, which reaches them although the token is not valid any more.
    pub async fn revoke_token(&self, token: impl Into<TokenRef<'_>>) -> Result<Option<Revoked>, StoreError> {
        let (token, now) = (token.into(), self.inner.clock.now().unix);
        let Some(user_id) = self.inner.tokens.owner_of(token, now).await? else { return Ok(None) };
        let revocation = revocations::of_token(token, user_id);
        let notice = self.log_revocation(revocation).await?;
        let revoked = self.inner.tokens.revoke(token, now).await?;
        let closed = self.end_revoked(revocation, notice).await;
        Ok(revoked.map(|(user_id, token)| Revoked { user_id, token, closed }))
    }

    /// Has every node forget a bot token that the store does not have: an earlier revocation may not have reached them.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn forget_token(&self, hash: TokenHash, user_id: UserId) -> Result<(), StoreError> {
        let revocation = revocations::of_token(hash.into(), user_id);
        let notice = self.log_revocation(revocation).await?;
        self.inner.tokens.revoked_elsewhere(revocation);
        self.end_revoked(revocation, notice).await;
        Ok(())
    }

    /// Revokes all tokens of an account, durably, and closes its sessions with 4004.
    ///
    /// # Errors
    /// When the store cannot be written: as for `revoke_token`.
    pub async fn revoke_user_tokens(&self, user_id: UserId) -> Result<AllRevoked, StoreError> {
        let now = self.inner.clock.now().unix;
        let latest = self.inner.membership.as_ref().map_or(now, |membership| membership.latest_clock(now));
        let revocation = cluster::Revocation::TokensOf(user_id);
        let notice = self.log_revocation(revocation).await?;
        let count = self.inner.tokens.revoke_all(user_id, latest).await?;
        Ok(AllRevoked { count, closed: self.end_revoked(revocation, notice).await })
    }

    /// Replaces the issuers whose tokens the node accepts in addition to its own.
    pub fn set_issuers(&self, issuers: Option<Issuers>) {
        self.inner.tokens.set_issuers(issuers);
    }

    /// Sets the callback for tokens with an unknown key; it returns whether the key may be known soon. Must not wait.
    pub fn on_unknown_key(&self, request_keys: Arc<dyn Fn() -> bool + Send + Sync>) {
        self.inner.tokens.on_unknown_key(request_keys);
    }

    /// From now on this is a key too, and may do everything.
    pub fn set_root_key(&self, key: &str) {
        self.inner.keys.set_root(key);
    }

    /// Whether tokens and keys can be checked: the node is alone, or its lease is valid and it knows what was revoked.
    #[must_use]
    pub fn has_lease(&self) -> bool {
        let has_lease = |membership: &Arc<Membership>| membership.has_lease() && self.inner.revocation_log.is_read();
        self.inner.membership.as_ref().is_none_or(has_lease)
    }

    /// The key with this text, and its revocation signal. None if there is no such key, or if it is revoked. The caller
    /// has checked `has_lease`.
    ///
    /// # Errors
    /// The store cannot be read; it is read once.
    pub async fn check_key(&self, text: &str) -> Result<Option<(Key, KeyLife)>, StoreError> {
        self.inner.keys.check(text).await
    }

    /// Creates a key, durably. Only this call returns its text: the store has only its hash.
    ///
    /// # Errors
    /// `TooMany`, `Store`.
    pub async fn create_key(&self, name: &str, scopes: &[Scope]) -> Result<(Key, String), KeyError> {
        self.make_key(name, scopes, None).await
    }

    /// A key that manages the tokens of these accounts and can do nothing else, as `create_key`.
    ///
    /// # Errors
    /// `Accounts`, `TooMany`, `Store`.
    pub async fn create_key_for(&self, name: &str, accounts: &[UserId]) -> Result<(Key, String), KeyError> {
        self.make_key(name, &[Scope::Tokens], Some(accounts)).await
    }

    async fn make_key(
        &self,
        name: &str,
        scopes: &[Scope],
        accounts: Option<&[UserId]>,
    ) -> Result<(Key, String), KeyError> {
        let id = self.next_id().await?;
        self.inner.keys.create(id, name, scopes, accounts, self.inner.clock.now().unix).await
    }

    /// All keys but the root key, oldest first.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn keys(&self) -> Result<Vec<Key>, StoreError> {
        self.inner.keys.list().await
    }

    /// Revokes a key, durably; false if there was none.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub async fn revoke_key(&self, id: u64) -> Result<bool, StoreError> {
        let revocation = cluster::Revocation::Key(id);
        let notice = self.log_revocation(revocation).await?;
        let was_there = self.inner.keys.revoke(id).await?;
        self.end_revoked(revocation, notice).await;
        Ok(was_there)
    }

    /// A random text of 64 characters, for paths.
    #[must_use]
    pub fn new_secret(&self) -> String {
        tokens::random_text()
    }
}
