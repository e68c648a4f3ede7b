//! The form of messages between nodes: each message with everything that it can carry, and bytes that are none. The
//! balance of loads over hours.

mod balance;
mod commands;
mod events;
mod examples;
mod handoff;
mod later;
mod ledger;
mod malformed;
mod messages;
mod round_trip;
mod sizes;
mod traces;
