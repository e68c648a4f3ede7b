'use strict';
// eris: the library of this name, unmodified, against a local node.
//
// Modes: ETF when `erlpack` can be required, else JSON; zlib-stream by the option `compress`, decoded
// with `zlib-sync` or, without it, with `pako`.
const https = require('node:https');
const net = require('node:net');
const { settings, emit, problem, hideFromRequire } = require('../lines.js');
const { report, run } = require('../relatives.js');

const hidden = [];
if (settings.encoding !== 'etf') hidden.push('erlpack');
if (settings.decoder === 'pako') hidden.push('zlib-sync');
if (settings.decoder === 'zlib-sync') hidden.push('pako');
hideFromRequire(hidden);

const Eris = require('eris');

// https is hard-wired for REST, so the agent hands it a plain TCP socket.
const api = new URL(settings.api_base);
const agent = new https.Agent({ keepAlive: true });
agent.createConnection = () => net.connect(Number(api.port), api.hostname);

const client = new Eris.Client(`Bot ${settings.bot_token}`, {
  intents: ['all'],
  compress: settings.compression === 'zlib-stream',
  maxShards: 'auto',
  rest: { domain: api.host, baseURL: `${api.pathname.replace(/\/$/, '')}/v10`, agent },
});

emit('start', { library: 'eris', version: Eris.VERSION });

client.on('rawWS', (packet) => {
  if (packet.op === 0) emit('dispatch', { s: packet.s, t: packet.t });
  if (packet.t === 'READY') emit('ready', { user_id: packet.d.user.id, guilds: packet.d.guilds.length });
  if (packet.t === 'RESUMED') emit('resumed');
});
report(client, (message) => message.channel.id);
client.on('messageReactionAdd', (message, emoji, user) => {
  emit('reaction', { message_id: message.id, user_id: user.id, emoji: emoji.name });
});
client.on('unknown', (packet) => problem('unknown event', `op ${packet.op} ${packet.t}`));
client.on('shardDisconnect', (error) => {
  if (error) problem('shard disconnected', error);
});
client.on('debug', (text) => {
  // Sent payloads are logged too, with the token: keep it out of logs that may be shown.
  process.stderr.write(`${String(text).replaceAll(settings.bot_token, '<token>')}\n`);
  if (/^(Missing|Rogue|Unhandled|Unknown)|Heartbeat timeout|missing guild/.test(text)) problem('debug', text);
});

run(client, {
  send: (channelId, content) => client.createMessage(channelId, content),
  quit() {
    client.disconnect({ reconnect: false });
    agent.destroy();
  },
});
