//! Threads: the sessions that receive each event, live, when a channel becomes visible, after an outage, and at replay
//! (docs/protocol/reference.md §5.3, §7.2).

use crate::fixture::*;
use guildhall_guild::{Actor, Command, MemberPatch, NewThread, Reply};
use guildhall_model::{ChannelId, ChannelType, Permissions, User};
use guildhall_stdx::Timestamp;
use guildhall_test_kit::{ClientId, ClientParams, Dispatch, Received, TestCluster, id};
use serde_json::{Value, json};
use std::sync::Arc;

/// Manages threads.
const STEWARDS: u64 = 6;

fn stewarded() -> TestCluster {
    let mut cluster = TestCluster::with(|_| {});
    [ana(), bob(), gob(), pro()].iter().for_each(|user| cluster.add_account(user));
    cluster.add_guild(guild().role(STEWARDS, Permissions::MANAGE_THREADS).load());
    cluster
}

fn begin(cluster: &mut TestCluster, by: &Arc<User>, parent: u64, kind: ChannelType) -> ChannelId {
    let new = NewThread { name: "thread".into(), kind: Some(kind), ..NewThread::default() };
    let command = Command::CreateThread(channel(parent), Box::new(new));
    let reply = cluster.command(Actor::User(by.id), command).expect("they may");
    let Reply::Thread(thread) = reply else { panic!("{reply:?}") };
    thread.0.channel.id
}

fn add_to_thread(cluster: &mut TestCluster, thread: ChannelId, who: &Arc<User>) {
    system(cluster, Command::AddThreadMember(thread, who.id));
}

fn put_out(cluster: &mut TestCluster, thread: ChannelId, who: &Arc<User>) {
    system(cluster, Command::RemoveThreadMember(thread, who.id));
}

fn ids(threads: &Value) -> Vec<ChannelId> {
    let threads = threads.as_array().expect("a list");
    threads.iter().map(|thread| text(&thread["id"]).parse().expect("an id")).collect()
}

/// Threads in each THREAD_LIST_SYNC.
fn synced(dispatches: &[Dispatch]) -> Vec<Vec<ChannelId>> {
    let syncs = dispatches.iter().filter(|dispatch| dispatch.name == "THREAD_LIST_SYNC");
    syncs.map(|dispatch| ids(&dispatch.d()["threads"])).collect()
}

fn replayed(cluster: &mut TestCluster, client: ClientId, who: &Arc<User>) -> Vec<Dispatch> {
    let (_, received) = resumed(cluster, client, who);
    let dispatch = |received| if let Received::Dispatch(dispatch) = received { Some(dispatch) } else { None };
    received.into_iter().filter_map(dispatch).collect()
}

#[test]
fn a_channel_that_enters_the_view_sends_joined_threads_or_all_by_subscription() {
    for asks in [false, true] {
        let mut cluster = stewarded();
        give_role(&mut cluster, &bob(), INSIDERS);
        let joined = begin(&mut cluster, &ana(), HIDDEN, ChannelType::PublicThread);
        let other = begin(&mut cluster, &ana(), HIDDEN, ChannelType::PublicThread);
        add_to_thread(&mut cluster, joined, &bob());
        take_role(&mut cluster, &bob(), INSIDERS);
        let client = live_user(&mut cluster, &bob(), 0);
        if asks {
            subscribe(&mut cluster, client, json!({"threads": true}));
            assert_eq!(synced(&cluster.dispatches(client)), [vec![]]);
        }
        give_role(&mut cluster, &bob(), INSIDERS);
        let expected = if asks { vec![joined, other] } else { vec![joined] };
        assert_eq!(synced(&cluster.dispatches(client)), [expected], "asks: {asks}");
    }
}

#[test]
fn a_channel_without_joined_threads_sends_no_list() {
    let mut cluster = stewarded();
    begin(&mut cluster, &ana(), HIDDEN, ChannelType::PublicThread);
    let client = live_user(&mut cluster, &bob(), 0);
    give_role(&mut cluster, &bob(), INSIDERS);
    assert_eq!(synced(&cluster.dispatches(client)), Vec::<Vec<ChannelId>>::new());
}

