//! Batches: all or nothing, in order, each for itself.

use crate::support::*;
use futures_util::future::join_all;
use guildhall_guild::Write;
use guildhall_model::{Member, User};
use guildhall_store::{Page, Store};
use std::sync::Arc;

pub async fn a_faulty_batch_leaves_nothing(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101, 102])).await.unwrap();
    let react = |n, user| Write::AddReaction(id(101), id(n), unicode("👍"), id(user));
    store.commit(vec![put_message(100, 101, 500), react(500, 1), react(500, 2)]).await.unwrap();
    let (before, history) = (load(store, id(100)).await, store.messages(id(101), Page::Newest, 9).await.unwrap());

    let everything = [
        Write::PutUser(Arc::new(User::new(id(1), "renamed"))),
        Write::PutUser(user(77)),
        Write::PutGuild(guild(200)),
        Write::PutRole(id(100), role(104)),
        Write::DeleteRole(id(100), id(100)),
        Write::PutChannel(channel(100, 103)),
        Write::PutMember(id(100), member(78)),
        Write::DeleteMember(id(100), id(2)),
        put_message(100, 101, 501),
        react(501, 3),
        react(500, 3),
        Write::RemoveReaction(id(101), id(500), unicode("👍"), id(1)),
        Write::ClearReactions(id(101), id(500), None),
        Write::DeleteMessage(id(101), id(500)),
        Write::DeleteChannel(id(100), id(101)),
        Write::DeleteGuild(id(100)),
    ];
    // However much went well before the fault.
    for count in 0..=everything.len() {
        let fault = Write::PutMember(id(404), member(1));
        let writes = everything[..count].iter().cloned().chain([fault]).collect();
        assert_eq!(dangling(store.commit(writes).await), Some("member"), "after {count} writes");
        assert_eq!(load(store, id(100)).await, before, "after {count} writes");
        assert_eq!(store.messages(id(101), Page::Newest, 9).await.unwrap(), history, "after {count} writes");
    }
    assert_eq!(store.guild_ids(id(0), 9).await.unwrap(), [id(100)]);
    assert_eq!(store.user(id(77)).await.unwrap(), None);
    assert_eq!(store.guilds_of_user(id(78), 9).await.unwrap(), []);
    assert_eq!(store.guilds_of_user(id(2), 9).await.unwrap(), [id(100)]);
    assert_eq!(store.guild_of_channel(id(103)).await.unwrap(), None);

    store.commit(everything.to_vec()).await.unwrap();
    assert_eq!(load(store, id(100)).await, None);
}

pub async fn references_to_missing_objects_are_refused(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    store.commit(vec![put_message(100, 101, 500)]).await.unwrap();
    let cases = [
        (Write::PutRole(id(404), role(1)), "role"),
        (Write::PutChannel(channel(404, 1)), "channel"),
        (Write::PutChannel(channel(404, 101)), "channel"),
        (Write::PutMember(id(404), member(1)), "member"),
        (put_message(100, 404, 1), "message"),
        (Write::AddReaction(id(101), id(404), unicode("👍"), id(1)), "reaction"),
        (Write::AddReaction(id(404), id(500), unicode("👍"), id(1)), "reaction"),
        (Write::AddReaction(id(101), id(500), unicode("👍"), id(404)), "reaction"),
    ];
    for (write, what) in cases {
        assert_eq!(dangling(store.commit(vec![write.clone()]).await), Some(what), "{write:?}");
    }
    // Not even after it was there, in the same batch.
    let gone = vec![Write::DeleteMessage(id(101), id(500)), cases_reaction()];
    assert_eq!(dangling(store.commit(gone).await), Some("reaction"));
    let gone = vec![Write::DeleteGuild(id(100)), put_message(100, 101, 501)];
    assert_eq!(dangling(store.commit(gone).await), Some("message"));
    assert_eq!(page(store, 101, Page::Newest, 9).await, [500]);
    assert_eq!(store.guild_of_channel(id(101)).await.unwrap(), Some(id(100)));
}

fn cases_reaction() -> Write {
    Write::AddReaction(id(101), id(500), unicode("👍"), id(1))
}

