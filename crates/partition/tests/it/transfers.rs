//! RESUME at another node: the guilds transfer the session, and its client notices nothing but a new connection.

use crate::fixture::*;
use guildhall_guild::Command;
use guildhall_guild_protocol::{PartitionId, RelayId};
use guildhall_model::Intents;
use guildhall_partition::{Fetched, ResumeFault};
use guildhall_test_kit::{ClientId, ClientParams, GuildBuilder, Hold, Received, TestCluster, TestClusterConfig, id};
use serde_json::json;

fn nodes(count: u16) -> TestCluster {
    world_of(TestClusterConfig { partitions_count: count, are_nodes: true, ..TestClusterConfig::default() })
}

/// The client on a connection to that node, with a RESUME sent; HELLO is taken.
fn resume_at(cluster: &mut TestCluster, node: usize, client: ClientId, token: &str) -> ClientId {
    let params = cluster.client(client).params();
    let client = cluster.reconnect_to(node, client, params);
    assert!(matches!(cluster.take(client)[..], [Received::Hello { .. }]));
    cluster.client(client).resume(token);
    cluster.run_until_idle();
    client
}

/// Names of dispatches, or contents of messages, in order; the seqs rise from `after` on.
#[track_caller]
fn received_after(cluster: &mut TestCluster, client: ClientId, after: u64) -> Vec<String> {
    let dispatches = cluster.dispatches(client);
    let seqs: Vec<u64> = dispatches.iter().map(|dispatch| dispatch.seq).collect();
    // A replay leaves out what an outage has replaced.
    assert!(seqs.is_sorted() && seqs.first().is_none_or(|first| *first > after), "{seqs:?} after {after}");
    let name = |dispatch: guildhall_test_kit::Dispatch| match &*dispatch.name {
        "MESSAGE_CREATE" => text(&dispatch.d()["content"]),
        name => name.to_owned(),
    };
    dispatches.into_iter().map(name).collect()
}

fn sessions(cluster: &TestCluster, count: usize) -> Vec<usize> {
    (0..count).map(|node| cluster.partition_at(node).sessions_count()).collect()
}

/// The relay of the guild at a node.
fn relay_at(node: u8) -> RelayId {
    RelayId::first(PartitionId::of_node(node, 0))
}

/// A bot of node 0 without a connection, which resumes at node 1. Its guild has transferred it; messages for the relay
/// of node 0 are held: "before" and what follows it there.
fn half_way(intents: u32) -> (TestCluster, ClientId, u64) {
    let mut cluster = nodes(2);
    let client = live(&mut cluster, &pro(), Some(intents), ClientParams::JSON);
    let seen = cluster.client(client).seq;
    cluster.cut(client);
    cluster.hold(Hold::Mail);
    say(&mut cluster, &ana(), GENERAL, "before");
    let client = resume_at(&mut cluster, 1, client, &pro().username);
    say(&mut cluster, &ana(), GENERAL, "after");
    cluster.deliver_mail(1, usize::MAX);
    assert_eq!(cluster.take(client), [], "node 0 has not the guild's messages");
    assert_eq!(cluster.rests_count(), 1);
    (cluster, client, seen)
}

const ALL: usize = usize::MAX;
const SILENT: u32 = Intents::GUILD_MESSAGES.0 | Intents::MESSAGE_CONTENT.0;

#[test]
fn x1_a_session_moves_and_its_client_notices_nothing() {
    let cases = [
        (pro(), Some(FULL), ClientParams::JSON),
        (pro(), Some(FULL), ClientParams::ETF),
        (pro(), Some(SILENT), ClientParams::JSON),
        (bob(), None, ClientParams::JSON),
    ];
    for (account, intents, params) in cases {
        let mut cluster = nodes(3);
        let mut client = match intents {
            Some(_) => live(&mut cluster, &account, intents, params),
            None => live_user(&mut cluster, &account, 0),
        };
        // To another node, from there to a third one, and back.
        for node in [1, 2, 0, 1] {
            cluster.cut(client);
            let seen = cluster.client(client).seq;
            say_all(&mut cluster, ["one", "two"].map(str::to_owned));
            cluster.run_until_idle();
            client = resume_at(&mut cluster, node, client, &account.username);
            assert_eq!(received_after(&mut cluster, client, seen), ["one", "two", "RESUMED"]);
            let at: Vec<usize> = (0..3).map(|at| usize::from(at == node)).collect();
            assert_eq!(sessions(&cluster, 3), at);
            say(&mut cluster, &ana(), GENERAL, "live");
            assert_eq!(heard(&mut cluster, client).len(), 1);
        }
        let sum = |of: fn(&guildhall_partition::Counters) -> u64| {
            (0..3).map(|node| of(&cluster.partition_at(node).counters())).sum::<u64>()
        };
        assert_eq!((sum(|c| c.moved_here_total), sum(|c| c.moved_away_total)), (4, 4));
        assert_eq!(sum(|c| c.sessions_ended_total), 0, "no session ended");
        assert_eq!(sum(|c| c.resyncs_total), 0);
    }
}

