//! Integration tests of the node: a store with faults on one side, relays that listen on the other.

mod accounts;
mod canaries;
mod cluster;
mod directory;
mod directs;
mod durable;
mod export;
mod failure;
mod friend_presences;
mod ids;
mod issuers;
mod jobs;
mod lag;
mod lazy;
mod messages;
mod read_states;
mod relationships;
mod retention;
mod shutdown;
mod sign_on;
mod stress;
mod support;
mod tokens;
mod users;
