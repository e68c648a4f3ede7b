//! The guild machine from outside: a module per theme.

mod audit;
mod backend;
mod bulk;
mod direct;
mod export;
mod feed;
mod fixture;
mod handoff;
mod lists;
mod members;
mod memory;
mod messages;
mod permissions;
mod presence;
mod presence_storm;
mod random;
mod reactions;
mod records;
mod relays;
mod requests;
mod scale;
mod scheduled_events;
mod structure;
mod temporary;
mod threads;
mod voice;
