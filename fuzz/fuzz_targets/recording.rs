//! Any bytes as a recording of the lab, and any text in a zstd frame as one.
//!
//! Input       one byte: whether the rest is a file or the text of one, the window of its frame, and the pieces in
//!             which the file arrives.
//! Oracle      no panic; the same lines whatever the pieces; a text is read to its end, or to its first wrong line, and
//!             a reader never returns a line that the text has not; a frame with a window above the bound has no line.
// max_len: 16384
#![no_main]

use guildhall_lab::{Line, RecordingReader, Step, for_each};
use libfuzzer_sys::fuzz_target;
use std::io::Read;

const HEADER: &[u8] = b"{\"format\":\"guildhall-recording\",\"version\":1,\"scrubbed\":true,\"private\":false,\"started_at\":1}\n";
/// RFC 8878 §3.1.1.2.3: the largest block.
const BLOCK_BYTES: usize = 128 << 10;

/// A source that returns few bytes at a time.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let length = self.1.min(out.len());
        self.0.read(&mut out[..length])
    }
}

/// Descriptors of windows of 128 KiB, 2 MiB twice, 8 MiB, 9 MiB, 128 MiB, 2 GiB, and the largest. The reader takes
/// `WINDOWS_READ` of them.
const WINDOWS: [u8; 8] = [0x38, 0x58, 0x58, 0x68, 0x69, 0x88, 0xa8, 0xff];
const WINDOWS_READ: usize = 4;

/// A zstd frame of stored blocks.
fn stored(text: &[u8], window: u8) -> Vec<u8> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, window];
    let mut blocks = text.chunks(BLOCK_BYTES).peekable();
    while let Some(block) = blocks.next() {
        let head = (block.len() as u32) << 3 | u32::from(blocks.peek().is_none());
        frame.extend_from_slice(&head.to_le_bytes()[..3]);
        frame.extend_from_slice(block);
    }
    frame
}

/// The lines before the first fault, and whether there is one.
fn lines(file: &[u8], piece: usize) -> (Vec<String>, bool) {
    let mut lines = Vec::new();
    let Ok(mut reader) = RecordingReader::new(Pieces(file, piece)) else { return (lines, true) };
    loop {
        match reader.next_line() {
            Ok(None) => return (lines, false),
            Err(_) => return (lines, true),
            Ok(Some(Line::End(end))) => lines.push(format!("{} {} {}", end.at_ms, end.session, end.ended)),
            Ok(Some(Line::Dispatch(of))) => {
                assert!(serde_json::from_str::<serde_json::Value>(of.body.get()).is_ok() || of.body.get().len() > 128);
                lines.push(format!("{} {} {} {}", of.at_ms, of.session, of.event, of.body.get()));
            }
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((control, rest)) = data.split_first() else { return };
    let (is_text, window) = (control & 1 == 1, usize::from(control >> 5));
    let file = if is_text {
        // Repeated until it is longer than what the reader takes at once.
        let times = if control & 2 == 2 { (300 << 10) / rest.len().max(1) + 1 } else { 1 };
        stored(&[HEADER, &rest.repeat(times)].concat(), WINDOWS[window])
    } else {
        rest.to_vec()
    };
    let piece = usize::from(control >> 2 & 7) * 311 + 1;
    let whole = lines(&file, usize::MAX);
    assert_eq!(lines(&file, piece), whole);
    if is_text && window >= WINDOWS_READ {
        assert_eq!(whole, (vec![], true));
    } else if is_text && rest.is_empty() {
        assert_eq!(whole, (vec![], false));
    }
    if let Ok(mut reader) = RecordingReader::new(&*file) {
        let mut count = 0;
        let read = for_each(&mut reader, |step| {
            count += usize::from(!matches!(step, Step::Unknown));
            Ok(())
        });
        assert!(read.is_err() || count <= whole.0.len());
    }
});
