//! RESUME at another node, of which one has an earlier release: the session moves there. Nothing lost in silence,
//! nothing twice, one node at a time has it.

use crate::fixture::*;
use guildhall_guild::{Actor, Command, NewDirect, NewMessage};
use guildhall_partition::ResumeFault;
use guildhall_test_kit::{ClientId, ClientParams, Hold, Received, TestCluster, TestClusterConfig, id};
use serde_json::json;

fn nodes(count: u16) -> TestCluster {
    let config = TestClusterConfig { partitions_count: count, are_nodes: true, ..TestClusterConfig::default() };
    world_of(TestClusterConfig { transfers: false, ..config })
}

/// A bot of node 0 whose connection was lost.
fn lost_bot(cluster: &mut TestCluster) -> ClientId {
    let client = live(cluster, &pro(), Some(FULL), ClientParams::JSON);
    cluster.cut(client);
    client
}

/// The client on a connection to that node; HELLO is taken.
fn at_node(cluster: &mut TestCluster, node: usize, client: ClientId) -> ClientId {
    let params = cluster.client(client).params();
    let client = cluster.reconnect_to(node, client, params);
    assert!(matches!(cluster.take(client)[..], [Received::Hello { .. }]));
    client
}

fn resume_at(cluster: &mut TestCluster, node: usize, client: ClientId) -> ClientId {
    let client = at_node(cluster, node, client);
    cluster.client(client).resume(&pro().username);
    cluster.run_until_idle();
    client
}

/// Names, or contents of messages, in order; the seqs follow `after`.
#[track_caller]
fn received_after(cluster: &mut TestCluster, client: ClientId, after: u64) -> Vec<String> {
    let dispatches = cluster.dispatches(client);
    let seqs: Vec<u64> = dispatches.iter().map(|dispatch| dispatch.seq).collect();
    assert!(seqs.iter().zip(after + 1..).all(|(seq, expected)| *seq == expected), "{seqs:?} after {after}");
    let name = |dispatch: guildhall_test_kit::Dispatch| match &*dispatch.name {
        "MESSAGE_CREATE" => text(&dispatch.d()["content"]),
        name => name.to_owned(),
    };
    dispatches.into_iter().map(name).collect()
}

fn sessions(cluster: &TestCluster, count: usize) -> Vec<usize> {
    (0..count).map(|node| cluster.partition_at(node).sessions_count()).collect()
}

const OUTAGE: [&str; 3] = ["GUILD_DELETE", "GUILD_CREATE", "RESUMED"];

#[test]
fn m1_m2_a_session_goes_on_at_the_node_where_its_client_resumes() {
    for params in [ClientParams::JSON, ClientParams::ETF] {
        let mut cluster = nodes(3);
        let mut client = live(&mut cluster, &pro(), Some(FULL), params);
        // To another node, from there to a third one, and back.
        for node in [1, 2, 0, 1] {
            cluster.cut(client);
            let seen = cluster.client(client).seq;
            say_all(&mut cluster, ["one", "two"].map(str::to_owned));
            cluster.run_until_idle();
            client = resume_at(&mut cluster, node, client);
            assert_eq!(received_after(&mut cluster, client, seen), [&["one", "two"][..], &OUTAGE].concat());
            let at: Vec<usize> = (0..3).map(|at| usize::from(at == node)).collect();
            assert_eq!(sessions(&cluster, 3), at);
            say(&mut cluster, &ana(), GENERAL, "live");
            assert_eq!(heard(&mut cluster, client).len(), 1);
        }
        let counters: Vec<_> = (0..3).map(|node| cluster.partition_at(node).counters()).collect();
        let sum = |of: fn(&guildhall_partition::Counters) -> u64| counters.iter().map(of).sum::<u64>();
        assert_eq!((sum(|c| c.moved_here_total), sum(|c| c.moved_away_total)), (4, 4));
        assert_eq!(sum(|c| c.sessions_ended_total), 0, "no session ended");
    }
}

