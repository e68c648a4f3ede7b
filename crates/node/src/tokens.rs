//! Tokens: bot tokens, which the store has by their hash, and signed user tokens.
//!
//! Owns        creation and check of both, a cache of valid bot tokens, and user tokens that were revoked
//!             before their expiry.
//! Invariants  a bot token is stored only as SHA-256, is looked up by that hash and compared nowhere else. A user token
//!             of this node is a JWT with HS256 and no other algorithm; the crypto library compares its signature in
//!             constant time. Tokens of other issuers: `issuers`. No token is ever logged. A JWT never identifies a
//!             bot. T1 once `revoke` has returned, `unless_revoked` lets no earlier check of the token pass. (tests
//!             `guildhall/tests/it/backend.rs`) T2 `revoke_all` ends every token of an account that exists, whatever
//!             its date: a user token of this node names the account's generation, which `revoke_all` replaces; tokens
//!             of an issuer may be dated `CLOCKS_DIFFER_MS` ahead at most, and those until then are revoked. (tests
//!             `t2_*`)
//! Limits      `TOKEN_BYTES_MAX`, checked before anything else; `CACHED_MAX` bot tokens are remembered.
//! Not here    rate limits on guesses: the caller that serves the client.
//!
//! Spec        RFC 7519 and 7515; bot tokens have the form of Discord's, because libraries decode the first part.

use crate::{
    AuthError, Issuers, TokenFault,
    cache::{Cache, Miss},
    cluster::Revocation,
    issuers::{Checked, Issued, IssuersInForce},
    sign_on::{Newcomer, SignOn, Subject},
};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use guildhall_model::UserId;
use guildhall_stdx::Timestamp;
use guildhall_store::{Store, StoreError, TokenHash, TokenRecord};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, errors::ErrorKind};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The longest token, wherever one is taken: REST, gateway, revocation. One of ours has about 230 bytes, one signed by
/// RSA with 2,048 bits and a usual set of claims 650 to 1,200, with 4,096 bits 340 more. An IDENTIFY with it fits the
/// 15,360 bytes that a connection may send before it has a session.
pub const TOKEN_BYTES_MAX: usize = 4_096;
/// About 100 bytes each.
const CACHED_MAX: usize = 100_000;
/// A shorter secret makes HS256 weaker than its hash (RFC 7518 §3.2).
const JWT_SECRET_BYTES_MIN: usize = 32;
/// A token whose `iat` is further ahead of the node's clock is refused.
const CLOCKS_DIFFER_MS: i64 = 60_000;
/// Numbers up to this are exact in every JSON parser.
const GENERATION_MAX: u64 = (1 << 53) - 1;
/// Kinds of records: user tokens that were revoked, with when they would have ended; and the floors of accounts.
pub(crate) const REVOKED: &str = "revoked_token";
pub(crate) const FLOOR: &str = "token_floor";
const TOKENS_PER_PAGE: u32 = 256;
const SWEEP_COUNT: u32 = 8;

/// What `revoke_all` left for an account. Stored as `at` and `generation`, eight bytes each, big-endian; before 0.1.0
/// as `at` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Floor {
    /// Tokens of issuers, and user tokens without a generation, are revoked if they were made at this moment or before.
    at: Timestamp,
    /// Generation of the user tokens that are valid; 0: no token names one.
    generation: u64,
}

impl Floor {
    const NONE: Self = Self { at: Timestamp(i64::MIN), generation: 0 };

    fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.at.0.to_be_bytes());
        bytes[8..].copy_from_slice(&self.generation.to_be_bytes());
        bytes
    }

    /// Unreadable bytes revoke all tokens: an unnecessary login is better than a missed revocation.
    fn from_bytes(bytes: &[u8]) -> Self {
        let number = |bytes: &[u8]| <[u8; 8]>::try_from(bytes).map(u64::from_be_bytes).ok();
        let read = || {
            let (at, generation) = bytes.split_at_checked(8)?;
            let generation = if generation.is_empty() { 0 } else { number(generation)? };
            Some(Self { at: Timestamp(number(at)? as i64), generation })
        };
        read().unwrap_or(Self { at: Timestamp(i64::MAX), generation: u64::MAX })
    }

    fn revokes(self, signed: &Signed) -> bool {
        let is_of_node = signed.newcomer.is_none();
        if is_of_node && (self.generation, signed.generation) != (0, 0) {
            return self.generation != signed.generation;
        }
        signed.made_at <= self.at
    }
}

