"""The published experiments, the command that does each again, and where the figures are in its output.

Sources of the published figures: "How Discord reduced WebSocket traffic by 40 %" (2024), "Maxjourney: pushing
Discord's limits with a million+ online users in a single server" (2023), the notes on prepared messages of
gorilla/websocket, and the benchmark of tiny-discord (its README).
"""
import dataclasses
from collections.abc import Callable

LOWER, HIGHER = "lower", "higher"


@dataclasses.dataclass(frozen=True)
class Row:
    """One figure: the published one, and the place of ours in the result."""

    label: str
    find: Callable
    unit: str = ""
    # A number, a text where no number was published, or None.
    published: float | str | None = None
    # Which is better. None: the figures are of other machines or other traffic, and are not judged.
    better: str | None = None
    # Where nothing comparable was published: the other side's figure in the same run.
    rival: float | None = None
    # Its words on the first screen, if it is there.
    headline: str | None = None


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One command, and the figures that it yields."""

    name: str
    title: str
    # The measurement, and its differences from the published experiment.
    text: str
    # Arguments of the program.
    arguments: tuple
    # Rows, or a function that returns them for a result.
    rows: tuple | Callable
    # Returns a plot as SVG, of the result.
    plot: Callable | None = None
    counts_allocations: bool = False
    # Further arguments, a run for each; the result is then a list.
    variants: tuple = ()
    # The experiment whose result this one reads, instead of a run of its own.
    source: str | None = None
    # What runs: `guildhall-bench`, or `clients`, which is bench/clients/run.mjs.
    program: str = "guildhall-bench"


def step(name):
    return lambda result: next(step for step in result["steps"] if step["name"] == name)


def event(step_name, event_name, field):
    def find(result):
        events = step(step_name)(result)["events"]
        return next((event[field] for event in events if event["name"] == event_name), None)

    return find


def mode(name, field):
    return lambda result: result["modes"][name][field]


def of_mode(connections, name, field):
    """A row of `broadcast`."""
    def find(result):
        rows = [row for row in result["rows"] if row["connections"] == connections and row["mode"] == name]
        return rows[0][field] if rows else None

    return find


def operation(name, field):
    return lambda result: next((each[field] for each in result["operations"] if each["name"] == name), None)


def ratio_of(step_name, event_name):
    """Plain bytes of an event, of its bytes on the wire."""
    def find(result):
        plain, wire = (event(step_name, event_name, field)(result) for field in ("plain_bytes", "wire_bytes"))
        return plain / wire if plain and wire else None

    return find


def variant(index, field):
    return lambda results: results[index][field]


def busy_rows(result):
    """The guild's time by message type."""
    total = Row("the guild's thread is busy", lambda r: 100 * r["guild_busy_ratio"], "%", "method only")
    return (total, *(
        Row(f"of it: {name}", lambda r, name=name: 100 * dict(map(tuple, r["guild_busy_by"]))[name], "%", "not published")
        for name, _ in result["guild_busy_by"][:8]
    ))


def document(compression, is_delta, field, changed=1.0, subscribers=10):
    """A row of `delta`."""
    def find(rows):
        wanted = (changed, subscribers, compression, is_delta)
        found = [row for row in rows if (row["changed_percent"], row["subscribers"], row["compression"], row["is_delta"]) == wanted]
        return found[0][field] if found else None

    return find


CLIENTS_PUBLISHED = {
    ("GUILD_CREATE", "json", "none"): 2479,
    ("GUILD_CREATE", "json", "zlib-stream"): 2601,
    ("GUILD_CREATE", "etf", "none"): 2147,
    ("GUILD_CREATE", "etf", "zlib-stream"): 1943,
    ("MESSAGE_CREATE", "json", "none"): 56_917,
    ("MESSAGE_CREATE", "json", "zlib-stream"): 39_353,
    ("MESSAGE_CREATE", "etf", "none"): 30_621,
    ("MESSAGE_CREATE", "etf", "zlib-stream"): 26_631,
}