#[test]
fn x1_x2_each_event_is_sent_by_one_node_and_the_old_one_comes_first() {
    let (mut cluster, client, seen) = half_way(FULL);
    cluster.deliver_mail(0, ALL);
    assert_eq!(received_after(&mut cluster, client, seen), ["before", "after", "RESUMED"]);
    assert_eq!(sessions(&cluster, 2), [0, 1]);
}

#[test]
fn x1_presence_voice_and_other_members_notice_nothing() {
    let mut cluster = nodes(2);
    let watcher = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    let client = live_user(&mut cluster, &bob(), 0);
    cluster.client(client).send(
        4,
        &json!({"guild_id": id::<()>(GUILD).to_string(), "channel_id": id::<()>(VOICE).to_string(),
        "self_mute": false, "self_deaf": false}),
    );
    cluster.run_until_idle();
    cluster.take(watcher);
    cluster.take(client);
    let seen = cluster.client(client).seq;
    let client = resume_at(&mut cluster, 1, client, &bob().username);
    assert_eq!(received_after(&mut cluster, client, seen), ["RESUMED"]);
    cluster.advance(20_000);
    assert_eq!(cluster.names(watcher), []);
    // The session at the new node is the one that is in voice.
    cluster.client(client).send(
        4,
        &json!({"guild_id": id::<()>(GUILD).to_string(), "channel_id": null, "self_mute": false, "self_deaf": false}),
    );
    cluster.run_until_idle();
    let names: Vec<String> = cluster.names(watcher).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["VOICE_STATE_UPDATE"]);
}

#[test]
fn x1_a_passive_session_gets_what_changed_at_either_node() {
    let mut cluster = TestCluster::new({
        let mut config = TestClusterConfig { partitions_count: 2, are_nodes: true, ..TestClusterConfig::default() };
        config.partition.passive_above_members = Some(0);
        config
    });
    [ana(), bob(), gob(), pro()].iter().for_each(|account| cluster.add_account(account));
    cluster.add_guild(guild().load());
    // PASSIVE_UPDATE_V1.
    let client = live_user(&mut cluster, &bob(), 1 << 11);
    cluster.take(client);
    let seen = cluster.client(client).seq;
    cluster.cut(client);
    let first = say(&mut cluster, &ana(), GENERAL, "one");
    cluster.run_until_idle();
    let client = resume_at(&mut cluster, 1, client, &bob().username);
    let dispatches = cluster.dispatches(client);
    let updates: Vec<String> = dispatches
        .iter()
        .filter(|dispatch| dispatch.name == "PASSIVE_UPDATE_V1")
        .map(|dispatch| text(&dispatch.d()["channels"][0]["last_message_id"]))
        .collect();
    assert_eq!(updates, [first.to_string()], "{dispatches:?} after {seen}");
    assert!(dispatches.iter().all(|dispatch| !dispatch.name.starts_with("GUILD_")));
}

/// As a node that leaves offers its sessions to another one.
#[test]
fn x1_a_session_whose_client_has_not_come_back_moves_and_its_client_notices_nothing() {
    for (account, intents) in [(pro(), Some(FULL)), (pro(), Some(SILENT)), (bob(), None)] {
        let mut cluster = nodes(3);
        let client = match intents {
            Some(_) => live(&mut cluster, &account, intents, ClientParams::ETF),
            None => live_user(&mut cluster, &account, 0),
        };
        let seen = cluster.client(client).seq;
        assert_eq!(cluster.partition_at(0).detached_claims(), [], "its client is here");
        cluster.cut(client);
        say(&mut cluster, &ana(), GENERAL, "before");
        cluster.run_until_idle();
        let claims = cluster.partition_at(0).detached_claims();
        let [claim] = &claims[..] else { panic!("{claims:?}") };
        let result = cluster.drive(0, |now, partition, link| partition.begin_transfer(now, (claim, 7), ALL, link));
        assert_eq!(cluster.partition_at(0).detached_claims(), [], "it is on its way");
        let session_id = claim.session_id.as_str().into();
        cluster.deliver_fetched(1, Fetched { session_id, user: account.clone(), is_rest: false, result });
        assert_eq!(sessions(&cluster, 3), [0, 1, 0]);
        say(&mut cluster, &ana(), GENERAL, "between");
        cluster.run_until_idle();
        // Its client comes to a third node.
        let client = resume_at(&mut cluster, 2, client, &account.username);
        assert_eq!(received_after(&mut cluster, client, seen), ["before", "between", "RESUMED"]);
        say(&mut cluster, &ana(), GENERAL, "live");
        assert_eq!(heard(&mut cluster, client).len(), 1);
    }
}

