//! A connection's bytes reveal nothing about events that its account may not view: two worlds that differ only in the
//! content of such events write it the same bytes.

use crate::messages::whole;
use guildhall_codec::{ContextPool, StreamCompressor};
use guildhall_shared_match::{
    BodyId, Container, DeflateStream, Domain, Effort, Form, Limits, Matcher, Scope, Tables, ZSTD_WINDOW_LOG, ZstdStream,
};
use guildhall_stdx::Rng;

const NAMES: [&str; 3] = ["MESSAGE_CREATE", "TYPING_START", "PRESENCE_UPDATE"];

enum Format {
    Zstd(ZstdStream),
    Deflate(DeflateStream),
}

struct Stream {
    format: Format,
    /// It writes the stream until it moves to shared-match.
    context: Option<StreamCompressor>,
}

impl Stream {
    fn new(is_zstd: bool) -> Self {
        let format = match is_zstd {
            true => Format::Zstd(ZstdStream::default()),
            false => Format::Deflate(DeflateStream::new(Container::Zlib, 15)),
        };
        Self { format, context: None }
    }

    /// Starts with a library context.
    fn with_context(is_zstd: bool, contexts: &ContextPool) -> Self {
        let (format, context) = match is_zstd {
            true => (Format::Zstd(ZstdStream::continued()), contexts.zstd_movable(ZSTD_WINDOW_LOG)),
            false => (Format::Deflate(DeflateStream::continued(Container::Zlib, 15)), contexts.zlib_movable()),
        };
        Self { format, context: Some(context) }
    }