def client_rows(result):
    """The SDK beside the published table, and beside the fastest other library of the same run."""
    def ratios(r):
        return sorted(row["ratio"] for row in r["rows"] if row["ratio"])

    rows = [
        Row("the SDK, of the fastest other library: the worst mode", lambda r: ratios(r)[0], "×", None, HIGHER, 1.0,
            "events per second of the SDK, of the fastest other library's: the worst of all modes"),
        Row("the median mode", lambda r: ratios(r)[len(ratios(r)) // 2], "×", None, HIGHER, 1.0,
            "events per second of the SDK, of the fastest other library's: the median of all modes"),
    ]
    for row in result["rows"]:
        mode = (row["event"], row["encoding"], row["compression"])
        what = f"{row['event']}, {row['encoding']}, {row['compression']}" + (", own processing" if row["processing"] == "own" else "")

        def found(r, key=(*mode, row["processing"])):
            return next(each for each in r["rows"] if (each["event"], each["encoding"], each["compression"], each["processing"]) == key)

        published = CLIENTS_PUBLISHED.get(mode) if row["processing"] == "off" else None
        rows.append(Row(what, lambda r, found=found: found(r)["results"].get("guildhall", {}).get("cpu"), "events/s",
                        published or "not published"))
        if row["ratio"]:
            rows.append(Row(f"{what}: of the fastest other library", lambda r, found=found: found(r)["ratio"], "×", None, HIGHER, 1.0))
    return tuple(rows)


# Session traffic through the arm of each, on one connection; the first is the published choice.
PARAMETERS = (
    ("level 6, window 2^18, tables 2^16 (published)", "zstd:level=6,window=18,chain=16,hash=16,block=16384"),
    ("level 3", "zstd:level=3,window=18,chain=16,hash=16,block=16384"),
    ("level 9", "zstd:level=9,window=18,chain=16,hash=16,block=16384"),
    ("window 2^17", "zstd:level=6,window=17,chain=16,hash=16,block=16384"),
    ("tables 2^17", "zstd:level=6,window=18,chain=17,hash=17,block=16384"),
    ("window 2^20", "zstd:level=6,window=20,chain=16,hash=16,block=16384"),
    ("window 2^20, tables 2^18", "zstd:level=6,window=20,chain=18,hash=18,block=16384"),
)
DISPATCH_TYPES = (
    "MESSAGE_CREATE", "MESSAGE_UPDATE", "READY", "GUILD_CREATE", "GUILD_MEMBER_LIST_UPDATE", "PASSIVE_UPDATE_V1",
    "PASSIVE_UPDATE_V2", "PRESENCE_UPDATE", "TYPING_START", "MESSAGE_REACTION_ADD", "VOICE_STATE_UPDATE",
)
FANOUT = ("fanout", "--sessions", "100000", "--members", "200000", "--no-memory", "--json")


SHARES_BEFORE = (
    ("PASSIVE_UPDATE_V1", 35.6),
    ("MESSAGE_CREATE", 20.0),
    ("READY", 11.7),
    ("GUILD_MEMBER_LIST_UPDATE", 8.5),
    ("PRESENCE_UPDATE", 2.7),
)
SHARES_AFTER = (
    ("MESSAGE_CREATE", 28.3),
    ("READY", 21.9),
    ("GUILD_MEMBER_LIST_UPDATE", 10.2),
    ("PASSIVE_UPDATE_V2", 4.7),
)


def experiments(plots):
    """All of them, in the order of the report."""
    return (
        Experiment(
            "waterfall",
            "Bytes of whole sessions: −40 % published",
            "Sittings of four personas. Their rates were chosen so that the shares before the change are those that were "
            "published; the shares after it follow. READY and TYPING_START alone are compressed by themselves, as "
            "in the published trial of dictionaries.",
            ("waterfall", "--json"),
            (
                Row("saved by zstd and passive V2", lambda r: step("zstd, V2")(r)["saved"], "%", 40, HIGHER,
                    headline="bytes of whole sittings saved by zstd and PASSIVE_UPDATE_V2"),
                Row("saved, with a window of 1 MiB", lambda r: step("window of 1 MiB")(r)["saved"], "%", None, HIGHER),
                Row("saved, and in ETF", lambda r: step("window of 1 MiB, ETF")(r)["saved"], "%", None, HIGHER,
                    headline="the same with a window of 1 MiB and ETF"),
                *(Row(f"before: {name}", event("zlib, V1", name, "share"), "% of bytes", share)
                  for name, share in SHARES_BEFORE),
                *(Row(f"after: {name}", event("zstd, V2", name, "share"), "% of bytes", share)
                  for name, share in SHARES_AFTER),
                Row("MESSAGE_CREATE by zlib", event("zlib, V2", "MESSAGE_CREATE", "wire_bytes"), "bytes", 270),
                Row("MESSAGE_CREATE by zstd", event("zstd, V2", "MESSAGE_CREATE", "wire_bytes"), "bytes", 166),
                Row("MESSAGE_CREATE, each by itself", event("zstd-once", "MESSAGE_CREATE", "wire_bytes"), "bytes", 750),
                Row("READY, uncompressed", lambda r: r["ready_bytes"], "bytes", 2_517_725),
                Row("READY by zstd", event("zstd-once", "READY", "wire_bytes"), "bytes (mean)", 306_745),
                Row("READY with a dictionary", event("once, dictionary", "READY", "wire_bytes"), "bytes (mean)", 306_098),
                Row("TYPING_START, uncompressed", lambda r: r["typing_bytes"], "bytes", 636),
                Row("TYPING_START by zstd", event("zstd-once", "TYPING_START", "wire_bytes"), "bytes", 466),
                Row("TYPING_START with a dictionary", event("once, dictionary", "TYPING_START", "wire_bytes"), "bytes", 187),
            ),
            plots.waterfall,
        ),
        Experiment(
            "types",
            "Ratio by dispatch type",
            "The sittings above: plain bytes, of the bytes on the wire. Published are bytes of MESSAGE_CREATE (270 and 166) and "
            "the ratio of all traffic (6, and almost 10).",
            (),
            tuple(
                Row(f"{name}, {codec}", ratio_of(step_name, name), "×", "not published")
                for name in DISPATCH_TYPES
                for codec, step_name in (("zlib", "zlib, V1" if name == "PASSIVE_UPDATE_V1" else "zlib, V2"), ("zstd", "zstd, V2"))
                if (name, codec) != ("PASSIVE_UPDATE_V1", "zstd")
            ),
            source="waterfall",
        ),
        Experiment(
            "codec",
            "Size and time by codec: ratio 6 of zlib, almost 10 of zstd published",
            "One connection, the events of twelve guilds. Published times are per unit and of another machine, so only "
            "their ratio is compared.",
            ("codec", "--traffic", "session", "--connections", "1", "--mode",
             "plain,zlib_classic,zstd_classic,zstd_classic_dict,zstd_3,zstd-once:level=3,shared_zlib,shared_zstd", "--json"),
            (
                Row("ratio of zlib", mode("zlib_classic", "ratio"), "×", 6, HIGHER),
                Row("ratio of zstd, tuned as published", mode("zstd_classic", "ratio"), "×", 10, HIGHER, headline="ratio of zstd, tuned as published"),
                Row("ratio of zstd with the library's level 3", mode("zstd_3", "ratio"), "×"),
                Row("ratio of each message by itself", mode("zstd-once:level=3", "ratio"), "×"),
                Row("ratio of shared-match", mode("shared_zstd", "ratio"), "×", "not published", headline="ratio of shared-match, without a context per connection"),
                Row("time of zstd, of zlib's",
                    lambda r: mode("zstd_classic", "cpu_us_per_delivery")(r) / mode("zlib_classic", "cpu_us_per_delivery")(r),
                    "×", 0.45, LOWER),
                Row("first messages with a dictionary, of without",
                    lambda r: mode("zstd_classic_dict", "bytes_per_early_message")(r)
                    / mode("zstd_classic", "bytes_per_early_message")(r), "×"),
                Row("all messages with a dictionary, of without",
                    lambda r: mode("zstd_classic_dict", "bytes_per_message")(r)
                    / mode("zstd_classic", "bytes_per_message")(r), "×", "no gain once warm"),
            ),
            plots.codec,
        ),
        Experiment(
            "parameters",
            "The parameters of zstd: level 6, a window of 2^18, tables of 2^16 published",
            "One connection, the events of twelve guilds. The published choice is one of memory: a larger window or table is "
            "smaller on the wire. Blocks have 16 KiB, as on a node.",
            ("codec", "--traffic", "session", "--connections", "1",
             *(word for _, arm in PARAMETERS for word in ("--mode", arm)), "--json"),
            tuple(
                row
                for name, arm in PARAMETERS
                for row in (
                    Row(f"{name}: ratio", mode(arm, "ratio"), "×", "almost 10" if "published" in name else "not published"),
                    Row(f"{name}: memory", lambda r, arm=arm: mode(arm, "bytes_per_connection")(r) / 1e3, "KB",
                        "over 1 MiB" if "published" in name else "not published"),
                )
            ),
        ),
        Experiment(
            "delta",
            "Documents that change a little: a Fossil delta beside shared-match",
            "A document of 10 KB, of which 1 % changes with each publish, to ten subscribers. A delta is made once per event "
            "and sent to clients that ask for it; streams find the same bytes in the document before.",
            ("delta", "--sizes", "10", "--changed", "1", "--subscribers", "10", "--publishes", "20", "--json"),
            tuple(
                Row(f"{'Fossil delta' if is_delta else 'whole'}, {compression}", document(compression, is_delta, "bytes_per_delivery"),
                    "bytes", "not published")
                for compression in ("plain", "zlib-stream", "zstd-stream", "shared-match")
                for is_delta in (False, True)
            ),
        ),
        Experiment(
            "upgrades",
            "Larger contexts off-peak: 70 % hoped for, 30 % published",
            "A simulated day with the node's own loop: with contexts in slabs, which give memory back to the system, and "
            "with an allocator that keeps it. The memory is a model.",
            ("upgrades", "--json"),
            (
                Row("upgraded off-peak", lambda r: 100 * r["slabs"]["off_peak_upgraded"], "%", 30, HIGHER),
                Row("upgraded over the day", lambda r: 100 * r["slabs"]["day_upgraded"], "%"),
                Row("the same over an allocator that keeps memory",
                    lambda r: 100 * r["kept_by_allocator"]["off_peak_upgraded"], "%"),
                Row("memory at the highest, of the budget", lambda r: 100 * r["slabs"]["used_max"], "%"),
            ),
            plots.upgrades,
        ),
        Experiment(
            "day",
            "The same with real contexts: a day in fast motion",
            "200 connections at the peak, real contexts, compressed messages, and resident memory as the system counts it. "
            "Beside it the same day with the library's allocations on the system's allocator, and without upgrades.",
            ("day", "--json"),
            (
                Row("upgraded off-peak", lambda r: 100 * r["slabs"]["off_peak_upgraded"], "%", 30, HIGHER,
                    headline="connections with larger contexts off-peak, real contexts"),
                Row("upgraded off-peak, of new connections", lambda r: 100 * r["slabs"]["off_peak_new_upgraded"], "%", 30, HIGHER),
                Row("upgraded off-peak, system's allocator", lambda r: 100 * r["library"]["off_peak_upgraded"], "%", 30),
                Row("resident memory at the highest, of the budget", lambda r: 100 * r["slabs"]["used_max"], "%", None, LOWER, 100.0),
                Row("the same, system's allocator", lambda r: 100 * r["library"]["used_max"], "%", "not published"),
                Row("bytes saved by upgrades over the day", lambda r: r["saved_percent"], "%", "not published"),
            ),
            plots.day,
            counts_allocations=True,
        ),
        Experiment(
            "broadcast",
            "A broadcast, compressed once: 30,007 to 21 allocations published",
            "10,000 connections with permessage-deflate: compressed by each, against one prepared frame. Allocations are "
            "counted per broadcast.",
            ("broadcast", "--connections", "10000", "--json"),
            (
                Row("allocations, prepared", of_mode(10_000, "prepared", "allocations_per_broadcast"), "", 21, LOWER,
                    headline="allocations of a prepared broadcast to 10,000"),
                Row("compressions, prepared", of_mode(10_000, "prepared", "compressions_per_broadcast"), "", 1, LOWER),
                Row("bytes, prepared, of uncompressed",
                    lambda r: of_mode(10_000, "prepared", "bytes_per_delivery")(r)
                    / of_mode(10_000, "plain", "bytes_per_delivery")(r), "×", 1 / 3, LOWER,
                    headline="bytes of a prepared broadcast, of uncompressed"),
                Row("CPU, prepared, of each by itself",
                    lambda r: of_mode(10_000, "prepared", "cpu_us_per_delivery")(r)
                    / of_mode(10_000, "per_connection", "cpu_us_per_delivery")(r), "×"),
            ),
            counts_allocations=True,
        ),
        Experiment(
            "fanout",
            "Passive sessions: nine links of ten published",
            "One guild with 100,000 sessions, in one process and without sockets, nine tenths of them passive.",
            ("fanout", "--sessions", "100000", "--members", "200000", "--passive", "0.9", "--events",
             "1500", "--rate", "50", "--json"),
            (
                Row("passive", lambda r: 100 * r["passive"], "%", 90),
                Row("CPU per event", lambda r: r["cpu_us_per_event"] / 1000, "ms"),
                Row("the guild's thread is busy", lambda r: 100 * r["guild_busy_ratio"], "%"),
                Row("memory of a passive session", lambda r: r["bytes_per_passive_session"], "bytes"),
            ),
        ),
        Experiment(
            "fanout-active",
            "The same with all sessions active",
            "What passive sessions save.",
            ("fanout", "--sessions", "100000", "--members", "200000", "--passive", "0", "--events",
             "150", "--json"),
            (
                Row("CPU per event", lambda r: r["cpu_us_per_event"] / 1000, "ms"),
                Row("memory of an active session", lambda r: r["bytes_per_active_session"], "bytes"),
            ),
        ),
        Experiment(
            "shares",
            "Passive share against cost",
            "The same guild by the share of passive sessions, the next event as soon as the last was delivered.",
            (*FANOUT, "--events", "100"),
            tuple(
                Row(f"{share} % passive: CPU per event", lambda r, at=at: r[at]["cpu_us_per_event"] / 1000, "ms",
                    "90 % of links are passive" if share == 90 else "not published")
                for at, share in enumerate((0, 50, 90, 99))
            ),
            plots.shares,
            variants=(("--passive", "0"), ("--passive", "0.5"), ("--passive", "0.9"), ("--passive", "0.99")),
        ),
        Experiment(
            "relays",
            "Relays against cost: at most 15,000 sessions each published",
            "One relay per partition; here a guild of 100,000 sessions, a tenth of them active, on one to eight partitions. "
            "The machine has as many cores as named below.",
            (*FANOUT, "--events", "200"),
            tuple(
                row
                for at, count in enumerate((1, 2, 4, 8))
                for row in (
                    Row(f"{count} relays: sessions of each" if count > 1 else "one relay: sessions",
                        lambda r, at=at, count=count: r[at]["sessions"] / count, "", "at most 15,000"),
                    Row(f"… {count}: CPU per event", lambda r, at=at: r[at]["cpu_us_per_event"] / 1000, "ms", "not published"),
                    Row(f"… {count}: event to last delivery, median", variant(at, "event_to_last_delivery_p50_ms"), "ms", "not published"),
                )
            ),
            variants=tuple(("--partitions", str(count)) for count in (1, 2, 4, 8)),
        ),
        Experiment(
            "sends",
            "One send per relay, not per session",
            "The guild of the experiment of passive sessions: messages that its loop sends for an event. Between nodes they are "
            "frames of a link, one for each node; guildhall-bench cluster measures a slow link.",
            (),
            (
                Row("messages of the guild to its two relays per event, answers to them included", lambda r: r["guild_sent"] / r["events"], "", "one per remote node",
                    headline="messages of a guild's loop per event, for 100,000 sessions on two relays"),
                Row("deliveries to sessions per event", lambda r: r["deliveries"] / r["events"], "", "not published"),
            ),
            source="fanout",
        ),
        Experiment(
            "busy",
            "What the guild's loop does, by message type",
            "Wall time of the guild's thread in the experiment of passive sessions. Published is the method.",
            (),
            busy_rows,
            source="fanout",
        ),
        Experiment(
            "guild",
            "A guild of a million members: what holds it up",
            "Operations of the guild's own loop. Published is the method (a member table that workers read, so that no "
            "scan is in the loop), not figures.",
            ("guild", "--members", "1000000", "--json"),
            (
                Row("memory of a member", lambda r: r["bytes_per_member"], "bytes"),
                Row("the slowest operation, p99", lambda r: max(each["p99_us"] for each in r["operations"]) / 1000, "ms"),
                Row("operations with more than 1 ms", lambda r: len(r["longer_than_1_ms"]), ""),
            ),
        ),
        Experiment(
            "worker",
            "A worker's snapshot against a scan in the loop",
            "The guild above. A worker reads a snapshot of the members; the loop begins the job and takes its result. A scan in "
            "the loop would hold it up for as long as the worker takes.",
            (),
            tuple(
                row
                for kind, name, operation_name in (
                    ("audience", "audience of @everyone", "count an audience"),
                    ("search", "search of members", "search members"),
                    ("recent", "newest members", "newest members"),
                )
                for row in (
                    Row(f"{name}: a worker; a scan in the loop would take as long", lambda r, kind=kind: r["worker"][kind]["p50_ms"], "ms",
                        "stalled the guild"),
                    Row(f"{name}: the loop's part", lambda r, of=operation_name: sum(
                        operation(f"{of}, {part}", "p50_us")(r) for part in ("begins", "ends")) / 1000, "ms", "no stall"),
                )
            ),
            source="guild",
        ),
        Experiment(
            "handoff",
            "A guild moves to another node: minutes of stall published, then none",
            "100,000 members, 10,000 sessions, 50 messages a second, two nodes in one process. Frozen: how long requests "
            "wait.",
            ("handoff", "--members", "100000", "--sessions", "10000", "--rate", "50", "--json"),
            (
                Row("frozen, median", lambda r: r["frozen_ms"]["p50"], "ms", "minutes, then none",
                    headline="a guild of 100,000 moves to another node: requests wait"),
                Row("frozen, longest", lambda r: r["frozen_ms"]["max"], "ms"),
                Row("release and load instead", lambda r: r["release_ms"], "ms"),
                Row("relays that began again", lambda r: r["resets"], "", 0, LOWER),
            ),
        ),
        Experiment(
            "clients",
            "Client libraries: packets per second to the raw event",
            "2,450 GUILD_CREATE and 5,000 MESSAGE_CREATE over a loopback socket, per second of CPU time of the client. The "
            "published figures are those of tiny-discord, the fastest of four libraries. TINY_DISCORD names a clone of it.",
            ("--rounds", "1", "--no-profile", "--summary"),
            client_rows,
            plots.clients,
            program="clients",
        ),
    )
