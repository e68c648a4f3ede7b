//! A node that keeps its files in a bucket; commands that report their effect on the bucket; the secret of the access
//! key, which no output has. Skipped where the S3 server is not installed.

use crate::{
    backup::{fetch, upload},
    s3_server::{S3Server, SECRET},
    support::{Demo, guildhall, run_to_end, stderr},
};
use std::{fs, path::Path};

/// A file with the settings of a bucket.
fn settings(dir: &Path, endpoint: &str, bucket: &str) -> String {
    let (path, key) = (dir.join("guildhall.toml"), dir.join("s3.key"));
    fs::write(&key, format!("{SECRET}\n")).unwrap();
    let text = format!(
        "[uploads]\nurl = \"s3://{bucket}/files\"\ns3_endpoint = \"{endpoint}\"\ns3_access_key = \"AKIATEST\"\n\
         s3_secret_key_file = \"{}\"\n",
        key.display()
    );
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn run(args: &[&str], data: &Path) -> (Option<i32>, String) {
    let output = run_to_end(guildhall(args).arg("--data").arg(data));
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), stderr(&output));
    assert!(!text.contains(SECRET), "the secret is shown: {text}");
    (output.status.code(), text)
}

#[test]
fn a_node_keeps_its_files_in_a_bucket() {
    let Some(server) = S3Server::shared() else { return };
    let (dir, bucket) = (tempfile::tempdir().unwrap(), server.create_bucket());
    let (data, config) = (dir.path().join("data"), settings(dir.path(), &server.endpoint(), &bucket));
    let (code, text) = run(&["doctor", "--config", &config], &data);
    assert!(code == Some(0) && text.contains("was written, read, listed and removed"), "{text}");

    let args = ["--members", "5", "--rate", "0", "--config", &config];
    let demo = Demo::start(&data, &args);
    let (channel, token) = (demo.channels()[0].clone(), format!("Bot {}", demo.token("bot_token")));
    let content = vec![7; 100_000];
    let path = upload(demo.addr, &token, &channel, &content);
    let (head, body) = fetch(demo.addr, &path);
    assert!(head.starts_with("HTTP/1.1 200") && body == content, "{head}");
    assert_eq!(fs::read_dir(data.join("files")).unwrap().count(), 1, "only `incoming`");
    assert_eq!(fs::read_dir(data.join("files/incoming")).unwrap().count(), 0);
    let (code, text) = run(&["backup", dir.path().join("backup").to_str().unwrap(), "--config", &config], &data);
    assert!(code == Some(0) && text.contains("are not in this backup"), "{text}");
    assert!(text.contains("0 files of 0 bytes"), "{text}");

    // Another process on the same data finds them.
    demo.kill();
    let demo = Demo::start(&data, &args);
    let (head, body) = fetch(demo.addr, &path);
    assert!(head.starts_with("HTTP/1.1 200") && body == content, "{head}");
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn a_bucket_that_does_not_answer_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let endpoint = format!("http://127.0.0.1:{}", crate::s3_server::free_port());
    let (data, config) = (dir.path().join("data"), settings(dir.path(), &endpoint, "files"));
    let (code, text) = run(&["doctor", "--config", &config], &data);
    assert!(code == Some(1) && text.contains("WRONG    files          s3://files/files: "), "{text}");
    // The node starts, and answers everything else.
    let demo = Demo::start(&data, &["--members", "5", "--rate", "0", "--config", &config]);
    assert_eq!(demo.client("bot_token").get("/api/v10/users/@me").unwrap().status, 200);
    let (head, body) = fetch(demo.addr, "/avatars/1/00000000000000000000000000000000.png");
    assert!(head.starts_with("HTTP/1.1 503"), "{head}");
    assert!(String::from_utf8_lossy(&body).contains("file store does not answer"), "{body:?}");
    assert_eq!(demo.terminate(), Some(0));

    fs::write(dir.path().join("s3.key"), "").unwrap();
    let (code, text) = run(&["doctor", "--config", &config], &data);
    assert!(code == Some(1) && text.contains("uploads.s3_secret_key_file"), "{text}");
}
