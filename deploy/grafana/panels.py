"""Panels: what each dashboard shows, as a table. `generate` turns it into Grafana's JSON.

In an expression `{@}` selects the nodes that the reader has chosen; `{@, kind="zlib"}` narrows it. `[~]` is Grafana's
`$__rate_interval`. A unit is an id of Grafana: https://grafana.com/docs/grafana/latest/panels-visualizations/.
"""
import dataclasses

COUNT, RATE, BYTES, BYTES_PER_S, SECONDS, SHARE = "short", "cps", "bytes", "Bps", "s", "percentunit"


@dataclasses.dataclass(frozen=True)
class Panel:
    """A title, a sentence for the reader, a unit, and (expression, legend) of each query."""

    title: str
    description: str
    unit: str
    queries: tuple
    kind: str = "timeseries"
    # A single value is red from here on.
    red_from: float | None = None


def each(expression, legend="{{instance}}"):
    return ((expression, legend),)


def rate(series, by, legend, narrowed="@"):
    """The sum of a counter's growth per second."""
    return ((f"sum by ({by}) (rate({series}{{{narrowed}}}[~]))", legend),)


def dispatch_bytes(when=""):
    """Bytes of a dispatch by event, means of an hour: deploys last minutes."""
    bytes_of, count_of = (
        f"sum by (event) (rate(guildhall_{series}_total{{@}}[1h]{when}))"
        for series in ("sent_frame_wire_bytes", "sent_frames")
    )
    return f"({bytes_of} / {count_of})"


def quantiles(histogram, by="instance", legend="{{instance}}"):
    """The median and the 99th percentile."""
    inner = f"sum by ({by}, le) (rate({histogram}_bucket{{@}}[~]))"
    return tuple((f"histogram_quantile({q}, {inner})", f"{legend} p{q * 100:.0f}") for q in (0.5, 0.99))


def stat(title, description, unit, expression, red_from=None):
    return Panel(title, description, unit, ((expression, ""),), "stat", red_from)


