"""discord.py-self: the library of this name, unmodified, against a local node. It is for user accounts.

Modes: JSON only, with zstd-stream when `zstandard` can be imported, else zlib-stream.

Addresses are set from outside, and so is what it would fetch from the internet to look like a browser. Whether it
subscribes to its guilds at login is its own option `guild_subscriptions`; without, a large guild stays passive.
"""
import asyncio
import base64
import json
import logging
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from relatives import SETTINGS, Events, emit, problem  # noqa: E402

if SETTINGS["compression"] != "zstd-stream":
    sys.modules["zstandard"] = None  # `import zstandard` now fails, as where it is not installed

import discord  # noqa: E402
import yarl  # noqa: E402
from discord.gateway import DiscordWebSocket  # noqa: E402
from rows import Fault, MemberList  # noqa: E402

BROWSER = {
    "os": "Linux",
    "browser": "Chrome",
    "device": "",
    "system_locale": "en-US",
    "browser_user_agent": "Mozilla/5.0",
    "browser_version": "140.0.0.0",
    "os_version": "",
    "release_channel": "stable",
    "client_build_number": 1,
}


async def browser_properties(_session, _type, **_options):
    """Stands in for a call to the internet."""
    return BROWSER, {}, base64.b64encode(json.dumps(BROWSER).encode()).decode()


class Watch(logging.Handler):
    """Turns what the library complains about in its log into problems."""

    # Logged at debug level, and yet a sign that the server sent something unknown to the library.
    COMPLAINTS = re.compile(r"referencing an? (unknown|null)|[Dd]iscarding|Timed out|erroneous|manually overriden")
    UNKNOWN = re.compile(r"^Unknown (event|OP code) (\w+)")
    # In the protocol, and not in this library.
    NOT_IN_THE_LIBRARY = ("RATE_LIMITED", "CHANNEL_MEMBER_COUNT_UPDATE", "LAST_MESSAGES")
    # The rest of what every dispatch and request leaves in the log.
    CHATTER = ("Dispatching event", "Gateway event", "Keeping websocket alive")

    def emit(self, record):
        text = record.getMessage()
        if text.startswith(self.CHATTER) or "voice will NOT be supported" in text:
            return
        if self._is_complaint(record, text):
            if record.exc_info:
                text += "\n" + logging.Formatter().formatException(record.exc_info)
            problem(f"log {record.levelname.lower()} {record.name}", text)
        sys.stderr.write(f"{record.levelname} {record.name}: {text[:400]}\n")

    def _is_complaint(self, record, text):
        if record.levelno >= logging.WARNING:
            return True
        if record.name == "discord.http":
            return False  # it quotes what the API answered
        if unknown := self.UNKNOWN.search(text):
            return unknown[2] not in self.NOT_IN_THE_LIBRARY
        return bool(self.COMPLAINTS.search(text))


