// World: what this account can see. Guilds, channels, members, presences and voice states are those of the SDK's cache; here are
// messages, marks, and what is on the screen.
//
// Limits   HISTORIES_MAX channels with ITEMS_MAX messages each; past it the oldest go; the page fetches them again when they are on the screen.
//          The cache has its own (link.ts).

import { signal } from "@preact/signals";
import { listIdOf, type Client, type Change, type GuildState, type MemberListView } from "@guildhall/sdk";
import { note } from "./link.ts";
import * as perms from "./permissions.ts";
import { call, RestError } from "./rest.ts";
import { touch } from "./topics.ts";
import { type Channel, type Emoji, type Id, type Member, type Message, type NotificationSettings, type Presence, type ReadState, type Role, type User, ANNOUNCEMENT, EPOCH_MS, isDirect, isEphemeral, isNewer, isStored, isThread, isVoice, TEXT } from "./types.ts";

const HISTORIES_MAX = 12;
export const ITEMS_MAX = 200;
const PAGE = 50;
const TYPING_MS = 9000;
/** For a page of messages that is on its way. */
const WAIT_MS = 50, WAITS_MAX = 100;
const ASK_MEMBERS_MS = 120;
/** Between two acknowledgements; the first one goes at once. */
const ACK_MS = 1000;
/** As many as the node takes at once. */
const ACKS_MAX = 100;

export type Guild = GuildState;

export interface History { items: Message[]; hasOlder: boolean; hasNewer: boolean; isLoaded: boolean; isLoading: boolean; isOverdue: boolean; error: string }

interface Typist { userId: Id; until: number; name: string | undefined }

const histories = new Map<Id, History>();
const typing = new Map<Id, Typist[]>();
/** How far the account has read, and mentions since: of READY, and of events for all its sessions. */
const read = new Map<Id, Id>();
const mentions = new Map<Id, number>();
/** Messages of this session that count in `mentions`, with their channel; past MENTIONS_MAX the oldest goes, and counts also when it is deleted. */
const mentioning = new Map<Id, Id>();
const MENTIONS_MAX = 1000;
/** Notification settings by guild; "": direct messages. */
const notifications = new Map<Id, NotificationSettings>();
/** Channels that were read here, up to this message, and not acknowledged yet. */
const unsent = new Map<Id, Id>();

export const me = signal<User | null>(null);
export const guildId = signal<Id | null>(null);
export const channelId = signal<Id | null>(null);
export const isReady = signal(false);
/** Whether the end of the channel on the screen is in view. */
export const atBottom = signal(true);
/** What is told beside the message box. With a cause it goes when the cause does. */
export const toast = signal<{ text: string; kind: "bad" | "plain"; cause: Cause | null } | null>(null);
export type Cause = "text" | "network" | "place";

let client: Client | null = null;
/** The event that the cache applies. */
let applied: string | null = null;
const nothing = new Map<Id, never>();
export const guilds = (): ReadonlyMap<Id, Guild> => client?.cache?.guilds ?? nothing;
/** In the order of the side bar: the oldest first. READY has them in any order. */
export const guildList = (): Guild[] => [...guilds().values()].sort((a, b) => (isNewer(a.id, b.id) ? 1 : -1));
export const directs = (): ReadonlyMap<Id, Channel> => client?.cache?.directs ?? nothing;
export const userOf = (id: Id): User | undefined => client?.cache?.users.get(id);

/** Follows a client: once per log-in. */
export function follow(of: Client): void {
  client = of;
  of.on("message", ({ name }) => (applied = name));
  of.on("began", began);
  of.on("change", handleChange);
  of.on("dispatch", (body, { name }) => handleDispatch(name, body));
}

/** Forgets everything of the account that was logged in. */
export function forget(): void {
  client = null; list = null; leaveGuild = null; open = null; expected = null;
  histories.clear(); typing.clear(); read.clear(); mentions.clear(); mentioning.clear(); notifications.clear(); unsent.clear(); shown.clear(); lastChannel.clear();
  isReady.value = false; me.value = null; guildId.value = null; channelId.value = null;
}

const TOAST_MS = 6000, FAULT_MS = 12_000;
let toastTimer: ReturnType<typeof setTimeout> | undefined;
export function say(text: string, kind: "bad" | "plain" = "plain", cause: Cause | null = null): void {
  toast.value = { text, kind, cause };
  clearTimeout(toastTimer);
  toastTimer = setTimeout(unsay, kind === "bad" ? FAULT_MS : TOAST_MS);
}
/** What was told no longer holds: anything, or what has this cause. */
export function unsay(cause?: Cause): void {
  if (cause === undefined || toast.peek()?.cause === cause) toast.value = null;
}
export const complain = (error: unknown): void => say(error instanceof Error ? error.message : String(error), "bad", error instanceof RestError && error.status === 0 ? "network" : null);

// --- Lookups

export const channelOf = (id: Id | null): Channel | undefined => (id ? client?.cache?.channel(id) : undefined);
export const guildOf = (channel: Channel | undefined): Guild | undefined => (channel?.guild_id ? guilds().get(channel.guild_id) : undefined);

/** Shown by the guild's own view of somebody first; direct messages have none. */
export function presenceOf(userId: Id, guild?: Guild): Presence | undefined {
  const here = guild?.presences.get(userId);
  if (here) return here;
  for (const other of guilds().values()) {
    const there = other.presences.get(userId);
    if (there) return there;
  }
  return undefined;
}

