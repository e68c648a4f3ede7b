//! The contract of `FileStorage`, against each driver.

use crate::{
    bucket::{options, read},
    s3_server::S3Server,
};
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use guildhall_files::{Bucket, Entry, FileStorage, Folder, Staging, StorageError};
use std::{path::Path, sync::Arc, time::Duration};

/// More than two parts of an upload.
const LARGE_BYTES: usize = (11 << 20) + 7;

struct Driver {
    storage: Arc<dyn FileStorage>,
    staging: Arc<Staging>,
    _dir: tempfile::TempDir,
}

impl Driver {
    /// A file that is ready to be stored.
    fn staged(&self, content: &[u8]) -> std::path::PathBuf {
        let path = self.staging.next_path();
        std::fs::write(&path, content).unwrap();
        path
    }

    async fn put_file(&self, key: &str, content: &[u8]) -> Result<(), StorageError> {
        let path = self.staged(content);
        let done = self.storage.put_file(key, &path, content.len() as u64).await;
        let _ = std::fs::remove_file(path);
        done
    }

    async fn content(&self, key: &str) -> Option<Vec<u8>> {
        match self.storage.open(key).await {
            Ok(opened) => Some(read(opened, None).await),
            Err(StorageError::NotFound) => None,
            Err(error) => panic!("{key}: {error:?}"),
        }
    }

    async fn list(&self, prefix: &str) -> Vec<(String, u64)> {
        let listed: Vec<Entry> = self.storage.list(prefix).try_collect().await.unwrap();
        let mut listed: Vec<_> = listed.into_iter().map(|entry| (entry.key, entry.bytes)).collect();
        listed.sort();
        listed
    }
}

fn open_staging(dir: &Path) -> Arc<Staging> {
    Arc::new(Staging::open(dir.join("files/incoming")).unwrap())
}

fn drivers() -> Vec<(&'static str, Driver)> {
    let dir = tempfile::tempdir().unwrap();
    let staging = open_staging(dir.path());
    let folder = Folder::open(dir.path().join("files"), staging.clone()).unwrap();
    let mut drivers = vec![("folder", Driver { storage: Arc::new(folder), staging, _dir: dir })];
    if let Some(server) = S3Server::shared() {
        for prefix in ["", "a/b"] {
            let dir = tempfile::tempdir().unwrap();
            let staging = open_staging(dir.path());
            let bucket = Bucket::new(options(server, &server.create_bucket(), prefix)).unwrap();
            drivers.push(("bucket", Driver { storage: Arc::new(bucket), staging, _dir: dir }));
        }
    }
    drivers
}

#[tokio::test]
async fn a_file_is_stored_once_read_and_removed() {
    for (name, driver) in drivers() {
        let storage = &driver.storage;
        driver.put_file("5/10", b"first").await.unwrap();
        assert_eq!(driver.content("5/10").await.as_deref(), Some(&b"first"[..]), "{name}");
        // K4
        let again = driver.put_file("5/10", b"second").await;
        assert!(matches!(again, Err(StorageError::AlreadyExists)), "{name}: {again:?}");
        assert_eq!(driver.content("5/10").await.as_deref(), Some(&b"first"[..]), "{name}");
        driver.put_file("5/11", b"").await.unwrap();
        assert_eq!(driver.content("5/11").await.as_deref(), Some(&b""[..]), "{name}");
        assert_eq!(driver.list("").await, [("5/10".to_owned(), 5), ("5/11".to_owned(), 0)], "{name}");
        assert_eq!(storage.remove("5/10").await.unwrap(), Some(5), "{name}");
        assert_eq!(storage.remove("5/10").await.unwrap(), None, "{name}");
        assert_eq!(storage.remove_settled("5/10").await.unwrap(), None, "{name}");
        assert_eq!(driver.content("5/10").await, None, "{name}");
        assert_eq!(storage.remove("5/11").await.unwrap(), Some(0), "{name}");
        assert_eq!(driver.list("").await, [], "{name}");
    }
}