/// Claims of a user token.
#[derive(Serialize, Deserialize)]
struct Claims {
    /// The account's id.
    sub: String,
    /// Unix seconds.
    iat: u64,
    /// Unix seconds.
    exp: u64,
    /// Milliseconds past `iat`, for tokens of earlier versions: distinguished those made just after a revocation from
    /// those just before.
    #[serde(default)]
    ms: u16,
    /// Generation of the account's tokens; 0: none was revoked with all others.
    #[serde(default, rename = "gen", skip_serializing_if = "is_zero")]
    generation: u64,
    /// Makes every token another one.
    jti: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_zero(generation: &u64) -> bool {
    *generation == 0
}

pub(crate) struct Tokens {
    store: Arc<dyn Store>,
    good: Cache<[u8; 32], UserId>,
    /// User tokens that were not revoked by themselves.
    unrevoked: Cache<[u8; 32], ()>,
    floors: Cache<UserId, Floor>,
    /// Number of revocations. Incremented before sessions are ended, read around every check.
    revocations: RwLock<u64>,
    /// Position of the next sweep of revoked tokens that have expired.
    sweep_at: Mutex<Vec<u8>>,
    issuers: IssuersInForce,
    sign_on: Arc<SignOn>,
    encoding_key: EncodingKey,
    decoding_key: DecodingKey,
    validation: Validation,
}

/// Which kind a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// Made by this node for a bot.
    Bot,
    /// A user token of this node.
    User,
    /// Made by an issuer of the key set.
    SignOn,
    /// Recognised by the hook of the program around the node.
    Hook,
}

/// Checked token. Its account may not exist.
#[derive(Clone, Debug)]
pub(crate) struct Verified {
    /// None: a subject of the sign-on without an account.
    pub(crate) user_id: Option<UserId>,
    pub(crate) kind: TokenKind,
    /// Unix seconds.
    pub(crate) expires_at_s: Option<u64>,
    /// Of a token of the sign-on.
    pub(crate) newcomer: Option<Newcomer>,
}

/// A JWT with a valid signature that has not expired.
struct Signed {
    subject: Subject,
    /// Unix milliseconds.
    made_at: Timestamp,
    /// Of a user token of this node.
    generation: u64,
    /// Unix seconds.
    exp: u64,
    /// Of a token of the sign-on.
    newcomer: Option<Newcomer>,
}

/// A token, or its hash: argument of `Node::revoke_token`.
#[derive(Clone, Copy)]
pub enum TokenRef<'a> {
    /// The token, with or without `Bot `.
    Token(&'a str),
    /// SHA-256 of the token.
    Hash(TokenHash),
}

impl<'a> From<&'a str> for TokenRef<'a> {
    fn from(token: &'a str) -> Self {
        Self::Token(token)
    }
}

impl From<TokenHash> for TokenRef<'_> {
    fn from(hash: TokenHash) -> Self {
        Self::Hash(hash)
    }
}

/// Hash under which the store has a token, or its revocation.
pub(crate) fn hash_of(token: TokenRef<'_>) -> TokenHash {
    match token {
        TokenRef::Token(token) => TokenHash::of(bare(token)),
        TokenRef::Hash(hash) => hash,
    }
}

impl Tokens {
    /// # Panics
    /// When the secret is shorter than 32 bytes.
    pub(crate) fn new(store: Arc<dyn Store>, jwt_secret: &[u8], sign_on: Arc<SignOn>) -> Self {
        assert!(jwt_secret.len() >= JWT_SECRET_BYTES_MIN, "the JWT secret has fewer than {JWT_SECRET_BYTES_MIN} bytes");
        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_required_spec_claims(&["exp", "sub"]);
        // The library would use the system's clock; the node has its own (`check_user_token`).
        validation.validate_exp = false;
        Self {
            store,
            good: Cache::new(CACHED_MAX),
            unrevoked: Cache::new(CACHED_MAX),
            floors: Cache::new(CACHED_MAX),
            revocations: RwLock::new(0),
            sweep_at: Mutex::default(),
            issuers: IssuersInForce::default(),
            sign_on,
            encoding_key: EncodingKey::from_secret(jwt_secret),
            decoding_key: DecodingKey::from_secret(jwt_secret),
            validation,
        }
    }

