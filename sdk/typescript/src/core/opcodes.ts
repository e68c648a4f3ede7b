/**
 * Opcodes and capabilities that the client itself uses, as constants that bundlers inline: the tables of `generated/codes.ts`
 * are for applications, and a bundle has them only if it uses them.
 */

import type { Capabilities, Opcode } from "../generated/codes.js";

export const DISPATCH: typeof Opcode.DISPATCH = 0;
export const HEARTBEAT: typeof Opcode.HEARTBEAT = 1;
export const IDENTIFY: typeof Opcode.IDENTIFY = 2;
export const PRESENCE_UPDATE: typeof Opcode.PRESENCE_UPDATE = 3;
export const VOICE_STATE_UPDATE: typeof Opcode.VOICE_STATE_UPDATE = 4;
export const RESUME: typeof Opcode.RESUME = 6;
export const RECONNECT: typeof Opcode.RECONNECT = 7;
export const REQUEST_GUILD_MEMBERS: typeof Opcode.REQUEST_GUILD_MEMBERS = 8;
export const INVALID_SESSION: typeof Opcode.INVALID_SESSION = 9;
export const HELLO: typeof Opcode.HELLO = 10;
export const HEARTBEAT_ACK: typeof Opcode.HEARTBEAT_ACK = 11;
export const GUILD_SUBSCRIPTIONS_BULK: typeof Opcode.GUILD_SUBSCRIPTIONS_BULK = 37;

export const LAZY_USER_NOTES: typeof Capabilities.LAZY_USER_NOTES = 1;
export const DEDUPE_USER_OBJECTS: typeof Capabilities.DEDUPE_USER_OBJECTS = 16;
export const PASSIVE_GUILD_UPDATE_V2: typeof Capabilities.PASSIVE_GUILD_UPDATE_V2 = 16384;
