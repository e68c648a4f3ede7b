//! The guild as told by its own events, and the permission algorithm of docs/protocol.md §5.2.

use guildhall_guild::GuildRecord;
use guildhall_model::{Channel, Member, OverwriteKind, Role};
use guildhall_relay::{GuildPicture, Payload, VoiceEntry};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

const ALL: u64 = 8_866_461_766_385_663;
const ADMINISTRATOR: u64 = 1 << 3;
const VIEW_CHANNEL: u64 = 1 << 10;
const READ_MESSAGE_HISTORY: u64 = 1 << 16;

/// A permission overwrite: whose, for a member instead of a role, what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NaiveOverwrite {
    pub id: u64,
    pub is_member: bool,
    pub allow: u64,
    pub deny: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NaiveChannel {
    pub kind: u8,
    pub name: String,
    pub parent: Option<u64>,
    pub overwrites: Vec<NaiveOverwrite>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NaiveMember {
    pub nick: Option<String>,
    pub roles: Vec<u64>,
    /// End of a time-out, Unix milliseconds.
    pub silenced_until: i64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub guild_id: u64,
    pub name: String,
    pub owner: u64,
    /// Permissions by role.
    pub roles: BTreeMap<u64, u64>,
    /// Positions of the roles whose members are listed apart.
    pub hoisted: BTreeMap<u64, i32>,
    pub channels: BTreeMap<u64, NaiveChannel>,
    pub members: BTreeMap<u64, NaiveMember>,
    /// What members show who are not offline: status, and how many activities.
    pub presences: BTreeMap<u64, (&'static str, usize)>,
    /// Channel and session of who is in voice.
    pub voice: BTreeMap<u64, (u64, String)>,
    pub last_messages: BTreeMap<u64, u64>,
    pub is_deleted: bool,
    /// Who sees a channel, as far as somebody asked.
    viewers: RefCell<BTreeMap<u64, Rc<BTreeSet<u64>>>>,
}

pub fn status_text(status: guildhall_model::Status) -> &'static str {
    match status {
        guildhall_model::Status::Offline => "offline",
        guildhall_model::Status::Idle => "idle",
        guildhall_model::Status::Online => "online",
        guildhall_model::Status::Dnd => "dnd",
    }
}

fn naive_channel(channel: &Channel) -> NaiveChannel {
    let overwrites = channel.overwrites.iter().map(|overwrite| {
        let (id, is_member) = match overwrite.target {
            OverwriteKind::Role(id) => (id.get(), false),
            OverwriteKind::Member(id) => (id.get(), true),
        };
        NaiveOverwrite { id, is_member, allow: overwrite.allow.0, deny: overwrite.deny.0 }
    });
    NaiveChannel {
        kind: channel.kind as u8,
        name: channel.name.clone(),
        parent: channel.parent_id.map(|id| id.get()),
        overwrites: overwrites.collect(),
    }
}

fn naive_member(member: &Member) -> NaiveMember {
    NaiveMember {
        nick: member.nick.clone(),
        roles: member.roles.iter().map(|role| role.get()).collect(),
        silenced_until: member.communication_disabled_until.map_or(0, |until| until.0),
    }
}

impl State {
    /// The guild as it was stored.
    pub fn of(record: &GuildRecord) -> Self {
        Self {
            guild_id: record.guild.id.get(),
            name: record.guild.name.clone(),
            owner: record.guild.owner_id.get(),
            roles: record.roles.iter().map(|role| (role.id.get(), role.permissions.0)).collect(),
            hoisted: record.roles.iter().filter(|role| role.hoist).map(|role| (role.id.get(), role.position)).collect(),
            channels: record.channels.iter().map(|channel| (channel.id.get(), naive_channel(channel))).collect(),
            members: record.members.iter().map(|member| (member.user.id.get(), naive_member(member))).collect(),
            ..Self::default()
        }
    }

    /// Whether `apply` would do anything.
    pub fn is_changed_by(name: &str, payload: &Payload) -> bool {
        match payload {
            Payload::Message(_) => name == "MESSAGE_CREATE",
            Payload::MessageDelete { .. }
            | Payload::Reaction(_)
            | Payload::ReactionsCleared { .. }
            | Payload::Typing { .. }
            | Payload::VoiceServer { .. }
            | Payload::Presence { .. } => false,
            _ => true,
        }
    }

    /// Takes in what an event says.
    pub fn apply(&mut self, name: &str, payload: &Payload) {
        self.viewers.take();
        match payload {
            Payload::Message(event) if name == "MESSAGE_CREATE" => {
                self.last_messages.insert(event.message.channel_id.get(), event.message.id.get());
            }
            Payload::Guild(meta) => {
                self.name.clone_from(&meta.guild.name);
                self.owner = meta.guild.owner_id.get();
            }
            Payload::GuildGone => self.is_deleted = true,
            Payload::Role(role) => self.put_role(role),
            Payload::RoleDelete(id) => {
                self.roles.remove(&id.get());
                self.hoisted.remove(&id.get());
                // It is taken from everybody who had it, without an event for each.
                self.members.values_mut().for_each(|member| member.roles.retain(|role| *role != id.get()));
                // So are its overwrites: the events that tell them follow, but nobody decides by them any more, and their
                // channels have other lists from now on.
                for channel in self.channels.values_mut() {
                    channel.overwrites.retain(|overwrite| overwrite.is_member || overwrite.id != id.get());
                }
            }
            Payload::Channel(channel) if name == "CHANNEL_DELETE" => {
                self.channels.remove(&channel.id.get());
                self.last_messages.remove(&channel.id.get());
            }
            Payload::Channel(channel) => {
                self.channels.insert(channel.id.get(), naive_channel(channel));
            }
            Payload::Member(member) => {
                self.members.insert(member.user.id.get(), naive_member(member));
            }
            Payload::MemberRemove(user) => {
                self.members.remove(&user.id.get());
                self.presences.remove(&user.id.get());
            }
            Payload::Voice { state, .. } => {
                match state.channel_id {
                    Some(channel) => self.voice.insert(state.user_id.get(), (channel.get(), state.session_id.clone())),
                    None => self.voice.remove(&state.user_id.get()),
                };
            }
            Payload::Message(_)
            | Payload::MessageDelete { .. }
            | Payload::Reaction(_)
            | Payload::ReactionsCleared { .. }
            | Payload::Typing { .. }
            // What members show is known from what their sessions said.
            | Payload::Presence { .. }
            | Payload::PassiveDelta(_)
            | Payload::PassiveSnapshot(_)
            | Payload::Unread(_)
            | Payload::ChannelMemberCount { .. }
            | Payload::MemberList(_)
            | Payload::Notice(_)
            | Payload::Backend(_)
            | Payload::VoiceServer { .. } => {}
        }
    }

    fn put_role(&mut self, role: &Role) {
        self.roles.insert(role.id.get(), role.permissions.0);
        match role.hoist {
            true => self.hoisted.insert(role.id.get(), role.position),
            false => self.hoisted.remove(&role.id.get()),
        };
    }

    /// Whether a snapshot says the same. Channels that were deleted, overwrites, roles: everything relays decide by.
    pub fn agrees_with(&self, picture: &GuildPicture) -> Result<(), String> {
        let meta = &picture.meta;
        let roles: BTreeMap<u64, u64> = meta.roles.values().map(|role| (role.id.get(), role.permissions.0)).collect();
        let channels: BTreeMap<u64, NaiveChannel> =
            meta.channels.values().map(|channel| (channel.id.get(), naive_channel(channel))).collect();
        if meta.guild.owner_id.get() != self.owner {
            return Err(format!("owner {} instead of {}", meta.guild.owner_id, self.owner));
        }
        if roles != self.roles {
            return Err(format!("roles {roles:?} instead of {:?}", self.roles));
        }
        if channels != self.channels {
            return Err(format!("channels {channels:?} instead of {:?}", self.channels));
        }
        let last_messages: BTreeMap<u64, u64> =
            picture.last_message_ids.iter().map(|(channel, message)| (channel.get(), message.get())).collect();
        if last_messages != self.last_messages {
            return Err(format!("newest messages {last_messages:?} instead of {:?}", self.last_messages));
        }
        let channel_of = |entry: &VoiceEntry| entry.state.channel_id.map_or(0, |channel| channel.get());
        let voice = picture.voice.iter().map(|(_, entry)| (entry.state.user_id.get(), channel_of(entry)));
        if !voice.eq(self.voice.iter().map(|(user, (channel, _))| (*user, *channel))) {
            return Err(format!("voice {:?} instead of {:?}", picture.voice, self.voice));
        }
        Ok(())
    }

    // ── docs/protocol.md §5.2 ────────────────────────────────────────────────────────────────────

    fn base(&self, user: u64, member: &NaiveMember) -> u64 {
        if user == self.owner {
            return ALL;
        }
        let mut p = self.roles.get(&self.guild_id).copied().unwrap_or(0);
        for role in &member.roles {
            p |= self.roles.get(role).copied().unwrap_or(0);
        }
        if p & ADMINISTRATOR != 0 { ALL } else { p }
    }

    /// Whether a member can view a channel. Time-outs leave VIEW_CHANNEL, so the time does not matter.
    fn views(&self, user: u64, member: &NaiveMember, channel: &NaiveChannel) -> bool {
        let mut p = self.base(user, member);
        if p & ADMINISTRATOR != 0 {
            return true;
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
        p &= VIEW_CHANNEL | READ_MESSAGE_HISTORY;
        p & VIEW_CHANNEL != 0
    }

    /// Whether a user account may ask for the whole list of members: MANAGE_ROLES, KICK_MEMBERS or BAN_MEMBERS.
    pub fn may_list_members(&self, user: u64, now_unix_ms: i64) -> bool {
        const LISTERS: u64 = 1 << 28 | 1 << 1 | 1 << 2;
        self.members.get(&user).is_some_and(|member| {
            let p = self.base(user, member);
            p & ADMINISTRATOR != 0 || member.silenced_until <= now_unix_ms && p & LISTERS != 0
        })
    }

    /// Whether a user is told that somebody is in voice: those in channels that they can view, and themselves.
    pub fn shows_in_voice(&self, reader: u64, user: u64) -> bool {
        let channel = self.voice.get(&user).map(|(channel, _)| *channel);
        channel.is_some_and(|channel| user == reader || self.viewers(channel).contains(&reader))
    }

    /// Members who can view a channel; nobody can view one that does not exist.
    pub fn viewers(&self, channel: u64) -> Rc<BTreeSet<u64>> {
        if let Some(viewers) = self.viewers.borrow().get(&channel) {
            return viewers.clone();
        }
        let viewers: Rc<BTreeSet<u64>> = Rc::new(match self.channels.get(&channel) {
            Some(channel) => {
                let views = self.members.iter().filter(|(user, member)| self.views(**user, member, channel));
                views.map(|(user, _)| *user).collect()
            }
            None => BTreeSet::new(),
        });
        self.viewers.borrow_mut().insert(channel, viewers.clone());
        viewers
    }
}
