/**
 * Opcodes and capabilities that the client itself uses, as constants that bundlers inline: the tables of `generated/codes.ts`
 * are for applications, and a bundle has them only if it uses them.
 */
import type { Capabilities, Opcode } from "../generated/codes.js";
export declare const DISPATCH: typeof Opcode.DISPATCH;
export declare const HEARTBEAT: typeof Opcode.HEARTBEAT;
export declare const IDENTIFY: typeof Opcode.IDENTIFY;
export declare const PRESENCE_UPDATE: typeof Opcode.PRESENCE_UPDATE;
export declare const VOICE_STATE_UPDATE: typeof Opcode.VOICE_STATE_UPDATE;
export declare const RESUME: typeof Opcode.RESUME;
export declare const RECONNECT: typeof Opcode.RECONNECT;
export declare const REQUEST_GUILD_MEMBERS: typeof Opcode.REQUEST_GUILD_MEMBERS;
export declare const INVALID_SESSION: typeof Opcode.INVALID_SESSION;
export declare const HELLO: typeof Opcode.HELLO;
export declare const HEARTBEAT_ACK: typeof Opcode.HEARTBEAT_ACK;
export declare const GUILD_SUBSCRIPTIONS_BULK: typeof Opcode.GUILD_SUBSCRIPTIONS_BULK;
export declare const LAZY_USER_NOTES: typeof Capabilities.LAZY_USER_NOTES;
export declare const DEDUPE_USER_OBJECTS: typeof Capabilities.DEDUPE_USER_OBJECTS;
export declare const PASSIVE_GUILD_UPDATE_V2: typeof Capabilities.PASSIVE_GUILD_UPDATE_V2;
