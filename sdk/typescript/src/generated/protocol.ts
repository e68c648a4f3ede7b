// Generated from the Rust model. Do not edit: GUILDHALL_UPDATE_DOCS=1 cargo test -p guildhall-session --test typescript

/** 64-bit id, as a decimal number. */
export type Snowflake = string;

export interface AbsentGuild {
  id: Snowflake;
  data_mode?: string;
  unavailable: boolean;
}

/** One of an account's own live sessions. */
export interface AccountSession {
  session_id: string;
  /** Status that the session set. */
  status: Status;
  /** Activities that the session set. */
  activities: Activity[];
  /** Always empty. */
  hidden_activities: never[];
  /** Client program of the session. */
  client_info: ClientInfo;
}

export interface ActionMetadata {
  custom_message?: string;
  channel_id?: Snowflake;
  duration_seconds?: number;
}

export type Activity = { name: string; type: number; [key: string]: unknown };

/** Aggregate of all sessions. */
export interface AllSessions {
  session_id: string;
  status: Status;
  activities: Activity[];
  hidden_activities: never[];
  client_info: ClientInfo;
}

/** The application behind a bot. */
export interface ApplicationRef {
  /** The same number as the bot account's id. */
  id: Snowflake;
  /** Includes the bits of granted privileged intents. */
  flags: number;
}

export interface Attachment {
  id: Snowflake;
  filename: string;
  size: number;
  url: string;
  proxy_url: string;
  content_type?: string;
  description?: string;
  height?: number;
  width?: number;
}

/** One field that was changed. */
export interface AuditChange {
  /** Name of the field on the wire. */
  key: string;
  /** Value before; none: the field was not set. */
  old_value?: unknown;
  /** Value after; none: the field is not set any more. */
  new_value?: unknown;
}

/** An audit log entry, for REST and GUILD_AUDIT_LOG_ENTRY_CREATE. */
export interface AuditEntry {
  id: Snowflake;
  action_type: number;
  user_id: Snowflake;
  target_id: Snowflake | null;
  changes?: AuditChange[];
  options?: { [key: string]: unknown };
  reason?: string;
  guild_id?: Snowflake;
}

/** Action of a rule. */
export interface AutoModAction {
  type: number;
  metadata: ActionMetadata;
}

/** An action that was taken. */
export interface AutoModExecution {
  guild_id: Snowflake;
  action: AutoModAction;
  rule_id: Snowflake;
  rule_trigger_type: number;
  user_id: Snowflake;
  channel_id: Snowflake;
  message_id?: Snowflake;
  alert_system_message_id?: Snowflake;
  content: string;
  matched_keyword: string | null;
  matched_content: string | null;
}

/** Rule of a guild. */
export interface AutoModRule {
  id: Snowflake;
  guild_id: Snowflake;
  name: string;
  creator_id: Snowflake;
  /** 1: a message is sent. */
  event_type: number;
  trigger_type: number;
  trigger_metadata: TriggerMetadata;
  actions: AutoModAction[];
  enabled: boolean;
  exempt_roles: Snowflake[];
  exempt_channels: Snowflake[];
}

/** READY of a bot. It contains only the guilds' ids; GUILD_CREATE follows for each. */
export interface BotReady {
  /** Gateway version, always 10. */
  v: number;
  /** The bot's own account. */
  user: SelfUser;
  /** Guilds of this shard. */
  guilds: UnavailableGuild[];
  /** The client sends it in RESUME. */
  session_id: string;
  /** Gateway URL for RESUME. */
  resume_gateway_url: string;
  /** Echo of the value in IDENTIFY. */
  shard?: [number, number];
  application: ApplicationRef;
  /** Always `normal`. */
  session_type: string;
  /** Always empty: a bot learns of a direct message by its first message. */
  private_channels: never[];
  /** Always empty. */
  presences: never[];
  /** Always empty. */
  relationships: never[];
  /** Always empty. */
  user_settings: { [key: string]: never };
  /** Always empty. */
  geo_ordered_rtc_regions: never[];
  /** Always empty. */
  guild_join_requests: never[];
  /** Always empty. */
  auth: { [key: string]: never };
}

/** A guild channel. */
export interface Channel extends Partial<TextFields>, Partial<VoiceFields>, Partial<PostFields> {
  id: Snowflake;
  guild_id: Snowflake;
  type: number;
  name: string;
  position: number;
  permission_overwrites: Overwrite[];
  parent_id: Snowflake | null;
  topic: string | null;
  nsfw: boolean;
  flags: number;
  default_thread_rate_limit_per_user?: number;
  default_auto_archive_duration?: number;
}

/** CHANNEL_INFO, for op 43. */
export interface ChannelInfo {
  guild_id: Snowflake;
  channels: never[];
}

/** CHANNEL_MEMBER_COUNT_UPDATE, for op 39. */
export interface ChannelMemberCountUpdate {
  guild_id: Snowflake;
  channel_id: Snowflake;
  /** Number of members who can view the channel. */
  member_count: number;
  /** Number of those members who are not offline. */
  presence_count: number;
}

