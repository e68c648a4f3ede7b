//! Recordings of generated traffic.

use guildhall_codec::Encoding;
use guildhall_lab::{Dispatch, Header, RecordingReader, RecordingWriter, Scrubber};
use guildhall_model::EventName;
use guildhall_traffic::{Chat, Event, Kind, Params, Traffic, Viewer};
use serde_json::value::RawValue;
use std::borrow::Cow;

pub fn header(scrubbed: bool) -> Header {
    Header {
        format: "guildhall-recording".to_owned(),
        version: 1,
        scrubbed,
        private: false,
        started_at: 1_790_000_000,
        node: None,
    }
}

/// Chat texts: the built-in ones, or those of the file in `GUILDHALL_LAB_CHAT`, to measure others by hand.
fn chat() -> Chat {
    match std::env::var_os("GUILDHALL_LAB_CHAT") {
        None => Chat::built_in(),
        Some(path) => Chat::parse(&std::fs::read_to_string(path).unwrap()).unwrap(),
    }
}

/// Events of generated traffic, each with the sessions that see it.
pub fn events(sessions: u32, count: usize) -> Vec<(Event, Vec<u64>)> {
    let viewers: Vec<Viewer> = (0..sessions).map(|index| Viewer::new(11, index)).collect();
    let traffic = Traffic::new(Params { kind: Kind::Session, seed: 11, sessions }, chat());
    let seen = |event: &Event| {
        (0_u64..).zip(&viewers).filter(|(_, viewer)| viewer.sees(event)).map(|(index, _)| index).collect()
    };
    traffic.take(count).map(|event| (seen(&event), event)).map(|(seen, event): (Vec<u64>, _)| (event, seen)).collect()
}

/// A recording of them, scrubbed or with the same fields left out.
pub fn recording(events: &[(Event, Vec<u64>)], key: Option<[u8; 32]>) -> Vec<u8> {
    let mut scrubber = key.map(Scrubber::new);
    // Both sides drop unknown fields: the comparison is of contents.
    let mut writer = RecordingWriter::new().unwrap();
    writer.push(&header(key.is_some())).unwrap();
    let mut seqs = vec![0_u64; 64];
    for (event, seen) in events {
        let Some(name) = EventName::from_wire(event.name) else { continue };
        let original = String::from_utf8(event.body_json.to_vec()).unwrap();
        let body = match &mut scrubber {
            Some(scrubber) => scrubber.copy(name, original.as_bytes(), &[]).unwrap().unwrap(),
            None => original,
        };
        for session in seen {
            let seq = &mut seqs[*session as usize];
            *seq += 1;
            let line = Dispatch {
                at_ms: event.at_ms,
                session: *session,
                encoding: Cow::Borrowed(Encoding::Json.name()),
                event: Cow::Borrowed(event.name),
                seq: *seq,
                bytes: body.len() as u64,
                rule: Cow::Borrowed(if event.is_private() { "own" } else { "public" }),
                body: &RawValue::from_string(body.clone()).unwrap(),
            };
            writer.push(&line).unwrap();
        }
    }
    writer.flush().unwrap();
    writer.take()
}

pub fn text_of(file: &[u8]) -> String {
    let mut reader = RecordingReader::new(file).unwrap();
    let mut text = String::new();
    while let Some(line) = reader.next_line().unwrap() {
        if let guildhall_lab::Line::Dispatch(dispatch) = line {
            text.push_str(dispatch.body.get());
            text.push('\n');
        }
    }
    text
}
