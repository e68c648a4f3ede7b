"""nextcord: the library of this name, unmodified, against a local node.

Modes: it speaks JSON only and always asks for zlib-stream.
"""
import asyncio
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import nextcord  # noqa: E402
from relatives import Reports, run  # noqa: E402


class Client(Reports, nextcord.Client):
    """Reports what it sees."""

    def __init__(self):
        # Members are requested by command, not at start.
        super().__init__(intents=nextcord.Intents.all(), chunk_guilds_at_startup=False, enable_debug_events=True)


asyncio.run(run(nextcord, Client))
