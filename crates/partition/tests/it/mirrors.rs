//! Mirrors: a client whose node was killed resumes at another. Nothing is lost in silence, nothing arrives twice.

use crate::fixture::*;
use guildhall_guild::{Actor, Command, NewDirect, NewMessage};
use guildhall_guild_protocol::Whose;
use guildhall_model::{CloseCode, Intents};
use guildhall_partition::{MirrorBatch, MirrorProgress, MirrorSource, MirrorsTaken, ResumeFault, mirror_key};
use guildhall_test_kit::{ClientId, ClientParams, MirrorMail, Received, TestCluster, TestClusterConfig, id};
use serde_json::json;

const DIRECT: u64 = 90;
const OUTAGE: [&str; 3] = ["GUILD_DELETE", "GUILD_CREATE", "RESUMED"];

fn nodes(count: u16) -> TestCluster {
    let mut config = TestClusterConfig { partitions_count: count, are_nodes: true, ..TestClusterConfig::default() };
    config.partition.mirrors_sessions = true;
    world_of(config)
}

/// Bob's session at node 0, connected, in a direct message with Ana.
fn bob_with_direct(count: u16) -> (TestCluster, ClientId) {
    let mut cluster = nodes(count);
    cluster.add_direct(NewDirect { id: id(DIRECT), recipients: vec![ana(), bob()], is_group: false });
    let client = live_user(&mut cluster, &bob(), 0);
    (cluster, client)
}

fn dm(cluster: &mut TestCluster, content: &str) {
    let new = NewMessage { content: content.to_owned(), ..NewMessage::default() };
    let create = Command::CreateMessage(id(DIRECT), Box::new(new));
    cluster.command_in(id(DIRECT), Actor::User(ana().id), create).expect("she is in it");
    cluster.run_until_idle();
}

/// The node is killed, and the others notice it.
fn crash(cluster: &mut TestCluster, node: usize) {
    cluster.kill(node);
    cluster.advance(3_000);
    cluster.end_lease();
}

fn resume_at(cluster: &mut TestCluster, node: usize, client: ClientId, name: &str) -> ClientId {
    let params = cluster.client(client).params();
    let client = cluster.reconnect_to(node, client, params);
    assert!(matches!(cluster.take(client)[..], [Received::Hello { .. }]));
    cluster.client(client).resume(name);
    cluster.run_until_idle();
    client
}

/// Names, or contents of messages. Seqs rise from `after` on.
#[track_caller]
fn names_after(cluster: &mut TestCluster, client: ClientId, after: u64) -> Vec<String> {
    let mut last = after;
    let name = |dispatch: guildhall_test_kit::Dispatch| {
        assert!(dispatch.seq > last, "{} after {last}", dispatch.seq);
        last = dispatch.seq;
        match &*dispatch.name {
            "MESSAGE_CREATE" => text(&dispatch.d()["content"]),
            name => name.to_owned(),
        }
    };
    cluster.dispatches(client).into_iter().map(name).collect()
}

#[track_caller]
fn refused(cluster: &mut TestCluster, client: ClientId, fault: ResumeFault) {
    assert_eq!(cluster.take(client), [Received::InvalidSession(false)]);
    assert_eq!(cluster.refused_resumes.pop(), Some(fault));
}

fn sessions(cluster: &TestCluster) -> Vec<usize> {
    (0..3).map(|node| cluster.partition_at(node).sessions_count()).collect()
}

#[test]
fn c3_a_client_of_a_killed_node_resumes_at_any_other() {
    for params in [ClientParams::JSON, ClientParams::ETF] {
        for node in [1, 2] {
            let mut cluster = nodes(3);
            let client = live(&mut cluster, &pro(), Some(FULL), params);
            cluster.mirror_all();
            // Guild events after the report: an outage of the guild announces that they are missing.
            say_all(&mut cluster, ["one", "two"].map(str::to_owned));
            cluster.run_until_idle();
            cluster.take(client);
            let seen = cluster.client(client).seq;
            crash(&mut cluster, 0);
            let client = resume_at(&mut cluster, node, client, &pro().username);
            assert_eq!(names_after(&mut cluster, client, seen), OUTAGE);
            say(&mut cluster, &ana(), GENERAL, "live");
            assert_eq!(heard(&mut cluster, client).len(), 1);
            assert_eq!(sessions(&cluster).iter().sum::<usize>(), 1);
            assert_eq!((0..3).map(|node| cluster.partition_at(node).mirrors_held().count).sum::<usize>(), 0);
        }
    }
}

