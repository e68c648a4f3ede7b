//! Trap 10: a replay shows nothing that its reader may no longer see, and keeps everything else.

use crate::fixture::*;
use guildhall_guild::Command;
use guildhall_model::{Overwrite, OverwriteKind, Permissions};
use guildhall_test_kit::{ClientParams, Received, TestCluster, id};

/// An insider bot without a connection; both channels have new messages.
fn away() -> (TestCluster, guildhall_test_kit::ClientId, u64) {
    let mut cluster = world();
    give_role(&mut cluster, &gob(), INSIDERS);
    let client = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    let seen = cluster.client(client).seq;
    cluster.cut(client);
    say(&mut cluster, &ana(), GENERAL, "open 1");
    say(&mut cluster, &ana(), HIDDEN, "secret 1");
    say(&mut cluster, &ana(), GENERAL, "open 2");
    say(&mut cluster, &ana(), HIDDEN, "secret 2");
    cluster.run_until_idle();
    (cluster, client, seen)
}

/// Sequence numbers, names and contents of a replay, without RESUMED.
fn replay(cluster: &mut TestCluster, client: guildhall_test_kit::ClientId) -> Vec<(u64, String)> {
    let (_, received) = resumed(cluster, client, &gob());
    let mut received: Vec<(u64, String)> = received
        .into_iter()
        .map(|received| match received {
            Received::Dispatch(dispatch) => {
                let d = dispatch.d();
                (
                    dispatch.seq,
                    d["content"].as_str().filter(|content| !content.is_empty()).map_or(dispatch.name, str::to_owned),
                )
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(received.pop().expect("it ends with RESUMED").1, "RESUMED");
    received
}

fn check(change: impl FnOnce(&mut TestCluster), expected: &[(u64, &str)]) {
    let (mut cluster, client, seen) = away();
    change(&mut cluster);
    cluster.run_until_idle();
    // Contents are redacted for this bot, so the channel identifies the message.
    let (_, received) = resumed(&mut cluster, client, &gob());
    let mut dispatches = Vec::new();
    for received in received {
        let Received::Dispatch(dispatch) = received else { panic!("{received:?}") };
        let d = dispatch.d();
        let place = match d["channel_id"].as_str() {
            Some(in_channel) if in_channel == channel(HIDDEN).to_string() => "hidden",
            Some(_) => "general",
            None => "",
        };
        let what = if dispatch.name == "MESSAGE_CREATE" { place.to_owned() } else { dispatch.name };
        dispatches.push((dispatch.seq - seen, what));
    }
    assert_eq!(dispatches.pop().expect("at least RESUMED").1, "RESUMED");
    let dispatches: Vec<(u64, &str)> = dispatches.iter().map(|(seq, what)| (*seq, what.as_str())).collect();
    assert_eq!(dispatches, expected);
    assert_eq!(
        cluster.partition().counters().replay_suppressed_total,
        4 - expected.iter().filter(|(_, what)| matches!(*what, "hidden" | "general")).count() as u64
    );
}

#[test]
fn with_nothing_changed_everything_is_replayed() {
    check(|_| {}, &[(1, "general"), (2, "hidden"), (3, "general"), (4, "hidden")]);
}

#[test]
fn messages_are_withheld_after_the_loss_of_a_role() {
    // A member receives updates of itself whatever its intents.
    check(
        |cluster| take_role(cluster, &gob(), INSIDERS),
        &[(1, "general"), (3, "general"), (5, "GUILD_MEMBER_UPDATE")],
    );
}

#[test]
fn messages_are_withheld_after_an_overwrite() {
    let deny = |target| Overwrite { target, allow: Permissions::NONE, deny: Permissions::VIEW_CHANNEL };
    check(
        |cluster| system(cluster, Command::PutOverwrite(channel(HIDDEN), deny(OverwriteKind::Member(gob().id)))),
        &[(1, "general"), (3, "general"), (5, "CHANNEL_UPDATE")],
    );
    check(
        |cluster| system(cluster, Command::DeleteRole(id(INSIDERS))),
        &[(1, "general"), (3, "general"), (5, "GUILD_ROLE_DELETE"), (6, "CHANNEL_UPDATE")],
    );
}

#[test]
fn everything_is_withheld_from_a_removed_member() {
    check(|cluster| system(cluster, Command::RemoveMember(gob().id)), &[(5, "GUILD_DELETE")]);
}

#[test]
fn messages_of_a_deleted_channel_are_withheld_and_its_deletion_sent() {
    check(
        |cluster| system(cluster, Command::DeleteChannel(channel(HIDDEN))),
        &[(1, "general"), (3, "general"), (5, "CHANNEL_DELETE")],
    );
}

#[test]
fn a_time_out_takes_nothing_away() {
    let until = Some(Some(guildhall_stdx::Timestamp(1_700_000_500_000)));
    let patch = guildhall_guild::MemberPatch { communication_disabled_until: until, ..Default::default() };
    check(
        |cluster| system(cluster, Command::UpdateMember(gob().id, Box::new(patch))),
        &[(1, "general"), (2, "hidden"), (3, "general"), (4, "hidden"), (5, "GUILD_MEMBER_UPDATE")],
    );
}

#[test]
fn messages_are_sent_if_the_role_is_back_at_resume() {
    check(
        |cluster| {
            take_role(cluster, &gob(), INSIDERS);
            cluster.run_until_idle();
            say(cluster, &ana(), HIDDEN, "never for them");
            cluster.run_until_idle();
            give_role(cluster, &gob(), INSIDERS);
        },
        &[
            (1, "general"),
            (2, "hidden"),
            (3, "general"),
            (4, "hidden"),
            (5, "GUILD_MEMBER_UPDATE"),
            (6, "GUILD_MEMBER_UPDATE"),
        ],
    );
}

#[test]
fn a_rejoined_member_receives_the_guild_again() {
    let (mut cluster, client, _) = away();
    system(&mut cluster, Command::RemoveMember(gob().id));
    cluster.run_until_idle();
    system(&mut cluster, Command::AddMember(gob()));
    cluster.run_until_idle();
    let names: Vec<String> = replay(&mut cluster, client).into_iter().map(|(_, name)| name).collect();
    let last: Vec<&str> = names.iter().rev().take(2).rev().map(String::as_str).collect();
    assert_eq!(last, ["GUILD_DELETE", "GUILD_CREATE"], "{names:?}");
    assert!(!names.iter().any(|name| name == "secret 1"));
}

#[test]
fn what_was_withheld_once_stays_withheld() {
    let (mut cluster, client, seen) = away();
    take_role(&mut cluster, &gob(), INSIDERS);
    cluster.run_until_idle();
    assert_eq!(replay(&mut cluster, client).len(), 3);
    give_role(&mut cluster, &gob(), INSIDERS);
    cluster.run_until_idle();
    // The first replay was lost on the way; the client resumes from the same seq.
    let seqs: Vec<u64> = replay(&mut cluster, client).into_iter().map(|(seq, _)| seq - seen).collect();
    assert_eq!(seqs, [1, 3, 5, 6, 7]);
}

#[test]
fn a_live_session_is_not_shown_what_comes_after_it_lost_the_role() {
    let mut cluster = world();
    give_role(&mut cluster, &gob(), INSIDERS);
    let client = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::ETF);
    say(&mut cluster, &ana(), HIDDEN, "one");
    assert_eq!(cluster.names(client).len(), 1);
    take_role(&mut cluster, &gob(), INSIDERS);
    say(&mut cluster, &ana(), HIDDEN, "two");
    let names: Vec<String> = cluster.names(client).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["GUILD_MEMBER_UPDATE"]);
    give_role(&mut cluster, &gob(), INSIDERS);
    say(&mut cluster, &ana(), HIDDEN, "three");
    assert_eq!(cluster.names(client).len(), 2);
}

/// Replay of a dispatch for one session that was lost on the way: `ask` requests it, and `change` then revokes the
/// permission to see it.
fn lost_on_the_way(
    account: &std::sync::Arc<guildhall_model::User>,
    ask: impl FnOnce(&mut TestCluster, guildhall_test_kit::ClientId),
    change: impl FnOnce(&mut TestCluster),
) -> Vec<String> {
    let mut cluster = world();
    give_role(&mut cluster, account, INSIDERS);
    say(&mut cluster, &ana(), HIDDEN, "secret");
    let intents = account.bot.then_some(FULL);
    let client = live(&mut cluster, account, intents, ClientParams::JSON);
    cluster.stop_reading(client);
    ask(&mut cluster, client);
    cluster.run_until_idle();
    cluster.cut(client);
    change(&mut cluster);
    cluster.run_until_idle();
    let (_, replayed) = replayed(&mut cluster, client, account);
    replayed.into_iter().map(|(_, name)| name).collect()
}

#[test]
fn requested_members_are_withheld_from_a_removed_member() {
    let ask = |cluster: &mut TestCluster, client| {
        let d = serde_json::json!({"guild_id": id::<()>(GUILD).to_string(), "query": "", "limit": 0});
        cluster.client(client).send(8, &d);
    };
    assert_eq!(lost_on_the_way(&pro(), ask, |_| {}), ["GUILD_MEMBERS_CHUNK"]);
    let thrown_out = |cluster: &mut TestCluster| system(cluster, Command::RemoveMember(pro().id));
    assert_eq!(lost_on_the_way(&pro(), ask, thrown_out), ["GUILD_DELETE"]);
}

#[test]
fn a_guild_create_is_withheld_from_a_removed_member() {
    let again = |cluster: &mut TestCluster, _| {
        system(cluster, Command::RemoveMember(pro().id));
        system(cluster, Command::AddMember(pro()));
    };
    assert_eq!(lost_on_the_way(&pro(), again, |_| {}), ["GUILD_DELETE", "GUILD_CREATE"]);
    let thrown_out = |cluster: &mut TestCluster| system(cluster, Command::RemoveMember(pro().id));
    assert_eq!(lost_on_the_way(&pro(), again, thrown_out), ["GUILD_DELETE", "GUILD_DELETE"]);
}

#[test]
fn requested_last_messages_are_withheld_after_the_loss_of_a_channel() {
    let ask = |cluster: &mut TestCluster, client| {
        let channels = [channel(HIDDEN).to_string()];
        let d = serde_json::json!({"guild_id": id::<()>(GUILD).to_string(), "channel_ids": channels});
        cluster.client(client).send(34, &d);
    };
    assert_eq!(lost_on_the_way(&bob(), ask, |_| {}), ["LAST_MESSAGES"]);
    let blind = |cluster: &mut TestCluster| take_role(cluster, &bob(), INSIDERS);
    assert_eq!(lost_on_the_way(&bob(), ask, blind), ["GUILD_MEMBER_UPDATE"]);
}