const standingIn = (guild: Guild, userId: Id) => ({ guildId: guild.id, ownerId: guild.properties.owner_id ?? "", userId, memberRoles: guild.members.get(userId)?.roles ?? [], roles: guild.roles });
export const permissionsOfGuild = (guild: Guild): bigint => (me.value ? perms.permissionsInGuild(standingIn(guild, me.value.id)) : 0n);

export function permissionsOf(channel: Channel | undefined): bigint {
  if (!channel || !me.value) return 0n;
  const guild = guildOf(channel);
  if (!guild) return isDirect(channel) ? perms.SEND_MESSAGES | perms.ATTACH_FILES | perms.ADD_REACTIONS | perms.VIEW_CHANNEL | perms.PIN_MESSAGES : 0n;
  const parent = isThread(channel) ? guild.channels.get(channel.parent_id ?? "") : channel;
  if (!parent) return 0n;
  const granted = perms.permissionsIn(standingIn(guild, me.value.id), parent);
  if (!isThread(channel)) return granted;
  return granted & perms.SEND_IN_THREADS ? granted | perms.SEND_MESSAGES : granted & ~perms.SEND_MESSAGES;
}

export function nameOf(user: User, guild: Guild | undefined): string {
  return guild?.members.get(user.id)?.nick ?? user.global_name ?? user.username;
}

export function channelName(channel: Channel): string {
  if (channel.type === 1 || channel.type === 3) return channel.name ?? (channel.recipients ?? []).map((user) => user.global_name ?? user.username).join(", ");
  return channel.name ?? "channel";
}

/** The colour of the highest role that has one; 0: none. */
export function colorOf(userId: Id, guild: Guild | undefined): number {
  if (!guild) return 0;
  let best: Role | undefined;
  for (const id of guild.members.get(userId)?.roles ?? []) {
    const role = guild.roles.get(id);
    if (role?.color && (!best || role.position > best.position)) best = role;
  }
  return best?.color ?? 0;
}

/** Channels of a guild as the side bar shows them. */
export function channelTree(guild: Guild): { category: Channel | null; channels: Channel[] }[] {
  const visible: Channel[] = [...guild.channels.values()];
  const order = (a: Channel, b: Channel): number => Number(isVoice(a)) - Number(isVoice(b)) || (a.position ?? 0) - (b.position ?? 0) || (isNewer(a.id, b.id) ? 1 : -1);
  const shown = visible.filter((channel) => channel.type !== 4 && permissionsOf(channel) & perms.VIEW_CHANNEL).sort(order);
  const categories = visible.filter((channel) => channel.type === 4).sort(order);
  const groups = [{ category: null as Channel | null, channels: shown.filter((channel) => !categories.some((c) => c.id === channel.parent_id)) }];
  for (const category of categories) groups.push({ category, channels: shown.filter((channel) => channel.parent_id === category.id) });
  return groups.filter((group) => group.channels.length > 0);
}

/** Channels and threads that hold text and that somebody may open, as the side bar has them. */
export const openable = (guild: Guild): Channel[] =>
  channelTree(guild).flatMap(({ channels }) => channels.flatMap((channel) => (isVoice(channel) ? [] : [channel, ...threadsOf(guild, channel.id)])));

export const threadsOf = (guild: Guild, parentId: Id): Channel[] =>
  [...guild.threads.values()].filter((channel) => channel.parent_id === parentId && !channel.thread_metadata?.archived);

// --- Unread marks

/** What READY has of the account. */
function takeReady(ready: { read_state?: ReadState[]; user_guild_settings?: NotificationSettings[] }): void {
  read.clear(); mentions.clear(); mentioning.clear(); notifications.clear(); shown.clear();
  for (const state of ready.read_state ?? []) {
    read.set(state.id, state.last_message_id ?? "0");
    if (state.mention_count) mentions.set(state.id, state.mention_count);
  }
  for (const settings of ready.user_guild_settings ?? []) notifications.set(settings.guild_id ?? "", settings);
  // Acknowledgements that the last session could not send.
  for (const [id, message] of unsent) if (isNewer(message, read.get(id))) { read.set(id, message); mentions.delete(id); }
  sendAcks();
  touch("marks");
}

/** A session of the account has read a channel, perhaps this one. */
function takeAck(ack: { channel_id: Id; message_id: Id; manual?: boolean; mention_count?: number }): void {
  const { channel_id: id, message_id: message } = ack, known = read.get(id);
  if (!ack.manual && known && !isNewer(message, known)) return;
  read.set(id, message);
  const loaded = histories.get(id), channel = channelOf(id), guild = guildOf(channel);
  const left = !isNewer(channel?.last_message_id, message) ? 0
    : loaded?.isLoaded && !loaded.hasNewer ? loaded.items.filter((item) => !item.state && isNewer(item.id, message) && isForMe(item, guild)).length
    : (ack.mention_count ?? mentionsIn(id));
  if (left > 0) mentions.set(id, left); else mentions.delete(id);
  shown.delete(id);
  mark(id);
  touch("marks");
}

let ackTimer: ReturnType<typeof setTimeout> | undefined;
/** Acknowledges what was read here, at most once in ACK_MS; what is read until then is sent together. */
function sendAcks(isLeaving = false): void {
  if ((ackTimer && !isLeaving) || unsent.size === 0) return;
  clearTimeout(ackTimer);
  ackTimer = setTimeout(() => { ackTimer = undefined; sendAcks(); }, ACK_MS);
  const sent = [...unsent].slice(0, ACKS_MAX);
  for (const [id] of sent) unsent.delete(id);
  const [first] = sent;
  const request = sent.length === 1 && first ? call("POST", `/channels/${first[0]}/messages/${first[1]}/ack`, { token: null }, true)
    : call("POST", "/read-states/ack-bulk", { read_states: sent.map(([channel_id, message_id]) => ({ read_state_type: 0, channel_id, message_id })) }, true);
  request.catch((error: unknown) => {
    // Without a connection they wait for the next session; a channel that is gone needs none.
    if (error instanceof RestError && error.status !== 0 && error.status < 500) return;
    for (const [id, message] of sent) if (isNewer(message, unsent.get(id))) unsent.set(id, message);
  });
}