OVERVIEW = {
    "Now": (
        stat("Nodes", "Nodes that answer.", COUNT, "count(guildhall_build_info{@})"),
        stat("Connections", "Gateway connections.", COUNT, "sum(guildhall_connections{@})"),
        stat("Deliveries", "Dispatches to sessions per second.", RATE, "sum(rate(guildhall_dispatches_total{@}[~]))"),
        stat(
            "Latency, p99",
            "From a durable event to its last frame of a partition.",
            SECONDS,
            "histogram_quantile(0.99, sum by (le) (rate(guildhall_event_to_write_seconds_bucket{@}[~])))",
            red_from=1,
        ),
        stat(
            "Sent",
            "Bytes per second to gateway connections.",
            BYTES_PER_S,
            "sum(rate(guildhall_sent_bytes_total{@}[~]))",
        ),
        stat("Memory", "Resident memory of all chosen nodes.", BYTES, "sum(process_resident_memory_bytes{@})"),
    ),
    "Clients": (
        Panel("Connections", "Gateway connections by node.", COUNT, each("guildhall_connections{@}")),
        Panel(
            "Sessions",
            "A live session has a connection. A resumable one waits for its client.",
            COUNT,
            each("sum by (state) (guildhall_sessions{@})", "{{state}}"),
        ),
        Panel(
            "Sessions started and ended",
            "Many IDENTIFYs with few RESUMEs: clients lose their sessions.",
            RATE,
            (
                ("sum(rate(guildhall_identifies_total{@}[~]))", "IDENTIFY"),
                ("sum(rate(guildhall_resumes_total{@}[~]))", "RESUME"),
                ("sum(rate(guildhall_sessions_restored_total{@}[~]))", "restored after a restart"),
                ("sum(rate(guildhall_sessions_ended_total{@}[~]))", "ended"),
                ("sum(rate(guildhall_sessions_expired_total{@}[~]))", "token expired"),
            ),
        ),
    ),
    "Deliveries": (
        Panel(
            "Dispatches",
            "Dispatches to sessions.",
            RATE,
            rate("guildhall_dispatches_total", "instance", "{{instance}}"),
        ),
        Panel(
            "Latency",
            "From a durable event to its last frame of a partition, per event and relay.",
            SECONDS,
            quantiles("guildhall_event_to_write_seconds"),
        ),
        Panel(
            "Latency, distribution",
            "A second band of slow events is one partition or one guild, not the whole node.",
            SECONDS,
            each("sum by (le) (increase(guildhall_event_to_write_seconds_bucket{@}[~]))", "{{le}}"),
            "heatmap",
        ),
    ),
    "Bytes": (
        Panel(
            "Traffic of the gateway",
            "Bytes that sockets took and gave.",
            BYTES_PER_S,
            (
                ("sum(rate(guildhall_sent_bytes_total{@}[~]))", "sent"),
                ("sum(rate(guildhall_sent_body_bytes_total{@}[~]))", "bodies before compression"),
                ("sum(rate(guildhall_received_bytes_total{@}[~]))", "received"),
            ),
        ),
        Panel(
            "Sent share of the bodies",
            "Sent bytes divided by those of the bodies before compression. Lower is better.",
            SHARE,
            each(
                "sum by (instance) (rate(guildhall_sent_bytes_total{@}[~]))"
                " / sum by (instance) (rate(guildhall_sent_body_bytes_total{@}[~]))"
            ),
        ),
        Panel(
            "Bytes of a delivery",
            "Sent bytes divided by dispatches.",
            BYTES,
            each(
                "sum by (instance) (rate(guildhall_sent_bytes_total{@}[~]))"
                " / sum by (instance) (rate(guildhall_dispatches_total{@}[~]))"
            ),
        ),
    ),
    "Bytes by event": (
        Panel(
            "Bytes of a dispatch, by event",
            "Bytes on the wire, divided by dispatches, of the eight largest of the last hour.",
            BYTES,
            each(f"topk(8, {dispatch_bytes()})", "{{event}}"),
        ),
        Panel(
            "Against last week",
            "The same divided by that of the same hour of last week: above 100 % it has grown. Of events with 1 KB/s.",
            SHARE,
            each(
                f"{dispatch_bytes()} / {dispatch_bytes(' offset 1w')}"
                " and sum by (event) (rate(guildhall_sent_frame_wire_bytes_total{@}[1h])) > 1000",
                "{{event}}",
            ),
        ),
        Panel(
            "Sent, by event",
            "Bytes on the wire of the eight events with most of them.",
            BYTES_PER_S,
            each("topk(8, sum by (event) (rate(guildhall_sent_frame_wire_bytes_total{@}[~])))", "{{event}}"),
        ),
    ),
    "Loops": (
        Panel(
            "CPU by loop",
            "Share of a core that each loop is busy. A loop near 100 % is the bottleneck.",
            SHARE,
            rate("guildhall_loop_busy_seconds_total", "instance, loop, index", "{{instance}} {{loop}} {{index}}"),
        ),
        Panel(
            "CPU by message type",
            "Time per second of the ten most expensive message types.",
            SHARE,
            each(
                "topk(10, sum by (loop, type) (rate(guildhall_loop_handling_seconds_sum{@}[~])))", "{{loop}} {{type}}"
            ),
        ),
        Panel(
            "REST by route, p99",
            "Wall time of the ten slowest routes.",
            SECONDS,
            each(
                "topk(10, histogram_quantile(0.99, sum by (route, le) (rate(guildhall_rest_request_seconds_bucket{@}[~]))))",
                "{{route}}",
            ),
        ),
        Panel(
            "Canaries, p99",
            "From the creation of an event of the node itself to its relay's flush, by size of the guild.",
            SECONDS,
            each(
                "histogram_quantile(0.99, sum by (members_from, le) (rate(guildhall_canary_seconds_bucket{@}[~])))",
                "from {{members_from}} members",
            ),
        ),
        Panel(
            "Relays that do not deliver",
            "They returned no canaries.",
            COUNT,
            each("guildhall_relay_ghosts{@}"),
        ),
        Panel(
            "Waiting in a mailbox",
            "Time of the oldest message of a batch.",
            SECONDS,
            quantiles("guildhall_loop_waiting_seconds", "loop", "{{loop}}"),
        ),
        Panel(
            "Mailboxes of guild workers",
            "Inputs that wait. Callers get 503 past server.worker_mailbox_max, those of one guild past half of it.",
            COUNT,
            each("guildhall_guild_mailbox_used{@}", "{{instance}} worker {{worker}}"),
        ),
    ),
    "Process": (
        Panel("CPU", "Cores in use.", COUNT, each("rate(process_cpu_seconds_total{@}[~])")),
        Panel(
            "Memory",
            "Resident memory, and two of its owners: slabs of compression contexts, and the shared-match history.",
            BYTES,
            (
                ("process_resident_memory_bytes{@}", "{{instance}} resident"),
                ("sum by (instance) (guildhall_compression_slab_bytes{@})", "{{instance}} contexts"),
                ("guildhall_shared_match_heap_bytes{@}", "{{instance}} shared-match"),
            ),
        ),
        Panel(
            "Memory by owner",
            "The eight largest parts of the nodes, mostly estimated from a sample.",
            BYTES,
            each("topk(8, sum by (owner) (guildhall_memory_owner_bytes{@}))", "{{owner}}"),
        ),
        Panel(
            "Open files",
            "Sockets, the store, uploads. At the limit new sockets are refused.",
            COUNT,
            (("process_open_fds{@}", "{{instance}} open"), ("process_max_fds{@}", "{{instance}} limit")),
        ),
    ),
}

