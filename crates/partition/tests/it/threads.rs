//! Threads: the sessions that receive each event, live, when a channel becomes visible, after an outage, and at replay
//! (docs/protocol.md §5.3, §7.2, and the notes' "threads").

use crate::fixture::*;
use guildhall_guild::{Actor, Command, MemberPatch, NewThread, Reply};
use guildhall_model::{ChannelId, ChannelType, Permissions, User};
use guildhall_stdx::Timestamp;
use guildhall_test_kit::{ClientId, ClientParams, Dispatch, Pair, Received, id};
use serde_json::{Value, json};
use std::sync::Arc;

/// Manages threads.
const STEWARDS: u64 = 6;

fn stewarded() -> Pair {
    let mut pair = Pair::with(|_| {});
    [ana(), bob(), gob(), pro()].iter().for_each(|user| pair.add_account(user));
    pair.add_guild(guild().role(STEWARDS, Permissions::MANAGE_THREADS).load());
    pair
}

fn begin(pair: &mut Pair, by: &Arc<User>, parent: u64, kind: ChannelType) -> ChannelId {
    let new = NewThread { name: "thread".into(), kind: Some(kind), ..NewThread::default() };
    let command = Command::CreateThread(channel(parent), Box::new(new));
    let reply = pair.command(Actor::User(by.id), command).expect("they may");
    let Reply::Thread(thread) = reply else { panic!("{reply:?}") };
    thread.0.channel.id
}

fn let_in(pair: &mut Pair, thread: ChannelId, who: &Arc<User>) {
    system(pair, Command::AddThreadMember(thread, who.id));
}

fn put_out(pair: &mut Pair, thread: ChannelId, who: &Arc<User>) {
    system(pair, Command::RemoveThreadMember(thread, who.id));
}

fn ids(threads: &Value) -> Vec<ChannelId> {
    let threads = threads.as_array().expect("a list");
    threads.iter().map(|thread| text(&thread["id"]).parse().expect("an id")).collect()
}

/// What THREAD_LIST_SYNC tells, one after the other.
fn synced(dispatches: &[Dispatch]) -> Vec<Vec<ChannelId>> {
    let syncs = dispatches.iter().filter(|dispatch| dispatch.name == "THREAD_LIST_SYNC");
    syncs.map(|dispatch| ids(&dispatch.d()["threads"])).collect()
}

fn replayed(pair: &mut Pair, client: ClientId, who: &Arc<User>) -> Vec<Dispatch> {
    let (_, received) = resumed(pair, client, who);
    let dispatch = |received| if let Received::Dispatch(dispatch) = received { Some(dispatch) } else { None };
    received.into_iter().filter_map(dispatch).collect()
}

#[test]
fn who_comes_to_view_a_channel_is_told_of_threads_they_joined_or_of_all_if_they_asked() {
    for asks in [false, true] {
        let mut pair = stewarded();
        give_role(&mut pair, &bob(), INSIDERS);
        let joined = begin(&mut pair, &ana(), HIDDEN, ChannelType::PublicThread);
        let other = begin(&mut pair, &ana(), HIDDEN, ChannelType::PublicThread);
        let_in(&mut pair, joined, &bob());
        take_role(&mut pair, &bob(), INSIDERS);
        let client = live_user(&mut pair, &bob(), 0);
        if asks {
            subscribe(&mut pair, client, json!({"threads": true}));
            assert_eq!(synced(&pair.dispatches(client)), [vec![]]);
        }
        give_role(&mut pair, &bob(), INSIDERS);
        let expected = if asks { vec![joined, other] } else { vec![joined] };
        assert_eq!(synced(&pair.dispatches(client)), [expected], "asks: {asks}");
    }
}

#[test]
fn who_joined_none_of_a_channels_threads_and_did_not_ask_is_told_nothing() {
    let mut pair = stewarded();
    begin(&mut pair, &ana(), HIDDEN, ChannelType::PublicThread);
    let client = live_user(&mut pair, &bob(), 0);
    give_role(&mut pair, &bob(), INSIDERS);
    assert_eq!(synced(&pair.dispatches(client)), Vec::<Vec<ChannelId>>::new());
}

