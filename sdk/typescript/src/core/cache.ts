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

import type {
  BotReady, Channel, DirectChannel, Emoji, EventBodies, GatewayGuild, GuildProperties, Member, MemberUpdate, MergedMember, Presence,
  ReadySupplemental, Role, ScheduledEvent, SelfUser, StageInstance, Sticker, Thread, User, UserReady, VoiceState,
} from "../generated/protocol.js";

export type ChangeKind =
  | "self" | "guild" | "channel" | "thread" | "role" | "member" | "presence" | "voice" | "direct" | "user" | "emojis" | "stickers"
  | "scheduledEvent" | "stage";

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
export class GuildState {
  readonly id: string;
  /** False during an outage: the maps are empty then. */
  isAvailable = false;
  /** Base fields. Only `id` while the guild is unavailable. */
  readonly properties: Partial<GuildProperties> & { id: string };
  readonly roles = new Map<string, Role>();
  readonly channels = new Map<string, Channel>();
  readonly threads = new Map<string, Thread>();
  readonly members = new Map<string, CachedMember>();
  readonly presences = new Map<string, Presence>();
  /** By user id. */
  readonly voiceStates = new Map<string, VoiceState>();
  readonly scheduledEvents = new Map<string, ScheduledEvent>();
  readonly stageInstances = new Map<string, StageInstance>();
  emojis: Emoji[] = [];
  stickers: Sticker[] = [];
  memberCount = 0;
  joinedAt: string | null = null;
  isLarge = false;

  constructor(id: string) {
    this.id = id;
    this.properties = { id };
  }

  get name(): string {
    return this.properties.name ?? "";
  }
}

type Changed = (change: Change) => void;

/** Makes `target` equal to `source`, in place. */
function assign(target: object, source: object): void {
  for (const key of Object.keys(target)) if (!(key in source)) delete (target as Record<string, unknown>)[key];
  Object.assign(target, source);
}

function put<T extends object>(map: Map<string, T>, id: string, value: T): T {
  const known = map.get(id);
  if (!known) {
    map.set(id, value);
    return value;
  }
  assign(known, value);
  return known;
}

/** Keys of a gateway guild that are not base fields. */
const NOT_PROPERTIES = new Set([
  "roles", "emojis", "stickers", "channels", "threads", "members", "presences", "voice_states", "stage_instances",
  "guild_scheduled_events", "activity_instances", "soundboard_sounds", "joined_at", "large", "unavailable", "member_count",
  "version", "data_mode", "properties", "premium_subscription_count",
]);

export class StateCache {
  readonly guilds = new Map<string, GuildState>();
  readonly directs = new Map<string, DirectChannel>();
  readonly users = new Map<string, User>();
  /** The account's own user object. */
  self: SelfUser | null = null;
  #changed: Changed;
  #membersMax: number;
  #membersCount = 0;
  /** Ids of the guilds in READY, to which READY_SUPPLEMENTAL refers by index. */
  #readyGuildIds: string[] = [];

  constructor(changed: Changed, options: CacheOptions = {}) {
    this.#changed = changed;
    this.#membersMax = options.membersMax ?? 100_000;
  }

  /** A channel or thread of any guild, or a direct message. */
  channel(id: string): Channel | Thread | DirectChannel | undefined {
    const direct = this.directs.get(id);
    if (direct) return direct;
    for (const guild of this.guilds.values()) {
      const found = guild.channels.get(id) ?? guild.threads.get(id);
      if (found) return found;
    }
    return undefined;
  }

  apply(name: string, body: unknown): void {
    const handler = HANDLERS[name as keyof typeof HANDLERS] as ((cache: StateCache, body: unknown) => void) | undefined;
    handler?.(this, body);
  }

  /** Whether `apply` uses an event of this name. */
  static uses(name: string): boolean {
    return name in HANDLERS;
  }

  /** @internal */
  change(kind: ChangeKind, guildId: string | null, id: string, value: unknown): void {
    this.#changed({ kind, guildId, id, value });
  }

  /** @internal */
  guild(id: string): GuildState {
    let guild = this.guilds.get(id);
    if (!guild) {
      guild = new GuildState(id);
      this.guilds.set(id, guild);
    }
    return guild;
  }

