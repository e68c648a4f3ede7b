// Permissions of this account in a channel, as the protocol computes them. They decide which buttons are shown; the node checks again.

import type { Channel, Id, Role } from "./types.ts";

export const CREATE_INVITES = 1n << 0n, ADMINISTRATOR = 1n << 3n, MANAGE_CHANNELS = 1n << 4n, ADD_REACTIONS = 1n << 6n, VIEW_CHANNEL = 1n << 10n, SEND_MESSAGES = 1n << 11n, MANAGE_MESSAGES = 1n << 13n,
  ATTACH_FILES = 1n << 15n, CREATE_PUBLIC_THREADS = 1n << 35n, SEND_IN_THREADS = 1n << 38n, PIN_MESSAGES = 1n << 51n;
const ALL = (1n << 64n) - 1n;

interface Standing { guildId: Id; ownerId: Id; userId: Id; memberRoles: Id[]; roles: Map<Id, Role> }

/** In the guild as a whole. */
export function permissionsInGuild({ guildId, ownerId, userId, memberRoles, roles }: Standing): bigint {
  if (ownerId === userId) return ALL;
  let granted = BigInt(roles.get(guildId)?.permissions ?? 0);
  for (const id of memberRoles) granted |= BigInt(roles.get(id)?.permissions ?? 0);
  return granted & ADMINISTRATOR ? ALL : granted;
}

export function permissionsIn(standing: Standing, channel: Channel): bigint {
  const { guildId, userId, memberRoles } = standing;
  let granted = permissionsInGuild(standing);
  if (granted === ALL) return ALL;
  const overwrites = channel.permission_overwrites ?? [];
  const apply = (allow: bigint, deny: bigint): void => { granted = (granted & ~deny) | allow; };
  const everyone = overwrites.find((o) => o.id === guildId);
  if (everyone) apply(BigInt(everyone.allow), BigInt(everyone.deny));
  let allow = 0n, deny = 0n;
  for (const o of overwrites) if (o.type === 0 && memberRoles.includes(o.id)) { allow |= BigInt(o.allow); deny |= BigInt(o.deny); }
  apply(allow, deny);
  const own = overwrites.find((o) => o.type === 1 && o.id === userId);
  if (own) apply(BigInt(own.allow), BigInt(own.deny));
  return granted & VIEW_CHANNEL ? granted : 0n;
}
