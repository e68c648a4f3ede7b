//! Train: tables from samples of what connections are sent.
//!
//! Method      parse, count what the parses are made of on every connection, make tables of that, and again with these,
//!             for the parses depend on the prices.

use crate::{
    entropy::tables::{Form, Histogram, Tables},
    format::{Format, Zstd},
    history::{History, Scope},
    limits::Effort,
    parse::prices::{Prices, ZstdPrices},
    parse::{Offset, Parser, Past, Sequence, Task},
    search::finder::{MatchFinder, SearchTask, Similar},
    stream::envelope::{Head, around, message_size},
    stream::references::{Offsets, References, StreamCursor},
    stream::state::StreamState,
    zstd::WINDOW_BYTES,
    zstd::codes,
};

/// The tables hardly change after this many rounds.
const ROUNDS: usize = 3;

/// An event with its recipients.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Possible recipients.
    pub scope: Scope,
    /// Name of the event.
    pub name: &'static str,
    /// The value of `d`.
    pub body: Vec<u8>,
    /// Which connections do, by number.
    pub recipients: Vec<usize>,
}

/// Tables for traffic like `samples`, in their order.
pub fn train(form: Form, samples: &[Sample]) -> Tables {
    let mut tables = Histogram::default().tables(form);
    for _ in 0..ROUNDS {
        tables = count(form, samples, &tables).tables(form);
    }
    tables
}

fn count(form: Form, samples: &[Sample], tables: &Tables) -> Histogram {
    let connections = samples.iter().flat_map(|sample| &sample.recipients).max().map_or(0, |last| last + 1);
    let mut states: Vec<(StreamState, u64)> = vec![(StreamState::default(), 0); connections];
    let (mut history, mut finder, mut parser) = (History::new(20 << 20), MatchFinder::default(), Parser::default());
    let limits = Zstd::FAST.with(Effort::Optimal, WINDOW_BYTES);
    let (prices, mut seen, mut offsets) = (ZstdPrices::new(tables), Histogram::default(), Offsets::default());
    for sample in samples {
        let (before, after) = around(form);
        let bytes = [before, &sample.body, after].concat();
        let Some(id) = history.push(sample.scope, sample.name, &bytes, message_size(form, sample.name, bytes.len()))
        else {
            continue;
        };
        let searched = history.searched(history.entry(id).expect("it was pushed just now"));
        history.index_up_to(&searched, id);
        let body = history.entry(id).expect("it was pushed just now");
        for recipient in &sample.recipients {
            let (state, seq) = &mut states[*recipient];
            *seq += 1;
            let mut head = Head::NONE;
            if form == Form::Json {
                head.begin_json(sample.name, *seq);
            }
            let position = state.position().wrapping_add(head.len() as u32);
            let reach = WINDOW_BYTES - bytes.len() as u32;
            state.number(*seq, position);
            let usable = |id| state.distance(id, position, history.sizes()).filter(|distance| *distance <= reach);
            let mut similar = Similar::default();
            let mut named = history.similar(body, &searched).into_iter();
            similar[0] = named.find(|other| *other != id && usable(*other).is_some());
            let task = SearchTask { history: &history, body, searched: &searched, similar, dictionary: None };
            let candidates = finder.candidates(task, limits, usable);
            let past = Past { history: &history, dictionary: None };
            let task = Task { body, past, candidates, reach: WINDOW_BYTES };
            let sequences = parser.parse(task, Prices::Zstd(&prices));
            let references = References::of(&sequences, None);
            let cursor = StreamCursor { state, sizes: history.sizes(), position, window: WINDOW_BYTES, dictionary: 0 };
            if references.resolve(cursor, &mut offsets).is_ok() {
                see(&mut seen, &bytes, &references, &sequences, &offsets);
            }
            if form == Form::Json {
                // Mostly the last digits; the rest is copied.
                seq.to_string().bytes().rev().take(2).for_each(|digit| seen.bytes[usize::from(digit)] += 1);
                seen.literals[0] += 1;
                seen.matches[usize::from(codes::match_length(head.len() as u32 - 2).symbol)] += 1;
            }
            state.advance(head.len());
            state.remember(id, position, history.sizes());
            state.advance(bytes.len());
        }
    }
    seen
}

fn see(seen: &mut Histogram, bytes: &[u8], references: &References, sequences: &[Sequence], offsets: &Offsets) {
    let mut at = 0;
    for sequence in sequences {
        let end = at + sequence.literals as usize;
        bytes[at..end].iter().for_each(|byte| seen.bytes[usize::from(*byte)] += 1);
        at = end + sequence.length as usize;
        let value = match sequence.offset {
            Offset::Repeat(value) => u32::from(value),
            Offset::Explicit => {
                let distance = offsets.of(references.slot(sequence.alignment.source));
                distance.wrapping_add((3 - sequence.alignment.shift) as u32)
            }
        };
        if sequence.literals <= codes::LITERALS_RUN_MAX {
            seen.literals[usize::from(codes::literals(sequence.literals).symbol)] += 1;
        }
        seen.matches[usize::from(codes::match_length(sequence.length).symbol)] += 1;
        seen.offsets[usize::from(codes::offset(value).symbol)] += 1;
    }
    bytes[at..].iter().for_each(|byte| seen.bytes[usize::from(*byte)] += 1);
}