COMPRESSION = {
    "Contexts": (
        Panel(
            "Contexts",
            "Compression contexts in use.",
            COUNT,
            each("sum by (kind) (guildhall_compression_contexts{@})", "{{kind}}"),
        ),
        Panel(
            "Memory of contexts",
            "Resident bytes of the slabs, and what all contexts may hold.",
            BYTES,
            (
                ("sum by (kind) (guildhall_compression_slab_bytes{@})", "{{kind}}"),
                ("sum(guildhall_compression_bytes_max{@})", "limit"),
            ),
        ),
        Panel(
            "Contexts opened and refused",
            "Refused: codec.contexts_bytes_max is reached, and messages are stored uncompressed.",
            RATE,
            (
                *rate("guildhall_compression_contexts_opened_total", "kind", "{{kind}} opened"),
                *rate("guildhall_compression_contexts_refused_total", "kind", "{{kind}} refused"),
                ("sum(rate(guildhall_compression_uncompressed_messages_total{@}[~]))", "messages stored"),
            ),
        ),
        Panel(
            "Upgrades",
            "Connections that got a larger context, and those for which there was no room.",
            RATE,
            (
                ("sum(rate(guildhall_compression_upgrades_total{@}[~]))", "granted"),
                ("sum(rate(guildhall_compression_upgrades_denied_total{@}[~]))", "denied"),
            ),
        ),
        Panel(
            "permessage-deflate",
            "Bodies that were compressed once for all recipients.",
            RATE,
            rate("guildhall_deflate_shared_bodies_total", "instance", "{{instance}}"),
        ),
    ),
    "Experiments": (
        Panel(
            "Samples",
            "Samples of running experiments per second: bytes, which every connection of an arm gives once.",
            RATE,
            rate("guildhall_experiment_samples_total", "experiment, arm", "{{experiment}} {{arm}}", '@, metric="wire_bytes"'),
        ),
        Panel(
            "Bytes per dispatch",
            "Mean by arm over all nodes. The guardrails, and intervals, are on the dashboard's page Experiments.",
            BYTES,
            each(
                'sum by (experiment, arm) (guildhall_experiment_mean{@, metric="wire_bytes"}'
                ' * guildhall_experiment_samples_total{@, metric="wire_bytes"})'
                ' / sum by (experiment, arm) (guildhall_experiment_samples_total{@, metric="wire_bytes"})',
                "{{experiment}} {{arm}}",
            ),
        ),
        stat(
            "Rolled back",
            "Experiments that a guardrail has ended, and that were not removed.",
            COUNT,
            'count(group by (experiment) (guildhall_experiment_state{@, state="rolled_back"})) or vector(0)',
        ),
    ),
    "Shared-match": (
        Panel(
            "Texts and parses",
            "Texts searched once for all, their parses, and how often a connection was sent one.",
            RATE,
            (
                ("sum(rate(guildhall_shared_match_texts_total{@}[~]))", "texts"),
                ("sum(rate(guildhall_shared_match_parses_total{@}[~]))", "parses"),
                ("sum(rate(guildhall_shared_match_messages_total{@}[~]))", "written"),
            ),
        ),
        Panel(
            "Written without the shared parse",
            "Share of written texts. These cost a search of their own.",
            SHARE,
            tuple(
                (
                    f"sum(rate(guildhall_shared_match_{part}_total{{@}}[~]))"
                    " / sum(rate(guildhall_shared_match_messages_total{@}[~]))",
                    legend,
                )
                for part, legend in (("retries", "another parse than the first"), ("evicted", "no shared parse"))
            ),
        ),
        Panel(
            "Messages for one connection",
            "Answers and READY: no other connection receives them.",
            RATE,
            rate("guildhall_shared_match_standalone_total", "instance", "{{instance}}"),
        ),
        Panel("Memory", "The history and its index.", BYTES, each("guildhall_shared_match_heap_bytes{@}")),
        Panel(
            "Messages read back",
            "A sample of messages is decompressed before it is sent.",
            RATE,
            rate("guildhall_shared_match_checked_total", "instance", "{{instance}}"),
        ),
        stat(
            "Mismatches, total",
            "Messages that did not read back. Report them.",
            COUNT,
            "sum(guildhall_shared_match_mismatches_total{@})",
            red_from=1,
        ),
    ),
}