export interface ChannelOverride {
  channel_id: Snowflake;
  message_notifications: number;
  muted: boolean;
  mute_config: MuteConfig | null;
  collapsed: boolean;
  flags: number;
}

export interface ChannelPins {
  guild_id?: Snowflake;
  channel_id: Snowflake;
  last_pin_timestamp: string | null;
}

/** CHANNEL_PINS_ACK. */
export interface ChannelPinsAck {
  channel_id: Snowflake;
  timestamp: string;
  version: number;
}

export interface ChannelRecipient {
  channel_id: Snowflake;
  user: User;
}

/** CHANNEL_STATUSES, for op 36. */
export interface ChannelStatuses {
  guild_id: Snowflake;
  channels: never[];
}

/** CHANNEL_SYNC, for op 38. */
export interface ChannelSync {
  guild_id: Snowflake;
  channels: Channel[];
  integrity_check: boolean;
}

/** Newest message and pin of a channel. */
export interface ChannelUnread {
  id: Snowflake;
  /** Null if there has never been a message. */
  last_message_id: Snowflake | null;
  /** Time of the latest pin. Absent if there was none. */
  last_pin_timestamp?: string;
}

/** CHANNEL_UNREAD_UPDATE: channels with news, for clients without either passive capability. */
export interface ChannelUnreadUpdate {
  guild_id: Snowflake;
  /** Channels with news since the previous update. */
  channel_unread_updates: ChannelUnread[];
}

/** Client program of a session. */
export interface ClientInfo {
  /** `web`, `desktop`, `mobile`, `vr` or `unknown`. */
  client: string;
  /** Operating system, as sent in IDENTIFY. */
  os: string;
  /** Format of the settings, always 0. */
  version: number;
}

export type ClientStatus = { [platform in "desktop" | "mobile" | "web" | "embedded" | "vr"]?: Status };

/** Fields of both shapes in addition to the base fields. */
export interface CommonGuildFields {
  premium_subscription_count: number;
  roles: Role[];
  emojis: Emoji[];
  stickers: Sticker[];
  joined_at: string;
  large: boolean;
  unavailable: boolean;
  member_count: number;
  members?: Member[];
  channels: Channel[];
  threads: Thread[];
  presences?: Presence[];
  voice_states?: VoiceState[];
  stage_instances: StageInstance[];
  guild_scheduled_events: ScheduledEvent[];
  activity_instances?: never[];
  version: number;
}

export interface CountDetails {
  burst: number;
  normal: number;
}

/** The emoji of the reaction button under a post. */
export interface DefaultReaction {
  /** A custom emoji. */
  emoji_id: Snowflake | null;
  /** A unicode emoji. */
  emoji_name: string | null;
}

/** DELETED_ENTITY_IDS. Contains a kind if the client sent a hash for it that differs. */
export interface DeletedEntityIds {
  guild_id: Snowflake;
  channels?: Snowflake[];
  roles?: Snowflake[];
  emojis?: Snowflake[];
  stickers?: Snowflake[];
}

/** A direct message or a group. The recipient of the body is not listed in it. */
export interface DirectChannel extends Partial<GroupFields> {
  id: Snowflake;
  type: number;
  flags: number;
  last_message_id: Snowflake | null;
  last_pin_timestamp?: string;
  recipients?: User[];
  recipient_ids?: Snowflake[];
}

/** A custom emoji. */
export interface Emoji {
  id: Snowflake;
  name: string;
  roles: Snowflake[];
  user?: User;
  require_colons: boolean;
  managed: boolean;
  animated: boolean;
  available: boolean;
}

export interface FlatGuild extends GuildProperties, CommonGuildFields {
  soundboard_sounds: never[];
}

/** A tag for the posts of a forum. */
export interface ForumTag {
  /** Unique within the guild. */
  id: Snowflake;
  /** 0–20 characters. */
  name: string;
  /** Only members with MANAGE_THREADS can add it to a post or remove it. */
  moderated: boolean;
  /** A custom emoji. At most one of this and `emoji_name` is set. */
  emoji_id: Snowflake | null;
  /** A unicode emoji. */
  emoji_name: string | null;
}

export type GatewayGuild = FlatGuild | PropertiesGuild;

export interface GroupFields {
  name: string | null;
  icon: null;
  owner_id: Snowflake | null;
}

/** Base fields: GUILD_UPDATE, REST, and the first part of GUILD_CREATE. */
export interface Guild extends GuildProperties {
  premium_subscription_count: number;
  roles: Role[];
  emojis: Emoji[];
  stickers: Sticker[];
}

export interface GuildBan {
  guild_id: Snowflake;
  user: User;
  delete_message_secs?: number;
}

export interface GuildEmojis {
  guild_id: Snowflake;
  emojis: Emoji[];
}

export interface GuildMembersChunk {
  guild_id: Snowflake;
  members: Member[];
  chunk_index: number;
  chunk_count: number;
  not_found: Snowflake[];
  presences?: Presence[];
  nonce?: string;
}

