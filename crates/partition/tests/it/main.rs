//! Partitions, from a client's socket to a guild and back, on `Pair`.

mod allocations;
mod batches;
mod closing;
mod compression;
mod fixture;
mod guild_create;
mod heartbeats;
mod identify;
mod joins;
mod members;
mod moves;
mod redaction;
mod resume;
mod slow;
mod withheld;
