//! SQLite driver beyond the contract: files, locks, limits, the writer's queue.

use crate::support::*;
use futures_util::future::join_all;
use guildhall_guild::Write;
use guildhall_store::{Page, SqliteOptions, SqliteStore, Store, StoreError, TokenHash, TokenRecord, WriterCounts};
use sqlx::{ConnectOptions as _, Connection as _, SqliteConnection, sqlite::SqliteConnectOptions};
use std::{fs, future::Future, path::Path, sync::Arc, task::Poll};

/// The database, past the store.
pub async fn raw(dir: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(dir.join("guildhall.db")).connect().await.unwrap()
}

async fn failure(dir: &Path) -> StoreError {
    SqliteStore::open(dir, quick()).await.err().expect("opening should fail")
}

#[tokio::test]
async fn everything_is_there_after_reopening() {
    let dir = TempDir::new();
    let store = open(dir.path()).await;
    let mut writes = guild_with_channels(100, &[101, 102]);
    writes.extend((0..500).map(|n| put_message(100, 101, 500 + n)));
    writes.extend((1..10).map(|n| Write::AddReaction(id(101), id(700), unicode("🔥"), id(n))));
    store.commit(writes).await.unwrap();
    let record = TokenRecord { user_id: id(1), created_at: guildhall_stdx::Timestamp(5) };
    store.put_token(TokenHash::of("t"), record.clone()).await.unwrap();
    store.setting_or_insert("secret", b"value").await.unwrap();
    let before = (load(&store, id(100)).await, store.messages(id(101), Page::Newest, 1000).await.unwrap());
    store.close().await;

    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "the log was merged into the database: {left:?}");
    let store = open(dir.path()).await;
    let after = (load(&store, id(100)).await, store.messages(id(101), Page::Newest, 1000).await.unwrap());
    assert_eq!(after, before);
    assert_eq!(store.token(TokenHash::of("t")).await.unwrap(), Some(record));
    assert_eq!(store.setting("secret").await.unwrap().as_deref(), Some(&b"value"[..]));
    // The order of reactions goes on where it was.
    store.commit(vec![Write::AddReaction(id(101), id(700), unicode("👍"), id(1))]).await.unwrap();
    let order: Vec<_> = reactions(&store, 101, 700).await.into_iter().map(|(emoji, _)| emoji).collect();
    assert_eq!(order, [unicode("🔥"), unicode("👍")]);
}

#[tokio::test]
async fn one_store_at_a_time() {
    let dir = TempDir::new();
    let inside = dir.path().join("made").join("on demand");
    let store = open(&inside).await;
    let error = failure(&inside).await;
    assert!(matches!(&error, StoreError::InUse { process_id: Some(id), .. } if *id == std::process::id()), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("on demand is in use by another process (id "), "{text}");
    store.close().await;
    let store = open(&inside).await;

    // Dropped, it lets go as soon as what was queued is written.
    drop(store);
    until("a free store", async || match SqliteStore::open(&inside, quick()).await {
        Ok(_) => Ok(()),
        Err(error) => {
            assert!(matches!(error, StoreError::InUse { .. }), "{error:?}");
            Err(error)
        }
    })
    .await;
}

#[cfg(unix)]
#[tokio::test]
async fn a_new_directory_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new();
    let inside = dir.path().join("data");
    let _store = open(&inside).await;
    assert_eq!(fs::metadata(&inside).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn an_unusable_database_is_refused() {
    let dir = TempDir::new();
    let file = dir.path().join("file");
    fs::write(&file, "not a directory").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = failure(&path).await;
        assert!(matches!(error, StoreError::DataDir { .. }), "{error:?}");
        let text = chain(&error);
        assert!(text.contains("file") && text.contains("must be a directory that this process may write"), "{text}");
    }

    let directory = dir.path().join("1");
    fs::create_dir_all(directory.join("guildhall.db")).unwrap();
    let text = chain(&failure(&directory).await);
    assert!(text.contains("1/guildhall.db cannot be opened: ") && text.contains("unable to open"), "{text}");

    let garbage = dir.path().join("2");
    fs::create_dir(&garbage).unwrap();
    fs::write(garbage.join("guildhall.db"), "no database at all".repeat(1000)).unwrap();
    let text = chain(&failure(&garbage).await);
    assert!(text.contains("2/guildhall.db cannot be opened: ") && text.contains("not a database"), "{text}");
    assert_eq!(fs::read(garbage.join("guildhall.db")).unwrap().len(), 18_000, "left as it was");
}