/** Base fields except those that CLIENT_STATE_V2 places outside of `properties`. */
export interface GuildProperties {
  id: Snowflake;
  name: string;
  icon: string | null;
  splash: string | null;
  discovery_splash: string | null;
  banner: string | null;
  description: string | null;
  owner_id: Snowflake;
  afk_channel_id: Snowflake | null;
  afk_timeout: number;
  verification_level: number;
  default_message_notifications: number;
  explicit_content_filter: number;
  mfa_level: number;
  application_id: null;
  system_channel_id: Snowflake | null;
  rules_channel_id: null;
  public_updates_channel_id: null;
  safety_alerts_channel_id: null;
  system_channel_flags: number;
  max_members: number;
  max_presences: null;
  max_video_channel_users: number;
  max_stage_video_channel_users: number;
  vanity_url_code: string | null;
  premium_tier: number;
  preferred_locale: string;
  premium_progress_bar_enabled: boolean;
  nsfw_level: number;
  nsfw: boolean;
  widget_enabled: boolean;
  widget_channel_id: Snowflake | null;
  hub_type: null;
  incidents_data: null;
  region: string;
  features: string[];
}

export interface GuildStickers {
  guild_id: Snowflake;
  stickers: Sticker[];
}

/** Where the application is installed: in the guild, or for its direct messages. */
export interface IntegrationOwners {
  /** 0 in a direct message. */
  0: Snowflake;
}

/** The same for a command, in the form of earlier clients. */
export interface Interaction {
  id: Snowflake;
  type: number;
  name: string;
  user: User;
}

export type InteractionEvent = { id: Snowflake; [key: string]: unknown };

/** The interaction that a message answers. */
export interface InteractionMetadata {
  id: Snowflake;
  type: number;
  user: User;
  authorizing_integration_owners: IntegrationOwners;
  name?: string;
  original_response_message_id?: Snowflake;
  interacted_message_id?: Snowflake;
  triggering_interaction_metadata?: InteractionMetadata;
}

/** An invite over REST. Usage counts are visible only to members who may manage invites. */
export interface Invite extends Partial<InviteEvent>, Partial<KnownInvite> {
  guild: InviteGuild;
  channel: InviteChannel | null;
  approximate_member_count?: number;
  approximate_presence_count?: number;
}

export interface InviteChannel {
  id: Snowflake;
  name: string;
  type: number;
}

export interface InviteDelete {
  code: string;
  channel_id: Snowflake;
  guild_id: Snowflake;
}

/** Fields of both forms. */
export interface InviteEvent {
  code: string;
  type: number;
  channel_id: Snowflake;
  guild_id: Snowflake;
  inviter?: User;
  created_at: string;
  max_age: number;
  max_uses: number;
  temporary: boolean;
  uses: number;
  expires_at: string | null;
}

/** Guild fields visible to anyone who has an invite code. */
export interface InviteGuild {
  id: Snowflake;
  name: string;
  icon: string | null;
  splash: string | null;
  banner: string | null;
  description: string | null;
  features: string[];
  verification_level: number;
  vanity_url_code: string | null;
  nsfw_level: number;
  nsfw: boolean;
  premium_subscription_count: number;
  welcome_screen?: WelcomeScreen;
}

/** Fields visible to anyone who has the code. */
export interface KnownInvite {
  code: string;
  type: number;
  guild_id: Snowflake;
  inviter?: User;
  expires_at: string | null;
}

/** LAST_MESSAGES, for op 34. */
export interface LastMessages {
  guild_id: Snowflake;
  /** Newest message of each requested channel that the recipient can view and that has one. */
  messages: Message[];
}

/** A member with the user: GUILD_CREATE, chunks, REST. */
export interface Member extends PartialMember {
  user: User;
}

/** A header row. */
export interface MemberListGroup {
  /** A role's id, `online`, or `offline`; text in every encoding. */
  id: string;
  /** Members under it. */
  count: number;
}

/** Content of a row. */
export type MemberListItem =
  | { group: MemberListGroup }
  | { member: MemberListMember };

/** A member with the presence inside. */
export interface MemberListMember extends Member {
  presence: Presence;
}

/** A change of rows. Row indexes start at 0; each operation sees the result of the previous ones. */
export type MemberListOp =
  /** Replaces these rows. */
  | { op: "SYNC"; range: [number, number]; items: MemberListItem[] }
  /** Inserts a row; rows from `index` on move down. */
  | { op: "INSERT"; index: number; item: MemberListItem }
  /** Replaces one row. */
  | { op: "UPDATE"; index: number; item: MemberListItem }
  /** Deletes a row; the rows behind it move up. */
  | { op: "DELETE"; index: number }
  /** Ends updates of these rows. */
  | { op: "INVALIDATE"; range: [number, number] };

/** GUILD_MEMBER_LIST_UPDATE. */
export interface MemberListUpdate {
  guild_id: Snowflake;
  /** List id: `everyone`, or a hash of the channel's view permissions. */
  id: string;
  /** Number of members of the guild. */
  member_count: number;
  /** Members who are not offline. */
  online_count: number;
  /** All groups that are not empty, in display order, after `ops` have been applied. */
  groups: MemberListGroup[];
  /** Changes of rows, in the order of application. */
  ops: MemberListOp[];
}

