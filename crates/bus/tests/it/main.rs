//! Tests of the bus: one contract per trait for all drivers, and the form of messages.

mod contract;
mod drivers;
mod frames;
mod kv_contract;
mod nats;
mod nats_server;