#[test]
fn a_time_out_that_is_over_hides_no_thread() {
    let mut cluster = stewarded();
    give_role(&mut cluster, &gob(), STEWARDS);
    let thread = begin(&mut cluster, &ana(), GENERAL, ChannelType::PrivateThread);
    let until = |ms| MemberPatch { communication_disabled_until: Some(Some(Timestamp(ms))), ..MemberPatch::default() };
    // When the test's clock begins.
    let now = guildhall_test_kit::FakeClock::default().now().unix.0;
    let lists = |cluster: &mut TestCluster| {
        let client = cluster.login(&gob(), Some(PLAIN), ClientParams::JSON);
        let dispatches = cluster.dispatches(client);
        let created = dispatches.iter().find(|dispatch| dispatch.name == "GUILD_CREATE").expect("it is in the guild");
        ids(&created.d()["threads"])
    };
    system(&mut cluster, Command::UpdateMember(gob().id, Box::new(until(now + 10_000))));
    assert_eq!(lists(&mut cluster), []);
    cluster.advance(10_000);
    assert_eq!(lists(&mut cluster), [thread]);
}

#[test]
fn a_subscription_to_all_threads_survives_an_outage() {
    let mut cluster = stewarded();
    let thread = begin(&mut cluster, &ana(), GENERAL, ChannelType::PublicThread);
    let client = live_user(&mut cluster, &bob(), 0);
    subscribe(&mut cluster, client, json!({"threads": true}));
    assert_eq!(synced(&cluster.dispatches(client)), [vec![thread]]);
    cluster.overflow(relay(0), id(GUILD));
    cluster.room(relay(0), id(GUILD));
    let dispatches = cluster.dispatches(client);
    let created = dispatches.iter().find(|dispatch| dispatch.name == "GUILD_CREATE").expect("it is let in again");
    assert_eq!(ids(&created.d()["threads"]), [], "it joined none");
    assert_eq!(synced(&dispatches), [vec![thread]]);
}

#[test]
fn a_list_of_threads_is_replayed_without_those_that_its_reader_may_not_see_any_more() {
    let mut cluster = stewarded();
    let open = begin(&mut cluster, &ana(), GENERAL, ChannelType::PublicThread);
    let private = begin(&mut cluster, &ana(), GENERAL, ChannelType::PrivateThread);
    add_to_thread(&mut cluster, private, &bob());
    let client = live_user(&mut cluster, &bob(), 0);
    cluster.take(client);
    cluster.stop_reading(client);
    subscribe(&mut cluster, client, json!({"threads": true}));
    cluster.run_until_idle();
    cluster.cut(client);
    put_out(&mut cluster, private, &bob());
    assert_eq!(synced(&replayed(&mut cluster, client, &bob())), [vec![open]]);
}

/// Of a list that the previous process sent, only its bytes and its request exist.
#[test]
fn a_list_of_threads_of_the_process_before_is_made_anew_if_its_reader_may_not_see_all_of_it() {
    for restarts in [1, 2] {
        let mut cluster = stewarded();
        // The store of this test has no threads, so these two do not survive the restart.
        let before = [ChannelType::PublicThread, ChannelType::PrivateThread].map(|kind| {
            let thread = begin(&mut cluster, &ana(), GENERAL, kind);
            add_to_thread(&mut cluster, thread, &bob());
            thread
        });
        let client = live_user(&mut cluster, &bob(), 0);
        cluster.take(client);
        cluster.stop_reading(client);
        subscribe(&mut cluster, client, json!({"threads": true}));
        cluster.run_until_idle();
        for _ in 0..restarts {
            cluster.advance(1_000);
            let over = cluster.restart(vec![guild().load()], 1 << 20);
            assert_eq!(over[0].sessions.len(), 1);
        }
        let since = begin(&mut cluster, &ana(), GENERAL, ChannelType::PublicThread);
        assert!(!before.contains(&since));
        // They receive all threads again when their guild attaches them.
        let lists = synced(&replayed(&mut cluster, client, &bob()));
        assert_eq!(lists[0], [since], "after {restarts} restarts: {lists:?}");
    }
}

