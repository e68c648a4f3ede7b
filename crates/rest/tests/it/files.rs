//! Files in a folder and in a bucket: the same answers. Outages of the bucket. Two nodes on one bucket.

use crate::{
    s3_server::{S3Server, SECRET, free_port},
    support::{Answer, World},
};
use axum::{body::Body, http::Request};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use guildhall_files::{Bucket, BucketOptions};
use serde_json::{Value, json};
use std::time::Duration;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0";

fn bucket(server: &S3Server, name: &str) -> Bucket {
    let options = BucketOptions {
        bucket: name.to_owned(),
        prefix: "node".to_owned(),
        endpoint: Some(server.endpoint()),
        region: "us-east-1".to_owned(),
        access_key: "AKIATEST".to_owned(),
        secret_key: SECRET.to_owned(),
        tls: None,
        settled_after: Duration::ZERO,
        answer_within: Duration::from_secs(20),
    };
    Bucket::new(options).unwrap()
}

async fn upload(world: &World, content: &[u8]) -> Answer {
    let head = "--XX\r\nContent-Disposition: form-data; name=\"files[0]\"; filename=\"a.txt\"\r\n\r\n";
    let body = [head.as_bytes(), content, b"\r\n--XX--\r\n"].concat();
    let request = Request::builder()
        .method("POST")
        .uri(format!("/api/v10/channels/{}/messages", world.general))
        .header("authorization", &world.ana.token)
        .header("content-type", "multipart/form-data; boundary=XX");
    world.send(request.body(Body::from(body)).unwrap()).await
}

/// Path and query of the one attachment.
fn link(message: &Value) -> String {
    let url = message["attachments"][0]["url"].as_str().unwrap();
    url[url.find("/attachments/").unwrap()..].to_owned()
}

async fn fetch(world: &World, method: &str, path: &str, headers: &[(&str, String)]) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, value);
    }
    world.send(request.body(Body::empty()).unwrap()).await
}

/// Status, headers and body of an answer, without its date.
fn shown(answer: &Answer) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let ours = answer.headers.iter().filter(|(name, _)| !["date", "last-modified"].contains(&name.as_str()));
    let mut headers: Vec<_> =
        ours.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    headers.sort();
    (answer.status, headers, answer.bytes.clone())
}

#[tokio::test]
async fn r1_a_bucket_answers_as_a_folder() {
    let Some(server) = S3Server::shared() else { return };
    let mut all = Vec::new();
    for bucket in [None, Some(bucket(server, &server.create_bucket()))] {
        let dir = tempfile::tempdir().unwrap();
        let world = World::with_files_in(dir.path(), bucket, 1 << 20).await;
        let mut answers = Vec::new();
        // In the first bytes that are read, and beyond them.
        for size in [0, 10, 200_000] {
            let content: Vec<u8> = (0..size).map(|at| b'a' + (at % 23) as u8).collect();
            let message = upload(&world, &content).await;
            assert_eq!(message.status, 200, "{}", message.body);
            let path = link(&message.json());
            let whole = fetch(&world, "GET", &path, &[]).await;
            assert_eq!((whole.status, whole.bytes == content), (200, true), "{size}");
            let written_at = whole.header("last-modified").to_owned();
            let old = "Sat, 01 Jan 2000 00:00:00 GMT".to_owned();
            let mut requests = vec![
                ("GET", vec![]),
                ("HEAD", vec![]),
                ("GET", vec![("if-modified-since", written_at.clone())]),
                ("GET", vec![("if-modified-since", old.clone())]),
                ("GET", vec![("if-unmodified-since", written_at)]),
                ("GET", vec![("if-unmodified-since", old)]),
                ("GET", vec![("if-modified-since", "yesterday".to_owned())]),
            ];
            // An empty file has no ranges; a folder answers some all the same.
            let ranges = [
                "bytes=0-0",
                "bytes=0-",
                "bytes=3-8",
                "bytes=-4",
                "bytes=9-70000",
                "bytes=100000-",
                "bytes=300000-",
                "bytes=5-2",
                "bytes=0-1,3-4",
                "lines=1-2",
                "bytes=-0",
                "bytes=-500000",
            ];
            for range in ranges.into_iter().filter(|_| size > 0) {
                requests.push(("GET", vec![("range", range.to_owned())]));
                requests.push(("HEAD", vec![("range", range.to_owned())]));
            }
            for (method, headers) in requests {
                let answer = fetch(&world, method, &path, &headers).await;
                answers.push((format!("{size} {method} {headers:?}"), shown(&answer)));
            }
        }
        all.push(answers);
    }
    let [folder, bucket] = &all[..] else { panic!("two drivers") };
    for ((request, expected), (_, found)) in folder.iter().zip(bucket) {
        // The text of a refused range is for people.
        let (status, headers, _) = expected;
        if *status == 416 {
            let valid =
                |headers: &[(String, String)]| headers.iter().find(|(name, _)| name == "content-range").cloned();
            assert_eq!((found.0, valid(&found.1)), (416, valid(headers)), "{request}");
        } else {
            assert!(found == expected, "{request}: {:?}, expected {:?}", (found.0, &found.1), (status, headers));
        }
    }
}

