//! Frames: any loss, repetition and order is noticed; what arrives is what was sent; other versions are refused.

use bytes::Bytes;
use guildhall_bus::{
    Event, FrameError, HEADER_BYTES, Incoming, IncomingLimits, Outgoing, Received, SenderId, StreamId, sender_of,
};
use guildhall_stdx::Rng;
use proptest::prelude::*;

const SENDER: SenderId = SenderId(0x0102_0304_0506_0708);
const STREAM: StreamId = StreamId(9);

fn incoming() -> Incoming {
    Incoming::new(IncomingLimits::default())
}

fn message(payload: &[u8]) -> Option<Event> {
    Some(Event::Message(Received {
        sender: SENDER,
        stream: STREAM,
        version: 3,
        payload: Bytes::copy_from_slice(payload),
    }))
}

const GAP: Option<Event> = Some(Event::Gap(SENDER, STREAM));

/// The form never changes: nodes of different versions read it.
#[test]
fn known_bytes() {
    let mut outgoing = Outgoing::new(SENDER, STREAM);
    outgoing.frames(3, b"", 100).unwrap();
    let frames = outgoing.frames(3, b"abc", HEADER_BYTES + 2).unwrap();
    let head = |part: u8| [&[1, 0, 3, 0, part, 0, 0, 0, 2, 0, 0, 0][..], &[8, 7, 6, 5, 4, 3, 2, 1, 9]].concat();
    let rest = [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(frames, [[&head(0)[..], &rest, b"ab"].concat(), [&head(1)[..], &rest, b"c"].concat()]);
}

#[test]
fn f1_other_versions_are_refused() {
    let frame = Outgoing::new(SENDER, STREAM).frames(3, b"abc", 100).unwrap().remove(0);
    let changed = |at: usize, to: u8| {
        let mut frame = frame.to_vec();
        frame[at] = to;
        incoming().accept(&Bytes::from(frame)).unwrap_err()
    };
    let error = changed(0, 2);
    assert_eq!(error, FrameError::UnknownVersion { found: 2 });
    assert_eq!(error.to_string(), "the frame has version 2, and this program reads version 1: upgrade the older node");
    for (at, to) in [(1, 1), (4, 1), (8, 0)] {
        assert!(matches!(changed(at, to), FrameError::Malformed(_)), "byte {at}");
    }
    for length in 0..HEADER_BYTES {
        assert!(incoming().accept(&frame.slice(..length)).is_err(), "{length}");
    }
    // A frame of another version is refused even if it is shorter than ours.
    assert_eq!(incoming().accept(&Bytes::from_static(&[7])), Err(FrameError::UnknownVersion { found: 7 }));
}

#[test]
fn f2_every_loss_is_reported_once_and_before_later_messages() {
    let mut outgoing = Outgoing::new(SENDER, STREAM);
    let mut one = |payload: &[u8]| outgoing.frames(3, payload, 100).unwrap().remove(0);
    let (a, b, c, d, e) = (one(b"a"), one(b"b"), one(b"c"), one(b"d"), one(b"e"));
    let mut incoming = incoming();
    assert_eq!(incoming.accept(&a), Ok((None, message(b"a"))));
    assert_eq!(incoming.accept(&c), Ok((GAP, message(b"c"))));
    assert_eq!(incoming.accept(&b), Ok((None, None)), "too late");
    assert_eq!(incoming.accept(&d), Ok((None, message(b"d"))));
    assert_eq!(incoming.accept(&d), Ok((None, None)), "repeated");
    incoming.retain(|sender| sender != SENDER);
    assert_eq!(incoming.accept(&e), Ok((GAP, message(b"e"))), "a receiver that joins late has missed messages");
}

#[test]
fn f2_a_lost_part_is_a_lost_message() {
    let mut outgoing = Outgoing::new(SENDER, STREAM);
    let frames = outgoing.frames(3, b"abcdef", HEADER_BYTES + 2).unwrap();
    let next = outgoing.frames(3, b"next", 100).unwrap().remove(0);
    for lost in 0..3 {
        let mut incoming = incoming();
        let mut gaps = 0;
        for (_, frame) in frames.iter().enumerate().filter(|(n, _)| *n != lost) {
            let (gap, event) = incoming.accept(frame).unwrap();
            assert_eq!(event, None);
            gaps += u32::from(gap == GAP);
        }
        let (gap, event) = incoming.accept(&next).unwrap();
        gaps += u32::from(gap == GAP);
        assert_eq!((gaps, event), (1, message(b"next")), "part {lost} is lost");
    }
}

#[test]
fn messages_past_a_limit_are_gaps() {
    let limits = IncomingLimits { message_bytes_max: 10, partial_bytes_max: 12, streams_max: 2 };
    let mut incoming = Incoming::new(limits);
    let mut outgoing = Outgoing::new(SENDER, STREAM);
    let mut gaps = 0;
    for frame in outgoing.frames(3, b"0123456789a", HEADER_BYTES + 4).unwrap() {
        let (gap, event) = incoming.accept(&frame).unwrap();
        assert_eq!(event, None);
        gaps += u32::from(gap.is_some());
    }
    assert_eq!(gaps, 1);
    for frame in outgoing.frames(3, b"0123456789", HEADER_BYTES + 10).unwrap() {
        assert_eq!(incoming.accept(&frame), Ok((None, message(b"0123456789"))));
    }
    // A third stream evicts the stream that was silent longest. The next message of that one is a gap.
    for stream in [20, 21] {
        let frame = Outgoing::new(SENDER, StreamId(stream)).frames(3, b"x", 100).unwrap().remove(0);
        assert_eq!(incoming.accept(&frame).unwrap().0, None);
    }
    let frame = outgoing.frames(3, b"y", 100).unwrap().remove(0);
    assert_eq!(incoming.accept(&frame), Ok((GAP, message(b"y"))));
}

proptest! {
    /// Frames of several streams in any order, some lost, some repeated: per stream, messages are in order and never
    /// repeated, and a gap precedes the first message after a loss.
    #[test]
    fn f2_f3_any_delivery(seed in any::<u64>()) {
        let mut rng = Rng::new(seed);
        let mut streams: Vec<Outgoing> = (0..3).map(|n| Outgoing::new(SENDER, StreamId(n))).collect();
        let mut incoming = incoming();
        let mut next = [0_u8; 3];
        // Lost and not reported yet; reported, and nothing received since.
        let (mut lost, mut broken) = ([false; 3], [false; 3]);
        for _ in 0..200 {
            let of = rng.below(3) as usize;
            let payload = vec![next[of]; rng.below(40) as usize + 1];
            next[of] = next[of].wrapping_add(1);
            let frames = streams[of].frames(3, &payload, HEADER_BYTES + 10).unwrap();
            let mut is_whole = true;
            let mut delivered = false;
            for frame in &frames {
                if rng.chance(0.05) {
                    is_whole = false;
                    lost[of] |= !broken[of];
                    continue;
                }
                for _ in 0..1 + u64::from(rng.chance(0.1)) {
                    let (gap, event) = incoming.accept(frame).unwrap();
                    if gap.is_some() {
                        prop_assert!(lost[of], "a gap without a loss");
                        (lost[of], broken[of]) = (false, true);
                    }
                    if let Some(Event::Message(received)) = event {
                        prop_assert!(!lost[of], "a message after a loss that was not reported");
                        prop_assert!(is_whole && !delivered);
                        prop_assert_eq!(&received.payload[..], &payload[..]);
                        delivered = true;
                        broken[of] = false;
                    }
                }
            }
            prop_assert_eq!(delivered, is_whole);
        }
    }

    /// No bytes make a receiver panic.
    #[test]
    fn any_bytes(frames in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..60), 0..20)) {
        let mut incoming = incoming();
        for mut frame in frames {
            if let Some(first) = frame.first_mut() {
                *first = 1;
            }
            let _ = incoming.accept(&Bytes::from(frame));
        }
    }
}

