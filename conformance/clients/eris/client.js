'use strict';
// eris: the library of this name, unmodified, against a local node.
//
// Modes: ETF when `erlpack` can be required, else JSON; zlib-stream by the option `compress`, decoded
// with `zlib-sync` or, without it, with `pako`.
const https = require('node:https');
const net = require('node:net');
const { settings, emit, problem, hideFromRequire, listen } = require('../lines.js');

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
client.once('ready', () => {
  for (const guild of client.guilds.values()) {
    emit('guild', {
      id: guild.id,
      name: guild.name,
      member_count: guild.memberCount,
      channels: guild.channels.size,
      roles: guild.roles.size,
      own_member: guild.members.get(client.user.id)?.id === client.user.id,
    });
  }
  emit('settled');
});
client.on('messageCreate', (message) => {
  emit('message', {
    id: message.id,
    channel_id: message.channel.id,
    author_id: message.author.id,
    content: message.content,
  });
});
client.on('messageUpdate', (message) => emit('edit', { id: message.id, content: message.content }));
client.on('messageDelete', (message) => emit('delete', { id: message.id }));
client.on('messageReactionAdd', (message, emoji, user) => {
  emit('reaction', { message_id: message.id, user_id: user.id, emoji: emoji.name });
});
client.on('typingStart', (channel, user) => emit('typing', { channel_id: channel.id, user_id: user.id }));
client.on('unknown', (packet) => problem('unknown event', `op ${packet.op} ${packet.t}`));
client.on('error', (error) => problem('error', error));
client.on('warn', (warning) => problem('warn', warning));
client.on('shardDisconnect', (error) => {
  if (error) problem('shard disconnected', error);
});
client.on('debug', (text) => {
  // Sent payloads are logged too, with the token: keep it out of logs that may be shown.
  process.stderr.write(`${String(text).replaceAll(settings.bot_token, '<token>')}\n`);
  if (/^(Missing|Rogue|Unhandled|Unknown)|Heartbeat timeout|missing guild/.test(text)) problem('debug', text);
});

listen({
  async send({ channel_id, content }) {
    const message = await client.createMessage(channel_id, content);
    emit('sent', { id: message.id });
  },
  async members({ guild_id }) {
    const guild = client.guilds.get(guild_id);
    await guild.fetchMembers();
    emit('members', { count: guild.members.size });
  },
  quit() {
    client.disconnect({ reconnect: false });
    agent.destroy();
  },
});

client.connect().catch((error) => {
  problem('connect', error);
  process.exit(1);
});