addEventListener("pagehide", () => sendAcks(true));

/** Where an account begins to read a channel in which it has read nothing: when it joined. */
function beginning(channel: Channel): Id | undefined {
  const joined = guildOf(channel)?.joinedAt;
  return joined ? String(BigInt(Date.parse(joined) - EPOCH_MS) << 22n) : undefined;
}

export const settingsOf = (guild: Guild | undefined): NotificationSettings | undefined => notifications.get(guild?.id ?? "");

/** Whether the account wants no mark of new messages in a channel. */
export function isMuted(channel: Channel): boolean {
  const settings = settingsOf(guildOf(channel));
  const of = settings?.channel_overrides.find((override) => override.channel_id === channel.id || override.channel_id === channel.parent_id);
  return isStillMuted(settings) || isStillMuted(of);
}
const isStillMuted = (of: { muted: boolean; mute_config: { end_time: string | null } | null } | undefined): boolean =>
  !!of?.muted && (!of.mute_config?.end_time || Date.parse(of.mute_config.end_time) > Date.now());

/** Mutes a guild, or ends that. */
export async function muteGuild(guild: Guild, muted: boolean): Promise<void> {
  await call("PATCH", `/users/@me/guilds/${guild.id}/settings`, { muted, mute_config: null });
}

/** Marks everything in a guild as read. */
export function markGuildRead(guild: Guild): void {
  for (const channel of [...guild.channels.values(), ...guild.threads.values()]) {
    if (!isVoice(channel) && permissionsOf(channel) & perms.VIEW_CHANNEL) markRead(channel.id);
  }
}

export const isUnread = (channel: Channel): boolean => isNewer(channel.last_message_id, read.get(channel.id) ?? beginning(channel));
export const mentionsIn = (id: Id): number => mentions.get(id) ?? 0;
export function lastRead(id: Id): Id | undefined {
  const channel = channelOf(id);
  return read.get(id) ?? (channel && beginning(channel));
}

/** Channels whose mark may have changed. */
const moving = new Set<Id>();
/** Whether a channel is shown as unread, as far as it is known. */
const shown = new Map<Id, boolean>();

/** Draws the marks again if that of the channel changed: most messages are read at once, and change none. */
function mark(id: Id): void {
  if (moving.size === 0) queueMicrotask(settleMarks);
  moving.add(id);
}

function settleMarks(): void {
  for (const id of moving) {
    const channel = channelOf(id);
    if (!channel) continue;
    const unread = isUnread(channel);
    // Direct messages are listed by their newest message.
    if (shown.get(id) !== unread || isDirect(channel)) touch("marks");
    shown.set(id, unread);
  }
  moving.clear();
}

export function guildMarks(guild: Guild): { unread: boolean; mentions: number } {
  let unread = false, count = 0;
  for (const channel of [...guild.channels.values(), ...guild.threads.values()]) {
    if (isVoice(channel) || !(permissionsOf(channel) & perms.VIEW_CHANNEL)) continue;
    unread ||= isUnread(channel) && !isMuted(channel);
    count += mentionsIn(channel.id);
  }
  return { unread, mentions: count };
}

export function markRead(id: Id | null): void {
  const channel = channelOf(id);
  if (!channel?.last_message_id || (!isUnread(channel) && !mentions.has(channel.id))) return;
  read.set(channel.id, channel.last_message_id);
  if (mentions.delete(channel.id)) touch("marks");
  unsent.set(channel.id, channel.last_message_id);
  sendAcks();
  mark(channel.id);
}

// --- Events

const TOPICS: { [kind in Change["kind"]]?: string[] } = {
  self: ["guilds", "members"], guild: ["guilds", "marks", "voice", "members"], channel: ["guilds", "marks"], thread: ["guilds", "marks"], direct: ["guilds", "marks"],
  role: ["guilds", "members"], member: ["members"], user: ["members"], presence: ["presence"], voice: ["voice"],
};

const MOVES = new Set(["MESSAGE_CREATE", "PASSIVE_UPDATE_V1", "PASSIVE_UPDATE_V2", "CHANNEL_UNREAD_UPDATE"]);

/** The cache changed: what shows it is drawn again. */
function handleChange({ kind, guildId: inGuild, id, value }: Change): void {
  // A message moves the newest one of its channel, and may make its author known: neither changes what is drawn of others.
  const isMove = value !== null && (kind === "channel" || kind === "thread" || kind === "direct") && MOVES.has(applied ?? "");
  if (isMove) mark(id);
  else if (applied !== "MESSAGE_CREATE") {
    for (const topic of TOPICS[kind] ?? []) touch(topic);
    if (TOPICS[kind]?.includes("marks")) shown.clear();
  }
  // A passive guild's summary may come after the history that it is about: messages on the screen are read.
  if (isMove && id === channelId.value && atBottom.value && !document.hidden) {
    const { items, hasNewer } = historyOf(id), last = (value as Channel).last_message_id;
    if (!hasNewer && items.some((message) => message.id === last)) markRead(id);
  }
  if (kind === "member" && id === me.value?.id) touch("guilds");
  if (kind === "self") me.value = client?.cache?.self ?? null;
  // A thread that began at a message has its id.
  if (kind === "thread" && value && !isMove) changeMessage((value as Channel).parent_id ?? "", id, (message) => ({ ...message, thread: value as Channel }));
  if (kind === "thread" && value && id === expected) openChannel(id);
  if (value !== null) return;
  if (kind === "guild" && guildId.value === id) openHome();
  if (kind !== "channel" && kind !== "thread" && kind !== "direct") return;
  histories.delete(id);
  if (channelId.value !== id) return;
  if (inGuild && guilds().has(inGuild)) openGuild(inGuild);
  else openHome();
  say("This channel was deleted.");
}