#[test]
fn c1_a_mirror_of_a_node_that_lives_stays() {
    let mut cluster = nodes(3);
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    cluster.mirror_all();
    cluster.kill(0);
    let there = resume_at(&mut cluster, 1, client, &pro().username);
    refused(&mut cluster, there, ResumeFault::Unknown);
    cluster.end_lease();
    let there = resume_at(&mut cluster, 1, client, &pro().username);
    assert_eq!(cluster.names(there).last().map(|(_, name)| name.clone()).as_deref(), Some("RESUMED"));
    // It is released once.
    cluster.kill(1);
    cluster.end_lease();
    let again = resume_at(&mut cluster, 2, there, &pro().username);
    refused(&mut cluster, again, ResumeFault::Unknown);
}

#[test]
fn c1_a_second_crash_is_survived_once_the_next_node_has_reported_the_session() {
    let (mut cluster, client) = bob_with_direct(3);
    dm(&mut cluster, "first");
    cluster.mirror_all();
    cluster.take(client);
    crash(&mut cluster, 0);
    let client = resume_at(&mut cluster, 1, client, &bob().username);
    cluster.take(client);
    dm(&mut cluster, "second");
    cluster.mirror_all();
    cluster.take(client);
    let seen = cluster.client(client).seq;
    crash(&mut cluster, 1);
    dm(&mut cluster, "third");
    let client = resume_at(&mut cluster, 2, client, &bob().username);
    let names = names_after(&mut cluster, client, seen);
    assert_eq!(
        names.iter().filter(|name| ["first", "second", "third"].contains(&&***name)).collect::<Vec<_>>(),
        ["third"]
    );
}

#[test]
fn c2_direct_messages_before_and_after_the_report_arrive_once() {
    // The client has read everything up to the report, or not the last message before it.
    for has_read in [true, false] {
        let (mut cluster, client) = bob_with_direct(3);
        dm(&mut cluster, "read");
        cluster.take(client);
        let before = cluster.client(client).seq;
        dm(&mut cluster, "listed");
        cluster.take(client);
        cluster.mirror_all();
        if !has_read {
            cluster.client(client).seq = before;
        }
        let seen = cluster.client(client).seq;
        crash(&mut cluster, 0);
        dm(&mut cluster, "later");
        let client = resume_at(&mut cluster, 1, client, &bob().username);
        let mut names = names_after(&mut cluster, client, seen);
        names.retain(|name| ["read", "listed", "later"].contains(&&**name));
        assert_eq!(names, if has_read { vec!["later"] } else { vec!["listed", "later"] });
    }
}

#[test]
fn c2_a_direct_message_from_before_the_session_is_not_sent() {
    // Its node may also have joined after the message.
    for has_news in [true, false] {
        let mut cluster = nodes(2);
        cluster.add_direct(NewDirect { id: id(DIRECT), recipients: vec![ana(), bob()], is_group: false });
        cluster.hold_news(true);
        dm(&mut cluster, "before");
        if !has_news {
            cluster.drop_news(0);
        }
        cluster.hold_news(false);
        cluster.advance(1);
        let client = live_user(&mut cluster, &bob(), 0);
        cluster.mirror_all();
        let seen = cluster.client(client).seq;
        crash(&mut cluster, 0);
        let client = resume_at(&mut cluster, 1, client, &bob().username);
        assert!(!names_after(&mut cluster, client, seen).contains(&"before".to_owned()));
    }
}

#[test]
fn c2_a_direct_message_after_the_report_is_sent_if_the_client_has_nothing_from_then() {
    let (mut cluster, client) = bob_with_direct(3);
    cluster.mirror_all();
    cluster.take(client);
    let seen = cluster.client(client).seq;
    // The node had it, and the client does not.
    dm(&mut cluster, "unread");
    cluster.client(client).seq = seen;
    crash(&mut cluster, 0);
    let client = resume_at(&mut cluster, 1, client, &bob().username);
    assert!(names_after(&mut cluster, client, seen).contains(&"unread".to_owned()));
}

#[test]
fn c2_a_direct_message_that_the_client_may_have_is_a_doubt() {
    let (mut cluster, client) = bob_with_direct(3);
    cluster.mirror_all();
    dm(&mut cluster, "in the lag");
    cluster.take(client);
    crash(&mut cluster, 0);
    for node in [1, 2] {
        let there = resume_at(&mut cluster, node, client, &bob().username);
        refused(&mut cluster, there, ResumeFault::Doubt);
    }
}