#[test]
fn a_time_out_that_is_over_hides_no_thread() {
    let mut pair = stewarded();
    give_role(&mut pair, &gob(), STEWARDS);
    let thread = begin(&mut pair, &ana(), GENERAL, ChannelType::PrivateThread);
    let until = |ms| MemberPatch { communication_disabled_until: Some(Some(Timestamp(ms))), ..MemberPatch::default() };
    // When the test's clock begins.
    let now = guildhall_test_kit::FakeClock::default().now().unix.0;
    let told = |pair: &mut Pair| {
        let client = pair.login(&gob(), Some(PLAIN), ClientParams::JSON);
        let dispatches = pair.dispatches(client);
        let created = dispatches.iter().find(|dispatch| dispatch.name == "GUILD_CREATE").expect("it is in the guild");
        ids(&created.d()["threads"])
    };
    system(&mut pair, Command::UpdateMember(gob().id, Box::new(until(now + 10_000))));
    assert_eq!(told(&mut pair), []);
    pair.advance(10_000);
    assert_eq!(told(&mut pair), [thread]);
}

#[test]
fn who_asked_for_all_threads_is_told_of_them_again_after_an_outage() {
    let mut pair = stewarded();
    let thread = begin(&mut pair, &ana(), GENERAL, ChannelType::PublicThread);
    let client = live_user(&mut pair, &bob(), 0);
    subscribe(&mut pair, client, json!({"threads": true}));
    assert_eq!(synced(&pair.dispatches(client)), [vec![thread]]);
    pair.overflow(relay(0), id(GUILD));
    pair.room(relay(0), id(GUILD));
    let dispatches = pair.dispatches(client);
    let created = dispatches.iter().find(|dispatch| dispatch.name == "GUILD_CREATE").expect("it is let in again");
    assert_eq!(ids(&created.d()["threads"]), [], "it joined none");
    assert_eq!(synced(&dispatches), [vec![thread]]);
}

#[test]
fn a_list_of_threads_is_replayed_without_those_that_its_reader_may_not_see_any_more() {
    let mut pair = stewarded();
    let open = begin(&mut pair, &ana(), GENERAL, ChannelType::PublicThread);
    let private = begin(&mut pair, &ana(), GENERAL, ChannelType::PrivateThread);
    let_in(&mut pair, private, &bob());
    let client = live_user(&mut pair, &bob(), 0);
    pair.take(client);
    pair.stop_reading(client);
    subscribe(&mut pair, client, json!({"threads": true}));
    pair.settle();
    pair.cut(client);
    put_out(&mut pair, private, &bob());
    assert_eq!(synced(&replayed(&mut pair, client, &bob())), [vec![open]]);
}

/// Of a list that the previous process sent, only its bytes and its request exist.
#[test]
fn a_list_of_threads_of_the_process_before_is_made_anew_if_its_reader_may_not_see_all_of_it() {
    for restarts in [1, 2] {
        let mut pair = stewarded();
        // The store of this test has no threads, so nobody sees these two after it.
        let before = [ChannelType::PublicThread, ChannelType::PrivateThread].map(|kind| {
            let thread = begin(&mut pair, &ana(), GENERAL, kind);
            let_in(&mut pair, thread, &bob());
            thread
        });
        let client = live_user(&mut pair, &bob(), 0);
        pair.take(client);
        pair.stop_reading(client);
        subscribe(&mut pair, client, json!({"threads": true}));
        pair.settle();
        for _ in 0..restarts {
            pair.advance(1_000);
            let over = pair.restart(vec![guild().load()], 1 << 20);
            assert_eq!(over[0].sessions.len(), 1);
        }
        let since = begin(&mut pair, &ana(), GENERAL, ChannelType::PublicThread);
        assert!(!before.contains(&since));
        // They receive all threads again when their guild attaches them.
        let told = synced(&replayed(&mut pair, client, &bob()));
        assert_eq!(told[0], [since], "after {restarts} restarts: {told:?}");
    }
}