#[test]
fn x3_a_guild_whose_messages_are_lost_is_an_outage_and_no_other_is() {
    let mut cluster = nodes(2);
    let other = GuildBuilder::new(2, &ana()).channel(20, guildhall_model::ChannelType::Text).member(&pro(), &[]);
    cluster.add_guild(other.load());
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    let seen = cluster.client(client).seq;
    cluster.cut(client);
    cluster.hold(Hold::Mail);
    let client = resume_at(&mut cluster, 1, client, &pro().username);
    cluster.deliver_mail(1, ALL);
    // The messages of the first guild to node 0 are lost, and node 0 notices it by the next message.
    cluster.overflow(relay_at(0), id(GUILD));
    cluster.release(Hold::Mail);
    cluster.room(relay_at(0), id(GUILD));
    cluster.run_until_idle();
    assert_eq!(received_after(&mut cluster, client, seen), ["GUILD_DELETE", "RESUMED", "GUILD_CREATE"]);
    for (guild_id, channel) in [(GUILD, GENERAL), (2, 20)] {
        let new = guildhall_guild::NewMessage { content: "live".to_owned(), ..guildhall_guild::NewMessage::default() };
        let create = Command::CreateMessage(id(channel), Box::new(new));
        cluster.command_in(id(guild_id), guildhall_guild::Actor::User(ana().id), create).expect("she is in it");
    }
    assert_eq!(heard(&mut cluster, client).len(), 2);
}

#[test]
fn x3_a_guild_whose_messages_are_late_is_an_outage() {
    let (mut cluster, client, seen) = half_way(FULL);
    cluster.advance(2_000);
    cluster.deliver_mail(1, ALL);
    cluster.release(Hold::Mail);
    cluster.run_until_idle();
    // "before" is in the gap, and "after" too, because it came before the outage ended.
    assert_eq!(received_after(&mut cluster, client, seen), ["GUILD_DELETE", "RESUMED", "GUILD_CREATE"]);
    say(&mut cluster, &ana(), GENERAL, "live");
    assert_eq!(heard(&mut cluster, client).len(), 1);
}

#[test]
fn x3_a_guild_that_does_not_answer_is_an_outage() {
    let mut cluster = nodes(2);
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    let seen = cluster.client(client).seq;
    cluster.cut(client);
    cluster.hold(Hold::ToGuilds);
    let client = resume_at(&mut cluster, 1, client, &pro().username);
    cluster.advance(2_000);
    assert_eq!(received_after(&mut cluster, client, seen), ["GUILD_DELETE", "RESUMED"]);
    cluster.release(Hold::ToGuilds);
    cluster.deliver_to_guilds(ALL);
    let names: Vec<String> = cluster.names(client).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["GUILD_CREATE"]);
}

#[test]
fn x3_a_session_that_would_not_see_the_outage_ends() {
    let (mut cluster, client, _) = half_way(SILENT);
    cluster.advance(2_000);
    assert_eq!(cluster.take(client), [Received::InvalidSession(false)]);
    assert_eq!((sessions(&cluster, 2), &cluster.refused_resumes[..]), (vec![0, 0], &[ResumeFault::Silent][..]));
}

#[test]
fn x4_a_session_that_is_not_fetched_stays() {
    for transfers_guild in [true, false] {
        let mut cluster = nodes(2);
        let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
        let seen = cluster.client(client).seq;
        cluster.cut(client);
        cluster.hold(Hold::Rests);
        if !transfers_guild {
            cluster.hold(Hold::ToGuilds);
        }
        let there = resume_at(&mut cluster, 1, client, &pro().username);
        say(&mut cluster, &ana(), GENERAL, "one");
        cluster.run_until_idle();
        cluster.advance(2_000);
        cluster.lose_rests();
        assert_eq!(cluster.take(there), [Received::InvalidSession(false)]);
        assert_eq!(sessions(&cluster, 2), [1, 0]);
        cluster.release(Hold::ToGuilds);
        cluster.deliver_to_guilds(ALL);
        cluster.advance(10_000);
        let client = resume_at(&mut cluster, 0, client, &pro().username);
        let expected: &[&str] = match transfers_guild {
            true => &["GUILD_DELETE", "GUILD_CREATE", "RESUMED"],
            // The guild took it late, when node 1 no longer waited for that.
            false => &["one", "GUILD_DELETE", "GUILD_CREATE", "RESUMED"],
        };
        assert_eq!(received_after(&mut cluster, client, seen), expected);
        say(&mut cluster, &ana(), GENERAL, "live");
        assert_eq!(heard(&mut cluster, client).len(), 1);
    }
}

