//! Properties of the bucket alone: outages, ages, secrets.

use crate::s3_server::{S3Server, SECRET, free_port};
use bytes::Bytes;
use futures_util::TryStreamExt as _;
use guildhall_files::{Bucket, BucketOptions, Entry, FileStorage, Opened, StorageError};
use std::{
    net::TcpListener,
    ops::Range,
    time::{Duration, Instant},
};

pub fn options(server: &S3Server, bucket: &str, prefix: &str) -> BucketOptions {
    BucketOptions {
        bucket: bucket.to_owned(),
        prefix: prefix.to_owned(),
        endpoint: Some(server.endpoint()),
        region: "us-east-1".to_owned(),
        access_key: "AKIATEST".to_owned(),
        secret_key: SECRET.to_owned(),
        tls: None,
        settled_after: Duration::ZERO,
        answer_within: Duration::from_secs(20),
    }
}

/// The bytes of a file, or of a range of it.
pub async fn read(opened: Opened, range: Option<Range<u64>>) -> Vec<u8> {
    match opened {
        Opened::Local(path) => {
            let content = std::fs::read(path).unwrap();
            let range = range.unwrap_or(0..content.len() as u64);
            content[range.start as usize..range.end as usize].to_vec()
        }
        Opened::Remote(remote) => {
            let range = range.unwrap_or(0..remote.bytes);
            let pieces: Vec<Bytes> = remote.read(range).await.unwrap().try_collect().await.unwrap();
            pieces.concat()
        }
    }
}

fn text(error: &StorageError) -> String {
    let source = std::error::Error::source(error).map_or_else(String::new, |source| format!(": {source}"));
    let text = format!("{error}{source} {error:?}");
    assert!(!text.contains(SECRET) && !text.contains("AKIATEST"), "{text}");
    text
}

#[tokio::test]
async fn b1_an_outage_is_reported_in_time_and_ends() {
    let Some(server) = S3Server::start(free_port()) else { return };
    let bucket = Bucket::new(options(&server, "files", "")).unwrap();
    // The bucket does not exist yet.
    let error = bucket.check().await.unwrap_err();
    assert!(text(&error).contains("NoSuchBucket"), "{error:?}");
    // The second key has the number of the status of an unsatisfiable range.
    for key in ["5/10", "5/416"] {
        let error = bucket.open(key).await.err();
        assert!(matches!(error, Some(StorageError::Unavailable(_))), "{key}: {error:?}");
    }
    server.create("files");
    assert!(matches!(bucket.open("5/10").await, Err(StorageError::NotFound)));
    assert!(bucket.put("5/10", Bytes::from_static(b"x")).await.unwrap());
    let failures = bucket.failures_count();
    assert!(failures > 0);

    let options = options(&server, "files", "");
    let port = options.endpoint.as_ref().unwrap().rsplit_once(':').unwrap().1.parse().unwrap();
    drop(server);
    let began = Instant::now();
    for error in [
        bucket.open("5/10").await.err(),
        bucket.put("5/11", Bytes::from_static(b"x")).await.err(),
        bucket.remove("5/10").await.err(),
        bucket.list("").try_collect::<Vec<Entry>>().await.err(),
        bucket.check().await.err(),
    ] {
        let error = error.expect("nobody listens");
        assert!(matches!(error, StorageError::Unavailable(_)), "{error:?}");
        text(&error);
    }
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    assert!(bucket.failures_count() >= failures + 5);

    let Some(server) = S3Server::start(port) else { return };
    server.create("files");
    bucket.check().await.unwrap();
}

#[tokio::test]
async fn a_server_that_never_answers_costs_a_bounded_time() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let bucket = Bucket::new(BucketOptions {
        bucket: "files".to_owned(),
        prefix: String::new(),
        endpoint: Some(format!("http://{}", silent.local_addr().unwrap())),
        region: "us-east-1".to_owned(),
        access_key: "AKIATEST".to_owned(),
        secret_key: SECRET.to_owned(),
        tls: None,
        settled_after: Duration::ZERO,
        answer_within: Duration::from_millis(200),
    })
    .unwrap();
    let began = Instant::now();
    let error = bucket.open("5/10").await.err().expect("no answer");
    assert!(text(&error).contains("did not answer in time"), "{error:?}");
    // Three attempts.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

#[tokio::test]
async fn b2_an_object_that_was_just_written_is_not_settled() {
    let Some(server) = S3Server::shared() else { return };
    let settled_after = Duration::from_secs(3);
    let bucket = Bucket::new(BucketOptions { settled_after, ..options(server, &server.create_bucket(), "") }).unwrap();
    bucket.put("5/10", Bytes::from_static(b"x")).await.unwrap();
    let is_settled = || async {
        let listed: Vec<Entry> = bucket.list("").try_collect().await.unwrap();
        listed[0].is_settled
    };
    assert!(!is_settled().await);
    assert_eq!(bucket.remove_settled("5/10").await.unwrap(), None);
    let until = Instant::now() + Duration::from_secs(20);
    while !is_settled().await {
        assert!(Instant::now() < until, "it never settles");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Written again: another node may be about to refer to it.
    assert!(!bucket.put("5/10", Bytes::from_static(b"x")).await.unwrap());
    assert_eq!(bucket.remove_settled("5/10").await.unwrap(), None);
    assert!(!is_settled().await);
    assert_eq!(bucket.remove("5/10").await.unwrap(), Some(1));
}

#[test]
fn b3_no_credential_is_shown() {
    let options = BucketOptions {
        bucket: "files".to_owned(),
        prefix: String::new(),
        endpoint: None,
        region: "us-east-1".to_owned(),
        access_key: "AKIATEST".to_owned(),
        secret_key: SECRET.to_owned(),
        tls: None,
        settled_after: Duration::ZERO,
        answer_within: Duration::from_secs(1),
    };
    let shown = format!("{options:?}");
    assert!(!shown.contains(SECRET) && !shown.contains("AKIATEST"), "{shown}");
}