/** What is not state of the cache. */
export function handleDispatch(t: string, d: any): void {
  switch (t) {
    case "READY": return takeReady(d);
    case "MESSAGE_ACK": return takeAck(d);
    case "USER_GUILD_SETTINGS_UPDATE": notifications.set(d.guild_id ?? "", d); shown.clear(); return touch("marks");
    case "GUILD_CREATE": {
      // The first guild of an account opens.
      if (d.id === expected || (guildId.value === null && guilds().size === 1 && directs().size === 0)) openGuild(d.id);
      return;
    }
    // The guild on the screen had no channel that could be read.
    case "CHANNEL_CREATE": if (channelId.value === null && d.guild_id === guildId.value) openGuild(d.guild_id); return;
    case "GUILD_MEMBER_LIST_UPDATE": touch("presence"); return touch("members");
    case "GUILD_MEMBERS_CHUNK": return touch("presence");
    case "PASSIVE_UPDATE_V2": case "PASSIVE_UPDATE_V1": for (const channel of d.updated_channels ?? d.channels ?? []) moved(channel.id); return;
    case "CHANNEL_UNREAD_UPDATE": for (const update of d.channel_unread_updates ?? []) moved(update.id); return;
    case "TYPING_START": return startTyping(d);
    case "MESSAGE_CREATE": return messageCreate(d);
    case "MESSAGE_UPDATE": if (d.pinned) touch("pins"); return changeMessage(d.channel_id, d.id, (message) => ({ ...message, ...d, reactions: d.reactions ?? message.reactions, member: d.member ?? message.member }));
    case "MESSAGE_DELETE": return removeMessages(d.channel_id, [d.id]);
    case "MESSAGE_DELETE_BULK": return removeMessages(d.channel_id, d.ids);
    case "MESSAGE_REACTION_ADD": return react(d, 1);
    case "MESSAGE_REACTION_REMOVE": return react(d, -1);
    case "MESSAGE_REACTION_REMOVE_ALL": return changeMessage(d.channel_id, d.message_id, (message) => ({ ...message, reactions: [] }));
    case "MESSAGE_REACTION_REMOVE_EMOJI":
      return changeMessage(d.channel_id, d.message_id, (message) => ({ ...message, reactions: (message.reactions ?? []).filter((r) => !sameEmoji(r.emoji, d.emoji)) }));
    case "CHANNEL_PINS_UPDATE": return touch("pins");
    case "RATE_LIMITED": return note("The node asks for fewer member requests", "warn");
  }
}

/** A new session. It says nothing of what happened before it: every history is read again when it is shown. */
function began(): void {
  me.value = client?.cache?.self ?? null;
  for (const [id, history] of [...histories]) {
    // Messages that are not sent yet stay.
    const waiting = history.items.filter((item) => item.state);
    histories.delete(id);
    if (waiting.length > 0) historyOf(id).items = waiting;
  }
  isReady.value = true;
  const here = channelOf(channelId.value);
  if (here) { openChannel(here.id); return; }
  const inHash = fromHash(), wanted = channelOf(inHash);
  const first = guildList()[0];
  if (wanted) openChannel(wanted.id);
  else if (first) openGuild(first.id);
  else openHome();
  // A thread that the account has not joined comes with the list of its guild.
  if (!wanted) expected = inHash;
}

/** A channel of an answer: the gateway will say the same, perhaps later. */
function putChannel(channel: Channel): void {
  client?.cache?.apply(isThread(channel) ? "THREAD_CREATE" : "CHANNEL_CREATE", channel);
}

/** A channel that this account created: it is opened at once. */
export function takeChannel(channel: Channel): void {
  putChannel(channel);
  openChannel(channel.id);
}

/** Messages came that this session was not sent. */
function moved(id: Id): void {
  const history = histories.get(id);
  if (!history?.isLoaded && !history?.isLoading) return;
  const newest = history.items.findLast(isStored)?.id;
  if (!isNewer(channelOf(id)?.last_message_id, newest)) return;
  history.hasNewer = true;
  // Between the log-in and the time that the node knows which guild is open, it may pass some over.
  if (id === channelId.value && atBottom.value) void load(id, "newer");
  touch(`messages:${id}`);
}

function startTyping(d: { channel_id: Id; guild_id?: Id; user_id: Id; member?: Member }): void {
  if (d.user_id === me.value?.id) return;
  const now = Date.now();
  const others = (typing.get(d.channel_id) ?? []).filter((typist) => typist.userId !== d.user_id && typist.until > now);
  typing.set(d.channel_id, [...others.slice(-9), { userId: d.user_id, until: now + TYPING_MS, name: d.member?.nick ?? d.member?.user.global_name ?? d.member?.user.username }]);
  touch("typing");
  setTimeout(() => touch("typing"), TYPING_MS + 100);
}