#[tokio::test]
async fn other_versions_of_the_schema() {
    let dir = TempDir::new();
    open(dir.path()).await.close().await;
    let execute = async |sql: &'static str| {
        let mut raw = raw(dir.path()).await;
        sqlx::query(sql).execute(&mut raw).await.unwrap();
        raw.close().await.unwrap();
    };
    execute("INSERT INTO _sqlx_migrations VALUES (9999, 'later', 0, TRUE, x'00', 0)").await;
    let error = failure(dir.path()).await;
    assert!(matches!(error, StoreError::SchemaTooNew { found: 9999, known: 1..9999 }), "{error:?}");
    assert!(error.to_string().contains("schema version 9999"), "{error}");

    execute("DELETE FROM _sqlx_migrations WHERE version = 9999").await;
    open(dir.path()).await.close().await;
    execute("UPDATE _sqlx_migrations SET checksum = x'00'").await;
    let error = failure(dir.path()).await;
    assert!(matches!(error, StoreError::Migrate(_)), "{error:?}");
}

#[tokio::test]
async fn a_corrupt_row_is_reported() {
    let dir = TempDir::new();
    let store = open(dir.path()).await;
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    store.commit(vec![put_message(100, 101, 500), put_message(100, 101, 501)]).await.unwrap();
    let mut raw = raw(dir.path()).await;
    for sql in ["UPDATE messages SET data = '{' WHERE id = 500", "UPDATE members SET data = '{}' WHERE user_id = 3"] {
        sqlx::query(sql).execute(&mut raw).await.unwrap();
    }
    let error = store.messages(id(101), Page::Newest, 10).await.unwrap_err();
    assert_eq!(error.to_string(), "the stored message cannot be read");
    assert!(store.message(id(101), id(501)).await.unwrap().is_some());
    let error = store.load_guild(id(100)).await.unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { what: "member", .. }), "{error:?}");
    assert!(chain(&error).contains("joined_at"), "{}", chain(&error));
}

/// Commits that are all queued when the future is first polled.
fn at_once(store: &SqliteStore, batches: Vec<Vec<Write>>) -> impl Future<Output = Vec<Option<&'static str>>> {
    let commits = join_all(batches.into_iter().map(|batch| store.commit(batch)));
    async { commits.await.into_iter().map(dangling).collect() }
}

#[tokio::test]
async fn concurrent_batches_share_a_transaction() {
    let dir = TempDir::new();
    let store = open(dir.path()).await;
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let before = store.writer_counts();
    at_once(&store, (0..500).map(|n| vec![put_message(100, 101, n)]).collect()).await;
    let after = store.writer_counts();
    assert_eq!(after.batches - before.batches, 500);
    assert!(after.transactions - before.transactions <= 3, "{after:?}");
    assert_eq!(after.retries, 0);

    // One faulty batch costs one more try for all, and the rest still share.
    let batches = (0..100).map(|n| vec![put_message(100, if n == 50 { 404 } else { 101 }, 1000 + n)]).collect();
    let results = at_once(&store, batches).await;
    assert_eq!(results.iter().filter(|result| result.is_some()).count(), 1);
    assert_eq!(results[50], Some("message"));
    let last = store.writer_counts();
    assert_eq!((last.batches - after.batches, last.retries), (99, 1));
    assert!(last.transactions - after.transactions <= 3, "{last:?}");
    assert_eq!(page(&store, 101, Page::Newest, 1000).await.len(), 599);
}

#[tokio::test]
async fn transactions_are_bounded() {
    let dir = TempDir::new();
    let options = SqliteOptions { transaction_writes_max: 10, queued_batches_max: 7, ..quick() };
    let store = SqliteStore::open(dir.path(), options).await.unwrap();
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    // More than fit into the queue: the rest wait for room.
    at_once(&store, (0..100).map(|n| vec![put_message(100, 101, n), put_message(100, 101, n + 500)]).collect()).await;
    let WriterCounts { transactions, batches, .. } = store.writer_counts();
    assert_eq!(batches, 101);
    assert!(transactions > 100 / 7, "{transactions}");
    assert_eq!(page(&store, 101, Page::Newest, 1000).await.len(), 200);
}

#[tokio::test]
async fn closing_commits_the_queue() {
    let dir = TempDir::new();
    let store = Arc::new(open(dir.path()).await);
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let commits: Vec<_> = (0..500)
        .map(|n| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.commit(vec![put_message(100, 101, n)]).await })
        })
        .collect();
    tokio::task::yield_now().await; // on one thread, in order: now all are queued
    assert!(!store.has_ended());
    tokio::join!(store.close(), store.close());
    assert!(store.has_ended());
    for commit in commits {
        within("a commit", commit).await.unwrap().unwrap();
    }
    assert!(matches!(store.commit(vec![put_message(100, 101, 999)]).await, Err(StoreError::Closed)));
    assert!(matches!(store.message(id(101), id(1)).await, Err(StoreError::Closed)));
    assert!(matches!(store.revoke_token(TokenHash::of("t")).await, Err(StoreError::Closed)));
    store.close().await;
    assert_eq!(page(&open(dir.path()).await, 101, Page::Newest, 1000).await.len(), 500);
}

