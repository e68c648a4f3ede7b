/**
 * State cache: guilds, channels, roles, members, presences, voice states, direct messages.
 *
 * Owns        one object per entity. An update changes the object in place, so a reference stays valid and current until
 *             the entity is gone.
 * Doors       `apply` for each dispatch, in order.
 * Limits      members: `membersMax` in all guilds; past it the member that was added first goes, with its presence. Users
 *             without a member are kept in the same limit.
 * Spec        docs/protocol/reference.md §6, §8.2, §8.3, §8.5.
 */
import type { BotReady, Channel, DirectChannel, Emoji, GatewayGuild, GuildProperties, Member, MergedMember, Presence, ReadySupplemental, Role, ScheduledEvent, SelfUser, StageInstance, Sticker, Thread, User, UserReady, VoiceState } from "../generated/protocol.js";
export type ChangeKind = "self" | "guild" | "channel" | "thread" | "role" | "member" | "presence" | "voice" | "direct" | "user" | "emojis" | "stickers" | "scheduledEvent" | "stage";
/** One entity changed. `value` is null if it is gone. */
export interface Change {
    readonly kind: ChangeKind;
    /** Null for direct messages and accounts. */
    readonly guildId: string | null;
    readonly id: string;
    readonly value: unknown;
}
export interface CacheOptions {
    /** Default 100,000. */
    readonly membersMax?: number;
}
/** A member with the user object that all guilds share. */
export type CachedMember = Member;
/** Everything known of one guild. */
export declare class GuildState {
    readonly id: string;
    /** False during an outage: the maps are empty then. */
    isAvailable: boolean;
    /** Base fields. Only `id` while the guild is unavailable. */
    readonly properties: Partial<GuildProperties> & {
        id: string;
    };
    readonly roles: Map<string, Role>;
    readonly channels: Map<string, Channel>;
    readonly threads: Map<string, Thread>;
    readonly members: Map<string, Member>;
    readonly presences: Map<string, Presence>;
    /** By user id. */
    readonly voiceStates: Map<string, VoiceState>;
    readonly scheduledEvents: Map<string, ScheduledEvent>;
    readonly stageInstances: Map<string, StageInstance>;
    emojis: Emoji[];
    stickers: Sticker[];
    memberCount: number;
    joinedAt: string | null;
    isLarge: boolean;
    constructor(id: string);
    get name(): string;
}
type Changed = (change: Change) => void;
export declare class StateCache {
    #private;
    readonly guilds: Map<string, GuildState>;
    readonly directs: Map<string, DirectChannel>;
    readonly users: Map<string, User>;
    /** The account's own user object. */
    self: SelfUser | null;
    constructor(changed: Changed, options?: CacheOptions);
    /** A channel or thread of any guild, or a direct message. */
    channel(id: string): Channel | Thread | DirectChannel | undefined;
    apply(name: string, body: unknown): void;
    /** Whether `apply` uses an event of this name. */
    static uses(name: string): boolean;
    /** @internal */
    change(kind: ChangeKind, guildId: string | null, id: string, value: unknown): void;
    /** @internal */
    guild(id: string): GuildState;
    /** @internal */
    user(user: User): User;
    /** @internal */
    member(guild: GuildState, member: Member): CachedMember;
    /** @internal */
    removeMember(guild: GuildState, id: string): void;
    /** @internal */
    removeGuild(id: string): void;
    /** @internal */
    setVoice(guild: GuildState, state: VoiceState): void;
    /** @internal A complete guild, or one that is unavailable. */
    setGuild(body: GatewayGuild | {
        id: string;
        unavailable?: boolean;
    }): GuildState;
    /** @internal */
    ready(ready: BotReady | UserReady): void;
    /** @internal */
    supplement(body: ReadySupplemental): void;
    /** @internal Members and presences that refer to `users`: reference.md §8.2. */
    merge(members: MergedMember[][] | undefined, presences: {
        user_id: string;
    }[][] | undefined): void;
    /** @internal */
    setDirect(direct: DirectChannel): void;
    /** @internal */
    setLastMessage(guildId: string | undefined, channelId: string, messageId: string): void;
    /** @internal */
    setUnread(guildId: string, unreads: readonly {
        id: string;
        last_message_id: string | null;
        last_pin_timestamp?: string;
    }[]): void;
}
export {};