export const typists = (id: Id): Typist[] => (typing.get(id) ?? []).filter((typist) => typist.until > Date.now());

function stopTyping(channel: Id, user: Id): void {
  const there = typing.get(channel);
  if (there?.some((typist) => typist.userId === user)) { typing.set(channel, there.filter((typist) => typist.userId !== user)); touch("typing"); }
}

function isForMe(message: Message, guild: Guild | undefined): boolean {
  if (!me.value || message.author.id === me.value.id) return false;
  const roles = guild?.members.get(me.value.id)?.roles ?? [], settings = settingsOf(guild);
  return (message.mention_everyone && !settings?.suppress_everyone) || message.mentions.some((user) => user.id === me.value?.id)
    || (!settings?.suppress_roles && message.mention_roles.some((role) => roles.includes(role))) || (!guild && !isMutedDirect(message.channel_id));
}

function isMutedDirect(id: Id): boolean {
  const channel = channelOf(id);
  return !!channel && isMuted(channel);
}

function messageCreate(message: Message): void {
  const guild = guildOf(channelOf(message.channel_id));
  stopTyping(message.channel_id, message.author.id);
  const history = histories.get(message.channel_id);
  if (history && (history.isLoaded || isEphemeral(message))) {
    const at = history.items.findIndex((item) => item.id === message.id || (item.state !== undefined && item.nonce !== undefined && String(item.nonce) === String(message.nonce)));
    if (at >= 0) history.items = history.items.map((item, index) => (index === at ? message : item));
    else if (!history.hasNewer || isEphemeral(message)) {
      const sent = history.items.filter((item) => !item.state), waiting = history.items.filter((item) => item.state);
      const newest = sent.at(-1);
      // In the order of ids: a resumed session replays what came before.
      if (!newest || isNewer(message.id, newest.id)) sent.push(message);
      else sent.splice(sent.findLastIndex((item) => isNewer(message.id, item.id)) + 1, 0, message);
      history.items = [...sent, ...waiting];
      if (atBottom.value || channelId.value !== message.channel_id) trim(history, "old");
      else if (history.items.length > ITEMS_MAX * 2) { history.items.length = ITEMS_MAX * 2; history.hasNewer = true; }
    }
    if (history.hasNewer && channelId.value === message.channel_id && atBottom.value) void load(message.channel_id, "newer");
    touch(`messages:${message.channel_id}`);
  }
  // It is in no history, so nothing of it can be read or unread.
  if (isEphemeral(message)) return;
  const isSeen = channelId.value === message.channel_id && atBottom.value && !document.hidden;
  // The node knows that an author has read.
  if (message.author.id === me.value?.id) { read.set(message.channel_id, message.id); if (mentions.delete(message.channel_id)) touch("marks"); mark(message.channel_id); }
  else if (isSeen) markRead(message.channel_id);
  else if (isForMe(message, guild)) {
    mentions.set(message.channel_id, mentionsIn(message.channel_id) + 1);
    mentioning.set(message.id, message.channel_id);
    if (mentioning.size > MENTIONS_MAX) for (const oldest of mentioning.keys()) { mentioning.delete(oldest); break; }
    touch("marks");
  }
}

/** Messages are deleted: those that are unread count no longer. */
function forgetMentions(channel: Id, ids: Id[]): void {
  for (const id of ids) {
    if (!mentioning.delete(id) || !isNewer(id, read.get(channel))) continue;
    const left = mentionsIn(channel) - 1;
    if (left > 0) mentions.set(channel, left); else mentions.delete(channel);
    touch("marks");
  }
}

/** Many at a time at the old end: all other rows move when the first one goes. */
function trim(history: History, end: "old" | "new"): void {
  if (history.items.length <= ITEMS_MAX) return;
  if (end === "old") { history.items = history.items.slice(PAGE - ITEMS_MAX); history.hasOlder = true; }
  else { history.items = history.items.slice(0, ITEMS_MAX); history.hasNewer = true; }
}

/** Changes a message, wherever it is shown: in its channel, in replies to it, and first in the thread that began at it, which has its id. */
function changeMessage(channel: Id, id: Id, change: (message: Message) => Message): void {
  for (const place of [channel, id]) {
    const history = histories.get(place);
    if (!history) continue;
    let hit = false;
    history.items = history.items.map((item) => {
      if (item.id === id) { hit = true; return change(item); }
      if (item.referenced_message?.id === id) { hit = true; return { ...item, referenced_message: change(item.referenced_message) }; }
      return item;
    });
    if (hit) touch(`messages:${place}`);
  }
}

/** Runs before messages go from the screen, while the focus may still be on one. */
export const beforeRemoval = { run: (_ids: Id[]): void => {} };

function removeMessages(channel: Id, ids: Id[]): void {
  forgetMentions(channel, ids);
  for (const place of [channel, ...ids]) {
    const history = histories.get(place);
    if (!history) continue;
    if (place === channelId.value) beforeRemoval.run(ids);
    history.items = history.items.filter((item) => !ids.includes(item.id)).map((item) =>
      item.referenced_message && ids.includes(item.referenced_message.id) ? { ...item, referenced_message: null } : item);
    touch(`messages:${place}`);
  }
  touch("pins");
}

export const sameEmoji = (a: Emoji, b: Emoji): boolean => (a.id || b.id ? a.id === b.id : a.name === b.name);

