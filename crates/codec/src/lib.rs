//! Codec: encodings, envelopes and compression.
//!
//! Owns        JSON and ETF bodies, the envelope around a shared body, the pool of compression contexts, inbound
//!             payloads, the grammar of arms.
//! Doors       `encode_json`, `encode_etf`, `transcode_json` make bodies; `DispatchFrame` puts a recipient's seq around
//!             one; `StreamCompressor` compresses per connection, `DispatchFrame::prepare` once for all;
//!             `decode_payload` reads a client's message.
//! Invariants  Output is appended: when an encoder fails, `out` is as long as before. Bytes of a peer never cause a
//!             panic or allocations beyond a fixed multiple of their own length.
//! Limits      `etf::DEPTH_MAX` levels of nesting, `EVENT_NAME_BYTES_MAX`, the caller's `bytes_max` when decompressing.
//! Not here    sockets, clocks, the meaning of payloads.     Spec  docs/protocol/reference.md §1.2, §2.
#![deny(unsafe_code)]

#[cfg(feature = "stream")]
pub mod arm;
#[cfg(feature = "stream")]
pub mod context_pool;
pub mod error;
pub mod etf;
pub mod frame;
pub mod json;
pub mod payload;
#[cfg(feature = "stream")]
pub mod prepared;
#[cfg(feature = "stream")]
pub mod prepared_cache;
#[cfg(feature = "stream")]
pub mod stream;
#[cfg(feature = "stream")]
mod upgrade;

#[cfg(feature = "stream")]
pub use arm::{ARM_BYTES_MAX, Arm, ArmEncoder, ArmError, read_once};
#[cfg(feature = "stream")]
pub use context_pool::{ContextParams, ContextPool, ContextStats};
#[cfg(feature = "stream")]
pub use error::CodecError;
pub use error::{DecodeError, EncodeError, EtfError};
pub use etf::{DecodeLimits, decode_etf, decode_etf_from_gateway, encode_etf, encode_etf_to_gateway, transcode_json};
pub use frame::{DispatchFrame, EVENT_NAME_BYTES_MAX, FrameParts, Framing, SmallHead, control_payload};
pub use json::encode_json;
pub use payload::{Inbound, decode_payload, encode_payload_to_gateway};
#[cfg(feature = "stream")]
pub use prepared::PREPARE_BYTES_MIN;
#[cfg(feature = "stream")]
pub use prepared_cache::PreparedCache;
#[cfg(feature = "stream")]
pub use stream::{
    Asker, BodyDeflater, DICTIONARIES_MAX, DICTIONARY_BYTES, DICTIONARY_BYTES_MAX, DeflateCompressor, Dictionaries,
    Dictionary, DictionaryId, DictionarySwitch, DictionaryTrials, DictionaryUse, DictionaryUses, InflateHistory,
    KnownDictionary, MessageInflater, PERMILLE_ALL, ParseDictionaryIdError, SharedWindow, StreamCompressor,
    StreamDecompressor, Training, TriedOffer, ZlibParams, ZstdParams, deflate_once, inflate_once,
};
#[cfg(feature = "stream")]
pub use upgrade::{GateStats, Upgrade, UpgradeGate};

use serde::Serialize;

/// How the payloads of a connection are written; the client chooses it in the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// UTF-8 JSON, ids as strings.
    Json,
    /// Erlang external term format, ids as integers.
    Etf,
}

impl Encoding {
    /// Name of the encoding in URLs, reports and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Etf => "etf",
        }
    }

    /// Appends `value` as a body of this encoding: JSON text, or an ETF term without the version byte.
    ///
    /// # Errors
    /// As [`encode_json`] and [`encode_etf`]; `out` is then unchanged.
    pub fn encode<T: Serialize + ?Sized>(self, value: &T, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self {
            Self::Json => encode_json(value, out),
            Self::Etf => encode_etf(value, out),
        }
    }
}