    /// Checks a token of any kind, without its account.
    pub(crate) async fn check(&self, token: &str, now: Timestamp) -> Result<Verified, AuthError> {
        let token = bare(token);
        match form_of(token)? {
            Form::Jwt => self.check_user_token(token, now).await,
            Form::Bot(claimed) => self.check_bot_token(token, claimed).await,
        }
    }

    async fn check_user_token(&self, token: &str, now: Timestamp) -> Result<Verified, AuthError> {
        let signed = self.signed(token, now)?;
        if signed.made_at.0 > now.0.saturating_add(CLOCKS_DIFFER_MS) {
            return Err(TokenFault::IssuedAhead.into());
        }
        let user_id = self.sign_on.subject_account(&signed.subject).await.map_err(AuthError::Unavailable)?;
        let floor = match user_id {
            Some(user_id) => self.floor(user_id).await.map_err(AuthError::Unavailable)?,
            None => Floor::NONE,
        };
        if self.is_revoked(TokenHash::of(token)).await? || floor.revokes(&signed) {
            return Err(TokenFault::Revoked.into());
        }
        let Signed { exp, newcomer, .. } = signed;
        let kind = if newcomer.is_some() { TokenKind::SignOn } else { TokenKind::User };
        Ok(Verified { user_id, kind, expires_at_s: Some(exp), newcomer })
    }

    async fn is_revoked(&self, hash: TokenHash) -> Result<bool, AuthError> {
        let Err(miss) = self.unrevoked.lookup(hash.0) else { return Ok(false) };
        let found = self.store.record(REVOKED, &hash.0).await.map_err(AuthError::Unavailable)?;
        if found.is_none() {
            self.unrevoked.fill(miss, hash.0, ());
        }
        Ok(found.is_some())
    }

    async fn floor(&self, user_id: UserId) -> Result<Floor, StoreError> {
        let miss = match self.floors.lookup(user_id) {
            Ok(floor) => return Ok(floor),
            Err(miss) => miss,
        };
        let floor = self.stored_floor(user_id).await?;
        self.floors.fill(miss, user_id, floor);
        Ok(floor)
    }

    async fn stored_floor(&self, user_id: UserId) -> Result<Floor, StoreError> {
        let found = self.store.record(FLOOR, &user_id.get().to_be_bytes()).await?;
        Ok(found.map_or(Floor::NONE, |bytes| Floor::from_bytes(&bytes)))
    }