function react(d: { channel_id: Id; message_id: Id; user_id: Id; emoji: Emoji }, by: 1 | -1): void {
  const isMine = d.user_id === me.value?.id;
  changeMessage(d.channel_id, d.message_id, (message) => {
    const reactions = message.reactions ?? [];
    const there = reactions.find((reaction) => sameEmoji(reaction.emoji, d.emoji));
    // The own one was counted when it was pressed.
    if (isMine && (there?.me ?? false) === (by === 1)) return message;
    return { ...message, reactions: withReaction(reactions, d.emoji, by, isMine) };
  });
}

function withReaction(reactions: NonNullable<Message["reactions"]>, emoji: Emoji, by: 1 | -1, isMine: boolean): NonNullable<Message["reactions"]> {
  if (!reactions.some((reaction) => sameEmoji(reaction.emoji, emoji))) return by === 1 ? [...reactions, { emoji, count: 1, me: isMine }] : reactions;
  return reactions.map((reaction) => (sameEmoji(reaction.emoji, emoji) ? { ...reaction, count: reaction.count + by, me: isMine ? by === 1 : reaction.me } : reaction))
    .filter((reaction) => reaction.count > 0);
}

// --- Where one is

const lastChannel = new Map<Id, Id>();
const fromHash = (): Id | null => /^#\/(\d{1,20})$/.exec(location.hash)?.[1] ?? null;
const toHash = (id: Id | null): void => { if (fromHash() !== id) history.replaceState(null, "", id ? `#/${id}` : "#/"); };

// A link, or the browser's Back.
addEventListener("hashchange", () => {
  const id = fromHash();
  if (!id || !isReady.value || id === channelId.value) return;
  if (channelOf(id)) return openChannel(id);
  say("There is no channel at this address, or you cannot view it.", "bad");
  toHash(channelId.value);
});

/** A guild or a thread that is opened as soon as it is there, unless somebody opens something else first. */
let expected: Id | null = null;
export function openGuildWhenThere(id: Id): void {
  expected = id;
  if (guilds().get(id)?.isAvailable) openGuild(id);
}

export function openGuild(id: Id): void {
  const guild = guilds().get(id);
  if (!guild) return;
  expected = null;
  const channels = channelTree(guild).flatMap((group) => group.channels).filter((channel) => channel.type === TEXT || channel.type === ANNOUNCEMENT);
  const wanted = lastChannel.get(id);
  const target = (wanted && channelOf(wanted) ? wanted : undefined) ?? channels[0]?.id;
  if (target) openChannel(target);
  else { guildId.value = id; channelId.value = null; look(); }
}

export function openHome(): void {
  expected = null;
  guildId.value = null;
  const first = [...directs().values()].sort((a, b) => (isNewer(a.last_message_id, b.last_message_id) ? -1 : 1))[0];
  channelId.value = first?.id ?? null;
  toHash(channelId.value);
  if (first) void load(first.id);
  look();
}

export function openChannel(id: Id): void {
  if (!show(id)) return;
  atBottom.value = true;
  const there = histories.get(id);
  if (!there?.isLoaded || there.hasNewer) void load(id);
}

/** Puts a channel on the screen; false if there is none. */
function show(id: Id): boolean {
  const channel = channelOf(id);
  if (!channel) return false;
  expected = null;
  if (id !== channelId.value) unsay();
  guildId.value = channel.guild_id ?? null;
  if (channel.guild_id) lastChannel.set(channel.guild_id, id);
  channelId.value = id;
  toHash(id);
  const there = histories.get(id);
  if (there) { histories.delete(id); histories.set(id, there); }
  look();
  return true;
}

/** Puts the channel of a message on the screen, with the messages around it. Rejects if they cannot be read. */
export async function openAround(id: Id, messageId: Id): Promise<void> {
  const there = historyOf(id);
  for (let waits = 0; there.isLoading && waits < WAITS_MAX; waits++) await new Promise((resume) => setTimeout(resume, WAIT_MS));
  if (!there.items.some((item) => item.id === messageId)) {
    there.isLoading = true; there.error = "";
    touch(`messages:${id}`);
    try {
      const page = (await call<Message[]>("GET", path(id, `?limit=${PAGE}&around=${messageId}`))).reverse();
      there.items = inOrder(page, there.items.filter((item) => item.state));
      there.hasOlder = page.length > 0; there.isLoaded = true;
      there.hasNewer = isNewer(channelOf(id)?.last_message_id, page.at(-1)?.id);
      askMembers(channelOf(id), page.map((message) => message.author.id));
    } finally {
      there.isLoading = false;
      touch(`messages:${id}`);
    }
  }
  // The histories of other channels may have displaced it.
  histories.set(id, there);
  atBottom.value = false;
  show(id);
}

let list: { view: MemberListView; listId: string } | null = null;
let open: Id | null = null;
let leaveGuild: (() => void) | null = null;

/** Tells the SDK which guild is looked at: the others become passive. */
function look(): void {
  const guild = guilds().get(guildId.value ?? "");
  if (!client || open === (guild?.id ?? null)) return;
  leaveGuild?.();
  leaveGuild = guild ? client.openGuild(guild.id) : null;
  open = guild?.id ?? null;
}

/** The member list of the channel on the screen. Channels with the same audience share one, which stays as it is. */
export function memberList(): MemberListView | null {
  const channel = channelOf(channelId.value), guild = guildOf(channel);
  const listed = channel && isThread(channel) ? channelOf(channel.parent_id ?? null) : channel;
  const everyone = guild?.roles.get(guild.id);
  const listId = listed && everyone ? listIdOf({ permission_overwrites: listed.permission_overwrites ?? [] }, everyone.permissions) : null;
  if (list && list.view.guildId === guild?.id && list.listId === listId && guild.channels.has(list.view.channelId)) return list.view;
  list?.view.close();
  list = null;
  if (!client || !guild || !listed || listId === null) return null;
  list = { view: client.memberList(guild.id, listed.id), listId };
  list.view.on("change", () => touch("list"));
  return list.view;
}

