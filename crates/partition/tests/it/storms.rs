//! Trap 16: all clients connect at once. READY and GUILD_CREATE are rendered when they are written, few at a time, and
//! not kept.

use crate::fixture::*;
use guildhall_codec::Encoding;
use guildhall_guild::Command;
use guildhall_model::ChannelType;
use guildhall_partition::Compression;
use guildhall_stdx::Rng;
use guildhall_test_kit::{
    ClientId, ClientParams, GuildBuilder, Hold, Received, TestCluster, id, identify_payload, user,
};
use serde_json::{Value, json};

const CAP: usize = 60_000;
const CLIENTS: usize = 200;
/// Bytes that a socket takes at a time.
const ROOM: usize = 1_500;

/// A guild whose GUILD_CREATE has some size.
fn large(n: u64, channels: u64) -> GuildBuilder {
    let builder = GuildBuilder::new(n, &ana()).member(&bob(), &[]).member(&gob(), &[]).member(&pro(), &[]);
    (0..channels).fold(builder, |builder, k| builder.channel(n * 1_000 + k, ChannelType::Text))
}

fn stormy(cap: usize) -> TestCluster {
    let mut cluster = world_with(|config| config.rendered_bytes_max = cap);
    cluster.add_guild(guild().load());
    cluster.add_guild(large(2, 40).load());
    cluster
}

/// Bodies that are held for sessions, and can be made again.
fn held_bytes(cluster: &TestCluster) -> usize {
    let mut held = 0;
    for session in cluster.partition().sessions() {
        let entries =
            (session.replay.first_seq()..=session.replay.last_seq()).filter_map(|seq| session.replay.entry(seq));
        held +=
            entries.filter(|entry| entry.dispatch.is_lazy()).map(|entry| entry.dispatch.held_bytes()).sum::<usize>();
    }
    held
}

/// The size of the largest dispatch that this account would be sent.
fn largest(params: ClientParams) -> usize {
    let mut cluster = stormy(usize::MAX);
    let client = cluster.login(&bob(), None, params);
    cluster.stop_reading(client);
    let sizes = cluster.dispatches(client).into_iter().map(|dispatch| match dispatch.body {
        guildhall_test_kit::Body::Json(text) => text.len(),
        guildhall_test_kit::Body::Etf(_) => 0,
    });
    sizes.max().expect("READY")
}

/// All clients identify at the same time, with little room in their sockets.
fn storm(cluster: &mut TestCluster) -> Vec<ClientId> {
    let kinds = [
        ClientParams::JSON,
        ClientParams::ETF,
        ClientParams::new(Encoding::Json, Compression::Zlib),
        ClientParams::JSON.with_compressed_payloads(),
    ];
    cluster.hold(Hold::TokenChecks);
    let mut clients = Vec::new();
    for n in 0..CLIENTS {
        let client = cluster.connect(kinds[n % kinds.len()]);
        assert!(matches!(cluster.take(client)[..], [Received::Hello { .. }]));
        cluster.stop_reading(client);
        cluster.client(client).socket().set_room(ROOM);
        let (account, intents) = if n % 3 == 0 { (gob(), Some(PLAIN)) } else { (bob(), None) };
        let mut d = identify_payload(&account.username, intents);
        // Some of them get READY in two parts.
        d["capabilities"] = if n % 2 == 0 { 0 } else { 30_717 }.into();
        cluster.client(client).identify(d);
        clients.push(client);
    }
    cluster.run_until_idle();
    cluster.release(Hold::TokenChecks);
    cluster.answer_tokens();
    clients
}

fn check_bytes(cluster: &TestCluster, one: usize) {
    let rendered = cluster.partition().rendered_bytes();
    assert!(rendered < CAP + one, "{rendered} bytes, the cap is {CAP} and one more {one}");
    assert!(held_bytes(cluster) <= rendered, "{} bytes are held, {rendered} counted", held_bytes(cluster));
}