export interface MemberRemove {
  guild_id: Snowflake;
  user: User;
}

/** GUILD_MEMBER_ADD and GUILD_MEMBER_UPDATE. */
export interface MemberUpdate extends Member {
  guild_id: Snowflake;
}

/** A mentioned user. Gateway events include the member object. */
export interface Mention extends User {
  member?: PartialMember;
}

/** A member for READY and READY_SUPPLEMENTAL with deduplicated users (reference.md §8.2). */
export interface MergedMember extends PartialMember {
  user_id: Snowflake;
}

/** A presence for READY and READY_SUPPLEMENTAL with deduplicated users (reference.md §8.2). */
export interface MergedPresence {
  user_id: Snowflake;
  status: Status;
  activities: Activity[];
  client_status: ClientStatus;
}

/** Presences of friends, and per guild, in the order of `guilds`. */
export interface MergedPresences {
  friends: MergedPresence[];
  guilds: MergedPresence[][];
}

/** A message, for REST, MESSAGE_CREATE and MESSAGE_UPDATE. */
export interface Message extends Partial<MessageExtras> {
  id: Snowflake;
  channel_id: Snowflake;
  author: User;
  content: string;
  timestamp: string;
  edited_timestamp: string | null;
  tts: boolean;
  mention_everyone: boolean;
  mentions: Mention[];
  mention_roles: Snowflake[];
  attachments: Attachment[];
  embeds: unknown[];
  components: unknown[];
  sticker_items?: StickerItem[];
  reactions?: Reaction[];
  nonce?: Nonce;
  pinned: boolean;
  type: number;
  flags: number;
  webhook_id?: Snowflake;
  application_id?: Snowflake;
  interaction_metadata?: InteractionMetadata;
  interaction?: Interaction;
  poll?: Poll;
  message_snapshots?: Snapshot[];
  message_reference?: MessageReference;
  referenced_message?: Message | null;
}

/** MESSAGE_ACK, to all sessions of the account. */
export interface MessageAck {
  channel_id: Snowflake;
  message_id: Snowflake;
  /** Grows with each acknowledgement of the account. */
  version: number;
  /** The user marked the message as unread: the state may go back. */
  manual?: boolean;
  /** The number that the client sent. */
  mention_count?: number;
  flags?: number;
  last_viewed?: number;
}

export interface MessageDelete {
  id: Snowflake;
  channel_id: Snowflake;
  guild_id?: Snowflake;
}

export interface MessageDeleteBulk {
  ids: Snowflake[];
  channel_id: Snowflake;
  guild_id: Snowflake;
}

/** Fields of a message that only gateway events have. */
export interface MessageExtras {
  /** None for a direct message. */
  guild_id?: Snowflake;
  /** Type of the message's channel. */
  channel_type: number;
  /** The author's member object; none if the author has left. */
  member?: PartialMember;
}

export interface MessageReference {
  type: number;
  message_id?: Snowflake;
  channel_id: Snowflake;
  guild_id?: Snowflake;
}

export interface MuteConfig {
  end_time: string | null;
  selected_time_window?: number;
}

/** Identifier chosen by the client for a message, echoed with its original JSON type. */
export type Nonce =
  /** Sent as a number. */
  | number
  /** Sent as a string of at most 25 characters. */
  | string;

export type NotificationEntries = NotificationSettings[] | { entries: NotificationSettings[]; partial: boolean; version: number };

/** Notification settings: an entry of `user_guild_settings`, and USER_GUILD_SETTINGS_UPDATE. */
export interface NotificationSettings {
  guild_id: Snowflake | null;
  message_notifications: number;
  suppress_everyone: boolean;
  suppress_roles: boolean;
  mute_scheduled_events: boolean;
  mobile_push: boolean;
  muted: boolean;
  mute_config: MuteConfig | null;
  hide_muted_channels: boolean;
  notify_highlights: number;
  flags: number;
  channel_overrides: ChannelOverride[];
  version: number;
}

export type Overwrite = { id: Snowflake; type: 0 | 1; allow: string; deny: string };

/** A member without the user object, used in messages next to the author's user object. */
export interface PartialMember {
  nick: string | null;
  avatar: string | null;
  banner: string | null;
  roles: Snowflake[];
  joined_at: string;
  premium_since: null;
  deaf: boolean;
  mute: boolean;
  pending: boolean;
  flags: number;
  communication_disabled_until: string | null;
}

/** PASSIVE_UPDATE_V1: the complete current state. */
export interface PassiveUpdateV1 {
  guild_id: Snowflake;
  /** All channels that the recipient can view. */
  channels: ChannelUnread[];
  /** Voice states of all connected users. Absent when there are none. */
  voice_states?: VoiceState[];
  /** The members of `voice_states`. */
  members?: Member[];
}

