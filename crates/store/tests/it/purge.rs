//! S21.9: what deleted guilds and channels leave is purged in slices, and other writes do not wait for it.

use crate::{sqlite::raw, support::*};
use guildhall_guild::Write;
use guildhall_store::{Page, SqliteStore, Store as _};
use std::{path::Path, time::Instant};

const MESSAGES: u64 = 20_000;

async fn count(dir: &Path, sql: &'static str) -> i64 {
    let mut raw = raw(dir).await;
    sqlx::query_scalar(sql).fetch_one(&mut raw).await.unwrap()
}

async fn wait_for(dir: &Path, sql: &'static str, expected: i64) {
    until(&format!("{expected} as the answer to {sql}"), async || {
        let found = count(dir, sql).await;
        if found == expected { Ok(()) } else { Err(found) }
    })
    .await;
}

/// A guild with many messages in two channels and many members, and a second guild.
async fn fill(store: &SqliteStore) {
    for n in [100, 200] {
        store.commit(guild_with_channels(n, &[n + 1, n + 2])).await.unwrap();
    }
    for channel_id in [101, 102, 201] {
        let guild_id = channel_id / 100 * 100;
        for batch in 0..MESSAGES / 2_000 {
            let from = 1_000 + batch * 1_000;
            let mut writes: Vec<Write> =
                (from..from + 1_000).map(|n| put_message(guild_id, channel_id, channel_id * 1_000_000 + n)).collect();
            let first = id(channel_id * 1_000_000 + from);
            writes.extend((1..4).map(|user| Write::AddReaction(id(channel_id), first, unicode("🔥"), id(user))));
            store.commit(writes).await.unwrap();
        }
    }
    store.commit((10..3_000).map(|n| Write::PutMember(id(100), member(n))).collect()).await.unwrap();
}

#[tokio::test]
async fn s21_9_a_deleted_guild_is_gone_at_once_and_purged_in_slices() {
    let dir = TempDir::new();
    let store = open(dir.path()).await;
    fill(&store).await;
    let other = load(&store, id(200)).await;
    let before = store.writer_counts();
    store.commit(vec![Write::DeleteGuild(id(100))]).await.unwrap();

    // At once, whatever is still in the tables.
    assert_eq!(load(&store, id(100)).await, None);
    assert_eq!(store.guild_of_channel(id(101)).await.unwrap(), None);
    assert_eq!(store.guilds_of_user(id(1), 10).await.unwrap(), [id(200)]);
    assert_eq!(store.guild_ids(id(0), 10).await.unwrap(), [id(200)]);
    assert_eq!(page(&store, 101, Page::Newest, 10).await, NONE);
    assert_eq!(store.message(id(101), id(101_001_000)).await.unwrap(), None);
    assert_eq!(store.reaction_users(id(101), id(101_001_000), &unicode("🔥"), id(0), 9).await.unwrap(), []);
    assert_eq!(store.messages_by(id(101), id(1), id(0), 10).await.unwrap(), []);

    // Other writes come in between.
    let mut commits = 0;
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = count(dir.path(), "SELECT COUNT(*) FROM messages WHERE guild_id = 100").await;
        if left == 0 {
            break;
        }
        assert!(Instant::now() < deadline, "{left} messages are not purged, after {commits} commits");
        store.commit(vec![put_message(200, 201, 300_000_000 + commits)]).await.unwrap();
        commits += 1;
    }
    assert!(commits > 5, "{commits} commits while {MESSAGES} messages were purged");
    let after = store.writer_counts();
    assert!(after.batches - before.batches > commits + MESSAGES / 500, "{before:?} {after:?}");
    wait_for(dir.path(), "SELECT COUNT(*) FROM deleted_guilds WHERE id > 0", 0).await;
    for sql in [
        "SELECT COUNT(*) FROM members WHERE guild_id = 100",
        "SELECT COUNT(*) FROM roles WHERE guild_id = 100",
        "SELECT COUNT(*) FROM guilds WHERE id = 100",
        "SELECT COUNT(*) FROM channels WHERE guild_id IN (0, 100)",
        "SELECT COUNT(*) FROM reactions WHERE channel_id IN (101, 102)",
    ] {
        assert_eq!(count(dir.path(), sql).await, 0, "{sql}");
    }
    let mut last = load(&store, id(200)).await.unwrap();
    last.channels[0].last_message_id = other.as_ref().unwrap().channels[0].last_message_id;
    assert_eq!(Some(last), other);
    assert_eq!(reactions(&store, 201, 201_001_000).await, [(unicode("🔥"), vec![1, 2, 3])]);
    store.close().await;
}

#[tokio::test]
async fn s21_9_a_purge_that_was_interrupted_goes_on_at_the_next_start() {
    let dir = TempDir::new();
    let store = open(dir.path()).await;
    fill(&store).await;
    store.commit(vec![Write::DeleteChannel(id(100), id(101)), Write::DeleteGuild(id(100))]).await.unwrap();
    store.close().await;
    assert!(count(dir.path(), "SELECT COUNT(*) FROM messages WHERE guild_id = 100").await > 0, "it takes longer");
    let store = open(dir.path()).await;
    assert_eq!(load(&store, id(100)).await, None);
    wait_for(dir.path(), "SELECT COUNT(*) FROM deleted_guilds WHERE id > 0", 0).await;
    assert_eq!(count(dir.path(), "SELECT COUNT(*) FROM messages WHERE guild_id = 100").await, 0);
    store.close().await;
}

#[tokio::test]
async fn s21_9_an_id_that_is_used_again_starts_empty_and_stays() {
    let dir = TempDir::new();
    let store = open(dir.path()).await;
    fill(&store).await;
    store.commit(vec![Write::DeleteGuild(id(100))]).await.unwrap();
    let again = vec![
        Write::PutGuild(guild(100)),
        Write::PutMember(id(100), member(7)),
        Write::PutChannel(channel(100, 101)),
        put_message(100, 101, 500),
    ];
    store.commit(again).await.unwrap();
    wait_for(dir.path(), "SELECT COUNT(*) FROM channels WHERE guild_id = 0", 0).await;
    let loaded = load(&store, id(100)).await.unwrap();
    assert_eq!(loaded.members.iter().map(|member| member.user.id).collect::<Vec<_>>(), [id(7)]);
    assert_eq!((loaded.roles.len(), loaded.channels.len()), (0, 1));
    assert_eq!(page(&store, 101, Page::Newest, 10).await, [500]);
    assert_eq!(page(&store, 102, Page::Newest, 10).await, NONE);
    store.close().await;
}
