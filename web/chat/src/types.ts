// The part of the wire's objects that this page reads.

export type Id = string;

export interface User { id: Id; username: string; global_name: string | null; avatar: string | null; bot?: boolean }
export interface Member { user: User; nick: string | null; roles: Id[]; joined_at: string; avatar?: string | null; communication_disabled_until?: string | null }
export interface Role { id: Id; name: string; color: number; hoist: boolean; position: number; permissions: string; mentionable: boolean }
export interface Overwrite { id: Id; type: number; allow: string; deny: string }
export interface Channel {
  id: Id; guild_id?: Id; type: number; name: string | null; topic?: string | null; position?: number; parent_id?: Id | null;
  permission_overwrites?: Overwrite[]; last_message_id?: Id | null; recipients?: User[]; owner_id?: Id;
  thread_metadata?: { archived: boolean; locked: boolean }; message_count?: number; rate_limit_per_user?: number; member?: unknown;
}
export interface Activity { name: string; type: number; state?: string | null; details?: string | null }
export interface Presence { status: "online" | "idle" | "dnd" | "offline" | "invisible"; activities: Activity[]; client_status?: Record<string, string> }
export interface VoiceState { user_id: Id; channel_id: Id | null; self_mute?: boolean; self_deaf?: boolean; mute?: boolean; deaf?: boolean; member?: Member }
export interface Emoji { id: Id | null; name: string; animated?: boolean }
export interface Reaction { emoji: Emoji; count: number; me: boolean }
export interface Attachment { id: Id; filename: string; size: number; url: string; proxy_url?: string; content_type?: string; width?: number | null; height?: number | null; description?: string | null }
export interface Message {
  id: Id; channel_id: Id; guild_id?: Id; author: User; content: string; timestamp: string; edited_timestamp: string | null; type: number; pinned: boolean;
  mentions: User[]; mention_roles: Id[]; mention_everyone: boolean; attachments: Attachment[]; reactions?: Reaction[]; nonce?: string | number;
  message_reference?: { message_id?: Id; channel_id?: Id }; referenced_message?: Message | null; thread?: Channel; member?: Omit<Member, "user">;
  embeds?: { title?: string; description?: string; url?: string }[];
  /** Of this page: not acknowledged by the node yet, or refused. */
  state?: "sending" | "failed"; error?: string;
}
export interface WireGuild {
  id: Id; name: string; icon: string | null; owner_id: Id; unavailable?: boolean; roles: Role[]; channels: Channel[]; threads: Channel[];
  members: Member[]; voice_states: VoiceState[]; presences?: (Presence & { user: { id: Id } })[]; member_count: number; description?: string | null;
  emojis?: Emoji[]; large?: boolean;
}

export const TEXT = 0, DM = 1, VOICE = 2, GROUP = 3, CATEGORY = 4, ANNOUNCEMENT = 5, STAGE = 13;
export const isThread = (channel: Channel): boolean => channel.type >= 10 && channel.type <= 12;
export const isVoice = (channel: Channel): boolean => channel.type === VOICE || channel.type === STAGE;
export const isDirect = (channel: Channel): boolean => channel.type === DM || channel.type === GROUP;
export const holdsMessages = (channel: Channel): boolean => channel.type !== CATEGORY;

/** Snowflakes are compared as numbers of any length. */
export const isNewer = (a: Id | null | undefined, b: Id | null | undefined): boolean =>
  !!a && (!b || (a.length === b.length ? a > b : a.length > b.length));
