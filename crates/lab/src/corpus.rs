//! Corpus: recordings in memory, for work that reads them often.
//!
//! Owns        the messages of recordings in the encodings of their sessions, and which of them are held out.
//! Limits      `BYTES_MAX` of bodies; later ones are left out, and counted.

use crate::{
    arms::Message,
    recording::{Header, RecordingReader},
    show::{Step, for_each},
};
use anyhow::{Result, ensure};
use guildhall_codec::Encoding;
use guildhall_model::EventName;
use std::{collections::BTreeSet, io::Read};

/// Bytes of bodies in memory.
const BYTES_MAX: usize = 512 << 20;
/// One session in this many is held out of training, and this part of the recording's end.
const HELD_OUT_ONE_IN: usize = 4;

/// A dispatch in memory.
#[derive(Clone, Debug)]
pub struct Recorded {
    session: u64,
    encoding: Encoding,
    name: EventName,
    seq: u64,
    rule: Box<str>,
    body: Box<[u8]>,
}

impl Recorded {
    /// As an encoder takes it.
    #[must_use]
    pub fn message(&self) -> Message<'_> {
        let Self { session, encoding, name, seq, rule, body, .. } = self;
        Message { session: *session, encoding: *encoding, name: *name, seq: *seq, rule, body }
    }
}

/// Recordings in memory.
#[derive(Debug)]
pub struct Corpus {
    /// Header of the first recording; `scrubbed` and `private` are those of all.
    pub header: Header,
    /// In the order of the files.
    pub messages: Vec<Recorded>,
    /// Dispatches that did not fit.
    pub left_out_count: u64,
}

impl Corpus {
    /// Reads recordings, one after the other.
    ///
    /// # Errors
    /// The recording is damaged, or has no dispatch.
    pub fn read<R: Read>(reader: &mut RecordingReader<R>) -> Result<Self> {
        Self::read_within(reader, BYTES_MAX)
    }

    fn read_within<R: Read>(reader: &mut RecordingReader<R>, bytes_max: usize) -> Result<Self> {
        let mut corpus = Self { header: reader.header().clone(), messages: Vec::new(), left_out_count: 0 };
        let mut bytes = 0;
        for_each(reader, |step| {
            let Step::Message(_, message) = step else { return Ok(()) };
            bytes += message.body.len();
            if bytes > bytes_max {
                corpus.left_out_count += 1;
                return Ok(());
            }
            corpus.messages.push(Recorded {
                session: message.session,
                encoding: message.encoding,
                name: message.name,
                seq: message.seq,
                rule: message.rule.into(),
                body: message.body.into(),
            });
            Ok(())
        })?;
        // That of all recordings.
        corpus.header = reader.header().clone();
        ensure!(!corpus.messages.is_empty(), "the recording has no dispatch: record for longer, or more sessions");
        Ok(corpus)
    }

    /// Encodings of its sessions.
    #[must_use]
    pub fn encodings(&self) -> Vec<Encoding> {
        let has = |encoding: &Encoding| self.messages.iter().any(|message| message.encoding == *encoding);
        [Encoding::Json, Encoding::Etf].into_iter().filter(has).collect()
    }

    /// Messages of one encoding: those to train on, and those to measure with. Sessions are sent the same events, so
    /// that whole sessions are held out, and of these only the last quarter of the recording counts: training has the
    /// other sessions until then. Sessions that ended before it are trained on. With one session that lasts it is its
    /// last quarter.
    #[must_use]
    pub fn split(&self, encoding: Encoding) -> [Vec<&Recorded>; 2] {
        let of_encoding: Vec<&Recorded> = self.messages.iter().filter(|of| of.encoding == encoding).collect();
        let (earlier, later) = of_encoding.split_at(of_encoding.len() - of_encoding.len() / HELD_OUT_ONE_IN);
        let lasting: BTreeSet<u64> = later.iter().map(|of| of.session).collect();
        let one_in = HELD_OUT_ONE_IN.min(lasting.len().max(1));
        let is_held = |(at, _): &(usize, u64)| at % one_in == one_in - 1;
        let held: BTreeSet<u64> = lasting.into_iter().enumerate().filter(is_held).map(|(_, session)| session).collect();
        let trained = earlier.iter().filter(|of| one_in == 1 || !held.contains(&of.session)).copied();
        let measured = later.iter().filter(|of| held.contains(&of.session)).copied();
        [trained.collect(), measured.collect()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Dispatch, FORMAT, RecordingWriter, VERSION};
    use serde_json::value::RawValue;
    use std::borrow::Cow;

    fn file(sessions: u64, count: u64) -> Vec<u8> {
        let mut writer = RecordingWriter::new().unwrap();
        let format = FORMAT.to_owned();
        writer
            .push(&Header { format, version: VERSION, scrubbed: true, private: false, started_at: 1, node: None })
            .unwrap();
        for n in 0..count {
            let body = RawValue::from_string(format!("{{\"content\":\"text {n}\"}}")).unwrap();
            let (encoding, event, rule) = ("json".into(), Cow::Borrowed("MESSAGE_CREATE"), "public".into());
            let (session, seq) = (n % sessions, 1 + n / sessions);
            writer.push(&Dispatch { at_ms: n, session, encoding, event, seq, bytes: 1, rule, body: &body }).unwrap();
        }
        writer.flush().unwrap();
        writer.take()
    }

    #[test]
    fn nothing_is_both_trained_on_and_measured_with() {
        for (sessions, trained, measured) in [(1, 75, 25), (2, 38, 13), (5, 60, 5), (9, 59, 6)] {
            let file = file(sessions, 100);
            let corpus = Corpus::read(&mut RecordingReader::new(&*file).unwrap()).unwrap();
            let split = corpus.split(Encoding::Json);
            assert_eq!(split.each_ref().map(Vec::len), [trained, measured], "{sessions}");
            let [of_training, of_measuring] = split.map(|of| of.iter().map(|of| of.session).collect::<BTreeSet<_>>());
            assert!(sessions == 1 || of_training.is_disjoint(&of_measuring));
            assert_eq!(corpus.split(Encoding::Etf).map(|of| of.len()), [0, 0]);
            assert_eq!(corpus.encodings(), [Encoding::Json]);
        }
    }

    #[test]
    fn a_session_that_ended_early_is_not_held_out() {
        for ending in [vec![3], vec![0, 3, 7], vec![1, 2, 3, 4, 5, 6, 7]] {
            let file = file(8, 800);
            let mut corpus = Corpus::read(&mut RecordingReader::new(&*file).unwrap()).unwrap();
            corpus.messages.retain(|of| of.seq <= 20 || !ending.contains(&of.session));
            let [trained, measured] = corpus.split(Encoding::Json);
            assert!(trained.len() > 100 && measured.len() > 20, "{ending:?}: {} {}", trained.len(), measured.len());
            assert!(measured.iter().all(|of| !ending.contains(&of.session)), "{ending:?}");
            assert!(ending.iter().all(|session| trained.iter().any(|of| of.session == *session)), "{ending:?}");
        }
    }

    #[test]
    fn samples_that_do_not_fit_are_counted() {
        let file = file(2, 100);
        let corpus = Corpus::read_within(&mut RecordingReader::new(&*file).unwrap(), 1_000).unwrap();
        assert_eq!(corpus.messages.len() as u64 + corpus.left_out_count, 100);
        assert!(corpus.left_out_count > 10);
    }
}
