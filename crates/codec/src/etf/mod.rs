//! ETF, the Erlang external term format.
//!
//! Owns        the tags of both directions, and the depth limit.
//! Doors       `encode_etf`, `encode_etf_to_gateway` (ser), `transcode_json` (transcode), `decode_etf`,
//!             `decode_etf_from_gateway` (de); `write` has the term writer of ser, text and transcode.
//! Invariants  A value is the same in ETF and JSON: `decode(encode_etf(v)) == parse(encode_json(v))`, except where its
//!             type uses `is_human_readable` (ids) or a float is not finite.
//! Not here    the envelope (frame.rs).     Spec  docs/protocol/reference.md §2.2.

mod de;
mod ser;
mod text;
mod transcode;
mod write;

pub(crate) use de::decode_etf_payload;
pub use de::{DecodeLimits, decode_etf, decode_etf_from_gateway};
pub use ser::{encode_etf, encode_etf_to_gateway};
pub use transcode::transcode_json;
pub(crate) use write::IntBytes;

/// Levels of lists and maps in one term, in and out. Real payloads stay below twelve.
pub const DEPTH_MAX: usize = 256;

/// First byte of every stand-alone term.
pub const VERSION: u8 = 131;

/// Atoms hold at most 255 characters.
const ATOM_CHARS_MAX: usize = 255;

pub(crate) mod tag {
    pub const NEW_FLOAT: u8 = 70;
    pub const COMPRESSED: u8 = 80;
    pub const SMALL_INTEGER: u8 = 97;
    pub const INTEGER: u8 = 98;
    pub const FLOAT: u8 = 99;
    pub const ATOM: u8 = 100;
    pub const SMALL_TUPLE: u8 = 104;
    pub const LARGE_TUPLE: u8 = 105;
    pub const NIL: u8 = 106;
    pub const STRING: u8 = 107;
    pub const LIST: u8 = 108;
    pub const BINARY: u8 = 109;
    pub const SMALL_BIG: u8 = 110;
    pub const LARGE_BIG: u8 = 111;
    pub const SMALL_ATOM: u8 = 115;
    pub const MAP: u8 = 116;
    pub const ATOM_UTF8: u8 = 118;
    pub const SMALL_ATOM_UTF8: u8 = 119;
}
