//! Trials: connections that take part in an experiment.
//!
//! Owns        the table of running experiments (`ExperimentTable`), the stream of each arm (`ArmStream`), and the
//!             samples of connections, with their bounded queue (`SampleQueue`).
//! Invariants  X1 a connection takes part only if each arm of the experiment could write its stream, so that the arms
//!             differ in nothing else. X2 an arm writes the container that the client requested, within the window that
//!             the stream has declared. X3 which arm a connection gets depends on its account and session alone, never
//!             on content. X4 a connection is sampled once. (tests `x*_*` in tests/it/trial.rs)
//! Limits      `SAMPLES_MAX` samples wait; further ones are dropped and counted. A connection is in one trial.
//! Not here    which connections take part: `trial_choice`. Who gets which arm: `experiments`. What becomes of the
//!             samples: `guildhall-lab`.     Spec  docs/lab.md "Experiments", ADR 42.

use crate::{
    dictionary_trial::{ListRequests, TriedDictionaries},
    experiments::{Experiments, Subject},
};
use guildhall_codec::ContextPool;
use guildhall_stdx::Instant;
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Dispatches after which a connection is sampled.
pub const SAMPLE_DISPATCHES: u64 = 64;
/// A connection that ends with fewer gives no figures.
pub const SAMPLE_DISPATCHES_MIN: u64 = 8;
/// Samples that wait.
const SAMPLES_MAX: usize = 65_536;

/// How an arm writes a stream.
#[derive(Clone, Debug)]
pub enum ArmStream {
    /// As the node's settings have it.
    Node,
    /// By the node's contexts to its end: it never moves to shared-match.
    Context,
    /// By zlib contexts of this pool to its end.
    Zlib(ContextPool),
    /// By zstd contexts of this pool to its end.
    Zstd(ContextPool),
    /// By shared-match from IDENTIFY or RESUME on.
    SharedMatch,
}

/// A running experiment.
#[derive(Clone, Debug)]
pub struct RunningExperiment {
    /// Its number, which no other has.
    pub id: u64,
    /// In the order of the arms of its `Experiment`.
    pub arms: Vec<ArmStream>,
    /// Of an experiment whose arms differ in the dictionary. Its streams are written as the node's settings have it.
    pub dictionaries: Option<TriedDictionaries>,
}

/// The running experiments of a node. Partitions share it.
#[derive(Debug, Default)]
pub struct ExperimentTable {
    experiments: Experiments,
    running: Vec<RunningExperiment>,
    samples: SampleQueue,
    requests: ListRequests,
}

impl ExperimentTable {
    /// `running` has the streams of `experiments`, in the same order.
    #[must_use]
    pub fn new(
        experiments: Experiments,
        running: Vec<RunningExperiment>,
        (samples, requests): (SampleQueue, ListRequests),
    ) -> Self {
        Self { experiments, running, samples, requests }
    }

    /// The experiments that a session takes part in, each with its arm, both by their positions.
    pub(crate) fn assign<'a>(&'a self, subject: &Subject<'a>) -> impl Iterator<Item = (usize, usize)> + 'a {
        self.experiments.assign(subject)
    }

    pub(crate) fn samples(&self) -> &SampleQueue {
        &self.samples
    }

    pub(crate) fn requests(&self) -> &ListRequests {
        &self.requests
    }

    /// The running experiments.
    #[must_use]
    pub fn running(&self) -> &[RunningExperiment] {
        &self.running
    }
}

/// A figure of a connection in an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Number of the experiment.
    pub experiment: u64,
    /// Position of the arm; 0 is the control.
    pub arm: u8,
    pub of: SampleOf,
}

/// See `Sample`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleOf {
    /// A connection began.
    Began {
        account_id: u64,
        /// Whether it began with a RESUME.
        is_resume: bool,
    },
    /// `SAMPLE_DISPATCHES` were sent, or the connection ended with at least `SAMPLE_DISPATCHES_MIN`.
    Sent {
        /// Dispatches so far.
        dispatches: u64,
        /// Bytes of all frames so far.
        wire_bytes: u64,
        /// Compressions that were timed.
        timed: u32,
        /// Nanoseconds of these.
        timed_ns: u64,
        /// Time for which dispatches waited for the socket, milliseconds.
        waited_ms: u64,
        /// Events whose delivery was timed.
        delivered: u32,
        /// Nanoseconds from their guilds to the socket.
        delivered_ns: u64,
    },
    /// The connection ended: it was not sampled before, or its stream could not be decoded.
    Ended {
        /// The client closed it with a code for data that it cannot read, or the stream's check failed.
        has_failed: bool,
    },
}

/// Samples of all partitions of a node. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct SampleQueue(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    samples: Mutex<VecDeque<Sample>>,
    dropped_total: AtomicU64,
}

