//! Issuers: public keys of others who may say who somebody is, as a set of JSON Web Keys.
//!
//! Owns        the keys in force, and checking user tokens that were signed with EdDSA or RS256.
//! Invariants  I1 a key checks tokens of its own algorithm alone: none of them is ever taken for the secret of HS256, and a token
//!             chooses among the keys, not how it is checked. I2 with an audience or an issuer set, a token without it is
//!             refused. I3 a set that cannot be read whole is no set: the one in force stays. (tests `i*_*`)
//! Limits      `JWKS_BYTES_MAX`, `KEYS_MAX` per set.
//! Not here    where the set comes from, and when it is read again: whoever calls `Node::set_issuers`.
//!
//! Spec        RFC 7517, 7519, 8037.

use guildhall_stdx::Timestamp;
use jsonwebtoken::{
    Algorithm, DecodingKey, Validation, decode, decode_header,
    jwk::{AlgorithmParameters, Jwk, JwkSet, KeyAlgorithm, PublicKeyUse},
};
use serde::Deserialize;
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
    /// Too long.
    #[error("the set of keys has {got_bytes} bytes, the limit is {JWKS_BYTES_MAX}")]
    TooLong {
        /// Its length.
        got_bytes: usize,
    },
    /// It is no JSON Web Key Set.
    #[error("not a JSON Web Key Set")]
    NotJwks(#[source] serde_json::Error),
    /// None of its keys is of use.
    #[error("no key in the set is for EdDSA (Ed25519) or RS256")]
    NoKeys,
    /// Too many.
    #[error("the set has {got_count} keys, the limit is {KEYS_MAX}")]
    TooMany {
        /// How many there are.
        got_count: usize,
    },
    /// One that says what it is for and is not.
    #[error("key {kid:?} cannot be used")]
    BadKey {
        /// Its id.
        kid: String,
        /// Why.
        #[source]
        source: jsonwebtoken::errors::Error,
    },
}

struct Key {
    kid: Option<String>,
    algorithm: Algorithm,
    key: DecodingKey,
}

/// Keys of issuers, and what their tokens must say.
pub struct Issuers {
    keys: Vec<Key>,
    issuer: Option<String>,
    audience: Option<String>,
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
    pub fn parse(jwks: &str, issuer: Option<String>, audience: Option<String>) -> Result<Self, IssuersError> {
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
        if keys.is_empty() { Err(IssuersError::NoKeys) } else { Ok(Self { keys, issuer, audience }) }
    }

    /// How many keys.
    #[must_use]
    pub fn keys_count(&self) -> usize {
        self.keys.len()
    }

    /// What a token says, if one of the keys has signed it and it holds now.
    fn check(&self, token: &str, now: Timestamp) -> Option<Issued> {
        let header = decode_header(token).ok()?;
        let fits = |key: &&Key| key.algorithm == header.alg && (header.kid.is_none() || key.kid == header.kid);
        // Without a key id all of its algorithm are tried; there are few.
        let claims = self.keys.iter().filter(fits).find_map(|key| {
            let mut validation = Validation::new(key.algorithm);
            validation.set_required_spec_claims(&["exp", "sub"]);
            // By the node's clock, below.
            validation.validate_exp = false;
            validation.validate_aud = false;
            decode::<ForeignClaims>(token, &key.key, &validation).ok()
        })?;
        let claims = claims.claims;
        let now_s = u64::try_from(now.unix_s()).unwrap_or(0);
        let is_wanted = |said: &Said, wanted: &Option<String>| wanted.as_ref().is_none_or(|wanted| said.has(wanted));
        let holds = claims.exp > now_s && claims.nbf.is_none_or(|nbf| nbf <= now_s + CLOCKS_DIFFER_S);
        let is_ours = is_wanted(&claims.iss, &self.issuer) && is_wanted(&claims.aud, &self.audience);
        (holds && is_ours).then_some(Issued { sub: claims.sub, iat: claims.iat, exp: claims.exp })
    }
}

/// An issuer's clock may be ahead of ours by so much.
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

/// One text, or several.
#[derive(Debug, Default, Deserialize)]
#[serde(untagged)]
enum Said {
    #[default]
    Nothing,
    One(String),
    Many(Vec<String>),
}

impl Said {
    fn has(&self, wanted: &str) -> bool {
        match self {
            Self::Nothing => false,
            Self::One(one) => one == wanted,
            Self::Many(many) => many.iter().any(|one| one == wanted),
        }
    }
}

#[derive(Debug, Deserialize)]
struct ForeignClaims {
    sub: String,
    exp: u64,
    #[serde(default)]
    iat: u64,
    nbf: Option<u64>,
    #[serde(default)]
    iss: Said,
    #[serde(default)]
    aud: Said,
}

/// What an issuer's token says.
pub(crate) struct Issued {
    pub(crate) sub: String,
    pub(crate) iat: u64,
    pub(crate) exp: u64,
}

/// Asked when a token names a key that is not known; says whether it may be soon.
type Ask = Arc<dyn Fn() -> bool + Send + Sync>;

/// The set in force.
#[derive(Default)]
pub(crate) struct IssuersInForce {
    issuers: RwLock<Option<Arc<Issuers>>>,
    ask: RwLock<Option<Ask>>,
}

/// What became of a token.
pub(crate) enum Checked {
    /// It is not theirs to check: those of HS256 are ours.
    Ours,
    Good(Issued),
    Bad,
    /// It is signed with a key that is not known, and whoever fetches keys is about to.
    KeysComing,
}

impl IssuersInForce {
    pub(crate) fn set(&self, issuers: Option<Issuers>) {
        *self.issuers.write().unwrap_or_else(PoisonError::into_inner) = issuers.map(Arc::new);
    }

    pub(crate) fn on_unknown_key(&self, ask: Ask) {
        *self.ask.write().unwrap_or_else(PoisonError::into_inner) = Some(ask);
    }

    pub(crate) fn check(&self, token: &str, now: Timestamp) -> Checked {
        let issuers = self.issuers.read().unwrap_or_else(PoisonError::into_inner).clone();
        let ask = self.ask.read().unwrap_or_else(PoisonError::into_inner).clone();
        if issuers.is_none() && ask.is_none() {
            return Checked::Ours;
        }
        let Ok(header) = decode_header(token) else { return Checked::Ours };
        if header.alg == Algorithm::HS256 {
            return Checked::Ours;
        }
        if let Some(issued) = issuers.as_ref().and_then(|issuers| issuers.check(token, now)) {
            return Checked::Good(issued);
        }
        // Without a key id, or with one that is known, it is the token that is wrong: once there are keys.
        let is_known =
            issuers.is_some_and(|issuers| header.kid.is_none() || issuers.keys.iter().any(|key| key.kid == header.kid));
        let is_ours_to_fetch = matches!(header.alg, Algorithm::EdDSA | Algorithm::RS256);
        let may_come = !is_known && is_ours_to_fetch && ask.is_some_and(|ask| ask());
        if may_come { Checked::KeysComing } else { Checked::Bad }
    }
}
