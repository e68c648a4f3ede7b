//! Scenarios against a small client of our own, over sockets of this machine.

mod captures;
mod client;
mod scenarios;
