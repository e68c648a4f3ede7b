"""discord.py: the library of this name, unmodified, against a local node.

Modes: it speaks JSON only and asks for the stream compression its build has: zstd-stream when
`zstandard` can be imported, else zlib-stream. `none` and `payload` are not reachable by an option:
`from_client(compress=False)` leaves the URL parameter out, and the library always says
`compress: true` in IDENTIFY, which without a stream compression asks for payload compression.
"""
import asyncio
import io
import logging
import pathlib
import re
import sys
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from relatives import SETTINGS, Reports, emit, problem  # noqa: E402

COMPRESSION = SETTINGS["compression"]

if COMPRESSION != "zstd-stream":
    sys.modules["zstandard"] = None  # `import zstandard` now fails, as where it is not installed

import discord  # noqa: E402
import yarl  # noqa: E402
from discord import app_commands, ui  # noqa: E402
from discord.gateway import DiscordWebSocket  # noqa: E402


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
    """Sets `compress: false` in IDENTIFY."""
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

    # Logged at debug level, and yet a sign that the server sent something unknown to the library.
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


class Form(ui.Modal, title="A form"):
    """A modal with one text."""

    text = ui.Label(text="A text", component=ui.TextInput(custom_id="text"))

    async def on_submit(self, interaction):
        await interaction.response.send_message(f"form: {self.text.component.value}")

    async def on_error(self, interaction, error):
        problem("modal", repr(error))


class Press(ui.View):
    """A button that changes its message."""

    @ui.button(label="Press", custom_id="press", style=discord.ButtonStyle.primary)
    async def press(self, interaction, _button):
        self.stop()
        await interaction.response.edit_message(content=f"pressed by {interaction.user.name}", view=None)

    async def on_error(self, interaction, error, _item):
        problem("view", repr(error))


def add_commands(tree):
    """The commands that the scenario uses."""

    @tree.command(description="Answers at once")
    async def say(
        interaction: discord.Interaction, text: str, whom: discord.User, times: app_commands.Range[int, 1, 3] = 1
    ):
        await interaction.response.send_message(f"say: {text} to {whom.name}, {times}")

    @tree.command(description="Answers later")
    async def later(interaction: discord.Interaction, text: str):
        await interaction.response.defer()
        await interaction.edit_original_response(content=f"later: {text}")
        await interaction.followup.send(f"and more: {text}")

    @tree.command(description="Answers the caller alone")
    async def hidden(interaction: discord.Interaction):
        await interaction.response.send_message("hidden", ephemeral=True)
        await interaction.edit_original_response(content="hidden, edited")

    @tree.command(description="Completes a word")
    async def find(interaction: discord.Interaction, word: str):
        await interaction.response.send_message(f"found: {word}")

    @find.autocomplete("word")
    async def complete(_interaction, current: str):
        numbers = {"one": 1, "two": 2}
        return [app_commands.Choice(name=f"{current} {name}", value=f"{current}-{n}") for name, n in numbers.items()]

    @tree.command(description="Opens a form")
    async def form(interaction: discord.Interaction):
        await interaction.response.send_modal(Form(custom_id="form"))

    @tree.command(description="Shows a button")
    async def press(interaction: discord.Interaction):
        await interaction.response.send_message("press", view=Press())


class Client(Reports, discord.AutoShardedClient):
    """Reports what it sees."""

    def __init__(self):
        # Members are requested by command, not at start.
        super().__init__(intents=discord.Intents.all(), chunk_guilds_at_startup=False, enable_debug_events=True)
        self.reading = None
        self.tree = app_commands.CommandTree(self)
        add_commands(self.tree)

    async def setup_hook(self):
        # Kept, for the loop itself holds tasks only weakly.
        self.reading = asyncio.create_task(self.read_commands())

    async def run_command(self, cmd, name=None, size=0, **rest):
        if cmd == "register":
            emit("registered", count=len(await self.tree.sync()))
            return
        if cmd == "community":
            await self.set_community(**rest)
            return
        if cmd != "file":
            await super().run_command(cmd, **rest)
            return
        content = bytes(n % 256 for n in range(size))
        file = discord.File(io.BytesIO(content), name, description="from the client")
        message = await self.get_channel(int(rest["channel_id"])).send(file=file)
        (attachment,) = message.attachments
        # The link's host is the gateway's; the request has to pass the proxy, which judges every connection.
        attachment.url = SETTINGS["api_base"].removesuffix("/api") + attachment.url[attachment.url.index("/attachments/") :]
        emit(
            "file",
            id=str(message.id),
            name=attachment.filename,
            size=attachment.size,
            description=attachment.description,
            same=await attachment.read() == content,
        )

    async def set_community(self, guild_id, channel_id, code):
        """Settings of the guild: widget, welcome screen, vanity URL and template."""
        guild, channel = self.get_guild(int(guild_id)), self.get_channel(int(channel_id))
        await guild.edit_widget(enabled=True, channel=channel)
        welcome = discord.WelcomeChannel(channel=channel, description="here", emoji="👋")
        screen = await guild.edit_welcome_screen(enabled=True, description="hello", welcome_channels=[welcome])
        await guild.edit(vanity_code=code)
        vanity = await guild.vanity_invite()
        for old in await guild.templates():
            await old.delete()
        template = await (await guild.create_template(name="ours", description="of a guild")).sync()
        emit(
            "community",
            widget=(await guild.widget()).name,
            welcome=screen.welcome_channels[0].description,
            vanity=vanity.code,
            invite=str((await self.fetch_invite(code)).guild.id),
            template=(await self.fetch_template(template.code)).name,
        )


async def main():
    logging.getLogger("discord").setLevel(logging.DEBUG)
    logging.getLogger().addHandler(Watch())
    discord.http.Route.BASE = SETTINGS["api_base"] + "/v10"
    # The library fetches the URL at the start; after a session has ended it connects to this one.
    DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(SETTINGS["gateway_url"])
    emit("start", library="discord.py", version=discord.__version__, files=True, interactions=True, community=True)
    async with Client() as client:
        await client.start(SETTINGS["bot_token"])


asyncio.run(main())
