//! Metrics: `/metrics`, in the text formats that Prometheus reads.
//!
//! Owns        the names, the help texts, and where they are served (`Listener`).
//! Invariants  M1 the hot paths count in plain numbers of their own threads; everything is collected and summed when
//!             somebody asks. M2 labels come from closed sets: close codes, kinds of contexts, guild workers, message
//!             types, dispatch types; and experiments, which operators name. No ids, names of users, or addresses. M3
//!             both formats are accepted by strict parsers (tests in `conformance/metrics`).
//! Limits      one scrape at a time, further ones wait; an answer has some 20 KB, and 300 bytes per dispatch type,
//!             codec and encoding that was sent, whatever the number of clients.
//! Not here    what is counted: `guildhall_partition::Counters`, `guildhall_net::PartitionState`, `Node`.

mod bill;
mod cluster;
mod experiments;
mod exposition;
mod loops;
mod process;
mod sent;
mod writer;

use crate::{
    certificate,
    disk::DiskUse,
    owners::MemoryOwners,
    traces::{TraceCounts, TraceWatch},
};
use axum::{
    Router,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
pub use experiments::{ArmFigures, EXPERIMENTS_SHOWN, ExperimentFigures};
use exposition::Exposition;
use guildhall_accounting::{DurationsSnapshot, LoopReport, Reading, report::Owner};
use guildhall_codec::{ContextPool, ContextStats};
use guildhall_http_kit::RestAccount;
use guildhall_media::Files;
use guildhall_net::{AccessLog, HttpState, HttpWatch, IdentifyGate, PartitionState, Partitions};
use guildhall_node::{CanaryCounts, ClusterReport, CommitStats, Node, RetentionCounts};
use guildhall_partition::{Bill, Closes, Counters};
use guildhall_rest::{OTHER, Unserved};
use guildhall_settings::MetricsAccess;
use guildhall_store::Store;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, text},
    registry::Registry,
};
use std::{collections::BTreeMap, fmt, path::PathBuf, sync::Arc};
use tokio::sync::Mutex;
use writer::{Label, Writer};

/// On the port of clients, while `server.metrics` is "local".
const ELSEWHERE: (StatusCode, &str) = (
    StatusCode::NOT_FOUND,
    "metrics are served on server.admin_listen; server.metrics = \"open\" serves them here as well\n",
);

/// Upper bounds of deliveries and commits: 50 µs to 30 s.
const LATENCY_NS: [u64; 15] = [
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    1_000_000_000,
    5_000_000_000,
    30_000_000_000,
];

/// Where the numbers are.
#[derive(Clone)]
pub struct Metrics {
    /// Connections, sessions, deliveries.
    pub partitions: Partitions,
    /// Sockets of the node, refused ones included.
    pub http: HttpWatch,
    /// Guilds, commits.
    pub node: Node,
    /// Compression contexts.
    pub contexts: ContextPool,
    /// Cost of the same traffic in other codecs.
    pub bill: Bill,
    /// Reads the figures of experiments.
    pub experiments: Arc<dyn Fn() -> ExperimentFigures + Send + Sync>,
    /// Limits on IDENTIFY.
    pub gate: Arc<IdentifyGate>,
    /// The last estimate of memory.
    pub owners: MemoryOwners,
    /// What messages carry; none where that is switched off.
    pub files: Option<Files>,
    /// Requests for routes that are not served.
    pub unserved: Arc<Unserved>,
    /// The database.
    pub store: Arc<dyn Store>,
    /// Its directory; none with PostgreSQL.
    pub sqlite_dir: Option<PathBuf>,
    /// The data directory.
    pub store_dir: PathBuf,
    /// The access log; none where there is none.
    pub access: Option<Arc<AccessLog>>,
    /// Chain of certificates of `[tls]`, read for each scrape.
    pub certificate: Option<PathBuf>,
    /// Wall time of REST, by route.
    pub rest: Arc<RestAccount>,
    /// The exporter of traces; none if it is off.
    pub traces: Option<TraceWatch>,
}

