'use strict';
// discord.js: the library of this name, unmodified, against a local node.
//
// Modes: it speaks JSON only. It requests zlib-stream when `zlib-sync` can be required, payload compression
// (`IDENTIFY.compress`) when that module cannot be imported, else none.
const { settings, emit, problem, hideFromRequire, hideFromImport, listen } = require('../lines.js');

if (settings.compression === 'none') hideFromRequire(['zlib-sync']);
if (settings.compression === 'payload') hideFromImport(['zlib-sync']);

// The library announces its fallback to payload compression by console.warn; this mode needs that fallback.
console.warn = (text) => {
  if (settings.compression === 'payload' && /falling back to identify compress/.test(text)) return;
  problem('console.warn', text);
};

const {
  ApplicationCommandOptionType: Option,
  ButtonStyle,
  Client,
  ComponentType,
  Events,
  GatewayDispatchEvents,
  GatewayIntentBits,
  MessageFlags,
  TextInputStyle,
  version,
} = require('discord.js');

const known = new Set(Object.values(GatewayDispatchEvents));
const intents = Object.values(GatewayIntentBits).filter((bit) => typeof bit === 'number');
const client = new Client({ intents, rest: { api: settings.api_base } });

emit('start', { library: 'discord.js', version, files: true, interactions: true, community: true });

client.on(Events.Raw, (packet) => {
  emit('dispatch', { s: packet.s, t: packet.t });
  if (packet.t === 'READY') emit('ready', { user_id: packet.d.user.id, guilds: packet.d.guilds.length });
  if (packet.t === 'RESUMED') emit('resumed');
  if (!known.has(packet.t)) problem('unknown event', packet.t);
});
client.once(Events.ClientReady, () => {
  for (const guild of client.guilds.cache.values()) {
    emit('guild', {
      id: guild.id,
      name: guild.name,
      member_count: guild.memberCount,
      channels: guild.channels.cache.size,
      roles: guild.roles.cache.size,
      own_member: guild.members.me?.id === client.user.id,
    });
  }
  emit('settled');
});
client.on(Events.MessageCreate, (message) => {
  emit('message', {
    id: message.id,
    channel_id: message.channelId,
    author_id: message.author.id,
    content: message.content,
  });
});
client.on(Events.MessageUpdate, (_old, message) => emit('edit', { id: message.id, content: message.content }));
client.on(Events.MessageDelete, (message) => emit('delete', { id: message.id }));
client.on(Events.MessageReactionAdd, (reaction, user) => {
  emit('reaction', { message_id: reaction.message.id, user_id: user.id, emoji: reaction.emoji.name });
});
client.on(Events.TypingStart, (typing) => {
  emit('typing', { channel_id: typing.channel.id, user_id: typing.user.id });
});
client.on(Events.ShardResume, (_id, replayed) => emit('replayed', { count: replayed }));
client.on(Events.ShardError, (error) => problem('shard error', error));
client.on(Events.ShardDisconnect, (event) => problem('shard gave up', event.code));
client.on(Events.Error, (error) => problem('error', error));
client.on(Events.Warn, (text) => problem('warn', text));
client.on(Events.Debug, (text) => {
  process.stderr.write(`${text}\n`);
  if (/unable to decompress|timed out|Unhandled|Zombie|Invalid session/i.test(text)) problem('debug', text);
});

const text = { type: Option.String, name: 'text', description: 'A text', required: true };
const commands = [
  {
    name: 'say',
    description: 'Answers at once',
    options: [
      text,
      { type: Option.User, name: 'whom', description: 'A member', required: true },
      { type: Option.Integer, name: 'times', description: 'A number', minValue: 1, maxValue: 3 },
    ],
  },
  { name: 'later', description: 'Answers later', options: [text] },
  { name: 'hidden', description: 'Answers the caller alone' },
  {
    name: 'find',
    description: 'Completes a word',
    options: [{ type: Option.String, name: 'word', description: 'A word', required: true, autocomplete: true }],
  },
  { name: 'form', description: 'Opens a form' },
  { name: 'press', description: 'Shows a button' },
];