#[test]
fn c2_a_doubt_of_the_node_where_the_client_resumes_counts_too() {
    let (mut cluster, client) = bob_with_direct(2);
    cluster.mirror_all();
    // The holder of the mirror never gets the message, and the client of the killed node has something later.
    cluster.hold_news(true);
    dm(&mut cluster, "in the lag");
    cluster.deliver_news(0, usize::MAX);
    cluster.take(client);
    cluster.deliver_news(1, usize::MAX);
    crash(&mut cluster, 0);
    let there = resume_at(&mut cluster, 1, client, &bob().username);
    refused(&mut cluster, there, ResumeFault::Doubt);
}

#[test]
fn c2_a_stored_direct_message_that_its_killed_node_did_not_send_is_a_doubt() {
    let (mut cluster, client) = bob_with_direct(2);
    dm(&mut cluster, "sent");
    cluster.mirror_all();
    cluster.take(client);
    // The message is stored and acknowledged, and its events end with the node.
    cluster.advance(10);
    cluster.hold_news(true);
    dm(&mut cluster, "stored");
    cluster.drop_news(1);
    crash(&mut cluster, 0);
    let there = resume_at(&mut cluster, 1, client, &bob().username);
    refused(&mut cluster, there, ResumeFault::Doubt);
}

#[test]
fn c2_a_newer_direct_message_hides_none_that_its_killed_node_did_not_send() {
    let (mut cluster, client) = bob_with_direct(2);
    dm(&mut cluster, "sent");
    cluster.mirror_all();
    cluster.take(client);
    cluster.advance(10);
    cluster.hold_news(true);
    dm(&mut cluster, "stored");
    cluster.drop_news(1);
    cluster.kill(0);
    // A node that lives serves the channel from here on.
    dm(&mut cluster, "newer");
    cluster.hold_news(false);
    cluster.run_until_idle();
    cluster.advance(3_000);
    cluster.end_lease();
    let there = resume_at(&mut cluster, 1, client, &bob().username);
    refused(&mut cluster, there, ResumeFault::Doubt);
}

#[test]
fn c2_a_bot_that_gets_no_direct_messages_has_no_doubt_about_them() {
    let mut cluster = nodes(2);
    cluster.add_direct(NewDirect { id: id(DIRECT), recipients: vec![ana(), pro()], is_group: false });
    let intents = Intents::GUILDS.0 | Intents::GUILD_MESSAGES.0;
    let client = live(&mut cluster, &pro(), Some(intents), ClientParams::JSON);
    cluster.mirror_all();
    cluster.advance(10);
    dm(&mut cluster, "not for its intents");
    let seen = cluster.client(client).seq;
    crash(&mut cluster, 0);
    let client = resume_at(&mut cluster, 1, client, &pro().username);
    assert_eq!(names_after(&mut cluster, client, seen), OUTAGE);
}

#[test]
fn c2_more_direct_messages_than_a_mirror_notes_are_a_doubt() {
    for (count, is_doubt) in [(200, false), (300, true)] {
        let (mut cluster, client) = bob_with_direct(2);
        cluster.mirror_all();
        for number in 0..count {
            cluster.advance(10);
            dm(&mut cluster, &number.to_string());
            if number % 50 == 0 {
                cluster.client(client).heartbeat();
                cluster.run_until_idle();
            }
        }
        cluster.client(client).heartbeat();
        cluster.run_until_idle();
        cluster.take(client);
        cluster.advance(10_000);
        cluster.mirror_all();
        let seen = cluster.client(client).seq;
        crash(&mut cluster, 0);
        let there = resume_at(&mut cluster, 1, client, &bob().username);
        match is_doubt {
            true => refused(&mut cluster, there, ResumeFault::Doubt),
            false => assert_eq!(names_after(&mut cluster, there, seen), OUTAGE),
        }
    }
}

#[test]
fn c2_without_the_body_of_a_listed_event_the_client_identifies() {
    let (mut cluster, client) = bob_with_direct(2);
    let seen = cluster.client(client).seq;
    cluster.hold_news(true);
    dm(&mut cluster, "lost");
    cluster.deliver_news(0, usize::MAX);
    cluster.take(client);
    cluster.mirror_all();
    // The client has not read it, and it never came to the other node.
    cluster.client(client).seq = seen;
    crash(&mut cluster, 0);
    let there = resume_at(&mut cluster, 1, client, &bob().username);
    refused(&mut cluster, there, ResumeFault::Sequence);
}

