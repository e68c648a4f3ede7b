//! Tests of the crate's invariants through its public API.

use guildhall_codec::{DecodeLimits, decode_etf_from_gateway};
use guildhall_traffic::{Chat, Event, EventKind, Kind, Params, Population, SHARES, To, Traffic, Viewer};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

const SESSION: Params = Params { kind: Kind::Session, seed: 7, sessions: 8 };
const CHANNEL: Params = Params { kind: Kind::Channel, seed: 7, sessions: 8 };
const NODE: Params = Params { kind: Kind::Node, seed: 7, sessions: 1_005 };

fn events(params: Params, count: usize) -> Vec<Event> {
    Traffic::new(params, Chat::built_in()).take(count).collect()
}

fn json(event: &Event) -> Value {
    serde_json::from_slice(&event.body_json).expect("a JSON body")
}

fn id(value: &Value) -> u64 {
    value.as_str().and_then(|text| text.parse().ok()).expect("a snowflake")
}

#[test]
fn t1_the_same_seed_gives_the_same_bytes() {
    for params in [SESSION, CHANNEL, NODE] {
        let bytes = |params: Params| -> Vec<u8> {
            events(params, 1500).iter().flat_map(|e| [&e.body_json[..], &e.body_etf[..]].concat()).collect()
        };
        assert!(bytes(params) == bytes(params));
        assert!(bytes(params) != bytes(Params { seed: 8, ..params }));
    }
}

#[test]
fn t2_both_bodies_say_the_same() {
    for event in events(SESSION, 1500).into_iter().chain(events(NODE, 1500)) {
        let mut term = vec![131];
        term.extend_from_slice(&event.body_etf);
        let etf = decode_etf_from_gateway(&term, DecodeLimits::default()).expect(event.name);
        assert!(same(&json(&event), &etf), "{} {}", event.name, json(&event));
    }
}

/// Ids are strings in JSON and integers in ETF.
fn same(json: &Value, etf: &Value) -> bool {
    match (json, etf) {
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| same(value, other)))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::String(a), Value::Number(b)) => *a == b.to_string(),
        (a, b) => a == b,
    }
}

#[test]
fn t3_updates_and_deletions_follow_a_creation() {
    let mut channels_of: HashMap<u64, u64> = HashMap::new();
    let (mut newest, mut seen) = (0, HashSet::new());
    for (index, event) in events(SESSION, 6000).into_iter().enumerate() {
        assert_eq!(event.id, index as u64);
        let d = json(&event);
        seen.insert(event.name);
        match event.name {
            "MESSAGE_CREATE" => {
                let message = id(&d["id"]);
                assert!(message > newest, "{message}");
                newest = message;
                channels_of.insert(message, id(&d["channel_id"]));
                assert_eq!(event.channel, Some(id(&d["channel_id"])));
                if d["type"] == 19 {
                    assert_eq!(channels_of.get(&id(&d["referenced_message"]["id"])), event.channel.as_ref());
                }
            }
            "MESSAGE_UPDATE" | "MESSAGE_DELETE" => assert!(channels_of.contains_key(&id(&d["id"]))),
            name if name.starts_with("MESSAGE_REACTION") => {
                assert_eq!(channels_of.get(&id(&d["message_id"])), event.channel.as_ref());
            }
            _ => {}
        }
    }
    let expected = [
        "MESSAGE_CREATE",
        "MESSAGE_UPDATE",
        "MESSAGE_DELETE",
        "MESSAGE_REACTION_ADD",
        "MESSAGE_REACTION_REMOVE",
        "TYPING_START",
        "PRESENCE_UPDATE",
        "VOICE_STATE_UPDATE",
        "GUILD_MEMBER_ADD",
        "GUILD_MEMBER_REMOVE",
        "GUILD_MEMBER_UPDATE",
        "GUILD_MEMBER_LIST_UPDATE",
        "PASSIVE_UPDATE_V2",
        "CHANNEL_UPDATE",
        "GUILD_ROLE_UPDATE",
        "GUILD_CREATE",
        "GUILD_MEMBERS_CHUNK",
    ];
    for name in expected {
        assert!(seen.contains(name), "no {name} in 6,000 events");
    }
}

#[test]
fn the_shares_add_up() {
    assert_eq!(SHARES.iter().map(|(_, share)| share).sum::<u64>(), 1000);
    let kinds: HashSet<String> = SHARES.iter().map(|(kind, _)| format!("{kind:?}")).collect();
    assert!(kinds.len() == SHARES.len() && kinds.contains(&format!("{:?}", EventKind::Typing)));
}

#[test]
fn channel_traffic_has_messages_for_all_connections() {
    let events = events(CHANNEL, 2000);
    assert!(events.iter().all(|event| event.name == "MESSAGE_CREATE" && event.to == To::Everyone));
    assert!(events.iter().all(|event| event.channel == events[0].channel));
    // Shape of the first prototype's traffic, with messages of 976 bytes.
    let mean = events.iter().map(|event| event.body_json.len()).sum::<usize>() / events.len();
    assert!((700..1100).contains(&mean), "{mean} bytes");
}

