//! Files of recordings: read back, damaged, and summarized.

use crate::support::{events, header, recording};
use guildhall_codec::{Arm, Dictionaries};
use guildhall_lab::{DEFAULT_ARMS, Dispatch, End, Line, RecordingReader, RecordingWriter, summarize};
use guildhall_stdx::Rng;
use serde_json::value::RawValue;
use std::{borrow::Cow, io::Read};

/// Lines of a file, or why it cannot be read.
fn lines(file: &[u8]) -> Result<usize, String> {
    let mut reader = RecordingReader::new(file).map_err(|error| format!("{error:#}"))?;
    let mut count = 0;
    while reader.next_line().map_err(|error| format!("{error:#}"))?.is_some() {
        count += 1;
    }
    Ok(count)
}

#[test]
fn r1_lines_come_back_and_files_may_be_appended() {
    let events = events(3, 400);
    let file = recording(&events, None);
    let expected: usize = events.iter().map(|(_, seen)| seen.len()).sum();
    assert_eq!(lines(&file), Ok(expected));
    assert_eq!(lines(&[file.clone(), file.clone()].concat()), Ok(2 * expected));
    let mut reader = RecordingReader::new(&*file).unwrap();
    assert_eq!(*reader.header(), header(false));
    let Some(Line::Dispatch(first)) = reader.next_line().unwrap() else { panic!("the first line is a dispatch") };
    assert_eq!((first.seq, &*first.encoding), (1, "json"));
    // One byte at a time.
    struct Slow<'a>(&'a [u8]);
    impl Read for Slow<'_> {
        fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
            self.0.take(1).read(out).inspect(|read| self.0 = &self.0[*read..])
        }
    }
    let mut reader = RecordingReader::new(Slow(&file)).unwrap();
    let mut count = 0;
    while reader.next_line().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, expected);
}

#[test]
fn r2_damaged_files_are_errors_that_say_what_to_do() {
    let file = recording(&events(2, 100), None);
    let made = |text: &str| {
        let mut writer = RecordingWriter::new().unwrap();
        for line in text.lines() {
            writer.push(&serde_json::from_str::<serde_json::Value>(line).unwrap()).unwrap();
        }
        writer.flush().unwrap();
        writer.take()
    };
    for (bytes, because) in [
        (Vec::new(), "this is no recording: make one with `guildhall lab record`"),
        (b"{\"format\":\"guildhall-recording\"}\n".to_vec(), "this is no recording"),
        (made("{\"format\":\"other\"}"), "this is no recording"),
        (
            made(
                "{\"format\":\"guildhall-recording\",\"version\":2,\"scrubbed\":true,\"private\":false,\"started_at\":1}",
            ),
            "version 2, this program reads versions up to 1: use a newer one",
        ),
        (file[..file.len() - 7].to_vec(), "cut"),
        ([&*RecordingWriter::header(&header(true)).unwrap(), &made("{\"at_ms\":1}")].concat(), "line 2"),
        (
            [&*RecordingWriter::header(&header(true)).unwrap(), &made("{\"at_ms\":1,\"session\":1}")].concat(),
            "line 2 is no line of a recording",
        ),
    ] {
        let error = lines(&bytes).unwrap_err();
        assert!(error.contains(because), "{error:?} lacks {because:?}");
    }
    // No damage is a panic.
    let mut rng = Rng::new(5);
    for _ in 0..300 {
        let mut damaged = file.clone();
        for _ in 0..=rng.below(3) {
            let at = rng.below(damaged.len() as u64) as usize;
            damaged[at] = rng.next_u64() as u8;
        }
        let _ = lines(&damaged);
    }
}

#[test]
fn a_summary_counts_what_is_in_the_file() {
    let events = events(4, 1_500);
    let mut file = recording(&events, Some([3; 32]));
    let mut writer = RecordingWriter::new().unwrap();
    writer.push(&End { at_ms: 9_000_000, session: 2, ended: Cow::Borrowed("queue_full") }).unwrap();
    writer.flush().unwrap();
    file.extend(writer.take());
    let arms: Vec<Arm> = DEFAULT_ARMS.iter().map(|text| text.parse().unwrap()).collect();
    let mut reader = RecordingReader::new(&*file).unwrap();
    let summary = summarize(&mut reader, &arms, &Dictionaries::default()).unwrap();
    let expected: u64 = events.iter().map(|(_, seen)| seen.len() as u64).sum();
    assert_eq!(summary.sessions["json"].len(), 4);
    assert_eq!(summary.ends["queue_full"], 1);
    for run in &summary.runs {
        assert_eq!(run.total().count, expected, "{}", run.arm());
        assert!(run.total().wire_bytes < run.total().plain_bytes);
    }
    // The order of the article: a frame per message is the worst, a stream of zstd ahead of one of zlib.
    let ratio =
        |name: &str| summary.runs.iter().find(|run| run.arm().to_string().starts_with(name)).unwrap().total().ratio();
    assert!(ratio("zstd-once") < ratio("zlib:") && ratio("zlib:") < ratio("zstd:level=6"), "{}", summary.text());
    let text = summary.text();
    for part in ["arm 2: zstd-once:level=3", "MESSAGE_CREATE", "CPU us per dispatch", "1 queue_full", "4 json"] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

/// The library had taken the whole file, and kept text for which the reader had no room.
#[test]
fn a_file_that_ends_with_a_chunk_is_read_to_its_end() {
    for text_bytes in [256 << 10, (256 << 10) + 1_000, 300 << 10, 3 << 20] {
        let mut writer = RecordingWriter::new().unwrap();
        let body = RawValue::from_string(format!("{{\"content\":\"{}\"}}", "a".repeat(text_bytes))).unwrap();
        let mut file = RecordingWriter::header(&header(true)).unwrap();
        let (encoding, event, rule) = ("json".into(), "MESSAGE_CREATE".into(), "public".into());
        writer.push(&Dispatch { at_ms: 1, session: 0, encoding, event, seq: 1, bytes: 9, rule, body: &body }).unwrap();
        writer.flush().unwrap();
        file.extend(writer.take());
        let mut reader = RecordingReader::new(&*file).unwrap();
        assert!(matches!(reader.next_line(), Ok(Some(Line::Dispatch(_)))), "{text_bytes}");
        assert!(reader.next_line().unwrap().is_none(), "{text_bytes}");
    }
}
