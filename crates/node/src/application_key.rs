//! Application keys: the Ed25519 key of each application, which signs interactions that the node sends by HTTP.
//!
//! Owns        the derivation from the key of marks: all nodes of a cluster have the same keys, and none is stored.
//! Invariants  A1 the keys of two applications are unrelated, and follow from `auth.jwt_secret` alone: another secret
//!             gives other keys. (test `a1_*`)
//! Not here    the requests: `guildhall-rest`.     Spec  RFC 8032; docs/protocol/choices.md "Interactions by HTTP".

use crate::Node;
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use guildhall_model::UserId;
use std::fmt::Write as _;

/// The key of an application.
#[derive(Debug)]
pub struct ApplicationKey(Ed25519KeyPair);

impl ApplicationKey {
    fn new(seed: &[u8; 32]) -> Self {
        Self(Ed25519KeyPair::from_seed_unchecked(seed).expect("a seed of 32 bytes makes a key"))
    }

    /// `verify_key` of the application: the public key, in hexadecimal.
    #[must_use]
    pub fn public(&self) -> String {
        hex(self.0.public_key().as_ref())
    }

    /// The signature of a request with this timestamp and body, in hexadecimal.
    #[must_use]
    pub fn sign(&self, timestamp: &str, body: &[u8]) -> String {
        hex(self.0.sign(&[timestamp.as_bytes(), body].concat()).as_ref())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Node {
    /// The key of the application of this bot.
    #[must_use]
    pub fn application_key(&self, application: UserId) -> ApplicationKey {
        ApplicationKey::new(&self.inner.marks.seed("application key", &application.get().to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::Marks;
    use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};

    fn key(secret: u8, application: u64) -> ApplicationKey {
        ApplicationKey::new(&Marks::new(&[secret; 32]).seed("application key", &application.to_be_bytes()))
    }

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    #[test]
    fn a1_a_key_follows_from_secret_and_application() {
        let public = key(1, 7).public();
        assert_eq!(public, key(1, 7).public());
        assert!(public.len() == 64 && public != key(2, 7).public() && public != key(1, 8).public());
        let signature = bytes(&key(1, 7).sign("1700000000", b"{}"));
        let verify = |message: &[u8]| UnparsedPublicKey::new(&ED25519, bytes(&public)).verify(message, &signature);
        assert!(verify(b"1700000000{}").is_ok());
        assert!(verify(b"1700000001{}").is_err() && verify(b"1700000000[]").is_err());
    }
}