  /** @internal */
  user(user: User): User {
    const known = this.users.get(user.id);
    if (known) {
      Object.assign(known, user);
      return known;
    }
    if (this.users.size >= this.#membersMax) this.users.delete(this.users.keys().next().value as string);
    this.users.set(user.id, user);
    return user;
  }

  /** @internal */
  member(guild: GuildState, member: Member): CachedMember {
    member.user = this.user(member.user);
    const id = member.user.id;
    const known = guild.members.get(id);
    if (known) {
      // Events about voice and presence carry members without some fields, so nothing is removed.
      Object.assign(known, member);
      return known;
    }
    if (this.#membersCount >= this.#membersMax) this.#evictMember(guild);
    guild.members.set(id, member);
    this.#membersCount += 1;
    return member;
  }

  #evictMember(guild: GuildState): void {
    const from = guild.members.size > 0 ? guild : [...this.guilds.values()].find((of) => of.members.size > 0);
    const id = from?.members.keys().next().value;
    if (from && id !== undefined) this.removeMember(from, id);
  }

  /** @internal */
  removeMember(guild: GuildState, id: string): void {
    if (guild.members.delete(id)) this.#membersCount -= 1;
    guild.presences.delete(id);
  }

  /** @internal */
  removeGuild(id: string): void {
    const guild = this.guilds.get(id);
    if (!guild) return;
    this.#membersCount -= guild.members.size;
    this.guilds.delete(id);
  }

  /** @internal */
  setVoice(guild: GuildState, state: VoiceState): void {
    if (state.channel_id === null) guild.voiceStates.delete(state.user_id);
    else put(guild.voiceStates, state.user_id, state);
    this.change("voice", guild.id, state.user_id, guild.voiceStates.get(state.user_id) ?? null);
  }

  /** @internal A complete guild, or one that is unavailable. */
  setGuild(body: GatewayGuild | { id: string; unavailable?: boolean }): GuildState {
    const guild = this.guild(body.id);
    const full = body as Partial<GatewayGuild> & { properties?: GuildProperties };
    if (!full.channels) {
      guild.isAvailable = false;
      for (const map of [guild.roles, guild.channels, guild.threads, guild.presences, guild.voiceStates]) map.clear();
      this.#membersCount -= guild.members.size;
      guild.members.clear();
      return guild;
    }
    guild.isAvailable = true;
    const base = full.properties ?? Object.fromEntries(Object.entries(full).filter(([key]) => !NOT_PROPERTIES.has(key)));
    assign(guild.properties, { ...base, id: body.id });
    replace(guild.roles, full.roles ?? [], (role) => role.id);
    replace(guild.channels, full.channels, (channel) => channel.id);
    for (const channel of guild.channels.values()) channel.guild_id ??= guild.id;
    replace(guild.threads, full.threads ?? [], (thread) => thread.id);
    for (const thread of guild.threads.values()) thread.guild_id ??= guild.id;
    replace(guild.scheduledEvents, full.guild_scheduled_events ?? [], (event) => event.id);
    replace(guild.stageInstances, full.stage_instances ?? [], (stage) => stage.id);
    for (const member of full.members ?? []) this.member(guild, member);
    if (full.presences) replace(guild.presences, full.presences, (presence) => presence.user.id);
    if (full.voice_states) replace(guild.voiceStates, full.voice_states, (state) => state.user_id);
    guild.emojis = full.emojis ?? [];
    guild.stickers = full.stickers ?? [];
    guild.memberCount = full.member_count ?? guild.memberCount;
    guild.joinedAt = full.joined_at ?? guild.joinedAt;
    guild.isLarge = full.large ?? false;
    return guild;
  }

  /** @internal */
  ready(ready: BotReady | UserReady): void {
    const listed = ready.guilds.map((guild) => guild.id);
    for (const id of [...this.guilds.keys()]) if (!listed.includes(id)) this.removeGuild(id);
    this.#readyGuildIds = listed;
    this.self = this.self ? Object.assign(this.self, ready.user) : ready.user;
    this.user(ready.user);
    const user = ready as Partial<UserReady>;
    for (const of of user.users ?? []) this.user(of);
    this.directs.clear();
    for (const direct of ready.private_channels) this.setDirect(direct);
    for (const guild of ready.guilds) this.setGuild(guild as GatewayGuild);
    this.merge(user.merged_members, user.merged_presences?.guilds);
    this.change("self", null, ready.user.id, this.self);
    for (const id of listed) this.change("guild", id, id, this.guilds.get(id));
  }

  /** @internal */
  supplement(body: ReadySupplemental): void {
    body.guilds.forEach((part, index) => {
      const guild = this.guilds.get(this.#readyGuildIds[index] ?? part.id);
      if (guild && part.voice_states) replace(guild.voiceStates, part.voice_states, (state) => state.user_id);
    });
    this.merge(body.merged_members, body.merged_presences.guilds);
    for (const id of this.#readyGuildIds) this.change("guild", id, id, this.guilds.get(id));
  }

  /** @internal Members and presences that refer to `users`: reference.md §8.2. */
  merge(members: MergedMember[][] | undefined, presences: { user_id: string }[][] | undefined): void {
    members?.forEach((list, index) => {
      const guild = this.guilds.get(this.#readyGuildIds[index] ?? "");
      for (const { user_id, ...rest } of list) {
        const user = this.users.get(user_id);
        if (guild && user) this.member(guild, { ...rest, user } as Member);
      }
    });
    presences?.forEach((list, index) => {
      const guild = this.guilds.get(this.#readyGuildIds[index] ?? "");
      for (const { user_id, ...rest } of list) guild?.presences.set(user_id, { ...rest, user: { id: user_id } } as unknown as Presence);
    });
  }

  /** @internal */
  setDirect(direct: DirectChannel): void {
    const recipients = direct.recipients ?? direct.recipient_ids?.map((id) => this.users.get(id)).filter((user) => user !== undefined);
    if (recipients) direct.recipients = recipients.map((user) => this.user(user));
    put(this.directs, direct.id, direct);
  }

  /** @internal */
  setLastMessage(guildId: string | undefined, channelId: string, messageId: string): void {
    const channel = guildId === undefined ? this.directs.get(channelId) : this.#inGuild(guildId, channelId);
    if (!channel) return;
    channel.last_message_id = messageId;
    this.change(guildId === undefined ? "direct" : "channel", guildId ?? null, channelId, channel);
  }

  #inGuild(guildId: string, channelId: string): Channel | Thread | undefined {
    const guild = this.guilds.get(guildId);
    return guild?.channels.get(channelId) ?? guild?.threads.get(channelId);
  }

  /** @internal */
  setUnread(guildId: string, unreads: readonly { id: string; last_message_id: string | null; last_pin_timestamp?: string }[]): void {
    for (const unread of unreads) {
      const channel = this.#inGuild(guildId, unread.id);
      if (!channel) continue;
      channel.last_message_id = unread.last_message_id;
      if (unread.last_pin_timestamp !== undefined) channel.last_pin_timestamp = unread.last_pin_timestamp;
      this.change("channel", guildId, unread.id, channel);
    }
  }
}

/** Makes `map` hold exactly `values`; objects that stay keep their identity. */
function replace<T extends object>(map: Map<string, T>, values: readonly T[], idOf: (value: T) => string): void {
  const ids = new Set(values.map(idOf));
  for (const id of [...map.keys()]) if (!ids.has(id)) map.delete(id);
  for (const value of values) put(map, idOf(value), value);
}

type Handlers = { [K in keyof EventBodies]?: (cache: StateCache, body: EventBodies[K]) => void };

function setMember(cache: StateCache, body: MemberUpdate, isNew: boolean): void {
  const guild = cache.guild(body.guild_id);
  const { guild_id: _, ...member } = body;
  if (isNew) guild.memberCount += 1;
  cache.change("member", guild.id, member.user.id, cache.member(guild, member));
}

function setChannel(cache: StateCache, body: Channel | DirectChannel): void {
  if (!("guild_id" in body)) {
    cache.setDirect(body);
    cache.change("direct", null, body.id, cache.directs.get(body.id));
    return;
  }
  const guild = cache.guild(body.guild_id);
  cache.change("channel", guild.id, body.id, put(guild.channels, body.id, body));
}

function setRole(cache: StateCache, { guild_id, role }: { guild_id: string; role: Role }): void {
  cache.change("role", guild_id, role.id, put(cache.guild(guild_id).roles, role.id, role));
}

function setThread(cache: StateCache, body: Thread): void {
  cache.change("thread", body.guild_id, body.id, put(cache.guild(body.guild_id).threads, body.id, body));
}

function setEvent(cache: StateCache, body: ScheduledEvent): void {
  cache.change("scheduledEvent", body.guild_id, body.id, put(cache.guild(body.guild_id).scheduledEvents, body.id, body));
}

function setStage(cache: StateCache, body: StageInstance): void {
  cache.change("stage", body.guild_id, body.id, put(cache.guild(body.guild_id).stageInstances, body.id, body));
}

const HANDLERS = {
  READY: (cache, body) => cache.ready(body),
  READY_SUPPLEMENTAL: (cache, body) => cache.supplement(body),
  GUILD_CREATE: (cache, body) => cache.change("guild", body.id, body.id, cache.setGuild(body)),
  GUILD_UPDATE(cache, body) {
    const guild = cache.guild(body.id);
    const { roles, emojis, stickers, premium_subscription_count: _, ...base } = body;
    assign(guild.properties, base);
    replace(guild.roles, roles, (role) => role.id);
    guild.emojis = emojis;
    guild.stickers = stickers;
    cache.change("guild", guild.id, guild.id, guild);
  },
  GUILD_DELETE(cache, body) {
    if (body.unavailable) cache.setGuild(body);
    else cache.removeGuild(body.id);
    cache.change("guild", body.id, body.id, cache.guilds.get(body.id) ?? null);
  },
  GUILD_ROLE_CREATE: setRole,
  GUILD_ROLE_UPDATE: setRole,
  GUILD_ROLE_DELETE(cache, body) {
    const guild = cache.guild(body.guild_id);
    guild.roles.delete(body.role_id);
    for (const member of guild.members.values()) {
      if (member.roles.includes(body.role_id)) member.roles = member.roles.filter((id) => id !== body.role_id);
    }
    cache.change("role", guild.id, body.role_id, null);
  },
  GUILD_EMOJIS_UPDATE(cache, body) {
    cache.guild(body.guild_id).emojis = body.emojis;
    cache.change("emojis", body.guild_id, body.guild_id, body.emojis);
  },
  GUILD_STICKERS_UPDATE(cache, body) {
    cache.guild(body.guild_id).stickers = body.stickers;
    cache.change("stickers", body.guild_id, body.guild_id, body.stickers);
  },
  GUILD_SCHEDULED_EVENT_CREATE: setEvent,
  GUILD_SCHEDULED_EVENT_UPDATE: setEvent,
  GUILD_SCHEDULED_EVENT_DELETE(cache, body) {
    cache.guild(body.guild_id).scheduledEvents.delete(body.id);
    cache.change("scheduledEvent", body.guild_id, body.id, null);
  },
  STAGE_INSTANCE_CREATE: setStage,
  STAGE_INSTANCE_UPDATE: setStage,
  STAGE_INSTANCE_DELETE(cache, body) {
    cache.guild(body.guild_id).stageInstances.delete(body.id);
    cache.change("stage", body.guild_id, body.id, null);
  },
  CHANNEL_CREATE: setChannel,
  CHANNEL_UPDATE: setChannel,
  CHANNEL_DELETE(cache, body) {
    const guildId = "guild_id" in body ? body.guild_id : null;
    if (guildId === null) cache.directs.delete(body.id);
    else {
      const guild = cache.guild(guildId);
      guild.channels.delete(body.id);
      for (const thread of [...guild.threads.values()]) {
        if (thread.parent_id !== body.id) continue;
        guild.threads.delete(thread.id);
        cache.change("thread", guildId, thread.id, null);
      }
    }
    cache.change(guildId === null ? "direct" : "channel", guildId, body.id, null);
  },
  CHANNEL_SYNC: (cache, body) => body.channels.forEach((channel) => setChannel(cache, channel)),
  CHANNEL_RECIPIENT_ADD(cache, body) {
    const direct = cache.directs.get(body.channel_id);
    if (!direct) return;
    direct.recipients = [...(direct.recipients ?? []).filter((user) => user.id !== body.user.id), cache.user(body.user)];
    cache.change("direct", null, direct.id, direct);
  },
  CHANNEL_RECIPIENT_REMOVE(cache, body) {
    const direct = cache.directs.get(body.channel_id);
    if (!direct) return;
    direct.recipients = (direct.recipients ?? []).filter((user) => user.id !== body.user.id);
    cache.change("direct", null, direct.id, direct);
  },
  CHANNEL_PINS_UPDATE(cache, body) {
    const channel = cache.channel(body.channel_id);
    if (!channel) return;
    (channel as { last_pin_timestamp?: string | null }).last_pin_timestamp = body.last_pin_timestamp;
    cache.change(body.guild_id ? "channel" : "direct", body.guild_id ?? null, channel.id, channel);
  },
  THREAD_CREATE: setThread,
  THREAD_UPDATE: setThread,
  THREAD_DELETE(cache, body) {
    cache.guild(body.guild_id).threads.delete(body.id);
    cache.change("thread", body.guild_id, body.id, null);
  },
  THREAD_LIST_SYNC(cache, body) {
    const guild = cache.guild(body.guild_id);
    const parents = body.channel_ids && new Set(body.channel_ids);
    const listed = new Set(body.threads.map((thread) => thread.id));
    for (const thread of [...guild.threads.values()]) {
      if (listed.has(thread.id) || (parents && !(thread.parent_id && parents.has(thread.parent_id)))) continue;
      guild.threads.delete(thread.id);
      cache.change("thread", guild.id, thread.id, null);
    }
    for (const thread of body.threads) setThread(cache, thread);
  },
  USER_UPDATE(cache, body) {
    cache.self = cache.self ? Object.assign(cache.self, body) : body;
    cache.user(body);
    cache.change("self", null, body.id, cache.self);
  },
  GUILD_MEMBER_ADD: (cache, body) => setMember(cache, body, true),
  GUILD_MEMBER_UPDATE: (cache, body) => setMember(cache, body, false),
  GUILD_MEMBER_REMOVE(cache, body) {
    const guild = cache.guild(body.guild_id);
    guild.memberCount = Math.max(0, guild.memberCount - 1);
    cache.removeMember(guild, body.user.id);
    cache.change("member", guild.id, body.user.id, null);
  },
  GUILD_MEMBERS_CHUNK(cache, body) {
    const guild = cache.guild(body.guild_id);
    for (const member of body.members) cache.change("member", guild.id, member.user.id, cache.member(guild, member));
    for (const presence of body.presences ?? []) put(guild.presences, presence.user.id, presence);
  },
  GUILD_MEMBER_LIST_UPDATE(cache, body) {
    const guild = cache.guild(body.guild_id);
    guild.memberCount = body.member_count;
    const keep = (item: (typeof body.ops)[number] extends infer O ? (O extends { item: infer I } ? I : never) : never): void => {
      if (!("member" in item)) return;
      const { presence, ...member } = item.member;
      cache.member(guild, { ...member });
      put(guild.presences, member.user.id, { ...presence });
    };
    for (const op of body.ops) {
      if (op.op === "SYNC") op.items.forEach(keep);
      else if (op.op === "INSERT" || op.op === "UPDATE") keep(op.item);
    }
  },
  PRESENCE_UPDATE(cache, body) {
    if (body.guild_id === undefined) return;
    const presence = put(cache.guild(body.guild_id).presences, body.user.id, body);
    cache.change("presence", body.guild_id, body.user.id, presence);
  },
  MESSAGE_CREATE(cache, body) {
    cache.setLastMessage(body.guild_id, body.channel_id, body.id);
    const guild = body.guild_id === undefined ? undefined : cache.guilds.get(body.guild_id);
    // The author of a message is a member that a large guild may not have sent yet. The message keeps its objects.
    if (!guild || !body.member || guild.members.has(body.author.id)) return;
    cache.change("member", guild.id, body.author.id, cache.member(guild, { ...body.member, user: { ...body.author } }));
  },
  VOICE_STATE_UPDATE(cache, body) {
    if (body.guild_id === undefined) return;
    const guild = cache.guild(body.guild_id);
    const { member, ...state } = body;
    if (member) cache.member(guild, member);
    cache.setVoice(guild, state);
  },
  PASSIVE_UPDATE_V1(cache, body) {
    const guild = cache.guild(body.guild_id);
    cache.setUnread(guild.id, body.channels);
    for (const member of body.members ?? []) cache.member(guild, member);
    const before = [...guild.voiceStates.keys()];
    replace(guild.voiceStates, body.voice_states ?? [], (state) => state.user_id);
    for (const id of new Set([...before, ...guild.voiceStates.keys()])) {
      cache.change("voice", guild.id, id, guild.voiceStates.get(id) ?? null);
    }
  },
  PASSIVE_UPDATE_V2(cache, body) {
    const guild = cache.guild(body.guild_id);
    cache.setUnread(guild.id, body.updated_channels);
    for (const member of body.updated_members) cache.member(guild, member);
    for (const state of body.updated_voice_states) cache.setVoice(guild, state);
    for (const id of body.removed_voice_states) {
      guild.voiceStates.delete(id);
      cache.change("voice", guild.id, id, null);
    }
  },
  CHANNEL_UNREAD_UPDATE: (cache, body) => cache.setUnread(body.guild_id, body.channel_unread_updates),
} satisfies Handlers;
