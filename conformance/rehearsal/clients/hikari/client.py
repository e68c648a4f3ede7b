"""hikari: the library of this name, unmodified, with every default; it requests zlib-stream."""
import json
import sys

import hikari

with open(sys.argv[1], encoding="utf-8") as file:
    SETTINGS = json.load(file)

bot = hikari.GatewayBot(SETTINGS["bot_token"], rest_url=SETTINGS["api_base"] + "/v10", intents=hikari.Intents.ALL, banner=None)
bot.run(check_for_updates=False)
