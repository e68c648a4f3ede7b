"""py-cord: the library of this name, unmodified, with every default; it always requests zlib-stream."""
import json
import sys

import discord

with open(sys.argv[1], encoding="utf-8") as file:
    SETTINGS = json.load(file)

discord.http.Route.API_BASE_URL = SETTINGS["api_base"] + "/v10"
discord.Client(intents=discord.Intents.all()).run(SETTINGS["bot_token"])
