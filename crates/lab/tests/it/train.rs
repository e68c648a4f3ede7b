//! Training: a dictionary contains nothing of users, because a node serves it without a token.

use crate::support::header;
use guildhall_codec::Encoding;
use guildhall_lab::{Corpus, Dispatch, RecordingReader, RecordingWriter, Scrubber, train};
use guildhall_model::EventName;
use serde_json::{json, value::RawValue};

const SECRETS: [&str; 14] = [
    "SECRET",
    "secret",
    "attack",
    "at dawn",
    "72345678901234",
    "5ec2e7aa",
    "example",
    "2031-12-24",
    "18:17:16",
    "151413",
    "7654321",
    "äöü",
    ".abc.def",
    "plan.pdf",
];

/// A recording with secrets in every place that may have some, scrubbed as a node does it.
fn recording() -> Vec<u8> {
    // The same secrets in every line: what occurs often is what a dictionary keeps.
    let ready = json!({"v": 10, "session_id": "SECRETsession0123456789",
        "resume_gateway_url": "wss://secret-gateway.example.net",
        "user": {"id": "7234567890123456", "username": "secretuser", "email": "secret@example.net",
            "avatar": "5ec2e7aa5ec2e7aa5ec2e7aa5ec2e7aa"},
        "auth": {"token": "SECRETtoken.abc.def"}, "guilds": [{"id": "7234567890123457", "unavailable": true}],
        "secretname": {"secretfield": "secretvalue"}});
    let message = json!({"id": "7234567890123458", "type": 0, "content": "SECRET: we attack at dawn, äöü, secretly",
        "timestamp": "2031-12-24T18:17:16.151413+00:00",
        "author": {"id": "7234567890123459", "username": "secretauthor", "global_name": "Secret Author"},
        "attachments": [{"filename": "secretplan.pdf", "url": "https://cdn.example.net/secret/plan?ex=1&hm=2",
            "size": 7_654_321}],
        "nonce": 7_234_567_890_123_460_u64});
    let mut scrubber = Scrubber::new([7; 32]);
    let mut writer = RecordingWriter::new().unwrap();
    writer.push(&header(true)).unwrap();
    for at_ms in 0..400 {
        for (event, body) in [("READY", &ready), ("MESSAGE_CREATE", &message)] {
            let name = EventName::from_wire(event).unwrap();
            let scrubbed = scrubber.copy(name, body.to_string().as_bytes(), &[]).unwrap().unwrap();
            let body = RawValue::from_string(scrubbed).unwrap();
            for (session, encoding) in [(0, "json"), (1, "json"), (2, "etf"), (3, "etf")] {
                let (encoding, event, rule) = (encoding.into(), event.into(), "public".into());
                let line = Dispatch { at_ms, session, encoding, event, seq: at_ms + 1, bytes: 9, rule, body: &body };
                writer.push(&line).unwrap();
            }
        }
    }
    writer.flush().unwrap();
    writer.take()
}

#[test]
fn a_dictionary_from_a_recording_contains_no_personal_data() {
    let file = recording();
    let corpus = Corpus::read(&mut RecordingReader::new(&*file).unwrap()).unwrap();
    let few = train(&corpus, Encoding::Json, None, |_| {}).unwrap_err();
    assert!(few.to_string().contains("too few for a dictionary"), "{few}");
    for encoding in [Encoding::Json, Encoding::Etf] {
        let trained = train(&corpus, encoding, Some(1), |_| {}).unwrap();
        let bytes = trained.dictionary.bytes();
        let contains = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        for secret in SECRETS {
            assert!(!contains(secret), "{secret:?} is in the dictionary for {}", encoding.name());
        }
        assert!(contains("username") && contains("MESSAGE_CREATE"), "the structure is kept");
    }
}
