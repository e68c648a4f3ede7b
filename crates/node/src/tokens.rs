//! Tokens: bot tokens that the store knows by their hash, and user tokens that prove themselves.
//!
//! Owns        minting and checking of both, and a cache of good bot tokens.
//! Invariants  a bot token is stored only as SHA-256, is looked up by that hash and compared nowhere else.
//!             A user token of ours is a JWT with HS256 and nothing but HS256; its signature is compared in constant
//!             time by the crypto library. Those of others: `issuers`. No token is ever logged.
//! Limits      `TOKEN_BYTES_MAX`, checked before anything else; `CACHED_MAX` bot tokens are remembered.
//! Not here    rate limits on guesses: whoever faces the client.
//!             User tokens cannot be revoked one by one: they end by `exp`, or all at once with the key.
//!
//! Spec        RFC 7519 and 7515; bot tokens look like Discord's, whose first part libraries decode.

use crate::{
    AuthError, Issuers,
    cache::Cache,
    issuers::{Issued, IssuersInForce},
};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use guildhall_model::UserId;
use guildhall_stdx::Timestamp;
use guildhall_store::{Store, StoreError, TokenHash, TokenRecord};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Longer ones are not tokens; one of ours has about 230 bytes, one signed by RSA with 4096 bits about 900.
const TOKEN_BYTES_MAX: usize = 2048;
/// About 100 bytes each.
const CACHED_MAX: usize = 100_000;
/// Below it HS256 is weaker than its hash (RFC 7518 §3.2).
const JWT_SECRET_BYTES_MIN: usize = 32;
/// What every JWT begins with: `{"` in base64. No bot token does, its first part is an encoded digit.
const JWT_START: &str = "eyJ";

/// What a user token says.
#[derive(Serialize, Deserialize)]
struct Claims {
    /// The account's id.
    sub: String,
    /// Unix seconds.
    iat: u64,
    /// Unix seconds.
    exp: u64,
    /// Makes every token another one.
    jti: String,
}

pub(crate) struct Tokens {
    store: Arc<dyn Store>,
    good: Cache<[u8; 32], UserId>,
    issuers: IssuersInForce,
    encoding_key: EncodingKey,
    decoding_key: DecodingKey,
    validation: Validation,
}

/// A token, or its hash: what `Node::revoke_token` takes.
#[derive(Clone, Copy)]
pub enum TokenRef<'a> {
    /// The token, with or without `Bot `.
    Token(&'a str),
    /// Its SHA-256.
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

impl Tokens {
    /// # Panics
    /// When the secret is shorter than 32 bytes.
    pub(crate) fn new(store: Arc<dyn Store>, jwt_secret: &[u8]) -> Self {
        assert!(jwt_secret.len() >= JWT_SECRET_BYTES_MIN, "the JWT secret has fewer than {JWT_SECRET_BYTES_MIN} bytes");
        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_required_spec_claims(&["exp", "sub"]);
        // The library would ask the system's clock; the node has its own (`check_user_token`).
        validation.validate_exp = false;
        Self {
            store,
            good: Cache::new(CACHED_MAX),
            issuers: IssuersInForce::default(),
            encoding_key: EncodingKey::from_secret(jwt_secret),
            decoding_key: DecodingKey::from_secret(jwt_secret),
            validation,
        }
    }

    /// Whose token this is.
    pub(crate) async fn check(&self, token: &str, now: Timestamp) -> Result<UserId, AuthError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(AuthError::Invalid);
        }
        let token = bare(token);
        if token.starts_with(JWT_START) { self.check_user_token(token, now) } else { self.check_bot_token(token).await }
    }

    fn check_user_token(&self, token: &str, now: Timestamp) -> Result<UserId, AuthError> {
        let claims = self.signed_claims(token, now)?;
        if i64::try_from(claims.exp).is_ok_and(|exp| exp <= now.unix_s()) {
            return Err(AuthError::Invalid);
        }
        claims.sub.parse().map_err(|_| AuthError::Invalid)
    }

    /// What a user token says, by whoever may say it.
    fn signed_claims(&self, token: &str, now: Timestamp) -> Result<Claims, AuthError> {
        if let Some(checked) = self.issuers.check(token, now) {
            let Issued { sub, iat, exp } = checked.ok_or(AuthError::Invalid)?;
            return Ok(Claims { sub, iat, exp, jti: String::new() });
        }
        let decoded = jsonwebtoken::decode::<Claims>(token, &self.decoding_key, &self.validation);
        Ok(decoded.map_err(|_| AuthError::Invalid)?.claims)
    }

    pub(crate) fn set_issuers(&self, issuers: Option<Issuers>) {
        self.issuers.set(issuers);
    }

    async fn check_bot_token(&self, token: &str) -> Result<UserId, AuthError> {
        let claimed = claimed_user(token).ok_or(AuthError::Invalid)?;
        let hash = TokenHash::of(token);
        let user_id = match self.good.lookup(hash.0) {
            Ok(user_id) => user_id,
            Err(miss) => {
                let record = self.store.token(hash).await.map_err(AuthError::Unavailable)?.ok_or(AuthError::Invalid)?;
                self.good.fill(miss, hash.0, record.user_id);
                record.user_id
            }
        };
        if user_id == claimed { Ok(user_id) } else { Err(AuthError::Invalid) }
    }

    /// Makes a bot token. Its hash is durable when this returns.
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

    pub(crate) fn mint_user_token(&self, user_id: UserId, ttl_s: u64, now: Timestamp) -> String {
        let iat = u64::try_from(now.unix_s()).unwrap_or(0);
        let claims = Claims {
            sub: user_id.to_string(),
            iat,
            exp: iat.saturating_add(ttl_s),
            jti: URL_SAFE_NO_PAD.encode(random_bytes::<16>()),
        };
        jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.encoding_key)
            .expect("four plain fields serialise, and HMAC takes any key")
    }

    pub(crate) async fn revoke(&self, token: TokenRef<'_>) -> Result<bool, StoreError> {
        let hash = match token {
            TokenRef::Token(token) => TokenHash::of(bare(token)),
            TokenRef::Hash(hash) => hash,
        };
        let done = self.store.revoke_token(hash).await;
        // After the store: a check that reads it from now on finds nothing, and one that read before cannot fill.
        self.good.forget(hash.0);
        done
    }
}

/// Without what REST puts in front.
fn bare(token: &str) -> &str {
    token.strip_prefix("Bot ").or_else(|| token.strip_prefix("Bearer ")).unwrap_or(token)
}

/// The account a bot token says it is for; none if it has not the form of one.
fn claimed_user(token: &str) -> Option<UserId> {
    let mut parts = token.split('.');
    let (id, middle, secret) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || middle.is_empty() || secret.is_empty() {
        return None;
    }
    std::str::from_utf8(&STANDARD_NO_PAD.decode(id).ok()?).ok()?.parse().ok()
}

pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).expect("the system has randomness");
    bytes
}
