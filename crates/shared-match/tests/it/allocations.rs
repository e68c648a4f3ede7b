//! Deliveries allocate nothing: allocations happen per event, whatever the number of recipients.

use crate::{dictionary::Known, messages::event};
use guildhall_shared_match::{Container, DeflateStream, Effort, Form, Limits, Matcher, Tables, ZstdStream};
use guildhall_stdx::Rng;

/// Allocations of writing `events` to `count` connections of each kind that have been there for long.
fn allocations(count: usize, events: u64, effort: Effort) -> u64 {
    let mut rng = Rng::new(5);
    let limits = Limits { effort: Some(effort), ..Limits::default() };
    let mut matcher = Matcher::new(Form::Json, Tables::built_in(Form::Json), limits);
    let mut zstd: Vec<ZstdStream> = vec![ZstdStream::default(); count];
    let mut deflate: Vec<DeflateStream> = vec![DeflateStream::new(Container::Zlib, 15); count];
    // These begin later: at the end they still refer to their dictionary.
    let mut with_dictionary: Vec<ZstdStream> = Known::all()
        .iter()
        .flat_map(|known| vec![ZstdStream::with_dictionary(known.shared.clone()); count / 2])
        .collect();
    let mut out = Vec::with_capacity(1 << 20);
    let mut total = 0;
    for step in 0..700 + events {
        let event = event(&mut rng, Form::Json, step);
        let Some(id) = matcher.push(event.scope, 2 * count as u32, event.name, &event.body) else { continue };
        let mut write = || {
            for (zstd, deflate) in zstd.iter_mut().zip(&mut deflate) {
                out.clear();
                matcher.zstd(zstd, id, step, &mut out).expect("the newest text is kept");
                matcher.deflate(deflate, id, step, &mut out).expect("the newest text is kept");
            }
            for stream in with_dictionary.iter_mut().filter(|_| step > 500) {
                out.clear();
                matcher.zstd(stream, id, step, &mut out).expect("the newest text is kept");
            }
        };
        match step {
            0..700 => write(),
            _ => total += allocation_counter::measure(write).count_total,
        }
    }
    total
}

#[test]
fn none_per_delivery() {
    for effort in [Effort::Lazy, Effort::Optimal] {
        let (few, many) = (allocations(8, 40, effort), allocations(80, 40, effort));
        // With more recipients the search is more thorough, and finds parses of other lengths.
        assert!(many <= few + few / 10, "{effort:?}: {few} allocations for 40 events to 8 connections, {many} to 80");
    }
}
