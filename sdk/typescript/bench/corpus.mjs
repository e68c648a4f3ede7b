/**
 * The messages of the benchmark, and what a gateway makes of them: frames for each encoding and compression.
 *
 * The bodies are made up from a seed and have the fields and the sizes of a node's GUILD_CREATE and MESSAGE_CREATE; ETF has
 * the layout of reference.md §2.2 (atoms as keys, ids as integers).
 */

import { execFileSync } from "node:child_process";
import zlib from "node:zlib";

export const COUNTS = { GUILD_CREATE: 2_450, MESSAGE_CREATE: 5_000 };

function random(seed) {
  let state = seed;
  return (max) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * max);
  };
}

const WORDS = "the of and a to in is you that it he was for on are as with his they I at be this have from or one had by word but not what all were we when your can said there use an each which she do how their if will up other about out many then them these so some her would make like him into time has look two more write go see number no way could people my than first water been call who oil its now find long down day did get come made may part café über naïve 日本 😀".split(" ");

export function bodies(seed = 1) {
  const pick = random(seed);
  const id = () => String(1_100_000_000_000_000_000n + BigInt(pick(2 ** 31)) * 65_536n + BigInt(pick(65_536)));
  const text = (max) => Array.from({ length: 1 + pick(max) }, () => WORDS[pick(WORDS.length)]).join(" ");
  const users = Array.from({ length: 2_000 }, (_, i) => ({
    id: id(), username: `${WORDS[pick(80)]}_${i}`, discriminator: "0", global_name: pick(3) ? text(2) : null,
    avatar: pick(2) ? pick(2 ** 31).toString(16).padStart(32, "0") : null, public_flags: 0, avatar_decoration_data: null,
  }));
  const member = (roles) => ({
    nick: pick(4) ? null : text(2), avatar: null, banner: null, roles: roles.slice(0, pick(4)), joined_at: "2024-01-17T16:57:15.951000+00:00",
    premium_since: null, deaf: false, mute: false, pending: false, flags: 0, communication_disabled_until: null,
  });
  const guild = () => {
    const guildId = id();
    const role = (position) => ({
      id: position ? id() : guildId, name: position ? text(2) : "@everyone", color: pick(2 ** 24),
      colors: { primary_color: pick(2 ** 24), secondary_color: null, tertiary_color: null }, hoist: pick(2) === 1, icon: null, unicode_emoji: null,
      position, permissions: String(2n ** 40n + BigInt(pick(2 ** 31))), managed: false, mentionable: false, flags: 0,
    });
    const roles = Array.from({ length: 7 }, (_, i) => role(i));
    const roleIds = roles.map((of) => of.id);
    const channels = Array.from({ length: 12 + pick(10) }, (_, position) => ({
      id: id(), guild_id: guildId, type: position % 5 ? 0 : 2, name: text(2).replaceAll(" ", "-"), position,
      permission_overwrites: pick(3) ? [] : [{ id: guildId, type: 0, allow: "0", deny: "1024" }], parent_id: pick(2) ? id() : null,
      topic: pick(2) ? text(12) : null, nsfw: false, flags: 0, last_message_id: id(), last_pin_timestamp: null, rate_limit_per_user: 0,
    }));
    const members = Array.from({ length: 8 + pick(20) }, () => ({ user: users[pick(users.length)], ...member(roleIds) }));
    return {
      id: guildId, name: text(3), icon: null, splash: null, discovery_splash: null, banner: null, description: null, owner_id: members[0].user.id,
      afk_channel_id: null, afk_timeout: 300, verification_level: 1, default_message_notifications: 0, explicit_content_filter: 0, mfa_level: 0,
      application_id: null, system_channel_id: channels[0].id, rules_channel_id: null, public_updates_channel_id: null,
      safety_alerts_channel_id: null, system_channel_flags: 0, max_members: 25_000_000, max_presences: null, max_video_channel_users: 25,
      vanity_url_code: null, premium_tier: 0, preferred_locale: "en-US", premium_progress_bar_enabled: false, nsfw_level: 0, nsfw: false,
      region: "deprecated", features: [], premium_subscription_count: 0, roles, emojis: [], stickers: [],
      joined_at: "2024-01-17T16:57:15.951000+00:00", large: false, unavailable: false, member_count: members.length, members, channels, threads: [],
      presences: members.slice(0, 5).map(({ user }) => ({ user: { id: user.id }, status: "online", activities: [], client_status: { web: "online" } })),
      voice_states: [], stage_instances: [], guild_scheduled_events: [], activity_instances: [], version: pick(2 ** 31), soundboard_sounds: [],
    };
  };
  const roleIds = Array.from({ length: 12 }, id);
  const places = Array.from({ length: 20 }, () => [id(), id()]);
  const message = () => {
    const [guild_id, channel_id] = places[pick(places.length)];
    return {
      id: id(), channel_id, author: users[pick(300)], content: text(24), timestamp: "2024-05-01T12:00:00.123000+00:00", edited_timestamp: null,
      tts: false, mention_everyone: false, mentions: pick(6) ? [] : [{ ...users[pick(300)], member: member(roleIds) }], mention_roles: [], attachments: [],
      embeds: [], components: [], nonce: id(), pinned: false, type: 0, flags: 0, guild_id, channel_type: 0, member: member(roleIds),
    };
  };
  return {
    GUILD_CREATE: Array.from({ length: COUNTS.GUILD_CREATE }, guild),
    MESSAGE_CREATE: Array.from({ length: COUNTS.MESSAGE_CREATE }, message),
  };
}

