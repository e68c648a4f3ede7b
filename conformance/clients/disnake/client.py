"""disnake: the library of this name, unmodified, against a local node.

Modes: it speaks JSON only; zlib-stream or nothing by its option `gateway_params`.
"""
import asyncio
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import disnake  # noqa: E402
from relatives import SETTINGS, Reports, problem, run  # noqa: E402


class Client(Reports, disnake.AutoShardedClient):
    """Reports what it sees."""

    def __init__(self):
        super().__init__(
            intents=disnake.Intents.all(),
            # Members are requested by command, not at start.
            chunk_guilds_at_startup=False,
            enable_debug_events=True,
            gateway_params=disnake.GatewayParams(zlib=SETTINGS["compression"] == "zlib-stream"),
        )

    async def on_gateway_error(self, event, _data, _shard_id, error):
        problem(f"exception in {event}", repr(error))


asyncio.run(run(disnake, Client))