#[test]
fn x4_a_client_that_comes_back_to_the_node_that_has_it_gets_it() {
    let (mut cluster, client, seen) = half_way(FULL);
    let back = resume_at(&mut cluster, 0, client, &pro().username);
    cluster.release(Hold::Mail);
    cluster.run_until_idle();
    assert_eq!(cluster.take(client), [Received::InvalidSession(false)], "the transfer has ended");
    let names = received_after(&mut cluster, back, seen);
    assert_eq!(names, ["RESUMED", "before", "GUILD_DELETE", "GUILD_CREATE"]);
    assert_eq!(sessions(&cluster, 2), [1, 0]);
    say(&mut cluster, &ana(), GENERAL, "live");
    assert_eq!(heard(&mut cluster, back).len(), 1);
}

#[test]
fn a_lost_answer_ends_in_op_9_and_no_node_has_the_session() {
    let mut cluster = nodes(2);
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    cluster.cut(client);
    cluster.hold(Hold::Rests);
    let there = resume_at(&mut cluster, 1, client, &pro().username);
    cluster.lose_rest_answers();
    assert_eq!(cluster.take(there), [Received::InvalidSession(false)]);
    assert_eq!(sessions(&cluster, 2), [0, 0]);
}

#[test]
fn a_second_claim_waits_and_takes_the_session_from_the_first() {
    let mut cluster = nodes(3);
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    let seen = cluster.client(client).seq;
    cluster.cut(client);
    cluster.hold(Hold::Rests);
    let first = resume_at(&mut cluster, 1, client, &pro().username);
    let second = resume_at(&mut cluster, 2, client, &pro().username);
    let third = resume_at(&mut cluster, 2, client, &pro().username);
    assert_eq!(cluster.close_code(second), Some(4000), "a later connection of the same client");
    cluster.release(Hold::Rests);
    cluster.run_until_idle();
    assert_eq!(sessions(&cluster, 3), [0, 0, 1]);
    assert_eq!(received_after(&mut cluster, first, seen), ["RESUMED"]);
    assert_eq!(cluster.close_code(first), None, "its close was taken with its dispatches");
    assert_eq!(received_after(&mut cluster, third, seen), ["RESUMED", "RESUMED"], "the first was not read there");
}

#[test]
fn an_account_that_leaves_the_guild_meanwhile_sees_that_once() {
    // Before or after its guild has transferred it.
    for is_before in [true, false] {
        let mut cluster = nodes(2);
        let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
        let seen = cluster.client(client).seq;
        cluster.cut(client);
        cluster.hold(Hold::Mail);
        if is_before {
            cluster.hold(Hold::ToGuilds);
        }
        let client = resume_at(&mut cluster, 1, client, &pro().username);
        system(&mut cluster, Command::RemoveMember(pro().id));
        cluster.release(Hold::ToGuilds);
        cluster.deliver_to_guilds(ALL);
        cluster.release(Hold::Mail);
        cluster.run_until_idle();
        assert_eq!(received_after(&mut cluster, client, seen), ["GUILD_DELETE", "RESUMED"], "{is_before}");
    }
}

#[test]
fn a_guild_joined_meanwhile_is_created_once() {
    let mut cluster = nodes(2);
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    let seen = cluster.client(client).seq;
    cluster.cut(client);
    cluster.hold(Hold::Rests);
    let client = resume_at(&mut cluster, 1, client, &pro().username);
    cluster.add_guild(GuildBuilder::new(2, &ana()).member(&pro(), &[]).load());
    cluster.announce_joined(&pro(), id(2));
    cluster.run_until_idle();
    cluster.release(Hold::Rests);
    cluster.run_until_idle();
    assert_eq!(received_after(&mut cluster, client, seen), ["GUILD_CREATE", "RESUMED"]);
}

#[test]
fn m3_what_may_not_be_seen_any_more_is_withheld() {
    let mut cluster = nodes(2);
    give_role(&mut cluster, &pro(), INSIDERS);
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    cluster.cut(client);
    say(&mut cluster, &ana(), GENERAL, "open");
    say(&mut cluster, &ana(), HIDDEN, "secret");
    cluster.run_until_idle();
    take_role(&mut cluster, &pro(), INSIDERS);
    cluster.run_until_idle();
    let client = resume_at(&mut cluster, 1, client, &pro().username);
    let contents: Vec<String> = heard(&mut cluster, client).into_iter().map(|(_, content)| content).collect();
    assert_eq!(contents, ["open"]);
    assert_eq!(cluster.partition_at(1).counters().replay_suppressed_total, 1);
}
