//! Files in a folder, without requests. Those in a bucket: `it::files` of `rest`.

use super::*;
use guildhall_guild::Write;
use guildhall_model::{GuildId, User, UserId};
use guildhall_store::{MemoryStore, PictureOwner, Store, role_picture};
use std::{fs, path::Path};
use sweep::Swept;

/// Of one account in one guild.
const SHARE: Share = Share { sender: 7, guild: Some(GuildId::new(1)) };

struct Epoch;

impl Clock for Epoch {
    fn now(&self) -> guildhall_stdx::Now {
        guildhall_stdx::Now::new(0, 0)
    }
}

async fn open(dir: &Path, bytes_max: u64) -> Files {
    open_with_reserve(dir, bytes_max, 0).await
}

/// With this percentage for pictures alone.
async fn open_with_reserve(dir: &Path, bytes_max: u64, pictures_percent: u32) -> Files {
    let options = FilesOptions {
        dir: dir.join("files"),
        bucket: None,
        base_url: "http://127.0.0.1".to_owned(),
        secret: vec![7; 32],
        account_day_percent: 100,
        guild_percent: 100,
        pictures_percent,
        bytes_max,
        file_bytes_max: 1000,
        picture_bytes_max: 1000,
        sweep_every: Duration::from_secs(600),
        links_expire_s: 0,
    };
    Files::open(options, Arc::new(Epoch)).await.unwrap()
}

#[tokio::test]
async fn s3_attachments_leave_the_reserve_to_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let files = open_with_reserve(dir.path(), 100, 20).await;
    let kept = received(&files, &[1; 70]).await;
    let mut further = files.begin(SHARE).await.unwrap();
    assert!(matches!(further.write(&[1; 11]).await, Err(FileError::Full)));
    drop(further);
    let held = files.hold(7, OWNER, vec![("a".repeat(32), vec![1; 30])]).await.unwrap();
    assert_eq!(files.bytes(), 100);
    drop((kept, held));
}

async fn received(files: &Files, bytes: &[u8]) -> Received {
    let mut incoming = files.begin(SHARE).await.unwrap();
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

fn swept(files: u64, pictures: u64) -> Swept {
    Swept { files, pictures }
}

const CHANNEL: ChannelId = ChannelId::new(5);

#[tokio::test]
async fn f2_files_from_before_the_start_count() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), 100).await;
    let first = received(&files, &[1; 60]).await;
    assert_eq!((files.bytes(), first.bytes()), (60, 60));
    first.keep(CHANNEL, Id::new(10)).await.unwrap();
    let mut second = files.begin(SHARE).await.unwrap();
    second.write(&[2; 40]).await.unwrap();
    assert!(matches!(second.write(&[2; 1]).await, Err(FileError::Full)));
    drop(second);
    assert_eq!(files.bytes(), 60, "what did not become whole does not count");
    assert!(names(&dir.path().join("files/incoming")).is_empty());
    // The next node counts complete files, and deletes the others.
    drop(files.begin(SHARE).await.unwrap());
    fs::write(dir.path().join("files/incoming/9"), [0; 10]).unwrap();
    fs::write(dir.path().join("files/readme"), [0; 10]).unwrap();
    let files = open(dir.path(), 100).await;
    assert_eq!(files.bytes(), 60);
    assert!(names(&dir.path().join("files/incoming")).is_empty());
    files.remove(CHANNEL, Id::new(10)).await.unwrap();
    files.remove(CHANNEL, Id::new(10)).await.unwrap();
    assert_eq!(files.bytes(), 0);
}

#[tokio::test]
async fn no_file_takes_the_place_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), 10_000).await;
    received(&files, b"first").await.keep(CHANNEL, Id::new(10)).await.unwrap();
    assert!(received(&files, b"second").await.keep(CHANNEL, Id::new(10)).await.is_err());
    assert_eq!(fs::read(dir.path().join("files/5/10")).unwrap(), b"first");
    assert_eq!(files.bytes(), 5);
    let mut large = files.begin(SHARE).await.unwrap();
    assert!(matches!(large.write(&[0; 1001]).await, Err(FileError::TooLarge(1000))));
}

#[tokio::test]
async fn f3_the_sweep_removes_only_files_without_a_message() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), 10_000).await;
    let store = MemoryStore::new();
    let mut reservation = FileReservation::new(files.clone());
    reservation.add(Id::new(10));
    for n in 10..13 {
        received(&files, b"bytes").await.keep(CHANNEL, Id::new(n)).await.unwrap();
    }
    assert_eq!(files.sweep(&store).await.unwrap(), swept(2, 0), "no message has any of them");
    assert_eq!(names(&dir.path().join("files/5")), ["10"]);
    // An aborted request: its message may still be published.
    drop(reservation);
    assert_eq!(files.sweep(&store).await.unwrap(), swept(0, 0));
    let mut reservation = FileReservation::new(files.clone());
    reservation.add(Id::new(10));
    reservation.settle();
    assert_eq!(files.sweep(&store).await.unwrap(), swept(1, 0));
    assert_eq!((names(&dir.path().join("files")), files.bytes()), (vec![INCOMING.to_owned()], 0));
    assert_eq!(store.largest_id().await.unwrap(), 0);
}