#[test]
fn m1_the_connection_at_the_node_before_is_closed() {
    let mut cluster = nodes(2);
    let old = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    let new = resume_at(&mut cluster, 1, old);
    let seen = cluster.client(old).seq;
    assert_eq!(received_after(&mut cluster, new, seen), OUTAGE);
    assert_eq!(cluster.close_code(old), Some(4000));
    assert_eq!(sessions(&cluster, 2), [0, 1]);
}

#[test]
fn m3_what_may_not_be_seen_any_more_is_withheld() {
    let mut cluster = nodes(2);
    give_role(&mut cluster, &pro(), INSIDERS);
    let client = lost_bot(&mut cluster);
    say(&mut cluster, &ana(), GENERAL, "open");
    say(&mut cluster, &ana(), HIDDEN, "secret");
    cluster.run_until_idle();
    let seen = cluster.client(client).seq;
    take_role(&mut cluster, &pro(), INSIDERS);
    cluster.run_until_idle();
    let client = resume_at(&mut cluster, 1, client);
    let dispatches = cluster.dispatches(client);
    assert!(dispatches.iter().all(|dispatch| dispatch.d()["content"] != "secret"));
    assert!(dispatches.iter().any(|dispatch| dispatch.d()["content"] == "open"));
    assert_eq!(dispatches.last().map(|dispatch| &*dispatch.name), Some("RESUMED"));
    assert!(dispatches.iter().all(|dispatch| dispatch.seq > seen));
    assert_eq!(cluster.partition_at(1).counters().replay_suppressed_total, 1);
}

#[test]
fn m3_a_resume_waits_for_the_guilds_and_shows_nothing_of_one_that_is_silent() {
    let mut cluster = nodes(2);
    let client = lost_bot(&mut cluster);
    say(&mut cluster, &ana(), GENERAL, "said");
    cluster.run_until_idle();
    cluster.hold(Hold::ToGuilds);
    let client = resume_at(&mut cluster, 1, client);
    assert_eq!(cluster.take(client), [], "the guild has not answered");
    cluster.advance(1_999);
    assert_eq!(cluster.take(client), []);
    cluster.advance(1);
    let names: Vec<String> = cluster.names(client).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["GUILD_DELETE", "RESUMED"], "its rights are not known");
    cluster.release(Hold::ToGuilds);
    cluster.deliver_to_guilds(usize::MAX);
    cluster.run_until_idle();
    let names: Vec<String> = cluster.names(client).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["GUILD_CREATE"]);
}

#[test]
fn a_claim_that_does_not_fit_leaves_the_session_where_it_is() {
    let mut cluster = nodes(2);
    let client = lost_bot(&mut cluster);
    let seen = cluster.client(client).seq;
    // Another account, another encoding, a seq that was never sent.
    let other = at_node(&mut cluster, 1, client);
    cluster.client(other).resume(&gob().username);
    assert_eq!(cluster.take(other), [Received::InvalidSession(false)]);
    let other = cluster.reconnect_to(1, client, ClientParams::ETF);
    cluster.client(other).resume(&pro().username);
    cluster.run_until_idle();
    let other = at_node(&mut cluster, 1, client);
    cluster.client(other).seq = seen + 1;
    cluster.client(other).resume(&pro().username);
    cluster.run_until_idle();
    assert_eq!(cluster.refused_resumes, [ResumeFault::Account, ResumeFault::Encoding, ResumeFault::Sequence]);
    assert_eq!(sessions(&cluster, 2), [1, 0]);
    let client = resume_at(&mut cluster, 0, client);
    assert_eq!(received_after(&mut cluster, client, seen), ["RESUMED"]);
}