#[test]
fn a_list_of_channels_that_came_into_view_is_replayed_as_far_as_they_still_are() {
    let mut pair = stewarded();
    let general = begin(&mut pair, &ana(), GENERAL, ChannelType::PublicThread);
    let hidden = begin(&mut pair, &ana(), HIDDEN, ChannelType::PublicThread);
    let hide =
        |target| guildhall_model::Overwrite { target, allow: Permissions::NONE, deny: Permissions::VIEW_CHANNEL };
    let gobs = guildhall_model::OverwriteKind::Member(gob().id);
    system(&mut pair, Command::PutOverwrite(channel(GENERAL), hide(gobs)));
    let client = live(&mut pair, &gob(), Some(PLAIN), ClientParams::JSON);
    pair.cut(client);
    // Both come into view at once: the guild is theirs.
    let owner = |who: &Arc<User>| guildhall_guild::GuildPatch { owner_id: Some(who.id), ..Default::default() };
    system(&mut pair, Command::UpdateGuild(Box::new(owner(&gob()))));
    system(&mut pair, Command::UpdateGuild(Box::new(owner(&ana()))));
    give_role(&mut pair, &gob(), INSIDERS);
    let told = synced(&replayed(&mut pair, client, &gob()));
    assert_eq!(told, [vec![hidden], vec![hidden]], "{general} is not in view any more");
}

#[test]
fn who_was_in_a_private_thread_learns_at_replay_that_it_is_gone_and_nothing_of_what_was_said() {
    let mut pair = stewarded();
    let thread = begin(&mut pair, &ana(), GENERAL, ChannelType::PrivateThread);
    let_in(&mut pair, thread, &gob());
    let client = live(&mut pair, &gob(), Some(PLAIN), ClientParams::JSON);
    let outsider = live(&mut pair, &pro(), Some(PLAIN), ClientParams::JSON);
    pair.take(outsider);
    pair.cut(client);
    let said = guildhall_guild::NewMessage { content: "secret".into(), ..Default::default() };
    pair.command(Actor::User(ana().id), Command::CreateMessage(thread, Box::new(said))).expect("she may");
    system(&mut pair, Command::DeleteChannel(thread));
    let names: Vec<String> = replayed(&mut pair, client, &gob()).into_iter().map(|dispatch| dispatch.name).collect();
    assert_eq!(names, ["THREAD_DELETE", "RESUMED"]);
    assert_eq!(pair.dispatches(outsider), []);
}

/// Somebody away who was let into the guild with a private thread in view, and what becomes of their RESUME.
fn comes_back_after(change: impl FnOnce(&mut Pair, ChannelId)) -> Vec<String> {
    let mut pair = stewarded();
    let thread = begin(&mut pair, &ana(), GENERAL, ChannelType::PrivateThread);
    let_in(&mut pair, thread, &gob());
    let client = live(&mut pair, &gob(), Some(PLAIN), ClientParams::JSON);
    pair.cut(client);
    // Its relay lost something: GUILD_CREATE is sent again.
    pair.overflow(relay(0), id(GUILD));
    pair.room(relay(0), id(GUILD));
    pair.settle();
    change(&mut pair, thread);
    pair.settle();
    let (_, received) = resumed(&mut pair, client, &gob());
    received
        .into_iter()
        .map(|received| match received {
            Received::Dispatch(dispatch) => dispatch.name,
            other => format!("{other:?}"),
        })
        .collect()
}

#[test]
fn a_guild_that_tells_of_a_thread_is_not_sent_again_to_who_was_taken_out_of_it() {
    let all = ["GUILD_DELETE", "GUILD_CREATE", "RESUMED"];
    assert_eq!(comes_back_after(|_, _| {}), all);
    assert_eq!(comes_back_after(|pair, thread| put_out(pair, thread, &gob())), ["InvalidSession(false)"]);
    let managing = |pair: &mut Pair, thread| {
        give_role(pair, &gob(), STEWARDS);
        put_out(pair, thread, &gob());
    };
    let names = comes_back_after(managing);
    assert_eq!(names[..2], all[..2], "who manages threads sees it still");
    assert_eq!(names.last().map(String::as_str), Some("RESUMED"));
    let thrown_out = |pair: &mut Pair, _| system(pair, Command::RemoveMember(gob().id));
    assert_eq!(
        comes_back_after(thrown_out),
        ["GUILD_DELETE", "GUILD_DELETE", "RESUMED"],
        "they are not sent it at all"
    );
}
