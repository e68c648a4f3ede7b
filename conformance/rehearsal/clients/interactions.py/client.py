"""interactions.py: the library of this name, unmodified, with every default; it always requests zlib-stream."""
import json
import sys

import interactions
from interactions.api.http.route import Route

with open(sys.argv[1], encoding="utf-8") as file:
    SETTINGS = json.load(file)

Route.BASE = SETTINGS["api_base"] + "/v10"
# Without its synchronisation of commands, which the mock's REST does not have.
interactions.Client(intents=interactions.Intents.ALL, sync_interactions=False).start(SETTINGS["bot_token"])
