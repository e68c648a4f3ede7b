"""Plan: which faults happen, in which order and with which parameters, all from one seed.

Invariants  a seed has one plan: a shorter run is the beginning of a longer one. Every kind comes once in each round.
            `in_turn` has no seed: each node has each event, one after the other.
Not here    how a fault is caused: `faults`.
"""
import dataclasses
import random

QUIET_SECONDS = (4, 10)
GUILDS = 6
# Share of the faults of nodes that concern an owner.
OWNERS_SHARE = 0.7


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault of the plan."""

    kind: str
    # Which node it is about; None: a server, or the owner of a guild.
    node: int | None
    # Number of the guild whose owner it is about. A node that restarts owns nothing at first.
    guild: int | None
    # How long it lasts.
    seconds: float
    # Quiet time before it.
    quiet_seconds: float
    # Of links: nats or postgres.
    link: str | None = None
    value: float | None = None

    def __str__(self):
        parts = [self.kind]
        parts += [f"node-{self.node}"] if self.node is not None else []
        parts += [f"owner of guild {self.guild}"] if self.guild is not None else []
        parts += [self.link] if self.link else []
        parts += [f"{self.value:g}"] if self.value is not None else []
        return " ".join([*parts, f"for {self.seconds:g} s"])


UPGRADE, ROLL_BACK, MOVE = "upgrade", "roll back", "move"
# Moves of a guild that a fault hits: whether it hits the owner, otherwise the next owner, and which fault.
MOVES_HIT = {
    "move, owner killed": (True, "kill"),
    "move, next owner killed": (False, "kill"),
    "move, owner drained": (True, "drain"),
    "move, next owner drained": (False, "drain"),
    "move, owner cut off": (True, "stall nats"),
    "move, next owner cut off": (False, "stall nats"),
}
# Milliseconds from the begin of the command to that fault.
MOVE_MS = (5, 250)
# Events of each node in turn: with one program, and with programs of two releases. Moves are those of as many guilds.
IN_TURN = ("quiet", MOVE, "kill", "drain")
ROLLING = ("quiet", UPGRADE, MOVE, "kill", "drain", ROLL_BACK)

# Shortest and longest time; link; least and greatest value.
KINDS = {
    "kill": (4, 8, None, None),
    # The next process is there before the lease of the dead one has ended.
    "kill, restart at once": (0, 0.5, None, None),
    "pause": (20, 20, None, None),
    "drain": (0, 2, None, None),
    "NATS restart": (0.5, 1.5, None, None),
    "NATS crash": (0.5, 1.5, None, None),
    # Longer than a lease.
    "NATS away": (6, 12, None, None),
    "PostgreSQL restart": (0.5, 1.5, None, None),
    "PostgreSQL crash": (0.5, 1.5, None, None),
    "PostgreSQL away": (6, 12, None, None),
    # Milliseconds, each way.
    "delay nats": (8, 12, "nats", (20, 250)),
    "delay postgres": (8, 12, "postgres", (20, 250)),
    # Resets a second.
    "drop nats": (6, 10, "nats", (0.5, 2)),
    "drop postgres": (6, 10, "postgres", (0.5, 2)),
    # Share of what the link carries otherwise.
    "throttle nats": (8, 12, "nats", (0.5, 0.5)),
    "throttle postgres": (8, 12, "postgres", (0.5, 0.5)),
    # Nothing passes, and no connection ends: a partition, for longer than a lease.
    "stall nats": (6, 10, "nats", None),
    "stall postgres": (6, 10, "postgres", None),
    MOVE: (0, 0, None, None),
    "move, owner killed": (4, 8, None, MOVE_MS),
    "move, next owner killed": (4, 8, None, MOVE_MS),
    "move, owner drained": (0, 2, None, MOVE_MS),
    "move, next owner drained": (0, 2, None, MOVE_MS),
    "move, owner cut off": (6, 10, "nats", MOVE_MS),
    "move, next owner cut off": (6, 10, "nats", MOVE_MS),
}
OF_SERVERS = ("NATS", "PostgreSQL")

# The order of the short plan: the faults that most operators meet, and one of each kind of link fault.
SHORT = (MOVE, "kill", "NATS restart", "drop nats", "PostgreSQL restart", "drop postgres", "move, next owner killed")


def faults(seed, nodes):
    """Endless plan of a seed."""
    chance = random.Random(seed)
    while True:
        kinds = list(KINDS)
        chance.shuffle(kinds)
        for kind in kinds:
            yield one(chance, kind, nodes)


def one(chance, kind, nodes):
    least, most, link, values = KINDS[kind]
    is_server = kind.startswith(OF_SERVERS)
    is_owner = kind.startswith(MOVE) or not is_server and chance.random() < OWNERS_SHARE
    return Fault(
        kind=kind,
        node=None if is_server or is_owner else chance.randrange(nodes),
        guild=chance.randrange(GUILDS) if is_owner else None,
        seconds=round(chance.uniform(least, most), 1),
        quiet_seconds=round(chance.uniform(*QUIET_SECONDS), 1),
        link=link,
        value=round(chance.uniform(*values), 2) if values else None,
    )


def short(seed, nodes):
    """The faults of the short plan."""
    chance = random.Random(seed)
    for kind in SHORT:
        fault = one(chance, kind, nodes)
        yield dataclasses.replace(fault, seconds=min(fault.seconds, 2), quiet_seconds=1)


def in_turn(nodes, kinds, quiet_seconds):
    """Each of the nodes has an event of each kind, and as many guilds move; `quiet` comes once, for comparison."""
    for kind in kinds:
        for number in range(1 if kind == "quiet" else nodes):
            node, guild = (None, None) if kind == "quiet" else (None, number) if kind == MOVE else (number, None)
            seconds = 10 if kind == "quiet" else 1
            yield Fault(kind, node, guild, seconds, quiet_seconds)
