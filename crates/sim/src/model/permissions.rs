//! The permission algorithm of docs/protocol/reference.md §5.2, and its results.

use super::{ChannelModel, MemberModel, State};

pub const KICK_MEMBERS: u64 = 1 << 1;
pub const BAN_MEMBERS: u64 = 1 << 2;
const ADMINISTRATOR: u64 = 1 << 3;
pub const MANAGE_CHANNELS: u64 = 1 << 4;
pub const MANAGE_GUILD: u64 = 1 << 5;
pub const VIEW_AUDIT_LOG: u64 = 1 << 7;
pub const VIEW_CHANNEL: u64 = 1 << 10;
const READ_MESSAGE_HISTORY: u64 = 1 << 16;
pub const CONNECT: u64 = 1 << 20;
pub const MANAGE_ROLES: u64 = 1 << 28;
pub const MANAGE_WEBHOOKS: u64 = 1 << 29;
pub const MANAGE_THREADS: u64 = 1 << 34;
const ALL: u64 = 8_866_461_766_385_663;
/// What time-outs leave.
const TIMED_OUT: u64 = VIEW_CHANNEL | READ_MESSAGE_HISTORY;

impl State {
    fn base(&self, user: u64, member: &MemberModel) -> u64 {
        if user == self.owner {
            return ALL;
        }
        let mut p = self.roles.get(&self.guild_id).copied().unwrap_or(0);
        for role in &member.roles {
            p |= self.roles.get(role).copied().unwrap_or(0);
        }
        if p & ADMINISTRATOR != 0 { ALL } else { p }
    }

    fn in_channel(&self, user: u64, member: &MemberModel, channel: &ChannelModel, now_unix_ms: i64) -> u64 {
        let mut p = self.base(user, member);
        if p & ADMINISTRATOR != 0 {
            return ALL;
        }
        for o in channel.overwrites.iter().filter(|o| !o.is_member && o.id == self.guild_id) {
            p = p & !o.deny | o.allow;
        }
        let (mut allow, mut deny) = (0, 0);
        for o in channel.overwrites.iter().filter(|o| !o.is_member && member.roles.contains(&o.id)) {
            allow |= o.allow;
            deny |= o.deny;
        }
        p = p & !deny | allow;
        for o in channel.overwrites.iter().filter(|o| o.is_member && o.id == user) {
            p = p & !o.deny | o.allow;
        }
        if member.is_silenced(now_unix_ms) {
            p &= TIMED_OUT;
        }
        if p & VIEW_CHANNEL == 0 {
            return 0;
        }
        // Without CONNECT a user cannot change a voice channel.
        if channel.is_voice() && p & CONNECT == 0 { p & !(MANAGE_CHANNELS | MANAGE_ROLES) } else { p }
    }

    /// Whether a member can view a channel. Time-outs leave VIEW_CHANNEL, so the time does not matter.
    pub(super) fn views(&self, user: u64, member: &MemberModel, channel: &ChannelModel) -> bool {
        self.in_channel(user, member, channel, 0) & VIEW_CHANNEL != 0
    }

    /// Permissions of a member in the guild; none for others.
    pub fn guild_permissions(&self, user: u64, now_unix_ms: i64) -> u64 {
        let Some(member) = self.members.get(&user) else { return 0 };
        let p = self.base(user, member);
        if p & ADMINISTRATOR == 0 && member.is_silenced(now_unix_ms) { p & TIMED_OUT } else { p }
    }

    /// Permissions of a member in a channel; none if one of them does not exist.
    pub fn channel_permissions(&self, user: u64, channel: u64, now_unix_ms: i64) -> u64 {
        match (self.members.get(&user), self.channels.get(&channel)) {
            (Some(member), Some(channel)) => self.in_channel(user, member, channel, now_unix_ms),
            _ => 0,
        }
    }

    /// Whether a member may read earlier messages of a channel or thread.
    pub fn reads_history(&self, user: u64, place: u64, now_unix_ms: i64) -> bool {
        if let Some(thread) = self.threads.get(&place) {
            let of_parent = self.channel_permissions(user, thread.parent, now_unix_ms);
            return of_parent & READ_MESSAGE_HISTORY != 0 && self.sees_place(user, place, now_unix_ms);
        }
        let Some(channel) = self.channels.get(&place) else { return false };
        let needed = VIEW_CHANNEL | READ_MESSAGE_HISTORY | if channel.is_voice() { CONNECT } else { 0 };
        channel.holds_messages() && self.channel_permissions(user, place, now_unix_ms) & needed == needed
    }

    /// Whether a user account may request the whole list of members: MANAGE_ROLES, KICK_MEMBERS or BAN_MEMBERS.
    pub fn may_list_members(&self, user: u64, now_unix_ms: i64) -> bool {
        self.guild_permissions(user, now_unix_ms) & (MANAGE_ROLES | KICK_MEMBERS | BAN_MEMBERS) != 0
    }
}

impl MemberModel {
    /// Under a time-out, or quarantined.
    fn is_silenced(&self, now_unix_ms: i64) -> bool {
        self.is_quarantined || self.silenced_until > now_unix_ms
    }
}

impl ChannelModel {
    pub(super) fn is_voice(&self) -> bool {
        matches!(self.kind, 2 | 13)
    }

    /// Neither a category nor a directory or forum.
    fn holds_messages(&self) -> bool {
        !matches!(self.kind, 4 | 14 | 15 | 16)
    }
}