/** After a connection was lost: what could not be loaded meanwhile is tried again. */
export function catchUp(): void {
  unsay("network");
  const id = channelId.value;
  if (id && historyOf(id).error) void load(id);
}

// --- Messages

export function historyOf(id: Id): History {
  let found = histories.get(id);
  if (!found) {
    found = { items: [], hasOlder: true, hasNewer: false, isLoaded: false, isLoading: false, isOverdue: false, error: "" };
    histories.set(id, found);
    if (histories.size > HISTORIES_MAX) for (const oldest of histories.keys()) { if (oldest !== channelId.value && oldest !== id) { histories.delete(oldest); break; } }
  }
  return found;
}

const path = (id: Id, rest = ""): string => `/channels/${id}/messages${rest}`;

/** Loads the newest messages, or a page older or newer than those there. */
export async function load(id: Id, where: "newest" | "older" | "newer" = "newest"): Promise<void> {
  const there = historyOf(id);
  if (there.isLoading && where === "newer") there.isOverdue = true;
  if (there.isLoading || (where === "older" && !there.hasOlder)) return;
  there.isLoading = true; there.error = "";
  const lastBefore = channelOf(id)?.last_message_id;
  touch(`messages:${id}`);
  const sent = there.items.filter(isStored);
  const edge = where === "older" ? `&before=${sent[0]?.id ?? ""}` : where === "newer" ? `&after=${sent.at(-1)?.id ?? 0}` : "";
  try {
    const page = (await call<Message[]>("GET", path(id, `?limit=${PAGE}${edge}`))).reverse();
    if (where === "newest") {
      // What arrived while the page was under way is newer than the page.
      const newest = page.at(-1)?.id;
      const arrived = there.items.filter((item) => !isStored(item) || (there.isLoaded && !there.hasNewer && isNewer(item.id, newest)));
      there.items = inOrder(page, arrived);
      there.hasOlder = page.length === PAGE; there.hasNewer = false; there.isLoaded = true;
      // A message that arrived while the page was requested may be in neither of them.
      const last = channelOf(id)?.last_message_id;
      there.isOverdue ||= last !== lastBefore && isNewer(last, there.items.findLast(isStored)?.id);
    } else if (where === "older") {
      there.items = [...page, ...there.items];
      there.hasOlder = page.length === PAGE;
      trim(there, "new");
    } else {
      const known = new Set(there.items.map((item) => item.id));
      there.items = inOrder(there.items, page.filter((message) => !known.has(message.id)));
      // What arrived while the page was under way was not shown, so there may be more already.
      const last = channelOf(id)?.last_message_id, isBehind = isNewer(last, there.items.findLast(isStored)?.id);
      there.hasNewer = page.length === PAGE || (isBehind && (page.length > 0 || last !== lastBefore));
      there.isOverdue ||= there.hasNewer && id === channelId.value && atBottom.value;
      trim(there, "old");
    }
    if (performance.getEntriesByName("messages").length === 0) performance.mark("messages");
    askMembers(channelOf(id), page.map((message) => message.author.id));
  } catch (error) {
    there.error = error instanceof RestError ? error.message : String(error);
  }
  there.isLoading = false;
  touch(`messages:${id}`);
  if (there.isOverdue && !there.error) {
    there.isOverdue = false;
    return load(id, "newer");
  }
  if (channelId.value === id && atBottom.value && !there.hasNewer && !document.hidden) markRead(id);
}

/** Messages by their ids, those that are not sent yet last: ephemeral ones are among the others, and in no answer. */
function inOrder(...lists: Message[][]): Message[] {
  const all = lists.flat();
  return [...all.filter((item) => !item.state).sort((a, b) => (isNewer(a.id, b.id) ? 1 : -1)), ...all.filter((item) => item.state)];
}

let counter = 0;

export async function sendMessage(id: Id, content: string, replyTo: Message | null, files: File[]): Promise<void> {
  if (!me.value) return;
  const nonce = `${Date.now()}${(counter++ % 1000).toString().padStart(3, "0")}`;
  const draft: Message = {
    id: `draft-${nonce}`, channel_id: id, author: me.value, content, timestamp: new Date().toISOString(), edited_timestamp: null, type: replyTo ? 19 : 0, pinned: false,
    mentions: [], mention_roles: [], mention_everyone: false, attachments: [], nonce, state: "sending", referenced_message: replyTo, files,
  };
  const there = historyOf(id);
  if (there.hasNewer) await load(id);
  there.items = [...there.items, draft];
  touch(`messages:${id}`);
  typedAt = 0;
  const body = { content, nonce, enforce_nonce: true, ...(replyTo ? { message_reference: { message_id: replyTo.id, fail_if_not_exists: false } } : {}) };
  try {
    let sent: Message;
    if (files.length > 0) {
      const form = new FormData();
      form.append("payload_json", JSON.stringify({ ...body, attachments: files.map((file, index) => ({ id: index, filename: file.name })) }));
      files.forEach((file, index) => form.append(`files[${index}]`, file, file.name));
      sent = await call<Message>("POST", path(id), form);
    } else sent = await call<Message>("POST", path(id), body);
    const known = there.items.some((item) => item.id === sent.id);
    there.items = there.items.flatMap((item) => (item.id === draft.id ? (known ? [] : [sent]) : [item]));
    markRead(id);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    there.items = there.items.map((item) => (item.id === draft.id ? { ...item, state: "failed", error: why } : item));
    // After a reload the words are in the message box.
    if (content && !sessionStorage.getItem(draftKey(id))) sessionStorage.setItem(draftKey(id), content);
  }
  touch(`messages:${id}`);
}

