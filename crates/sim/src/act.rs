//! Actions: the initial accounts and guild, commands, and behaviour of clients. All of it is drawn from the seed.

mod backend;
mod clients;
mod commands;
mod directs;
mod friends;
mod moderation;
mod resource_actions;
mod setup;
mod threads;

pub use setup::setup;

use crate::{checker::Fault, client::Phase, world::World};
use guildhall_guild::{Actor, Command, NewRole};
use guildhall_guild_protocol::{RelayMessage, ToRelay};
use guildhall_model::{ChannelId, GuildId, InviteCode, MessageId, Permissions, Role, RoleId, User, UserId};
use guildhall_stdx::Rng;
use guildhall_test_kit::{FakeSocket, id};
use resource_actions::KnownResources;
use std::{collections::VecDeque, sync::Arc};

const GUILD: GuildId = id(1);

/// Heartbeats are sent at least so often; overdue after 61,875 ms.
const BEAT_MS: u64 = 30_000;

/// Actions so far that later ones refer to.
#[derive(Debug, Default)]
pub struct Actions {
    messages: VecDeque<SentMessage>,
    messages_count: u64,
    invites: VecDeque<InviteCode>,
    kept: KnownResources,
    published: u64,
    /// Connections that moved.
    pub moved: u64,
}

/// A message that was sent.
#[derive(Clone, Copy, Debug)]
struct SentMessage {
    channel: ChannelId,
    message: MessageId,
    author: UserId,
}

impl Actions {
    /// Decides how much a socket takes.
    pub fn shape(&self, rng: &mut Rng, is_calm: bool, socket: &FakeSocket) {
        if is_calm || rng.chance(0.6) {
            return;
        }
        socket.set_room(*rng.pick(&[64, 700, 3_000, 20_000]).expect("there are some"));
        if rng.chance(0.5) {
            socket.set_write_max(1 + rng.below(900) as usize);
        }
    }
}

fn some_permissions(rng: &mut Rng) -> Permissions {
    let odds = [
        (Permissions::VIEW_CHANNEL, 0.6),
        (Permissions::SEND_MESSAGES, 0.7),
        (Permissions::READ_MESSAGE_HISTORY, 0.8),
        (Permissions::ADD_REACTIONS, 0.7),
        (Permissions::EMBED_LINKS, 0.7),
        (Permissions::CONNECT, 0.7),
        (Permissions::MENTION_EVERYONE, 0.3),
        (Permissions::MANAGE_MESSAGES, 0.2),
        (Permissions::CREATE_PUBLIC_THREADS, 0.6),
        (Permissions::CREATE_PRIVATE_THREADS, 0.6),
        (Permissions::SEND_MESSAGES_IN_THREADS, 0.7),
        (Permissions::MANAGE_THREADS, 0.15),
        (Permissions::MANAGE_WEBHOOKS, 0.2),
        (Permissions::CREATE_INSTANT_INVITE, 0.4),
        (Permissions::PIN_MESSAGES, 0.2),
        (Permissions::VIEW_AUDIT_LOG, 0.15),
        (Permissions::MODERATE_MEMBERS, 0.1),
        (Permissions::BAN_MEMBERS, 0.1),
        (Permissions::KICK_MEMBERS, 0.1),
        (Permissions::MANAGE_ROLES, 0.1),
        (Permissions::MANAGE_CHANNELS, 0.1),
        (Permissions::ADMINISTRATOR, 0.04),
    ];
    let drawn = odds.into_iter().filter(|(_, p)| rng.chance(*p));
    drawn.fold(Permissions::NONE, |all, (bit, _)| all | bit)
}

fn role(role_id: RoleId, permissions: Permissions) -> Role {
    Role {
        id: role_id,
        name: format!("role {}", role_id.get() % 1_000),
        color: 0,
        hoist: role_id.get().is_multiple_of(3),
        position: i32::from(role_id != GUILD.cast()),
        permissions,
        managed: false,
        mentionable: role_id.get().is_multiple_of(2),
        icon: None,
    }
}

fn new_role(permissions: Permissions) -> NewRole {
    NewRole {
        id: None,
        name: "role 0".to_owned(),
        color: 0,
        hoist: true,
        position: 1,
        permissions,
        managed: false,
        mentionable: true,
        icon: None,
    }
}

/// A message to a relay in a few words.
pub fn brief(message: &ToRelay) -> String {
    let what = match &message.message {
        RelayMessage::Snapshot { reset, .. } => format!("snapshot, reset {reset}"),
        RelayMessage::Published(published) => published.event.name.as_str().to_owned(),
        RelayMessage::Attached { session, view } => format!("attached {session:?} {}", view.is_some()),
        RelayMessage::Transferred { session, .. } => format!("transferred {session:?}"),
        RelayMessage::Unavailable { session } => format!("unavailable {session:?}"),
        RelayMessage::List(update) => format!("list {}", update.list),
        RelayMessage::Direct { session, event } => format!("{} for {session:?}", event.name.as_str()),
        RelayMessage::Members { session, .. } => format!("members for {session:?}"),
        RelayMessage::Canary(canary) => format!("canary {}", canary.number),
    };
    format!("relay {} {}/{} {what}", message.relay.index, message.epoch, message.seq)
}

impl World {
    /// Does one random action.
    pub fn act(&mut self) -> Result<(), Fault> {
        match self.rng.below(100) {
            0..46 => self.random_command()?,
            46..55 => self.act_in_directs()?,
            55..90 => {
                let client = self.rng.below(self.clients.len() as u64) as usize;
                self.client_acts(client);
            }
            90 => self.storm()?,
            92..96 => self.act_among_friends()?,
            91 if self.rng.chance(0.3) => self.restart()?,
            _ => {}
        }
        for at in 0..self.clients.len() {
            match self.clients[at].phase {
                Phase::Offline if self.rng.chance(0.04) => self.client_acts(at),
                Phase::Greeted if self.rng.chance(0.5) => self.client_acts(at),
                _ => {}
            }
        }
        let ms = match self.rng.below(1_000) {
            0..850 => self.rng.below(300),
            850..970 => self.rng.below(8_000),
            970..996 => 20_000 + self.rng.below(8_000),
            996..999 => 70_000,
            _ => 200_000,
        };
        self.advance(ms)
    }

    /// All online accounts change their presence at once, and clients outside connect.
    fn storm(&mut self) -> Result<(), Fault> {
        for at in 0..self.clients.len() {
            if self.clients[at].phase == Phase::Live {
                self.show(at);
            }
        }
        let outside = |user: &&Arc<User>| !self.checker.state.members.contains_key(&user.id.get());
        let joining: Vec<Arc<User>> = self.accounts.iter().filter(outside).cloned().collect();
        for user in joining {
            self.command(Actor::System, &Command::AddMember(user))?;
        }
        Ok(())
    }

    /// Sends the heartbeats that are due.
    pub fn beat(&mut self) {
        let now = self.now().instant.0;
        for client in &mut self.clients {
            let Some(wire) = &mut client.wire else { continue };
            if !matches!(client.phase, Phase::Live) || now - client.last_beat_ms < BEAT_MS {
                continue;
            }
            client.last_beat_ms = now;
            client.beats.push_back((client.session, client.seq));
            wire.send(1, &client.seq.into());
            if let Some(session) = client.session {
                self.checker.sessions[session].claims(client.seq);
            }
        }
    }
}
