//! Taps: copies for the lab, and that they influence nothing.

use crate::fixture::*;
use guildhall_codec::Encoding;
use guildhall_model::EventName;
use guildhall_partition::{
    Compression, CopiedSessions, StreamCodec, TAPS_MAX, TapFilter, TapMessage, TapReader, TapRule, TapSwitch,
};
use guildhall_stdx::Rng;
use guildhall_test_kit::{ClientId, ClientParams, TestCluster, identify_payload};

const SHARED: StreamCodec = StreamCodec::SharedMatch { history_bytes_max: 4 << 20, check_one_in: None };

fn all() -> TapFilter {
    TapFilter { counts_ended: true, ..TapFilter::all(100) }
}

fn private() -> TapFilter {
    TapFilter { private: true, ..all() }
}

fn copies(tap: &TapReader) -> Vec<TapMessage> {
    std::iter::from_fn(|| tap.next()).collect()
}

fn names(copies: &[TapMessage]) -> Vec<(u64, EventName)> {
    let name = |copy: &TapMessage| match copy {
        TapMessage::Dispatch { session, name, .. } => Some((*session, *name)),
        TapMessage::Frame { .. } | TapMessage::End { .. } => None,
    };
    copies.iter().filter_map(name).collect()
}

/// The text of each copied message, by session.
fn texts(copies: &[TapMessage]) -> Vec<(u64, String)> {
    let text = |copy: &TapMessage| match copy {
        TapMessage::Dispatch { session, name: EventName::MessageCreate, body, .. } => {
            Some((*session, String::from_utf8_lossy(body).into_owned()))
        }
        _ => None,
    };
    copies.iter().filter_map(text).collect()
}

/// A seeded run, in which taps begin and end or not; the bytes of each client.
fn run(is_tapped: bool) -> Vec<Vec<u8>> {
    let switch = TapSwitch::default();
    let mut cluster = world_with(|config| (config.taps, config.stream_codec) = (switch.clone(), SHARED));
    let kinds = [
        ClientParams::JSON,
        ClientParams::ETF,
        ClientParams::new(Encoding::Json, Compression::Zlib),
        ClientParams::new(Encoding::Json, Compression::Zstd),
        ClientParams::new(Encoding::Etf, Compression::Zstd),
    ];
    let mut taps: Vec<TapReader> = Vec::new();
    let mut clients: Vec<ClientId> = Vec::new();
    let mut wires = vec![Vec::new(); kinds.len()];
    let mut rng = Rng::new(0x1AB);
    for round in 0..400 {
        if is_tapped && round % 70 == 5 {
            taps.clear();
            taps.extend(switch.start(private()));
            taps.extend(switch.start(TapFilter { one_in: 2, ..all() }));
            assert_eq!(taps.len(), TAPS_MAX);
        }
        if round % 40 == 0 && clients.len() < kinds.len() {
            let client = cluster.connect_recorded(kinds[clients.len()]);
            cluster.client(client).identify(identify_payload(&pro().username, Some(FULL)));
            cluster.run_until_idle();
            clients.push(client);
        }
        let text: String = (0..rng.below(40)).map(|_| char::from(b'a' + rng.below(26) as u8)).collect();
        match rng.below(5) {
            0 => nick(&mut cluster, &bob(), &text.chars().take(30).collect::<String>()),
            1 => drop(say(&mut cluster, &ana(), HIDDEN, &format!("hidden {text}"))),
            _ => drop(say(&mut cluster, &ana(), GENERAL, &format!("said {text}"))),
        }
        if rng.below(3) == 0 {
            cluster.run_until_idle();
        }
        if round % 9 == 0 {
            taps.iter().for_each(|tap| drop(copies(tap)));
        }
    }
    cluster.advance_with_heartbeats(60_000);
    for (client, wire) in clients.iter().zip(&mut wires) {
        cluster.take(*client);
        wire.extend_from_slice(cluster.client(*client).wire());
    }
    wires
}

#[test]
fn t4_not_one_byte_of_any_wire_differs_with_taps_on() {
    let (without, with) = (run(false), run(true));
    assert!(without.iter().all(|wire| wire.len() > 5_000));
    assert!(without == with, "a tap changed what a client is sent");
}

fn tapped(filter: TapFilter) -> (TestCluster, TapSwitch, TapReader) {
    let switch = TapSwitch::default();
    let cluster = world_with(|config| config.taps = switch.clone());
    let tap = switch.start(filter).unwrap();
    (cluster, switch, tap)
}

