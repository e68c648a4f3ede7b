"""The published experiments, the command that does each again, and where the figures are in its output.

Sources of the published figures: "How Discord reduced WebSocket traffic by 40 %" (2024), "Maxjourney: pushing
Discord's limits with a million+ online users in a single server" (2023), the notes on prepared messages of
gorilla/websocket, and the benchmark of tiny-discord.
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


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One command, and the figures that it yields."""

    name: str
    title: str
    # The measurement, and its differences from the published experiment.
    text: str
    # Arguments of guildhall-bench.
    arguments: tuple
    rows: tuple
    # Returns a plot as SVG, of the result.
    plot: Callable | None = None
    counts_allocations: bool = False


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
                Row("saved by zstd and passive V2", lambda r: step("zstd, V2")(r)["saved"], "%", 40, HIGHER),
                Row("saved, with a window of 1 MiB", lambda r: step("window of 1 MiB")(r)["saved"], "%", None, HIGHER),
                Row("saved, and in ETF", lambda r: step("window of 1 MiB, ETF")(r)["saved"], "%", None, HIGHER),
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
            "codec",
            "Size and time by codec: ratio 6 of zlib, almost 10 of zstd published",
            "One connection, the events of twelve guilds. Published times are per unit and of another machine, so only "
            "their ratio is compared.",
            ("codec", "--traffic", "session", "--connections", "1", "--mode",
             "plain,zlib_classic,zstd_classic,zstd_classic_dict,zstd_3,zstd-once:level=3,shared_zlib,shared_zstd", "--json"),
            (
                Row("ratio of zlib", mode("zlib_classic", "ratio"), "×", 6, HIGHER),
                Row("ratio of zstd, tuned as published", mode("zstd_classic", "ratio"), "×", 10, HIGHER),
                Row("ratio of zstd with the library's level 3", mode("zstd_3", "ratio"), "×"),
                Row("ratio of each message by itself", mode("zstd-once:level=3", "ratio"), "×"),
                Row("ratio of shared-match", mode("shared_zstd", "ratio"), "×"),
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
            "broadcast",
            "A broadcast, compressed once: 30,007 to 21 allocations published",
            "10,000 connections with permessage-deflate: compressed by each, against one prepared frame. Allocations are "
            "counted per broadcast.",
            ("broadcast", "--connections", "10000", "--json"),
            (
                Row("allocations, prepared", of_mode(10_000, "prepared", "allocations_per_broadcast"), "", 21, LOWER),
                Row("compressions, prepared", of_mode(10_000, "prepared", "compressions_per_broadcast"), "", 1, LOWER),
                Row("bytes, prepared, of uncompressed",
                    lambda r: of_mode(10_000, "prepared", "bytes_per_delivery")(r)
                    / of_mode(10_000, "plain", "bytes_per_delivery")(r), "×", 1 / 3, LOWER),
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
            "handoff",
            "A guild moves to another node: minutes of stall published, then none",
            "100,000 members, 10,000 sessions, 50 messages a second, two nodes in one process. Frozen: how long requests "
            "wait.",
            ("handoff", "--members", "100000", "--sessions", "10000", "--rate", "50", "--json"),
            (
                Row("frozen, median", lambda r: r["frozen_ms"]["p50"], "ms", "minutes, then none"),
                Row("frozen, longest", lambda r: r["frozen_ms"]["max"], "ms"),
                Row("release and load instead", lambda r: r["release_ms"], "ms"),
                Row("relays that began again", lambda r: r["resets"], "", 0, LOWER),
            ),
        ),
    )
