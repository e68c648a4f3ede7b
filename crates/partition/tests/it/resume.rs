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
fn a_resume_after_any_loss_misses_nothing() {
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
        let mut cluster = world();
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        let seen = cluster.client(client).seq;
        say_all(&mut cluster, (0..2).map(|n| format!("read {n}")));
        assert_eq!(heard(&mut cluster, client).len(), 2);
        cluster.stop_reading(client);
        say_all(&mut cluster, (0..3).map(|n| format!("lost {n}")));
        cluster.run_until_idle();
        cluster.cut(client);
        say_all(&mut cluster, (0..3).map(|n| format!("missed {n}")));
        let (client, names) = replayed(&mut cluster, client, &pro());
        assert_eq!(names.len(), 6, "{params:?}");
        contiguous(&names, seen + 3);
        let resumed_seq = cluster.client(client).seq;
        assert_eq!(resumed_seq, seen + 9, "RESUMED takes the next number");
        say(&mut cluster, &ana(), GENERAL, "live");
        assert_eq!(heard(&mut cluster, client), [(resumed_seq + 1, "live".to_owned())]);
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
            let mut cluster = world();
            let client = live(&mut cluster, &pro(), Some(FULL), params);
            cluster.stop_reading(client);
            cluster.client(client).socket().set_room(room);
            say_all(&mut cluster, (0..3).map(|n| format!("{n}")));
            cluster.run_until_idle();
            // The client gets the beginning of a frame, and then nothing more.
            let partial = cluster.client(client).read(usize::MAX).expect("nothing is wrong with it");
            let whole = partial.len();
            cluster.cut(client);
            let (_, names) = replayed(&mut cluster, client, &pro());
            assert_eq!(whole + names.len(), 3, "room for {room} bytes, {params:?}");
        }
    }
}

#[test]
fn with_nothing_missed_there_is_only_resumed() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.cut(client);
    let (_, names) = replayed(&mut cluster, client, &pro());
    assert_eq!(names, []);
    // As if that answer had been lost: the next one holds it, and nothing else.
    let (_, names) = replayed(&mut cluster, client, &pro());
    assert_eq!(names.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["RESUMED"]);
}

#[test]
fn a_resume_from_seq_0_replays_everything() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    say(&mut cluster, &ana(), GENERAL, "one");
    cluster.run_until_idle();
    cluster.cut(client);
    cluster.client(client).seq = 0;
    let (_, names) = replayed(&mut cluster, client, &pro());
    contiguous(&names, 1);
    assert_eq!(names[0].1, "READY");
    assert_eq!(names.last().expect("there is one").1, "MESSAGE_CREATE");
}

#[test]
fn compression_may_differ_but_not_the_encoding() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.cut(client);
    say(&mut cluster, &ana(), GENERAL, "meanwhile");
    let other = cluster.reconnect_to(0, client, ClientParams::ETF);
    cluster.take(other);
    cluster.client(other).resume(&pro().username);
    assert_eq!(cluster.take(other), [Received::InvalidSession(false)]);
    let zstd = ClientParams::new(Encoding::Json, Compression::Zstd);
    let other = cluster.reconnect_to(0, client, zstd);
    cluster.client(other).resume(&pro().username);
    let names = cluster.names(other);
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
        let mut cluster = world();
        let client = live_bot(&mut cluster);
        cluster.cut(client);
        spoil(cluster.client(client));
        let client = refused(&mut cluster, client, &pro());
        cluster.client(client).identify(identify_payload(&pro().username, Some(FULL)));
        let names = cluster.names(client);
        assert_eq!((names[0].0, names[0].1.as_str()), (1, "READY"), "case {n}");
        assert_eq!(cluster.partition().counters().resumes_refused_total, 1);
    }
}

