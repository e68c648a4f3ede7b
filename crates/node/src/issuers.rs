//! Issuers: public keys of other issuers of user tokens, as a JSON Web Key Set.
//!
//! Owns        the current keys, and the check of user tokens that are signed with EdDSA or RS256.
//! Invariants  I1 a key checks tokens of its own algorithm only: no key is ever used as the secret of HS256, and a
//!             token selects a key but not the way of checking. I2 with an audience or an issuer set, a token without
//!             it is refused. I3 a set with an invalid key is refused as a whole, and the current set stays. I4 an
//!             empty set is valid: from then on no token of an issuer is accepted. (tests `i*_*`)
//! Limits      `JWKS_BYTES_MAX`, `KEYS_MAX` per set.
//! Not here    the source of the set and its renewal: callers of `Node::set_issuers`.
//!
//! Spec        RFC 7517, 7519, 8037.

use crate::{
    TokenFault,
    sign_on::{Newcomer, Subject, SubjectKind},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use guildhall_stdx::Timestamp;
use jsonwebtoken::{
    Algorithm, DecodingKey, Header, Validation, decode, decode_header,
    errors::ErrorKind,
    jwk::{AlgorithmParameters, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse},
};
use serde_json::{Map, Value};
use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

/// A set with more is refused.
const JWKS_BYTES_MAX: usize = 256 << 10;
/// Issuers have two or three at a time; each is one more that can be stolen.
const KEYS_MAX: usize = 64;

/// Why a set of keys is not taken.
#[derive(Debug, thiserror::Error)]
pub enum IssuersError {
    /// The set is larger than `JWKS_BYTES_MAX`.
    #[error("the set of keys has {got_bytes} bytes, the limit is {JWKS_BYTES_MAX}")]
    TooLong {
        /// Length of the set.
        got_bytes: usize,
    },
    /// The text is not a JSON Web Key Set.
    #[error("not a JSON Web Key Set")]
    NotJwks(#[source] serde_json::Error),
    /// The set has keys, and none is usable.
    #[error(
        "no key in the set is for EdDSA (Ed25519) or RS256; to refuse all tokens of the sign-on, give {{\"keys\":[]}}"
    )]
    NoKeys,
    /// The set has more than `KEYS_MAX` keys.
    #[error("the set has {got_count} keys, the limit is {KEYS_MAX}")]
    TooMany {
        /// How many there are.
        got_count: usize,
    },
    /// A key is invalid for its own algorithm.
    #[error("key {kid:?} cannot be used")]
    BadKey {
        /// The `kid` of the key.
        kid: String,
        #[source]
        source: jsonwebtoken::errors::Error,
    },
}

struct Key {
    kid: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

/// Keys of issuers, and the required claims of their tokens.
pub struct Issuers {
    keys: Vec<Key>,
    terms: Terms,
}

/// Required claims of issuers' tokens.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Required `iss`. None: not checked.
    pub issuer: Option<String>,
    /// Required member of `aud`. None: not checked.
    pub audience: Option<String>,
    /// Claim with the account's id. None: `sub`.
    pub subject_claim: Option<String>,
    /// Meaning of that claim.
    pub subject_kind: SubjectKind,
    /// Claim with the username of a new account. None: `preferred_username`.
    pub username_claim: Option<String>,
    /// Claim with the display name of a new account. None: `name`.
    pub display_name_claim: Option<String>,
}

impl Terms {
    fn subject_claim(&self) -> &str {
        self.subject_claim.as_deref().unwrap_or("sub")
    }
}

impl fmt::Debug for Issuers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issuers").field("keys_count", &self.keys.len()).finish_non_exhaustive()
    }
}