const answers = {
  async say(interaction) {
    const { options } = interaction;
    const content = `say: ${options.getString('text')} to ${options.getUser('whom').username}, ${options.getInteger('times')}`;
    const { resource } = await interaction.reply({ content, withResponse: true });
    if (resource.message.content !== content) problem('reply', resource.message.content);
  },
  async later(interaction) {
    await interaction.deferReply();
    const given = interaction.options.getString('text');
    await interaction.editReply(`later: ${given}`);
    await interaction.followUp(`and more: ${given}`);
  },
  async hidden(interaction) {
    await interaction.reply({ content: 'hidden', flags: MessageFlags.Ephemeral });
    await interaction.editReply('hidden, edited');
  },
  async find(interaction) {
    if (!interaction.isAutocomplete()) return interaction.reply(`found: ${interaction.options.getString('word')}`);
    const typed = interaction.options.getFocused();
    const choice = (name, number) => ({ name: `${typed} ${name}`, value: `${typed}-${number}` });
    return interaction.respond([choice('one', 1), choice('two', 2)]);
  },
  async form(interaction) {
    if (interaction.isModalSubmit()) return interaction.reply(`form: ${interaction.fields.getTextInputValue('text')}`);
    const component = { type: ComponentType.TextInput, customId: 'text', style: TextInputStyle.Short };
    const components = [{ type: ComponentType.Label, label: 'A text', component }];
    return interaction.showModal({ customId: 'form', title: 'A form', components });
  },
  async press(interaction) {
    if (interaction.isButton()) return interaction.update({ content: `pressed by ${interaction.user.username}`, components: [] });
    const button = { type: ComponentType.Button, customId: 'press', label: 'Press', style: ButtonStyle.Primary };
    return interaction.reply({ content: 'press', components: [{ type: ComponentType.ActionRow, components: [button] }] });
  },
};

client.on(Events.InteractionCreate, (interaction) => {
  const name = interaction.commandName ?? interaction.customId;
  answers[name](interaction).catch((error) => problem(`interaction ${name}`, error));
});

listen({
  async register() {
    const registered = await client.application.commands.set(commands);
    emit('registered', { count: registered.size });
  },
  async send({ channel_id, content }) {
    const message = await client.channels.cache.get(channel_id).send(content);
    emit('sent', { id: message.id });
  },
  async file({ channel_id, name, size }) {
    const content = Buffer.from(Array.from({ length: size }, (_, n) => n % 256));
    const file = { attachment: content, name, description: 'from the client' };
    const message = await client.channels.cache.get(channel_id).send({ files: [file] });
    const attachment = message.attachments.first();
    // The link's host is the gateway's; the request has to pass the proxy, which judges every connection.
    const { pathname, search } = new URL(attachment.url);
    const link = new URL(pathname + search, settings.api_base);
    const read = Buffer.from(await (await fetch(link)).arrayBuffer());
    emit('file', {
      id: message.id,
      name: attachment.name,
      size: attachment.size,
      description: attachment.description,
      same: message.attachments.size === 1 && read.equals(content),
    });
  },
  async members({ guild_id }) {
    // `fetch` is content with the last chunk, and with payload compression that one may overtake others.
    const all = new Promise((resolve) => {
      const ids = new Set();
      let chunks = 0;
      client.on(Events.GuildMembersChunk, function onChunk(members, _guild, { count }) {
        for (const id of members.keys()) ids.add(id);
        chunks += 1;
        if (chunks < count) return;
        client.off(Events.GuildMembersChunk, onChunk);
        resolve(ids.size);
      });
    });
    await client.guilds.cache.get(guild_id).members.fetch();
    emit('members', { count: await all });
  },
  // Settings of the guild: widget, welcome screen, vanity URL, onboarding and template.
  async community({ guild_id, channel_id, code }) {
    const guild = client.guilds.cache.get(guild_id);
    const channel = guild.channels.cache.get(channel_id);
    await guild.setWidgetSettings({ enabled: true, channel });
    const widget = await guild.fetchWidget();
    const welcomeChannels = [{ channel, description: 'here', emoji: '👋' }];
    const screen = await guild.editWelcomeScreen({ enabled: true, description: 'hello', welcomeChannels });
    const vanity = await guild.fetchVanityData();
    const invite = await client.fetchInvite(code);
    const options = [{ title: 'yes', channels: [channel], emoji: '📰' }];
    const onboarding = await guild.editOnboarding({ prompts: [{ title: 'news?', options }], mode: 1 });
    const [prompt] = onboarding.prompts.values();
    for (const old of (await guild.fetchTemplates()).values()) await old.delete();
    await (await guild.createTemplate('ours', 'of a guild')).sync();
    const [{ code: made }] = (await guild.fetchTemplates()).values();
    const template = await client.fetchGuildTemplate(made);
    emit('community', {
      widget: widget.name,
      welcome: screen.welcomeChannels.first().description,
      vanity: vanity.code,
      invite: invite.guild.id,
      template: template.name,
      onboarding: prompt.options.first().title,
    });
  },
  async quit() {
    await client.destroy();
  },
});

client.login(settings.bot_token).catch((error) => {
  problem('login', error);
  process.exit(1);
});
