//! Backups: everything that was acknowledged before, nothing half, while the store is written to.

use crate::support::*;
use guildhall_store::{Page, Store as _, StoreError, backup_database};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_beside_a_writer_has_everything_that_was_acknowledged() {
    let (dir, copy) = (TempDir::new(), TempDir::new());
    let store = Arc::new(open(dir.path()).await);
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let (acknowledged, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let writing = tokio::spawn({
        let (store, acknowledged, stop) = (store.clone(), acknowledged.clone(), stop.clone());
        async move {
            for n in 1.. {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // Two that belong together: a backup has both or none.
                store.commit(vec![put_message(100, 101, 2 * n), put_message(100, 101, 2 * n + 1)]).await.unwrap();
                acknowledged.store(n, Ordering::Release);
            }
        }
    });
    for round in 0..5 {
        until("more messages", async || match acknowledged.load(Ordering::Acquire) {
            count if count < (round + 1) * 50 => Err(count),
            _ => Ok(()),
        })
        .await;
        let before = acknowledged.load(Ordering::Acquire);
        let to = copy.path().join(round.to_string());
        std::fs::create_dir(&to).unwrap();
        backup_database(dir.path(), &to.join("guildhall.db")).await.unwrap();
        let restored = open(&to).await;
        let messages = page(&restored, 101, Page::Newest, 1_000_000).await;
        assert!(messages.len() as u64 >= 2 * before, "{} of {}", messages.len(), 2 * before);
        assert_eq!(messages.len() % 2, 0, "a batch is whole");
        assert_eq!(
            load(&restored, id(100)).await,
            load(&*store, id(100)).await.map(|mut guild| {
                // A channel names its newest message.
                guild.channels[0].last_message_id = messages.first().map(|newest| id(*newest));
                guild
            })
        );
        restored.close().await;
    }
    stop.store(true, Ordering::Relaxed);
    within("the writer's end", writing).await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn a_failed_backup_reports_the_reason() {
    let (dir, copy) = (TempDir::new(), TempDir::new());
    let error = backup_database(dir.path(), &copy.path().join("x")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Open { path, .. } if path.ends_with("guildhall.db")), "{error:?}");
    assert!(!dir.path().join("guildhall.db").exists(), "nothing is created");
    open(dir.path()).await.close().await;
    std::fs::write(copy.path().join("x"), "there already").unwrap();
    assert!(backup_database(dir.path(), &copy.path().join("x")).await.is_err());
    assert_eq!(std::fs::read(copy.path().join("x")).unwrap(), b"there already");
}
