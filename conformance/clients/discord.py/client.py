"""discord.py: the library of this name, unmodified, against a local node.

Modes: it speaks JSON only and asks for the stream compression its build has: zstd-stream when
`zstandard` can be imported, else zlib-stream. `none` and `payload` are not reachable by an option:
`from_client(compress=False)` leaves the URL parameter out, and the library always says
`compress: true` in IDENTIFY, which without a stream compression asks for payload compression.
"""
import asyncio
import json
import logging
import re
import sys
import zlib

with open(sys.argv[1], encoding="utf-8") as file:
    SETTINGS = json.load(file)
COMPRESSION = SETTINGS["compression"]

if COMPRESSION != "zstd-stream":
    sys.modules["zstandard"] = None  # `import zstandard` now fails, as where it is not installed

import discord  # noqa: E402
from discord.gateway import DiscordWebSocket  # noqa: E402


def emit(ev, **fields):
    """Writes one event line."""
    sys.stdout.write(json.dumps({"ev": ev, **fields}) + "\n")
    sys.stdout.flush()


def problem(what, detail):
    """Something the library did not like; the runner decides whether a cut socket explains it."""
    emit("problem", what=what, detail=str(detail)[:2000])


class WholePayloads:
    """Payload compression: every binary frame is one complete zlib stream."""

    COMPRESSION_TYPE = "payload"

    def decompress(self, data):
        return zlib.decompress(data).decode("utf-8")


def leave_out_stream_compression():
    """Makes the library's sockets connect without `compress=` in the URL."""
    with_compression = DiscordWebSocket.from_client.__func__

    async def from_client(cls, client, **kwargs):
        return await with_compression(cls, client, **{**kwargs, "compress": False})

    DiscordWebSocket.from_client = classmethod(from_client)


def leave_out_payload_compression():
    """Makes IDENTIFY say `compress: false`."""
    send_as_json = DiscordWebSocket.send_as_json

    async def send(self, data):
        if data.get("op") == DiscordWebSocket.IDENTIFY:
            data["d"]["compress"] = False
        await send_as_json(self, data)

    DiscordWebSocket.send_as_json = send


if COMPRESSION in ("none", "payload"):
    leave_out_stream_compression()
if COMPRESSION == "none":
    leave_out_payload_compression()
if COMPRESSION == "payload":
    discord.utils._ActiveDecompressionContext = WholePayloads


class Watch(logging.Handler):
    """Turns what the library complains about in its log into problems."""

    # Said at debug level, and yet a sign that the server sent what the library does not know.
    COMPLAINTS = re.compile(r"^Unknown (event|OP)|referencing an unknown|[Dd]iscarding|Timed out receiving")

    def emit(self, record):
        text = record.getMessage()
        if "voice will NOT be supported" in text:
            return  # about optional packages that are not installed, at every start
        if text.startswith("PRESENCE_UPDATE referencing an unknown member"):
            # Right in a guild above large_threshold: GUILD_CREATE leaves out who is offline, and one of them came online.
            return
        if record.levelno >= logging.WARNING or self.COMPLAINTS.search(text):
            if record.exc_info:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
            problem(f"log {record.levelname.lower()} {record.name}", text)
        if not text.startswith("Dispatching event") and "WebSocket Event" not in text:
            sys.stderr.write(f"{record.levelname} {record.name}: {text[:400]}\n")


class Client(discord.AutoShardedClient):
    """Reports what it sees."""

    def __init__(self):
        # Members are asked for by command, not at start.
        super().__init__(intents=discord.Intents.all(), chunk_guilds_at_startup=False, enable_debug_events=True)
        self.reading = None

    async def setup_hook(self):
        # Kept, for the loop itself holds tasks only weakly.
        self.reading = asyncio.create_task(self.read_commands())

    async def on_socket_raw_receive(self, text):
        payload = json.loads(text)
        if payload["op"] == DiscordWebSocket.DISPATCH:
            emit("dispatch", s=payload["s"], t=payload["t"])
        if payload["t"] == "READY":
            emit("ready", user_id=payload["d"]["user"]["id"], guilds=len(payload["d"]["guilds"]))

    async def on_ready(self):
        for guild in self.guilds:
            emit(
                "guild",
                id=str(guild.id),
                name=guild.name,
                member_count=guild.member_count,
                channels=len(guild.channels),
                roles=len(guild.roles),
                own_member=guild.me is not None and guild.me.id == self.user.id,
            )
        emit("settled")

    async def on_resumed(self):
        emit("resumed")

    async def on_message(self, message):
        emit(
            "message",
            id=str(message.id),
            channel_id=str(message.channel.id),
            author_id=str(message.author.id),
            content=message.content,
        )

    async def on_message_edit(self, _before, after):
        emit("edit", id=str(after.id), content=after.content)

    async def on_message_delete(self, message):
        emit("delete", id=str(message.id))

    async def on_reaction_add(self, reaction, user):
        emit("reaction", message_id=str(reaction.message.id), user_id=str(user.id), emoji=str(reaction.emoji))

    async def on_typing(self, channel, user, _when):
        emit("typing", channel_id=str(channel.id), user_id=str(user.id))

    async def on_error(self, event, *_args, **_kwargs):
        problem(f"exception in {event}", repr(sys.exc_info()[1]))

    async def read_commands(self):
        """Runs the runner's commands; a failed one is a problem, not a crash."""
        reader = asyncio.StreamReader()
        await self.loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            command = json.loads(line)
            try:
                await self.run_command(command)
            except Exception as error:
                problem(f"command {command['cmd']}", repr(error))

    async def run_command(self, command):
        match command["cmd"]:
            case "send":
                message = await self.get_channel(int(command["channel_id"])).send(command["content"])
                emit("sent", id=str(message.id))
            case "members":
                guild = self.get_guild(int(command["guild_id"]))
                await guild.chunk()
                emit("members", count=len(guild.members))
            case "quit":
                await self.close()


async def main():
    logging.getLogger("discord").setLevel(logging.DEBUG)
    logging.getLogger().addHandler(Watch())
    discord.http.Route.BASE = SETTINGS["api_base"] + "/v10"
    emit("start", library="discord.py", version=discord.__version__)
    async with Client() as client:
        await client.start(SETTINGS["bot_token"])


asyncio.run(main())
