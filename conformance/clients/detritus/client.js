'use strict';
// detritus: detritus-client with its detritus-client-socket and -rest, unmodified, against a local node.
//
// Modes: `gateway.encoding` JSON or ETF (by `erlpack`); `gateway.compress` zlib-stream, decoded by `pako` where it can
// be required, else by Node's own zlib. It speaks API v9.
const { settings, emit, problem, hideFromRequire, listen } = require('../lines.js');

if (settings.decoder !== 'pako') hideFromRequire(['pako']);

const { Constants, ShardClient } = require('detritus-client');
const { Constants: SocketConstants } = require('detritus-client-socket');

// All that the library has a name for, and MESSAGE_CONTENT, which is younger.
const INTENTS = [...Object.values(SocketConstants.GatewayIntents), 1 << 15];

const known = new Set(Object.values(Constants.GatewayDispatchEvents));
const client = new ShardClient(settings.bot_token, {
  isBot: true,
  gateway: {
    encoding: settings.encoding,
    compress: settings.compression === 'zlib-stream' ? 'zlib-stream' : 'none',
    intents: INTENTS,
  },
  // Otherwise it requests the list of games of Discord, which other gateways do not have.
  cache: { applications: { enabled: false } },
  rest: { baseUrl: `${settings.api_base}/v9` },
});
emit('start', { library: 'detritus', version: Constants.Package.VERSION });

client.on('raw', (packet) => {
  emit('dispatch', { s: packet.s, t: packet.t });
  if (packet.t === 'READY') emit('ready', { user_id: packet.d.user.id, guilds: packet.d.guilds.length });
  if (!known.has(packet.t)) problem('unknown event', packet.t);
});
client.on('guildCreate', ({ guild }) => {
  emit('guild', {
    id: guild.id,
    name: guild.name,
    member_count: guild.memberCount,
    channels: guild.channels.length,
    roles: guild.roles.length,
    own_member: guild.members.has(client.userId),
  });
});
client.on('gatewayReady', () => emit('settled'));
client.on('gatewayResumed', () => emit('resumed'));
client.on('messageCreate', ({ message }) => {
  emit('message', {
    id: message.id,
    channel_id: message.channelId,
    author_id: message.author.id,
    content: message.content,
  });
});
client.on('messageUpdate', ({ message, messageId }) => emit('edit', { id: messageId, content: message?.content }));
client.on('messageDelete', ({ raw }) => emit('delete', { id: raw.id }));
client.on('messageReactionAdd', ({ messageId, userId, reaction }) => {
  emit('reaction', { message_id: messageId, user_id: userId, emoji: reaction.emoji.name });
});
client.on('typingStart', ({ channelId, userId }) => emit('typing', { channel_id: channelId, user_id: userId }));
client.on('warn', ({ error }) => problem('warn', error));
client.on('unknown', (packet) => problem('unknown', packet.t));
client.gateway.on('warn', (error) => problem('gateway warn', error));
client.gateway.on('close', ({ code, reason }) => emit('closed', { code, reason: String(reason) }));
client.on('killed', ({ error }) => {
  if (error) problem('killed', error);
});

listen({
  async send({ channel_id, content }) {
    const message = await client.rest.createMessage(channel_id, { content });
    emit('sent', { id: message.id });
  },
  async members({ guild_id }) {
    await client.requestGuildMembers(guild_id, { query: '', limit: 0, presences: true, timeout: 60_000 });
    emit('members', { count: client.guilds.get(guild_id).members.length });
  },
  quit() {
    client.kill();
  },
});

client.run().catch((error) => {
  problem('run', error);
  process.exit(1);
});
