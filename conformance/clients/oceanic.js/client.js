'use strict';
// oceanic.js: the library of this name, unmodified, against a local node.
//
// Modes: ETF when `erlpack` can be required, else JSON; zlib-stream and zstd-stream by the option `compress`, each by
// several decoders, of which the option `compressLibrary` picks one.
const { settings, emit, problem, hideFromRequire, listen } = require('../lines.js');

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
client.on('shardResume', () => emit('resumed'));
client.on('messageCreate', (message) => {
  emit('message', {
    id: message.id,
    channel_id: message.channelID,
    author_id: message.author.id,
    content: message.content,
  });
});
client.on('messageUpdate', (message) => emit('edit', { id: message.id, content: message.content }));
client.on('messageDelete', (message) => emit('delete', { id: message.id }));
client.on('messageReactionAdd', (message, user, reaction) => {
  emit('reaction', { message_id: message.id, user_id: user.id, emoji: reaction.emoji.name });
});
client.on('typingStart', (channel, user) => emit('typing', { channel_id: channel.id, user_id: user.id }));
client.on('error', (error) => problem('error', error));
client.on('warn', (warning) => problem('warn', warning));
client.on('debug', (text) => {
  process.stderr.write(`${text}\n`);
  if (/Heartbeat timeout|Missing|Rogue|discarding|Unexpected|invalidating/i.test(text)) problem('debug', text);
});

listen({
  async send({ channel_id, content }) {
    const message = await client.rest.channels.createMessage(channel_id, { content });
    emit('sent', { id: message.id });
  },
  async members({ guild_id }) {
    const guild = client.guilds.get(guild_id);
    await guild.fetchMembers();
    emit('members', { count: guild.members.size });
  },
  quit() {
    client.disconnect(false);
  },
});

client.connect().catch((error) => {
  problem('connect', error);
  process.exit(1);
});
