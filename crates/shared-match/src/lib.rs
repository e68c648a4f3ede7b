//! Shared-match: compressed streams that share one match search per event.
//!
//! Owns        the search (`Matcher`, once per event), the streams (`ZstdStream`, `DeflateStream`, once per
//!             connection), the trained tables (`Tables`), and dictionaries that a stream may start with
//!             (`Dictionary`).
//! Doors       `Matcher::push` per event; `Matcher::zstd` or `Matcher::deflate` per recipient; `zstd_standalone` and
//!             `deflate_standalone` for single-recipient messages; `store` before IDENTIFY.
//! Invariants  M1 the output of a connection is an ordinary stream of its format: any decoder reads it, message by
//!             message. M2 a stream refers only to its own bytes and to the dictionary it started with. M3 a delivery
//!             performs no search, and allocates nothing once the connection's ring has grown.
//! Limits      `Limits` for the history; 3 KB per connection; see the modules for the rest.
//! Not here    sockets, threads (a matcher belongs to one), choice of a codec per connection.
//! Spec        RFC 8878 (zstd), RFC 1951 (deflate), RFC 7692 (permessage-deflate).
//!
//! # How it works
//!
//! Thousands of connections compress the same event against nearly the same history. The expensive part, the match
//! search, is done once per event. Its result is a *parse*: literals and references to earlier events. The connections
//! differ in the distance from their current position back to each of those events. A connection has no hash tables,
//! only a ring with the positions of recent events in its stream, from which its offsets follow. The work per
//! connection is to encode about fifteen offsets, and the head with its sequence number.
//!
//! A parse fits a connection that was sent all of its sources. Recipients of an event that were sent the same of a few
//! probed bodies are a group, and use the same parses (`parse::selection`).
//!
//! A zstd stream may start with a dictionary that its client has: bytes in front of its first. Young streams with the
//! same dictionary share parses that refer to it (`search::dictionary`, `parse::dictionary_parses`).
//!
//! # Why no stream contains data that its client did not receive
//!
//! A reference is written only after its source was found in the connection's own ring (`References::resolve`), and an
//! event enters that ring only when it is written, completely, to that very stream (`StreamState::remember`). So a
//! reference is to bytes that this client has decoded before, or to bytes of a dictionary, which is public. Tests
//! verify this: they decode every stream with a reference decoder that has seen only that stream; a reference to
//! anything else would decode to other bytes, or fail.
//!
//! Lengths are another matter, as with every compression: a short event resembles an earlier one. History and index
//! belong to a visibility domain (`Domain`), so the length of an event on one connection depends on bodies that its
//! account may view, on bodies that it was sent itself, on static tables, and on load: which of these bodies the other
//! recipients have, and how far back their streams reach. See docs/security.md, "Lengths of frames".
#![forbid(unsafe_code)]

mod counters;
mod deflate;
mod entropy;
mod format;
mod history;
mod limits;
mod matcher;
mod parse;
mod search;
mod stream;
mod train;
mod zstd;

pub use counters::Counters;
pub use deflate::{Container, DeflateStream};
pub use entropy::tables::{Form, Tables, TablesError};
pub use history::{BodyId, Domain, Scope};
pub use limits::{Effort, Limits};
pub use matcher::{Evicted, Matcher};
pub use search::dictionary::{Dictionary, DictionaryError};
pub use train::{Sample, train};
pub use zstd::{WINDOW_LOG as ZSTD_WINDOW_LOG, ZstdStream};