/** PASSIVE_UPDATE_V2: changes since the previous update. All keys are always present. */
export interface PassiveUpdateV2 {
  guild_id: Snowflake;
  /** Channels with a new newest message or pin. */
  updated_channels: ChannelUnread[];
  /** Voice states that are new or changed. */
  updated_voice_states: VoiceState[];
  /** Users who left voice. */
  removed_voice_states: Snowflake[];
  /** The members of `updated_voice_states`. */
  updated_members: Member[];
}

export interface Poll {
  question: PollMedia;
  answers: PollAnswer[];
  expiry: string;
  allow_multiselect: boolean;
  layout_type: number;
  results: PollResults;
}

export interface PollAnswer {
  answer_id: number;
  poll_media: PollMedia;
}

/** Text and emoji of a question or an answer. */
export interface PollMedia {
  text?: string;
  emoji?: ReactionEmoji;
}

export interface PollResults {
  /** Without answers that have no votes. */
  answer_counts: VoteCount[];
  is_finalized: boolean;
}

export interface PollVote {
  user_id: Snowflake;
  channel_id: Snowflake;
  message_id: Snowflake;
  guild_id?: Snowflake;
  answer_id: number;
}

export interface PostFields {
  available_tags: ForumTag[];
  default_reaction_emoji: DefaultReaction | null;
  default_sort_order: number | null;
  default_forum_layout: number;
}

/** A presence. Only PRESENCE_UPDATE of a member has `guild_id`. */
export interface Presence {
  user: UserRef;
  guild_id?: Snowflake;
  status: Status;
  activities: Activity[];
  client_status: ClientStatus;
}

export interface PropertiesGuild extends CommonGuildFields {
  id: Snowflake;
  data_mode: string;
  properties: GuildProperties;
}

/** A user with the fields that every account may see: `/users/{id}`. */
export interface PublicUser extends User {
  banner: string | null;
  accent_color: null;
}

export interface RateLimited {
  opcode: number;
  retry_after: number;
  meta: RateLimitedMeta;
}

export interface RateLimitedMeta {
  guild_id: Snowflake;
  nonce?: string;
}

/** Count of one reaction on a message; REST only. */
export interface Reaction {
  count: number;
  count_details: CountDetails;
  me: boolean;
  me_burst: boolean;
  emoji: ReactionEmoji;
  burst_colors: never[];
}

/** Emoji of a reaction. */
export interface ReactionEmoji {
  id: Snowflake | null;
  name: string;
  animated: boolean;
}

export interface ReactionEvent {
  user_id: Snowflake;
  channel_id: Snowflake;
  message_id: Snowflake;
  message_author_id?: Snowflake;
  guild_id?: Snowflake;
  member?: Member;
  emoji: ReactionEmoji;
  burst: boolean;
  burst_colors: never[];
  type: number;
}

export interface ReactionsCleared {
  channel_id: Snowflake;
  message_id: Snowflake;
  guild_id?: Snowflake;
  emoji?: ReactionEmoji;
}

/** How far the account has read a channel, in READY. */
export interface ReadState {
  id: Snowflake;
  last_message_id: Snowflake;
  mention_count: number;
  last_pin_timestamp?: string;
  flags?: number;
  last_viewed?: number;
}

export type ReadStateEntries = ReadState[] | { entries: ReadState[]; partial: boolean; version: number };

/** Fields of a user account's READY with constant values. */
export interface ReadyConstants {
  connected_accounts: never[];
  guild_join_requests: never[];
  experiments: never[];
  guild_experiments: never[];
  game_relationships: never[];
  linked_users: never[];
  friend_suggestion_count: number;
  api_code_version: number;
  explicit_content_scan_version: number;
  country_code: string;
  analytics_token: string;
  auth_session_id_hash: string;
  static_client_session_id: string;
  consents: { [key: string]: never };
  tutorial: null;
  auth: { [key: string]: never };
  geo_ordered_rtc_regions: never[];
}

/** Fields behind it. */
export interface ReadyRest extends ReadyConstants {
  merged_members?: MergedMember[][];
  merged_presences?: MergedPresences;
  users?: User[];
  private_channels: DirectChannel[];
  relationships: Relationship[];
  presences?: Presence[];
  session_id: string;
  resume_gateway_url: string;
  shard?: [number, number];
  session_type: string;
  sessions: (AccountSession | AllSessions)[];
  read_state: ReadStateEntries;
  user_guild_settings: NotificationEntries;
  user_settings?: { [key: string]: never };
  user_settings_proto: string;
  notes?: { [key: string]: never };
}

/** Fields in front of `guilds`. */
export interface ReadyStart {
  v: number;
  user: SelfUser;
}

export type ReadySupplemental = ReadySupplementalFields;

export interface ReadySupplementalFields {
  guilds: SupplementalGuild[];
  merged_members: MergedMember[][];
  merged_presences: MergedPresences;
  lazy_private_channels: never[];
  disclose: never[];
  game_invites: never[];
}