#[test]
fn a_session_larger_than_the_bound_stays_where_it_is() {
    let mut cluster = nodes(2);
    let client = lost_bot(&mut cluster);
    let seen = cluster.client(client).seq;
    say(&mut cluster, &ana(), GENERAL, &"x".repeat(2_000));
    cluster.run_until_idle();
    cluster.hold(Hold::Fetches);
    let there = resume_at(&mut cluster, 1, client);
    cluster.answer_fetches(2_000);
    assert_eq!(cluster.take(there), [Received::InvalidSession(false)]);
    assert_eq!((sessions(&cluster, 2), &cluster.refused_resumes[..]), (vec![1, 0], &[ResumeFault::Size][..]));
    let client = resume_at(&mut cluster, 0, client);
    assert_eq!(received_after(&mut cluster, client, seen).len(), 2);
}

#[test]
fn m1_of_two_nodes_that_claim_it_one_gets_it() {
    let mut cluster = nodes(3);
    let client = lost_bot(&mut cluster);
    let seen = cluster.client(client).seq;
    cluster.hold(Hold::Fetches);
    let (one, two) = (resume_at(&mut cluster, 1, client), resume_at(&mut cluster, 2, client));
    cluster.answer_fetches(usize::MAX);
    cluster.run_until_idle();
    // The second claim found the session at the first node, where its client had not begun yet.
    let both = [cluster.take(one), cluster.take(two)];
    let resumed = |received: &Received| matches!(received, Received::Dispatch(of) if of.name == "RESUMED");
    assert_eq!(both.iter().filter(|received| received.iter().any(resumed)).count(), 1, "{both:?} after {seen}");
    assert_eq!(sessions(&cluster, 3).iter().sum::<usize>(), 1);
}

#[test]
fn m1_a_lost_answer_ends_in_op_9_and_no_node_has_the_session() {
    let mut cluster = nodes(2);
    let client = lost_bot(&mut cluster);
    cluster.hold(Hold::Fetches);
    let there = resume_at(&mut cluster, 1, client);
    cluster.lose_fetches();
    assert_eq!(cluster.take(there), [Received::InvalidSession(false)]);
    assert_eq!(sessions(&cluster, 2), [0, 0]);
}

#[test]
fn a_client_that_comes_again_while_its_session_is_fetched_gets_it() {
    let mut cluster = nodes(2);
    let client = lost_bot(&mut cluster);
    let seen = cluster.client(client).seq;
    cluster.hold(Hold::Fetches);
    let first = resume_at(&mut cluster, 1, client);
    let second = resume_at(&mut cluster, 1, client);
    assert_eq!(cluster.close_code(first), Some(4000));
    cluster.hold(Hold::ToGuilds);
    cluster.answer_fetches(usize::MAX);
    cluster.run_until_idle();
    // Also while the session waits for its guilds.
    let third = resume_at(&mut cluster, 1, client);
    assert_eq!(cluster.close_code(second), Some(4000));
    cluster.release(Hold::ToGuilds);
    cluster.deliver_to_guilds(usize::MAX);
    cluster.run_until_idle();
    assert_eq!(received_after(&mut cluster, third, seen), OUTAGE);
}

#[test]
fn a_client_that_leaves_while_its_session_is_fetched_resumes_later() {
    let mut cluster = nodes(2);
    let client = lost_bot(&mut cluster);
    let seen = cluster.client(client).seq;
    cluster.hold(Hold::Fetches);
    let there = resume_at(&mut cluster, 1, client);
    cluster.cut(there);
    cluster.answer_fetches(usize::MAX);
    cluster.run_until_idle();
    assert_eq!(sessions(&cluster, 2), [0, 1]);
    let client = resume_at(&mut cluster, 1, client);
    let contents = received_after(&mut cluster, client, seen);
    // Nothing reads from a connection that waits, so the session may have begun there.
    assert_eq!([&*contents[0], &*contents[1], contents.last().unwrap()], OUTAGE, "{contents:?}");
}