#[test]
fn c2_an_event_that_comes_late_to_the_other_node_is_left_out() {
    let (mut cluster, client) = bob_with_direct(2);
    cluster.hold_news(true);
    dm(&mut cluster, "late");
    cluster.deliver_news(0, usize::MAX);
    cluster.take(client);
    cluster.mirror_all();
    let seen = cluster.client(client).seq;
    crash(&mut cluster, 0);
    let client = resume_at(&mut cluster, 1, client, &bob().username);
    cluster.hold_news(false);
    cluster.run_until_idle();
    assert!(!names_after(&mut cluster, client, seen).contains(&"late".to_owned()));
}

#[test]
fn c2_events_that_were_acknowledged_long_ago_are_forgotten_by_both() {
    let (mut cluster, client) = bob_with_direct(2);
    dm(&mut cluster, "old");
    cluster.take(client);
    cluster.client(client).heartbeat();
    cluster.mirror_all();
    cluster.advance(20_000);
    dm(&mut cluster, "new");
    cluster.take(client);
    cluster.mirror_all();
    let seen = cluster.client(client).seq;
    crash(&mut cluster, 0);
    let client = resume_at(&mut cluster, 1, client, &bob().username);
    let names = names_after(&mut cluster, client, seen);
    assert!(!names.contains(&"old".to_owned()) && !names.contains(&"new".to_owned()), "{names:?}");
}

#[test]
fn what_a_session_is_moves_with_its_mirror() {
    let mut cluster = nodes(2);
    let client = live_user(&mut cluster, &bob(), 0);
    cluster.mirror_all();
    let presence = json!({"status": "dnd", "since": null, "activities": [], "afk": false});
    cluster.client(client).send(3, &presence);
    let subscription = json!({"guild_id": id::<()>(GUILD).to_string(), "typing": true, "activities": true});
    cluster.client(client).send(14, &subscription);
    cluster.run_until_idle();
    cluster.take(client);
    cluster.mirror_all();
    crash(&mut cluster, 0);
    let client = resume_at(&mut cluster, 1, client, &bob().username);
    cluster.take(client);
    let session = cluster.partition_at(1).sessions().next().expect("it is there");
    assert_eq!(session.profile.presence.status, guildhall_model::Status::Dnd);
    let subscription = session.guilds.get(id(GUILD)).and_then(|guild| guild.subscription.as_deref());
    assert!(subscription.is_some_and(|subscription| subscription.typing && subscription.activities));
}

#[test]
fn claims_that_do_not_fit_leave_the_mirror() {
    let mut cluster = nodes(2);
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    cluster.mirror_all();
    cluster.take(client);
    let seen = cluster.client(client).seq;
    crash(&mut cluster, 0);
    let other = resume_at(&mut cluster, 1, client, &gob().username);
    refused(&mut cluster, other, ResumeFault::Account);
    let other = cluster.reconnect_to(1, client, ClientParams::ETF);
    cluster.take(other);
    cluster.client(other).resume(&pro().username);
    cluster.run_until_idle();
    refused(&mut cluster, other, ResumeFault::Encoding);
    cluster.client(client).seq = seen + (1 << 21);
    let other = resume_at(&mut cluster, 1, client, &pro().username);
    refused(&mut cluster, other, ResumeFault::Sequence);
    cluster.client(client).seq = seen;
    let client = resume_at(&mut cluster, 1, client, &pro().username);
    assert_eq!(names_after(&mut cluster, client, seen), OUTAGE);
}

#[test]
fn a_session_that_ends_has_no_mirror_and_neither_has_a_revoked_token() {
    for is_revoked in [true, false] {
        let mut cluster = nodes(2);
        let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
        cluster.mirror_all();
        assert_eq!(cluster.partition_at(1).mirrors_held().count, 1);
        let whose = match is_revoked {
            true => Whose::Token(pro().id, 0),
            false => Whose::Session(cluster.client(client).session_id.clone().expect("it has one").into()),
        };
        // A revocation reaches every node; a session that ends is in the next reports.
        let nodes = if is_revoked { 0..2 } else { 0..1 };
        for node in nodes {
            cluster.close_sessions(node, &whose, CloseCode::AuthenticationFailed);
        }
        if !is_revoked {
            cluster.mirror_all();
        }
        assert_eq!(cluster.partition_at(1).mirrors_held().count, 0);
        assert_eq!(cluster.partition_at(1).mirrors_held().bytes, 0);
    }
}