/** A relationship, in READY and REST, and RELATIONSHIP_ADD, which also replaces one. */
export interface Relationship {
  id: Snowflake;
  /** 1 friend, 2 blocked, 3 incoming request, 4 outgoing request. */
  type: number;
  /** None in a READY with `users`. */
  user?: User;
  /** In a READY with `users`. */
  user_id?: Snowflake;
  nickname: string | null;
  since: string;
  /** Always false. */
  is_spam_request: boolean;
  /** Always false. */
  stranger_request: boolean;
  /** Always false. */
  user_ignored: boolean;
  /** Only in events: the client shows a notification. */
  should_notify?: boolean;
}

/** RELATIONSHIP_UPDATE, and RELATIONSHIP_REMOVE with the relationship as it was. */
export interface RelationshipChange {
  id: Snowflake;
  /** 0 if the node does not know what it was. */
  type: number;
  nickname: string | null;
  since?: string;
  user_ignored: boolean;
}

/** A guild over REST: base fields, with counts if the caller requested them. */
export interface RestGuild extends Guild {
  home_header: null;
  /** With `with_counts`. */
  approximate_member_count?: number;
  /** With `with_counts`. */
  approximate_presence_count?: number;
}

export interface Role {
  id: Snowflake;
  name: string;
  color: number;
  colors: RoleColors;
  hoist: boolean;
  icon: string | null;
  unicode_emoji: string | null;
  position: number;
  permissions: string;
  managed: boolean;
  mentionable: boolean;
  flags: number;
}

/** Newer representation of a role's colour. */
export interface RoleColors {
  /** Same as `color`. */
  primary_color: number;
  /** Gradient end; always null here. */
  secondary_color: number | null;
  /** Third gradient colour; always null here. */
  tertiary_color: number | null;
}

export interface RoleDelete {
  guild_id: Snowflake;
  role_id: Snowflake;
}

export interface RoleEvent {
  guild_id: Snowflake;
  role: Role;
}

/** A scheduled event. */
export interface ScheduledEvent {
  id: Snowflake;
  guild_id: Snowflake;
  channel_id: Snowflake | null;
  creator_id: Snowflake | null;
  name: string;
  description: string | null;
  scheduled_start_time: string;
  scheduled_end_time: string | null;
  privacy_level: number;
  status: number;
  entity_type: number;
  entity_id: null;
  entity_metadata: unknown | null;
  user_count: number;
  image: string | null;
  recurrence_rule: null;
  guild_scheduled_event_exceptions?: never[];
}

export interface ScheduledEventUser {
  guild_scheduled_event_id: Snowflake;
  user_id: Snowflake;
  guild_id: Snowflake;
}

/** The recipient's own account: READY, `/users/@me`. */
export interface SelfUser extends User {
  banner: string | null;
  accent_color: null;
  mfa_enabled: boolean;
  locale: string;
  verified: boolean;
  email: null;
  flags: number;
  primary_guild: null;
  premium_type: number;
}

export interface Snapshot {
  message: SnapshotMessage;
}

/** Content of a forwarded message. */
export interface SnapshotMessage {
  type: number;
  content: string;
  timestamp: string;
  edited_timestamp: string | null;
  flags: number;
  mentions: User[];
  mention_roles: Snowflake[];
  embeds: unknown[];
  components: unknown[];
  attachments: Attachment[];
  sticker_items?: StickerItem[];
}

/** SOUNDBOARD_SOUNDS, for each guild of op 31. */
export interface SoundboardSounds {
  guild_id: Snowflake;
  soundboard_sounds: never[];
}

export interface SourceChannel {
  id: Snowflake;
  name: string;
}

export interface SourceGuild {
  id: Snowflake;
  name: string;
  icon: string | null;
}

/** An open stage. */
export interface StageInstance {
  id: Snowflake;
  guild_id: Snowflake;
  channel_id: Snowflake;
  topic: string;
  privacy_level: number;
  discoverable_disabled: boolean;
  guild_scheduled_event_id: Snowflake | null;
}

/** Online status. Aggregation over several sessions takes the greatest. */
export type Status =
  /** Offline or invisible. */
  | "offline"
  | "idle"
  | "online"
  /** Do not disturb. */
  | "dnd";

export interface Sticker {
  id: Snowflake;
  guild_id: Snowflake;
  name: string;
  description: string | null;
  tags: string;
  type: number;
  format_type: number;
  available: boolean;
  user?: User;
}

export interface StickerItem {
  id: Snowflake;
  name: string;
  format_type: number;
}

/** Parts of a guild that READY left out; only the id for an unavailable guild. */
export interface SupplementalGuild {
  id: Snowflake;
  voice_states?: VoiceState[];
  activity_instances?: never[];
}

export interface TextFields {
  last_message_id: Snowflake | null;
  last_pin_timestamp: string | null;
  rate_limit_per_user: number;
}

/** A thread: a channel with additional fields. */
export interface Thread extends Channel {
  owner_id?: Snowflake;
  thread_metadata?: ThreadMetadata;
  message_count: number;
  member_count: number;
  total_message_sent: number;
  applied_tags?: Snowflake[];
  member?: ThreadMember;
  newly_created?: boolean;
}