#[test]
fn t1_nothing_is_copied_before_a_tap_begins_and_after_it_ends() {
    let switch = TapSwitch::default();
    let mut cluster = world_with(|config| config.taps = switch.clone());
    let client = live_bot(&mut cluster);
    say(&mut cluster, &ana(), GENERAL, "before");
    cluster.run_until_idle();
    let tap = switch.start(all()).unwrap();
    say(&mut cluster, &ana(), GENERAL, "while");
    cluster.run_until_idle();
    // A session that was there is copied from its next dispatch on.
    let made = texts(&copies(&tap));
    assert!(made.len() == 1 && made[0].1.contains("while"), "{made:?}");
    drop(tap);
    say(&mut cluster, &ana(), GENERAL, "after");
    cluster.run_until_idle();
    let tap = switch.start(all()).unwrap();
    assert_eq!(copies(&tap), []);
    assert_eq!(tap.waiting_bytes(), 0);
    cluster.take(client);
}

#[test]
fn t2_a_full_queue_ends_the_copies_of_the_session_and_is_counted() {
    let (mut cluster, _switch, tap) = tapped(all());
    let client = live_bot(&mut cluster);
    let long = "x".repeat(1_900);
    for _ in 0..6_000 {
        say(&mut cluster, &ana(), GENERAL, &long);
        cluster.run_until_idle();
        cluster.take(client);
    }
    assert_eq!(tap.sessions(), CopiedSessions { total: 1, now: 0, lost_total: 1 });
    let before = copies(&tap);
    assert!(matches!(before.last(), Some(TapMessage::End { session: 0, is_full: true })));
    assert!(before.len() > 1_000 && before.len() < 6_000, "{}", before.len());
    // There is room again, and still no gap: the session is over.
    say(&mut cluster, &ana(), GENERAL, "more");
    cluster.run_until_idle();
    assert_eq!(copies(&tap), []);
    assert_eq!(tap.waiting_bytes(), 0);
}

#[test]
fn t3_private_dispatches_are_copied_only_for_a_filter_with_them() {
    for (filter, expected) in [(all(), 1), (private(), 2)] {
        let (mut cluster, _switch, tap) = tapped(filter);
        let client = live(&mut cluster, &ana(), None, ClientParams::JSON);
        say(&mut cluster, &ana(), HIDDEN, "a hidden text");
        say(&mut cluster, &ana(), GENERAL, "an open text");
        cluster.run_until_idle();
        cluster.take(client);
        let copies = copies(&tap);
        let made = texts(&copies);
        assert_eq!(made.len(), expected, "{made:?}");
        assert!(made.iter().any(|(_, text)| text.contains("an open text")));
        assert_eq!(made.iter().any(|(_, text)| text.contains("a hidden text")), expected == 2);
        for copy in &copies {
            let TapMessage::Dispatch { name, rule, .. } = copy else { continue };
            match name {
                EventName::Ready | EventName::GuildCreate => assert_eq!(*rule, TapRule::Own { has_private: true }),
                EventName::MessageCreate if expected == 1 => assert!(matches!(rule, TapRule::Public(_)), "{rule:?}"),
                _ => {}
            }
        }
        assert!(names(&copies).contains(&(0, EventName::Ready)), "{:?}", names(&copies));
    }
}

#[test]
fn a_filter_chooses_sessions() {
    let filters = [
        (TapFilter { encoding: Some(Encoding::Etf), ..all() }, 1),
        (TapFilter { guild_id: Some(guildhall_test_kit::id(GUILD)), ..all() }, 3),
        (TapFilter { guild_id: Some(guildhall_test_kit::id(GUILD + 1)), ..all() }, 0),
        (TapFilter { platform: Some("vr".to_owned()), ..all() }, 0),
        (TapFilter { sessions_max: 2, ..all() }, 2),
        (TapFilter { one_in: 1_000_000, ..all() }, 0),
    ];
    for (filter, expected) in filters {
        let (mut cluster, switch, tap) = tapped(filter.clone());
        for params in [ClientParams::JSON, ClientParams::ETF, ClientParams::JSON] {
            live(&mut cluster, &pro(), Some(FULL), params);
        }
        say(&mut cluster, &ana(), GENERAL, "hello");
        cluster.run_until_idle();
        assert_eq!(tap.sessions().total, expected, "{filter:?}");
        let _second = switch.start(all()).unwrap();
        assert!(switch.start(all()).is_none(), "at most {TAPS_MAX} taps");
    }
}

#[test]
fn a_session_that_ends_says_so() {
    let (mut cluster, _switch, tap) = tapped(all());
    let client = live_bot(&mut cluster);
    cluster.cut(client);
    cluster.run_until_idle();
    assert_eq!(copies(&tap).last(), Some(&TapMessage::End { session: 0, is_full: false }));
}