#[test]
fn a_list_of_channels_that_came_into_view_is_replayed_as_far_as_they_still_are() {
    let mut cluster = stewarded();
    let general = begin(&mut cluster, &ana(), GENERAL, ChannelType::PublicThread);
    let hidden = begin(&mut cluster, &ana(), HIDDEN, ChannelType::PublicThread);
    let hide =
        |target| guildhall_model::Overwrite { target, allow: Permissions::NONE, deny: Permissions::VIEW_CHANNEL };
    let gobs = guildhall_model::OverwriteKind::Member(gob().id);
    system(&mut cluster, Command::PutOverwrite(channel(GENERAL), hide(gobs)));
    let client = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    cluster.cut(client);
    // Both come into view at once: the guild is theirs.
    let owner = |who: &Arc<User>| guildhall_guild::GuildPatch { owner_id: Some(who.id), ..Default::default() };
    system(&mut cluster, Command::UpdateGuild(Box::new(owner(&gob()))));
    system(&mut cluster, Command::UpdateGuild(Box::new(owner(&ana()))));
    give_role(&mut cluster, &gob(), INSIDERS);
    let lists = synced(&replayed(&mut cluster, client, &gob()));
    assert_eq!(lists, [vec![hidden], vec![hidden]], "{general} is not in view any more");
}

#[test]
fn replay_has_the_deletion_of_a_private_thread_without_its_messages() {
    let mut cluster = stewarded();
    let thread = begin(&mut cluster, &ana(), GENERAL, ChannelType::PrivateThread);
    add_to_thread(&mut cluster, thread, &gob());
    let client = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    let outsider = live(&mut cluster, &pro(), Some(PLAIN), ClientParams::JSON);
    cluster.take(outsider);
    cluster.cut(client);
    let secret = guildhall_guild::NewMessage { content: "secret".into(), ..Default::default() };
    cluster.command(Actor::User(ana().id), Command::CreateMessage(thread, Box::new(secret))).expect("she may");
    system(&mut cluster, Command::DeleteChannel(thread));
    let names: Vec<String> = replayed(&mut cluster, client, &gob()).into_iter().map(|dispatch| dispatch.name).collect();
    assert_eq!(names, ["THREAD_DELETE", "RESUMED"]);
    assert_eq!(cluster.dispatches(outsider), []);
}

/// Result of a RESUME of a session that received the guild with a private thread in view, after `change`.
fn comes_back_after(change: impl FnOnce(&mut TestCluster, ChannelId)) -> Vec<String> {
    let mut cluster = stewarded();
    let thread = begin(&mut cluster, &ana(), GENERAL, ChannelType::PrivateThread);
    add_to_thread(&mut cluster, thread, &gob());
    let client = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    cluster.cut(client);
    // Its relay lost something: GUILD_CREATE is sent again.
    cluster.overflow(relay(0), id(GUILD));
    cluster.room(relay(0), id(GUILD));
    cluster.run_until_idle();
    change(&mut cluster, thread);
    cluster.run_until_idle();
    let (_, received) = resumed(&mut cluster, client, &gob());
    received
        .into_iter()
        .map(|received| match received {
            Received::Dispatch(dispatch) => dispatch.name,
            other => format!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_guild_create_with_a_thread_is_withheld_from_a_removed_thread_member() {
    let all = ["GUILD_DELETE", "GUILD_CREATE", "RESUMED"];
    assert_eq!(comes_back_after(|_, _| {}), all);
    assert_eq!(comes_back_after(|cluster, thread| put_out(cluster, thread, &gob())), ["InvalidSession(false)"]);
    let managing = |cluster: &mut TestCluster, thread| {
        give_role(cluster, &gob(), STEWARDS);
        put_out(cluster, thread, &gob());
    };
    let names = comes_back_after(managing);
    assert_eq!(names[..2], all[..2], "a moderator of threads still sees it");
    assert_eq!(names.last().map(String::as_str), Some("RESUMED"));
    let thrown_out = |cluster: &mut TestCluster, _| system(cluster, Command::RemoveMember(gob().id));
    assert_eq!(
        comes_back_after(thrown_out),
        ["GUILD_DELETE", "GUILD_DELETE", "RESUMED"],
        "they are not sent it at all"
    );
}
