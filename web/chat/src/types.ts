// The part of the wire's objects that this page reads. Objects of the SDK's cache are used as they are.

import type * as sdk from "@guildhall/sdk";

export type Id = string;

export type User = Pick<sdk.User, "id" | "username" | "global_name" | "avatar" | "bot">;
export type Member = { user: User } & Pick<sdk.Member, "roles" | "joined_at"> & { nick: string | null };
export type Role = Pick<sdk.Role, "id" | "name" | "color" | "position" | "permissions">;
/** A channel, thread or direct message of the SDK's cache, or of an answer. */
export interface Channel {
  id: Id; guild_id?: Id; type: number; name?: string | null; topic?: string | null; position?: number; parent_id?: Id | null;
  permission_overwrites?: sdk.Overwrite[]; last_message_id?: Id | null; recipients?: User[];
  thread_metadata?: { archived: boolean; locked: boolean }; message_count?: number;
}
export type Presence = Pick<sdk.Presence, "status" | "activities">;
export interface Emoji { id: Id | null; name: string; animated?: boolean }
export interface Reaction { emoji: Emoji; count: number; me: boolean }
export interface Attachment { id: Id; filename: string; size: number; url: string; proxy_url?: string; content_type?: string; width?: number | null; height?: number | null; description?: string | null }
export interface Sticker { id: Id; name: string; format_type: number }
export interface Embed {
  title?: string; description?: string; url?: string; timestamp?: string; color?: number; fields?: { name: string; value: string; inline: boolean }[];
  author?: { name: string; url?: string; icon_url?: string }; footer?: { text: string; icon_url?: string }; image?: { url: string }; thumbnail?: { url: string };
}
export interface Message {
  id: Id; channel_id: Id; guild_id?: Id; author: User; content: string; timestamp: string; edited_timestamp: string | null; type: number; pinned: boolean;
  mentions: User[]; mention_roles: Id[]; mention_everyone: boolean; attachments: Attachment[]; reactions?: Reaction[]; nonce?: string | number;
  message_reference?: { message_id?: Id; channel_id?: Id }; referenced_message?: Message | null; thread?: Channel; member?: Omit<Member, "user">;
  embeds?: Embed[]; flags?: number; sticker_items?: Sticker[];
  components?: unknown[];
  application_id?: Id; interaction_metadata?: { type: number; name?: string; user: User }; interaction?: { name: string; user: User };
  /** Of this page: not acknowledged by the node yet, or refused; and its files. */
  state?: "sending" | "failed"; error?: string; files?: File[];
}
export type ReadState = Pick<sdk.ReadState, "id" | "last_message_id" | "mention_count">;
export type NotificationSettings = Pick<sdk.NotificationSettings, "guild_id" | "muted" | "mute_config" | "suppress_everyone" | "suppress_roles"> & {
  channel_overrides: Pick<sdk.ChannelOverride, "channel_id" | "muted" | "mute_config">[];
};
/** Start of the ids' clock. */
export const EPOCH_MS = 1_420_070_400_000;
export const TEXT = 0, DM = 1, VOICE = 2, GROUP = 3, CATEGORY = 4, ANNOUNCEMENT = 5, STAGE = 13;
export const isThread = (channel: Channel): boolean => channel.type >= 10 && channel.type <= 12;
export const isVoice = (channel: Channel): boolean => channel.type === VOICE || channel.type === STAGE;
export const isDirect = (channel: Channel): boolean => channel.type === DM || channel.type === GROUP;
export const holdsMessages = (channel: Channel): boolean => channel.type !== CATEGORY;

const EPHEMERAL = 1 << 6, LOADING = 1 << 7;
/** Whether nobody but the reader sees a message, and no history has it. */
export const isEphemeral = (message: Message): boolean => ((message.flags ?? 0) & EPHEMERAL) !== 0;
/** Whether the application has not given its answer yet. */
export const isLoading = (message: Message): boolean => ((message.flags ?? 0) & LOADING) !== 0;
/** Whether the channel's history has a message. */
export const isStored = (message: Message): boolean => !message.state && !isEphemeral(message);

/** Snowflakes are compared as numbers of any length. */
export const isNewer = (a: Id | null | undefined, b: Id | null | undefined): boolean =>
  !!a && (!b || (a.length === b.length ? a > b : a.length > b.length));