impl Issuers {
    /// Reads a set. Keys for something else (encryption, other algorithms) are passed over; symmetric ones too.
    ///
    /// # Errors
    /// [`IssuersError`].
    pub fn parse(jwks: &str, terms: Terms) -> Result<Self, IssuersError> {
        if jwks.len() > JWKS_BYTES_MAX {
            return Err(IssuersError::TooLong { got_bytes: jwks.len() });
        }
        let set: JwkSet = serde_json::from_str(jwks).map_err(IssuersError::NotJwks)?;
        if set.keys.len() > KEYS_MAX {
            return Err(IssuersError::TooMany { got_count: set.keys.len() });
        }
        let mut keys = Vec::new();
        for jwk in &set.keys {
            let Some(algorithm) = algorithm_of(jwk) else { continue };
            let kid = jwk.common.key_id.clone();
            let key = DecodingKey::from_jwk(jwk)
                .map_err(|source| IssuersError::BadKey { kid: kid.clone().unwrap_or_default(), source })?;
            keys.push(Key { kid, algorithm, key });
        }
        // An operator removes all keys with an empty set. A set of unusable keys is a mistake.
        let is_mistake = keys.is_empty() && !set.keys.is_empty();
        if is_mistake { Err(IssuersError::NoKeys) } else { Ok(Self { keys, terms }) }
    }

    /// How many keys.
    #[must_use]
    pub fn keys_count(&self) -> usize {
        self.keys.len()
    }

    /// Claims of a token, if one of the keys has signed it and it is valid now.
    fn check(&self, token: &str, header: &Header, now: Timestamp) -> Result<Issued, TokenFault> {
        let is_named = |key: &&Key| header.kid.is_none() || key.kid == header.kid;
        if !self.keys.iter().any(|key| is_named(&key)) {
            return Err(TokenFault::UnknownKey);
        }
        let mut fault = TokenFault::Algorithm;
        // Without a key id, all keys of the token's algorithm are tried; there are few.
        let mut fitting = self.keys.iter().filter(|key| is_named(key) && key.algorithm == header.alg);
        let claims = fitting.find_map(|key| {
            let mut validation = Validation::new(key.algorithm);
            validation.set_required_spec_claims::<&str>(&[]);
            // By the node's clock, below.
            validation.validate_exp = false;
            validation.validate_aud = false;
            match decode::<Map<String, Value>>(token, &key.key, &validation) {
                Ok(decoded) => Some(decoded.claims),
                Err(error) => {
                    let is_signed = matches!(error.kind(), ErrorKind::Json(_) | ErrorKind::Utf8(_));
                    fault = if is_signed { TokenFault::Claims } else { TokenFault::Signature };
                    None
                }
            }
        });
        let claims = claims.ok_or(fault)?;
        let now_s = u64::try_from(now.unix_s()).unwrap_or(0);
        let seconds = |name: &str| match claims.get(name) {
            None | Some(Value::Null) => Ok(None),
            // Some issuers write numbers with fractions, as RFC 7519 allows.
            Some(value) => match value.as_u64().or_else(|| value.as_f64().filter(|s| *s >= 0.0).map(|s| s as u64)) {
                Some(seconds) => Ok(Some(seconds)),
                None => Err(TokenFault::Claims),
            },
        };
        let exp = seconds("exp")?.ok_or(TokenFault::Claims)?;
        let (iat, nbf) = (seconds("iat")?.unwrap_or(0), seconds("nbf")?);
        let is_wanted = |name: &str, wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| claims.get(name).is_some_and(|claim| says(claim, wanted)))
        };
        if !is_wanted("iss", &self.terms.issuer) {
            return Err(TokenFault::Issuer);
        }
        if !is_wanted("aud", &self.terms.audience) {
            return Err(TokenFault::Audience);
        }
        if exp <= now_s {
            return Err(TokenFault::Expired);
        }
        if nbf.is_some_and(|nbf| nbf > now_s + CLOCKS_DIFFER_S) {
            return Err(TokenFault::NotYetValid);
        }
        let sub = match claims.get(self.terms.subject_claim()) {
            Some(Value::String(sub)) => sub.clone(),
            // `sub` is text by RFC 7519; claims of one's own may be numbers.
            Some(Value::Number(sub)) if self.terms.subject_claim.is_some() => sub.to_string(),
            _ => return Err(TokenFault::Claims),
        };
        let text = |name: &str| claims.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
        let newcomer = Newcomer {
            subject: Subject::of_sign_on(self.terms.subject_kind, text("iss").as_deref().unwrap_or_default(), &sub)?,
            username: text(self.terms.username_claim.as_deref().unwrap_or("preferred_username")),
            global_name: text(self.terms.display_name_claim.as_deref().unwrap_or("name")),
        };
        Ok(Issued { newcomer, iat, exp })
    }
}

