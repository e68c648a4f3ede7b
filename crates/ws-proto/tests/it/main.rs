//! Tests of ws-proto's public API with input from a peer.
//!
//! The tables follow groups 1 to 7 of the Autobahn test suite; comments have the case numbers.
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