/// All clients read a little, in random order, until nothing is left.
fn read_all(cluster: &mut TestCluster, clients: &[ClientId], rng: &mut Rng, one: usize) {
    loop {
        let mut readers = clients.to_vec();
        readers.retain(|client| cluster.client(*client).socket().unread_bytes() > 0);
        if readers.is_empty() {
            return;
        }
        cluster.read_some(readers[rng.below(readers.len() as u64) as usize], ROOM);
        cluster.run_until_idle();
        check_bytes(cluster, one);
    }
}

#[test]
fn a_storm_of_slow_clients_holds_little_and_all_are_served() {
    let one = largest(ClientParams::JSON);
    assert!(CAP > 3 * one && CAP < CLIENTS / 4 * one, "{one} bytes each");
    let mut cluster = stormy(CAP);
    let clients = storm(&mut cluster);
    check_bytes(&cluster, one);
    assert!(cluster.partition().rendered_bytes() > CAP / 2, "they do wait for each other");
    // Events in the meantime wait as well.
    let hi = Command::CreateMessage(
        id(2_000),
        Box::new(guildhall_guild::NewMessage { content: "hi".into(), ..Default::default() }),
    );
    cluster.command_in(id(2), guildhall_guild::Actor::User(ana().id), hi).expect("she may");
    read_all(&mut cluster, &clients, &mut Rng::new(1), one);
    for (n, client) in clients.into_iter().enumerate() {
        let received = cluster.names(client);
        assert!(
            received.is_sorted_by(|a, b| a.0 + 1 == b.0) && received[0] == (1, "READY".to_owned()),
            "client {n}: {received:?}"
        );
        let count = |name: &str| received.iter().filter(|(_, received)| received == name).count();
        let [guilds, supplementals] = if n % 3 == 0 { [2, 0] } else { [0, n % 2] };
        let counts = [count("GUILD_CREATE"), count("READY_SUPPLEMENTAL"), count("MESSAGE_CREATE")];
        assert_eq!(counts, [guilds, supplementals, 1], "client {n}: {received:?}");
    }
    assert_eq!((cluster.partition().rendered_bytes(), held_bytes(&cluster)), (0, 0));
}

#[test]
fn a_connection_that_ends_in_a_storm_frees_its_room() {
    let one = largest(ClientParams::JSON);
    for seed in 0..4 {
        let mut rng = Rng::new(seed);
        let mut cluster = stormy(CAP);
        let mut clients = storm(&mut cluster);
        let mut gone = Vec::new();
        for round in 0..CLIENTS / 2 {
            let client = clients.swap_remove(rng.below(clients.len() as u64) as usize);
            match round % 4 {
                0 => cluster.cut(client),
                1 => cluster.client(client).socket().kill(),
                2 => cluster.client(client).close(Some(1000)),
                _ => cluster.client(client).send(99, &Value::Null),
            }
            cluster.run_until_idle();
            gone.push(client);
            check_bytes(&cluster, one);
            let reader = clients[rng.below(clients.len() as u64) as usize];
            cluster.read_some(reader, ROOM);
            cluster.run_until_idle();
        }
        read_all(&mut cluster, &clients, &mut rng, one);
        for client in clients {
            let received = cluster.names(client);
            assert_eq!(received.first(), Some(&(1, "READY".to_owned())), "seed {seed}: {received:?}");
        }
        // A closing connection waits for its client, and one that does not read holds up others, both for
        // a limited time.
        cluster.advance_with_heartbeats(30_000);
        assert_eq!((cluster.partition().rendered_bytes(), held_bytes(&cluster)), (0, 0), "seed {seed}");
    }
}