#[tokio::test]
async fn pictures_of_one_node_are_served_by_another() {
    let Some(server) = S3Server::shared() else { return };
    let name = server.create_bucket();
    let (dir, other_dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let world = World::with_files_in(dir.path(), Some(bucket(server, &name)), 1 << 20).await;
    let other = World::with_files_in(other_dir.path(), Some(bucket(server, &name)), 1 << 20).await;
    let data_url = json!(format!("data:image/png;base64,{}", STANDARD.encode(PNG)));
    let user = world.call(&world.ana, "PATCH", "/users/@me", Some(json!({"avatar": data_url}))).await.json();
    let avatar = format!("/avatars/100/{}.png", user["avatar"].as_str().unwrap());
    let emojis = format!("/guilds/{}/emojis", world.guild);
    let made = world.post(&world.ana, &emojis, json!({"name": "wave", "image": data_url})).await;
    assert_eq!(made.status, 201, "{}", made.body);
    // Its link does not name the guild: the other node finds it in the bucket's index.
    let emoji = format!("/emojis/{}.png", made.json()["id"].as_str().unwrap());
    for path in [&avatar, &emoji] {
        for node in [&world, &other] {
            let answer = fetch(node, "GET", path, &[]).await;
            assert_eq!((answer.status, &answer.bytes[..]), (200, PNG), "{path}");
        }
    }
    assert_eq!(fetch(&other, "GET", "/emojis/12345.png", &[]).await.status, 404);
    // Nothing refers to the previous one any more.
    world.call(&world.ana, "PATCH", "/users/@me", Some(json!({"avatar": null}))).await;
    for node in [&world, &other] {
        assert_eq!(fetch(node, "GET", &avatar, &[]).await.status, 404);
        assert_eq!(fetch(node, "GET", &emoji, &[]).await.status, 200);
    }
}

#[tokio::test]
async fn a_bucket_that_is_away_gets_503() {
    let port = free_port();
    let Some(server) = S3Server::start(port) else { return };
    server.create("files");
    let dir = tempfile::tempdir().unwrap();
    let world = World::with_files_in(dir.path(), Some(bucket(&server, "files")), 1 << 20).await;
    let path = link(&upload(&world, b"before").await.json());
    assert_eq!(fetch(&world, "GET", &path, &[]).await.body, "before");
    drop(server);
    let data_url = json!(format!("data:image/png;base64,{}", STANDARD.encode(PNG)));
    for answer in [
        fetch(&world, "GET", &path, &[]).await,
        fetch(&world, "GET", "/avatars/100/00000000000000000000000000000000.png", &[]).await,
        fetch(&world, "GET", "/emojis/5.png", &[]).await,
        upload(&world, b"during").await,
        world.call(&world.ana, "PATCH", "/users/@me", Some(json!({"avatar": data_url}))).await,
    ] {
        assert_eq!(answer.status, 503, "{}", answer.body);
        assert!(answer.body.contains("file store does not answer"), "{}", answer.body);
        assert!(answer.headers.contains_key("retry-after"));
    }
    // Nothing is left of what was refused, and everything else works.
    assert_eq!(std::fs::read_dir(dir.path().join("files/incoming")).unwrap().count(), 0);
    world.say(&world.ana, world.general, "without files").await;
    let Some(server) = S3Server::start(port) else { return };
    server.create("files");
    let answer = upload(&world, b"after").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(fetch(&world, "GET", &link(&answer.json()), &[]).await.body, "after");
}