#[test]
fn every_refused_resume_has_its_reason() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    let (session_id, seq) = (cluster.client(client).session_id.clone(), cluster.client(client).seq);
    let client = refused(&mut cluster, client, &gob());
    cluster.client(client).session_id = Some("nonsense".to_owned());
    let client = refused(&mut cluster, client, &pro());
    cluster.client(client).session_id = session_id;
    cluster.client(client).seq = u64::MAX;
    let client = refused(&mut cluster, client, &pro());
    cluster.client(client).seq = seq;
    cluster.cut(client);
    let other = cluster.reconnect_to(0, client, ClientParams::ETF);
    cluster.take(other);
    cluster.client(other).resume(&pro().username);
    assert_eq!(cluster.take(other), [Received::InvalidSession(false)]);
    cluster.client(other).resume("nobody");
    cluster.take(other);
    use ResumeFault::{Account, Encoding as OtherEncoding, Sequence, Token, Unknown};
    assert_eq!(cluster.refused_resumes, [Account, Unknown, Sequence, OtherEncoding, Token]);
}

#[test]
fn another_account_cannot_take_a_session() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    refused(&mut cluster, client, &gob());
    refused(&mut cluster, client, &bob());
    say(&mut cluster, &ana(), GENERAL, "for the rightful one");
    assert_eq!(heard(&mut cluster, client).len(), 1, "the connection is unchanged");
}

#[test]
fn a_resume_takes_over_from_a_connection_that_is_still_there() {
    let mut cluster = world();
    let old = live_bot(&mut cluster);
    say(&mut cluster, &ana(), GENERAL, "one");
    cluster.stop_reading(old);
    cluster.run_until_idle();
    say(&mut cluster, &ana(), GENERAL, "two");
    let (new, names) = replayed(&mut cluster, old, &pro());
    assert_eq!(names.len(), 2, "{names:?}");
    say(&mut cluster, &ana(), GENERAL, "three");
    assert_eq!(heard(&mut cluster, new).len(), 1);
    cluster.start_reading(old);
    let received = cluster.take(old);
    let messages = received.iter().filter(|received| matches!(received, Received::Dispatch(_))).count();
    assert_eq!(messages, 2, "messages on their way to the old connection");
    assert!(received.contains(&Received::Close(Some(4000), "Unknown error, reconnect and resume".to_owned())));
    assert_eq!(cluster.partition().sessions_count(), 1);
    // Its end does not detach the session from the new one.
    cluster.advance_with_heartbeats(400_000);
    say(&mut cluster, &ana(), GENERAL, "four");
    assert_eq!(heard(&mut cluster, new).len(), 1);
}

#[test]
fn a_takeover_finishes_the_frame_it_interrupts() {
    let mut cluster = world();
    let old = live_bot(&mut cluster);
    cluster.stop_reading(old);
    cluster.client(old).socket().set_room(50);
    say(&mut cluster, &ana(), GENERAL, "cut in the middle");
    cluster.run_until_idle();
    let (_, names) = replayed(&mut cluster, old, &pro());
    assert_eq!(names.len(), 1);
    cluster.client(old).socket().set_room(usize::MAX);
    cluster.start_reading(old);
    let received = cluster.take(old);
    assert!(
        matches!(&received[..], [Received::Dispatch(_), Received::Close(Some(4000), _), Received::End]),
        "{received:?}"
    );
}

#[test]
fn a_session_waits_for_its_client_only_so_long() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.cut(client);
    cluster.advance(179_999);
    say(&mut cluster, &ana(), GENERAL, "meanwhile");
    let (client, names) = replayed(&mut cluster, client, &pro());
    assert_eq!(names.len(), 1);
    cluster.cut(client);
    cluster.to_guilds.clear();
    cluster.advance(180_000);
    assert_eq!(cluster.partition().sessions_count(), 0);
    let left = |(_, message): &_| matches!(message, ToGuild::Detach { .. });
    assert_eq!(cluster.to_guilds.iter().filter(|message| left(message)).count(), 1);
    refused(&mut cluster, client, &pro());
}

