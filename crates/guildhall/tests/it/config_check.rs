//! `config check` and `serve` open the same files and addresses: the same verdict, text and exit code.

use crate::support::{guildhall, run, run_to_end, serve, stderr};
use std::{fs, path::Path, process::Output};

/// Both of them, each on the same settings.
fn both(dir: &Path, settings: &str) -> [Output; 2] {
    let file = dir.join("g.toml");
    fs::write(&file, settings).unwrap();
    let file = file.to_str().unwrap();
    [run(["config", "check", "--config", file]), run(["serve", "--listen", "127.0.0.1:0", "--config", file])]
}

#[test]
fn config_check_finds_faults_that_prevent_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    fs::write(at("file"), "no key, no certificate, no set of keys").unwrap();
    fs::write(at("short"), "secret").unwrap();
    fs::create_dir(at("wrong")).unwrap();
    fs::write(at("wrong/x.zdict"), "no dictionary").unwrap();
    let (file, none, data) = (at("file"), at("none"), at("data"));
    let certificate = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls/one.crt");
    let certificate = certificate.display();
    let check = |settings: &str, expected: &str| {
        let store = if settings.contains("[store]") { String::new() } else { format!("[store]\ndir = {data:?}\n") };
        let outputs = both(dir.path(), &format!("{settings}\n{store}"));
        for output in &outputs {
            assert_eq!(output.status.code(), Some(2), "{settings}: {}", stderr(output));
            assert!(stderr(output).contains(expected), "{settings}: {}", stderr(output));
        }
        // The same words, after any lines of the log.
        let last = |output: &Output| stderr(output).split("guildhall: ").last().unwrap().to_owned();
        assert_eq!(last(&outputs[0]), last(&outputs[1]));
        assert!(!Path::new(&data).exists(), "{settings}: something was created");
    };
    check(&format!("[tls]\ncert_file = {none:?}\nkey_file = {none:?}"), "none) and tls.key_file (");
    check(&format!("[tls]\ncert_file = \"{certificate}\"\nkey_file = {none:?}"), "the key cannot be read");
    check(&format!("[tls]\ncert_file = {file:?}\nkey_file = {file:?}"), "cannot be used");
    check(&format!("[auth]\njwt_audience = \"a\"\njwks_file = {none:?}"), "auth.jwks_file: ");
    check(&format!("[auth]\njwt_audience = \"a\"\njwks_file = {file:?}"), "auth.jwks_file: ");
    let url = "jwt_audience = \"a\"\njwks_url = \"https://id.example.net/k\"";
    check(&format!("[auth]\n{url}\njwks_ca_file = {none:?}"), "no trusted certificate");
    check(&format!("[auth]\njwt_secret_file = {none:?}"), "auth.jwt_secret_file: ");
    check(&format!("[auth]\nadmin_key_file = {:?}", at("short")), "has fewer than 32 bytes");
    check(&format!("[codec]\ndictionaries_dir = {none:?}"), "codec.dictionaries_dir cannot be used");
    check(&format!("[codec]\ndictionaries_dir = {:?}", at("wrong")), "is not named");
    check(&format!("[store]\ndir = {file:?}"), "must be a directory");
    check(&format!("[store]\ndir = {:?}", at("file/below")), "must be a directory");
    check("[store]\ndir = \"/proc/nope\"", "/proc/nope cannot be used");
    check(&format!("[auth]\njwks_ca_file = {none:?}"), "auth.jwks_ca_file: ");
    check(&format!("[cluster]\nnats_credentials_file = {none:?}"), "cluster.nats_credentials_file: ");
    check(&format!("[cluster]\nnats_ca_file = {none:?}"), "cluster.nats_ca_file: ");
    check(&format!("[uploads]\ns3_ca_file = {none:?}"), "uploads.s3_ca_file: ");
    check(&format!("[log]\naccess_file = {:?}", at("none/access.log")), "log.access_file: ");
    check("[cluster]\nnats_url = \"nats://127.0.0.1:1\"", "the database is SQLite");
    // All at once.
    let many = format!(
        "[tls]\ncert_file = {none:?}\nkey_file = {none:?}\n[auth]\njwt_audience = \"a\"\njwks_file = {none:?}\n\
         admin_key_file = {none:?}\n[codec]\ndictionaries_dir = {none:?}\n[store]\ndir = \"/proc/nope\"\n"
    );
    for expected in
        ["5 faults:", "tls.cert_file", "auth.jwks_file", "auth.admin_key_file", "dictionaries_dir", "/proc/nope"]
    {
        check(&many, expected);
    }
}

#[test]
fn a_configuration_that_starts_passes_the_check() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("a/b/data");
    let file = dir.path().join("g.toml");
    fs::write(&file, format!("[store]\ndir = {:?}\n", data.display().to_string())).unwrap();
    let checked = run(["config", "check", file.to_str().unwrap()]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    assert!(!dir.path().join("a").exists(), "nothing is created");
    let (node, _, _log) = serve(&data, &["--config".as_ref(), file.as_os_str()]);
    // Also while it runs.
    let checked = run(["config", "check", file.to_str().unwrap()]);
    assert!(checked.status.success(), "{}", stderr(&checked));
    assert_eq!(node.terminate(), Some(0));
}

#[test]
fn the_first_line_lists_differences_from_the_defaults() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "no directory").unwrap();
    let start = |more: &[&str]| {
        let mut command = guildhall(["serve", "--listen", "localhost:0", "--data"]);
        stderr(&run_to_end(command.arg(&file).args(more)))
    };
    let text =
        start(&["--set", "server.partitions=2", "--set", "auth.admin_key=0123456789012345678901234567890123456789"]);
    let first = text.lines().next().unwrap();
    for part in ["starting", "server.listen=\"127.0.0.1:0\"", "server.partitions=2", "auth.admin_key=\"(hidden)\""] {
        assert!(first.contains(part), "{part}: {first}");
    }
    assert!(!first.contains("limits.") && !first.contains("012345") && first.len() < 400, "{first}");
    assert!(start(&["--log-level", "debug"]).contains("limits.write_stall_ms=30000"));
}
