//! Trap 16: everybody connects at once. READY and GUILD_CREATE are made when they are written, few at a time, and not kept.

use crate::fixture::*;
use guildhall_codec::Encoding;
use guildhall_guild::Command;
use guildhall_model::ChannelType;
use guildhall_partition::Compression;
use guildhall_stdx::Rng;
use guildhall_test_kit::{ClientId, ClientParams, GuildBuilder, Pair, Received, id, identify_payload, user};
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

fn stormy(cap: usize) -> Pair {
    let mut pair = world_with(|config| config.rendered_bytes_max = cap);
    pair.add_guild(guild().load());
    pair.add_guild(large(2, 40).load());
    pair
}

/// Bodies that are held for sessions, and can be made again.
fn held_bytes(pair: &Pair) -> usize {
    let mut held = 0;
    for session in pair.partition().sessions() {
        let entries =
            (session.replay.first_seq()..=session.replay.last_seq()).filter_map(|seq| session.replay.entry(seq));
        held +=
            entries.filter(|entry| entry.dispatch.is_lazy()).map(|entry| entry.dispatch.held_bytes()).sum::<usize>();
    }
    held
}

/// The size of the largest dispatch that this account would be sent.
fn largest(params: ClientParams) -> usize {
    let mut pair = stormy(usize::MAX);
    let client = pair.login(&bob(), None, params);
    pair.stop_reading(client);
    let sizes = pair.dispatches(client).into_iter().map(|dispatch| match dispatch.body {
        guildhall_test_kit::Body::Json(text) => text.len(),
        guildhall_test_kit::Body::Etf(_) => 0,
    });
    sizes.max().expect("READY")
}

/// Everybody identifies in the same moment, with sockets that take little.
fn storm(pair: &mut Pair) -> Vec<ClientId> {
    let kinds = [
        ClientParams::JSON,
        ClientParams::ETF,
        ClientParams::new(Encoding::Json, Compression::Zlib),
        ClientParams::JSON.with_compressed_payloads(),
    ];
    pair.holds_tokens = true;
    let mut clients = Vec::new();
    for n in 0..CLIENTS {
        let client = pair.connect(kinds[n % kinds.len()]);
        assert!(matches!(pair.take(client)[..], [Received::Hello { .. }]));
        pair.stop_reading(client);
        pair.client(client).socket().set_room(ROOM);
        let (account, intents) = if n % 3 == 0 { (gob(), Some(PLAIN)) } else { (bob(), None) };
        let mut d = identify_payload(&account.username, intents);
        // Some of them get READY in two parts.
        d["capabilities"] = if n % 2 == 0 { 0 } else { 30_717 }.into();
        pair.client(client).identify(d);
        clients.push(client);
    }
    pair.settle();
    pair.holds_tokens = false;
    pair.answer_tokens();
    clients
}

fn check_bytes(pair: &Pair, one: usize) {
    let rendered = pair.partition().rendered_bytes();
    assert!(rendered < CAP + one, "{rendered} bytes, the cap is {CAP} and one more {one}");
    assert!(held_bytes(pair) <= rendered, "{} bytes are held, {rendered} counted", held_bytes(pair));
}

/// Everybody reads a little, in any order, until nothing comes any more.
fn read_all(pair: &mut Pair, clients: &[ClientId], rng: &mut Rng, one: usize) {
    loop {
        let mut readers = clients.to_vec();
        readers.retain(|client| pair.client(*client).socket().unread_bytes() > 0);
        if readers.is_empty() {
            return;
        }
        pair.read_some(readers[rng.below(readers.len() as u64) as usize], ROOM);
        pair.settle();
        check_bytes(pair, one);
    }
}

#[test]
fn a_storm_of_slow_clients_holds_little_and_everybody_is_served() {
    let one = largest(ClientParams::JSON);
    assert!(CAP > 3 * one && CAP < CLIENTS / 4 * one, "{one} bytes each");
    let mut pair = stormy(CAP);
    let clients = storm(&mut pair);
    check_bytes(&pair, one);
    assert!(pair.partition().rendered_bytes() > CAP / 2, "they do wait for each other");
    // Events in the meantime wait as well.
    let hi = Command::CreateMessage(
        id(2_000),
        Box::new(guildhall_guild::NewMessage { content: "hi".into(), ..Default::default() }),
    );
    pair.command_in(id(2), guildhall_guild::Actor::User(ana().id), hi).expect("she may");
    read_all(&mut pair, &clients, &mut Rng::new(1), one);
    for (n, client) in clients.into_iter().enumerate() {
        let told = pair.names(client);
        assert!(told.is_sorted_by(|a, b| a.0 + 1 == b.0) && told[0] == (1, "READY".to_owned()), "client {n}: {told:?}");
        let count = |name: &str| told.iter().filter(|(_, told)| told == name).count();
        let [guilds, supplementals] = if n % 3 == 0 { [2, 0] } else { [0, n % 2] };
        let counts = [count("GUILD_CREATE"), count("READY_SUPPLEMENTAL"), count("MESSAGE_CREATE")];
        assert_eq!(counts, [guilds, supplementals, 1], "client {n}: {told:?}");
    }
    assert_eq!((pair.partition().rendered_bytes(), held_bytes(&pair)), (0, 0));
}

