//! RESUME: gapless when it can be, refused with op 9 when it cannot, and never a lie.

use crate::fixture::*;
use guildhall_codec::Encoding;
use guildhall_guild_protocol::ToGuild;
use guildhall_partition::{Compression, ResumeFault};
use guildhall_test_kit::{ClientParams, Received, identify_payload};
use serde_json::json;

fn contiguous(names: &[(u64, String)], from: u64) {
    let seqs: Vec<u64> = names.iter().map(|(seq, _)| *seq).collect();
    assert_eq!(seqs, (from..from + seqs.len() as u64).collect::<Vec<_>>());
}

#[test]
fn nothing_is_missing_whatever_was_lost_on_the_way() {
    for params in [
        ClientParams::JSON,
        ClientParams::ETF,
        ClientParams::JSON.with_compressed_payloads(),
        ClientParams::new(Encoding::Json, Compression::Zlib),
        ClientParams::new(Encoding::Etf, Compression::Zlib),
        ClientParams::new(Encoding::Json, Compression::Zstd),
        ClientParams::new(Encoding::Etf, Compression::Zstd),
        ClientParams::deflate(Encoding::Json, false, 15),
        ClientParams::deflate(Encoding::Etf, false, 9),
        ClientParams::deflate(Encoding::Json, true, 15),
    ] {
        let mut pair = world();
        let client = live(&mut pair, &pro(), Some(FULL), params);
        let seen = pair.client(client).seq;
        say_all(&mut pair, (0..2).map(|n| format!("read {n}")));
        assert_eq!(heard(&mut pair, client).len(), 2);
        pair.stop_reading(client);
        say_all(&mut pair, (0..3).map(|n| format!("lost {n}")));
        pair.settle();
        pair.cut(client);
        say_all(&mut pair, (0..3).map(|n| format!("missed {n}")));
        let (client, names) = replayed(&mut pair, client, &pro());
        assert_eq!(names.len(), 6, "{params:?}");
        contiguous(&names, seen + 3);
        let resumed_seq = pair.client(client).seq;
        assert_eq!(resumed_seq, seen + 9, "RESUMED takes the next number");
        say(&mut pair, &ana(), GENERAL, "live");
        assert_eq!(heard(&mut pair, client), [(resumed_seq + 1, "live".to_owned())]);
    }
}

#[test]
fn a_frame_that_was_cut_off_in_the_middle_comes_whole() {
    for params in [
        ClientParams::JSON,
        ClientParams::ETF,
        ClientParams::new(Encoding::Json, Compression::Zstd),
        ClientParams::new(Encoding::Etf, Compression::Zlib),
        ClientParams::deflate(Encoding::Json, false, 15),
        ClientParams::deflate(Encoding::Etf, false, 15),
        ClientParams::deflate(Encoding::Etf, true, 15),
    ] {
        for room in [1, 2, 5, 60, 200] {
            let mut pair = world();
            let client = live(&mut pair, &pro(), Some(FULL), params);
            pair.stop_reading(client);
            pair.client(client).socket().set_room(room);
            say_all(&mut pair, (0..3).map(|n| format!("{n}")));
            pair.settle();
            // The client gets the beginning of a frame, and then nothing more.
            let partial = pair.client(client).read(usize::MAX).expect("nothing is wrong with it");
            let whole = partial.len();
            pair.cut(client);
            let (_, names) = replayed(&mut pair, client, &pro());
            assert_eq!(whole + names.len(), 3, "room for {room} bytes, {params:?}");
        }
    }
}

#[test]
fn with_nothing_missed_there_is_only_resumed() {
    let mut pair = world();
    let client = live_bot(&mut pair);
    pair.cut(client);
    let (_, names) = replayed(&mut pair, client, &pro());
    assert_eq!(names, []);
    // As if that answer had been lost: the next one holds it, and nothing else.
    let (_, names) = replayed(&mut pair, client, &pro());
    assert_eq!(names.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["RESUMED"]);
}

#[test]
fn everything_can_be_asked_for_again_from_the_beginning() {
    let mut pair = world();
    let client = live_bot(&mut pair);
    say(&mut pair, &ana(), GENERAL, "one");
    pair.settle();
    pair.cut(client);
    pair.client(client).seq = 0;
    let (_, names) = replayed(&mut pair, client, &pro());
    contiguous(&names, 1);
    assert_eq!(names[0].1, "READY");
    assert_eq!(names.last().expect("there is one").1, "MESSAGE_CREATE");
}

