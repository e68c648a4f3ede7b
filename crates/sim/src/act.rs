//! What happens: who there is at the start, commands, and what clients do. All of it drawn.

use crate::{
    checker::Fault,
    client::{Claim, Client, Phase},
    world::{SIDES, World},
};
use guildhall_codec::Encoding;
use guildhall_guild::{
    Actor, AllowedMentions, ChannelPatch, Command, GuildPatch, GuildRecord, MemberPatch, MessagePatch, NewChannel,
    NewMessage, Reply, ReplyTo, RolePatch,
};
use guildhall_model::{
    Channel, ChannelId, ChannelType, Guild as GuildFields, GuildId, Member, MessageId, Overwrite, OverwriteKind,
    Permissions, ReactionEmoji, Role, RoleId, User, UserId,
};
use guildhall_partition::Compression;
use guildhall_relay::{RelayMessage, ToRelay};
use guildhall_stdx::{Rng, Timestamp};
use guildhall_test_kit::{ClientParams, FakeSocket, bot, id, identify_payload, privileged, user};
use serde_json::json;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

const GUILD: GuildId = id(1);
const USERS: u64 = 44;
const BOTS: u64 = 14;
const CLIENTS: usize = 64;
const ROLES_MAX: usize = 8;
const CHANNELS_MAX: usize = 10;
const CHANNELS_MIN: usize = 4;
/// Sent at least so often; overdue after 61,875 ms.
const BEAT_MS: u64 = 30_000;
const ALL_INTENTS: u32 = (1 << 29) - 1;
const PRIVILEGED: u32 = 1 << 1 | 1 << 8 | 1 << 15;
const USER_ONLY: u32 = 1 << 18 | 1 << 19 | 1 << 22 | 1 << 23;

/// What was done so far that later deeds refer to.
#[derive(Debug, Default)]
pub struct Actions {
    messages: VecDeque<(ChannelId, MessageId)>,
    said: u64,
    /// Connections that moved.
    pub moved: u64,
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

/// The beginning.
pub struct Setup {
    pub record: GuildRecord,
    pub accounts: Vec<Arc<User>>,
    pub clients: Vec<Client>,
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
        hoist: false,
        position: i32::from(role_id != GUILD.cast()),
        permissions,
        managed: false,
        mentionable: false,
    }
}

pub fn setup(rng: &mut Rng) -> Setup {
    let users = (0..USERS).map(|n| user(700 + n));
    let bots = (0..BOTS).map(|n| if n % 2 == 0 { privileged(800 + n) } else { bot(800 + n) });
    let accounts: Vec<Arc<User>> = users.chain(bots).collect();
    let owner = accounts[0].clone();
    let everyone = Permissions::DEFAULT_EVERYONE;
    let mut roles = vec![role(GUILD.cast(), everyone)];
    roles.extend((2..6).map(|n| role(id(n), some_permissions(rng))));
    let kinds = [
        ChannelType::Text,
        ChannelType::Text,
        ChannelType::Text,
        ChannelType::Announcement,
        ChannelType::Voice,
        ChannelType::Voice,
        ChannelType::Category,
    ];
    let channels = kinds.into_iter().enumerate().map(|(n, kind)| {
        let mut channel = Channel::new(id(10 + n as u64), GUILD, kind, &format!("channel-{n}"));
        if rng.chance(0.5) {
            let everyone = OverwriteKind::Role(GUILD.cast());
            let hidden = Overwrite { target: everyone, allow: Permissions::NONE, deny: Permissions::VIEW_CHANNEL };
            let shown = OverwriteKind::Role(id(2 + rng.below(4)));
            let shown = Overwrite { target: shown, allow: Permissions::VIEW_CHANNEL, deny: Permissions::NONE };
            channel.overwrites = vec![hidden, shown];
        }
        channel
    });
    let channels = channels.collect();
    let mut members: Vec<Arc<Member>> = Vec::new();
    for account in &accounts {
        if account.id == owner.id || rng.chance(0.85) {
            let mut member = Member::new(account.clone(), Timestamp(1_690_000_000_000));
            member.roles = (2..6).map(id).filter(|_| rng.chance(0.25)).collect();
            members.push(Arc::new(member));
        }
    }
    let clients = (0..CLIENTS).map(|_| client(rng, &accounts)).collect();
    let record = GuildRecord { guild: GuildFields::new(GUILD, "guild", owner.id), roles, channels, members };
    Setup { record, accounts, clients }
}

