//! ws-proto from outside: what a peer can send, and what comes of it.
//!
//! The tables follow the Autobahn test suite's groups 1 to 7 in idea; case numbers stand beside the rows.
#![forbid(unsafe_code)]

mod close;
mod encode;
mod fragments;
mod frames;
mod limits;
mod memory;
mod peer;
mod split;
mod utf8;
mod wire;
