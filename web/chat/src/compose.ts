// Written text and message content: `@ana`, `#general` and `:wave:` in a text box are `<@1>`, `<#2>` and an emoji in a message.
// Text in backticks stays as it is.

import { emojiOf } from "./emoji.ts";
import type { Id } from "./types.ts";
import * as world from "./world.ts";

/** What was chosen from a list, as it is written, and what it means. */
export type Chosen = Map<string, string>;

const CODE = /(```[\s\S]*?```|``[^`]*``|`[^`\n]*`)/;
const outsideCode = (text: string, change: (part: string) => string): string => text.split(CODE).map((part, at) => (at % 2 ? part : change(part))).join("");
const quoted = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** Channels by name, as the side bar has them; of two with one name the first. */
function channelsOf(guild: world.Guild): Map<string, Id> {
  const ids = new Map<string, Id>();
  for (const channel of world.openable(guild)) if (channel.name && !ids.has(channel.name.toLowerCase())) ids.set(channel.name.toLowerCase(), channel.id);
  return ids;
}

/** Content to send. */
export function encode(text: string, guild: world.Guild | undefined, chosen: Chosen): string {
  const tokens = [...chosen.keys()].sort((a, b) => b.length - a.length);
  const pattern = tokens.length > 0 ? new RegExp(`(?<![\\p{L}\\p{N}])(?:${tokens.map(quoted).join("|")})(?![\\p{L}\\p{N}_])`, "gu") : null;
  const channels = guild && text.includes("#") ? channelsOf(guild) : null;
  return outsideCode(text, (part) => {
    let out = pattern ? part.replace(pattern, (token) => chosen.get(token)!) : part;
    if (channels) out = out.replace(/(?<![^\s(])#([\p{L}\p{N}_-]+)/gu, (whole, name: string) => { const id = channels.get(name.toLowerCase()); return id ? `<#${id}>` : whole; });
    return out.replace(/(?<![\p{L}\p{N}_:<]):([\w+-]{1,32}):/gu, (whole, short: string) => {
      const own = guild?.emojis.find((emoji) => emoji.name === short);
      return own ? `<${own.animated ? "a" : ""}:${own.name}:${own.id}>` : (emojiOf(short) ?? whole);
    });
  });
}

/** Content as it is written, and in `chosen` what it means: `encode` makes the same content of it. */
export function decode(content: string, guild: world.Guild | undefined, chosen: Chosen): string {
  const write = (token: string, means: string): string => {
    if ((chosen.get(token) ?? means) !== means) return means;
    chosen.set(token, means);
    return token;
  };
  return outsideCode(content, (part) => part
    .replace(/<@!?(\d{1,20})>/g, (whole, id: Id) => { const user = guild?.members.get(id)?.user ?? world.userOf(id); return user ? write(`@${user.username}`, `<@${id}>`) : whole; })
    .replace(/<#(\d{1,20})>/g, (whole, id: Id) => { const channel = world.channelOf(id); return channel?.name ? write(`#${channel.name}`, `<#${id}>`) : whole; }));
}
