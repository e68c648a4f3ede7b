//! Direct messages: READY waits for them, and nothing falls between it and what happens meanwhile.

use crate::fixture::*;
use guildhall_guild::{Actor, Command, NewDirect, NewMessage};
use guildhall_model::{ChannelId, GuildId};
use guildhall_test_kit::{ClientId, ClientParams, Hold, Outage, Received, TestCluster};
use serde_json::json;

const DM: ChannelId = ChannelId::new(9_000);

fn with_direct() -> TestCluster {
    let mut cluster = world();
    cluster.add_direct(NewDirect { id: DM, recipients: vec![ana(), bob()], is_group: false });
    cluster
}

fn write(cluster: &mut TestCluster, content: &str) {
    let new = NewMessage { content: content.to_owned(), ..NewMessage::default() };
    let command = Command::CreateMessage(DM, Box::new(new));
    let guild_id: GuildId = DM.cast();
    cluster.command_in(guild_id, Actor::User(ana().id), command).expect("ana may");
    cluster.run_until_idle();
}

fn names(cluster: &mut TestCluster, client: ClientId) -> Vec<String> {
    cluster.names(client).into_iter().map(|(_, name)| name).collect()
}

#[test]
fn ready_has_direct_messages_and_later_events_follow() {
    let mut cluster = with_direct();
    cluster.hold(Hold::Directs);
    let client = cluster.login(&bob(), None, ClientParams::JSON);
    assert_eq!(names(&mut cluster, client), [""; 0], "it is not ready without them");
    write(&mut cluster, "early");
    assert_eq!(names(&mut cluster, client), [""; 0]);
    cluster.answer_directs();
    cluster.run_until_idle();
    let dispatches = cluster.dispatches(client);
    assert_eq!(dispatches.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["READY", "MESSAGE_CREATE"]);
    assert_eq!(listed(&dispatches[0].d()["private_channels"], "/id"), [DM.to_string()]);
    assert_eq!(dispatches[1].d()["content"], json!("early"));
}

#[test]
fn ready_says_nothing_of_a_guild_that_its_user_was_thrown_out_of_meanwhile() {
    for comes_back in [false, true] {
        let mut cluster = world();
        cluster.hold(Hold::Directs);
        let client = cluster.login(&bob(), None, ClientParams::JSON);
        say(&mut cluster, &ana(), GENERAL, "for those who are in it");
        cluster.command(Actor::System, Command::RemoveMember(bob().id)).expect("it may");
        cluster.run_until_idle();
        if comes_back {
            cluster.command(Actor::System, Command::AddMember(bob())).expect("it may");
            cluster.run_until_idle();
        }
        cluster.answer_directs();
        cluster.run_until_idle();
        let dispatches = cluster.dispatches(client);
        assert_eq!(dispatches.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["READY"]);
        let guilds = dispatches[0].d()["guilds"].as_array().expect("a list").len();
        assert_eq!(guilds, usize::from(comes_back), "each once, and only those it is in");
    }
}

#[test]
fn a_session_whose_direct_messages_cannot_be_read_ends() {
    for times_out in [false, true] {
        let mut cluster = with_direct();
        if times_out {
            cluster.hold(Hold::Directs);
        } else {
            cluster.break_service(Outage::Directs);
        }
        let client = cluster.login(&bob(), None, ClientParams::JSON);
        if times_out {
            cluster.advance(5_000);
        }
        let received = cluster.take(client);
        let ends = matches!(received[..], [Received::Hello { .. }, Received::Close(Some(4000), _), Received::End]);
        assert!(ends, "READY would have an empty list: {received:?}");
        assert_eq!(cluster.partition().sessions_count(), 0);
        // A late answer is dropped.
        cluster.repair(Outage::Directs);
        cluster.release(Hold::Directs);
        cluster.answer_directs();
        let client = cluster.login(&bob(), None, ClientParams::JSON);
        assert_eq!(names(&mut cluster, client), ["READY"]);
    }
}

/// READY counts mentions in what is read, so every message of a guild's view must be in it.
#[test]
fn an_account_is_read_after_its_guilds_have_answered() {
    let mut cluster = with_direct();
    cluster.hold(Hold::ToGuilds);
    // A read would fail now, and end the session.
    cluster.break_service(Outage::Directs);
    let client = cluster.login(&bob(), None, ClientParams::JSON);
    assert_eq!(names(&mut cluster, client), [""; 0]);
    cluster.repair(Outage::Directs);
    cluster.release(Hold::ToGuilds);
    cluster.deliver_to_guilds(usize::MAX);
    cluster.run_until_idle();
    assert_eq!(names(&mut cluster, client), ["READY"]);
}

#[test]
fn direct_messages_of_bots_are_not_fetched() {
    let mut cluster = with_direct();
    cluster.break_service(Outage::Directs);
    let client = cluster.login(&gob(), Some(PLAIN), ClientParams::JSON);
    assert_eq!(names(&mut cluster, client), ["READY", "GUILD_CREATE"]);
}
