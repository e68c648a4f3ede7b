//! Tests of the member list's public API, one module per theme.

mod client;
mod memory;
mod naive;
mod scale;
mod world;
