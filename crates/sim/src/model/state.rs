//! The guild as its own events describe it.

use super::ThreadModel;
use guildhall_guild::GuildRecord;
use guildhall_guild_protocol::{GuildReplica, Payload, ResourcePayload, VoiceEntry};
use guildhall_model::{Channel, GuildResource, Member, OverwriteKind, Role};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    rc::Rc,
};

/// A permission overwrite: its role or member, and its permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverwriteModel {
    pub id: u64,
    pub is_member: bool,
    pub allow: u64,
    pub deny: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelModel {
    pub kind: u8,
    pub name: String,
    pub parent: Option<u64>,
    pub overwrites: Vec<OverwriteModel>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberModel {
    pub nick: Option<String>,
    pub roles: Vec<u64>,
    /// End of a time-out, Unix milliseconds.
    pub silenced_until: i64,
    pub is_quarantined: bool,
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
    pub channels: BTreeMap<u64, ChannelModel>,
    pub members: BTreeMap<u64, MemberModel>,
    /// Presences of members who are not offline: status, and number of activities.
    pub presences: BTreeMap<u64, (&'static str, usize)>,
    /// Channel and session of each user in voice.
    pub voice: BTreeMap<u64, (u64, String)>,
    pub last_messages: BTreeMap<u64, u64>,
    /// Open ones and closed ones.
    pub threads: BTreeMap<u64, ThreadModel>,
    /// Banned users.
    pub bans: BTreeSet<u64>,
    pub is_deleted: bool,
    /// Cached viewers of a channel.
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

fn naive_channel(channel: &Channel) -> ChannelModel {
    let overwrites = channel.overwrites.iter().map(|overwrite| {
        let (id, is_member) = match overwrite.target {
            OverwriteKind::Role(id) => (id.get(), false),
            OverwriteKind::Member(id) => (id.get(), true),
        };
        OverwriteModel { id, is_member, allow: overwrite.allow.0, deny: overwrite.deny.0 }
    });
    ChannelModel {
        kind: channel.kind as u8,
        name: channel.name.clone(),
        parent: channel.parent_id.map(|id| id.get()),
        overwrites: overwrites.collect(),
    }
}

fn naive_member(member: &Member) -> MemberModel {
    MemberModel {
        nick: member.nick.as_deref().map(str::to_owned),
        roles: member.roles.iter().map(|role| role.get()).collect(),
        silenced_until: member.communication_disabled_until.map_or(0, |until| until.0),
        is_quarantined: member.flags & (1 << 7 | 1 << 10) != 0,
    }
}

impl State {
    /// The guild as it was stored.
    pub fn of(record: &GuildRecord) -> Self {
        let (threads, channels): (Vec<&Channel>, Vec<&Channel>) =
            record.channels.iter().partition(|channel| channel.thread.is_some());
        let inside = |thread: &Channel| {
            let members = record.resources.iter().filter_map(|resource| match resource {
                GuildResource::ThreadMember(member) => Some(*member),
                _ => None,
            });
            let thread_id = thread.id;
            members.filter(move |member| member.thread_id == thread_id).map(|member| member.user_id)
        };
        Self {
            guild_id: record.guild.id.get(),
            name: record.guild.name.clone(),
            owner: record.guild.owner_id.get(),
            roles: record.roles.iter().map(|role| (role.id.get(), role.permissions.0)).collect(),
            hoisted: record.roles.iter().filter(|role| role.hoist).map(|role| (role.id.get(), role.position)).collect(),
            channels: channels.iter().map(|channel| (channel.id.get(), naive_channel(channel))).collect(),
            threads: threads.iter().map(|thread| (thread.id.get(), ThreadModel::new(thread, inside(thread)))).collect(),
            members: record.members.iter().map(|member| (member.user.id.get(), naive_member(member))).collect(),
            ..Self::default()
        }
    }

    /// Whether `apply` would do anything.
    pub fn is_changed_by(name: &str, payload: &Payload) -> bool {
        match payload {
            Payload::Message(_) => name == "MESSAGE_CREATE",
            Payload::Resource(resource) => matches!(
                **resource,
                ResourcePayload::Ban { .. }
                    | ResourcePayload::Thread(_)
                    | ResourcePayload::ThreadGone(_)
                    | ResourcePayload::ThreadMembers { .. }
            ),
            Payload::MessageDelete { .. }
            | Payload::Reaction(_)
            | Payload::ReactionsCleared { .. }
            | Payload::Typing { .. }
            | Payload::VoiceServer { .. }
            | Payload::Presence { .. } => false,
            _ => true,
        }
    }

    /// Applies an event.
    pub fn apply(&mut self, name: &str, payload: &Payload) {
        // Visibility does not change.
        if !matches!(payload, Payload::Message(_) | Payload::Voice { .. } | Payload::Resource(_)) {
            self.viewers.take();
        }
        match payload {
            Payload::Message(event)
                if name == "MESSAGE_CREATE" && !self.threads.contains_key(&event.message.channel_id.get()) =>
            {
                self.last_messages.insert(event.message.channel_id.get(), event.message.id.get());
            }
            Payload::Guild(structure) => {
                self.name.clone_from(&structure.guild.name);
                self.owner = structure.guild.owner_id.get();
            }
            Payload::GuildGone => self.is_deleted = true,
            Payload::Role(role) => self.put_role(role),
            Payload::RoleDelete(id) => {
                self.roles.remove(&id.get());
                self.hoisted.remove(&id.get());
                // All members lose the role, without an event for each.
                self.members.values_mut().for_each(|member| member.roles.retain(|role| *role != id.get()));
                // So are its overwrites: the events that remove them follow, but nothing depends on them any more, and
                // their channels have other lists from now on.
                for channel in self.channels.values_mut() {
                    channel.overwrites.retain(|overwrite| overwrite.is_member || overwrite.id != id.get());
                }
            }
            Payload::Channel(channel) if name == "CHANNEL_DELETE" => {
                self.channels.remove(&channel.id.get());
                self.last_messages.remove(&channel.id.get());
                self.threads.retain(|_, thread| thread.parent != channel.id.get());
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
            Payload::Resource(resource) => match &**resource {
                ResourcePayload::Ban { user, delete_message_s: Some(_) } => drop(self.bans.insert(user.id.get())),
                ResourcePayload::Ban { user, delete_message_s: None } => drop(self.bans.remove(&user.id.get())),
                of_thread => self.apply_to_threads(of_thread),
            },
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
            // Presences follow from the statuses that sessions sent (`PresenceModel`).
            | Payload::Presence { .. }
            | Payload::PassiveDelta(_)
            | Payload::PassiveSnapshot(_)
            | Payload::Unread(_)
            | Payload::ChannelMemberCount { .. }
            | Payload::MemberList(_)
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

    /// Whether the store has the published state, except for state that ends with the process. The model does not know
    /// deleted messages.
    pub fn is_stored_as(&self, published: &Self) -> Result<(), String> {
        let parts = |state: &Self| {
            let Self { name, owner, hoisted, roles, channels, threads, members, .. } = state;
            [
                format!("{name:?} {owner} {hoisted:?} {roles:?}"),
                format!("{channels:?} {threads:?}"),
                format!("{members:?}"),
            ]
        };
        match parts(self).into_iter().zip(parts(published)).find(|(stored, published)| stored != published) {
            Some((stored, published)) => Err(format!("stored is {stored}, but published was {published}")),
            None => Ok(()),
        }
    }

    /// Whether a relay's replica equals this state in everything that decides about recipients: deleted channels,
    /// overwrites, roles.
    pub fn agrees_with(&self, replica: &GuildReplica) -> Result<(), String> {
        let structure = &replica.structure;
        let roles: BTreeMap<u64, u64> =
            structure.roles.values().map(|role| (role.id.get(), role.permissions.0)).collect();
        let channels: BTreeMap<u64, ChannelModel> =
            structure.channels.values().map(|channel| (channel.id.get(), naive_channel(channel))).collect();
        if structure.guild.owner_id.get() != self.owner {
            return Err(format!("owner {} instead of {}", structure.guild.owner_id, self.owner));
        }
        if roles != self.roles {
            return Err(format!("roles {roles:?} instead of {:?}", self.roles));
        }
        if channels != self.channels {
            return Err(format!("channels {channels:?} instead of {:?}", self.channels));
        }
        let threads: BTreeMap<u64, ThreadModel> = (replica.threads.iter())
            .map(|(id, entry)| (id.get(), ThreadModel::new(&entry.channel, entry.members.keys().copied())))
            .collect();
        if threads != self.threads {
            return Err(format!("threads {threads:?} instead of {:?}", self.threads));
        }
        let last_messages: BTreeMap<u64, u64> =
            replica.last_message_ids.iter().map(|(channel, message)| (channel.get(), message.get())).collect();
        if last_messages != self.last_messages {
            return Err(format!("newest messages {last_messages:?} instead of {:?}", self.last_messages));
        }
        let channel_of = |entry: &VoiceEntry| entry.state.channel_id.map_or(0, |channel| channel.get());
        let voice = replica.voice.iter().map(|(_, entry)| (entry.state.user_id.get(), channel_of(entry)));
        if !voice.eq(self.voice.iter().map(|(user, (channel, _))| (*user, *channel))) {
            return Err(format!("voice {:?} instead of {:?}", replica.voice, self.voice));
        }
        Ok(())
    }

    /// Whether a user sees another in voice: in channels that they can view, and themselves.
    pub fn shows_in_voice(&self, reader: u64, user: u64) -> bool {
        let channel = self.voice.get(&user).map(|(channel, _)| *channel);
        channel.is_some_and(|channel| user == reader || self.viewers(channel).contains(&reader))
    }

    /// Members who can view a channel; empty if the channel does not exist.
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