/** Where the browser keeps what was written in a channel and not sent. */
export const draftKey = (id: Id): string => `guildhall.chat.draft.${id}`;

/** Takes an ephemeral message from the screen. */
export const dismiss = (message: Message): void => removeMessages(message.channel_id, [message.id]);

export function discard(message: Message): void {
  removeMessages(message.channel_id, [message.id]);
  if (sessionStorage.getItem(draftKey(message.channel_id)) === message.content) sessionStorage.removeItem(draftKey(message.channel_id));
}

export async function editMessage(message: Message, content: string): Promise<void> {
  if (content === message.content) return;
  const changed = await call<Message>("PATCH", path(message.channel_id, `/${message.id}`), { content });
  changeMessage(message.channel_id, message.id, (before) => ({ ...before, ...changed, reactions: before.reactions }));
}

export async function deleteMessage(message: Message): Promise<void> {
  await call("DELETE", path(message.channel_id, `/${message.id}`));
  removeMessages(message.channel_id, [message.id]);
}

const emojiPath = (emoji: Emoji): string => encodeURIComponent(emoji.id ? `${emoji.name}:${emoji.id}` : emoji.name);

export async function toggleReaction(message: Message, emoji: Emoji): Promise<void> {
  const isThere = (message.reactions ?? []).some((reaction) => reaction.me && sameEmoji(reaction.emoji, emoji));
  const by = isThere ? -1 : 1;
  const apply = (sign: 1 | -1): void => changeMessage(message.channel_id, message.id, (before) => ({ ...before, reactions: withReaction(before.reactions ?? [], emoji, sign, true) }));
  apply(by);
  try {
    await call(isThere ? "DELETE" : "PUT", path(message.channel_id, `/${message.id}/reactions/${emojiPath(emoji)}/@me`));
  } catch (error) { apply(-by as 1 | -1); complain(error); }
}

export async function togglePin(message: Message): Promise<void> {
  await call(message.pinned ? "DELETE" : "PUT", `/channels/${message.channel_id}/messages/pins/${message.id}`);
}

export const pins = async (id: Id): Promise<Message[]> =>
  (await call<{ items: { message: Message }[] }>("GET", `/channels/${id}/messages/pins`)).items.map((item) => item.message);

export async function startThread(message: Message, name: string): Promise<void> {
  const thread = await call<Channel>("POST", path(message.channel_id, `/${message.id}/threads`), { name });
  putChannel(thread);
  changeMessage(message.channel_id, message.id, (before) => ({ ...before, thread }));
  openChannel(thread.id);
}

export async function openDirect(user: User): Promise<void> {
  const channel = await call<Channel>("POST", "/users/@me/channels", { recipient_id: user.id });
  putChannel(channel);
  openChannel(channel.id);
}

let typedAt = 0;
export function tellTyping(id: Id): void {
  const now = Date.now();
  if (now - typedAt < 8000) return;
  typedAt = now;
  call("POST", `/channels/${id}/typing`).catch(() => { /* Nobody misses it. */ });
}

// --- Members that are not known yet

const wanted = new Map<Id, Set<Id>>();
const askedFor = new Set<string>();
let askTimer: ReturnType<typeof setTimeout> | undefined;

/** Asks for members whose roles and nicknames are unknown, 100 at a time (op 8). */
export function askMembers(channel: Channel | undefined, ids: Id[]): void {
  const guild = guildOf(channel);
  if (guild) askMembersOf(guild, ids);
}

export function askMembersOf(guild: Guild, ids: Id[]): void {
  for (const id of ids) {
    if (guild.members.has(id) || askedFor.has(`${guild.id}/${id}`)) continue;
    if (askedFor.size > 5000) askedFor.clear();
    askedFor.add(`${guild.id}/${id}`);
    let set = wanted.get(guild.id);
    if (!set) wanted.set(guild.id, (set = new Set()));
    set.add(id);
  }
  if (wanted.size === 0 || askTimer) return;
  askTimer = setTimeout(() => {
    askTimer = undefined;
    for (const [guildId, set] of wanted) {
      const all = [...set];
      for (let at = 0; at < all.length; at += 100) void client?.requestMembers(guildId, { userIds: all.slice(at, at + 100), presences: true });
    }
    wanted.clear();
  }, ASK_MEMBERS_MS);
}

const FOUND_MAX = 25;

/**
 * Members by name, at most FOUND_MAX. First those of whom a name begins with the text: the node finds them among all. Then those that are
 * known here and have it elsewhere in a name.
 */
export async function searchMembers(guild: Guild, query: string): Promise<Member[]> {
  const found = await client?.requestMembers(guild.id, { query, limit: FOUND_MAX, presences: true });
  const members = new Map<Id, Member>((found?.ok ? found.value.members : []).map((member) => [member.user.id, member]));
  const wanted = query.toLowerCase();
  for (const member of guild.members.values()) {
    if (members.size >= FOUND_MAX) break;
    const { user, nick } = member;
    if ([nick, user.global_name, user.username].some((name) => name?.toLowerCase().includes(wanted))) members.set(user.id, member);
  }
  return [...members.values()];
}
