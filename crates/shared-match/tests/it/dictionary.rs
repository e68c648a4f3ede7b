//! Dictionaries: a stream that starts with one is readable with it, and only with it.

use crate::messages::{event, whole};
use guildhall_codec as codec;
use guildhall_shared_match::{Dictionary, Form, Limits, Matcher, Tables, ZSTD_WINDOW_LOG, ZstdStream};
use guildhall_stdx::Rng;
use std::sync::{Arc, OnceLock};
use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// A dictionary, at both ends.
pub struct Known {
    bytes: Arc<[u8]>,
    pub shared: Arc<Dictionary>,
}

impl Known {
    fn train(seed: u64, form: Form, bytes_max: usize) -> Self {
        let mut rng = Rng::new(seed);
        let samples: Vec<Vec<u8>> = (0..600)
            .map(|number| {
                let event = event(&mut rng, form, 1_000_000 + number);
                whole(form, event.name, number * 7, &event.body)
            })
            .filter(|sample| sample.len() < 4_000)
            .collect();
        let trained = codec::Dictionary::train(&samples, bytes_max).expect("there are samples enough");
        let shared = Dictionary::new(trained.number(), trained.content()).expect("it is small");
        Self { bytes: trained.bytes().clone(), shared: Arc::new(shared) }
    }

    /// Two that fit, and one of noise.
    pub fn all() -> &'static [Self] {
        static ALL: OnceLock<Vec<Known>> = OnceLock::new();
        ALL.get_or_init(|| vec![Self::train(1, Form::Json, 8 << 10), Self::train(2, Form::Etf, 32 << 10)])
    }

    /// A decoder that has it.
    pub fn reader(&self) -> DCtx<'static> {
        let mut context = DCtx::create();
        context.load_dictionary(&self.bytes).expect("libzstd made it");
        context
    }
}

fn read(context: &mut DCtx<'_>, wire: &[u8], room: usize) -> Result<Vec<u8>, &'static str> {
    let mut out = vec![0; room];
    let (mut input, mut written) = (InBuffer::around(wire), 0);
    while input.pos() < wire.len() {
        let mut output = OutBuffer::around_pos(&mut out[..], written);
        context.decompress_stream(&mut output, &mut input).map_err(zstd_safe::get_error_name)?;
        written = output.pos();
    }
    out.truncate(written);
    Ok(out)
}

fn matcher(form: Form) -> Matcher {
    Matcher::new(form, Tables::built_in(form), Limits { history_bytes_max: 4 << 20, ..Limits::default() })
}

/// A stream, its reader, and what it took.
struct Line {
    stream: ZstdStream,
    reader: DCtx<'static>,
    wire: Vec<u8>,
}

impl Line {
    fn new(known: Option<&Known>) -> Self {
        let stream = known.map_or(ZstdStream::default(), |known| ZstdStream::with_dictionary(known.shared.clone()));
        Self { stream, reader: known.map_or(DCtx::create(), Known::reader), wire: Vec::new() }
    }

    /// Writes with `write` and checks that the reader decodes `message`. Returns the number of bytes written.
    fn send(&mut self, message: &[u8], write: impl FnOnce(&mut ZstdStream, &mut Vec<u8>)) -> usize {
        self.wire.clear();
        write(&mut self.stream, &mut self.wire);
        let read = read(&mut self.reader, &self.wire, message.len() + 1).expect("it can be read");
        assert!(read == message, "{} bytes were sent and {} others read", message.len(), read.len());
        self.wire.len()
    }
}

/// With two connections that are sent the same: at first the one with a dictionary takes less, and once it is old they
/// take the very same bytes.
#[test]
fn it_helps_at_first_and_costs_nothing_later() {
    for (form, known) in [Form::Json, Form::Etf].into_iter().zip(Known::all()) {
        let (mut rng, mut matcher) = (Rng::new(7), matcher(form));
        let mut lines = [Line::new(Some(known)), Line::new(None)];
        let (mut sent, mut early, mut messages) = (0, [0, 0], 0);
        for seq in 1..6_000 {
            let event = event(&mut rng, form, seq);
            if event.body.len() > 4_000 {
                continue;
            }
            let id = matcher.push(event.scope, 100, event.name, &event.body).expect("it is short");
            let message = whole(form, event.name, seq, &event.body);
            let sizes = lines.each_mut().map(|line| {
                line.send(&message, |stream, wire| matcher.zstd(stream, id, seq, wire).expect("it is the newest"))
            });
            if sent > 1 << 20 {
                assert!(lines[0].wire == lines[1].wire, "{} and {} bytes after {sent}", sizes[0], sizes[1]);
            }
            messages += 1;
            if messages <= 10 {
                (early[0], early[1]) = (early[0] + sizes[0], early[1] + sizes[1]);
            }
            sent += message.len();
        }
        assert!(sent > 3 << 19, "{sent} bytes are not old");
        assert!(early[0] * 10 < early[1] * 9, "{early:?}");
    }
}

#[test]
fn a_reader_without_the_dictionary_rejects_the_stream() {
    let [known, other] = Known::all() else { panic!("there are two") };
    let mut matcher = matcher(Form::Json);
    let mut wire = Vec::new();
    let mut stream = ZstdStream::with_dictionary(known.shared.clone());
    matcher.zstd_standalone(&mut stream, b"what is said to one alone, and long enough to be coded", &mut wire);
    assert_eq!(zstd_safe::get_dict_id_from_frame(&wire).map(|id| id.get()), Some(known.shared.number()));
    for mut reader in [other.reader(), DCtx::create()] {
        assert_eq!(read(&mut reader, &wire, 100), Err("Dictionary mismatch"));
    }
    read(&mut known.reader(), &wire, 100).expect("the right one reads it");
}

/// Messages made of nothing but pieces of the dictionary, one after the other, until it is long out of reach; some are
/// longer than the window themselves.
#[test]
fn out_of_reach_it_is_not_referred_to() {
    let window = 1 << ZSTD_WINDOW_LOG;
    let known = &Known::all()[1];
    let content = known.shared.content();
    let mut rng = Rng::new(8);
    let mut pieces = |length: usize| {
        let mut message = Vec::new();
        while message.len() < length {
            let from = rng.below(content.len() as u64 - 200) as usize;
            message.extend_from_slice(&content[from..from + 30 + rng.below(170) as usize]);
        }
        message
    };
    for begin in [0, 1, 500_000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, window - 1, window, window + 1, 2 * window] {
        let mut matcher = matcher(Form::Json);
        let (mut line, mut without) = (Line::new(Some(known)), Line::new(None));
        let mut rest = begin;
        while rest > 0 {
            let message = vec![b'x'; rest.min(100_000)];
            rest -= message.len();
            for line in [&mut line, &mut without] {
                line.send(&message, |stream, wire| stream.store(&message, wire));
            }
        }
        // The tables of the stream first.
        for (index, message) in [pieces(400), pieces(400)].iter().enumerate() {
            let [taken, without] = [&mut line, &mut without]
                .map(|line| line.send(message, |stream, wire| matcher.zstd_standalone(stream, message, wire)));
            match begin + 400 * index {
                0..=1_048_576 => assert!(taken * 5 < without * 4, "{taken} instead of {without} bytes from {begin} on"),
                _ => assert_eq!(taken, without, "from {begin} on"),
            }
        }
        for length in [3 * window / 2, 1_000, 2 * window, 1_000] {
            let message = pieces(length);
            line.send(&message, |stream, wire| matcher.zstd_standalone(stream, &message, wire));
        }
    }
}