impl SampleQueue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Sample>> {
        self.0.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, sample: Sample) {
        let mut samples = self.lock();
        if samples.len() < SAMPLES_MAX {
            samples.push_back(sample);
        } else {
            self.0.dropped_total.fetch_add(1, Relaxed);
        }
    }

    /// The oldest sample. None: none waits.
    #[must_use]
    pub fn next(&self) -> Option<Sample> {
        self.lock().pop_front()
    }

    /// Samples that were dropped because the queue was full.
    #[must_use]
    pub fn dropped_total(&self) -> u64 {
        self.0.dropped_total.load(Relaxed)
    }
}

/// A connection in an experiment. It gives its last sample when it is dropped.
#[derive(Debug)]
pub struct Trial {
    samples: SampleQueue,
    experiment: u64,
    arm: u8,
    /// First dispatch of the connection.
    first_seq: u64,
    /// Bytes of frames before the trial.
    wire_bytes_before: u64,
    waited_ms: u64,
    /// Seq of the event whose delivery is timed, and the time at which its guild handed it over.
    awaited: Option<(u64, u64)>,
    delivered: u32,
    delivered_ns: u64,
    sent: (u64, u64, u32, u64),
    is_sampled: bool,
    has_failed: bool,
}

/// Beginning of a trial.
pub(crate) struct TrialBegin {
    pub experiment: u64,
    pub arm: u8,
    pub account_id: u64,
    /// The connection begins with a RESUME.
    pub is_resume: bool,
    /// First dispatch of the connection.
    pub first_seq: u64,
    /// Bytes of its frames so far.
    pub wire_bytes: u64,
}

impl Trial {
    /// A connection takes part from now on.
    pub(crate) fn begin(samples: SampleQueue, begin: TrialBegin) -> Self {
        let TrialBegin { experiment, arm, account_id, is_resume, first_seq, wire_bytes } = begin;
        let trial = Self {
            samples,
            experiment,
            arm,
            first_seq,
            wire_bytes_before: wire_bytes,
            waited_ms: 0,
            awaited: None,
            delivered: 0,
            delivered_ns: 0,
            sent: (0, 0, 0, 0),
            is_sampled: false,
            has_failed: false,
        };
        trial.push(SampleOf::Began { account_id, is_resume });
        trial
    }

    fn push(&self, of: SampleOf) {
        self.samples.push(Sample { experiment: self.experiment, arm: self.arm, of });
    }

    /// Takes the figures of the connection after a write.
    pub(crate) fn wrote(&mut self, next_seq: u64, wire_bytes: u64, (timed, timed_ns): (u32, u64)) {
        if self.is_sampled {
            return;
        }
        let dispatches = next_seq.saturating_sub(self.first_seq);
        self.sent = (dispatches, wire_bytes.saturating_sub(self.wire_bytes_before), timed, timed_ns);
        if dispatches >= SAMPLE_DISPATCHES {
            self.sample();
        }
    }

    fn sample(&mut self) {
        self.is_sampled = true;
        let (dispatches, wire_bytes, timed, timed_ns) = self.sent;
        let Self { waited_ms, delivered, delivered_ns, .. } = *self;
        self.push(SampleOf::Sent { dispatches, wire_bytes, timed, timed_ns, waited_ms, delivered, delivered_ns });
    }

    /// The session was given an event of a guild. Its delivery is timed unless that of an earlier one is.
    pub(crate) fn await_delivery(&mut self, seq: u64, handed_over_ns: Option<u64>) {
        if self.awaited.is_none() && !self.is_sampled {
            self.awaited = handed_over_ns.map(|ns| (seq, ns));
        }
    }

    pub(crate) fn awaits_delivery(&self) -> bool {
        self.awaited.is_some()
    }

    /// The socket has taken all dispatches before `next_seq`.
    pub(crate) fn delivered(&mut self, next_seq: u64, now_ns: Option<u64>) {
        let (Some((seq, since_ns)), Some(now_ns)) = (self.awaited, now_ns) else { return };
        if seq < next_seq {
            self.awaited = None;
            self.delivered += 1;
            self.delivered_ns += now_ns.saturating_sub(since_ns);
        }
    }

    /// The socket has room again, for which dispatches have waited since then.
    pub(crate) fn waited(&mut self, since: Option<Instant>, now: Instant) {
        self.waited_ms += since.map_or(0, |since| now.ms_since(since));
    }

    /// The client, or the stream's check, could not decode the stream.
    pub(crate) fn fail(&mut self) {
        self.has_failed = true;
    }

    /// Whether a close code of a client is for data that it cannot read.
    pub(crate) fn is_decode_fault(code: Option<u16>) -> bool {
        // RFC 6455 §7.4.1: protocol error, data that it cannot accept, data that is not of its type. 4002: the
        // gateway's code for it.
        matches!(code, Some(1002 | 1003 | 1007 | 4002))
    }

    /// Whether the connection is in an arm of the experiment other than its control.
    pub(crate) fn is_treated_in(&self, experiment: u64) -> bool {
        self.experiment == experiment && self.arm > 0
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        if !self.is_sampled && self.sent.0 >= SAMPLE_DISPATCHES_MIN {
            self.sample();
        }
        if self.has_failed || !self.is_sampled {
            self.push(SampleOf::Ended { has_failed: self.has_failed });
        }
    }
}
