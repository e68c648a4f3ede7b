"""Modes: which libraries are tried, and in which encodings and compressions each.

Owns        the table of runs, and what each must show on the wire.
Not here    how a library is brought into a mode: that is in its client program.
"""
import dataclasses

# Seen by the tap; a mode that silently fell back to another would otherwise pass.
STREAMS = ("zlib-stream", "zstd-stream")


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

    @property
    def name(self):
        parts = [self.encoding]
        if self.compression != "none":
            parts.append(self.compression)
        return "+".join(parts) + (f" ({self.decoder})" if self.decoder else "")

    @property
    def is_stream(self):
        return self.compression in STREAMS


CLIENTS = ("discord.js", "eris", "discord.py", "twilight")

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
    Mode("discord.py"),
    Mode("discord.py", compression="zlib-stream"),
    Mode("discord.py", compression="zstd-stream"),
    Mode("discord.py", compression="payload"),
    Mode("twilight"),
    Mode("twilight", compression="zlib-stream"),
    Mode("twilight", compression="zstd-stream"),
)