/// Where a router with `/metrics` listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listener {
    /// `server.listen`, to which clients and proxies come.
    Clients,
    /// `server.admin_listen`.
    Admin,
}

/// `/metrics` on one of the listeners, if `access` allows it there; 404 otherwise. No property of a request says
/// reliably that it came through no proxy, so access depends on the listener alone.
pub fn metrics_router(metrics: Metrics, access: MetricsAccess, listener: Listener) -> Router {
    match (access, listener) {
        (MetricsAccess::Off, _) => Router::new(),
        (MetricsAccess::Local, Listener::Clients) => Router::new().route("/metrics", get(async || ELSEWHERE)),
        (MetricsAccess::Local, Listener::Admin) | (MetricsAccess::Open, _) => scrape_router(metrics),
    }
}

fn scrape_router(metrics: Metrics) -> Router {
    let one_at_a_time = Arc::new(Mutex::new(()));
    let scrape = move |headers: HeaderMap| {
        let (metrics, one_at_a_time) = (metrics.clone(), one_at_a_time.clone());
        async move {
            let format = Exposition::accepted(&headers);
            let _turn = one_at_a_time.lock().await;
            // It waits for the partitions, a turn of theirs at most.
            match tokio::task::spawn_blocking(move || metrics.render()).await {
                Ok(Ok(text)) => {
                    let headers = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "accept")];
                    (headers, format.of_open_metrics(text)).into_response()
                }
                Ok(Err(_)) | Err(_) => Response::builder()
                    .status(StatusCode::INTERNAL_SERVER_ERROR)
                    .body("the metrics could not be collected\n".into())
                    .unwrap_or_default(),
            }
        }
    };
    Router::new().route("/metrics", get(scrape))
}

impl Metrics {
    /// Collects everything and renders it as OpenMetrics text. Blocks for a turn of the partitions.
    ///
    /// # Errors
    /// The encoder's; there is no way for it to fail on numbers.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let mut registry = Registry::with_prefix("guildhall");
        registry.register_collector(Box::new(self.snapshot()));
        let mut standard = Registry::default();
        standard.register_collector(Box::new(process::Process));
        let mut out = String::new();
        text::encode_registry(&mut out, &registry)?;
        text::encode_registry(&mut out, &standard)?;
        text::encode_eof(&mut out)?;
        Ok(out)
    }

    /// What every series says now, by its name without prefix and suffix. Blocks for a turn of the partitions.
    #[must_use]
    pub fn readings(&self) -> BTreeMap<String, Reading> {
        let mut readings = BTreeMap::new();
        let mut out = Writer::Readings(&mut readings);
        // Readings are kept in memory, which cannot fail.
        let _ = self.snapshot().write(&mut out).and_then(|()| process::write(&mut out));
        readings
    }

    /// Guild workers, partitions, the store's operations, background jobs, and the routes of REST.
    pub(crate) fn loop_reports(&self) -> Vec<LoopReport> {
        let shared = vec![self.node.store_report(), self.node.job_report(), self.rest.report()];
        [self.node.worker_reports(), self.partitions.loop_reports(), shared].concat()
    }

    /// Makes a new estimate of memory. `history`: bytes and number of its series.
    pub(crate) async fn refresh_owners(&self, history: (u64, u64)) {
        self.owners.refresh(self, history).await;
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            partitions: self.partitions.inspect(),
            http: self.http.state(),
            contexts: self.contexts.stats(),
            bill: self.bill.clone(),
            experiments: (self.experiments)(),
            owners: self.owners.last(),
            mailboxes: self.node.mailbox_places_taken(),
            loops: self.loop_reports(),
            commits: self.node.commit_stats(),
            tokens_refused: self.node.refused_tokens(),
            reviews: self.node.review_counts().unwrap_or_default(),
            keys_refused: self.node.refused_keys(),
            identifies_refused: self.partitions.refused_identifies(),
            resumes_refused: self.partitions.refused_resumes(),
            sign_on_accounts: self.node.sign_on_accounts_made(),
            access_dropped: self.access.as_ref().map(|access| access.dropped_total()),
            unserved: self.unserved.counts().filter(|(route, count)| *count > 0 || *route == OTHER).collect(),
            disk: DiskUse::of(self.sqlite_dir.as_deref().unwrap_or(&self.store_dir)),
            is_sqlite: self.sqlite_dir.is_some(),
            is_away: self.store.is_away(),
            are_writes_stopped: self.node.are_writes_stopped(),
            cluster: self.node.membership().map(|membership| membership.report()),
            retention: self.node.retention_counts(),
            files: self.files.as_ref().map(|files| (files.bytes(), files.bytes_max(), files.failures_count())),
            certificate_end_s: self.certificate.as_deref().and_then(certificate::ends_at),
            canaries: (self.node.canary_counts(), self.partitions.canaries().report()),
            rest: self.rest.report(),
            traces: self.traces.as_ref().map(TraceWatch::counts).unwrap_or_default(),
        }
    }
}

