'use strict';
// Code shared by the programs of eris and oceanic.js. oceanic.js descends from eris and kept its names.
//
// Owns        events that both report in one format, and commands that both execute in one way.
// Not here    how a library is brought into a mode and pointed at the node: its own `client.js`.
// Spec        ../README.md "The line protocol".
const { emit, problem, listen } = require('./lines.js');

/** Reports the guilds, and what is said, changed and complained of; `channelIdOf` a message is where they differ. */
function report(client, channelIdOf) {
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
      channel_id: channelIdOf(message),
      author_id: message.author.id,
      content: message.content,
    });
  });
  client.on('messageUpdate', (message) => emit('edit', { id: message.id, content: message.content }));
  client.on('messageDelete', (message) => emit('delete', { id: message.id }));
  client.on('typingStart', (channel, user) => emit('typing', { channel_id: channel.id, user_id: user.id }));
  client.on('error', (error) => problem('error', error));
  client.on('warn', (warning) => problem('warn', warning));
}

/** Runs the library from its start to `quit`; `send` returns the message, as the library has it. */
function run(client, { send, quit }) {
  listen({
    async send({ channel_id, content }) {
      const message = await send(channel_id, content);
      emit('sent', { id: message.id });
    },
    async members({ guild_id }) {
      const guild = client.guilds.get(guild_id);
      await guild.fetchMembers();
      emit('members', { count: guild.members.size });
    },
    quit,
  });
  client.connect().catch((error) => {
    problem('connect', error);
    process.exit(1);
  });
}

module.exports = { report, run };