#[tokio::test]
async fn a_caller_that_goes_away_changes_nothing() {
    let store = SqliteStore::open_in_memory().await.unwrap();
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let mut commit = Box::pin(store.commit(vec![put_message(100, 101, 500)]));
    std::future::poll_fn(|cx| {
        assert!(commit.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
    drop(commit);
    let mut read = Box::pin(store.messages(id(101), Page::Newest, 10));
    std::future::poll_fn(|cx| {
        let _ = read.as_mut().poll(cx);
        Poll::Ready(())
    })
    .await;
    drop(read);
    store.commit(vec![put_message(100, 101, 501)]).await.unwrap();
    assert_eq!(page(&store, 101, Page::Newest, 10).await, [501, 500]);
}

#[tokio::test]
async fn a_full_database_refuses_and_goes_on() {
    let dir = TempDir::new();
    let options = SqliteOptions { database_bytes_max: Some(1 << 20), ..quick() };
    let store = SqliteStore::open(dir.path(), options).await.unwrap();
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let large = |n| {
        let mut message = message(100, 101, n);
        message.content = "𝕏".repeat(2000);
        Write::PutMessage(Arc::new(message))
    };
    let mut stored = 0;
    let error = loop {
        match store.commit(vec![large(500 + stored), large(5000 + stored)]).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
        assert!(stored < 200, "the limit has no effect");
    };
    assert!(chain(&error).contains("database or disk is full"), "{}", chain(&error));
    assert!(stored > 10);
    assert_eq!(page(&store, 101, Page::Newest, 1000).await.len(), 2 * stored as usize);
    // What needs no room still works, and makes some.
    store.commit((0..5).map(|n| Write::DeleteMessage(id(101), id(500 + n))).collect()).await.unwrap();
    store.commit(vec![large(1)]).await.unwrap();
    store.close().await;
    assert!(fs::metadata(dir.path().join("guildhall.db")).unwrap().len() <= 1 << 20);
    assert_eq!(page(&open(dir.path()).await, 101, Page::Newest, 1000).await.len(), 2 * stored as usize - 4);
}

#[tokio::test]
async fn another_programs_lock_is_an_error_that_passes() {
    let dir = TempDir::new();
    let options = SqliteOptions { busy_timeout_ms: 1, ..quick() };
    let store = SqliteStore::open(dir.path(), options).await.unwrap();
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let mut raw = raw(dir.path()).await;
    let lock = raw.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let (one, two) =
        tokio::join!(store.commit(vec![put_message(100, 101, 500)]), store.commit(vec![put_message(100, 101, 501)]));
    for error in [one.unwrap_err(), two.unwrap_err()] {
        assert!(chain(&error).contains("database is locked"), "{}", chain(&error));
    }
    assert_eq!(page(&store, 101, Page::Newest, 10).await, NONE, "reading goes on");
    lock.rollback().await.unwrap();
    store.commit(vec![put_message(100, 101, 502)]).await.unwrap();
    assert_eq!(page(&store, 101, Page::Newest, 10).await, [502]);
}

/// While it is open, and though no commit does it: the log is merged again and again, and stays short.
#[tokio::test]
async fn the_log_is_merged_beside_the_commits() {
    let dir = TempDir::new();
    let store = open(dir.path()).await;
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let bytes = |name: &str| fs::metadata(dir.path().join(name)).map_or(0, |file| file.len());
    // Some twenty megabytes of log.
    for batch in 0..600 {
        store.commit((0..20).map(|n| put_message(100, 101, 1_000 + batch * 20 + n)).collect()).await.unwrap();
    }
    let messages = store.messages(id(101), Page::Newest, 1000).await.unwrap();
    assert_eq!((messages.len(), messages[0].message.id), (1000, id(1_000 + 12_000 - 1)));
    until("a database of a mebibyte", async || match bytes("guildhall.db") {
        merged if merged > 1 << 20 => Ok(()),
        merged => Err(merged),
    })
    .await;
    assert!(bytes("guildhall.db-wal") < 32 << 20, "{}", bytes("guildhall.db-wal"));
    store.close().await;
}