/// No two sessions receive the same events, large payloads go to one session, and every session receives most kinds.
#[test]
fn sessions_differ() {
    let sessions = 40;
    let events = events(Params { sessions, ..SESSION }, 20_000);
    let viewers: Vec<Viewer> = (0..sessions).map(|index| Viewer::new(7, index)).collect();
    let streams: Vec<Vec<u64>> = viewers
        .iter()
        .map(|viewer| events.iter().filter(|event| viewer.sees(event)).map(|event| event.id).collect())
        .collect();
    assert_eq!(streams.iter().collect::<HashSet<_>>().len(), sessions as usize);
    let public = events.iter().filter(|event| !event.is_private()).count();
    let mean = streams.iter().map(Vec::len).sum::<usize>() / sessions as usize;
    let percent = mean * 100 / public;
    assert!((22..45).contains(&percent), "{percent} % of events are seen");
    let large = events.iter().filter(|event| event.is_private());
    assert!(large.clone().count() > 50);
    for event in large {
        assert_eq!(viewers.iter().filter(|viewer| viewer.sees(event)).count(), 1);
    }
    assert!(!viewers[0].is_bot() && viewers[3].is_bot());
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for id in &streams[0] {
        *kinds.entry(events[*id as usize].name).or_default() += 1;
    }
    assert!(kinds.len() >= 10 && kinds["MESSAGE_CREATE"] * 2 < streams[0].len(), "{kinds:?}");
}

/// `cargo test -p guildhall-traffic -- --ignored --nocapture composition` prints the events of a session by kind.
#[test]
#[ignore = "prints a table"]
fn stress_composition() {
    let events = events(Params { sessions: 8, ..SESSION }, 40_000);
    for index in [0, 1, 3] {
        let viewer = Viewer::new(7, index);
        let mut kinds: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        for event in events.iter().filter(|event| viewer.sees(event)) {
            let of = kinds.entry(event.name).or_default();
            *of = (of.0 + 1, of.1 + event.body_json.len());
        }
        let (count, bytes) = kinds.values().fold((0, 0), |(n, b), of| (n + of.0, b + of.1));
        println!("session {index} (bot: {}): {count} events, {} bytes each", viewer.is_bot(), bytes / count);
        for (name, (n, b)) in kinds {
            println!(
                "  {name:<32} {:>5.1} % of events, {:>5.1} % of bytes, {:>7} bytes",
                n as f64 * 100.0 / count as f64,
                b as f64 * 100.0 / bytes as f64,
                b / n
            );
        }
    }
}

#[test]
fn p1_a_node_has_many_small_guilds() {
    let population = Population::new(3, 10_050);
    assert_eq!((population.accounts_count(), population.sessions_count()), (10_000, 10_050));
    assert!(population.is_bot(10_000) && !population.is_bot(9_999));
    let sizes: Vec<usize> = population.sizes().collect();
    assert_eq!((sizes.len(), sizes[0], sizes[9_999]), (20_000, 6_000, 5));
    assert!(sizes.iter().all(|size| *size >= 2));
    assert_eq!(population.bot_links_count(), 50 * 1_000);
    // Each account is in 50 on average, and none in many more than 100.
    let links: usize = sizes.iter().sum();
    assert!((400_000..510_000).contains(&links), "{links}");
    assert!(Population::new(3, 10_050).sizes().eq(sizes));
}

#[test]
fn p3_events_of_a_node_have_their_recipients() {
    let traffic = Traffic::new(NODE, Chat::built_in());
    let population = traffic.population().expect("a node has one");
    let (mut found, mut again) = (Vec::new(), Vec::new());
    let (mut happened, mut private, mut direct, mut strangers, mut alone, mut deliveries) = (0, 0, 0, 0, 0, 0);
    let mut largest = 0;
    for event in traffic.take(20_000) {
        population.recipients(&event, &mut found);
        population.recipients(&event, &mut again);
        assert_eq!(found, again);
        assert!(found.is_sorted_by(|a, b| a < b) && found.iter().all(|session| *session < 1_005), "{found:?}");
        if event.is_redacted {
            assert!(found.iter().all(|session| population.is_bot(*session as u32)), "{}", event.name);
            strangers += found.len();
        } else if let Some(author) = event.author
            && matches!(event.to, To::Active | To::Typing | To::Direct(_))
        {
            assert!(found.contains(&(author as usize)), "{} is not sent to its author", event.name);
        }
        // Member lists and passive updates follow from what happens.
        if !event.is_redacted && !matches!(event.to, To::Passive | To::Watching | To::One(_)) {
            happened += 1;
            private += usize::from(event.is_hidden && event.guild != 0);
            direct += usize::from(matches!(event.to, To::Direct(_)));
        }
        alone += usize::from(found.len() == 1);
        deliveries += found.len();
        largest = largest.max(found.len());
    }
    let percent = |count: usize| count * 100 / happened;
    assert!(
        (8..13).contains(&percent(direct)) && (15..24).contains(&percent(private)),
        "{direct} {private} {happened}"
    );
    assert!(strangers > 500 && alone > 2_000 && largest > 300, "{strangers} {alone} {largest}");
    assert!(deliveries > 40_000, "{deliveries}");
}

/// `cargo test -p guildhall-traffic -- --ignored --nocapture audiences` prints how many recipients events of
/// a node have.
#[test]
#[ignore = "prints a table"]
fn stress_audiences() {
    let traffic = Traffic::new(Params { sessions: 10_050, ..NODE }, Chat::built_in());
    let population = traffic.population().expect("a node has one");
    let mut rows: BTreeMap<u32, (usize, usize, BTreeMap<&str, usize>)> = BTreeMap::new();
    let mut found = Vec::new();
    for event in traffic.take(50_000) {
        population.recipients(&event, &mut found);
        let row = rows.entry(found.len().checked_ilog2().map_or(0, |log| log + 1)).or_default();
        (row.0, row.1) = (row.0 + 1, row.1 + found.len());
        *row.2.entry(event.name).or_default() += 1;
    }
    for (log, (events, deliveries, names)) in rows {
        println!("below {:>6}: {events:>6} events, {deliveries:>9} deliveries, {names:?}", 1_u64 << log);
    }
}