fn client(rng: &mut Rng, accounts: &[Arc<User>]) -> Client {
    let user = rng.pick(accounts).expect("there are accounts").clone();
    let encoding = if rng.chance(0.75) { Encoding::Json } else { Encoding::Etf };
    let compression = match rng.below(10) {
        0 | 1 => Compression::Zlib,
        2 | 3 => Compression::Zstd,
        _ => Compression::None,
    };
    let mut params = ClientParams::new(encoding, compression);
    params.compress_payloads = rng.chance(0.2);
    let intents = match (user.bot, user.application_flags != 0) {
        (true, granted) => {
            let mut intents = ALL_INTENTS & !USER_ONLY;
            if !granted || rng.chance(0.3) {
                intents &= !PRIVILEGED;
            }
            // Fewer groups of events.
            if rng.chance(0.5) {
                intents &= rng.next_u64() as u32 | 1 << 9;
            }
            Some(intents)
        }
        (false, _) if rng.chance(0.7) => None,
        (false, _) => Some(rng.next_u64() as u32 & ALL_INTENTS | 1),
    };
    let shard = match (user.bot, rng.below(4)) {
        (true, 0) => Some((rng.below(2) as u32, 2)),
        (true, 1) => Some((0, 1)),
        _ => None,
    };
    let large_threshold = if rng.chance(0.5) { Some(25 + rng.below(226)) } else { None };
    Client {
        user,
        params,
        intents,
        shard,
        large_threshold,
        wire: None,
        serial: 0,
        phase: Phase::Offline,
        session: None,
        seq: 0,
        beats: VecDeque::new(),
        last_beat_ms: 0,
        is_slow: rng.chance(0.2),
        nonces: 0,
        is_bad: false,
        was_told: false,
    }
}

/// A message to a relay in a few words.
pub fn brief(message: &ToRelay) -> String {
    let what = match &message.message {
        RelayMessage::Snapshot { reset, .. } => format!("snapshot, reset {reset}"),
        RelayMessage::Published(published) => published.event.name.as_str().to_owned(),
        RelayMessage::Attached { session, view } => format!("attached {session:?} {}", view.is_some()),
        RelayMessage::Unavailable { session } => format!("unavailable {session:?}"),
        RelayMessage::Direct { session, event } => format!("{} for {session:?}", event.name.as_str()),
        RelayMessage::Members { session, .. } => format!("members for {session:?}"),
    };
    format!("{}/{} {what}", message.epoch, message.seq)
}