/// Whether a claim is this text, or a list with it.
fn says(claim: &Value, wanted: &str) -> bool {
    match claim {
        Value::String(one) => one == wanted,
        Value::Array(many) => many.iter().any(|one| one == wanted),
        _ => false,
    }
}

/// Tolerated difference between an issuer's clock and ours, seconds.
const CLOCKS_DIFFER_S: u64 = 30;

fn algorithm_of(jwk: &Jwk) -> Option<Algorithm> {
    if jwk.common.public_key_use.as_ref().is_some_and(|of| *of != PublicKeyUse::Signature) {
        return None;
    }
    match (&jwk.algorithm, jwk.common.key_algorithm) {
        (AlgorithmParameters::RSA(_), None | Some(KeyAlgorithm::RS256)) => Some(Algorithm::RS256),
        (AlgorithmParameters::OctetKeyPair(_), None | Some(KeyAlgorithm::EdDSA)) => Some(Algorithm::EdDSA),
        _ => None,
    }
}

/// Claims of an issuer's token.
pub(crate) struct Issued {
    pub(crate) newcomer: Newcomer,
    pub(crate) iat: u64,
    pub(crate) exp: u64,
}

/// Called when a token names an unknown key. Returns whether the key may arrive soon.
type RequestKeys = Arc<dyn Fn() -> bool + Send + Sync>;

/// The set in force.
#[derive(Default)]
pub(crate) struct IssuersInForce {
    issuers: RwLock<Option<Arc<Issuers>>>,
    request_keys: RwLock<Option<RequestKeys>>,
}

/// Result of checking a token.
pub(crate) enum Checked {
    /// The token is not an issuer's: HS256 tokens are this node's.
    Ours,
    Good(Issued),
    Bad(TokenFault),
    /// The key is unknown, and the key set is being fetched.
    KeysComing,
}

impl IssuersInForce {
    pub(crate) fn set(&self, issuers: Option<Issuers>) {
        *self.issuers.write().unwrap_or_else(PoisonError::into_inner) = issuers.map(Arc::new);
    }

    pub(crate) fn on_unknown_key(&self, request_keys: RequestKeys) {
        *self.request_keys.write().unwrap_or_else(PoisonError::into_inner) = Some(request_keys);
    }

    pub(crate) fn check(&self, token: &str, now: Timestamp) -> Checked {
        let issuers = self.issuers.read().unwrap_or_else(PoisonError::into_inner).clone();
        let request_keys = self.request_keys.read().unwrap_or_else(PoisonError::into_inner).clone();
        let Ok(header) = decode_header(token) else {
            // An `alg` that the library does not know is the commonest reason.
            return Checked::Bad(if has_unknown_algorithm(token) {
                TokenFault::Algorithm
            } else {
                TokenFault::Malformed
            });
        };
        if header.alg == Algorithm::HS256 {
            return Checked::Ours;
        }
        if !matches!(header.alg, Algorithm::EdDSA | Algorithm::RS256) {
            return Checked::Bad(TokenFault::Algorithm);
        }
        match issuers.map(|issuers| issuers.check(token, &header, now)) {
            Some(Ok(issued)) => Checked::Good(issued),
            // The key set may be outdated or missing, and is being fetched.
            Some(Err(TokenFault::UnknownKey)) | None if request_keys.as_ref().is_some_and(|request| request()) => {
                Checked::KeysComing
            }
            Some(Err(fault)) => Checked::Bad(fault),
            None => Checked::Bad(TokenFault::UnknownKey),
        }
    }
}

fn has_unknown_algorithm(token: &str) -> bool {
    let head = token.split('.').next().and_then(|head| URL_SAFE_NO_PAD.decode(head).ok()).unwrap_or_default();
    serde_json::from_slice::<Map<String, Value>>(&head).is_ok_and(|head| head.get("alg").is_some_and(Value::is_string))
}
