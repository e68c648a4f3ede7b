"""A bot with commands and a button, by discord.py. See ../../README.md.

    pip install -r requirements.txt && TOKEN='…' python bot.py
"""
import os
import random
import re

import discord
import yarl
from discord import app_commands, ui
from discord.gateway import DiscordWebSocket

API = os.environ.get("API", "http://127.0.0.1:8080/api")
GATEWAY = os.environ.get("GATEWAY", "ws://127.0.0.1:8080")

# Both addresses: without the second the library would send the token elsewhere after the end of a session.
discord.http.Route.BASE = f"{API}/v10"
DiscordWebSocket.DEFAULT_GATEWAY = yarl.URL(GATEWAY)


def rolled(user, sides):
    """The text of a new roll."""
    return f"{user.name} rolled {random.randint(1, sides)} of {sides}"


class Again(ui.DynamicItem[ui.Button], template=re.compile("roll:(?P<sides>[0-9]+)")):
    """A button for the next roll. Its id holds all that its press needs, so it outlives the program."""

    def __init__(self, sides):
        super().__init__(ui.Button(label="Again", style=discord.ButtonStyle.primary, custom_id=f"roll:{sides}"))
        self.sides = sides

    @classmethod
    async def from_custom_id(cls, _interaction, _item, match):
        return cls(int(match["sides"]))

    async def callback(self, interaction):
        await interaction.response.edit_message(content=rolled(interaction.user, self.sides))


class Bot(discord.Client):
    """The bot."""

    def __init__(self):
        # Interactions need no intent.
        super().__init__(intents=discord.Intents(guilds=True))
        self.tree = app_commands.CommandTree(self)
        self.add_dynamic_items(Again)

    async def setup_hook(self):
        await self.tree.sync()

    async def on_ready(self):
        print("ready", flush=True)


bot = Bot()


@bot.tree.command(description="Rolls a die")
@app_commands.describe(sides="Sides of the die, 6 by default")
async def roll(interaction: discord.Interaction, sides: app_commands.Range[int, 2, 100] = 6):
    view = ui.View(timeout=None)
    view.add_item(Again(sides))
    await interaction.response.send_message(rolled(interaction.user, sides), view=view)


@bot.tree.command(description="Describes this bot to you alone")
async def about(interaction: discord.Interaction):
    await interaction.response.send_message("This bot rolls dice.", ephemeral=True)


bot.run(os.environ["TOKEN"])
