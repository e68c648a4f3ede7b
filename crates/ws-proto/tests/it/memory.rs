//! Memory per connection: none while idle, no copies of complete frames, bounded otherwise.

use crate::wire::*;
use allocation_counter::measure;
use guildhall_ws_proto::{Decoder, Event, Limits, Role};

/// Boxed state of an unfinished frame, over its payload.
const STATE_BYTES: usize = 128;

fn drain(decoder: &mut Decoder, input: &mut [u8]) -> usize {
    let mut events = decoder.handle(input);
    let mut events_count = 0;
    while let Ok(Some(_)) = events.poll() {
        events_count += 1;
    }
    events_count
}

#[test]
fn whole_frames_cost_no_allocation() {
    let mut stream = Vec::new();
    for len in [0, 1, 125, 126, 5000] {
        stream.extend(masked(FIN | TEXT, &vec![b'x'; len]));
        stream.extend(masked(FIN | BINARY, &vec![0xff; len]));
        stream.extend(masked(FIN | PING, b"p"));
    }
    stream.extend(masked(FIN | CLOSE, b"\x0f\xa0bye"));
    let (mut decoder, mut events_count) = (server(), 0);
    let cost = measure(|| events_count = drain(&mut decoder, &mut stream));
    assert_eq!((events_count, cost.count_total), (16, 0));
}

#[test]
fn whole_frames_are_not_copied() {
    let mut input = masked(FIN | BINARY, b"payload");
    let range = input.as_ptr_range();
    let mut decoder = server();
    let mut events = decoder.handle(&mut input);
    let Ok(Some(Event::Binary(payload))) = events.poll() else { panic!("one binary message") };
    assert!(range.contains(&payload.as_ptr()));
}

#[test]
fn a_ping_inside_a_fragmented_message_is_not_copied() {
    let mut decoder = server();
    drain(&mut decoder, &mut masked(BINARY, &[7; 300]));
    let mut ping = masked(FIN | PING, b"ping");
    let cost = measure(|| assert_eq!(drain(&mut decoder, &mut ping), 1));
    assert_eq!(cost.count_total, 0);
    let mut last = masked(FIN, b"");
    let mut events = decoder.handle(&mut last);
    assert_eq!(events.poll(), Ok(Some(Event::Binary(&[7; 300]))));
}

#[test]
fn a_cut_in_the_header_costs_no_copy_of_the_payload() {
    let mut input = masked(FIN | BINARY, &[7; 300]);
    for cut in 1..=8 {
        let mut decoder = server();
        let (header, rest) = input.split_at_mut(cut);
        drain(&mut decoder, &mut header.to_vec());
        let mut rest = rest.to_vec();
        let range = rest.as_ptr_range();
        let mut events = decoder.handle(&mut rest);
        let Ok(Some(Event::Binary(payload))) = events.poll() else { panic!("one binary message") };
        assert_eq!(payload, [7; 300]);
        assert!(range.contains(&payload.as_ptr()), "cut at {cut}");
    }
}

#[test]
fn an_idle_decoder_holds_nothing() {
    // Everything that uses the heap temporarily, byte by byte; nothing may remain.
    let stream = [
        masked(FIN | TEXT, "κόσμε".as_bytes()),
        masked(TEXT, b"a"),
        masked(FIN | PING, &[1; 125]),
        masked(FIN, &[b'b'; 3000]),
        masked(FIN | BINARY, b""),
    ]
    .concat();
    let mut decoder = server();
    assert_eq!(decoder.heap_bytes(), 0);
    let cost = measure(|| {
        for byte in &stream {
            drain(&mut decoder, &mut [*byte]);
        }
    });
    assert!(cost.count_total > 0, "pieces do need the heap: {cost:?}");
    assert_eq!((cost.count_current, cost.bytes_current), (0, 0));
    assert_eq!(decoder.heap_bytes(), 0);
}

#[test]
fn heap_bytes_equals_the_allocation() {
    let stream = [masked(TEXT, &[b'a'; 700]), masked(FIN | PING, b"ping"), masked(FIN, &[b'b'; 700])].concat();
    for cut in 0..stream.len() {
        let mut decoder = server();
        let mut first = stream[..cut].to_vec();
        let cost = measure(|| {
            drain(&mut decoder, &mut first);
        });
        assert_eq!(decoder.heap_bytes() as i64, cost.bytes_current, "cut at {cut}");
    }
}

#[test]
fn memory_grows_with_received_bytes_up_to_the_limit() {
    // A header with a large length costs nothing; payload costs at most twice itself, and never over the limit.
    let limits = Limits { message_bytes_max: 15_360 };
    for stream in [
        masked(FIN | BINARY, &[0; 15_360]),
        [masked(BINARY, &[0; 8000]), masked(FIN, &[0; 7360])].concat(),
        (0..15_360).fold(masked(BINARY, &[]), |stream, _| [stream, masked(CONTINUATION, &[0])].concat()),
    ] {
        let mut decoder = Decoder::new(Role::Server, limits);
        for (at, byte) in stream.iter().enumerate() {
            drain(&mut decoder, &mut [*byte]);
            let arrived = at + 1;
            let bound = STATE_BYTES + (2 * arrived).clamp(128, 15_360);
            assert!(decoder.heap_bytes() <= bound, "{} bytes after {arrived}", decoder.heap_bytes());
        }
    }
}

#[test]
fn small_fragments_do_not_copy_the_message_again_and_again() {
    let mut stream = masked(BINARY, &[]);
    (0..15_000).for_each(|_| stream.extend(masked(CONTINUATION, &[0])));
    let mut decoder = Decoder::new(Role::Server, Limits { message_bytes_max: 15_360 });
    let cost = measure(|| {
        drain(&mut decoder, &mut stream);
    });
    assert!(cost.count_total < 20, "{cost:?}");
}

#[test]
fn an_error_and_a_close_free_everything() {
    for last in [masked(FIN | 3, b""), masked(FIN | CLOSE, b"")] {
        let mut decoder = server();
        drain(&mut decoder, &mut masked(TEXT, &[b'x'; 1000]));
        assert!(decoder.heap_bytes() > 1000);
        drain(&mut decoder, &mut last.clone());
        assert_eq!(decoder.heap_bytes(), 0);
    }
}
