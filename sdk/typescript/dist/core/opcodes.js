/**
 * Opcodes and capabilities that the client itself uses, as constants that bundlers inline: the tables of `generated/codes.ts`
 * are for applications, and a bundle has them only if it uses them.
 */
export const DISPATCH = 0;
export const HEARTBEAT = 1;
export const IDENTIFY = 2;
export const PRESENCE_UPDATE = 3;
export const VOICE_STATE_UPDATE = 4;
export const RESUME = 6;
export const RECONNECT = 7;
export const REQUEST_GUILD_MEMBERS = 8;
export const INVALID_SESSION = 9;
export const HELLO = 10;
export const HEARTBEAT_ACK = 11;
export const GUILD_SUBSCRIPTIONS_BULK = 37;
export const LAZY_USER_NOTES = 1;
export const DEDUPE_USER_OBJECTS = 16;
export const PASSIVE_GUILD_UPDATE_V2 = 16384;