#[test]
fn compression_may_differ_but_not_the_encoding() {
    let mut pair = world();
    let client = live_bot(&mut pair);
    pair.cut(client);
    say(&mut pair, &ana(), GENERAL, "meanwhile");
    let other = pair.reconnect_to(0, client, ClientParams::ETF);
    pair.take(other);
    pair.client(other).resume(&pro().username);
    assert_eq!(pair.take(other), [Received::InvalidSession(false)]);
    let zstd = ClientParams::new(Encoding::Json, Compression::Zstd);
    let other = pair.reconnect_to(0, client, zstd);
    pair.client(other).resume(&pro().username);
    let names = pair.names(other);
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn what_cannot_be_resumed_is_refused_and_the_client_may_identify_instead() {
    let spoil: [fn(&mut guildhall_test_kit::TestClient); 5] = [
        |client| client.seq += 1,
        |client| client.seq = u64::MAX,
        |client| client.session_id = Some("0000".to_owned() + &"f".repeat(28)),
        |client| client.session_id = Some("nonsense".to_owned()),
        |client| client.session_id = None,
    ];
    for (n, spoil) in spoil.into_iter().enumerate() {
        let mut pair = world();
        let client = live_bot(&mut pair);
        pair.cut(client);
        spoil(pair.client(client));
        let client = refused(&mut pair, client, &pro());
        pair.client(client).identify(identify_payload(&pro().username, Some(FULL)));
        let names = pair.names(client);
        assert_eq!((names[0].0, names[0].1.as_str()), (1, "READY"), "case {n}");
        assert_eq!(pair.partition().counters().resumes_refused_total, 1);
    }
}

#[test]
fn every_refused_resume_has_its_reason() {
    let mut pair = world();
    let client = live_bot(&mut pair);
    let (session_id, seq) = (pair.client(client).session_id.clone(), pair.client(client).seq);
    let client = refused(&mut pair, client, &gob());
    pair.client(client).session_id = Some("nonsense".to_owned());
    let client = refused(&mut pair, client, &pro());
    pair.client(client).session_id = session_id;
    pair.client(client).seq = u64::MAX;
    let client = refused(&mut pair, client, &pro());
    pair.client(client).seq = seq;
    pair.cut(client);
    let other = pair.reconnect_to(0, client, ClientParams::ETF);
    pair.take(other);
    pair.client(other).resume(&pro().username);
    assert_eq!(pair.take(other), [Received::InvalidSession(false)]);
    pair.client(other).resume("nobody");
    pair.take(other);
    use ResumeFault::{Account, Encoding as OtherEncoding, Sequence, Token, Unknown};
    assert_eq!(pair.refused_resumes, [Account, Unknown, Sequence, OtherEncoding, Token]);
}

#[test]
fn another_account_cannot_take_a_session() {
    let mut pair = world();
    let client = live_bot(&mut pair);
    refused(&mut pair, client, &gob());
    refused(&mut pair, client, &bob());
    say(&mut pair, &ana(), GENERAL, "for the rightful one");
    assert_eq!(heard(&mut pair, client).len(), 1, "whose connection is as it was");
}

#[test]
fn a_resume_takes_over_from_a_connection_that_is_still_there() {
    let mut pair = world();
    let old = live_bot(&mut pair);
    say(&mut pair, &ana(), GENERAL, "one");
    pair.stop_reading(old);
    pair.settle();
    say(&mut pair, &ana(), GENERAL, "two");
    let (new, names) = replayed(&mut pair, old, &pro());
    assert_eq!(names.len(), 2, "{names:?}");
    say(&mut pair, &ana(), GENERAL, "three");
    assert_eq!(heard(&mut pair, new).len(), 1);
    pair.start_reading(old);
    let received = pair.take(old);
    let messages = received.iter().filter(|received| matches!(received, Received::Dispatch(_))).count();
    assert_eq!(messages, 2, "what was on its way to the old one");
    assert!(received.contains(&Received::Close(Some(4000), "Unknown error, reconnect and resume".to_owned())));
    assert_eq!(pair.partition().sessions_count(), 1);
    // Its end does not detach the session from the new one.
    pair.advance_with_heartbeats(400_000);
    say(&mut pair, &ana(), GENERAL, "four");
    assert_eq!(heard(&mut pair, new).len(), 1);
}

#[test]
fn a_takeover_finishes_the_frame_it_interrupts() {
    let mut pair = world();
    let old = live_bot(&mut pair);
    pair.stop_reading(old);
    pair.client(old).socket().set_room(50);
    say(&mut pair, &ana(), GENERAL, "cut in the middle");
    pair.settle();
    let (_, names) = replayed(&mut pair, old, &pro());
    assert_eq!(names.len(), 1);
    pair.client(old).socket().set_room(usize::MAX);
    pair.start_reading(old);
    let received = pair.take(old);
    assert!(
        matches!(&received[..], [Received::Dispatch(_), Received::Close(Some(4000), _), Received::End]),
        "{received:?}"
    );
}

#[test]
fn a_session_waits_for_its_client_only_so_long() {
    let mut pair = world();
    let client = live_bot(&mut pair);
    pair.cut(client);
    pair.advance(179_999);
    say(&mut pair, &ana(), GENERAL, "meanwhile");
    let (client, names) = replayed(&mut pair, client, &pro());
    assert_eq!(names.len(), 1);
    pair.cut(client);
    pair.to_guilds.clear();
    pair.advance(180_000);
    assert_eq!(pair.partition().sessions_count(), 0);
    let left = |(_, message): &_| matches!(message, ToGuild::Detach { .. });
    assert_eq!(pair.to_guilds.iter().filter(|message| left(message)).count(), 1);
    refused(&mut pair, client, &pro());
}

#[test]
fn the_time_starts_anew_with_each_detachment() {
    let mut pair = world();
    let mut client = live_bot(&mut pair);
    for _ in 0..4 {
        pair.cut(client);
        pair.advance(100_000);
        client = replayed(&mut pair, client, &pro()).0;
    }
    pair.cut(client);
    pair.advance(179_999);
    assert_eq!(pair.partition().sessions_count(), 1);
    pair.advance(1);
    assert_eq!(pair.partition().sessions_count(), 0);
}

#[test]
fn a_detached_session_that_misses_too_much_is_gone() {
    for (events, bytes) in [(10, usize::MAX), (usize::MAX, 5_000)] {
        let mut pair = world_with(|config| (config.replay_events_max, config.replay_bytes_max) = (events, bytes));
        let client = live(&mut pair, &gob(), Some(PLAIN), ClientParams::JSON);
        pair.client(client).heartbeat();
        pair.take(client);
        pair.cut(client);
        let mut missed = 0;
        while pair.partition().sessions_count() == 1 {
            say(&mut pair, &ana(), GENERAL, "and so on");
            pair.settle();
            missed += 1;
        }
        assert!((5..=15).contains(&missed), "{missed}");
        refused(&mut pair, client, &gob());
    }
}

#[test]
fn a_resume_of_all_that_may_be_kept_is_not_cut_off_by_its_own_resumed() {
    const KEPT: usize = 10;
    let mut pair = world_with(|config| (config.replay_events_max, config.backlog_events_max) = (KEPT, KEPT));
    let client = live(&mut pair, &gob(), Some(PLAIN), ClientParams::JSON);
    pair.client(client).heartbeat();
    pair.take(client);
    pair.cut(client);
    say_all(&mut pair, (0..KEPT).map(|n| format!("missed {n}")));
    pair.settle();
    let (client, names) = replayed(&mut pair, client, &gob());
    assert_eq!(names.len(), KEPT);
    assert_eq!(pair.partition().counters().slow_consumers_total, 0);
    // The next dispatch is checked against the limits again.
    pair.stop_reading(client);
    pair.client(client).socket().set_room(10);
    say_all(&mut pair, (0..2 * KEPT).map(|n| format!("unread {n}")));
    pair.settle();
    assert_eq!((pair.partition().sessions_count(), pair.partition().counters().slow_consumers_total), (0, 1));
}

#[test]
fn what_a_connected_client_has_is_forgotten_beyond_the_limit_only() {
    let mut pair = world_with(|config| config.replay_events_max = 10);
    let client = live_bot(&mut pair);
    for n in 0..30 {
        say(&mut pair, &ana(), GENERAL, &format!("{n}"));
        assert_eq!(heard(&mut pair, client).len(), 1);
    }
    let last = pair.client(client).seq;
    pair.cut(client);
    pair.client(client).seq = last - 11;
    refused(&mut pair, client, &pro());
    pair.client(client).seq = last - 10;
    // RESUMED is one more than the limit, and costs the oldest only once it is written.
    let (_, names) = replayed(&mut pair, client, &pro());
    assert_eq!(names.len(), 10);
    contiguous(&names, last - 9);
}

#[test]
fn a_session_that_has_not_said_ready_cannot_be_resumed() {
    let mut pair = world();
    pair.name_guild(&bob(), guildhall_test_kit::id(2));
    let client = pair.login(&bob(), None, ClientParams::JSON);
    let session_id = pair.partition().sessions().next().expect("it is waiting").id.to_string();
    pair.client(client).session_id = Some(session_id);
    refused(&mut pair, client, &bob());
    pair.cut(client);
    assert_eq!(pair.partition().sessions_count(), 0);
}

#[test]
fn a_missing_seq_means_nothing_was_seen() {
    let mut pair = world();
    let client = live_bot(&mut pair);
    pair.cut(client);
    let again = pair.reconnect(client);
    pair.take(again);
    let session_id = pair.client(client).session_id.clone();
    pair.client(again).send(6, &json!({"token": pro().username, "session_id": session_id, "seq": null}));
    let names = pair.names(again);
    assert_eq!(names[0].1, "READY");
    assert_eq!(names.last().expect("there is one").1, "RESUMED");
}

#[test]
fn lost_guild_messages_are_never_passed_over() {
    let outage = ["GUILD_DELETE", "GUILD_CREATE"];
    let mut pair = world();
    let connected = live_bot(&mut pair);
    let detached = live(&mut pair, &bob(), None, ClientParams::ETF);
    pair.take(connected);
    pair.cut(detached);
    say(&mut pair, &ana(), GENERAL, "lost");
    pair.overflow(relay(0), guildhall_test_kit::id(GUILD));
    pair.settle();
    say(&mut pair, &ana(), GENERAL, "lost too");
    pair.settle();
    assert_eq!(pair.take(connected), [], "it knows of nothing yet");
    pair.room(relay(0), guildhall_test_kit::id(GUILD));
    let dispatches = pair.dispatches(connected);
    let seen = dispatches[0].seq - 1;
    assert_eq!(dispatches.iter().map(|dispatch| dispatch.name.as_str()).collect::<Vec<_>>(), outage);
    let unavailable = json!({"id": guildhall_test_kit::id::<()>(GUILD).to_string(), "unavailable": true});
    assert_eq!(dispatches[0].d(), unavailable);
    // A session that was detached gets the same.
    let (detached, names) = replayed(&mut pair, detached, &bob());
    assert_eq!(names.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), outage);
    let before = pair.partition().counters();
    assert_eq!((before.resets_total, before.sessions_ended_total), (2, 0));
    // Both go on where they are.
    say(&mut pair, &ana(), GENERAL, "live");
    assert_eq!(heard(&mut pair, connected), [(seen + 3, "live".to_owned())]);
    assert_eq!(heard(&mut pair, detached).len(), 1);
    // Earlier dispatches can be replayed: the outage takes their place.
    pair.cut(connected);
    pair.client(connected).seq = seen;
    let (_, names) = replayed(&mut pair, connected, &pro());
    let names: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["GUILD_DELETE", "GUILD_CREATE", "MESSAGE_CREATE"]);
}

