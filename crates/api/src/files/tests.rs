//! The folder by itself.

use super::*;
use guildhall_store::{MemoryStore, Store};

struct Epoch;

impl Clock for Epoch {
    fn now(&self) -> guildhall_stdx::Now {
        guildhall_stdx::Now::new(0, 0)
    }
}

fn open(dir: &Path, bytes_max: u64) -> Files {
    let options = FilesOptions {
        dir: dir.join("files"),
        base_url: "http://127.0.0.1".to_owned(),
        secret: vec![7; 32],
        bytes_max,
        file_bytes_max: 1000,
        sweep_every: Duration::from_secs(600),
        links_expire_s: 0,
    };
    Files::open(options, Arc::new(Epoch)).unwrap()
}

async fn received(files: &Files, bytes: &[u8]) -> Received {
    let mut incoming = files.begin().await.unwrap();
    for piece in bytes.chunks(7) {
        incoming.write(piece).await.unwrap();
    }
    incoming.finish().await.unwrap()
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const CHANNEL: ChannelId = ChannelId::new(5);

#[tokio::test]
async fn f2_what_is_there_counts() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), 100);
    let first = received(&files, &[1; 60]).await;
    assert_eq!((files.bytes(), first.bytes()), (60, 60));
    first.keep(CHANNEL, Id::new(10)).await.unwrap();
    let mut second = files.begin().await.unwrap();
    second.write(&[2; 40]).await.unwrap();
    assert!(matches!(second.write(&[2; 1]).await, Err(FileError::Full)));
    drop(second);
    assert_eq!(files.bytes(), 60, "what did not become whole does not count");
    assert!(names(&dir.path().join("files/incoming")).is_empty());
    // The next node counts what is there, and throws away what is not whole.
    drop(files.begin().await.unwrap());
    fs::write(dir.path().join("files/incoming/9"), [0; 10]).unwrap();
    fs::write(dir.path().join("files/readme"), [0; 10]).unwrap();
    let files = open(dir.path(), 100);
    assert_eq!(files.bytes(), 60);
    assert!(names(&dir.path().join("files/incoming")).is_empty());
    files.remove(CHANNEL, Id::new(10)).await.unwrap();
    files.remove(CHANNEL, Id::new(10)).await.unwrap();
    assert_eq!(files.bytes(), 0);
}

#[tokio::test]
async fn no_file_takes_the_place_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), 10_000);
    received(&files, b"first").await.keep(CHANNEL, Id::new(10)).await.unwrap();
    assert!(received(&files, b"second").await.keep(CHANNEL, Id::new(10)).await.is_err());
    assert_eq!(fs::read(dir.path().join("files/5/10")).unwrap(), b"first");
    assert_eq!(files.bytes(), 5);
    let mut large = files.begin().await.unwrap();
    assert!(matches!(large.write(&[0; 1001]).await, Err(FileError::TooLarge(1000))));
}

#[tokio::test]
async fn f3_the_sweep_takes_only_what_nobody_claims() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), 10_000);
    let store = MemoryStore::new();
    let mut claim = Claim::new(files.clone());
    claim.add(Id::new(10));
    for n in 10..13 {
        received(&files, b"bytes").await.keep(CHANNEL, Id::new(n)).await.unwrap();
    }
    assert_eq!(files.sweep(&store).await.unwrap(), 2, "no message has any of them");
    assert_eq!(names(&dir.path().join("files/5")), ["10"]);
    // A request that was given up: its message may still come.
    drop(claim);
    assert_eq!(files.sweep(&store).await.unwrap(), 0);
    let mut claim = Claim::new(files.clone());
    claim.add(Id::new(10));
    claim.settle();
    assert_eq!(files.sweep(&store).await.unwrap(), 1);
    assert_eq!((names(&dir.path().join("files")), files.bytes()), (vec![INCOMING.to_owned()], 0));
    assert_eq!(store.largest_id().await.unwrap(), 0);
}

/// The smallest pictures of each kind.
#[tokio::test]
async fn pictures_say_how_large_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), 1 << 30);
    let png = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &640u32.to_be_bytes(), &480u32.to_be_bytes(), &[8, 2, 0, 0, 0]]
        .concat();
    assert_eq!(received(&files, &png).await.width_height, Some((640, 480)));
    let gif = b"GIF89a\x80\x02\xe0\x01\0\0\0";
    assert_eq!(received(&files, gif).await.width_height, Some((640, 480)));
    let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08\x01\xe0\x02\x80\x03";
    assert_eq!(received(&files, jpeg).await.width_height, Some((640, 480)));
    let webp = b"RIFF\x1e\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x7f\x02\0\xdf\x01\0";
    assert_eq!(received(&files, webp).await.width_height, Some((640, 480)));
    assert_eq!(received(&files, b"\x89PNG\r\n\x1a\n").await.width_height, None);
    assert_eq!(received(&files, b"text").await.width_height, None);
}