/** ETF as the gateway writes it. */
function etf(t, s, d) {
  const parts = [];
  const bytes = (...values) => parts.push(Buffer.from(values));
  const u32 = (n) => {
    const out = Buffer.alloc(4);
    out.writeUInt32BE(n >>> 0);
    return out;
  };
  const atom = (name) => parts.push(Buffer.from([100, 0, name.length]), Buffer.from(name));
  const term = (value) => {
    if (value === null) atom("nil");
    else if (typeof value === "boolean") atom(String(value));
    else if (typeof value === "number" && value >= 0 && value < 256) bytes(97, value);
    else if (typeof value === "number") {
      bytes(98);
      parts.push(u32(value));
    } else if (typeof value === "string" && /^1[0-9]{18}$/.test(value)) {
      const digits = [];
      for (let rest = BigInt(value); rest > 0n; rest >>= 8n) digits.push(Number(rest & 255n));
      bytes(110, digits.length, 0, ...digits);
    } else if (typeof value === "string") {
      const text = Buffer.from(value);
      bytes(109);
      parts.push(u32(text.length), text);
    } else if (Array.isArray(value)) {
      if (value.length > 0) {
        bytes(108);
        parts.push(u32(value.length));
        value.forEach(term);
      }
      bytes(106);
    } else {
      bytes(116);
      parts.push(u32(Object.keys(value).length));
      for (const [key, of] of Object.entries(value)) {
        atom(key);
        term(of);
      }
    }
  };
  bytes(131, 116, 0, 0, 0, 4);
  atom("d");
  term(d);
  atom("op");
  term(0);
  atom("s");
  term(s);
  atom("t");
  atom(t);
  return Buffer.concat(parts);
}

async function deflated(messages) {
  const deflate = zlib.createDeflate({ level: 6 });
  const frames = [];
  let parts = [];
  deflate.on("data", (part) => parts.push(part));
  for (const message of messages) {
    deflate.write(message);
    await new Promise((resolve) => deflate.flush(zlib.constants.Z_SYNC_FLUSH, resolve));
    frames.push(Buffer.concat(parts));
    parts = [];
  }
  return frames;
}

/** Python has a compressor that flushes; Node has one from 22.15. */
const ZSTD = `
import sys, struct, zstandard
data = sys.stdin.buffer.read()
p = zstandard.ZstdCompressionParameters.from_level(6, window_log=18, hash_log=16, chain_log=16, write_content_size=False)
c = zstandard.ZstdCompressor(compression_params=p).compressobj()
at = 0
while at < len(data):
    (n,) = struct.unpack_from(">I", data, at)
    out = c.compress(data[at + 4:at + 4 + n]) + c.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    sys.stdout.buffer.write(struct.pack(">I", len(out)) + out)
    at += 4 + n
`;

function framed(messages) {
  return Buffer.concat(messages.flatMap((message) => {
    const size = Buffer.alloc(4);
    size.writeUInt32BE(message.length);
    return [size, message];
  }));
}

export function unframed(data) {
  const messages = [];
  for (let at = 0; at < data.length; ) {
    const size = data.readUInt32BE(at);
    // Each frame has memory of its own, as from a socket.
    messages.push(Buffer.from(Uint8Array.from(data.subarray(at + 4, at + 4 + size)).buffer));
    at += 4 + size;
  }
  return messages;
}

/** Frames of one event in one mode, as one buffer of lengths and bytes. */
export async function frames(event, all, encoding, compression, python) {
  const messages = all[event].map((d, i) => (encoding === "etf" ? etf(event, i + 1, d) : Buffer.from(JSON.stringify({ t: event, s: i + 1, op: 0, d }))));
  if (compression === "zlib-stream") return framed(await deflated(messages));
  if (compression === "zstd-stream") return execFileSync(python, ["-c", ZSTD], { input: framed(messages), maxBuffer: 2 ** 30 });
  return framed(messages);
}