    /// How often tokens were revoked: for `unless_revoked`.
    pub(crate) fn revocations(&self) -> u64 {
        *self.revocations.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `then`, unless a token was revoked since `revocations` was this; none is while it runs.
    pub(crate) fn unless_revoked<T>(&self, revocations: u64, then: impl FnOnce() -> T) -> Option<T> {
        let now = self.revocations.read().unwrap_or_else(PoisonError::into_inner);
        (*now == revocations).then(then)
    }

    fn was_revoked(&self) {
        *self.revocations.write().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    /// Content of a user token that is signed and has not expired.
    fn signed(&self, token: &str, now: Timestamp) -> Result<Signed, AuthError> {
        let made_at =
            |iat: u64, ms: u16| Timestamp(i64::try_from(iat).unwrap_or(i64::MAX / 2000) * 1000 + i64::from(ms));
        let signed = match self.issuers.check(token, now) {
            Checked::Good(Issued { newcomer, iat, exp }) => {
                let subject = newcomer.subject.clone();
                Signed { subject, made_at: made_at(iat, 0), generation: 0, exp, newcomer: Some(newcomer) }
            }
            Checked::Bad(fault) => return Err(fault.into()),
            Checked::KeysComing => return Err(AuthError::KeysComing),
            Checked::Ours => {
                let decoded = jsonwebtoken::decode::<Claims>(token, &self.decoding_key, &self.validation);
                let decoded = decoded.map_err(|error| match error.kind() {
                    ErrorKind::Json(_) | ErrorKind::Utf8(_) | ErrorKind::MissingRequiredClaim(_) => TokenFault::Claims,
                    _ => TokenFault::Signature,
                })?;
                let Claims { sub, iat, ms, generation, exp, .. } = decoded.claims;
                let user_id = sub.parse().map_err(|_| TokenFault::Subject)?;
                Signed { subject: Subject::Id(user_id), made_at: made_at(iat, ms), generation, exp, newcomer: None }
            }
        };
        if i64::try_from(signed.exp).is_ok_and(|exp| exp <= now.unix_s()) {
            return Err(TokenFault::Expired.into());
        }
        Ok(signed)
    }

    pub(crate) fn set_issuers(&self, issuers: Option<Issuers>) {
        self.issuers.set(issuers);
    }

    pub(crate) fn on_unknown_key(&self, request_keys: Arc<dyn Fn() -> bool + Send + Sync>) {
        self.issuers.on_unknown_key(request_keys);
    }

    async fn check_bot_token(&self, token: &str, claimed: UserId) -> Result<Verified, AuthError> {
        let hash = TokenHash::of(token);
        let user_id = match self.good.lookup(hash.0) {
            Ok(user_id) => user_id,
            Err(miss) => {
                let record = self.store.token(hash).await.map_err(AuthError::Unavailable)?;
                let record = record.ok_or(TokenFault::Unknown)?;
                self.good.fill(miss, hash.0, record.user_id);
                record.user_id
            }
        };
        if user_id != claimed {
            return Err(TokenFault::Unknown.into());
        }
        Ok(Verified { user_id: Some(user_id), kind: TokenKind::Bot, expires_at_s: None, newcomer: None })
    }

    /// The account of a bot token, and the token's internal id, if the token is remembered.
    pub(crate) fn remembered_bot(&self, token: &str) -> Option<(UserId, u64)> {
        let Ok(Form::Bot(claimed)) = form_of(token) else { return None };
        let hash = TokenHash::of(token);
        let user_id = self.good.lookup(hash.0).ok().filter(|user_id| *user_id == claimed)?;
        Some((user_id, mark_of(hash)))
    }

    /// A bot token before it is read with others: its hash, the account that it names, and the miss for `remember_bot`
    /// if it is not remembered.
    pub(crate) fn bot_to_read(&self, token: &str) -> Option<(TokenHash, UserId, Option<Miss>)> {
        let Ok(Form::Bot(claimed)) = form_of(token) else { return None };
        let hash = TokenHash::of(token);
        Some((hash, claimed, self.good.lookup(hash.0).err()))
    }

    /// Remembers a bot token that the store has, unless it may have been revoked since the miss.
    pub(crate) fn remember_bot(&self, miss: Miss, hash: TokenHash, user_id: UserId) {
        self.good.fill(miss, hash.0, user_id);
    }

    /// Creates a bot token. Its hash is durable when this returns.
    pub(crate) async fn mint_bot_token(&self, user_id: UserId, now: Timestamp) -> Result<String, StoreError> {
        let id = STANDARD_NO_PAD.encode(user_id.to_string());
        let token = format!(
            "{id}.{}.{}",
            URL_SAFE_NO_PAD.encode(random_bytes::<8>()),
            URL_SAFE_NO_PAD.encode(random_bytes::<32>())
        );
        self.store.put_token(TokenHash::of(&token), TokenRecord { user_id, created_at: now }).await?;
        Ok(token)
    }

    /// Makes a user token; with the second it expires at.
    pub(crate) async fn mint_user_token(
        &self,
        user_id: UserId,
        ttl_s: u64,
        now: Timestamp,
    ) -> Result<(String, u64), StoreError> {
        let Floor { generation, .. } = self.floor(user_id).await?;
        let iat = u64::try_from(now.unix_s()).unwrap_or(0);
        let claims = Claims {
            sub: user_id.to_string(),
            iat,
            ms: now.0.rem_euclid(1000) as u16,
            generation,
            exp: iat.saturating_add(ttl_s),
            jti: URL_SAFE_NO_PAD.encode(random_bytes::<16>()),
        };
        let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.encoding_key)
            .expect("five plain fields serialise, and HMAC takes any key");
        Ok((token, claims.exp))
    }

    /// The account of a token that could be revoked; none: there is nothing to revoke. A bot token that the store does
    /// not have names its account: a revocation that failed halfway is repeated with it.
    pub(crate) async fn owner_of(&self, token: TokenRef<'_>, now: Timestamp) -> Result<Option<UserId>, StoreError> {
        let (hash, claimed) = match token {
            TokenRef::Token(token) => match form_of(bare(token)) {
                Ok(Form::Jwt) => {
                    let Ok(Signed { subject, .. }) = self.signed(bare(token), now) else { return Ok(None) };
                    return self.sign_on.subject_account(&subject).await;
                }
                Ok(Form::Bot(claimed)) => (TokenHash::of(bare(token)), Some(claimed)),
                Err(_) => return Ok(None),
            },
            TokenRef::Hash(hash) => (hash, None),
        };
        Ok(self.store.token(hash).await?.map(|record| record.user_id).or(claimed))
    }

    /// Revokes one token. Returns its account and the internal id of its sessions; `None` if it is not valid.
    pub(crate) async fn revoke(
        &self,
        token: TokenRef<'_>,
        now: Timestamp,
    ) -> Result<Option<(UserId, u64)>, StoreError> {
        let hash = match token {
            TokenRef::Token(token) => match form_of(bare(token)) {
                Ok(Form::Jwt) => return self.revoke_user_token(bare(token), now).await,
                Ok(Form::Bot(_)) => TokenHash::of(bare(token)),
                Err(_) => return Ok(None),
            },
            TokenRef::Hash(hash) => hash,
        };
        let record = self.store.token(hash).await?;
        let done = self.store.revoke_token(hash).await;
        // After the store: a check that reads it from now on finds nothing, and one that read before cannot fill.
        self.good.forget(hash.0);
        self.was_revoked();
        let was_good = done?;
        Ok(record.filter(|_| was_good).map(|record| (record.user_id, mark_of(hash))))
    }

    async fn revoke_user_token(&self, token: &str, now: Timestamp) -> Result<Option<(UserId, u64)>, StoreError> {
        let Ok(Signed { subject, exp, .. }) = self.signed(token, now) else { return Ok(None) };
        let Some(user_id) = self.sign_on.subject_account(&subject).await? else { return Ok(None) };
        let hash = TokenHash::of(token);
        let was_revoked = self.store.record(REVOKED, &hash.0).await?.is_some();
        let done = self.store.put_record(REVOKED, &hash.0, &exp.to_be_bytes()).await;
        self.unrevoked.forget(hash.0);
        self.was_revoked();
        done?;
        self.sweep(now).await?;
        Ok((!was_revoked).then_some((user_id, mark_of(hash))))
    }

    /// Revokes all tokens of an account (T2). Returns the number of bot tokens. `now`: by the clock that
    /// is furthest ahead.
    pub(crate) async fn revoke_all(&self, user_id: UserId, now: Timestamp) -> Result<u64, StoreError> {
        let before = self.stored_floor(user_id).await?;
        let at = Timestamp(now.0.saturating_add(CLOCKS_DIFFER_MS)).max(before.at);
        // A random number, so that none of two nodes that revoke at the same time leaves the other's tokens valid.
        let generation = (u64::from_le_bytes(random_bytes()) & GENERATION_MAX).max(1);
        let floor = Floor { at, generation }.to_bytes();
        let done = self.store.put_record(FLOOR, &user_id.get().to_be_bytes(), &floor).await;
        self.floors.forget(user_id);
        self.was_revoked();
        done?;
        let mut count = 0;
        loop {
            let tokens = self.store.tokens_of_user(user_id, TOKENS_PER_PAGE).await?;
            for (hash, _) in &tokens {
                count += u64::from(self.store.revoke_token(*hash).await?);
                self.good.forget(hash.0);
            }
            self.was_revoked();
            if tokens.len() < TOKENS_PER_PAGE as usize {
                return Ok(count);
            }
        }
    }

    /// Another node revoked a token, or all of an account, durably.
    pub(crate) fn revoked_elsewhere(&self, revocation: Revocation) {
        match revocation {
            Revocation::Token(hash, _) => {
                self.good.forget(hash);
                self.unrevoked.forget(hash);
            }
            Revocation::TokensOf(user_id) => {
                self.floors.forget(user_id);
                self.good.forget_value(&user_id);
            }
            Revocation::Key(_) => return,
        }
        self.was_revoked();
    }

    /// Clears the caches, which may be out of date.
    pub(crate) fn forget_all(&self) {
        self.good.clear();
        self.unrevoked.clear();
        self.floors.clear();
        self.was_revoked();
    }

    /// Forgets some revoked user tokens that would have ended by now: more than are added.
    async fn sweep(&self, now: Timestamp) -> Result<(), StoreError> {
        let after = std::mem::take(&mut *self.sweep_at.lock().unwrap_or_else(PoisonError::into_inner));
        let some = self.store.records(REVOKED, &after, SWEEP_COUNT).await?;
        for (hash, exp) in &some {
            let exp = exp.as_slice().try_into().map_or(0, u64::from_be_bytes);
            if i64::try_from(exp).is_ok_and(|exp| exp <= now.unix_s()) {
                self.store.delete_record(REVOKED, hash).await?;
            }
        }
        if let Some((last, _)) = some.last().filter(|_| some.len() == SWEEP_COUNT as usize) {
            self.sweep_at.lock().unwrap_or_else(PoisonError::into_inner).clone_from(last);
        }
        Ok(())
    }
}

/// Internal id of a token among the account's tokens. Reveals nothing about the token.
pub(crate) fn mark_of(hash: TokenHash) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = hash.0;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// Internal id of a token, from its text.
pub(crate) fn mark_of_token(token: &str) -> u64 {
    mark_of(TokenHash::of(bare(token)))
}

/// The longest scheme in front of a token, with its space.
const SCHEME_BYTES_MAX: usize = "Bearer ".len();

/// The token of a request with these values of the header `Authorization`, with its scheme if it has one.
///
/// # Errors
/// No value, several of them, one that is no text, or a longer one than any token.
pub fn authorization_token<'a, E>(mut values: impl Iterator<Item = Result<&'a str, E>>) -> Result<&'a str, TokenFault> {
    let token = values.next().ok_or(TokenFault::Missing)?;
    // Two tokens are refused, because a proxy may have checked either of them.
    if values.next().is_some() {
        return Err(TokenFault::Malformed);
    }
    match token.map_err(|_| TokenFault::Malformed)?.trim() {
        "" => Err(TokenFault::Missing),
        token if token.len() > TOKEN_BYTES_MAX + SCHEME_BYTES_MAX => Err(TokenFault::TooLong),
        token => Ok(token),
    }
}