#[test]
fn a_reset_in_the_middle_of_a_frame_finishes_it_first() {
    for params in [ClientParams::JSON, ClientParams::new(Encoding::Json, Compression::Zstd)] {
        let mut pair = world();
        let client = live(&mut pair, &pro(), Some(FULL), params);
        pair.stop_reading(client);
        pair.client(client).socket().set_room(30);
        say(&mut pair, &ana(), GENERAL, "cut in the middle");
        pair.settle();
        pair.overflow(relay(0), guildhall_test_kit::id(GUILD));
        pair.room(relay(0), guildhall_test_kit::id(GUILD));
        pair.settle();
        pair.client(client).socket().set_room(usize::MAX);
        pair.start_reading(client);
        let names: Vec<String> = pair.names(client).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["MESSAGE_CREATE", "GUILD_DELETE", "GUILD_CREATE"]);
    }
}

#[test]
fn who_is_entering_when_messages_are_lost_enters_all_the_same() {
    let mut pair = world();
    // A first session, so that the stream exists already.
    let _first = live(&mut pair, &gob(), Some(PLAIN), ClientParams::JSON);
    pair.overflow(relay(0), guildhall_test_kit::id(GUILD));
    let bot = pair.login(&pro(), Some(FULL), ClientParams::JSON);
    let user = pair.login(&bob(), None, ClientParams::JSON);
    assert_eq!(pair.names(bot), [(1, "READY".to_owned())], "its guild cannot answer now");
    assert_eq!(pair.names(user), []);
    pair.room(relay(0), guildhall_test_kit::id(GUILD));
    let names: Vec<String> = pair.names(bot).into_iter().map(|(_, name)| name).collect();
    assert!(names.contains(&"GUILD_CREATE".to_owned()), "{names:?}");
    assert_eq!(pair.names(user)[0], (1, "READY".to_owned()));
    pair.take(bot);
    say(&mut pair, &ana(), GENERAL, "live");
    assert_eq!(heard(&mut pair, bot).len(), 1);
    assert_eq!(heard(&mut pair, user).len(), 1);
}
