//! Partitions: connections, sessions and relays of one thread, as a machine without I/O.
//!
//! See `Partition`. The driver in `guildhall-net` supplies sockets and a clock; the simulation replaces both.
#![forbid(unsafe_code)]

mod accept;
mod bill;
mod client_requests;
mod compressed;
mod config;
mod conn;
mod context_budget;
mod copies;
mod core;
mod counters;
mod deadlines;
mod deflate;
mod dictionary_trial;
mod experiments;
mod flush_queue;
mod guilds;
mod handover;
mod identify;
mod inbound;
mod inflate;
mod memory;
mod memory_relief;
mod mirroring;
mod mirrors;
mod moves;
mod owed;
mod partition;
mod pause;
mod pump;
mod recent_dispatches;
mod recent_joins;
mod recent_news;
mod reconnects;
mod refused;
mod relay_table;
mod render_budget;
mod self_check;
mod sent;
mod session_recipients;
mod session_reports;
mod session_table;
mod sessions;
mod stream_account;
mod stream_codec;
mod takeover;
mod tap;
mod tap_message;
mod timers;
mod transfers;
mod transport;
mod trial;
mod trial_choice;
mod turn;
mod turn_work;
mod writer;

pub use bill::{Bill, BillWorker};
pub use config::PartitionConfig;
pub use conn::{Compression, ConnParams, INVALID_SESSIONS_MAX, MovingConn};
pub use context_budget::{ContextBudget, ContextMoves, MeanAudience, Why};
pub use copies::CopiedSessions;
pub use counters::{Closes, Counters};
pub use dictionary_trial::{DictionaryOffers, ListRequest, ListRequests, TriedDictionaries};
pub use experiments::{
    Audience, EXPERIMENT_ARMS_MAX, EXPERIMENTS_MAX, Experiment, ExperimentError, Experiments, SLOTS, Subject,
};
pub use guildhall_session::OwnData;
pub use guildhall_shared_match::ZSTD_WINDOW_LOG;
pub use guilds::Delivery;
pub use handover::{HandOver, Mirrored, RecentLoss};
pub use identify::Claimant;
pub use mirroring::{MirrorBatch, MirrorPage, MirrorPlaces, MirrorProgress, MirroredSession, mirror_key};
pub use mirrors::{MirrorSource, MirrorView, MirrorsHeld, MirrorsTaken};
pub use moves::{Fetched, SessionClaim};
pub use partition::Partition;
pub use pause::Pause;
pub use reconnects::Leaving;
pub use refused::{IdentifyFault, IdentifyRefused, ResumeFault, ResumeRefused};
pub use self_check::Checked;
pub use sent::SentTable;
pub use session_reports::{Census, LoggedDispatch, SessionDetail, SessionGuild, SessionMatch};
pub use sessions::SessionPage;
pub use stream_account::{TIMED_ONE_IN, Writer};
pub use stream_codec::{SharedDictionaries, StreamCodec};
pub use takeover::{CompressionSnapshot, ConnSnapshot};
pub use tap::{TAPS_MAX, TapFilter, TapReader, TapSwitch};
pub use tap_message::{TapMessage, TapRule};
pub use transfers::{TransferEnd, TransferStart};
pub use transport::{
    Account, AuthFailure, AuthPurpose, CloseSender, Closed, Gatekeeper, Output, PartialSend, Reservation, Transport,
};
pub use trial::{
    ArmStream, ExperimentTable, RunningExperiment, SAMPLE_DISPATCHES, SAMPLE_DISPATCHES_MIN, Sample, SampleOf,
    SampleQueue,
};