export interface ThreadDelete {
  id: Snowflake;
  guild_id: Snowflake;
  parent_id: Snowflake | null;
  type: number;
}

/** THREAD_LIST_SYNC. */
export interface ThreadListSync {
  guild_id: Snowflake;
  channel_ids?: Snowflake[];
  threads: Thread[];
  members: ThreadMember[];
  most_recent_messages: Snowflake[];
}

export interface ThreadListedMember {
  user_id: Snowflake;
  member: Member;
  presence: Presence | null;
}

/** Membership of an account in a thread. */
export interface ThreadMember {
  id: Snowflake;
  user_id: Snowflake;
  join_timestamp: string;
  flags: number;
  member?: Member;
  guild_id?: Snowflake;
}

export interface ThreadMemberList {
  guild_id: Snowflake;
  thread_id: Snowflake;
  members: ThreadListedMember[];
}

/** THREAD_MEMBERS_UPDATE. */
export interface ThreadMembers {
  id: Snowflake;
  guild_id: Snowflake;
  member_count: number;
  added_members?: ThreadMember[];
  removed_member_ids?: Snowflake[];
}

export interface ThreadMetadata {
  archived: boolean;
  auto_archive_duration: number;
  archive_timestamp: string;
  locked: boolean;
  invitable?: boolean;
  create_timestamp: string;
}

/** Metadata of a trigger; the type decides which there are. */
export interface TriggerMetadata {
  keyword_filter?: string[];
  regex_patterns?: string[];
  presets?: number[];
  allow_list?: string[];
  mention_total_limit?: number;
  mention_raid_protection_enabled?: boolean;
}

export interface Typing {
  channel_id: Snowflake;
  guild_id?: Snowflake;
  user_id: Snowflake;
  timestamp: number;
  member?: Member;
}

/** A guild that is not loaded or has an outage, or (without the key) one that the recipient has left. */
export interface UnavailableGuild {
  id: Snowflake;
  /** `Some(true)` for an outage, none for "you are no longer a member". */
  unavailable?: boolean;
}

/**
 * A user inside another object. Events do not have the last two keys: no client needs them there, and each event
 * would be 31 bytes longer.
 */
export interface User {
  id: Snowflake;
  username: string;
  discriminator: string;
  global_name: string | null;
  avatar: string | null;
  bot?: boolean;
  public_flags: number;
  avatar_decoration_data: null;
  flags?: number;
  /** `Some(())` is null: guild tags are not supported. */
  primary_guild?: null;
}

export type UserReady = UserReadyFields;

export interface UserReadyFields extends ReadyStart, ReadyRest {
  guilds: (GatewayGuild | AbsentGuild)[];
}

export interface UserRef {
  id: Snowflake;
}

export interface VoiceFields {
  bitrate: number;
  user_limit: number;
  rtc_region: null;
}

export interface VoiceServer {
  token: string;
  guild_id: Snowflake;
  endpoint: string | null;
}

/** A voice state. Only VOICE_STATE_UPDATE has `guild_id` and `member`. */
export interface VoiceState {
  guild_id?: Snowflake;
  channel_id: Snowflake | null;
  user_id: Snowflake;
  member?: Member;
  session_id: string;
  deaf: boolean;
  mute: boolean;
  self_deaf: boolean;
  self_mute: boolean;
  self_video: boolean;
  self_stream: boolean;
  suppress: boolean;
  request_to_speak_timestamp: string | null;
}

/** Number of votes for one answer of a poll. */
export interface VoteCount {
  /** Number of the answer. */
  id: number;
  count: number;
  /** One of them is the recipient's. False in events, which all recipients share. */
  me_voted: boolean;
}

export interface Webhook {
  id: Snowflake;
  type: number;
  guild_id: Snowflake;
  channel_id: Snowflake;
  user?: User;
  name: string;
  avatar: string | null;
  token?: string;
  application_id: Snowflake | null;
  source_guild?: SourceGuild;
  source_channel?: SourceChannel;
}

export interface WebhooksUpdate {
  guild_id: Snowflake;
  channel_id: Snowflake;
}

export interface WelcomeChannel {
  channel_id: Snowflake;
  description: string;
  emoji_id: Snowflake | null;
  emoji_name: string | null;
}

/** Welcome screen of a guild. */
export interface WelcomeScreen {
  description: string | null;
  welcome_channels: WelcomeChannel[];
}