#[test]
fn the_time_starts_anew_with_each_detachment() {
    let mut cluster = world();
    let mut client = live_bot(&mut cluster);
    for _ in 0..4 {
        cluster.cut(client);
        cluster.advance(100_000);
        client = replayed(&mut cluster, client, &pro()).0;
    }
    cluster.cut(client);
    cluster.advance(179_999);
    assert_eq!(cluster.partition().sessions_count(), 1);
    cluster.advance(1);
    assert_eq!(cluster.partition().sessions_count(), 0);
}

#[test]
fn a_detached_session_that_misses_too_much_is_gone() {
    for (events, bytes) in [(10, usize::MAX), (usize::MAX, 5_000)] {
        let mut cluster = world_with(|config| (config.replay_events_max, config.replay_bytes_max) = (events, bytes));
        let client = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
        cluster.client(client).heartbeat();
        cluster.take(client);
        cluster.cut(client);
        let mut missed = 0;
        while cluster.partition().sessions_count() == 1 {
            say(&mut cluster, &ana(), GENERAL, "and so on");
            cluster.run_until_idle();
            missed += 1;
        }
        assert!((5..=15).contains(&missed), "{missed}");
        refused(&mut cluster, client, &gob());
    }
}

#[test]
fn a_resume_of_all_that_may_be_kept_is_not_cut_off_by_its_own_resumed() {
    const KEPT: usize = 10;
    let mut cluster = world_with(|config| (config.replay_events_max, config.backlog_events_max) = (KEPT, KEPT));
    let client = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    cluster.client(client).heartbeat();
    cluster.take(client);
    cluster.cut(client);
    say_all(&mut cluster, (0..KEPT).map(|n| format!("missed {n}")));
    cluster.run_until_idle();
    let (client, names) = replayed(&mut cluster, client, &gob());
    assert_eq!(names.len(), KEPT);
    assert_eq!(cluster.partition().counters().slow_consumers_total, 0);
    // The next dispatch is checked against the limits again.
    cluster.stop_reading(client);
    cluster.client(client).socket().set_room(10);
    say_all(&mut cluster, (0..2 * KEPT).map(|n| format!("unread {n}")));
    cluster.run_until_idle();
    assert_eq!((cluster.partition().sessions_count(), cluster.partition().counters().slow_consumers_total), (0, 1));
}

#[test]
fn what_a_connected_client_has_is_forgotten_beyond_the_limit_only() {
    let mut cluster = world_with(|config| config.replay_events_max = 10);
    let client = live_bot(&mut cluster);
    for n in 0..30 {
        say(&mut cluster, &ana(), GENERAL, &format!("{n}"));
        assert_eq!(heard(&mut cluster, client).len(), 1);
    }
    let last = cluster.client(client).seq;
    cluster.cut(client);
    cluster.client(client).seq = last - 11;
    refused(&mut cluster, client, &pro());
    cluster.client(client).seq = last - 10;
    // RESUMED is one more than the limit, and costs the oldest only once it is written.
    let (_, names) = replayed(&mut cluster, client, &pro());
    assert_eq!(names.len(), 10);
    contiguous(&names, last - 9);
}

#[test]
fn a_session_before_ready_cannot_be_resumed() {
    let mut cluster = world();
    cluster.name_guild(&bob(), guildhall_test_kit::id(2));
    let client = cluster.login(&bob(), None, ClientParams::JSON);
    let session_id = cluster.partition().sessions().next().expect("it is waiting").id.to_string();
    cluster.client(client).session_id = Some(session_id);
    refused(&mut cluster, client, &bob());
    cluster.cut(client);
    assert_eq!(cluster.partition().sessions_count(), 0);
}

#[test]
fn a_missing_seq_means_nothing_was_seen() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.cut(client);
    let again = cluster.reconnect(client);
    cluster.take(again);
    let session_id = cluster.client(client).session_id.clone();
    cluster.client(again).send(6, &json!({"token": pro().username, "session_id": session_id, "seq": null}));
    let names = cluster.names(again);
    assert_eq!(names[0].1, "READY");
    assert_eq!(names.last().expect("there is one").1, "RESUMED");
}