#[test]
fn a_guild_joined_while_the_session_moves_is_in_it() {
    let mut cluster = nodes(2);
    let client = lost_bot(&mut cluster);
    cluster.hold(Hold::Fetches);
    let there = resume_at(&mut cluster, 1, client);
    let other = guildhall_test_kit::GuildBuilder::new(2, &ana()).member(&pro(), &[]).load();
    cluster.add_guild(other);
    cluster.announce_joined(&pro(), id(2));
    cluster.run_until_idle();
    cluster.answer_fetches(usize::MAX);
    cluster.run_until_idle();
    let created = cluster.dispatches(there).into_iter().filter(|dispatch| dispatch.name == "GUILD_CREATE");
    let mut created: Vec<String> = created.map(|dispatch| text(&dispatch.d()["id"])).collect();
    created.sort();
    created.dedup();
    let both = [1, 2].map(|guild| id::<()>(guild).to_string());
    assert_eq!(created, both);
}

#[test]
fn m1_m2_sessions_of_a_node_that_leaves_go_on_at_another() {
    let mut cluster = nodes(2);
    let clients: Vec<ClientId> = (0..5).map(|_| live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON)).collect();
    let connected = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    clients.iter().for_each(|client| cluster.cut(*client));
    say_all(&mut cluster, ["one", "two"].map(str::to_owned));
    cluster.run_until_idle();
    let parcels = cluster.send_away(0, 1, ROOM);
    assert_eq!(parcels, [5]);
    assert_eq!(sessions(&cluster, 2), [1, 5], "one has a connection");
    for client in clients {
        let seen = cluster.client(client).seq;
        let client = resume_at(&mut cluster, 1, client);
        assert_eq!(received_after(&mut cluster, client, seen), [&["one", "two"][..], &OUTAGE].concat());
    }
    say(&mut cluster, &ana(), GENERAL, "live");
    assert_eq!(heard(&mut cluster, connected).len(), 3);
}

const ROOM: usize = 1 << 20;

#[test]
fn a_session_that_has_no_room_in_a_parcel_is_in_the_next() {
    let mut cluster = nodes(2);
    // Bodies of one encoding are in a parcel once.
    let all = [ClientParams::JSON, ClientParams::ETF, ClientParams::JSON].map(|params| {
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        cluster.client(client).heartbeat();
        cluster.run_until_idle();
        cluster.cut(client);
        say(&mut cluster, &ana(), GENERAL, &"x".repeat(1_500));
        cluster.run_until_idle();
        client
    });
    assert_eq!(cluster.send_away(0, 1, 1_000), [0], "larger than a parcel");
    assert_eq!(sessions(&cluster, 2), [3, 0]);
    let parcels = cluster.send_away(0, 1, 9_000);
    assert_eq!((parcels.len(), parcels.iter().sum::<usize>()), (2, 3), "{parcels:?}");
    for (client, messages_count) in all.into_iter().zip([3, 2, 1]) {
        let seen = cluster.client(client).seq;
        let params = cluster.client(client).params();
        let client = cluster.reconnect_to(1, client, params);
        cluster.client(client).resume(&pro().username);
        cluster.run_until_idle();
        let contents = received_after(&mut cluster, client, seen);
        assert_eq!(contents.iter().filter(|text| text.starts_with('x')).count(), messages_count);
        assert_eq!(contents.last().map(String::as_str), Some("RESUMED"));
    }
}

#[test]
fn m2_a_session_that_would_not_see_the_outage_stays() {
    let mut cluster = nodes(2);
    let client = live(&mut cluster, &pro(), Some(guildhall_model::Intents::GUILD_MESSAGES.0), ClientParams::JSON);
    cluster.cut(client);
    let there = resume_at(&mut cluster, 1, client);
    assert_eq!(cluster.take(there), [Received::InvalidSession(false)]);
    assert_eq!(cluster.send_away(0, 1, ROOM), [0]);
    assert_eq!(sessions(&cluster, 2), [1, 0]);
}

