"""Relatives: what the programs of discord.py and of its forks (discord.py-self, nextcord, disnake) share.

Owns        the events, the commands of bots, and the ear of nextcord and disnake for complaints in the log.
Not here    how a library is brought into a mode and pointed at the node: its own `client.py`.
Spec        ../README.md "The line protocol".
"""
import asyncio
import json
import logging
import re
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    SETTINGS = json.load(file)


def emit(ev, **fields):
    """Writes one event line."""
    sys.stdout.write(json.dumps({"ev": ev, **fields}) + "\n")
    sys.stdout.flush()


def problem(what, detail):
    """Something the library did not like; the runner decides whether a cut socket explains it."""
    emit("problem", what=what, detail=str(detail)[:2000])


class Watch(logging.Handler):
    """Turns what the library complains about in its log into problems."""

    # Logged at debug level, and yet a sign that the server sent something unknown to the library.
    COMPLAINTS = re.compile(r"^Unknown (event|OP)|referencing an? (unknown|uncached)|[Dd]iscarding|[Tt]imed out")
    # Right in a guild above large_threshold: GUILD_CREATE leaves out who is offline, and one of them came online.
    EXPECTED = re.compile(r"^PRESENCE_UPDATE referencing an unknown member|voice will NOT be supported")
    # What every dispatch leaves in the log.
    CHATTER = re.compile(r"^Dispatching event|WebSocket Event")

    def emit(self, record):
        text = record.getMessage()
        if self.EXPECTED.search(text):
            return
        # A dispatch quotes messages, which may contain any text.
        is_chatter = self.CHATTER.search(text) is not None
        if record.levelno >= logging.WARNING or (not is_chatter and self.COMPLAINTS.search(text)):
            if record.exc_info:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
            problem(f"log {record.levelname.lower()} {record.name}", text)
        if not is_chatter:
            sys.stderr.write(f"{record.levelname} {record.name}: {text[:400]}\n")


class Events:
    """To be mixed into the library's Client: reports what it sees, and reads commands."""

    async def on_socket_raw_receive(self, text):
        payload = json.loads(text)
        if payload["op"] == 0:
            emit("dispatch", s=payload["s"], t=payload["t"])
        if payload["t"] == "READY":
            emit("ready", user_id=payload["d"]["user"]["id"], guilds=len(payload["d"]["guilds"]))

    async def on_ready(self):
        for guild in self.guilds:
            emit("guild", **self.guild_fields(guild))
        emit("settled")

    def guild_fields(self, guild):
        """Fields of a guild in the line protocol."""
        return {
            "id": str(guild.id),
            "name": guild.name,
            "member_count": guild.member_count,
            "channels": len(guild.channels),
            "roles": len(guild.roles),
            "own_member": guild.me is not None and guild.me.id == self.user.id,
        }

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

    async def on_typing(self, channel, user, _when):
        emit("typing", channel_id=str(channel.id), user_id=str(user.id))

    async def on_error(self, event, *_args, **_kwargs):
        problem(f"exception in {event}", repr(sys.exc_info()[1]))

    async def read_commands(self):
        """Runs the runner's commands; a failed one is a problem, not a crash."""
        reader = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            command = json.loads(line)
            try:
                await self.run_command(**command)
            except Exception as error:
                problem(f"command {command['cmd']}", repr(error))
            if command["cmd"] == "quit":
                return


class Reports(Events):
    """Of a bot."""

    async def on_reaction_add(self, reaction, user):
        emit("reaction", message_id=str(reaction.message.id), user_id=str(user.id), emoji=str(reaction.emoji))

    async def run_command(self, cmd, guild_id=0, channel_id=0, content=None):
        match cmd:
            case "send":
                message = await self.get_channel(int(channel_id)).send(content)
                emit("sent", id=str(message.id))
            case "members":
                guild = self.get_guild(int(guild_id))
                await guild.chunk()
                emit("members", count=len(guild.members))
            case "quit":
                await self.close()


async def run(library, make_client):
    """Runs the library from its start to `quit`."""
    logging.getLogger(library.__name__).setLevel(logging.DEBUG)
    logging.getLogger().addHandler(Watch())
    library.http.Route.BASE = SETTINGS["api_base"] + "/v10"
    emit("start", library=library.__name__, version=library.__version__)
    client = make_client()
    # Kept, for the loop itself holds tasks only weakly.
    reading = asyncio.create_task(client.read_commands())
    await client.start(SETTINGS["bot_token"])
    # `start` returns with the socket; what `close` has to tidy up comes after it.
    await reading