impl World {
    /// One thing happens.
    pub fn act(&mut self) -> Result<(), Fault> {
        match self.rng.below(100) {
            0..55 => self.random_command(),
            55..90 => {
                let client = self.rng.below(self.clients.len() as u64) as usize;
                self.client_acts(client);
            }
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

    /// Clients say that they are there, in time.
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

    // ── clients ──────────────────────────────────────────────────────────────────────────────────

    fn client_acts(&mut self, at: usize) {
        match self.clients[at].phase {
            Phase::Offline => {
                let side = self.rng.below(SIDES as u64) as usize;
                self.connect(at, side);
            }
            Phase::Greeted => self.introduce(at),
            Phase::Live => self.live(at),
            Phase::Connected | Phase::Identifying | Phase::Resuming | Phase::Closing => {
                if self.rng.chance(0.1) {
                    self.vanish(at);
                }
            }
        }
    }

    /// Identifies or resumes.
    fn introduce(&mut self, at: usize) {
        let now = self.now().instant.0;
        let spoils = !self.is_calm && self.rng.chance(0.06);
        let client = &mut self.clients[at];
        let Some(wire) = &mut client.wire else { return };
        let known = client.session.map(|session| self.checker.sessions[session].id.to_string());
        client.last_beat_ms = now;
        let claim = match known {
            Some(mut session_id) => {
                if spoils {
                    match self.rng.below(4) {
                        0 => client.seq += 100_000,
                        1 => client.seq = self.rng.below(client.seq + 1),
                        2 => session_id.replace_range(..4, "0001"),
                        _ => session_id = "f".repeat(32),
                    }
                }
                let seq = client.seq;
                wire.send(6, &json!({"token": client.user.username, "session_id": session_id, "seq": seq}));
                client.phase = Phase::Resuming;
                Claim::Resume { session_id, seq }
            }
            None => {
                let mut d = identify_payload(&client.user.username, client.intents);
                if let Some((id, count)) = client.shard {
                    d["shard"] = json!([id, count]);
                }
                d["large_threshold"] = client.large_threshold.into();
                let status = *self.rng.pick(&["online", "idle", "dnd", "invisible"]).expect("there are some");
                d["presence"] = json!({"status": status, "activities": [], "since": null, "afk": false});
                wire.identify(d);
                client.phase = Phase::Identifying;
                Claim::Identify
            }
        };
        let serial = client.serial as usize;
        self.trace(|| format!("client {at} says {claim:?}"));
        self.conns[serial].claim = claim;
    }

    fn live(&mut self, at: usize) {
        match self.rng.below(100) {
            0..22 => self.vanish(at),
            22..27 => self.say_goodbye(at),
            27..34 => self.close_for_now(at),
            34..38 => {
                // Without telling the old connection.
                let side = self.rng.below(SIDES as u64) as usize;
                self.clients[at].wire = None;
                self.connect(at, side);
            }
            38..52 => self.show(at),
            52..72 => self.move_in_voice(at),
            72..84 => self.ask_for_members(at),
            84..87 => {
                let client = &mut self.clients[at];
                client.is_bad = true;
                if let Some(wire) = &mut client.wire {
                    wire.send(99, &json!(null));
                }
            }
            87..90 => self.clients[at].is_slow ^= true,
            _ => {
                let client = &mut self.clients[at];
                let Some(wire) = &mut client.wire else { return };
                client.beats.push_back((client.session, client.seq));
                wire.send(1, &client.seq.into());
                if let Some(session) = client.session {
                    self.checker.sessions[session].claims(client.seq);
                }
            }
        }
    }

    /// Its network is gone; what was on the way is lost.
    fn vanish(&mut self, at: usize) {
        let client = &mut self.clients[at];
        let Some(wire) = client.wire.take() else { return };
        wire.socket().cut();
        client.phase = Phase::Offline;
    }

    fn say_goodbye(&mut self, at: usize) {
        let code = *self.rng.pick(&[1000, 1001]).expect("there are two");
        let client = &mut self.clients[at];
        if let Some(session) = client.session {
            self.checker.sessions[session].goodbye_on = Some(client.serial);
        }
        let Some(wire) = &mut client.wire else { return };
        wire.close(Some(code));
        client.phase = Phase::Closing;
    }

    fn close_for_now(&mut self, at: usize) {
        let code = *self.rng.pick(&[Some(4000), Some(4200), Some(3000), None]).expect("there are some");
        let client = &mut self.clients[at];
        let Some(wire) = &mut client.wire else { return };
        wire.close(code);
        client.phase = Phase::Closing;
    }

    fn show(&mut self, at: usize) {
        let status = *self.rng.pick(&["online", "idle", "dnd", "invisible"]).expect("there are some");
        let activities = if self.rng.chance(0.3) { json!([{"name": "chess", "type": 0}]) } else { json!([]) };
        if let Some(wire) = &mut self.clients[at].wire {
            wire.send(3, &json!({"status": status, "activities": activities, "since": null, "afk": false}));
        }
    }

    fn move_in_voice(&mut self, at: usize) {
        let state = self.checker.state.clone();
        let voice: Vec<u64> = state.channels.iter().filter(|(_, c)| c.kind == 2).map(|(id, _)| *id).collect();
        let to = if self.rng.chance(0.25) { None } else { self.rng.pick(&voice).map(u64::to_string) };
        let is_muted = self.rng.chance(0.5);
        let d = json!({"guild_id": GUILD.to_string(), "channel_id": to, "self_mute": is_muted, "self_deaf": false});
        if let Some(wire) = &mut self.clients[at].wire {
            wire.send(4, &d);
        }
    }

    fn ask_for_members(&mut self, at: usize) {
        let presences = self.rng.chance(0.5);
        let mut d = json!({"guild_id": GUILD.to_string(), "presences": presences});
        let is_whole = self.rng.chance(0.4);
        match self.rng.below(2) {
            _ if is_whole => (d["query"], d["limit"]) = (json!(""), json!(0)),
            0 => {
                let prefix = *self.rng.pick(&["us", "User 70", "BOT", "nick", "zz"]).expect("there are some");
                (d["query"], d["limit"]) = (json!(prefix), json!(1 + self.rng.below(5)));
            }
            _ => {
                let first = self.rng.below(self.accounts.len() as u64) as usize;
                let wanted = self.accounts.iter().skip(first).take(3).map(|user| user.id.to_string());
                d["user_ids"] = wanted.collect();
            }
        }
        let client = &mut self.clients[at];
        client.nonces += 1;
        let nonce = format!("{at}-{}", client.nonces);
        d["nonce"] = nonce.clone().into();
        let Some(wire) = &mut client.wire else { return };
        wire.send(8, &d);
        if let Some(session) = client.session.filter(|_| is_whole) {
            self.checker.sessions[session].whole_lists.push(nonce);
        }
    }

    /// Everybody comes back.
    pub fn bring_back(&mut self) {
        for at in 0..self.clients.len() {
            match self.clients[at].phase {
                Phase::Offline => {
                    let side = at % SIDES;
                    self.connect(at, side);
                }
                Phase::Greeted => self.introduce(at),
                _ => {}
            }
        }
    }

    // ── commands ─────────────────────────────────────────────────────────────────────────────────

    fn random_command(&mut self) {
        let state = self.checker.state.clone();
        let members: Vec<u64> = state.members.keys().copied().collect();
        let channels: Vec<u64> = state.channels.keys().copied().collect();
        let roles: Vec<u64> = state.roles.keys().copied().filter(|role| *role != GUILD.get()).collect();
        let (Some(member), Some(channel)) = (self.rng.pick(&members).copied(), self.rng.pick(&channels).copied())
        else {
            return;
        };
        let (member, channel): (UserId, ChannelId) = (UserId::new(member), ChannelId::new(channel));
        let some_role = self.rng.pick(&roles).map(|role| RoleId::new(*role));
        let by = Actor::User(member);
        let (actor, command) = match self.rng.below(100) {
            0..34 => return self.say(member, channel),
            34..52 => return self.touch_message(member),
            52..58 => (by, Command::StartTyping(channel)),
            58..62 => {
                let role_id = if self.rng.chance(0.3) { GUILD.cast() } else { some_role.unwrap_or(GUILD.cast()) };
                let permissions = Some(some_permissions(&mut self.rng));
                (
                    Actor::System,
                    Command::UpdateRole(role_id, Box::new(RolePatch { permissions, ..RolePatch::default() })),
                )
            }
            62..64 if state.roles.len() < ROLES_MAX => {
                (Actor::System, Command::CreateRole(Box::new(role(id(999), some_permissions(&mut self.rng)))))
            }
            64..65 => match some_role {
                Some(role) => (Actor::System, Command::DeleteRole(role)),
                None => return,
            },
            65..73 => match some_role {
                Some(role) if self.rng.chance(0.5) => (Actor::System, Command::AddMemberRole(member, role)),
                Some(role) => (Actor::System, Command::RemoveMemberRole(member, role)),
                None => return,
            },
            73..81 => (Actor::System, self.overwrite(channel, member, some_role)),
            81..83 if channels.len() < CHANNELS_MAX => (Actor::System, self.new_channel(&state.channels)),
            83..84 if channels.len() > CHANNELS_MIN => (Actor::System, Command::DeleteChannel(channel)),
            84..86 => {
                let name = Some(format!("renamed-{}", self.rng.below(100)));
                let patch = ChannelPatch { name, ..ChannelPatch::default() };
                (Actor::System, Command::UpdateChannel(channel, Box::new(patch)))
            }
            86..91 => {
                let accounts = &self.accounts;
                let outside: Vec<_> =
                    accounts.iter().filter(|user| !state.members.contains_key(&user.id.get())).collect();
                match self.rng.pick(&outside) {
                    Some(user) => (Actor::System, Command::AddMember((*user).clone())),
                    None => return,
                }
            }
            91..94 => {
                let actor = if self.rng.chance(0.5) { Actor::System } else { by };
                // The owner is not thrown out.
                if member.get() == state.owner {
                    return;
                }
                (actor, Command::RemoveMember(member))
            }
            94..98 => (Actor::System, self.change_member(member)),
            98 => {
                let patch = GuildPatch { owner_id: Some(member), ..GuildPatch::default() };
                (Actor::System, Command::UpdateGuild(Box::new(patch)))
            }
            _ => {
                let name = Some(format!("guild {}", self.rng.below(100)));
                (Actor::System, Command::UpdateGuild(Box::new(GuildPatch { name, ..GuildPatch::default() })))
            }
        };
        self.command(actor, &command);
    }

    fn say(&mut self, author: UserId, channel: ChannelId) {
        self.actions.said += 1;
        let mut content = format!("message {}", self.actions.said);
        if self.rng.chance(0.3) {
            let mentioned = self.rng.pick(&self.accounts).expect("there are accounts");
            content = format!("{content} <@{}>", mentioned.id);
        }
        if self.rng.chance(0.05) {
            content.push_str(&" long".repeat(300));
        }
        let here: Vec<MessageId> =
            self.actions.messages.iter().filter(|(of, _)| *of == channel).map(|(_, message)| *message).collect();
        let reply_to = match self.rng.pick(&here) {
            Some(message_id) if self.rng.chance(0.3) => {
                Some(ReplyTo { message_id: *message_id, fail_if_not_exists: false })
            }
            _ => None,
        };
        let allowed_mentions =
            self.rng.chance(0.3).then(|| AllowedMentions { all_users: true, ..AllowedMentions::default() });
        let nonce = self.rng.chance(0.3).then_some(guildhall_model::Nonce::Number(self.actions.said as i64));
        let embeds = if self.rng.chance(0.2) { vec![json!({"title": "an embed"})] } else { Vec::new() };
        let new = NewMessage { content, reply_to, allowed_mentions, nonce, embeds, ..NewMessage::default() };
        let reply = self.command(Actor::User(author), &Command::CreateMessage(channel, Box::new(new)));
        if let Some(Reply::Message(reply)) = reply {
            self.actions.messages.push_back((channel, reply.record.message.id));
            if self.actions.messages.len() > 40 {
                self.actions.messages.pop_front();
            }
        }
    }

    /// Edits, deletes, reactions.
    fn touch_message(&mut self, member: UserId) {
        let count = self.actions.messages.len() as u64;
        let Some((channel, message)) = self.actions.messages.get(self.rng.below(count) as usize).copied() else {
            return;
        };
        let emoji =
            ReactionEmoji { id: None, name: (*self.rng.pick(&["🔥", "👍", "é"]).expect("some")).to_owned() };
        let by = if self.rng.chance(0.4) { Actor::System } else { Actor::User(member) };
        let (actor, command) = match self.rng.below(10) {
            0 | 1 => {
                let content = Some(format!("edited {}", self.rng.below(1_000)));
                (
                    by,
                    Command::EditMessage(
                        channel,
                        message,
                        Box::new(MessagePatch { content, ..MessagePatch::default() }),
                    ),
                )
            }
            2 => (by, Command::DeleteMessage(channel, message)),
            3 => (by, Command::ClearReactions(channel, message, self.rng.chance(0.5).then_some(emoji))),
            4 => (by, Command::RemoveReaction(channel, message, emoji, member)),
            _ => (Actor::User(member), Command::AddReaction(channel, message, emoji)),
        };
        self.command(actor, &command);
    }

    fn overwrite(&mut self, channel: ChannelId, member: UserId, role: Option<RoleId>) -> Command {
        let target = match self.rng.below(5) {
            0 | 1 => OverwriteKind::Role(GUILD.cast()),
            2 | 3 => OverwriteKind::Role(role.unwrap_or(GUILD.cast())),
            _ => OverwriteKind::Member(member),
        };
        if self.rng.chance(0.3) {
            return Command::DeleteOverwrite(channel, target);
        }
        let (allow, deny) = match self.rng.below(3) {
            0 => (Permissions::VIEW_CHANNEL, Permissions::NONE),
            1 => (Permissions::NONE, Permissions::VIEW_CHANNEL),
            _ => (some_permissions(&mut self.rng), some_permissions(&mut self.rng)),
        };
        Command::PutOverwrite(channel, Overwrite { target, allow, deny })
    }

    fn new_channel(&mut self, channels: &BTreeMap<u64, crate::naive::NaiveChannel>) -> Command {
        let kinds = [ChannelType::Text, ChannelType::Text, ChannelType::Voice, ChannelType::Category];
        let kind = *self.rng.pick(&kinds).expect("there are some");
        let category = channels.iter().find(|(_, channel)| channel.kind == 4).map(|(id, _)| ChannelId::new(*id));
        let everyone = OverwriteKind::Role(GUILD.cast());
        let hidden = Overwrite { target: everyone, allow: Permissions::NONE, deny: Permissions::VIEW_CHANNEL };
        Command::CreateChannel(Box::new(NewChannel {
            name: format!("new-{}", self.rng.below(100)),
            kind,
            topic: None,
            parent_id: category.filter(|_| kind != ChannelType::Category && self.rng.chance(0.5)),
            position: None,
            overwrites: if self.rng.chance(0.5) { vec![hidden] } else { Vec::new() },
            user_limit: 0,
        }))
    }

    fn change_member(&mut self, member: UserId) -> Command {
        let mut patch = MemberPatch::default();
        match self.rng.below(6) {
            0 => patch.nick = Some(Some(format!("nick {}", self.rng.below(10)))),
            1 => patch.nick = Some(None),
            2 | 3 => {
                let until = Timestamp(self.now().unix.0 + 60_000);
                patch.communication_disabled_until = Some(Some(until));
            }
            4 => patch.communication_disabled_until = Some(None),
            _ => patch.mute = Some(self.rng.chance(0.5)),
        }
        Command::UpdateMember(member, Box::new(patch))
    }
}