STORE = {
    "Commits": (
        Panel("Commit latency", "Time of a commit.", SECONDS, quantiles("guildhall_store_commit_seconds")),
        Panel(
            "Commits",
            "A failed commit has its cause in the log.",
            RATE,
            (
                *rate("guildhall_store_commit_seconds_count", "instance", "{{instance}} commits"),
                *rate("guildhall_store_commits_failed_total", "instance", "{{instance}} failed"),
            ),
        ),
        stat(
            "Nodes that refuse writes",
            "Their disk is full, or their database away.",
            COUNT,
            "sum(guildhall_store_writes_stopped{@})",
            red_from=1,
        ),
    ),
    "Disk": (
        Panel(
            "Database",
            "A log that keeps growing: checkpoints fail, or a reader holds them up.",
            BYTES,
            (
                ("guildhall_store_database_bytes{@}", "{{instance}} database"),
                ("guildhall_store_log_bytes{@}", "{{instance}} write-ahead log"),
            ),
        ),
        Panel("Free space", "At store.free_bytes_min writes stop.", BYTES, each("guildhall_store_disk_free_bytes{@}")),
        Panel(
            "Uploaded files",
            "At the limit uploads get 507.",
            BYTES,
            (("guildhall_upload_bytes{@}", "{{instance}}"), ("guildhall_upload_bytes_max{@}", "{{instance}} limit")),
        ),
    ),
    "Retention": (
        Panel(
            "Deleted messages",
            "Messages past messages.keep_days.",
            RATE,
            rate("guildhall_retention_messages_total", "instance", "{{instance}}"),
        ),
        Panel(
            "Passes in an hour",
            "Passes over all channels.",
            COUNT,
            (
                ("sum(increase(guildhall_retention_passes_total{@}[1h]))", "ended"),
                ("sum(increase(guildhall_retention_failures_total{@}[1h]))", "failed"),
            ),
        ),
        Panel(
            "Progress",
            "Channels that the current or last pass has checked.",
            COUNT,
            each("guildhall_retention_progress_channels{@}"),
        ),
    ),
}

