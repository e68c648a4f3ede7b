//! The scrubber: planted secrets, and what compressors make of its copies.

use crate::support::{events, recording, text_of};
use guildhall_codec::{Arm, Dictionaries};
use guildhall_lab::{RecordingReader, Scrubber, summarize};
use guildhall_model::EventName;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Secrets of every kind. No part of one may remain.
const SECRETS: [&str; 12] = [
    "Xylophonist Quetzalcoatl",
    "quetzal.vortigern@example.org",
    "https://files.quetzal.example/attachments/887766554433221100/vortigern-passport.pdf?ex=6a7b8c9d",
    "198.51.100.234",
    "2001:db8:85a3:8d3:1319:8a2e:370:7348",
    "887766554433221100",
    "a_0f1e2d3c4b5a69788796a5b4c3d2e1f0",
    "MTk4NjIyNDgzNDcxOTI1MjQ4.Cl2FMQ.ZnCjm1XVW7vRze4b7Cq4se7kKWs",
    "+49 170 9988776",
    "Größenwahnsinnige Flußschiffe",
    "секретныйпароль",
    "2031-12-24T17:45:31.987654+00:00",
];

/// The parts of a secret that would be recognised: words of four letters or more, runs of five digits or more.
fn needles() -> Vec<String> {
    let mut needles = Vec::new();
    for secret in SECRETS {
        for part in secret.split(|c: char| !c.is_alphanumeric()) {
            let is_long =
                if part.bytes().all(|b| b.is_ascii_digit()) { part.len() > 4 } else { part.chars().count() > 4 };
            if is_long && !["https", "files", "example", "attachments"].contains(&part) {
                needles.push(part.to_lowercase());
            }
        }
    }
    needles
}

/// Field names of the event, by the table of the crate.
fn fields(name: EventName) -> Vec<String> {
    let table = include_str!("../../src/fields.txt");
    let line = table.lines().find(|line| line.split(' ').next() == Some(name.as_str()));
    line.unwrap_or_else(|| panic!("{} has no fields", name.as_str())).split(' ').skip(1).map(str::to_owned).collect()
}

/// Every field of an event with a value of every form.
fn planted(name: EventName, secret: &str) -> Value {
    let mut body = Map::new();
    for field in fields(name) {
        body.insert(
            field,
            json!({
                "id": secret,
                "name": [secret, {"content": secret, "embeds": [{"description": secret, "title": [secret]}]}],
                "unheard_of": secret,
                "887766554433221100": {"user": {"username": secret, "id": 887_766_554_433_221_100_u64}},
            }),
        );
    }
    for field in fields(name) {
        let mut nested = Map::new();
        nested.insert(field.clone(), Value::String(secret.to_owned()));
        body.insert("user".to_owned(), Value::Object(nested));
        if !body.contains_key(&format!("{field}_text")) {
            body.entry(field).and_modify(|value| {
                if let Value::Object(value) = value {
                    value.insert("type".to_owned(), Value::String(secret.to_owned()));
                }
            });
        }
    }
    body.insert("unheard_of".to_owned(), json!({"deep": [secret]}));
    body.insert(secret.to_owned(), json!(secret));
    Value::Object(body)
}

#[test]
fn c1_no_part_of_a_planted_secret_remains_in_any_field_of_any_event() {
    let mut scrubber = Scrubber::new([9; 32]);
    let needles = needles();
    assert!(needles.len() > 15, "{needles:?}");
    for name in EventName::ALL.iter().filter(|name| **name != EventName::Backend) {
        for secret in SECRETS {
            // As values of the fields themselves, and deeper down.
            let flat: Map<String, Value> = fields(*name).into_iter().map(|field| (field, json!(secret))).collect();
            for body in [planted(*name, secret), Value::Object(flat)] {
                let copy = scrubber.copy(*name, body.to_string().as_bytes(), &[]).unwrap().unwrap();
                let lower = copy.to_lowercase();
                for needle in &needles {
                    assert!(!lower.contains(needle), "{}: {needle} of {secret} in {copy}", name.as_str());
                }
                assert!(!copy.contains("unheard_of"), "{copy}");
                serde_json::from_str::<Value>(&copy).unwrap();
            }
        }
    }
}

#[test]
fn c2_unknown_fields_and_events_of_backends_are_dropped() {
    let mut scrubber = Scrubber::new([1; 32]);
    let body =
        br#"{"content":"hi","content2":"x","author":{"id":"1","email":"a@b.c","bot":true},"type":0,"flags":12345}"#;
    let copy = scrubber.copy(EventName::MessageCreate, body, &["flags"]).unwrap().unwrap();
    let copy: Value = serde_json::from_str(&copy).unwrap();
    let names: BTreeSet<&str> = copy.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, BTreeSet::from(["author", "content", "type"]));
    assert_eq!(copy["author"]["bot"], true);
    assert!(copy["author"].get("email").is_none());
    assert_eq!(scrubber.copy(EventName::Backend, b"{}", &[]).unwrap(), None);
    assert!(scrubber.copy(EventName::MessageCreate, b"{\"content\":", &[]).is_err());
}

#[test]
fn numbers_of_up_to_five_digits_remain_and_no_longer_ones() {
    let mut scrubber = Scrubber::new([1; 32]);
    let body = br#"{"type":0,"flags":-12345,"position":123456,"nonce":18446744073709551615,"tts":true,"id":0.5}"#;
    let copy = scrubber.copy(EventName::MessageCreate, body, &[]).unwrap().unwrap();
    let copy: Value = serde_json::from_str(&copy).unwrap();
    assert_eq!((&copy["type"], &copy["flags"], &copy["tts"]), (&json!(0), &json!(-12345), &json!(true)));
    assert!(copy["nonce"].is_u64() && copy["nonce"] != json!(u64::MAX), "{copy}");
}

#[test]
fn ratios_of_scrubbed_and_original_agree_for_each_arm() {
    // Fields that the scrubber drops are dropped on both sides: only contents differ.
    let events = events(6, 6_000);
    let scrubbed = recording(&events, Some([7; 32]));
    let original = recording(&events, None);
    let dropped = |file: &[u8]| text_of(file).len();
    let (before, after) = (dropped(&original), dropped(&scrubbed));
    assert!(after.abs_diff(before) * 100 <= before, "{before} and {after} bytes: the table of fields lacks some");
    let arms: Vec<Arm> = [
        "zlib",
        "zlib:level=1",
        "zstd",
        "zstd:level=3,window=21,hash=17",
        "zstd:level=12",
        "zstd-once",
        "shared-match",
        "prepared",
    ]
    .iter()
    .map(|text| text.parse().unwrap())
    .collect();
    let ratios = |file: &[u8]| {
        let mut reader = RecordingReader::new(file).unwrap();
        let summary = summarize(&mut reader, &arms, &Dictionaries::default()).unwrap();
        summary.runs.iter().map(|run| run.total().ratio()).collect::<Vec<_>>()
    };
    let (original, scrubbed) = (ratios(&original), ratios(&scrubbed));
    for ((arm, original), scrubbed) in arms.iter().zip(&original).zip(&scrubbed) {
        println!("{arm}: {original:.3} {scrubbed:.3} {:+.2} %", 100.0 * (scrubbed / original - 1.0));
    }
    for ((arm, original), scrubbed) in arms.iter().zip(original).zip(scrubbed) {
        assert!(
            (scrubbed / original - 1.0).abs() < 0.03,
            "{arm}: {original:.3} of the original, {scrubbed:.3} scrubbed"
        );
    }
}
