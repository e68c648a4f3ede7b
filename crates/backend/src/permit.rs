//! Permits to read a request's body.
//!
//! Owns        `ReadPermit`, and every function that makes one.
//! Invariants  K1 there is no permit for a request without a key or a signature, nor for a path with an object that
//!             does not exist. (test `s3_no_route_reads_a_body_early` of `guildhall`)

use guildhall_http_kit::{Party, Permit};
use guildhall_node::VoiceReport;

/// Proof that the sender of a request is authenticated and that the object in its path exists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadPermit {
    key_id: u64,
}

impl ReadPermit {
    /// For an object that the request names.
    pub fn backend<T>(key_id: u64, _object: &T) -> Self {
        Self::key(key_id)
    }

    /// For a report that the media server has signed. All of them share a quota.
    pub fn voice_report(_signature: &VoiceReport) -> Self {
        Self::key(u64::MAX)
    }

    /// For a request that creates its object, or names none.
    pub fn key(key_id: u64) -> Self {
        Self { key_id }
    }
}

impl Permit for ReadPermit {
    fn party(self) -> Party {
        Party::Key(self.key_id)
    }
}
