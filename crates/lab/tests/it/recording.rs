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
fn r2_damaged_files_are_errors_with_the_remedy() {
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
        (b"some text\n".to_vec(), "this is no recording"),
        (b"PK\x03\x04".to_vec(), "this is no recording"),
        (made("{\"format\":\"other\"}"), "this is no recording"),
        (
            made(
                "{\"format\":\"guildhall-recording\",\"version\":2,\"scrubbed\":true,\"private\":false,\"started_at\":1}",
            ),
            "version 2, this program reads versions up to 1: use a newer one",
        ),
        (file[..file.len() - 7].to_vec(), "the file was cut: copy it again"),
        (b"{\"format\":\"guildhall-recording\",\"version\":1}\n".to_vec(), "`zstd FILE` makes a recording of it"),
        (made("{\"format\":\"guildhall-recording\",\"version\":0}"), "version 0, this program reads versions up to 1"),
        (made("{\"format\":\"guildhall-recording\",\"version\":9,\"other\":1}"), "version 9, this program"),
        ([&*file, b"some text behind it"].concat(), "the file is damaged: copy or record it again"),
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

/// Stored blocks in a frame with this descriptor and what follows it.
fn stored(start: &[u8], text: &[u8]) -> Vec<u8> {
    let mut frame = [&[0x28, 0xb5, 0x2f, 0xfd], start].concat();
    let mut blocks = text.chunks(128 << 10).peekable();
    while let Some(block) = blocks.next() {
        let head = (block.len() as u32) << 3 | u32::from(blocks.peek().is_none());
        frame.extend_from_slice(&head.to_le_bytes()[..3]);
        frame.extend_from_slice(block);
    }
    frame
}

#[test]
fn r2_a_window_above_the_bound_is_refused_with_the_remedy() {
    let text = format!("{}\n", serde_json::to_string(&header(true)).unwrap());
    let read = |file: &[u8]| {
        let whole = lines(file);
        let mut pieces = Vec::new();
        for length in [1, 5, 7] {
            struct Pieces<'a>(&'a [u8], usize);
            impl Read for Pieces<'_> {
                fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
                    let length = self.1.min(out.len());
                    self.0.read(&mut out[..length])
                }
            }
            pieces.push(RecordingReader::new(Pieces(file, length)).map(|_| 0).map_err(|error| format!("{error:#}")));
        }
        assert!(pieces.iter().all(|of| of.is_ok() == whole.is_ok()), "{whole:?} {pieces:?}");
        whole
    };
    // 1 KiB, 8 MiB; 9 MiB, 16 MiB, 128 MiB, the largest.
    for (window, is_read) in [(0x00, true), (0x68, true), (0x69, false), (0x70, false), (0x88, false), (0xff, false)] {
        let result = read(&stored(&[0, window], text.as_bytes()));
        match is_read {
            true => assert_eq!(result, Ok(0), "{window:x}"),
            false => {
                let error = result.unwrap_err();
                assert!(error.contains("`zstd -dc --long=31 FILE | zstd > OTHER`"), "{window:x} {error}");
            }
        }
    }
    // A single segment: its content is the window.
    let long = [text.as_bytes(), &b"\n".repeat(9 << 20)].concat();
    let with_size = |text: &[u8]| stored(&[&[0xa0], &(text.len() as u32).to_le_bytes()[..]].concat(), text);
    assert_eq!(read(&with_size(&long[..1 << 20])), Ok(0));
    assert!(read(&with_size(&long)).unwrap_err().contains("larger than 8 MiB"));
    // The reader takes files of the program `zstd` up to level 19.
    let mut context = zstd_safe::CCtx::create();
    for level in [1, 3, 19] {
        let mut file = Vec::with_capacity(zstd_safe::compress_bound(long.len()));
        context.compress(&mut file, &long, level).unwrap();
        assert_eq!(lines(&file), Ok(0), "{level}");
    }
}

#[test]
fn r3_recordings_that_are_read_together_have_sessions_of_their_own() {
    let one = recording(&events(2, 50), None);
    let started = |started_at: u64, scrubbed: bool| {
        let mut writer = RecordingWriter::new().unwrap();
        writer.push(&guildhall_lab::Header { started_at, scrubbed, ..header(scrubbed) }).unwrap();
        writer.push(&End { at_ms: 1, session: 0, ended: Cow::Borrowed("closed") }).unwrap();
        writer.flush().unwrap();
        writer.take()
    };
    let sessions = |files: &[&[u8]]| {
        let named = files.iter().enumerate().map(|(index, file)| (format!("file {index}"), *file));
        let mut reader = RecordingReader::of_files(named).unwrap();
        let mut sessions = Vec::new();
        while let Some(line) = reader.next_line().unwrap() {
            sessions.push(match line {
                Line::Dispatch(of) => of.session,
                Line::End(end) => end.session,
            });
        }
        sessions.sort_unstable();
        sessions.dedup();
        (sessions.len(), reader.header().scrubbed)
    };
    // Two of the first; files of one recording in any order; others are others.
    assert_eq!(sessions(&[&one, &one]), (2, false));
    let (a, b, open) = (started(5, true), started(6, true), started(7, false));
    assert_eq!(sessions(&[&a, &b, &a, &b]), (2, true));
    assert_eq!(sessions(&[&[&*a, &b].concat(), &a]), (2, true));
    // One with contents makes all of them such.
    assert_eq!(sessions(&[&a, &open, &b]), (3, false));
    // The name of the file that is wrong.
    for (wrong, because) in [
        (&b"text"[..], "file 1: this is no recording"),
        (b"", "file 1: the file is empty"),
        (&a[..a.len() - 3], "file 1: the file was cut"),
    ] {
        let files = [("file 0".to_owned(), &*b), ("file 1".to_owned(), wrong), ("file 2".to_owned(), &*b)];
        let mut reader = RecordingReader::of_files(files).unwrap();
        let error = loop {
            match reader.next_line() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("{because}"),
                Err(error) => break format!("{error:#}"),
            }
        };
        assert!(error.starts_with(because), "{error}");
    }
}

#[test]
fn a_summary_counts_the_records_of_the_file() {
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