#[derive(Debug)]
struct Snapshot {
    partitions: Vec<PartitionState>,
    http: HttpState,
    contexts: ContextStats,
    bill: Bill,
    experiments: ExperimentFigures,
    owners: Arc<[Owner]>,
    mailboxes: Vec<usize>,
    loops: Vec<LoopReport>,
    commits: CommitStats,
    tokens_refused: Vec<(&'static str, u64)>,
    reviews: Vec<(&'static str, u64)>,
    keys_refused: Vec<(&'static str, u64)>,
    identifies_refused: Vec<(&'static str, u64)>,
    resumes_refused: Vec<(&'static str, u64)>,
    sign_on_accounts: u64,
    access_dropped: Option<u64>,
    /// By the route of upstream; those that nobody asked for are left out.
    unserved: Vec<(&'static str, u64)>,
    disk: DiskUse,
    is_sqlite: bool,
    is_away: bool,
    /// Unix seconds. None without TLS, or if it cannot be read.
    certificate_end_s: Option<i64>,
    are_writes_stopped: bool,
    /// None for a node that is alone.
    cluster: Option<ClusterReport>,
    retention: RetentionCounts,
    /// Bytes, how many there may be, and failures.
    files: Option<(u64, u64, u64)>,
    /// Counts, and latencies by the smallest number of members of the class.
    canaries: (CanaryCounts, Vec<(u64, DurationsSnapshot)>),
    rest: LoopReport,
    /// Zeros while traces are off.
    traces: TraceCounts,
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.write(&mut Writer::Text(encoder))
    }
}

impl Snapshot {
    fn write(&self, out: &mut Writer<'_>) -> fmt::Result {
        let mut sum = Counters::default();
        let mut latency = DurationsSnapshot::default();
        for partition in &self.partitions {
            sum += partition.counters;
            latency.add(&partition.latency);
        }
        self.http(out)?;
        self.clients(out, &sum)?;
        self.deliveries(out, &sum, &latency)?;
        self.sent(out)?;
        self.bill(out)?;
        self.experiments(out)?;
        self.guilds(out, &sum)?;
        self.cluster(out)?;
        self.loops(out)?;
        self.rest(out)?;
        self.canaries(out)?;
        self.traces(out)?;
        self.compression(out, &sum)?;
        self.memory(out)?;
        self.shared_match(out)
    }

    fn http(&self, out: &mut Writer<'_>) -> fmt::Result {
        let http = &self.http;
        out.gauge("sockets", "Sockets now, of the gateway, of REST and without a request yet", http.sockets as u64)?;
        out.gauge("sockets_rest", "Of these, sockets of REST", http.rest_sockets as u64)?;
        let why = |name: &str| vec![("why", name.to_owned())];
        out.counters(
            "sockets_refused",
            "Sockets and upgrades that were refused before their request was looked at, or closed before it came",
            &[
                (why("full"), http.refused_full_total),
                (why("handshakes"), http.refused_handshakes_total),
                (why("address"), http.refused_address_total),
                (why("descriptors"), http.refused_descriptors_total),
            ],
        )?;
        out.counter("sockets_stalled", "Sockets of REST ended because their client did not read", http.stalled_total)?;
        let answers = http.answers_total.map(|(status, count)| (vec![("status", status.to_owned())], count));
        out.counters("rest_answers", "Answers of REST and of the backend API, by status", &answers)?;
        match self.certificate_end_s.and_then(|seconds| u64::try_from(seconds).ok()) {
            Some(seconds) => {
                out.gauge("tls_certificate_end_seconds", "Unix time at which the certificate ends", seconds)
            }
            None => Ok(()),
        }
    }

    fn clients(&self, out: &mut Writer<'_>, sum: &Counters) -> fmt::Result {
        let count = |of: fn(&PartitionState) -> usize| self.partitions.iter().map(of).sum::<usize>() as u64;
        let (sessions, attached) = (count(|p| p.sessions_count), count(|p| p.attached_count));
        out.gauge("connections", "Gateway connections now", count(|p| p.conns_count))?;
        let state = |name: &str| vec![("state", name.to_owned())];
        out.gauges(
            "sessions",
            "Sessions now: live ones have a connection, resumable ones wait for one",
            &[(state("live"), attached), (state("resumable"), sessions - attached)],
        )?;
        out.counter("connections_opened", "Connections that were greeted", sum.conns_total)?;
        out.counter("identifies", "Sessions started by IDENTIFY", sum.identified_total)?;
        let by_reason = |counts: &[(&str, u64)]| -> Vec<(Vec<Label>, u64)> {
            counts.iter().map(|(reason, count)| (vec![("reason", (*reason).to_owned())], *count)).collect()
        };
        let refused = &self.identifies_refused;
        out.counters("identifies_refused", "IDENTIFYs that started no session", &by_reason(refused))?;
        out.counters("tokens_refused", "Tokens that REST or the gateway refused", &by_reason(&self.tokens_refused))?;
        let reviews: Vec<(Vec<Label>, u64)> =
            self.reviews.iter().map(|(result, count)| (vec![("result", (*result).to_owned())], *count)).collect();
        out.counters("reviews", "Messages that the hook reviewed", &reviews)?;
        out.counters("keys_refused", "Keys that the backend API refused", &by_reason(&self.keys_refused))?;
        out.counter("sign_on_accounts", "Accounts made for subjects of the sign-on", self.sign_on_accounts)?;
        if let Some(dropped) = self.access_dropped {
            out.counter("access_lines_dropped", "Lines that the access log could not take", dropped)?;
        }
        let by_route: Vec<(Vec<Label>, u64)> =
            self.unserved.iter().map(|(route, count)| (vec![("route", (*route).to_owned())], *count)).collect();
        out.counters("unserved_requests", "Requests for routes that this server does not have", &by_route)?;
        out.counter("resumes", "Sessions resumed by RESUME", sum.resumed_total)?;
        out.counter("sessions_restored", "Sessions taken over from the previous process", sum.restored_total)?;
        out.counter("connections_adopted", "Connections taken over from the previous process", sum.adopted_total)?;
        let refused = &self.resumes_refused;
        out.counters("resumes_refused", "RESUMEs that continued no session", &by_reason(refused))?;
        out.counter("sessions_ended", "Sessions forgotten", sum.sessions_ended_total)?;
        out.counter("sessions_expired", "Sessions closed at the end of their token", sum.sessions_expired_total)?;
        let closes = |by: &str, closes: &Closes| -> Vec<(Vec<Label>, u64)> {
            let code = |code: Option<u16>| code.map_or_else(|| "other".to_owned(), |code| code.to_string());
            closes.iter().map(|(of, count)| (vec![("by", by.to_owned()), ("code", code(of))], count)).collect()
        };
        let mut all = closes("server", &sum.closed_by_us);
        all.extend(closes("client", &sum.closed_by_clients));
        out.counters("connection_closes", "Close frames, by code and by sender of the first", &all)?;
        out.counter("connections_aborted", "Connections that ended without a close frame", sum.aborted_total)?;
        out.counter("slow_consumers", "Connections cut because they did not read", sum.slow_consumers_total)
    }

    fn deliveries(&self, out: &mut Writer<'_>, sum: &Counters, latency: &DurationsSnapshot) -> fmt::Result {
        out.counter("dispatches", "Dispatches given to sessions, connected or not", sum.dispatches_total)?;
        out.counter(
            "replay_suppressed",
            "Dispatches kept from a RESUME for lack of permission",
            sum.replay_suppressed_total,
        )?;
        out.counter("received_bytes", "Bytes that came in from gateway connections", sum.received_bytes)?;
        out.counter(
            "received_message_bytes",
            "Bytes of the messages in received_bytes, inflated",
            sum.received_message_bytes,
        )?;
        out.counter("sent_bytes", "Bytes that the sockets of gateway connections took", sum.sent_bytes)?;
        out.counter(
            "sent_body_bytes",
            "Bytes of the dispatches' bodies in sent_bytes, before compression and without envelopes",
            sum.sent_body_bytes,
        )?;
        out.histogram(
            "event_to_write_seconds",
            "From a guild's durable event to its last frame of a partition: written, or left to a socket that was full",
            latency,
            &LATENCY_NS,
        )
    }

    fn guilds(&self, out: &mut Writer<'_>, sum: &Counters) -> fmt::Result {
        let workers = self.mailboxes.iter().enumerate();
        let places: Vec<_> =
            workers.map(|(index, taken)| (vec![("worker", index.to_string())], *taken as u64)).collect();
        out.gauges("guild_mailbox_used", "Inputs that wait for a guild worker", &places)?;
        out.counter(
            "relay_resyncs",
            "Gaps in guilds' streams after which a relay requested a snapshot",
            sum.resyncs_total,
        )?;
        out.counter(
            "relay_resets",
            "Outages of a guild that sessions saw because of that, counted per session",
            sum.resets_total,
        )?;
        let help = "How long commits to the store take";
        out.histogram("store_commit_seconds", help, &self.commits.latency, &LATENCY_NS)?;
        let RetentionCounts { messages, channels, passes, failures, progress } = self.retention;
        out.counter("retention_messages", "Expired messages that were deleted", messages)?;
        out.counter("retention_channels", "Channels in which messages expired, once per pass", channels)?;
        out.counter("retention_passes", "Passes of retention that ended", passes)?;
        out.counter("retention_failures", "Passes of retention that failed", failures)?;
        out.gauge("retention_progress_channels", "Channels that the current or last pass has looked at", progress)?;
        if let Some((bytes, bytes_max, failures)) = self.files {
            out.gauge("upload_bytes", "Bytes of all files that came with messages", bytes)?;
            out.gauge("upload_bytes_max", "How many there may be", bytes_max)?;
            let help = "Requests to the bucket of uploads.url that failed after all retries";
            out.counter("upload_bucket_failures", help, failures)?;
        }
        if self.is_sqlite {
            let help = "Bytes of the database, without its write-ahead log";
            out.gauge("store_database_bytes", help, self.disk.database_bytes)?;
            out.gauge("store_log_bytes", "Bytes of its write-ahead log", self.disk.log_bytes)?;
        }
        if let Some(free_bytes) = self.disk.free_bytes {
            out.gauge("store_disk_free_bytes", "Free bytes on the disk of the data directory", free_bytes)?;
        }
        out.gauge(
            "store_writes_stopped",
            "1 while writes are refused because the disk is full or the database away, else 0",
            self.are_writes_stopped.into(),
        )?;
        out.gauge("store_unreachable", "1 while the database server cannot be reached, else 0", self.is_away.into())?;
        out.counter("store_commits_failed", "Commits to the store that failed", self.commits.failed_total)
    }

    fn compression(&self, out: &mut Writer<'_>, sum: &Counters) -> fmt::Result {
        let stats = &self.contexts;
        let kinds = [("zlib", &stats.zlib), ("zstd", &stats.zstd), ("zstd_upgraded", &stats.zstd_upgraded)];
        let of = |value: fn(&guildhall_slab::PoolStats) -> u64| -> Vec<(Vec<Label>, u64)> {
            kinds.iter().map(|(kind, pool)| (vec![("kind", (*kind).to_owned())], value(pool))).collect()
        };
        out.gauges("compression_contexts", "Compression contexts in use", &of(|pool| pool.slots_used))?;
        out.gauges("compression_slab_bytes", "Resident bytes of their slabs", &of(|pool| pool.resident_bytes))?;
        out.counters("compression_contexts_opened", "Contexts handed out", &of(|pool| pool.opened_total))?;
        out.counters(
            "compression_contexts_refused",
            "Contexts for which there was no room",
            &of(|pool| pool.refused_total),
        )?;
        out.gauge("compression_bytes_max", "What all contexts may hold", stats.bytes_max)?;
        out.counter(
            "compression_uncompressed_messages",
            "Messages sent uncompressed for lack of a context",
            stats.stored_total,
        )?;
        let upgrades = &stats.upgrades;
        out.counter("compression_upgrades", "Connections that got a larger context", upgrades.granted_total)?;
        out.counter(
            "compression_upgrades_denied",
            "Those that would have, had there been room",
            upgrades.denied_total,
        )?;
        out.counter(
            "deflate_shared_bodies",
            "Messages compressed once for permessage-deflate",
            sum.deflate_shared_bodies_total,
        )
    }

    fn memory(&self, out: &mut Writer<'_>) -> fmt::Result {
        let of = |value: fn(&Owner) -> u64| -> Vec<(Vec<Label>, u64)> {
            self.owners.iter().map(|owner| (vec![("owner", owner.name.clone())], value(owner))).collect()
        };
        out.gauges("memory_owner_bytes", "Memory by the part of the node that holds it", &of(|owner| owner.bytes))?;
        let help = "Elements that hold memory_owner_bytes, such as sessions";
        out.gauges("memory_owner_elements", help, &of(|owner| owner.elements))
    }

    fn shared_match(&self, out: &mut Writer<'_>) -> fmt::Result {
        let mut sum = guildhall_shared_match::Counters::default();
        let (mut heap_bytes, mut checked, mut mismatches) = (0, 0, 0);
        let mut moves = guildhall_partition::ContextMoves::default();
        for partition in &self.partitions {
            let (counters, bytes) = partition.shared_match;
            sum += counters;
            moves += partition.context_moves;
            heap_bytes += bytes as u64;
            checked += partition.shared_match_checked.messages_total;
            mismatches += partition.shared_match_checked.mismatches_total;
        }
        out.gauge("shared_match_heap_bytes", "Memory of the search that streams share", heap_bytes)?;
        out.counter("shared_match_texts", "Texts searched for matches, once for all", sum.bodies_total)?;
        out.counter("shared_match_parses", "Parses made of them", sum.parses_total)?;
        out.counter("shared_match_messages", "Texts written to connections by shared-match", sum.written_total)?;
        out.counter("shared_match_retries", "Of these, not with the parse that was tried first", sum.fallbacks_total)?;
        out.counter("shared_match_evicted", "Of these, with no shared parse", sum.late_total)?;
        out.counter("shared_match_standalone", "Messages that one connection got and no other", sum.standalone_total)?;
        out.counter("shared_match_checked", "Messages that were read back before they were sent", checked)?;
        out.counter("shared_match_mismatches", "Of these, not as they were to be", mismatches)?;
        let rows = [("crowd", moves.crowd), ("cpu", moves.cpu), ("memory", moves.memory)];
        let rows: Vec<_> = rows.into_iter().map(|(why, count)| (vec![("why", why.to_owned())], count)).collect();
        out.counters("context_moves", "Streams that left their context for shared-match", &rows)
    }
}
