//! Drivers: each passes the whole contract of its trait.

use crate::{
    contract::{self, BusUnderTest},
    kv_contract::{self, KvUnderTest},
    nats_server::NatsServer,
};
use guildhall_bus::{Bus, KeyValue, LocalBus, LocalKv, LocalOptions, NatsBus, NatsKv, NatsOptions};
use std::{sync::Arc, time::Duration};

struct Local<T>(T);

async fn local(messages_max: usize, bytes_max: usize) -> Option<Local<LocalBus>> {
    Some(Local(LocalBus::new(LocalOptions { messages_max, bytes_max, ..LocalOptions::default() })))
}

impl BusUnderTest for Local<LocalBus> {
    fn bus(&self) -> Arc<dyn Bus> {
        Arc::new(self.0.clone())
    }

    async fn other(&self) -> Arc<dyn Bus> {
        self.bus()
    }

    async fn restart(&self) {
        self.0.restart();
    }
}

async fn local_kv() -> Option<Local<LocalKv>> {
    Some(Local(LocalKv::new()))
}

impl KvUnderTest for Local<LocalKv> {
    fn store(&self) -> Arc<dyn KeyValue> {
        Arc::new(self.0.clone())
    }

    async fn restart(&self) {
        self.0.restart();
    }
}

/// A driver of NATS, and the server if it is only for this one.
struct Nats<T> {
    driver: T,
    options: NatsOptions,
    server: Option<NatsServer>,
}

impl<T> Nats<T> {
    fn restart_server(&self) {
        let server = self.server.as_ref().unwrap();
        server.crash();
        server.start_again();
    }
}

/// Options for a server. A busy machine answers slowly.
pub fn nats_options(server: &NatsServer) -> NatsOptions {
    NatsOptions {
        name_prefix: NatsServer::new_prefix(),
        answer_max: Duration::from_secs(20),
        ..NatsOptions::new(vec![server.url()])
    }
}

async fn nats_bus(options: NatsOptions, server: Option<NatsServer>) -> Option<Nats<NatsBus>> {
    Some(Nats { driver: NatsBus::connect(&options).await.unwrap(), options, server })
}

async fn nats(messages_max: usize, bytes_max: usize) -> Option<Nats<NatsBus>> {
    let options = nats_options(NatsServer::shared()?);
    nats_bus(NatsOptions { messages_max, bytes_max, ..options }, None).await
}

async fn nats_alone(messages_max: usize, bytes_max: usize) -> Option<Nats<NatsBus>> {
    let server = NatsServer::start("")?;
    let options = NatsOptions { messages_max, bytes_max, ..nats_options(&server) };
    nats_bus(options, Some(server)).await
}

impl BusUnderTest for Nats<NatsBus> {
    fn bus(&self) -> Arc<dyn Bus> {
        Arc::new(self.driver.clone())
    }

    async fn other(&self) -> Arc<dyn Bus> {
        Arc::new(NatsBus::connect(&self.options).await.unwrap())
    }

    async fn restart(&self) {
        self.restart_server();
    }
}

async fn nats_kv() -> Option<Nats<NatsKv>> {
    let options = nats_options(NatsServer::shared()?);
    Some(Nats { driver: NatsKv::connect(&options).await.unwrap(), options, server: None })
}

async fn nats_kv_alone() -> Option<Nats<NatsKv>> {
    let server = NatsServer::start("")?;
    let options = nats_options(&server);
    Some(Nats { driver: NatsKv::connect(&options).await.unwrap(), options, server: Some(server) })
}

impl KvUnderTest for Nats<NatsKv> {
    fn store(&self) -> Arc<dyn KeyValue> {
        Arc::new(self.driver.clone())
    }

    async fn restart(&self) {
        self.restart_server();
    }
}

contract::suite!(local_bus, crate::drivers::local, crate::drivers::local);
contract::suite!(nats_bus, crate::drivers::nats, crate::drivers::nats_alone);
kv_contract::kv_suite!(local_kv_store, crate::drivers::local_kv, crate::drivers::local_kv);
kv_contract::kv_suite!(nats_kv_store, crate::drivers::nats_kv, crate::drivers::nats_kv_alone);
