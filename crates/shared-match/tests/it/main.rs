//! What connections decode is what was sent, whatever happened to each: read by libzstd and zlib, which know nothing of
//! us.

mod allocations;
mod crowd;
mod dictionary;
mod example;
mod heartbeat_ack;
mod messages;
mod noninterference;
mod similar_events;
mod tables;