OPERATIONS = {
    "Refusals": (
        Panel(
            "REST answers",
            "429 is apart from other 4xx.",
            RATE,
            rate("guildhall_rest_answers_total", "status", "{{status}}"),
        ),
        Panel(
            "Refused sockets",
            "full and descriptors: no place is left. address: one address has too many.",
            RATE,
            rate("guildhall_sockets_refused_total", "why", "{{why}}"),
        ),
        Panel("Refused tokens", "By reason.", RATE, rate("guildhall_tokens_refused_total", "reason", "{{reason}}")),
        Panel(
            "Refused IDENTIFYs",
            "By reason.",
            RATE,
            rate("guildhall_identifies_refused_total", "reason", "{{reason}}"),
        ),
        Panel("Refused RESUMEs", "By reason.", RATE, rate("guildhall_resumes_refused_total", "reason", "{{reason}}")),
        Panel(
            "Refused keys of the backend API",
            "By reason.",
            RATE,
            rate("guildhall_keys_refused_total", "reason", "{{reason}}"),
        ),
    ),
    "Ends and gaps": (
        Panel(
            "Close frames",
            "The ten most frequent codes, by sender of the first frame.",
            RATE,
            each("topk(10, sum by (by, code) (rate(guildhall_connection_closes_total{@}[~])))", "{{by}} {{code}}"),
        ),
        Panel(
            "Connections that ended badly",
            "Cut: no close frame. Slow: the client did not read. Stalled: the same at REST.",
            RATE,
            (
                ("sum(rate(guildhall_connections_aborted_total{@}[~]))", "cut"),
                ("sum(rate(guildhall_slow_consumers_total{@}[~]))", "slow"),
                ("sum(rate(guildhall_sockets_stalled_total{@}[~]))", "stalled"),
            ),
        ),
        Panel(
            "Relays that fell behind",
            "Resyncs of relays, and sessions that lost a guild for a moment.",
            RATE,
            (
                ("sum(rate(guildhall_relay_resyncs_total{@}[~]))", "resyncs"),
                ("sum(rate(guildhall_relay_resets_total{@}[~]))", "sessions"),
            ),
        ),
    ),
    "Node": (
        Panel(
            "Sockets",
            "All sockets, and those of REST.",
            COUNT,
            (("guildhall_sockets{@}", "{{instance}}"), ("guildhall_sockets_rest{@}", "{{instance}} REST")),
        ),
        Panel(
            "Requests for routes that are not served",
            "A route that grows is one that clients here need.",
            RATE,
            each("topk(10, sum by (route) (rate(guildhall_unserved_requests_total{@}[~])))", "{{route}}"),
        ),
        Panel("Uptime", "Time since the process started.", SECONDS, each("time() - process_start_time_seconds{@}")),
        Panel(
            "Time left of the certificate",
            "Only with TLS at the node.",
            SECONDS,
            each("guildhall_tls_certificate_end_seconds{@} - time()"),
        ),
        Panel(
            "Dropped lines of the access log",
            "Only with log.access_file. Its disk is full or slow.",
            RATE,
            rate("guildhall_access_lines_dropped_total", "instance", "{{instance}}"),
        ),
        Panel(
            "Versions",
            "Nodes by version.",
            COUNT,
            each("count by (version, arch) (guildhall_build_info{@})", "{{version}} {{arch}}"),
        ),
    ),
}

# File name, title, rows.
DASHBOARDS = (
    ("guildhall-overview", "Guildhall: overview", OVERVIEW),
    ("guildhall-operations", "Guildhall: compression, store, operations", COMPRESSION | STORE | OPERATIONS),
)
