//! Tests of the bus: one contract for all drivers, and the form of messages.

mod contract;
mod frames;

use guildhall_bus::{LocalBus, LocalOptions};

fn local(messages_max: usize, bytes_max: usize) -> LocalBus {
    LocalBus::new(LocalOptions { messages_max, bytes_max, ..LocalOptions::default() })
}

contract::suite!(local_bus, crate::local, |bus: &guildhall_bus::LocalBus| bus.restart());
