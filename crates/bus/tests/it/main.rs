//! Tests of the bus: one contract per trait for all drivers, and the form of messages.

mod contract;
mod frames;
mod kv_contract;

use guildhall_bus::{KeyValue, LocalBus, LocalKv, LocalOptions};
use std::sync::Arc;

fn local(messages_max: usize, bytes_max: usize) -> LocalBus {
    LocalBus::new(LocalOptions { messages_max, bytes_max, ..LocalOptions::default() })
}

contract::suite!(local_bus, crate::local, |bus: &guildhall_bus::LocalBus| bus.restart());

struct Local(LocalKv);

impl kv_contract::KvUnderTest for Local {
    fn store(&self) -> Arc<dyn KeyValue> {
        Arc::new(self.0.clone())
    }

    async fn restart(&self) {
        self.0.restart();
    }
}

async fn local_kv() -> Option<Local> {
    Some(Local(LocalKv::new()))
}

kv_contract::kv_suite!(local_kv_store, crate::local_kv);
