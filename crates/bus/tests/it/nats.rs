//! NATS drivers beyond the contract: a server that is away, paused or refuses, several clusters on one server.

use crate::{
    contract::{subject, within},
    drivers::nats_options,
    nats_server::NatsServer,
};
use bytes::Bytes;
use guildhall_bus::{Bus, BusError, Key, KeyValue, KvError, NatsBus, NatsCredentials, NatsKv, NatsOptions, NatsTls};
use std::time::{Duration, Instant};

/// Longer than reconnecting takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// While the server is away, calls fail at once, and nothing is sent later.
#[tokio::test]
async fn away_is_known_at_once() {
    let Some(server) = NatsServer::start("") else { return };
    let options = nats_options(&server);
    let (bus, other) = (NatsBus::connect(&options).await.unwrap(), NatsBus::connect(&options).await.unwrap());
    let kv = NatsKv::connect(&options).await.unwrap();
    let to = subject("away");
    let mut received = other.subscribe(&to).await.unwrap();
    server.crash();
    let until = Instant::now() + PATIENCE;
    while !(bus.is_away() && other.is_away() && kv.is_away()) {
        let away = [bus.is_away(), other.is_away(), kv.is_away()];
        assert!(Instant::now() < until, "not all notice that the server is away: {away:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let began = Instant::now();
    for _ in 0..1_000 {
        assert_eq!(bus.publish(&to, Bytes::from_static(b"lost")).await, Err(BusError::Closed));
    }
    assert_eq!(bus.request(&to, Bytes::new(), PATIENCE).await, Err(BusError::Closed));
    assert!(bus.subscribe(&to).await.is_err());
    assert!(matches!(kv.get(&key("a")).await, Err(KvError::Away(_))));
    assert!(matches!(kv.create(&key("a"), Bytes::new(), None).await, Err(KvError::Away(_))));
    assert!(matches!(kv.watch(&key("a")).await, Err(KvError::Away(_))));
    assert!(began.elapsed() < options.answer_max, "{:?}", began.elapsed());
    server.start_again();
    // A client that is back has sent its subscriptions, but the server may read a message of another client before
    // them.
    let delivery = loop {
        assert!(Instant::now() < until, "the subscription does not come back");
        let _ = bus.publish(&to, Bytes::from_static(b"later")).await;
        if let Ok(delivery) = tokio::time::timeout(Duration::from_millis(5), received.next()).await {
            break delivery.unwrap();
        }
    };
    assert_eq!(delivery.payload, Bytes::from_static(b"later"));
}

/// A server whose process is stopped keeps its connections: calls fail in their time, and work again afterwards.
#[tokio::test]
async fn a_paused_server_fails_calls_in_time() {
    let Some(server) = NatsServer::start("") else { return };
    let options = NatsOptions { answer_max: Duration::from_millis(500), ..nats_options(&server) };
    let patient = NatsOptions { answer_max: PATIENCE, ..options.clone() };
    let kv = NatsKv::connect(&patient).await.unwrap();
    let revision = kv.create(&key("a"), Bytes::from_static(b"1"), None).await.unwrap();
    let (kv, bus) = (NatsKv::connect(&options).await.unwrap(), NatsBus::connect(&options).await.unwrap());
    server.pause();
    let began = Instant::now();
    let updated = kv.update(&key("a"), Bytes::from_static(b"2"), revision, None).await;
    assert!(matches!(updated, Err(KvError::Away(_))), "{updated:?}");
    // A megabyte each: more than any buffer between here and there holds. At some point one fails.
    let large = Bytes::from(vec![0; bus.payload_bytes_max()]);
    let mut sent = 0;
    while bus.publish(&subject("large"), large.clone()).await.is_ok() {
        sent += 1;
        assert!(sent < 200, "the bus accepts everything");
    }
    assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
    server.resume();
    let until = Instant::now() + PATIENCE;
    let found = loop {
        match kv.get(&key("a")).await {
            Ok(found) => break found.unwrap(),
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    // The update may have happened: the caller finds out by its value.
    assert!(found.value == "1" || found.value == "2", "{found:?}");
    while let Err(error) = bus.publish(&subject("small"), Bytes::new()).await {
        assert!(Instant::now() < until, "{error}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn clusters_with_different_prefixes_share_a_server() {
    let Some(server) = NatsServer::shared() else { return };
    let (one, other) = (nats_options(server), nats_options(server));
    let (one_bus, other_bus) = (NatsBus::connect(&one).await.unwrap(), NatsBus::connect(&other).await.unwrap());
    let mut received = other_bus.subscribe(&subject("same")).await.unwrap();
    one_bus.publish(&subject("same"), Bytes::from_static(b"of one")).await.unwrap();
    let nobody = one_bus.request(&subject("same"), Bytes::new(), PATIENCE).await;
    assert_eq!(nobody, Err(BusError::NoResponders(subject("same"))));
    other_bus.publish(&subject("same"), Bytes::from_static(b"of other")).await.unwrap();
    let delivery = within("a message", received.next()).await.unwrap();
    assert_eq!(delivery.payload, Bytes::from_static(b"of other"));
    let (one_kv, other_kv) = (NatsKv::connect(&one).await.unwrap(), NatsKv::connect(&other).await.unwrap());
    one_kv.create(&key("same"), Bytes::new(), None).await.unwrap();
    assert_eq!(other_kv.get(&key("same")).await, Ok(None));
    // Another node of the same cluster finds the bucket.
    assert!(NatsKv::connect(&one).await.unwrap().get(&key("same")).await.unwrap().is_some());
}

/// Several nodes start at once on an empty server.
#[tokio::test]
async fn nodes_that_start_together_share_one_bucket() {
    let Some(server) = NatsServer::shared() else { return };
    let options = nats_options(server);
    let connecting = (0..6).map(|_| {
        let options = options.clone();
        tokio::spawn(async move { NatsKv::connect(&options).await })
    });
    let connected = within("all connections", futures_util::future::join_all(connecting)).await;
    let stores: Vec<NatsKv> = connected.into_iter().map(|store| store.unwrap().unwrap()).collect();
    stores[0].create(&key("a"), Bytes::new(), None).await.unwrap();
    for store in &stores {
        assert!(store.get(&key("a")).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn credentials_and_their_absence() {
    let Some(server) = NatsServer::start("authorization { user: ana, password: hunter2 }") else { return };
    let options = nats_options(&server);
    let with = |user: &str, password: &str| NatsOptions {
        credentials: NatsCredentials::UserPassword { user: user.to_owned(), password: password.to_owned() },
        ..options.clone()
    };
    let bus = NatsBus::connect(&with("ana", "hunter2")).await.unwrap();
    bus.publish(&subject("a"), Bytes::new()).await.unwrap();
    for wrong in [options.clone(), with("ana", "wrong"), with("bob", "hunter2")] {
        let error = NatsBus::connect(&wrong).await.err().expect("a refusal");
        let text = chain(&error);
        assert!(text.contains("refuses the credentials"), "{text}");
        assert!(!text.contains("hunter2") && !text.contains("wrong"), "{text}");
    }
    let missing = NatsOptions { credentials: NatsCredentials::CredsFile("/nowhere/node.creds".into()), ..options };
    let error = NatsBus::connect(&missing).await.err().expect("no file");
    assert!(error.to_string().contains("/nowhere/node.creds"), "{error}");
}

/// An error with its causes, as an operator sees it.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Without JetStream there is no bucket, and the error names the remedy.
#[tokio::test]
async fn problems_are_named() {
    let Some(server) = NatsServer::start("") else { return };
    let options = nats_options(&server);
    let plain = NatsOptions { tls: Some(NatsTls::default()), ..options.clone() };
    let error = NatsBus::connect(&plain).await.err().expect("no TLS on the other side");
    assert!(chain(&error).contains("NATS cannot be reached at 127.0.0.1"), "{}", chain(&error));
    server.crash();
    let error = NatsBus::connect(&options).await.err().expect("nobody listens");
    assert!(error.to_string().contains("see that the server runs"), "{error}");
}