#[tokio::test]
async fn bytes_are_stored_once_under_a_name_of_several_parts() {
    for (name, driver) in drivers() {
        let storage = &driver.storage;
        let key = "pictures/members/3-7/a_0123";
        assert!(storage.put(key, Bytes::from_static(b"picture")).await.unwrap(), "{name}");
        assert!(!storage.put(key, Bytes::from_static(b"picture")).await.unwrap(), "{name}");
        assert!(storage.put("pictures/users/7/b", Bytes::from_static(b"b")).await.unwrap(), "{name}");
        assert!(storage.put("pictures/users/70/c", Bytes::from_static(b"cc")).await.unwrap(), "{name}");
        assert_eq!(driver.content(key).await.as_deref(), Some(&b"picture"[..]), "{name}");
        assert_eq!(driver.list("pictures/users/7/").await, [("pictures/users/7/b".to_owned(), 1)], "{name}");
        assert_eq!(driver.list("pictures/users/8/").await, [], "{name}");
        let users = [("pictures/users/7/b".to_owned(), 1), ("pictures/users/70/c".to_owned(), 2)];
        assert_eq!(driver.list("pictures/users/").await, users, "{name}");
        assert_eq!(storage.remove(key).await.unwrap(), Some(7), "{name}");
        assert!(storage.put(key, Bytes::from_static(b"picture")).await.unwrap(), "{name}");
    }
}

#[tokio::test]
async fn large_files_come_back_whole_and_in_ranges() {
    let content: Vec<u8> = (0..LARGE_BYTES).map(|at| (at % 251) as u8).collect();
    for (name, driver) in drivers() {
        driver.put_file("5/10", &content).await.unwrap();
        assert!(driver.content("5/10").await.as_deref() == Some(&content[..]), "{name}");
        for range in [0..1, 0..65_537, 65_535..65_536, 65_536..65_540, 10..10_000_000, LARGE_BYTES - 9..LARGE_BYTES] {
            let opened = driver.storage.open("5/10").await.unwrap();
            let found = read(opened, Some(range.start as u64..range.end as u64)).await;
            assert!(found == content[range.clone()], "{name}: {range:?}");
        }
        assert_eq!(driver.storage.remove("5/10").await.unwrap(), Some(LARGE_BYTES as u64), "{name}");
    }
}

#[tokio::test]
async fn two_that_store_the_same_bytes_at_once_count_them_once() {
    for (name, driver) in drivers() {
        let put = |n: u32| {
            let storage = driver.storage.clone();
            tokio::spawn(async move { storage.put(&format!("pictures/users/{n}/a"), Bytes::from_static(b"a")).await })
        };
        // A bucket may count both: its next list knows better.
        let puts: Vec<_> = (0..20).map(|n| put(n / 2)).collect();
        let mut new = 0;
        for put in puts {
            let put = tokio::time::timeout(Duration::from_secs(60), put).await.expect("it is stored in time");
            new += u32::from(put.unwrap().unwrap());
        }
        assert!(new == 10 || driver.storage.is_shared() && (10..=20).contains(&new), "{name}: {new}");
        assert_eq!(driver.list("").await.len(), 10, "{name}");
    }
}

#[tokio::test]
async fn a_check_leaves_nothing() {
    for (name, driver) in drivers() {
        driver.storage.check().await.unwrap();
        assert_eq!(driver.list("").await, [], "{name}");
    }
}

#[tokio::test]
async fn names_that_are_not_ours_are_not_listed() {
    for (name, driver) in drivers() {
        driver.put_file("5/10", b"x").await.unwrap();
        if name == "folder" {
            let dir = driver.staging.dir().parent().unwrap();
            std::fs::write(dir.join("read.me"), b"x").unwrap();
            driver.staged(b"on its way");
        }
        assert_eq!(driver.list("").await, [("5/10".to_owned(), 1)], "{name}");
    }
}

#[tokio::test]
#[should_panic(expected = "is no key")]
async fn k1_no_key_leads_elsewhere() {
    let (_, driver) = drivers().remove(0);
    let _ = driver.storage.open("5/../../passwd").await;
}