    fn write(
        &mut self,
        matcher: &mut Matcher,
        id: Option<BodyId>,
        seq: u64,
        (name, body): (&'static str, &[u8]),
    ) -> Vec<u8> {
        let mut out = Vec::new();
        let message = whole(Form::Json, name, seq, body);
        if let Some(context) = &mut self.context {
            context.compress(&[&message], &mut out).unwrap();
            match (&mut self.format, id) {
                (Format::Zstd(stream), Some(id)) => matcher.follow_zstd(stream, id, seq, message.len()),
                (Format::Deflate(stream), Some(id)) => matcher.follow_deflate(stream, id, seq, message.len()),
                (Format::Zstd(stream), None) => stream.follow(message.len()),
                (Format::Deflate(stream), None) => stream.follow(message.len()),
            }
            return out;
        }
        let written = id.is_some_and(|id| match &mut self.format {
            Format::Zstd(stream) => matcher.zstd(stream, id, seq, &mut out).is_ok(),
            Format::Deflate(stream) => matcher.deflate(stream, id, seq, &mut out).is_ok(),
        });
        if !written {
            match &mut self.format {
                Format::Zstd(stream) => matcher.zstd_standalone(stream, &message, &mut out),
                Format::Deflate(stream) => matcher.deflate_standalone(stream, &message, &mut out),
            }
        }
        out
    }
}

fn matcher(effort: Option<Effort>) -> Matcher {
    let limits = Limits { history_bytes_max: 1 << 20, effort };
    Matcher::new(Form::Json, Tables::built_in(Form::Json), limits)
}

/// No index keeps more positions of the same bytes.
const FILLED_MAX: usize = 20;
const EFFORTS: [Option<Effort>; 4] = [None, Some(Effort::Greedy), Some(Effort::Lazy), Some(Effort::Optimal)];

fn random(rng: &mut Rng, count: usize) -> String {
    (0..count)
        .map(|_| char::from(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"[rng.below(62) as usize]))
        .collect()
}

/// The attack of the security review: an observer fills the index with positions of a guess, lets the victim be sent a
/// direct message, and measures the own next frame, which is returned. `filled` is how many positions: it has to be one
/// less than the index keeps. `is_merged`: as if all bodies were of one domain.
fn attack(
    (is_zstd, effort): (bool, Option<Effort>),
    (secret_domain, is_merged): (Domain, bool),
    (seed, filled): (u64, usize),
    is_guessed: bool,
) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let (guess, other) = (random(&mut rng, 24), random(&mut rng, 24));
    let mut matcher = matcher(effort);
    let mut attacker = Stream::new(is_zstd);
    let mut victim = Stream::new(is_zstd);
    let mut seq = 0;
    let public = |guild| Domain::Public { guild, view: 0 };
    let mut post = |matcher: &mut Matcher, stream: Option<&mut Stream>, domain, text: String| {
        seq += 1;
        let body = format!("{{\"content\":\"{text}\",\"channel_id\":\"1\"}}");
        // Recipients of the last body of a class are expected to receive the next.
        let class = if domain == public(2) { 1 } else { 2 };
        let domain = if is_merged { public(1) } else { domain };
        let id = matcher.push(Scope { domain, class }, 4, NAMES[0], body.as_bytes());
        stream.map_or(Vec::new(), |stream| stream.write(matcher, id, seq, (NAMES[0], body.as_bytes())))
    };
    let around = |rng: &mut Rng| format!("{}{guess}{}", random(rng, 10), random(rng, 10));
    let text = around(&mut rng);
    post(&mut matcher, Some(&mut attacker), public(2), text);
    for _ in 0..6 {
        post(&mut matcher, Some(&mut attacker), public(2), "hi".to_owned());
    }
    for _ in 0..filled {
        let text = around(&mut rng);
        post(&mut matcher, None, public(3), text);
    }
    let secret = format!("pw: {} !", if is_guessed { &guess } else { &other });
    post(&mut matcher, Some(&mut victim), secret_domain, secret);
    let text = around(&mut rng);
    post(&mut matcher, Some(&mut attacker), public(2), text)
}

const SECRET_DOMAINS: [Domain; 3] = [
    Domain::Direct { channel: 9 },
    Domain::Restricted { guild: 2, channel: 5, view: 0 },
    Domain::Public { guild: 4, view: 0 },
];

#[test]
fn s1_a_frame_does_not_tell_whether_others_were_sent_a_guess() {
    let runs = |seeds: u64| (0..seeds).flat_map(|seed| (0..FILLED_MAX).map(move |filled| (seed, filled)));
    for kind in [true, false].into_iter().flat_map(|zstd| EFFORTS.map(|effort| (zstd, effort))) {
        let frames = |domain, run| [true, false].map(|is_guessed| attack(kind, domain, run, is_guessed));
        for (domain, run) in SECRET_DOMAINS.into_iter().flat_map(|domain| runs(2).map(move |run| (domain, run))) {
            let [guessed, other] = frames((domain, false), run);
            assert_eq!(guessed, other, "zstd and effort {kind:?}, {domain:?}, {run:?}");
        }
        // Check of the attack itself: it works where domains are merged.
        let works = runs(40).any(|run| {
            let [guessed, other] = frames((SECRET_DOMAINS[0], true), run);
            guessed.len() != other.len()
        });
        assert!(works, "zstd and effort {kind:?}: the attack does not work on merged domains either");
    }
}

const DOMAINS: [Domain; 9] = [
    Domain::Public { guild: 1, view: 0 },
    Domain::Restricted { guild: 1, channel: 10, view: 0 },
    Domain::Restricted { guild: 1, channel: 11, view: 0 },
    Domain::Public { guild: 1, view: 1 },
    Domain::Public { guild: 2, view: 0 },
    Domain::Restricted { guild: 2, channel: 20, view: 0 },
    Domain::Direct { channel: 30 },
    Domain::Direct { channel: 31 },
    Domain::Restricted { guild: 1, channel: 10, view: 1 },
];
const CONNECTIONS: usize = 7;
/// Of these the first is an observer, which has one of `OBSERVERS` instead.
const VIEWS: [u16; CONNECTIONS] =
    [0, 0b0_1111_0111, 0b0_0111_0111, 0b0_0011_0001, 0b1_1111_1111, 0b1_0000_1011, 0b0_0001_0111];
/// Without the requirement of view 1, and with it.
const OBSERVERS: [u16; 2] = [0b0_0000_0011, 0b1_0000_1011];

/// The bytes that an observer receives in a world; `hidden` seeds the content that it may not view. Every other seed
/// has streams that begin with contexts and move one by one.
fn observed(seed: u64, hidden: u64, effort: Option<Effort>, is_zstd: bool) -> Vec<Vec<u8>> {
    let (mut rng, mut hidden) = (Rng::new(seed), Rng::new(hidden));
    let mut views = VIEWS;
    views[0] = OBSERVERS[seed as usize % OBSERVERS.len()];
    let mut matcher = matcher(effort);
    let contexts = ContextPool::default();
    let begins =
        |_| if seed.is_multiple_of(2) { Stream::new(is_zstd) } else { Stream::with_context(is_zstd, &contexts) };
    let mut streams: Vec<(Stream, u64)> = (0..CONNECTIONS).map(begins).map(|stream| (stream, 0)).collect();
    let mut sent = Vec::new();
    let phrases: Vec<String> = (0..12).map(|_| random(&mut rng, 20)).collect();
    for step in 0..60 {
        let at = rng.below(DOMAINS.len() as u64) as usize;
        let domain = DOMAINS[at];
        let class = 10 + rng.below(3);
        // Both worlds draw the same numbers; what the observer may not view is drawn from others.
        let common: Vec<u64> = (0..3).map(|_| rng.below(12)).collect();
        let drawn: Vec<u64> = (0..3).map(|_| hidden.below(12)).collect();
        let chosen = if views[0] >> at & 1 == 1 { common } else { drawn };
        let text: Vec<&str> = chosen.iter().map(|n| phrases[*n as usize].as_str()).collect();
        let body =
            format!("{{\"content\":\"{}\",\"channel_id\":\"{class}\",\"author\":{{\"id\":\"4\"}}}}", text.join(" "));
        let name = NAMES[rng.below(3) as usize];
        let audience = views.iter().filter(|view| *view >> at & 1 == 1).count() as u32;
        let misses: Vec<bool> = (0..CONNECTIONS).map(|_| rng.chance(0.15)).collect();
        let id = matcher.push(Scope { domain, class }, audience, name, body.as_bytes());
        for (index, (stream, seq)) in streams.iter_mut().enumerate() {
            if views[index] >> at & 1 == 0 || misses[index] {
                continue;
            }
            *seq += 1;
            let wire = stream.write(&mut matcher, id, *seq, (name, body.as_bytes()));
            if index == 0 {
                sent.push(wire);
            }
        }
        // What makes a stream move does not depend on content (V1 of `partition::context_budget`).
        let moves = rng.below(CONNECTIONS as u64 * 3) as usize;
        if let Some((stream, _)) = streams.get_mut(moves) {
            stream.context = None;
        }
        match (step, rng.below(20)) {
            (_, 0) => matcher.restrict(1, 10, 10),
            (_, 1) => matcher.forget(DOMAINS[rng.below(DOMAINS.len() as u64) as usize]),
            (30, _) => matcher.forget_guild(2),
            _ => {}
        }
    }
    sent
}

#[test]
fn what_an_observer_is_sent_depends_on_nothing_that_it_may_not_view() {
    for seed in 0..60 {
        for (is_zstd, effort) in [true, false].into_iter().flat_map(|zstd| EFFORTS.map(|effort| (zstd, effort))) {
            let one = observed(seed, 1_000 + seed, effort, is_zstd);
            let other = observed(seed, 2_000 + seed, effort, is_zstd);
            assert!(one.len() > 5);
            for (index, (one, other)) in one.iter().zip(&other).enumerate() {
                assert_eq!(one, other, "message {index} of seed {seed}, zstd {is_zstd}, {effort:?}");
            }
        }
    }
}

/// A public domain can be forgotten, and its slot can serve another guild, between the search of a restricted body and
/// its first write.
#[test]
fn a_parent_that_is_forgotten_serves_no_parse() {
    let text = "the same forty bytes of text in both guilds";
    let body = |n: u32| format!("{{\"content\":\"{text} {n}\",\"channel_id\":\"1\"}}");
    let name = NAMES[0];
    let cases = [true, false].map(|zstd| {
        [Effort::Greedy, Effort::Lazy, Effort::Optimal].map(|effort| [true, false].map(|takes| (zstd, effort, takes)))
    });
    for (is_zstd, effort, takes_slot) in cases.into_iter().flatten().flatten() {
        let mut matcher = matcher(Some(effort));
        let mut stream = Stream::new(is_zstd);
        let push = |matcher: &mut Matcher, domain, body: &str| {
            matcher.push(Scope { domain, class: 1 }, 4, name, body.as_bytes())
        };
        let public = Domain::Public { guild: 1, view: 0 };
        let (first, restricted) = (body(1), body(2));
        let id = push(&mut matcher, public, &first);
        stream.write(&mut matcher, id, 1, (name, first.as_bytes()));
        let searched = push(&mut matcher, Domain::Restricted { guild: 1, channel: 9, view: 0 }, &restricted);
        matcher.forget(public);
        if takes_slot {
            let other = body(3);
            push(&mut matcher, Domain::Public { guild: 2, view: 0 }, &other);
        }
        stream.write(&mut matcher, searched, 2, (name, restricted.as_bytes()));
    }
}
