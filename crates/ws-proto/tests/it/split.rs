//! Events and errors do not depend on how the input is split.

use crate::wire::*;
use guildhall_ws_proto::{Decoder, Limits, Role};
use proptest::prelude::*;

/// Mostly valid frames, so that streams get somewhere, and sometimes one with a single error.
pub fn frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let text = prop_oneof![
        8 => "\\PC{0,40}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    let bytes = prop_oneof![8 => 0usize..40, 2 => 100usize..300, 1 => 65_500usize..65_600]
        .prop_flat_map(|len| prop::collection::vec(any::<u8>(), len..=len));
    let code = prop_oneof![Just(1000u16), 4000u16..5000, any::<u16>()];
    let message = prop_oneof![
        4 => (prop_oneof![Just(TEXT), Just(TEXT), Just(BINARY)], text.clone(), prop::collection::vec(any::<prop::sample::Index>(), 0..4), any::<bool>())
            .prop_map(|(opcode, payload, cuts, pings)| fragmented(opcode, &payload, &cuts, pings)),
        2 => bytes.clone().prop_map(|payload| vec![masked(FIN | BINARY, &payload)]),
        1 => text.clone().prop_map(|payload| vec![masked(FIN | PING, &payload[..payload.len().min(125)])]),
        1 => (code, text).prop_map(|(code, reason)| {
            let payload = [&code.to_be_bytes(), &reason[..reason.len().min(123)]].concat();
            vec![masked(FIN | CLOSE, &payload)]
        }),
        1 => (any::<u8>(), bytes).prop_map(|(first, payload)| vec![masked(first, &payload)]),
    ];
    prop::collection::vec(message, 0..8).prop_map(|messages| messages.concat())
}

fn fragmented(opcode: u8, payload: &[u8], cuts: &[prop::sample::Index], pings: bool) -> Vec<Vec<u8>> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(payload.len() + 1)).collect();
    cuts.sort_unstable();
    let starts = std::iter::once(0).chain(cuts.iter().copied());
    let ends = cuts.iter().copied().chain([payload.len()]);
    let mut frames = Vec::new();
    for (i, (start, end)) in starts.zip(ends).enumerate() {
        let fin = if i == cuts.len() { FIN } else { 0 };
        if pings && i > 0 {
            frames.push(masked(FIN | PING, &[i as u8]));
        }
        frames.push(masked(fin | if i == 0 { opcode } else { CONTINUATION }, &payload[start..end]));
    }
    frames
}

/// Cuts `bytes` into pieces of the given sizes, cyclically.
pub fn pieces<'a>(bytes: &'a [u8], sizes: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
    let (mut rest, mut sizes) = (bytes, sizes.iter().cycle());
    std::iter::from_fn(move || {
        let (piece, after) = rest.split_at((*sizes.next()?).min(rest.len()));
        rest = after;
        (!piece.is_empty() || !rest.is_empty()).then_some(piece)
    })
}

/// Sizes of pieces, at least one of them not zero.
pub fn sizes() -> impl Strategy<Value = Vec<usize>> {
    let size = prop_oneof![4 => 0usize..20, 1 => 20usize..2000];
    (prop::collection::vec(size, 0..6), 1usize..50).prop_map(|(mut sizes, last)| {
        sizes.push(last);
        sizes
    })
}

proptest! {
    #[test]
    fn any_cut_gives_the_same(
        frames in frames(),
        flip in prop::option::of((any::<prop::sample::Index>(), any::<u8>())),
        sizes in sizes(),
        message_bytes_max in prop_oneof![Just(1u32 << 20), 0u32..200],
        rsv1_allowed: bool,
    ) {
        let mut bytes = frames.concat();
        if let (Some((at, bits)), false) = (flip, bytes.is_empty()) {
            let at = at.index(bytes.len());
            bytes[at] ^= bits;
        }
        let new = || {
            let mut decoder = Decoder::new(Role::Server, Limits { message_bytes_max });
            decoder.set_rsv1_allowed(rsv1_allowed);
            decoder
        };
        let whole = feed(&mut new(), [&bytes[..]]);
        prop_assert_eq!(&feed(&mut new(), pieces(&bytes, &sizes)), &whole);
        if bytes.len() < 2000 {
            prop_assert_eq!(&feed(&mut new(), bytes.chunks(1)), &whole);
        }
    }

    #[test]
    fn a_new_decoder_goes_on_where_another_one_was(
        frames in frames(),
        cut: prop::sample::Index,
        rsv1_allowed: bool,
    ) {
        let bytes = frames.concat();
        let new = || {
            let mut decoder = Decoder::new(Role::Server, Limits { message_bytes_max: 1 << 20 });
            decoder.set_rsv1_allowed(rsv1_allowed);
            decoder
        };
        let whole = feed(&mut new(), [&bytes[..]]);
        let (before, after) = bytes.split_at(cut.index(bytes.len() + 1));
        let mut decoder = new();
        let mut found = feed(&mut decoder, [before]);
        if found.error.is_none() && !decoder.is_done() {
            let unfinished = decoder.unfinished();
            let rest = feed(&mut new(), [&unfinished[..], after]);
            found.seen.extend(rest.seen);
            found.error = rest.error;
        }
        prop_assert_eq!(found, whole);
    }

    #[test]
    fn noise_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), sizes in sizes()) {
        for new in [server, client] {
            let whole = feed(&mut new(), [&bytes[..]]);
            prop_assert_eq!(feed(&mut new(), pieces(&bytes, &sizes)), whole);
        }
    }

    #[test]
    fn polling_resumes_with_unread_bytes(frames in frames(), stop_after in 0usize..4) {
        let bytes = frames.concat();
        let whole = feed(&mut server(), [&bytes[..]]);
        let (mut decoder, mut seen, mut error, mut rest) = (server(), Vec::new(), None, bytes.clone());
        loop {
            let mut scratch = rest.clone();
            let mut events = decoder.handle(&mut scratch);
            let mut more = true;
            for _ in 0..=stop_after {
                match events.poll() {
                    Ok(Some(event)) => seen.push(event.into()),
                    Ok(None) => more = false,
                    Err(failed) => (more, error) = (false, Some(failed)),
                }
                if !more { break }
            }
            rest.drain(..rest.len() - events.unread_bytes());
            if !more { break }
        }
        prop_assert_eq!((seen, error), (whole.seen, whole.error));
    }
}
