//! S21.8: a damaged database is refused at the start, with what to do.

use crate::support::*;
use guildhall_store::{Page, SqliteOptions, SqliteStore, Store as _, StoreError};
use std::{
    fs::{self, File},
    io::{Seek as _, SeekFrom, Write as _},
    path::Path,
};

fn checked(wait_ms: u32) -> SqliteOptions {
    SqliteOptions { check_wait_ms: Some(wait_ms), ..quick() }
}

async fn fill(dir: &Path) {
    let store = open(dir).await;
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    store.commit((0..2_000).map(|n| put_message(100, 101, 1_000 + n)).collect()).await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn s21_8_a_damaged_page_is_found_at_the_start() {
    let dir = TempDir::new();
    fill(dir.path()).await;
    SqliteStore::open(dir.path(), checked(60_000)).await.unwrap().close().await;

    let path = dir.path().join("guildhall.db");
    let pages = fs::metadata(&path).unwrap().len() / 4096;
    assert!(pages > 50, "{pages}");
    let mut file = File::options().write(true).open(&path).unwrap();
    // A leaf of the messages, of which a guild reads no more than the newest.
    file.seek(SeekFrom::Start(pages / 2 * 4096)).unwrap();
    file.write_all(&[0xA5; 4096]).unwrap();
    drop(file);

    let error = SqliteStore::open(dir.path(), checked(60_000)).await.err().expect("a damaged database is refused");
    assert!(matches!(&error, StoreError::Damaged { finding, .. } if finding != "ok"), "{error:?}");
    let text = error.to_string();
    assert!(text.contains("guildhall.db is damaged") && text.contains("guildhall restore"), "{text}");
    // Without the check the same file opens: it is found only where it is read.
    let store = open(dir.path()).await;
    assert!(store.load_guild(id(100)).await.is_ok());
    store.close().await;
}

#[tokio::test]
async fn s21_8_a_long_check_does_not_delay_the_start() {
    let dir = TempDir::new();
    fill(dir.path()).await;
    let store = SqliteStore::open(dir.path(), checked(0)).await.unwrap();
    store.commit(vec![put_message(100, 101, 9_000)]).await.unwrap();
    assert_eq!(page(&store, 101, Page::Newest, 1).await, [9_000]);
    // Closing cancels it: nothing waits for the rest of a large database.
    store.close().await;
    open(dir.path()).await.close().await;
}
