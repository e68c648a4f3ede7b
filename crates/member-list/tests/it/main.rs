//! The member list from outside: a module per theme.

mod client;
mod memory;
mod naive;
mod scale;
mod world;
