//! S20: where dependencies come from, under which licences, and which of them there are twice.

use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Licences that a distribution under MIT or Apache-2.0 can include.
const LICENCES: [&str; 9] =
    ["0BSD", "Apache-2.0", "BSD-3-Clause", "BSL-1.0", "ISC", "MIT", "MIT-0", "Unicode-3.0", "Zlib"];
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Crates that the lock has in several versions, and why. One that is not here is a new duplicate: update what asks for the older
/// version, or write down why that cannot be.
const DUPLICATES: [(&str, &str); 12] = [
    ("block-buffer", "sha2 0.10 (ours) and 0.11 (sqlx)"),
    ("cpufeatures", "sha2 0.10 (ours) and 0.11 (sqlx)"),
    ("crypto-common", "sha2 0.10 (ours) and 0.11 (sqlx)"),
    ("digest", "sha2 0.10 (ours) and 0.11 (sqlx)"),
    ("getrandom", "ring 0.17, and everything newer"),
    ("hashbrown", "hashlink of sqlx, and indexmap"),
    ("rand_core", "sha1 and rand of sqlx, and proptest"),
    ("sha1", "0.10 (ours) and 0.11 (sqlx)"),
    ("sha2", "0.10 (ours) and 0.11 (sqlx)"),
    ("syn", "derive macros that have not moved to 3"),
    ("untrusted", "ring, and rustls-webpki"),
    ("windows-sys", "only on Windows, which is not built"),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// What this machine builds for, as `rustc` calls it.
fn host() -> String {
    let output =
        Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned())).arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc says what it builds for").to_owned()
}

/// Name, version and source of each package of a lock file.
fn locked(lock: &Path) -> Vec<(String, String, Option<String>, bool)> {
    let text = fs::read_to_string(lock).unwrap();
    let lock: toml::Table = text.parse().unwrap();
    let packages = lock["package"].as_array().unwrap();
    let field =
        |package: &toml::Value, name: &str| package.get(name).and_then(|value| value.as_str()).map(str::to_owned);
    let packages = packages.iter().map(|package| {
        let (name, version) = (field(package, "name").unwrap(), field(package, "version").unwrap());
        (name, version, field(package, "source"), field(package, "checksum").is_some())
    });
    packages.collect()
}

#[test]
fn s20_every_dependency_comes_from_the_registry_with_a_checksum() {
    let mut count = 0;
    for lock in [
        "Cargo.lock",
        "fuzz/Cargo.lock",
        "conformance/clients/serenity/Cargo.lock",
        "conformance/clients/twilight/Cargo.lock",
    ] {
        for (name, version, source, has_checksum) in locked(&root().join(lock)) {
            match source {
                None => assert!(!has_checksum, "{lock}: {name} is ours"),
                Some(source) => {
                    count += 1;
                    assert!(source == REGISTRY && has_checksum, "{lock}: {name} {version} comes from {source}");
                }
            }
        }
    }
    assert!(count > 300, "{count}");
}

#[test]
fn s20_no_new_duplicates() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, version, ..) in locked(&root().join("Cargo.lock")) {
        versions.entry(name).or_default().insert(version);
    }
    let found: BTreeSet<&str> =
        versions.iter().filter(|(_, versions)| versions.len() > 1).map(|(name, _)| name.as_str()).collect();
    let known: BTreeSet<&str> = DUPLICATES.iter().map(|(name, _)| *name).collect();
    let new: Vec<_> = found.difference(&known).map(|name| (name, &versions[*name])).collect();
    assert!(new.is_empty(), "new duplicates: {new:?}");
    let gone: Vec<_> = known.difference(&found).collect();
    assert!(gone.is_empty(), "no longer duplicates, take them off the list: {gone:?}");
}

#[test]
fn s20_every_licence_is_permissive() {
    let metadata = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()))
        .args(["metadata", "--offline", "--locked", "--format-version", "1", "--filter-platform"])
        .arg(host())
        .current_dir(root())
        .output()
        .unwrap();
    assert!(metadata.status.success(), "{}", String::from_utf8_lossy(&metadata.stderr));
    let metadata: Value = serde_json::from_slice(&metadata.stdout).unwrap();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let used: BTreeSet<&str> = nodes.iter().map(|node| node["id"].as_str().unwrap()).collect();
    let mut count = 0;
    for package in metadata["packages"].as_array().unwrap() {
        if !used.contains(package["id"].as_str().unwrap()) {
            continue;
        }
        count += 1;
        let licence = package["license"].as_str().unwrap_or("");
        assert!(is_allowed(licence), "{} {}: licence {licence:?}", package["name"], package["version"]);
    }
    assert!(count > 150, "{count}");
}

/// Whether an SPDX expression can be satisfied with `LICENCES`.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    let allowed = either(&tokens, &mut at);
    allowed && at == tokens.len()
}

fn either(tokens: &[&str], at: &mut usize) -> bool {
    let mut allowed = both(tokens, at);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        allowed |= both(tokens, at);
    }
    allowed
}

fn both(tokens: &[&str], at: &mut usize) -> bool {
    let mut allowed = one(tokens, at);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        allowed &= one(tokens, at);
    }
    allowed
}

fn one(tokens: &[&str], at: &mut usize) -> bool {
    let Some(token) = tokens.get(*at) else { return false };
    *at += 1;
    if *token == "(" {
        let allowed = either(tokens, at);
        let is_closed = tokens.get(*at) == Some(&")");
        *at += 1;
        return allowed && is_closed;
    }
    if tokens.get(*at) == Some(&"WITH") {
        // An exception only adds permissions.
        *at += 2;
    }
    LICENCES.contains(token)
}

#[test]
fn s20_licence_expressions() {
    for (expression, expected) in [
        ("MIT", true),
        ("MIT OR Apache-2.0", true),
        ("MIT/Apache-2.0", true),
        ("GPL-3.0-only", false),
        ("GPL-3.0-only OR MIT", true),
        ("MIT AND GPL-3.0-only", false),
        ("(MIT OR GPL-2.0-only) AND ISC", true),
        ("ISC AND (Apache-2.0 OR ISC) AND OpenSSL", false),
        ("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only", true),
        ("", false),
        ("(MIT", false),
        ("MIT MIT", false),
    ] {
        assert_eq!(is_allowed(expression), expected, "{expression}");
    }
}