const DIRECT: u64 = 90;

fn dm(cluster: &mut TestCluster, content: &str) {
    let new = NewMessage { content: content.to_owned(), ..NewMessage::default() };
    let create = Command::CreateMessage(id(DIRECT), Box::new(new));
    cluster.command_in(id(DIRECT), Actor::User(ana().id), create).expect("she is in it");
}

/// Bob's session at node 0, without a connection, in a direct message with Ana.
fn bob_with_direct() -> (TestCluster, ClientId) {
    let mut cluster = nodes(2);
    cluster.add_direct(NewDirect { id: id(DIRECT), recipients: vec![ana(), bob()], is_group: false });
    let client = live_user(&mut cluster, &bob(), 0);
    dm(&mut cluster, "before");
    cluster.run_until_idle();
    cluster.take(client);
    cluster.cut(client);
    (cluster, client)
}

#[test]
fn e1_direct_messages_around_a_move_arrive_once() {
    // How many commands each node takes before the session leaves: the events of the other node come later.
    for (here, there) in [(3, 3), (0, 3), (3, 0), (1, 2), (2, 1), (0, 0)] {
        let (mut cluster, client) = bob_with_direct();
        let seen = cluster.client(client).seq;
        cluster.hold(Hold::Fetches);
        cluster.hold(Hold::Directs);
        let arriving = at_node(&mut cluster, 1, client);
        cluster.client(arriving).resume(&bob().username);
        cluster.run_until_idle();
        cluster.hold_news(true);
        ["one", "two", "three"].iter().for_each(|content| dm(&mut cluster, content));
        cluster.deliver_news(0, here);
        cluster.deliver_news(1, there);
        cluster.answer_fetches(usize::MAX);
        cluster.hold_news(false);
        cluster.run_until_idle();
        let mut contents: Vec<String> = received_after(&mut cluster, arriving, seen);
        contents.retain(|name| ["one", "two", "three"].contains(&&**name));
        assert_eq!(contents, ["one", "two", "three"], "{here} here, {there} there");
    }
}

#[test]
fn e1_a_direct_message_that_comes_late_to_two_nodes_arrives_once() {
    let mut cluster = nodes(3);
    cluster.add_direct(NewDirect { id: id(DIRECT), recipients: vec![ana(), bob()], is_group: false });
    let client = live_user(&mut cluster, &bob(), 0);
    cluster.take(client);
    cluster.hold_news(true);
    dm(&mut cluster, "late");
    cluster.deliver_news(0, 1);
    assert_eq!(heard(&mut cluster, client).len(), 1);
    let mut client = client;
    for node in [1, 2] {
        cluster.cut(client);
        client = at_node(&mut cluster, node, client);
        cluster.client(client).resume(&bob().username);
        cluster.run_until_idle();
    }
    cluster.take(client);
    cluster.hold_news(false);
    cluster.run_until_idle();
    assert_eq!(heard(&mut cluster, client), []);
}

#[test]
fn a_replay_has_the_newest_presence_of_an_account_alone() {
    let mut cluster = nodes(2);
    let other = live_user(&mut cluster, &bob(), 0);
    let client = lost_bot(&mut cluster);
    let show = |cluster: &mut TestCluster, status: &str| {
        let presence = json!({"status": status, "since": null, "activities": [], "afk": false});
        cluster.client(other).send(3, &presence);
        cluster.run_until_idle();
        cluster.advance(20_000);
    };
    show(&mut cluster, "idle");
    assert_eq!(cluster.send_away(0, 1, ROOM), [1]);
    show(&mut cluster, "dnd");
    let client = resume_at(&mut cluster, 1, client);
    let names = cluster.names(client);
    assert_eq!(names.iter().filter(|(_, name)| name == "PRESENCE_UPDATE").count(), 1, "{names:?}");
}