#[test]
fn a_waiting_connection_that_wants_nothing_more_does_not_keep_the_others_waiting() {
    let mut cluster = stormy(1);
    let [first, second, third] = [(); 3].map(|()| {
        let client = cluster.connect(ClientParams::JSON);
        cluster.stop_reading(client);
        cluster.client(client).socket().set_room(ROOM);
        cluster.client(client).identify(identify_payload(&bob().username, None));
        cluster.run_until_idle();
        client
    });
    // The second is closed, but its client does not go.
    cluster.client(second).send(99, &Value::Null);
    cluster.run_until_idle();
    cluster.start_reading(first);
    assert_eq!(names(&mut cluster, first), ["READY"]);
    let unread = cluster.client(third).socket().unread_bytes();
    assert_eq!(unread, ROOM, "the third's turn has come");
    cluster.start_reading(third);
    assert_eq!(names(&mut cluster, third), ["READY"]);
}

#[test]
fn room_that_came_free_is_for_as_many_as_find_place_in_it() {
    let mut cluster = stormy(5_000);
    let strangers: Vec<_> = (0..5).map(|n| user(600 + n)).collect();
    strangers.iter().for_each(|account| cluster.add_account(account));
    let slow = |cluster: &mut TestCluster, account: &std::sync::Arc<guildhall_model::User>| {
        let client = cluster.connect(ClientParams::JSON);
        cluster.stop_reading(client);
        cluster.read_some(client, usize::MAX);
        cluster.client(client).socket().set_room(100);
        cluster.client(client).identify(identify_payload(&account.username, None));
        cluster.run_until_idle();
        client
    };
    let first = slow(&mut cluster, &bob());
    assert!(cluster.partition().rendered_bytes() >= 5_000);
    // Their READY is small.
    let others: Vec<ClientId> = strangers.iter().map(|account| slow(&mut cluster, account)).collect();
    for other in &others {
        assert_eq!(cluster.client(*other).socket().unread_bytes(), 0);
    }
    cluster.start_reading(first);
    cluster.run_until_idle();
    for other in &others {
        assert_eq!(cluster.client(*other).socket().unread_bytes(), 100, "they do not wait for one another");
    }
}

#[test]
fn a_bot_in_many_guilds_keeps_none_of_them_and_can_ask_for_all_again() {
    const GUILDS: u64 = 300;
    let mut cluster = TestCluster::default();
    cluster.add_account(&gob());
    (1..=GUILDS).for_each(|n| cluster.add_guild(large(n, 5).load()));
    let client = cluster.login(&gob(), Some(PLAIN), ClientParams::JSON);
    let received = names(&mut cluster, client);
    assert_eq!(received.iter().filter(|name| *name == "GUILD_CREATE").count() as u64, GUILDS);
    let session = cluster.partition().sessions().next().expect("it is there");
    assert_eq!(session.replay.len() as u64, 1 + GUILDS);
    assert_eq!(held_bytes(&cluster), 0);
    assert!(session.replay.bytes() < 350 * GUILDS as usize, "{} bytes", session.replay.bytes());

    cluster.cut(client);
    cluster.client(client).seq = 1;
    let again = cluster.reconnect(client);
    cluster.take(again);
    cluster.client(again).resume(&gob().username);
    let replayed = cluster.dispatches(again);
    let mut guilds: Vec<String> = Vec::new();
    for dispatch in &replayed[..GUILDS as usize] {
        assert_eq!(dispatch.name, "GUILD_CREATE");
        let d = dispatch.d();
        assert_eq!(d["channels"].as_array().map(Vec::len), Some(5));
        guilds.push(text(&d["id"]));
    }
    guilds.sort();
    guilds.dedup();
    assert_eq!(guilds.len() as u64, GUILDS);
    assert_eq!(replayed[GUILDS as usize].name, "RESUMED");
    assert_eq!((held_bytes(&cluster), cluster.partition().rendered_bytes()), (0, 0));
}

