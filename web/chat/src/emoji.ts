// Emoji: their names, short names, and the search for them. Those of a guild come first.

import { TABLE } from "./emojitable.ts";
import type { Emoji } from "./types.ts";

export interface Found extends Emoji {
  /** As it is written between colons. */
  short: string;
}

/** Short names that people know from elsewhere; the others are Unicode's names with underscores. */
const ALIASES: Readonly<Record<string, string>> = Object.fromEntries((
  "+1 👍|thumbsup 👍|-1 👎|thumbsdown 👎|heart ❤️|joy 😂|rofl 🤣|smile 😄|grin 😁|laughing 😆|sweat_smile 😅|wink 😉|blush 😊|yum 😋|sunglasses 😎|heart_eyes 😍|"
  + "kiss 😘|slight_smile 🙂|upside_down 🙃|thinking 🤔|neutral 😐|smirk 😏|unamused 😒|rolling_eyes 🙄|grimacing 😬|relieved 😌|sleeping 😴|mask 😷|sick 🤢|dizzy 😵|"
  + "exploding_head 🤯|mind_blown 🤯|cowboy 🤠|party 🥳|nerd 🤓|confused 😕|worried 😟|frown 🙁|open_mouth 😮|flushed 😳|pleading 🥺|cry 😢|sob 😭|scream 😱|angry 😠|"
  + "rage 😡|triumph 😤|skull 💀|poop 💩|clown 🤡|ghost 👻|alien 👽|robot 🤖|facepalm 🤦|shrug 🤷|wave 👋|ok_hand 👌|pinch 🤏|v ✌️|fingers_crossed 🤞|metal 🤘|"
  + "call_me 🤙|point_left 👈|point_right 👉|point_up 👆|point_down 👇|fist ✊|punch 👊|clap 👏|raised_hands 🙌|handshake 🤝|pray 🙏|thanks 🙏|muscle 💪|eyes 👀|eye 👁️|"
  + "brain 🧠|baby 👶|tada 🎉|hooray 🎉|confetti 🎊|balloon 🎈|gift 🎁|trophy 🏆|medal 🏅|fire 🔥|lit 🔥|sparkles ✨|star ⭐|zap ⚡|boom 💥|sweat_drops 💦|dash 💨|"
  + "100 💯|hundred 💯|check ✅|white_check_mark ✅|x ❌|cross ❌|warning ⚠️|no_entry ⛔|question ❓|exclamation ❗|bulb 💡|idea 💡|rocket 🚀|bug 🐛|lock 🔒|unlock 🔓|"
  + "key 🔑|mag 🔍|search 🔍|link 🔗|pushpin 📌|pin 📌|memo 📝|pencil ✏️|calendar 📅|clock 🕐|hourglass ⌛|bell 🔔|no_bell 🔕|mega 📣|email 📧|phone 📱|computer 💻|"
  + "keyboard ⌨️|camera 📷|movie 🎬|music 🎵|notes 🎶|headphones 🎧|mic 🎤|guitar 🎸|game 🎮|dice 🎲|dart 🎯|soccer ⚽|basketball 🏀|coffee ☕|tea 🍵|beer 🍺|beers 🍻|"
  + "wine 🍷|cocktail 🍸|champagne 🍾|pizza 🍕|burger 🍔|fries 🍟|taco 🌮|sushi 🍣|cake 🍰|birthday 🎂|cookie 🍪|apple 🍎|avocado 🥑|popcorn 🍿|dog 🐶|cat 🐱|"
  + "fox 🦊|bear 🐻|panda 🐼|unicorn 🦄|bee 🐝|butterfly 🦋|turtle 🐢|snake 🐍|octopus 🐙|fish 🐟|whale 🐳|dragon 🐉|rose 🌹|sunflower 🌻|tree 🌳|seedling 🌱|cactus 🌵|"
  + "sun ☀️|moon 🌙|rainbow 🌈|cloud ☁️|rain 🌧️|snowflake ❄️|snowman ⛄|umbrella ☔|earth 🌍|house 🏠|car 🚗|bus 🚌|train 🚆|bike 🚲|airplane ✈️|ship 🚢|anchor ⚓|"
  + "construction 🚧|broken_heart 💔|two_hearts 💕|sparkling_heart 💖|orange_heart 🧡|yellow_heart 💛|green_heart 💚|blue_heart 💙|purple_heart 💜|black_heart 🖤|"
  + "white_heart 🤍|zzz 💤|speech_balloon 💬|thought 💭|crown 👑|gem 💎|money 💰|moneybag 💰|chart 📈|package 📦|hammer 🔨|wrench 🔧|gear ⚙️|magnet 🧲|crystal_ball 🔮"
).split("|").map((pair) => pair.split(" ") as [string, string]));

const nameOf = new Map<string, string>();
/** Groups as the picker shows them. */
export const GROUPS: readonly { title: string; emoji: readonly string[] }[] = TABLE.map(([title, rows]) => ({
  title,
  emoji: rows.split("|").map((row) => {
    const at = row.indexOf(" "), emoji = row.slice(0, at);
    nameOf.set(emoji, row.slice(at + 1));
    return emoji;
  }),
}));

const slug = (name: string): string => name.toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_|_$/g, "");
const shortOf = new Map<string, string>();
for (const [short, emoji] of Object.entries(ALIASES)) if (!shortOf.has(emoji)) shortOf.set(emoji, short);
const ofShort = new Map<string, string>([...[...nameOf].map(([emoji, name]) => [slug(name), emoji] as const), ...Object.entries(ALIASES)]);

/** What an emoji is called: its name, or the emoji itself. */
export const emojiName = (emoji: string): string => nameOf.get(emoji) ?? emoji;
const found = (emoji: string): Found => ({ id: null, name: emoji, short: shortOf.get(emoji) ?? slug(nameOf.get(emoji) ?? "") });
/** The emoji that is written `:short:`. */
export const emojiOf = (short: string): string | undefined => ofShort.get(short.toLowerCase());

/** Those whose short name or a word of whose name begins with the query; the best match first. */
export function findEmoji(query: string, own: readonly Emoji[], max: number): Found[] {
  const wanted = query.toLowerCase().replace(/[\s_]+/g, " ").trim();
  if (!wanted) return [];
  const ranked: [rank: number, found: Found][] = [];
  const rank = (text: string): number => (text === wanted ? 0 : text.startsWith(wanted) ? 1 : text.includes(` ${wanted}`) ? 2 : 9);
  for (const emoji of own) {
    const name = emoji.name.toLowerCase().replaceAll("_", " "), at = name.includes(wanted) ? Math.min(rank(name), 2) : 9;
    if (at < 9) ranked.push([at - 0.5, { ...emoji, short: emoji.name }]);
  }
  const seen = new Map<string, number>();
  const see = (emoji: string, at: number): void => { if (at < (seen.get(emoji) ?? 9)) seen.set(emoji, at); };
  for (const [short, emoji] of Object.entries(ALIASES)) see(emoji, rank(short.replaceAll("_", " ")));
  for (const [emoji, name] of nameOf) see(emoji, rank(name.toLowerCase()) + 0.2);
  for (const [emoji, at] of seen) ranked.push([at, found(emoji)]);
  return ranked.sort(([a], [b]) => a - b).slice(0, max).map(([, each]) => each);
}