#[test]
fn lost_guild_messages_are_never_passed_over() {
    let outage = ["GUILD_DELETE", "GUILD_CREATE"];
    let mut cluster = world();
    let connected = live_bot(&mut cluster);
    let detached = live(&mut cluster, &bob(), None, ClientParams::ETF);
    cluster.take(connected);
    cluster.cut(detached);
    say(&mut cluster, &ana(), GENERAL, "lost");
    cluster.overflow(relay(0), guildhall_test_kit::id(GUILD));
    cluster.run_until_idle();
    say(&mut cluster, &ana(), GENERAL, "lost too");
    cluster.run_until_idle();
    assert_eq!(cluster.take(connected), [], "it knows of nothing yet");
    cluster.room(relay(0), guildhall_test_kit::id(GUILD));
    let dispatches = cluster.dispatches(connected);
    let seen = dispatches[0].seq - 1;
    assert_eq!(dispatches.iter().map(|dispatch| dispatch.name.as_str()).collect::<Vec<_>>(), outage);
    let unavailable = json!({"id": guildhall_test_kit::id::<()>(GUILD).to_string(), "unavailable": true});
    assert_eq!(dispatches[0].d(), unavailable);
    // A session that was detached gets the same.
    let (detached, names) = replayed(&mut cluster, detached, &bob());
    assert_eq!(names.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), outage);
    let before = cluster.partition().counters();
    assert_eq!((before.resets_total, before.sessions_ended_total), (2, 0));
    // Both go on where they are.
    say(&mut cluster, &ana(), GENERAL, "live");
    assert_eq!(heard(&mut cluster, connected), [(seen + 3, "live".to_owned())]);
    assert_eq!(heard(&mut cluster, detached).len(), 1);
    // Earlier dispatches can be replayed: the outage takes their place.
    cluster.cut(connected);
    cluster.client(connected).seq = seen;
    let (_, names) = replayed(&mut cluster, connected, &pro());
    let names: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!(names, ["GUILD_DELETE", "GUILD_CREATE", "MESSAGE_CREATE"]);
}

#[test]
fn a_reset_in_the_middle_of_a_frame_finishes_it_first() {
    for params in [ClientParams::JSON, ClientParams::new(Encoding::Json, Compression::Zstd)] {
        let mut cluster = world();
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        cluster.stop_reading(client);
        cluster.client(client).socket().set_room(30);
        say(&mut cluster, &ana(), GENERAL, "cut in the middle");
        cluster.run_until_idle();
        cluster.overflow(relay(0), guildhall_test_kit::id(GUILD));
        cluster.room(relay(0), guildhall_test_kit::id(GUILD));
        cluster.run_until_idle();
        cluster.client(client).socket().set_room(usize::MAX);
        cluster.start_reading(client);
        let names: Vec<String> = cluster.names(client).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["MESSAGE_CREATE", "GUILD_DELETE", "GUILD_CREATE"]);
    }
}

#[test]
fn a_session_that_attaches_during_a_loss_receives_its_guild() {
    let mut cluster = world();
    // A first session, so that the stream exists already.
    let _first = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    cluster.overflow(relay(0), guildhall_test_kit::id(GUILD));
    let bot = cluster.login(&pro(), Some(FULL), ClientParams::JSON);
    let user = cluster.login(&bob(), None, ClientParams::JSON);
    assert_eq!(cluster.names(bot), [(1, "READY".to_owned())], "its guild cannot answer now");
    assert_eq!(cluster.names(user), []);
    cluster.room(relay(0), guildhall_test_kit::id(GUILD));
    let names: Vec<String> = cluster.names(bot).into_iter().map(|(_, name)| name).collect();
    assert!(names.contains(&"GUILD_CREATE".to_owned()), "{names:?}");
    assert_eq!(cluster.names(user)[0], (1, "READY".to_owned()));
    cluster.take(bot);
    say(&mut cluster, &ana(), GENERAL, "live");
    assert_eq!(heard(&mut cluster, bot).len(), 1);
    assert_eq!(heard(&mut cluster, user).len(), 1);
}
