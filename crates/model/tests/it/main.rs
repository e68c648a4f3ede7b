//! Bodies for user accounts, byte for meaning: what is written, in both encodings, against what docs/protocol.md shows.

mod channel;
mod guild;
mod member_list;
mod passive;
mod ready;
mod replies;
mod sessions;
mod support;