/** Body of each event that the gateway sends. */
export interface EventBodies {
  READY: BotReady | UserReady;
  READY_SUPPLEMENTAL: ReadySupplemental;
  RESUMED: { [key: string]: never };
  RATE_LIMITED: RateLimited;
  GUILD_CREATE: GatewayGuild;
  GUILD_UPDATE: Guild;
  GUILD_DELETE: UnavailableGuild;
  GUILD_ROLE_CREATE: RoleEvent;
  GUILD_ROLE_UPDATE: RoleEvent;
  GUILD_ROLE_DELETE: RoleDelete;
  GUILD_BAN_ADD: GuildBan;
  GUILD_BAN_REMOVE: GuildBan;
  GUILD_AUDIT_LOG_ENTRY_CREATE: AuditEntry;
  GUILD_EMOJIS_UPDATE: GuildEmojis;
  GUILD_STICKERS_UPDATE: GuildStickers;
  INVITE_CREATE: InviteEvent;
  INVITE_DELETE: InviteDelete;
  WEBHOOKS_UPDATE: WebhooksUpdate;
  GUILD_SCHEDULED_EVENT_CREATE: ScheduledEvent;
  GUILD_SCHEDULED_EVENT_UPDATE: ScheduledEvent;
  GUILD_SCHEDULED_EVENT_DELETE: ScheduledEvent;
  GUILD_SCHEDULED_EVENT_USER_ADD: ScheduledEventUser;
  GUILD_SCHEDULED_EVENT_USER_REMOVE: ScheduledEventUser;
  STAGE_INSTANCE_CREATE: StageInstance;
  STAGE_INSTANCE_UPDATE: StageInstance;
  STAGE_INSTANCE_DELETE: StageInstance;
  CHANNEL_PINS_UPDATE: ChannelPins;
  THREAD_CREATE: Thread;
  THREAD_UPDATE: Thread;
  THREAD_DELETE: ThreadDelete;
  THREAD_MEMBER_UPDATE: ThreadMember;
  THREAD_MEMBERS_UPDATE: ThreadMembers;
  THREAD_MEMBER_LIST_UPDATE: ThreadMemberList;
  USER_UPDATE: SelfUser;
  CHANNEL_CREATE: Channel | DirectChannel;
  CHANNEL_UPDATE: Channel | DirectChannel;
  CHANNEL_DELETE: Channel | DirectChannel;
  CHANNEL_RECIPIENT_ADD: ChannelRecipient;
  CHANNEL_RECIPIENT_REMOVE: ChannelRecipient;
  CHANNEL_MEMBER_COUNT_UPDATE: ChannelMemberCountUpdate;
  CHANNEL_INFO: ChannelInfo;
  CHANNEL_STATUSES: ChannelStatuses;
  CHANNEL_SYNC: ChannelSync;
  THREAD_LIST_SYNC: ThreadListSync;
  DELETED_ENTITY_IDS: DeletedEntityIds;
  SOUNDBOARD_SOUNDS: SoundboardSounds;
  SESSIONS_REPLACE: (AccountSession | AllSessions)[];
  GUILD_MEMBER_ADD: MemberUpdate;
  GUILD_MEMBER_UPDATE: MemberUpdate;
  GUILD_MEMBER_REMOVE: MemberRemove;
  GUILD_MEMBERS_CHUNK: GuildMembersChunk;
  GUILD_MEMBER_LIST_UPDATE: MemberListUpdate;
  PRESENCE_UPDATE: Presence;
  MESSAGE_CREATE: Message;
  MESSAGE_UPDATE: Message;
  MESSAGE_DELETE: MessageDelete;
  MESSAGE_DELETE_BULK: MessageDeleteBulk;
  LAST_MESSAGES: LastMessages;
  MESSAGE_REACTION_ADD: ReactionEvent;
  MESSAGE_REACTION_REMOVE: ReactionEvent;
  MESSAGE_REACTION_REMOVE_ALL: ReactionsCleared;
  MESSAGE_REACTION_REMOVE_EMOJI: ReactionsCleared;
  MESSAGE_POLL_VOTE_ADD: PollVote;
  MESSAGE_POLL_VOTE_REMOVE: PollVote;
  AUTO_MODERATION_RULE_CREATE: AutoModRule;
  AUTO_MODERATION_RULE_UPDATE: AutoModRule;
  AUTO_MODERATION_RULE_DELETE: AutoModRule;
  AUTO_MODERATION_ACTION_EXECUTION: AutoModExecution;
  TYPING_START: Typing;
  VOICE_STATE_UPDATE: VoiceState;
  VOICE_SERVER_UPDATE: VoiceServer;
  INTERACTION_CREATE: InteractionEvent;
  INTERACTION_SUCCESS: InteractionEvent;
  INTERACTION_FAILURE: InteractionEvent;
  INTERACTION_MODAL_CREATE: InteractionEvent;
  APPLICATION_COMMAND_AUTOCOMPLETE_RESPONSE: { choices: { name: string; value: string | number }[]; nonce: string | number | null };
  APPLICATION_COMMAND_PERMISSIONS_UPDATE: InteractionEvent;
  PASSIVE_UPDATE_V1: PassiveUpdateV1;
  PASSIVE_UPDATE_V2: PassiveUpdateV2;
  CHANNEL_UNREAD_UPDATE: ChannelUnreadUpdate;
  MESSAGE_ACK: MessageAck;
  CHANNEL_PINS_ACK: ChannelPinsAck;
  USER_GUILD_SETTINGS_UPDATE: NotificationSettings;
  RELATIONSHIP_ADD: Relationship;
  RELATIONSHIP_UPDATE: RelationshipChange;
  RELATIONSHIP_REMOVE: RelationshipChange;
}
