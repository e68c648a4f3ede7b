'use strict';
// oceanic.js: the library of this name, unmodified, against a local node.
//
// Modes: ETF when `erlpack` can be required, else JSON; zlib-stream and zstd-stream by the option `compress`, each by
// several decoders, of which the option `compressLibrary` picks one.
const { settings, emit, problem, hideFromRequire } = require('../lines.js');
const { report, run } = require('../relatives.js');

if (settings.encoding !== 'etf') hideFromRequire(['erlpack']);

const { Client, Constants } = require('oceanic.js');

const client = new Client({
  auth: `Bot ${settings.bot_token}`,
  gateway: {
    intents: ['ALL'],
    maxShards: 'auto',
    compress: settings.compression === 'none' ? false : settings.compression,
    compressLibrary: settings.decoder || undefined,
    // Else the library calls itself ready this long after the last GUILD_CREATE, all guilds there or not.
    guildCreateTimeout: 60_000,
  },
  rest: { baseURL: `${settings.api_base}/v10` },
});
emit('start', { library: 'oceanic.js', version: Constants.VERSION });

client.on('packet', (packet, shard) => {
  emit('dispatch', { s: packet.s, t: packet.t });
  if (packet.t === 'READY') emit('ready', { user_id: packet.d.user.id, guilds: packet.d.guilds.length });
  if (!client.shards.dispatcher.events.has(packet.t)) problem('unknown event', `${packet.t} in shard ${shard}`);
});
report(client, (message) => message.channelID);
client.on('shardResume', () => emit('resumed'));
client.on('messageReactionAdd', (message, user, reaction) => {
  emit('reaction', { message_id: message.id, user_id: user.id, emoji: reaction.emoji.name });
});
client.on('debug', (text) => {
  process.stderr.write(`${text}\n`);
  if (/Heartbeat timeout|Missing|Rogue|discarding|Unexpected|invalidating/i.test(text)) problem('debug', text);
});

run(client, {
  send: (channelId, content) => client.rest.channels.createMessage(channelId, { content }),
  quit() {
    client.disconnect(false);
  },
});
