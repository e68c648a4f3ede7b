//! The form of messages between nodes: each message with everything that it can carry, and bytes that are none.

mod commands;
mod events;
mod examples;
mod handoff;
mod ledger;
mod malformed;
mod messages;
mod round_trip;
mod sizes;
mod traces;