#[test]
fn who_dies_in_a_storm_gives_its_room_back() {
    let one = largest(ClientParams::JSON);
    for seed in 0..4 {
        let mut rng = Rng::new(seed);
        let mut pair = stormy(CAP);
        let mut clients = storm(&mut pair);
        let mut gone = Vec::new();
        for round in 0..CLIENTS / 2 {
            let client = clients.swap_remove(rng.below(clients.len() as u64) as usize);
            match round % 4 {
                0 => pair.cut(client),
                1 => pair.client(client).socket().kill(),
                2 => pair.client(client).close(Some(1000)),
                _ => pair.client(client).send(99, &Value::Null),
            }
            pair.settle();
            gone.push(client);
            check_bytes(&pair, one);
            let reader = clients[rng.below(clients.len() as u64) as usize];
            pair.read_some(reader, ROOM);
            pair.settle();
        }
        read_all(&mut pair, &clients, &mut rng, one);
        for client in clients {
            let told = pair.names(client);
            assert_eq!(told.first(), Some(&(1, "READY".to_owned())), "seed {seed}: {told:?}");
        }
        // A closing connection waits for its client, and one that does not read holds up others, both for
        // a limited time.
        pair.advance_with_heartbeats(30_000);
        assert_eq!((pair.partition().rendered_bytes(), held_bytes(&pair)), (0, 0), "seed {seed}");
    }
}

#[test]
fn a_waiting_connection_that_wants_nothing_more_does_not_keep_the_others_waiting() {
    let mut pair = stormy(1);
    let [first, second, third] = [(); 3].map(|()| {
        let client = pair.connect(ClientParams::JSON);
        pair.stop_reading(client);
        pair.client(client).socket().set_room(ROOM);
        pair.client(client).identify(identify_payload(&bob().username, None));
        pair.settle();
        client
    });
    // The second is closed, but its client does not go.
    pair.client(second).send(99, &Value::Null);
    pair.settle();
    pair.start_reading(first);
    assert_eq!(names(&mut pair, first), ["READY"]);
    let unread = pair.client(third).socket().unread_bytes();
    assert_eq!(unread, ROOM, "the third's turn has come");
    pair.start_reading(third);
    assert_eq!(names(&mut pair, third), ["READY"]);
}

#[test]
fn room_that_came_free_is_for_as_many_as_find_place_in_it() {
    let mut pair = stormy(5_000);
    let strangers: Vec<_> = (0..5).map(|n| user(600 + n)).collect();
    strangers.iter().for_each(|account| pair.add_account(account));
    let slow = |pair: &mut Pair, account: &std::sync::Arc<guildhall_model::User>| {
        let client = pair.connect(ClientParams::JSON);
        pair.stop_reading(client);
        pair.read_some(client, usize::MAX);
        pair.client(client).socket().set_room(100);
        pair.client(client).identify(identify_payload(&account.username, None));
        pair.settle();
        client
    };
    let first = slow(&mut pair, &bob());
    assert!(pair.partition().rendered_bytes() >= 5_000);
    // Their READY is small.
    let others: Vec<ClientId> = strangers.iter().map(|account| slow(&mut pair, account)).collect();
    for other in &others {
        assert_eq!(pair.client(*other).socket().unread_bytes(), 0);
    }
    pair.start_reading(first);
    pair.settle();
    for other in &others {
        assert_eq!(pair.client(*other).socket().unread_bytes(), 100, "they do not wait for one another");
    }
}

