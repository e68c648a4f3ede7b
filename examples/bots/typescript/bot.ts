// A bot with commands and a button, by discord.js. See ../../README.md.
//
//   npm ci && npx tsc && TOKEN='…' node bot.js
import {
  ActionRowBuilder,
  ButtonBuilder,
  ButtonStyle,
  Client,
  Events,
  GatewayIntentBits,
  type Interaction,
  MessageFlags,
  SlashCommandBuilder,
  type User,
} from 'discord.js';

const { TOKEN, API = 'http://127.0.0.1:8080/api' } = process.env;

const roll = new SlashCommandBuilder()
  .setName('roll')
  .setDescription('Rolls a die')
  .addIntegerOption((option) =>
    option.setName('sides').setDescription('Sides of the die, 6 by default').setMinValue(2).setMaxValue(100),
  );
const about = new SlashCommandBuilder().setName('about').setDescription('Describes this bot to you alone');

/** A message with a new roll, and a button for the next one. The button's id holds all that its press needs. */
function rolled(user: User, sides: number) {
  const again = new ButtonBuilder().setCustomId(`roll:${sides}`).setLabel('Again').setStyle(ButtonStyle.Primary);
  return {
    content: `${user.username} rolled ${1 + Math.floor(Math.random() * sides)} of ${sides}`,
    components: [new ActionRowBuilder<ButtonBuilder>().addComponents(again)],
  };
}

async function answer(interaction: Interaction) {
  if (interaction.isChatInputCommand()) {
    switch (interaction.commandName) {
      case 'roll':
        await interaction.reply(rolled(interaction.user, interaction.options.getInteger('sides') ?? 6));
        break;
      case 'about':
        await interaction.reply({ content: 'This bot rolls dice.', flags: MessageFlags.Ephemeral });
        break;
    }
  } else if (interaction.isButton() && interaction.customId.startsWith('roll:')) {
    await interaction.update(rolled(interaction.user, Number(interaction.customId.slice('roll:'.length))));
  }
}

// Interactions need no intent.
const client = new Client({ intents: [GatewayIntentBits.Guilds], rest: { api: API } });

client.once(Events.ClientReady, async (ready) => {
  await ready.application.commands.set([roll, about]);
  console.log('ready');
});
client.on(Events.InteractionCreate, (interaction) => {
  answer(interaction).catch((error) => console.error('an interaction has failed:', error));
});
client.on(Events.Error, (error) => console.error(error));

await client.login(TOKEN);
