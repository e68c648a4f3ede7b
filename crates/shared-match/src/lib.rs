//! Shared-match: compressed streams that share the search for matches.
//!
//! Owns        the search (`Matcher`, once per event), the streams (`ZstdStream`, `DeflateStream`, once per connection),
//!             the trained tables (`Tables`), and what a stream may begin with (`Dictionary`).
//! Doors       `Matcher::push` per event; `Matcher::zstd` or `Matcher::deflate` per connection that gets it;
//!             `zstd_alone` and `deflate_alone` for what one connection alone gets; `store` before anybody is known.
//! Invariants  M1 what a connection was sent is an ordinary stream of its format: any decoder reads it, message by
//!             message. M2 a stream refers to bytes of its own, and of the dictionary it began with, and to no others. M3 per delivery nothing is searched, and
//!             nothing allocated once a connection's ring has grown.
//! Limits      `Limits` for the history; 3 KB per connection; see the modules for the rest.
//! Not here    sockets, threads (a matcher belongs to one), who gets what.
//! Spec        RFC 8878 (zstd), RFC 1951 (deflate), RFC 7692 (permessage-deflate).
//!
//! # How it works
//!
//! Thousands of connections compress the same event against nearly the same past. What is expensive, finding where its
//! bytes stood before, is done once: the outcome is a *parse*, literals and references to earlier events. What differs
//! between connections is how far back in its stream each of these events lies. A connection keeps no tables: only a ring
//! of where the latest events stand in its stream, from which its offsets follow. What remains per connection is to code
//! some fifteen offsets, and the head with its sequence number.
//!
//! A parse serves a connection that was sent all of its sources. A sample of the connections tells which earlier events the
//! recipients of an event probably have (`coverage`); connections that began later use parses with nearer horizons, and
//! those that lack something have one made from what they do have.
//!
//! A zstd stream may begin with a dictionary, which its client has: bytes that stand in front of its first. Young streams
//! with the same one share parses that refer to it (`dictionary`, `begun`).
//!
//! # Why no stream tells what its client was not sent
//!
//! A reference is written only after its source was found in the connection's own ring (`Sources::locate`), and an event
//! enters that ring only when it is written to that very stream, whole (`Track::remember`). So what a reference stands for
//! is bytes that this client has decoded before, or a dictionary's, which it had before it came and which anybody may
//! fetch. That is not left to trust: tests decode every
//! stream with a reference decoder that has seen nothing but that stream; a reference to anything else would decode to
//! something else, or not at all.
//!
//! Lengths are another matter, as with every compression: a short event resembles an earlier one. History and index
//! belong to a visibility domain (`Domain`), so the length of an event on one connection depends on bodies that its
//! account may view, on static tables, and on load: which of these bodies the other recipients have, and how far back
//! their streams reach. See docs/security.md, "Lengths of frames".
#![forbid(unsafe_code)]

mod alone;
mod begun;
mod bits;
mod candidates;
mod codes;
mod coverage;
mod deflate;
mod dictionary;
mod envelope;
mod fast;
mod fast_choice;
mod find;
mod format;
mod fse;
mod had;
mod history;
mod huffman;
mod matcher;
mod owners;
mod parse;
mod places;
mod prepared;
mod price;
mod ring;
mod sources;
mod spans;
mod tables;
mod templates;
mod track;
mod train;
mod workshop;
mod zstd;

pub use deflate::{Container, DeflateStream};
pub use dictionary::{Dictionary, DictionaryError};
pub use history::{Domain, Scope};
pub use matcher::{Counters, Effort, Forgotten, Limits, Matcher};
pub use ring::BodyId;
pub use tables::{Form, Tables, TablesError};
pub use train::{Sample, train};
pub use zstd::{WINDOW_LOG as ZSTD_WINDOW_LOG, ZstdStream};