/// The smallest pictures of each kind.
#[tokio::test]
async fn pictures_say_how_large_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let files = open(dir.path(), 1 << 30).await;
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

const USER: UserId = UserId::new(7);
const OWNER: PictureOwner = PictureOwner::User(USER);

async fn set_avatar(store: &MemoryStore, hash: Option<&str>) {
    let user = User { avatar: hash.map(str::to_owned), ..User::new(USER, "ana") };
    store.commit(vec![Write::PutUser(Arc::new(user))]).await.unwrap();
}

fn pictures_of(dir: &Path, owner: &str) -> Vec<String> {
    let dir = dir.join("files/pictures").join(owner);
    if dir.exists() { names(&dir) } else { Vec::new() }
}

fn hashes() -> [String; 2] {
    [format!("a_{}", "0".repeat(32)), "1".repeat(32)]
}

#[tokio::test]
async fn p1_a_picture_is_there_before_its_command_and_goes_with_its_successor() {
    let dir = tempfile::tempdir().unwrap();
    let (files, store) = (open(dir.path(), 1000).await, MemoryStore::new());
    let [first, second] = hashes();
    let held = files.hold(7, OWNER, vec![(first.clone(), vec![1; 10])]).await.unwrap();
    assert_eq!(fs::read(dir.path().join("files").join(pictures::picture_key(OWNER, &first))).unwrap(), [1; 10]);
    set_avatar(&store, Some(&first)).await;
    held.settled(&store).await;
    assert_eq!(pictures_of(dir.path(), "users/7"), [first.as_str()]);
    let held = files.hold(7, OWNER, vec![(second.clone(), vec![2; 20])]).await.unwrap();
    set_avatar(&store, Some(&second)).await;
    held.settled(&store).await;
    assert_eq!((pictures_of(dir.path(), "users/7"), files.bytes()), (vec![second.clone()], 20));
    // A refused command.
    let held = files.hold(7, OWNER, vec![(first.clone(), vec![1; 10])]).await.unwrap();
    held.settled(&store).await;
    assert_eq!(pictures_of(dir.path(), "users/7"), [second.as_str()]);
    set_avatar(&store, None).await;
    files.collect(&store, OWNER).await;
    assert_eq!((pictures_of(dir.path(), "users/7"), files.bytes()), (Vec::new(), 0));
    assert!(!dir.path().join("files/pictures/users/7").exists());
}

#[tokio::test]
async fn p2_pictures_count() {
    let dir = tempfile::tempdir().unwrap();
    let (files, store) = (open(dir.path(), 100).await, MemoryStore::new());
    let [first, second] = hashes();
    let held = files.hold(7, OWNER, vec![(first.clone(), vec![1; 60])]).await.unwrap();
    // The same again: once on the disk.
    let again = files.hold(7, OWNER, vec![(first.clone(), vec![1; 60])]).await;
    assert!(matches!(again, Err(FileError::Full)), "both could have to be written");
    assert_eq!(files.bytes(), 60);
    assert!(matches!(files.hold(7, OWNER, vec![(second, vec![2; 41])]).await, Err(FileError::Full)));
    assert_eq!(files.bytes(), 60);
    set_avatar(&store, Some(&first)).await;
    held.settled(&store).await;
    // The next node counts them, finds their owners, and removes incomplete ones.
    let guild = PictureOwner::Guild(GuildId::new(3));
    let held =
        files.hold(7, guild, vec![("emoji-9".to_owned(), vec![3; 10]), (role_picture(Id::new(4), &first), vec![4; 5])]);
    drop(held.await.unwrap());
    let files = open(dir.path(), 100).await;
    assert_eq!(files.bytes(), 75);
    assert_eq!(files.guild_of_picture(pictures::Kind::Emoji, 9).await.unwrap(), Some(GuildId::new(3)));
    assert_eq!(files.guild_of_picture(pictures::Kind::Role, 4).await.unwrap(), Some(GuildId::new(3)));
    assert_eq!(files.guild_of_picture(pictures::Kind::Sticker, 9).await.unwrap(), None);
    // No guild refers to them.
    assert_eq!(files.sweep(&store).await.unwrap(), swept(0, 2));
    assert_eq!(files.guild_of_picture(pictures::Kind::Emoji, 9).await.unwrap(), None);
    assert_eq!((files.bytes(), pictures_of(dir.path(), "users/7")), (60, vec![first]));
}

#[tokio::test]
async fn p4_a_picture_stays_while_its_command_is_under_way_or_its_outcome_unknown() {
    let dir = tempfile::tempdir().unwrap();
    let (files, store) = (open(dir.path(), 1000).await, MemoryStore::new());
    let [first, _] = hashes();
    let one = files.hold(7, OWNER, vec![(first.clone(), vec![1; 10])]).await.unwrap();
    let other = files.hold(7, OWNER, vec![(first.clone(), vec![1; 10])]).await.unwrap();
    assert_eq!(files.bytes(), 10);
    one.settled(&store).await;
    assert_eq!(files.sweep(&store).await.unwrap(), swept(0, 0));
    // Aborted: its command may still be executed.
    drop(other);
    assert_eq!(files.sweep(&store).await.unwrap(), swept(0, 0));
    assert_eq!(pictures_of(dir.path(), "users/7"), [first]);
}