#[test]
fn a_bot_in_many_guilds_keeps_none_of_them_and_can_ask_for_all_again() {
    const GUILDS: u64 = 300;
    let mut pair = Pair::default();
    pair.add_account(&gob());
    (1..=GUILDS).for_each(|n| pair.add_guild(large(n, 5).load()));
    let client = pair.login(&gob(), Some(PLAIN), ClientParams::JSON);
    let told = names(&mut pair, client);
    assert_eq!(told.iter().filter(|name| *name == "GUILD_CREATE").count() as u64, GUILDS);
    let session = pair.partition().sessions().next().expect("it is there");
    assert_eq!(session.replay.len() as u64, 1 + GUILDS);
    assert_eq!(held_bytes(&pair), 0);
    assert!(session.replay.bytes() < 350 * GUILDS as usize, "{} bytes", session.replay.bytes());

    pair.cut(client);
    pair.client(client).seq = 1;
    let again = pair.reconnect(client);
    pair.take(again);
    pair.client(again).resume(&gob().username);
    let replayed = pair.dispatches(again);
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
    assert_eq!((held_bytes(&pair), pair.partition().rendered_bytes()), (0, 0));
}

#[test]
fn ready_comes_in_its_two_parts_before_what_happened_while_it_was_gathered() {
    let mut pair = world();
    pair.name_guild(&bob(), id(2));
    let client = pair.connect(ClientParams::JSON);
    let mut d = identify_payload(&bob().username, None);
    d["capabilities"] = 30_717.into();
    pair.client(client).identify(d);
    pair.settle();
    // The first guild has answered, the second never does.
    system(&mut pair, Command::ShowVoice(gob().id, Some(channel(VOICE))));
    system(&mut pair, Command::ShowVoice(gob().id, None));
    pair.settle();
    assert_eq!(names(&mut pair, client), ["HELLO"; 0]);
    pair.advance(5_000);
    let dispatches = pair.dispatches(client);
    let told: Vec<&str> = dispatches.iter().map(|dispatch| dispatch.name.as_str()).collect();
    assert_eq!(told, ["READY", "READY_SUPPLEMENTAL", "VOICE_STATE_UPDATE", "VOICE_STATE_UPDATE"]);
    assert!(dispatches.is_sorted_by(|a, b| a.seq + 1 == b.seq));
    assert_eq!(dispatches[1].d()["guilds"][0]["voice_states"], json!([]));
}

/// A slow user whose READY takes all the room there is, and another who waits for it.
fn one_waits_for_another(pair: &mut Pair) -> [ClientId; 2] {
    [(); 2].map(|()| {
        let client = pair.connect(ClientParams::JSON);
        pair.stop_reading(client);
        pair.read_some(client, usize::MAX);
        pair.client(client).socket().set_room(100);
        pair.client(client).identify(identify_payload(&bob().username, None));
        pair.settle();
        client
    })
}

/// Reads as little as it can without being taken for dead.
fn trickle(pair: &mut Pair, client: ClientId, seconds: usize) {
    for _ in 0..seconds / 10 {
        pair.advance(10_000);
        pair.client(client).heartbeat();
        pair.read_some(client, 100);
        pair.settle();
    }
}

#[test]
fn who_takes_too_long_over_what_others_wait_for_is_cut() {
    let mut pair = stormy(1);
    let [slow, waiting] = one_waits_for_another(&mut pair);
    trickle(&mut pair, slow, 20);
    assert_eq!(pair.client(waiting).socket().unread_bytes(), 0);
    trickle(&mut pair, slow, 10);
    assert_eq!(pair.partition().counters().slow_consumers_total, 1);
    pair.start_reading(waiting);
    assert_eq!(names(&mut pair, waiting), ["READY"]);
    assert_eq!(pair.partition().conns_count(), 1);
}

#[test]
fn who_takes_long_while_nobody_waits_is_left_alone() {
    let mut pair = stormy(usize::MAX);
    let [slow, other] = one_waits_for_another(&mut pair);
    pair.cut(other);
    trickle(&mut pair, slow, 300);
    pair.start_reading(slow);
    assert_eq!(names(&mut pair, slow), ["READY"]);
}

#[test]
fn who_has_many_guilds_takes_turns_with_those_who_wait() {
    let mut pair = stormy(1);
    (3..50).for_each(|n| pair.add_guild(large(n, 3).load()));
    let many = pair.connect(ClientParams::JSON);
    pair.stop_reading(many);
    pair.client(many).socket().set_room(200);
    pair.client(many).identify(identify_payload(&gob().username, Some(PLAIN)));
    pair.settle();
    // A bot's READY is small and waits for nobody; then its guilds begin.
    while pair.partition().rendered_bytes() == 0 {
        pair.read_some(many, 200);
        pair.settle();
    }
    let other = pair.connect(ClientParams::JSON);
    pair.client(other).identify(identify_payload(&pro().username, Some(PLAIN)));
    while !names(&mut pair, other).contains(&"GUILD_CREATE".to_owned()) {
        pair.read_some(many, 200);
        pair.settle();
    }
    // READY, its first guild, and little more.
    assert!(pair.names(many).len() <= 4);
}
