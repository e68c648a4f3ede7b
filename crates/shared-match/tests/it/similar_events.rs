//! A connection that lacks the newest text of a name is served by an older one.

use crate::messages::noise;
use guildhall_shared_match::{
    BodyId, Container, DeflateStream, Domain, Form, Limits, Matcher, Scope, Tables, ZstdStream,
};
use guildhall_stdx::Rng;

const NAME: &str = "TYPING_START";
/// Of either kind: more than are served one by one.
const CONNECTIONS: usize = 16;

struct Crowd<S> {
    matcher: Matcher,
    streams: Vec<S>,
    write: fn(&mut Matcher, &mut S, BodyId, &mut Vec<u8>),
}

impl<S: Clone> Crowd<S> {
    fn new(stream: &S, write: fn(&mut Matcher, &mut S, BodyId, &mut Vec<u8>)) -> Self {
        let matcher = Matcher::new(Form::Json, Tables::built_in(Form::Json), Limits::default());
        Self { matcher, streams: vec![stream.clone(); 2 * CONNECTIONS], write }
    }

    /// Bytes on the wire, by connection.
    fn send(&mut self, class: u64, name: &'static str, body: &[u8], to: std::ops::Range<usize>) -> Vec<usize> {
        let id = self
            .matcher
            .push(Scope { domain: Domain::Public { guild: 1, view: 0 }, class }, 1_000, name, body)
            .unwrap();
        let write = |stream| {
            let mut out = Vec::new();
            (self.write)(&mut self.matcher, stream, id, &mut out);
            out.len()
        };
        self.streams[to].iter_mut().map(write).collect()
    }

    fn check(&mut self) {
        let all = 0..2 * CONNECTIONS;
        let body = noise(&mut Rng::new(7), 900);
        self.send(1, "X", b"{}", all.clone());
        self.send(2, NAME, &body, 0..CONNECTIONS);
        self.send(3, NAME, &body, CONNECTIONS..2 * CONNECTIONS);
        let bytes = self.send(1, NAME, &body, all);
        assert!(bytes.iter().all(|bytes| *bytes < body.len() / 8), "{bytes:?} of {}", body.len());
    }
}

#[test]
fn an_older_body_of_the_name_serves_connections_without_the_newest() {
    Crowd::new(&ZstdStream::default(), |matcher, stream, id, out| matcher.zstd(stream, id, 1, out).unwrap()).check();
    let zlib = DeflateStream::new(Container::Zlib, 15);
    Crowd::new(&zlib, |matcher, stream, id, out| matcher.deflate(stream, id, 1, out).unwrap()).check();
}