pub async fn order_within_a_batch(store: &dyn Store) {
    let named = |name: &str| {
        let mut member = Member::clone(&member(20));
        member.user = Arc::new(User::new(id(20), name));
        member.nick = Some(format!("nick of {name}").into());
        Arc::new(member)
    };
    let mut writes = guild_with_channels(100, &[101]);
    writes.extend([
        put_message(100, 101, 500),
        Write::DeleteMessage(id(101), id(500)),
        put_message(100, 101, 500),
        put_message(100, 101, 501),
        Write::DeleteMessage(id(101), id(501)),
        Write::PutMember(id(100), named("a")),
        Write::PutMember(id(100), named("b")),
        Write::PutUser(Arc::new(User::new(id(20), "c"))),
        Write::PutMember(id(100), named("b")),
        Write::PutMember(id(100), member(21)),
        Write::DeleteMember(id(100), id(21)),
        Write::PutMember(id(100), member(22)),
        Write::DeleteMember(id(100), id(22)),
        Write::PutMember(id(100), member(22)),
        Write::PutGuild(guild(200)),
        Write::PutRole(id(200), role(201)),
        Write::DeleteGuild(id(200)),
        Write::PutGuild(guild(200)),
    ]);
    // Many of one kind, the same one twice among them: the last counts.
    writes.extend((1000..1300).map(|n| Write::PutRole(id(100), role(n))));
    writes.extend((1000..1300).map(|n| {
        let mut role = guildhall_model::Role::clone(&role(n));
        role.name = "last".to_owned();
        Write::PutRole(id(100), Arc::new(role))
    }));
    store.commit(writes).await.unwrap();

    assert_eq!(page(store, 101, Page::Newest, 9).await, [500]);
    let loaded = load(store, id(100)).await.unwrap();
    let ids: Vec<_> = loaded.members.iter().map(|member| member.user.id.get()).collect();
    assert_eq!(ids, [1, 2, 3, 4, 5, 6, 7, 8, 9, 20, 22]);
    assert_eq!(loaded.members[9].nick.as_deref(), Some("nick of b"));
    assert_eq!(loaded.members[9].user.username, "c");
    assert_eq!(loaded.roles.len(), 301);
    assert!(loaded.roles[1..].iter().all(|role| role.name == "last"));
    assert_eq!(load(store, id(200)).await.unwrap().roles, []);
}

pub async fn concurrent_batches(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let each = (0..100).map(async |n| {
        for round in 0..5 {
            let (first, second) = (1000 + n * 100 + round * 2, 1001 + n * 100 + round * 2);
            store.commit(vec![put_message(100, 101, first), put_message(100, 101, second)]).await.unwrap();
            // Acknowledged data is readable.
            assert!(store.message(id(101), id(second)).await.unwrap().is_some());
        }
    });
    join_all(each).await;
    assert_eq!(page(store, 101, Page::Newest, 2000).await.len(), 1000);
}

pub async fn only_the_faulty_batch_fails(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let is_faulty = |n: u64| n.is_multiple_of(7);
    // Faulty batches begin and end well, so that there is something to take back in between.
    let batches = (1..100).map(|n| {
        let channel = if is_faulty(n) { 404 } else { 101 };
        store.commit(vec![put_message(100, 101, n * 10), put_message(100, channel, n * 10 + 1)])
    });
    let results = join_all(batches).await;
    for (result, n) in results.into_iter().zip(1..) {
        assert_eq!(dangling(result), is_faulty(n).then_some("message"), "batch {n}");
    }
    let expected: Vec<u64> = (1..100).rev().filter(|n| !is_faulty(*n)).flat_map(|n| [n * 10 + 1, n * 10]).collect();
    assert_eq!(page(store, 101, Page::Newest, 1000).await, expected);
}

/// The owner of a guild commits; a faulty batch fails as it does without an epoch.
pub async fn owners_commit_with_their_epoch(store: &dyn Store) {
    let first = store.claim_guild(id(100)).await.unwrap();
    let second = store.claim_guild(id(200)).await.unwrap();
    store.commit_fenced((id(100), first), guild_with_channels(100, &[101])).await.unwrap();
    store.commit_fenced((id(200), second), guild_with_channels(200, &[201])).await.unwrap();
    let batches = (1..60).map(|n| {
        let (guild_id, epoch, channel_id) = if n % 2 == 0 { (100, first, 101) } else { (200, second, 201) };
        let channel_id = if n % 7 == 0 { 404 } else { channel_id };
        store.commit_fenced((id(guild_id), epoch), vec![put_message(guild_id, channel_id, n)])
    });
    let results = join_all(batches).await;
    for (result, n) in results.into_iter().zip(1_u64..) {
        assert_eq!(dangling(result), n.is_multiple_of(7).then_some("message"), "batch {n}");
    }
    store.commit_fenced((id(100), first), Vec::new()).await.unwrap();
    // Claimed again by the same owner: its earlier commits are there.
    let epoch = store.claim_guild(id(100)).await.unwrap();
    store.commit_fenced((id(100), epoch), vec![put_message(100, 101, 1000)]).await.unwrap();
    let expected: Vec<u64> = (1..60).rev().filter(|n| n % 2 == 0 && n % 7 != 0).collect();
    assert_eq!(page(store, 101, Page::Newest, 100).await, [vec![1000], expected].concat());
}