#[test]
fn ready_comes_in_its_two_parts_before_what_happened_while_it_was_gathered() {
    let mut cluster = world();
    cluster.name_guild(&bob(), id(2));
    let client = cluster.connect(ClientParams::JSON);
    let mut d = identify_payload(&bob().username, None);
    d["capabilities"] = 30_717.into();
    cluster.client(client).identify(d);
    cluster.run_until_idle();
    // The first guild has answered, the second never does.
    system(&mut cluster, Command::ShowVoice(gob().id, Some(channel(VOICE))));
    system(&mut cluster, Command::ShowVoice(gob().id, None));
    cluster.run_until_idle();
    assert_eq!(names(&mut cluster, client), ["HELLO"; 0]);
    cluster.advance(5_000);
    let dispatches = cluster.dispatches(client);
    let received: Vec<&str> = dispatches.iter().map(|dispatch| dispatch.name.as_str()).collect();
    assert_eq!(received, ["READY", "READY_SUPPLEMENTAL", "VOICE_STATE_UPDATE", "VOICE_STATE_UPDATE"]);
    assert!(dispatches.is_sorted_by(|a, b| a.seq + 1 == b.seq));
    assert_eq!(dispatches[1].d()["guilds"][0]["voice_states"], json!([]));
}

/// A slow user whose READY takes all the room there is, and another who waits for it.
fn one_waits_for_another(cluster: &mut TestCluster) -> [ClientId; 2] {
    [(); 2].map(|()| {
        let client = cluster.connect(ClientParams::JSON);
        cluster.stop_reading(client);
        cluster.read_some(client, usize::MAX);
        cluster.client(client).socket().set_room(100);
        cluster.client(client).identify(identify_payload(&bob().username, None));
        cluster.run_until_idle();
        client
    })
}

/// Reads as little as it can without being taken for dead.
fn trickle(cluster: &mut TestCluster, client: ClientId, seconds: usize) {
    for _ in 0..seconds / 10 {
        cluster.advance(10_000);
        cluster.client(client).heartbeat();
        cluster.read_some(client, 100);
        cluster.run_until_idle();
    }
}

#[test]
fn a_slow_client_that_blocks_the_queue_is_cut() {
    let mut cluster = stormy(1);
    let [slow, waiting] = one_waits_for_another(&mut cluster);
    trickle(&mut cluster, slow, 20);
    assert_eq!(cluster.client(waiting).socket().unread_bytes(), 0);
    trickle(&mut cluster, slow, 10);
    assert_eq!(cluster.partition().counters().slow_consumers_total, 1);
    cluster.start_reading(waiting);
    assert_eq!(names(&mut cluster, waiting), ["READY"]);
    assert_eq!(cluster.partition().conns_count(), 1);
}

#[test]
fn a_slow_client_without_a_queue_is_not_cut() {
    let mut cluster = stormy(usize::MAX);
    let [slow, other] = one_waits_for_another(&mut cluster);
    cluster.cut(other);
    trickle(&mut cluster, slow, 300);
    cluster.start_reading(slow);
    assert_eq!(names(&mut cluster, slow), ["READY"]);
}

#[test]
fn a_client_with_many_guilds_alternates_with_the_queue() {
    let mut cluster = stormy(1);
    (3..50).for_each(|n| cluster.add_guild(large(n, 3).load()));
    let many = cluster.connect(ClientParams::JSON);
    cluster.stop_reading(many);
    cluster.client(many).socket().set_room(200);
    cluster.client(many).identify(identify_payload(&gob().username, Some(PLAIN)));
    cluster.run_until_idle();
    // READY waits its turn, too.
    while cluster.partition().rendered_bytes() == 0 {
        cluster.read_some(many, 200);
        cluster.run_until_idle();
    }
    let other = cluster.connect(ClientParams::JSON);
    cluster.client(other).identify(identify_payload(&pro().username, Some(PLAIN)));
    while !names(&mut cluster, other).contains(&"GUILD_CREATE".to_owned()) {
        cluster.read_some(many, 200);
        cluster.run_until_idle();
    }
    // READY, its first guild, and little more.
    assert!(cluster.names(many).len() <= 4);
}
