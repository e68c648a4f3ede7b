'use strict';
// discordeno: the library of this name, unmodified, with every default; JSON without compression.
const fs = require('node:fs');
const { createBot, createDesiredPropertiesObject, Intents } = require('@discordeno/bot');

const settings = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const bot = createBot({
  token: settings.bot_token,
  intents: Intents.Guilds | Intents.GuildMessages | Intents.MessageContent,
  desiredProperties: createDesiredPropertiesObject({}),
});
// With the option `rest.proxy` the library would leave rate limits to the proxy.
bot.rest.baseUrl = settings.api_base;
bot.start();
