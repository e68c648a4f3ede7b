//! Partitions, from a client's socket to a guild and back, on `Pair`.

mod allocations;
mod backlog;
mod batches;
mod closing;
mod compression;
mod contexts;
mod deflate;
mod directs;
mod fixture;
mod guild_create;
mod heartbeats;
mod identify;
mod joins;
mod members;
mod moves;
mod passive;
mod redaction;
mod relays;
mod resume;
mod slow;
mod storms;
mod subscriptions;
mod threads;
mod voice;
mod withheld;