#[test]
fn a_mirror_expires_like_its_session() {
    let mut cluster = nodes(2);
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    cluster.mirror_all();
    crash(&mut cluster, 0);
    cluster.advance(179_999);
    cluster.end_lease();
    assert_eq!(cluster.partition_at(1).mirrors_held().count, 1);
    cluster.advance(1);
    cluster.end_lease();
    assert_eq!(cluster.partition_at(1).mirrors_held().count, 0);
    let there = resume_at(&mut cluster, 1, client, &pro().username);
    refused(&mut cluster, there, ResumeFault::Unknown);
}

#[test]
fn a_session_that_would_not_see_the_outage_has_no_mirror() {
    let mut cluster = nodes(2);
    live(&mut cluster, &pro(), Some(Intents::GUILD_MESSAGES.0), ClientParams::JSON);
    cluster.mirror_all();
    assert_eq!(cluster.partition_at(1).mirrors_held().count, 0);
}

#[test]
fn w1_a_quiet_session_costs_nothing_and_a_busy_one_its_progress() {
    let mut cluster = nodes(2);
    live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    cluster.mirror_all();
    assert_eq!(cluster.collect_mirrors(0).len(), 0, "nothing has changed");
    say(&mut cluster, &ana(), GENERAL, "hello");
    cluster.run_until_idle();
    let mail = cluster.collect_mirrors(0);
    assert_eq!(mail.iter().map(|mail| mail.counts()).collect::<Vec<_>>(), [(0, 1, 0)]);
    // Reports that were lost are made again, whole.
    cluster.partition_at_mut(0).mirrors_lost(None);
    let mail = cluster.collect_mirrors(0);
    assert_eq!(mail.iter().map(|mail| mail.counts()).collect::<Vec<_>>(), [(1, 0, 0)]);
}

#[test]
fn w1_the_end_of_a_session_is_reported_until_its_holder_knows_it() {
    let mut cluster = nodes(2);
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    cluster.mirror_all();
    let whose = Whose::Session(cluster.client(client).session_id.clone().expect("it has one").into());
    cluster.close_sessions(0, &whose, CloseCode::AuthenticationFailed);
    let counts = |mail: &[MirrorMail]| mail.iter().map(MirrorMail::counts).collect::<Vec<_>>();
    for _ in 0..2 {
        let lost = cluster.collect_mirrors(0);
        assert_eq!(counts(&lost), [(0, 0, 1)]);
        cluster.lose_mirrors(lost);
    }
    cluster.mirror_all();
    assert_eq!(cluster.partition_at(1).mirrors_held().count, 0);
    assert_eq!(counts(&cluster.collect_mirrors(0)), []);
}

#[test]
fn w1_ended_sessions_fill_no_page_beyond_its_bytes() {
    let mut cluster = nodes(2);
    // The test cluster's pages have 1,000 bytes.
    cluster.partition_at_mut(0).mirrors_end_again(1_001, &(0..300).collect::<Vec<u64>>());
    let mut sum = 0;
    while let [mail] = &cluster.collect_mirrors(0)[..] {
        let (_, _, ended) = mail.counts();
        assert!(ended * 9 <= 1_000 + 9, "{ended} in a page");
        sum += ended;
    }
    assert_eq!(sum, 300);
}

#[test]
fn w1_a_report_about_a_session_that_another_node_has_reported_is_stale_or_wants_the_whole() {
    let mut cluster = nodes(2);
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    cluster.mirror_all();
    let (now, seq) = (cluster.clock.now(), cluster.client(client).seq);
    let key = mirror_key(&cluster.client(client).session_id.clone().expect("it has one")).expect("one of ours");
    let from = MirrorSource { node: 9, incarnation: 9 };
    for (seq, unknown_count) in [(seq - 1, 0), (seq, 1), (seq + 1, 1)] {
        let progress = vec![MirrorProgress(key, seq, 0, Vec::new())];
        let batch = MirrorBatch { progress, ..MirrorBatch::default() };
        let taken = cluster.partition_at_mut(1).take_mirrors(now, from, batch);
        assert_eq!(taken, MirrorsTaken { refused_count: 0, unknown_count }, "{seq}");
    }
}
