"""Modes: which libraries are tried, and in which encodings and compressions each.

Owns        the table of runs, what each must show on the wire, and the community it meets.
Not here    how a library is brought into a mode: that is in its client program.
"""
import dataclasses

# Seen by the tap; a mode that silently fell back to another would otherwise pass.
STREAMS = ("zlib-stream", "zstd-stream")


@dataclasses.dataclass(frozen=True)
class Community:
    """Options of the demo."""

    # Simulated members; the bot and the user come on top.
    members: int
    # Messages per second between those of the suite.
    rate: float
    settings: tuple = ()


# More than one GUILD_MEMBERS_CHUNK, and above every library's `large_threshold`.
TALKATIVE = Community(1100, 5)

# For user accounts only the suite acts, so that caches can be compared with the server's state.
# Their guilds are passive until a subscription, and passive updates are frequent.
QUIET = (
    ("limits.passive_above_members", 250),
    ("limits.passive_update_interval_ms", 500),
    ("limits.rest_rate_percent", 0),
)
# Above 1000 members, those who are offline are not listed.
LARGE = Community(1100, 0, QUIET)
SMALL = Community(500, 0, QUIET)


@dataclasses.dataclass(frozen=True)
class Mode:
    """One way for one library to connect."""

    client: str
    encoding: str = "json"
    # none, a stream compression, or `payload` (`IDENTIFY.compress`).
    compression: str = "none"
    # Optional modules of the library that this mode cannot do without.
    needs: tuple = ()
    # Which of several decoders the library uses, where it has several.
    decoder: str = ""
    # Whether the library hands on events in the order in which they came.
    keeps_order: bool = True
    # Whether the library hands on sequence numbers. One that does not must complain of gaps itself.
    tells_sequence: bool = True
    # Whether the library logs in as the demo's user instead of its bot.
    is_user: bool = False
    # Whether it subscribes to its guilds by itself.
    subscribes: bool = True
    community: Community = TALKATIVE
    # Distinguishes it from the library's other modes.
    variant: str = ""

    @property
    def name(self):
        parts = [self.encoding]
        if self.compression != "none":
            parts.append(self.compression)
        notes = ", ".join(note for note in (self.decoder, self.variant) if note)
        return "+".join(parts) + (f" ({notes})" if notes else "")

    @property
    def leaving_codes(self):
        """Close codes with which the library may end a connection after `quit`."""
        return (1000, 1001, 4000) if self.client in DISCORD_PY_AND_FORKS else (1000, 1001)

    @property
    def is_stream(self):
        return self.compression in STREAMS


CLIENTS = (
    "discord.js",
    "eris",
    "oceanic.js",
    "detritus",
    "discord.py",
    "discord.py-self",
    "nextcord",
    "disnake",
    "twilight",
    "serenity",
    "discordgo",
    "jda",
)

# The default code of their sockets' `close` is 4000. On a busy machine their reader closes the socket a moment before
# `Client.close` can, which would send 1000.
DISCORD_PY_AND_FORKS = ("discord.py", "discord.py-self", "nextcord", "disnake")

# Longest builds first, so that the others run in parallel.
SLOW_TO_BUILD = ("serenity", "discordgo", "oceanic.js")
SETUP_ORDER = SLOW_TO_BUILD + tuple(name for name in CLIENTS if name not in SLOW_TO_BUILD)

MODES = (
    # JSON only; `zlib-stream` is the only member of its CompressionMethod.
    Mode("discord.js"),
    Mode("discord.js", compression="zlib-stream", needs=("zlib-sync",)),
    # It inflates compressed payloads concurrently, so that small ones overtake large ones.
    Mode("discord.js", compression="payload", needs=("zlib-sync",), keeps_order=False),
    Mode("eris"),
    Mode("eris", compression="zlib-stream", needs=("zlib-sync",), decoder="zlib-sync"),
    Mode("eris", compression="zlib-stream", needs=("pako",), decoder="pako"),
    Mode("eris", encoding="etf", needs=("erlpack",)),
    Mode("eris", encoding="etf", compression="zlib-stream", needs=("erlpack", "zlib-sync"), decoder="zlib-sync"),
    Mode("oceanic.js"),
    Mode("oceanic.js", compression="zlib-stream", needs=("zlib-sync",), decoder="zlib-sync"),
    Mode("oceanic.js", compression="zlib-stream", needs=("pako",), decoder="pako"),
    Mode("oceanic.js", compression="zlib-stream", decoder="native"),
    Mode("oceanic.js", compression="zstd-stream", needs=("zstd-napi",), decoder="zstd-napi"),
    Mode("oceanic.js", encoding="etf", needs=("erlpack",)),
    Mode("oceanic.js", encoding="etf", compression="zlib-stream", needs=("erlpack",), decoder="native"),
    Mode("oceanic.js", encoding="etf", compression="zstd-stream", needs=("erlpack", "zstd-napi"), decoder="zstd-napi"),
    Mode("detritus"),
    Mode("detritus", compression="zlib-stream", decoder="native"),
    Mode("detritus", compression="zlib-stream", needs=("pako",), decoder="pako"),
    Mode("detritus", encoding="etf", needs=("erlpack",)),
    Mode("detritus", encoding="etf", compression="zlib-stream", needs=("erlpack",), decoder="native"),
    Mode("discord.py"),
    Mode("discord.py", compression="zlib-stream"),
    Mode("discord.py", compression="zstd-stream"),
    Mode("discord.py", compression="payload"),
    # For user accounts. It always requests a stream compression.
    Mode("discord.py-self", compression="zlib-stream", is_user=True, community=SMALL, variant="small guild"),
    Mode(
        "discord.py-self",
        compression="zstd-stream",
        is_user=True,
        subscribes=False,
        community=LARGE,
        variant="large guild",
    ),
    Mode("nextcord", compression="zlib-stream"),
    Mode("disnake"),
    Mode("disnake", compression="zlib-stream"),
    Mode("twilight"),
    Mode("twilight", compression="zlib-stream"),
    Mode("twilight", compression="zstd-stream"),
    Mode("serenity", compression="payload", tells_sequence=False),
    Mode("discordgo"),
    Mode("discordgo", compression="payload"),
    Mode("jda"),
    Mode("jda", compression="zlib-stream"),
    Mode("jda", encoding="etf"),
    Mode("jda", encoding="etf", compression="zlib-stream"),
)
