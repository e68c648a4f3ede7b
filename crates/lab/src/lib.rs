//! The lab: dictionaries and tables for compression, and measurements of codecs on the traffic of a node.
//!
//! Owns        recordings and their scrubber; arms over sessions; training of zstd dictionaries and of the entropy
//!             tables of shared-match.
//! Invariants  equal arguments of a training give equal bytes.
//! Not here    the traffic: the crate `traffic`. The thread of recordings, and the folder that a node serves
//!             dictionaries from: `guildhall`.     Spec  docs/lab.md, ADR 41.
#![forbid(unsafe_code)]

mod allowed;
mod arms;
mod corpus;
mod dark;
mod guardrail;
mod recorder;
mod recording;
mod samples;
mod scrub;
mod show;
mod surrogate;
mod tables;
mod traffic;
mod train;
mod tune;
mod watch;

pub use arms::{ArmRun, Message, SESSIONS_MAX, Sum, framed_bytes, thread_cpu_ns};
pub use corpus::{Corpus, Recorded};
pub use dark::{ArmStatus, DARK_ARMS_MAX, Dark, DarkStatus};
pub use guardrail::{GUARDRAIL_SAMPLES_MIN, Guardrail, Interval, Verdict};
pub use recorder::{Ended, Recorder, RecorderParams, RecorderStatus, WAITING_BYTES_MAX};
pub use recording::{Dispatch, End, FORMAT, Header, LINE_BYTES_MAX, Line, RecordingReader, RecordingWriter, VERSION};
pub use samples::train_dictionary;
pub use scrub::{PRIVATE_LISTS, Scrubber, copy_unscrubbed};
pub use show::{ARMS_MAX, DEFAULT_ARMS, Step, Summary, for_each, summarize};
pub use surrogate::Surrogates;
pub use tables::{TABLES_SEED, train_tables};
pub use traffic::{TrafficKind, scope_of};
pub use train::{SIZES, Trained, train};
pub use tune::{Trial, front, grid, measure, published, random, svg, table};
pub use watch::{Alarm, Metric, MetricReport, ProcessSums, Watch, WatchParams, WatchSums};