/// The token without the scheme of REST, in any case and with one or more spaces behind it (RFC 9110 §11).
pub(crate) fn bare(token: &str) -> &str {
    let is_scheme = |word: &str| ["Bot", "Bearer"].iter().any(|scheme| word.eq_ignore_ascii_case(scheme));
    match token.split_once(' ') {
        Some((scheme, rest)) if is_scheme(scheme) => rest.trim_start_matches(' '),
        _ => token,
    }
}

/// Form of a token.
enum Form {
    /// A bot token, with the account that it names.
    Bot(UserId),
    Jwt,
}

/// Both forms have three parts. The first part of a bot token is an encoded number. Everything else is parsed by the
/// JWT library, because a JWT's header may be any JSON object in any spelling (RFC 7519 §7.2).
fn form_of(token: &str) -> Result<Form, TokenFault> {
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenFault::TooLong);
    }
    let mut parts = token.split('.');
    let (Some(id), Some(middle), Some(secret), None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Err(TokenFault::Malformed);
    };
    let number = || std::str::from_utf8(&STANDARD_NO_PAD.decode(id).ok()?).ok()?.parse().ok();
    match number() {
        Some(_) if middle.is_empty() || secret.is_empty() => Err(TokenFault::Malformed),
        Some(user_id) => Ok(Form::Bot(user_id)),
        None => Ok(Form::Jwt),
    }
}

/// 48 random bytes, as text.
pub(crate) fn random_text() -> String {
    URL_SAFE_NO_PAD.encode(random_bytes::<48>())
}

pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system has randomness");
    bytes
}