#[test]
fn parts_of_a_message_that_is_never_completed_are_dropped() {
    let mut outgoing = Outgoing::new(SENDER, STREAM);
    let frames = outgoing.frames(3, b"abcdef", HEADER_BYTES + 2).unwrap();
    let next = outgoing.frames(3, b"next", 100).unwrap().remove(0);
    let mut incoming = incoming();
    assert_eq!(sender_of(&frames[0]), Some(SENDER));
    assert_eq!(sender_of(b"nothing"), None);
    assert_eq!(incoming.accept(&frames[0]), Ok((None, None)));
    incoming.drop_stale();
    assert_eq!(incoming.partial_bytes(), 2, "it came since the last look");
    assert_eq!(incoming.accept(&frames[1]), Ok((None, None)));
    incoming.drop_stale();
    assert_eq!(incoming.partial_bytes(), 4);
    incoming.drop_stale();
    assert_eq!(incoming.partial_bytes(), 0);
    assert_eq!(incoming.accept(&frames[2]), Ok((GAP, None)), "too late");
    assert_eq!(incoming.accept(&next), Ok((None, message(b"next"))));
    // Of senders that are gone nothing is left.
    let mut other = Outgoing::new(SenderId(77), STREAM);
    assert_eq!(incoming.accept(&other.frames(3, b"abcdef", HEADER_BYTES + 2).unwrap()[0]), Ok((None, None)));
    incoming.retain(|sender| sender == SENDER);
    assert_eq!(incoming.partial_bytes(), 0);
}
