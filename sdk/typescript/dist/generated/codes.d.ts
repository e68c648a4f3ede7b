/** Event groups that a session subscribes to. */
export declare const Intents: {
    readonly GUILDS: 1;
    readonly GUILD_MEMBERS: 2;
    readonly GUILD_MODERATION: 4;
    readonly GUILD_EXPRESSIONS: 8;
    readonly GUILD_INTEGRATIONS: 16;
    readonly GUILD_WEBHOOKS: 32;
    readonly GUILD_INVITES: 64;
    readonly GUILD_VOICE_STATES: 128;
    readonly GUILD_PRESENCES: 256;
    readonly GUILD_MESSAGES: 512;
    readonly GUILD_MESSAGE_REACTIONS: 1024;
    readonly GUILD_MESSAGE_TYPING: 2048;
    readonly DIRECT_MESSAGES: 4096;
    readonly DIRECT_MESSAGE_REACTIONS: 8192;
    readonly DIRECT_MESSAGE_TYPING: 16384;
    readonly MESSAGE_CONTENT: 32768;
    readonly GUILD_SCHEDULED_EVENTS: 65536;
    readonly GUILD_EMBEDDED_ACTIVITIES: 131072;
    readonly PRIVATE_CHANNELS: 262144;
    readonly CALLS: 524288;
    readonly AUTO_MODERATION_CONFIGURATION: 1048576;
    readonly AUTO_MODERATION_EXECUTION: 2097152;
    readonly USER_RELATIONSHIPS: 4194304;
    readonly USER_PRESENCE: 8388608;
    readonly GUILD_MESSAGE_POLLS: 16777216;
    readonly DIRECT_MESSAGE_POLLS: 33554432;
    readonly DIRECT_EMBEDDED_ACTIVITIES: 67108864;
    readonly LOBBIES: 134217728;
    readonly LOBBY_DELETE: 268435456;
    readonly ALL: 536870911;
    readonly PRIVILEGED: 33026;
    readonly USER_ONLY: 13369344;
};
/** Protocol features of a user client. */
export declare const Capabilities: {
    readonly LAZY_USER_NOTES: 1;
    readonly NO_AFFINE_USER_IDS: 2;
    readonly VERSIONED_READ_STATES: 4;
    readonly VERSIONED_USER_GUILD_SETTINGS: 8;
    readonly DEDUPE_USER_OBJECTS: 16;
    readonly PRIORITIZED_READY_PAYLOAD: 32;
    readonly MULTIPLE_GUILD_EXPERIMENT_POPULATIONS: 64;
    readonly NON_CHANNEL_READ_STATES: 128;
    readonly AUTH_TOKEN_REFRESH: 256;
    readonly USER_SETTINGS_PROTO: 512;
    readonly CLIENT_STATE_V2: 1024;
    readonly PASSIVE_GUILD_UPDATE: 2048;
    readonly AUTO_CALL_CONNECT: 4096;
    readonly DEBOUNCE_MESSAGE_REACTIONS: 8192;
    readonly PASSIVE_GUILD_UPDATE_V2: 16384;
    readonly CHANNEL_OBFUSCATION: 32768;
    readonly AUTO_LOBBY_CONNECT: 65536;
};
/** Permissions in a guild or channel. On the wire a set is a decimal string. */
export declare const Permissions: {
    readonly CREATE_INSTANT_INVITE: 1n;
    readonly KICK_MEMBERS: 2n;
    readonly BAN_MEMBERS: 4n;
    readonly ADMINISTRATOR: 8n;
    readonly MANAGE_CHANNELS: 16n;
    readonly MANAGE_GUILD: 32n;
    readonly ADD_REACTIONS: 64n;
    readonly VIEW_AUDIT_LOG: 128n;
    readonly PRIORITY_SPEAKER: 256n;
    readonly STREAM: 512n;
    readonly VIEW_CHANNEL: 1024n;
    readonly SEND_MESSAGES: 2048n;
    readonly SEND_TTS_MESSAGES: 4096n;
    readonly MANAGE_MESSAGES: 8192n;
    readonly EMBED_LINKS: 16384n;
    readonly ATTACH_FILES: 32768n;
    readonly READ_MESSAGE_HISTORY: 65536n;
    readonly MENTION_EVERYONE: 131072n;
    readonly USE_EXTERNAL_EMOJIS: 262144n;
    readonly CONNECT: 1048576n;
    readonly SPEAK: 2097152n;
    readonly MUTE_MEMBERS: 4194304n;
    readonly DEAFEN_MEMBERS: 8388608n;
    readonly MOVE_MEMBERS: 16777216n;
    readonly USE_VAD: 33554432n;
    readonly CHANGE_NICKNAME: 67108864n;
    readonly MANAGE_NICKNAMES: 134217728n;
    readonly MANAGE_ROLES: 268435456n;
    readonly MANAGE_WEBHOOKS: 536870912n;
    readonly MANAGE_GUILD_EXPRESSIONS: 1073741824n;
    readonly USE_APPLICATION_COMMANDS: 2147483648n;
    readonly REQUEST_TO_SPEAK: 4294967296n;
    readonly MANAGE_EVENTS: 8589934592n;
    readonly MANAGE_THREADS: 17179869184n;
    readonly CREATE_PUBLIC_THREADS: 34359738368n;
    readonly CREATE_PRIVATE_THREADS: 68719476736n;
    readonly SEND_MESSAGES_IN_THREADS: 274877906944n;
    readonly MODERATE_MEMBERS: 1099511627776n;
    readonly CREATE_GUILD_EXPRESSIONS: 8796093022208n;
    readonly CREATE_EVENTS: 17592186044416n;
    readonly SEND_POLLS: 562949953421312n;
    readonly PIN_MESSAGES: 2251799813685248n;
    readonly BYPASS_SLOWMODE: 4503599627370496n;
};
/** Types of channels. */
export declare const ChannelType: {
    readonly TEXT: 0;
    readonly DM: 1;
    readonly VOICE: 2;
    readonly GROUP_DM: 3;
    readonly CATEGORY: 4;
    readonly ANNOUNCEMENT: 5;
    readonly ANNOUNCEMENT_THREAD: 10;
    readonly PUBLIC_THREAD: 11;
    readonly PRIVATE_THREAD: 12;
    readonly STAGE: 13;
    readonly DIRECTORY: 14;
    readonly FORUM: 15;
    readonly MEDIA: 16;
};
/** Actions of the audit log. */
export declare const AuditAction: {
    readonly GUILD_UPDATE: 1;
    readonly CHANNEL_CREATE: 10;
    readonly CHANNEL_UPDATE: 11;
    readonly CHANNEL_DELETE: 12;
    readonly CHANNEL_OVERWRITE_CREATE: 13;
    readonly CHANNEL_OVERWRITE_UPDATE: 14;
    readonly CHANNEL_OVERWRITE_DELETE: 15;
    readonly MEMBER_KICK: 20;
    readonly MEMBER_PRUNE: 21;
    readonly MEMBER_BAN_ADD: 22;
    readonly MEMBER_BAN_REMOVE: 23;
    readonly MEMBER_UPDATE: 24;
    readonly MEMBER_ROLE_UPDATE: 25;
    readonly MEMBER_MOVE: 26;
    readonly MEMBER_DISCONNECT: 27;
    readonly BOT_ADD: 28;
    readonly ROLE_CREATE: 30;
    readonly ROLE_UPDATE: 31;
    readonly ROLE_DELETE: 32;
    readonly INVITE_CREATE: 40;
    readonly INVITE_DELETE: 42;
    readonly WEBHOOK_CREATE: 50;
    readonly WEBHOOK_UPDATE: 51;
    readonly WEBHOOK_DELETE: 52;
    readonly EMOJI_CREATE: 60;
    readonly EMOJI_UPDATE: 61;
    readonly EMOJI_DELETE: 62;
    readonly MESSAGE_DELETE: 72;
    readonly MESSAGE_BULK_DELETE: 73;
    readonly MESSAGE_PIN: 74;
    readonly MESSAGE_UNPIN: 75;
    readonly STAGE_INSTANCE_CREATE: 83;
    readonly STAGE_INSTANCE_UPDATE: 84;
    readonly STAGE_INSTANCE_DELETE: 85;
    readonly STICKER_CREATE: 90;
    readonly STICKER_UPDATE: 91;
    readonly STICKER_DELETE: 92;
    readonly SCHEDULED_EVENT_CREATE: 100;
    readonly SCHEDULED_EVENT_UPDATE: 101;
    readonly SCHEDULED_EVENT_DELETE: 102;
    readonly THREAD_CREATE: 110;
    readonly THREAD_UPDATE: 111;
    readonly THREAD_DELETE: 112;
};
/** Types of payloads. */
export declare const Opcode: {
    readonly DISPATCH: 0;
    readonly HEARTBEAT: 1;
    readonly IDENTIFY: 2;
    readonly PRESENCE_UPDATE: 3;
    readonly VOICE_STATE_UPDATE: 4;
    readonly RESUME: 6;
    readonly RECONNECT: 7;
    readonly REQUEST_GUILD_MEMBERS: 8;
    readonly INVALID_SESSION: 9;
    readonly HELLO: 10;
    readonly HEARTBEAT_ACK: 11;
    readonly GUILD_SUBSCRIPTION: 14;
    readonly GET_DELETED_ENTITY_IDS: 30;
    readonly REQUEST_SOUNDBOARD_SOUNDS: 31;
    readonly REQUEST_LAST_MESSAGES: 34;
    readonly SEARCH_RECENT_MEMBERS: 35;
    readonly REQUEST_CHANNEL_STATUSES: 36;
    readonly GUILD_SUBSCRIPTIONS_BULK: 37;
    readonly GUILD_CHANNELS_RESYNC: 38;
    readonly REQUEST_CHANNEL_MEMBER_COUNT: 39;
    readonly QOS_HEARTBEAT: 40;
    readonly TIME_SPENT_SESSION: 41;
    readonly REQUEST_CHANNEL_INFO: 43;
};
/** Close codes of the gateway. `keepsSession`: the session can be resumed. */
export declare const CloseCode: {
    readonly UNKNOWN_ERROR: {
        readonly code: 4000;
        readonly reason: "Unknown error, reconnect and resume";
        readonly keepsSession: true;
    };
    readonly UNKNOWN_OPCODE: {
        readonly code: 4001;
        readonly reason: "Unknown opcode or invalid payload for it";
        readonly keepsSession: true;
    };
    readonly DECODE_ERROR: {
        readonly code: 4002;
        readonly reason: "Error while decoding payload";
        readonly keepsSession: true;
    };
    readonly NOT_AUTHENTICATED: {
        readonly code: 4003;
        readonly reason: "Not authenticated";
        readonly keepsSession: true;
    };
    readonly AUTHENTICATION_FAILED: {
        readonly code: 4004;
        readonly reason: "Authentication failed";
        readonly keepsSession: false;
    };
    readonly ALREADY_AUTHENTICATED: {
        readonly code: 4005;
        readonly reason: "Already authenticated";
        readonly keepsSession: true;
    };
    readonly RATE_LIMITED: {
        readonly code: 4008;
        readonly reason: "Rate limited";
        readonly keepsSession: true;
    };
    readonly SESSION_TIMED_OUT: {
        readonly code: 4009;
        readonly reason: "Session timed out";
        readonly keepsSession: false;
    };
    readonly INVALID_SHARD: {
        readonly code: 4010;
        readonly reason: "Invalid shard";
        readonly keepsSession: false;
    };
    readonly SHARDING_REQUIRED: {
        readonly code: 4011;
        readonly reason: "Sharding required";
        readonly keepsSession: false;
    };
    readonly INVALID_API_VERSION: {
        readonly code: 4012;
        readonly reason: "Invalid API version";
        readonly keepsSession: false;
    };
    readonly INVALID_INTENTS: {
        readonly code: 4013;
        readonly reason: "Invalid intent(s)";
        readonly keepsSession: false;
    };
    readonly DISALLOWED_INTENTS: {
        readonly code: 4014;
        readonly reason: "Disallowed intent(s)";
        readonly keepsSession: false;
    };
    readonly TOO_MANY_SESSIONS: {
        readonly code: 4015;
        readonly reason: "Too many sessions";
        readonly keepsSession: false;
    };
};
/** Names of the events that the gateway sends. */
export declare const EVENT_NAMES: readonly ["READY", "READY_SUPPLEMENTAL", "RESUMED", "RATE_LIMITED", "GUILD_CREATE", "GUILD_UPDATE", "GUILD_DELETE", "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE", "GUILD_ROLE_DELETE", "GUILD_BAN_ADD", "GUILD_BAN_REMOVE", "GUILD_AUDIT_LOG_ENTRY_CREATE", "GUILD_EMOJIS_UPDATE", "GUILD_STICKERS_UPDATE", "INVITE_CREATE", "INVITE_DELETE", "WEBHOOKS_UPDATE", "GUILD_SCHEDULED_EVENT_CREATE", "GUILD_SCHEDULED_EVENT_UPDATE", "GUILD_SCHEDULED_EVENT_DELETE", "GUILD_SCHEDULED_EVENT_USER_ADD", "GUILD_SCHEDULED_EVENT_USER_REMOVE", "STAGE_INSTANCE_CREATE", "STAGE_INSTANCE_UPDATE", "STAGE_INSTANCE_DELETE", "CHANNEL_PINS_UPDATE", "THREAD_CREATE", "THREAD_UPDATE", "THREAD_DELETE", "THREAD_MEMBER_UPDATE", "THREAD_MEMBERS_UPDATE", "THREAD_MEMBER_LIST_UPDATE", "USER_UPDATE", "CHANNEL_CREATE", "CHANNEL_UPDATE", "CHANNEL_DELETE", "CHANNEL_RECIPIENT_ADD", "CHANNEL_RECIPIENT_REMOVE", "CHANNEL_MEMBER_COUNT_UPDATE", "CHANNEL_INFO", "CHANNEL_STATUSES", "CHANNEL_SYNC", "THREAD_LIST_SYNC", "DELETED_ENTITY_IDS", "SOUNDBOARD_SOUNDS", "SESSIONS_REPLACE", "GUILD_MEMBER_ADD", "GUILD_MEMBER_UPDATE", "GUILD_MEMBER_REMOVE", "GUILD_MEMBERS_CHUNK", "GUILD_MEMBER_LIST_UPDATE", "PRESENCE_UPDATE", "MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_DELETE_BULK", "LAST_MESSAGES", "MESSAGE_REACTION_ADD", "MESSAGE_REACTION_REMOVE", "MESSAGE_REACTION_REMOVE_ALL", "MESSAGE_REACTION_REMOVE_EMOJI", "TYPING_START", "VOICE_STATE_UPDATE", "VOICE_SERVER_UPDATE", "PASSIVE_UPDATE_V1", "PASSIVE_UPDATE_V2", "CHANNEL_UNREAD_UPDATE"];