class Client(Events, discord.Client):
    """Reports what it sees, and what its caches hold."""

    def __init__(self):
        subscribes = SETTINGS["subscribes"]
        super().__init__(
            guild_subscriptions=subscribes,
            chunk_guilds_at_startup=subscribes,
            sync_presence=False,
            enable_debug_events=True,
        )
        self.reading = None
        self.lists = {}

    @property
    def subscriptions(self):
        """The library's subscriptions. Member-list ranges have no public method; all others do."""
        return self._connection.subscriptions

    async def setup_hook(self):
        # Kept, for the loop itself holds tasks only weakly.
        self.reading = asyncio.create_task(self.read_commands())

    async def on_socket_raw_receive(self, text):
        if json.loads(text)["t"] == "READY":
            self.lists.clear()
        await super().on_socket_raw_receive(text)

    def guild_fields(self, guild):
        return {**super().guild_fields(guild), "chunked": guild.chunked}

    async def on_raw_reaction_add(self, reaction):
        emit(
            "reaction",
            message_id=str(reaction.message_id),
            user_id=str(reaction.user_id),
            emoji=str(reaction.emoji),
        )

    async def on_raw_member_list_update(self, data):
        try:
            self.lists.setdefault((data["guild_id"], data["id"]), MemberList()).apply(data)
        except (Fault, KeyError) as error:
            problem("member list", f"{error!r} in {json.dumps(data)}")

    async def run_command(self, cmd, guild_id=0, channel_id=0, **arguments):
        guild = self.get_guild(int(guild_id))
        match cmd:
            case "send":
                message = await self.get_channel(int(channel_id)).send(arguments["content"])
                emit("sent", id=str(message.id))
            case "subscribe":
                await guild.subscribe(typing=True, activities=True, threads=True, member_updates=True)
                await self.subscriptions.send()
                emit("subscribed")
            case "unsubscribe":
                await self.subscriptions.subscribe_to_channels(guild, {}, replace=True)
                await self.subscriptions.subscribe_to_members(guild, replace=True)
                # It insists on seeing the ranges and members gone before it gives up the guild.
                await self.subscriptions.send()
                await guild.subscribe(typing=False, activities=False, threads=False, member_updates=False)
                await self.subscriptions.send()
                emit("unsubscribed")
            case "watch":
                ranges = {int(channel): ranges for channel, ranges in arguments["ranges"].items()}
                await self.subscriptions.subscribe_to_channels(guild, ranges, replace=True)
                await self.subscriptions.send()
                emit("watching")
            case "watch_members":
                await guild.subscribe_to(members=[discord.Object(int(id)) for id in arguments["user_ids"]])
                await self.subscriptions.send()
                emit("watching_members")
            case "members":
                emit("members", how=arguments["how"], ids=await self.members(guild, **arguments))
            case "voice":
                await guild.change_voice_state(channel=discord.Object(int(channel_id)) if channel_id else None)
            case "state":
                emit("state", number=arguments["number"], **self.state(guild))
            case "quit":
                await self.close()

    async def members(self, guild, how, query=None, limit=None):
        """Ids of the members that the library's own requests find."""
        match how:
            case "scrape":
                found = await guild.fetch_members(force_scraping=True, cache=True)
            case "chunk":
                found = await guild.chunk()
            case "query":
                found = await guild.query_members(query, limit=limit)
            case "recent":
                found = await guild.query_recent_members(limit=limit)
        return [str(member.id) for member in found]

    def state(self, guild):
        """Content of the library's caches for a guild, and the rows of subscribed member lists."""
        return {
            "member_count": guild.member_count,
            "online_count": guild.online_count,
            "members": {str(member.id): member_of(member) for member in guild.members},
            "roles": {str(role.id): [role.name, role.position, role.hoist] for role in guild.roles},
            "channels": {
                str(channel.id): [channel.name, string(getattr(channel, "last_message_id", None))]
                for channel in guild.channels
            },
            "voice": {
                str(user_id): str(state.channel.id)
                for user_id, state in guild._voice_states.items()
                if state.channel is not None
            },
            "mentions": {
                str(channel.id): count
                for channel in guild.text_channels
                if (count := self._connection.get_read_state(channel.id).badge_count)
            },
            "lists": [
                {
                    "channel_id": str(channel_id),
                    "id": self.get_channel(int(channel_id)).member_list_id,
                    "windows": [[*window, *self.window(guild, channel_id, *window)] for window in ranges],
                }
                for channel_id, ranges in self.subscriptions.channels_for(guild).items()
            ],
        }

    def window(self, guild, channel_id, first, last):
        """The groups of a channel's list, and its rows in a range; nothing while no list has come."""
        kept = self.lists.get((str(guild.id), self.get_channel(int(channel_id)).member_list_id))
        return [kept.groups, kept.window(first, last)] if kept else [None, None]


def string(id):
    return None if id is None else str(id)


def member_of(member):
    roles = sorted(str(role.id) for role in member.roles if not role.is_default())
    return [member.name, member.global_name, member.nick, roles, member.raw_status]


async def main():
    logging.getLogger("discord").setLevel(logging.DEBUG)
    logging.getLogger().addHandler(Watch())
    discord.http.Route.BASE = SETTINGS["api_base"] + "/v10"
    discord.utils.Headers.get_api_properties = staticmethod(browser_properties)
    DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(SETTINGS["gateway_url"])
    emit("start", library="discord.py-self", version=discord.__version__)
    async with Client() as client:
        await client.start(SETTINGS["user_token"])


asyncio.run(main())
