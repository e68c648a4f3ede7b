//! Operations: everything that a guild does with one input, and the worst cases within its limits.
//!
//! Invariants  each measurement leaves the guild about as it found it, so the order does not matter, except for `last`.
//! Not here    operations of several inputs: `slow`.

use super::{GUILD, Harness, SYSTEM, Samples, by, presence, session, shared, slow};
use crate::{crowd, text};
use anyhow::{Context, Result, bail};
use guildhall_guild::{
    Actor, ChannelPatch, Command, GuildPatch, MemberPatch, MessagePatch, NewChannel, NewMessage, NewRole, NewThread,
    Reply, ReplyTo, RolePatch,
};
use guildhall_guild_protocol::{MemberTable, MembersWanted, PartitionId, RelayId, ToGuild};
use guildhall_model::{
    ChannelId, ChannelType, MessageId, Overwrite, OverwriteKind, Permissions, Presence, ReactionEmoji, RoleId, Status,
    to_gateway::{MemberQuery, RequestGuildMembers, VoiceStateUpdate},
};
use std::time::{Duration, Instant};

/// Users with reactions on the message with many reactions, per emoji.
const MANY_REACTIONS: usize = 100_000;
/// Most overwrites of a channel: `GuildLimits::overwrites_max`.
const OVERWRITES_MAX: usize = 1_000;
/// In voice, for the operations that meet all of them.
const IN_VOICE: usize = 5_000;
/// The longest slow mode, and most who wait in it: `GuildLimits::slow_mode_entries_max`.
const SLOW_S: u64 = 21_600;
const WAITS: usize = 65_536;
/// What fits a message of 2,000 characters.
const MENTIONS: usize = 80;

const SNAPSHOT: MembersWanted = MembersWanted::ByThreshold { large_threshold: 250 };

/// Times all of them.
pub fn all(harness: &mut Harness) -> Result<()> {
    reading(harness)?;
    searching(harness)?;
    messages(harness)?;
    reactions(harness)?;
    members(harness)?;
    roles(harness)?;
    channels(harness)?;
    sessions(harness)?;
    presences(harness)?;
    voice(harness)?;
    snapshots(harness)?;
    slow::all(harness)?;
    relays(harness)
}

/// Times what cannot be undone.
pub fn last(harness: &mut Harness) -> Result<()> {
    harness.measure("delete guild", Samples::Once, |harness, _| harness.did(SYSTEM, &Command::DeleteGuild))
}

impl Harness {
    /// As `command`; only the time matters.
    pub fn did(&mut self, actor: Actor, command: &Command) -> Result<Duration> {
        Ok(self.command(actor, command)?.0)
    }

    fn say(&mut self, author: usize, channel: usize, new: NewMessage) -> Result<(Duration, MessageId)> {
        let command = Command::CreateMessage(crowd::channel_id(channel), Box::new(new));
        match self.command(by(author), &command)? {
            (took, Reply::Message(reply)) => Ok((took, reply.message.id)),
            (_, other) => bail!("a new message was answered with {other:?}"),
        }
    }

    fn post(&mut self, author: usize, channel: usize, n: usize) -> Result<MessageId> {
        Ok(self.say(author, channel, sentence(n))?.1)
    }

    fn make_role(&mut self) -> Result<(Duration, RoleId)> {
        let role = NewRole {
            id: None,
            name: "made for a bench".to_owned(),
            color: 0,
            hoist: false,
            position: 5,
            permissions: Permissions::SEND_MESSAGES,
            managed: false,
            mentionable: false,
            icon: None,
        };
        match self.command(SYSTEM, &Command::CreateRole(Box::new(role)))? {
            (took, Reply::Role(role)) => Ok((took, role.id)),
            (_, other) => bail!("a new role was answered with {other:?}"),
        }
    }

    fn make_channel(&mut self, n: usize) -> Result<(Duration, ChannelId)> {
        let new = NewChannel {
            name: format!("new-{n}"),
            kind: ChannelType::Text,
            topic: None,
            parent_id: None,
            position: None,
            overwrites: Vec::new(),
            user_limit: 0,
        };
        match self.command(SYSTEM, &Command::CreateChannel(Box::new(new)))? {
            (took, Reply::Channel(channel)) => Ok((took, channel.id)),
            (_, other) => bail!("a new channel was answered with {other:?}"),
        }
    }

    fn snapshot(&mut self) -> Result<(Duration, MemberTable)> {
        match self.command(SYSTEM, &Command::ReadMembers)? {
            (took, Reply::Members(members)) => Ok((took, members)),
            (_, other) => bail!("the members were answered with {other:?}"),
        }
    }

    /// One of the sessions shows something new.
    pub fn change_presence(&mut self) -> Result<Duration> {
        let who = self.rng.below(self.sessions as u64) as usize;
        let status = if self.busy.remove(&who) {
            Status::Idle
        } else {
            self.busy.insert(who);
            Status::Dnd
        };
        self.relay_heard(ToGuild::Presence { session: session(who), presence: presence(status) })
    }

    fn move_in_voice(&mut self, who: usize, channel_id: Option<ChannelId>) -> Result<Duration> {
        let update = VoiceStateUpdate {
            guild_id: Some(GUILD),
            channel_id,
            self_mute: false,
            self_deaf: false,
            self_video: false,
        };
        self.relay_heard(ToGuild::Voice { session: session(who), update })
    }

    /// A member who has no session: the `n`-th of them.
    pub fn absent(&self, n: usize) -> usize {
        self.sessions + n % (self.members - self.sessions)
    }
}

fn sentence(n: usize) -> NewMessage {
    NewMessage { content: text::sentence(n), ..NewMessage::default() }
}

fn unicode(name: &str) -> ReactionEmoji {
    ReactionEmoji { id: None, name: name.to_owned() }
}

fn nick(n: usize) -> Box<MemberPatch> {
    Box::new(MemberPatch { nick: Some(Some(format!("nick {n}"))), ..MemberPatch::default() })
}

fn reading(harness: &mut Harness) -> Result<()> {
    harness.measure("read guild", Samples::Always, |harness, _| {
        let who = harness.anybody();
        harness.did(by(who), &Command::ReadGuild)
    })?;
    harness.measure("read member", Samples::Always, |harness, _| {
        let (who, whom) = (harness.anybody(), harness.anybody());
        harness.did(by(who), &Command::ReadMember(crowd::user_id(whom)))
    })?;
    harness.measure("may somebody read a channel's history", Samples::Always, |harness, _| {
        let who = harness.anybody();
        harness.did(by(who), &Command::AuthorizeHistory(crowd::channel_id(0)))
    })
}

/// Threads of a guild that are archived: `GuildLimits::threads_max`.
const THREADS: usize = 10_000;

fn searching(harness: &mut Harness) -> Result<()> {
    let search = |harness: &mut Harness| {
        let who = harness.anybody();
        harness.did(by(who), &Command::ReadableChannels { include_nsfw: false })
    };
    harness.measure("channels that a member may search", Samples::Always, |harness, _| search(harness))?;
    let mut threads = Vec::with_capacity(THREADS);
    for n in 0..THREADS {
        let kind = Some(ChannelType::PublicThread);
        let new = NewThread { name: format!("thread {n}"), kind, ..NewThread::default() };
        let made = Command::CreateThread(crowd::channel_id(n % crowd::PUBLIC_CHANNELS), Box::new(new));
        let (_, Reply::Thread(thread)) = harness.command(by(0), &made)? else { bail!("a thread is made") };
        let archive = ChannelPatch { archived: Some(true), ..ChannelPatch::default() };
        harness.did(SYSTEM, &Command::UpdateChannel(thread.0.channel.id, Box::new(archive)))?;
        threads.push(thread.0.channel.id);
    }
    harness.measure("channels that a member may search, 10,000 threads", Samples::Sometimes, |harness, _| {
        search(harness)
    })?;
    threads.into_iter().try_for_each(|thread| harness.did(SYSTEM, &Command::DeleteChannel(thread)).map(drop))
}

fn messages(harness: &mut Harness) -> Result<()> {
    harness.measure("create message", Samples::Always, |harness, n| {
        let who = harness.anybody();
        Ok(harness.say(who, n % crowd::PUBLIC_CHANNELS, sentence(n))?.0)
    })?;
    harness.measure("create message, reply", Samples::Always, |harness, n| {
        let (who, whom) = (harness.anybody(), harness.anybody());
        let message_id = harness.post(whom, 0, n)?;
        let reply_to = Some(ReplyTo { message_id, fail_if_not_exists: true });
        Ok(harness.say(who, 0, NewMessage { reply_to, ..sentence(n) })?.0)
    })?;
    harness.measure("create message, 80 mentions", Samples::Always, |harness, _| {
        let who = harness.anybody();
        let content = (0..MENTIONS).map(|_| format!("<@{}>", crowd::user_id(harness.anybody()))).collect();
        Ok(harness.say(who, 0, NewMessage { content, ..NewMessage::default() })?.0)
    })?;
    let slow = |seconds| {
        let patch = ChannelPatch { rate_limit_per_user: Some(seconds), ..ChannelPatch::default() };
        Command::UpdateChannel(crowd::channel_id(1), Box::new(patch))
    };
    harness.did(SYSTEM, &slow(SLOW_S as u16))?;
    harness.measure("create message, slow mode", Samples::Always, |harness, n| {
        // Each once: staff would be exempt, and others may not write twice.
        Ok(harness.say(n % harness.members, 1, sentence(n))?.0)
    })?;
    harness.measure("timer, 65,536 waits of slow mode are over", Samples::Seldom, |harness, n| {
        // Past the waits of the last time.
        harness.advance_ms(SLOW_S * 2_000);
        for wait in 0..WAITS.min(harness.members) {
            harness.say(wait, 1, sentence(n))?;
        }
        harness.advance_ms(SLOW_S * 2_000);
        harness.timer()
    })?;
    harness.did(SYSTEM, &slow(0))?;
    harness.measure("edit message", Samples::Always, |harness, n| {
        let who = harness.anybody();
        let message_id = harness.post(who, 0, n)?;
        let patch = MessagePatch { content: Some(format!("edited {n}")), ..MessagePatch::default() };
        harness.did(by(who), &Command::EditMessage(crowd::channel_id(0), message_id, Box::new(patch)))
    })?;
    harness.measure("delete message", Samples::Always, |harness, n| {
        let who = harness.anybody();
        let message_id = harness.post(who, 0, n)?;
        harness.did(by(who), &Command::DeleteMessage(crowd::channel_id(0), message_id))
    })?;
    harness.measure("typing", Samples::Always, |harness, n| {
        let who = harness.anybody();
        harness.did(by(who), &Command::StartTyping(crowd::channel_id(n % crowd::PUBLIC_CHANNELS)))
    })?;
    harness.measure("commit done, one message", Samples::Always, |harness, n| {
        let command = Command::CreateMessage(crowd::channel_id(0), Box::new(sentence(n)));
        let who = harness.anybody();
        harness.uncommitted(by(who), &command)?;
        harness.commit()
    })?;
    harness.measure("commit done, 1,000 messages", Samples::Sometimes, |harness, _| {
        for n in 0..1_000 {
            let command = Command::CreateMessage(crowd::channel_id(0), Box::new(sentence(n)));
            let who = harness.anybody();
            harness.uncommitted(by(who), &command)?;
        }
        harness.commit()
    })
}

fn reactions(harness: &mut Harness) -> Result<()> {
    let channel_id = crowd::channel_id(0);
    let thumb = unicode("👍");
    harness.measure("add reaction", Samples::Always, |harness, n| {
        let who = harness.anybody();
        let message_id = harness.post(who, 0, n)?;
        harness.did(by(who), &Command::AddReaction(channel_id, message_id, thumb.clone()))
    })?;
    harness.measure("remove reaction", Samples::Always, |harness, n| {
        let who = harness.anybody();
        let message_id = harness.post(who, 0, n)?;
        harness.did(by(who), &Command::AddReaction(channel_id, message_id, thumb.clone()))?;
        let user_id = crowd::user_id(who);
        harness.did(by(who), &Command::RemoveReaction(channel_id, message_id, thumb.clone(), user_id))
    })?;

    let count = MANY_REACTIONS.min(harness.members - 1);
    let react = |harness: &mut Harness, message_id| -> Result<()> {
        for who in 0..count {
            harness.did(by(who), &Command::AddReaction(channel_id, message_id, thumb.clone()))?;
        }
        Ok(())
    };
    let message_id = harness.post(0, 0, 0)?;
    react(harness, message_id)?;
    harness.measure("add reaction, 100,000 there", Samples::Always, |harness, _| {
        let who = count;
        let took = harness.did(by(who), &Command::AddReaction(channel_id, message_id, thumb.clone()))?;
        let user_id = crowd::user_id(who);
        harness.did(by(who), &Command::RemoveReaction(channel_id, message_id, thumb.clone(), user_id))?;
        Ok(took)
    })?;
    harness.measure("edit message, 100,000 reactions", Samples::Seldom, |harness, n| {
        let patch = MessagePatch { content: Some(format!("edited {n}")), ..MessagePatch::default() };
        harness.did(by(0), &Command::EditMessage(channel_id, message_id, Box::new(patch)))
    })?;
    harness.measure("clear reactions, 100,000", Samples::Seldom, |harness, _| {
        react(harness, message_id)?;
        harness.did(SYSTEM, &Command::ClearReactions(channel_id, message_id, None))
    })?;
    harness.measure("delete message, 100,000 reactions", Samples::Seldom, |harness, n| {
        let message_id = harness.post(0, 0, n)?;
        react(harness, message_id)?;
        harness.did(SYSTEM, &Command::DeleteMessage(channel_id, message_id))
    })
}

fn members(harness: &mut Harness) -> Result<()> {
    harness.measure("add member, the newest account", Samples::Always, |harness, n| {
        let user = crowd::stranger(harness.members, n as u64);
        harness.did(SYSTEM, &Command::AddMember(user))
    })?;
    harness.measure("add member, an account of any age", Samples::Always, |harness, n| {
        let user = crowd::stranger(harness.anybody(), n as u64);
        harness.did(SYSTEM, &Command::AddMember(user))
    })?;
    harness.measure("remove member", Samples::Always, |harness, n| {
        let who = harness.absent(n * 7_919);
        let took = harness.did(SYSTEM, &Command::RemoveMember(crowd::user_id(who)))?;
        harness.did(SYSTEM, &Command::AddMember(shared(crowd::user(who))))?;
        Ok(took)
    })?;
    harness.measure("update member, nick", Samples::Always, |harness, n| {
        let who = harness.anybody();
        harness.did(SYSTEM, &Command::UpdateMember(crowd::user_id(who), nick(n)))
    })?;
    let role = crowd::role_id(crowd::ROLES_MIN);
    harness.measure("add role to member", Samples::Always, |harness, _| {
        let user_id = crowd::user_id(harness.anybody());
        let took = harness.did(SYSTEM, &Command::AddMemberRole(user_id, role))?;
        harness.did(SYSTEM, &Command::RemoveMemberRole(user_id, role))?;
        Ok(took)
    })?;
    harness.measure("remove role from member", Samples::Always, |harness, _| {
        let user_id = crowd::user_id(harness.anybody());
        harness.did(SYSTEM, &Command::AddMemberRole(user_id, role))?;
        harness.did(SYSTEM, &Command::RemoveMemberRole(user_id, role))
    })
}

fn roles(harness: &mut Harness) -> Result<()> {
    harness.measure("create role", Samples::Always, |harness, _| {
        let (took, role) = harness.make_role()?;
        harness.did(SYSTEM, &Command::DeleteRole(role))?;
        Ok(took)
    })?;
    harness.measure("update role", Samples::Always, |harness, n| {
        let patch = RolePatch { color: Some(n as u32 + 1), ..RolePatch::default() };
        harness.did(SYSTEM, &Command::UpdateRole(crowd::role_id(0), Box::new(patch)))
    })?;
    harness.measure("delete role", Samples::Always, |harness, _| {
        let (_, role) = harness.make_role()?;
        harness.did(SYSTEM, &Command::DeleteRole(role))
    })?;
    harness.measure("delete role, overwrites in all 480 channels", Samples::Sometimes, |harness, _| {
        let (_, role) = harness.make_role()?;
        for channel in 0..super::CHANNELS {
            let overwrite = overwrite(OverwriteKind::Role(role), channel);
            harness.did(SYSTEM, &Command::PutOverwrite(crowd::channel_id(channel), overwrite))?;
        }
        harness.did(SYSTEM, &Command::DeleteRole(role))
    })?;
    harness.measure("update guild", Samples::Always, |harness, n| {
        let patch = GuildPatch { name: Some(format!("name {n}")), ..GuildPatch::default() };
        harness.did(SYSTEM, &Command::UpdateGuild(Box::new(patch)))
    })
}

/// One that differs with `n`.
fn overwrite(target: OverwriteKind, n: usize) -> Overwrite {
    let (some, none) = (Permissions::SEND_MESSAGES, Permissions::NONE);
    if n.is_multiple_of(2) {
        Overwrite { target, allow: some, deny: none }
    } else {
        Overwrite { target, allow: none, deny: some }
    }
}

fn channels(harness: &mut Harness) -> Result<()> {
    harness.measure("create channel", Samples::Always, |harness, n| {
        let (took, channel) = harness.make_channel(n)?;
        harness.did(SYSTEM, &Command::DeleteChannel(channel))?;
        Ok(took)
    })?;
    harness.measure("update channel", Samples::Always, |harness, n| {
        let patch = ChannelPatch { topic: Some(Some(format!("topic {n}"))), ..ChannelPatch::default() };
        harness.did(SYSTEM, &Command::UpdateChannel(crowd::channel_id(2), Box::new(patch)))
    })?;
    harness.measure("delete channel", Samples::Always, |harness, n| {
        let (_, channel) = harness.make_channel(n)?;
        harness.did(SYSTEM, &Command::DeleteChannel(channel))
    })?;
    let level = OverwriteKind::Role(crowd::role_id(0));
    harness.measure("put overwrite", Samples::Always, |harness, n| {
        harness.did(SYSTEM, &Command::PutOverwrite(crowd::channel_id(3), overwrite(level, n)))
    })?;
    harness.measure("delete overwrite", Samples::Always, |harness, n| {
        harness.did(SYSTEM, &Command::PutOverwrite(crowd::channel_id(3), overwrite(level, n)))?;
        harness.did(SYSTEM, &Command::DeleteOverwrite(crowd::channel_id(3), level))
    })?;
    let full = crowd::channel_id(4);
    let overwrites: Vec<Overwrite> =
        (0..OVERWRITES_MAX).map(|n| overwrite(OverwriteKind::Member(crowd::user_id(n)), 0)).collect();
    let patch = ChannelPatch { overwrites: Some(overwrites), ..ChannelPatch::default() };
    harness.did(SYSTEM, &Command::UpdateChannel(full, Box::new(patch)))?;
    harness.measure("put overwrite, 1,000 in the channel", Samples::Sometimes, |harness, n| {
        let overwrite = overwrite(OverwriteKind::Member(crowd::user_id(OVERWRITES_MAX - 1)), n + 1);
        harness.did(SYSTEM, &Command::PutOverwrite(full, overwrite))
    })?;
    let patch = ChannelPatch { overwrites: Some(Vec::new()), ..ChannelPatch::default() };
    harness.did(SYSTEM, &Command::UpdateChannel(full, Box::new(patch)))?;
    Ok(())
}

fn sessions(harness: &mut Harness) -> Result<()> {
    harness.measure("attach", Samples::Always, |harness, n| {
        let who = harness.absent(n);
        let took = harness.attach(who, MembersWanted::OwnAndVoice)?;
        harness.relay_heard(ToGuild::Detach { session: session(who) })?;
        Ok(took)
    })?;
    harness.measure("attach, with a member snapshot", Samples::Always, |harness, n| {
        let who = harness.absent(n);
        let took = harness.attach(who, SNAPSHOT)?;
        harness.relay_heard(ToGuild::Detach { session: session(who) })?;
        Ok(took)
    })?;
    harness.measure("detach", Samples::Always, |harness, n| {
        let who = harness.absent(n);
        harness.attach(who, MembersWanted::OwnAndVoice)?;
        harness.relay_heard(ToGuild::Detach { session: session(who) })
    })?;
    harness.measure("request members, all of them", Samples::Always, |harness, n| {
        let request = RequestGuildMembers {
            guild_ids: Vec::new(),
            query: MemberQuery::All,
            presences: true,
            nonce: Some("bench".to_owned()),
        };
        let session = session(n % harness.sessions);
        harness.relay_heard(ToGuild::RequestMembers { session, request: Box::new(request) })
    })
}

fn presences(harness: &mut Harness) -> Result<()> {
    harness.measure("presence of a session", Samples::Always, |harness, _| harness.change_presence())?;
    harness.measure("presence shown by a backend", Samples::Always, |harness, n| {
        let user_id = crowd::user_id(harness.absent(n));
        let shown = shared(Presence { status: Status::Online, ..Presence::default() });
        let took = harness.did(SYSTEM, &Command::ShowPresence(user_id, Some(shown)))?;
        harness.did(SYSTEM, &Command::ShowPresence(user_id, None))?;
        Ok(took)
    })
}

fn voice(harness: &mut Harness) -> Result<()> {
    harness.measure("voice join", Samples::Always, |harness, n| {
        let who = n % harness.sessions;
        let took = harness.move_in_voice(who, Some(crowd::voice_channel(n)))?;
        harness.move_in_voice(who, None)?;
        Ok(took)
    })?;
    harness.measure("voice leave", Samples::Always, |harness, n| {
        let who = n % harness.sessions;
        harness.move_in_voice(who, Some(crowd::voice_channel(n)))?;
        harness.move_in_voice(who, None)
    })?;
    let talking = IN_VOICE.min(harness.members - harness.sessions);
    for n in 0..talking {
        let channel = Some(crowd::voice_channel(n));
        harness.did(SYSTEM, &Command::ShowVoice(crowd::user_id(harness.absent(n)), channel))?;
    }
    harness.measure("voice join, 5,000 there", Samples::Always, |harness, n| {
        let who = n % harness.sessions;
        let took = harness.move_in_voice(who, Some(crowd::voice_channel(n)))?;
        harness.move_in_voice(who, None)?;
        Ok(took)
    })?;
    harness.measure("attach, 5,000 in voice", Samples::Sometimes, |harness, n| {
        let who = harness.absent(talking + n);
        let took = harness.attach(who, MembersWanted::OwnAndVoice)?;
        harness.relay_heard(ToGuild::Detach { session: session(who) })?;
        Ok(took)
    })?;
    for n in 0..talking {
        harness.did(SYSTEM, &Command::ShowVoice(crowd::user_id(harness.absent(n)), None))?;
    }
    Ok(())
}

/// Cost of a reader that holds a member snapshot.
fn snapshots(harness: &mut Harness) -> Result<()> {
    harness.measure("member snapshot", Samples::Always, |harness, _| Ok(harness.snapshot()?.0))?;
    harness.measure("presence, first change after a snapshot is taken", Samples::Sometimes, |harness, _| {
        let (_, held) = harness.snapshot()?;
        let took = harness.change_presence()?;
        drop(held);
        Ok(took)
    })?;
    harness.measure("presence, second change after a snapshot is taken", Samples::Sometimes, |harness, n| {
        let (_, held) = harness.snapshot()?;
        harness.did(SYSTEM, &Command::UpdateMember(crowd::user_id(0), nick(n)))?;
        let took = harness.change_presence()?;
        drop(held);
        Ok(took)
    })?;
    harness.measure("add member, first change after a snapshot is taken", Samples::Sometimes, |harness, n| {
        let (_, held) = harness.snapshot()?;
        let user = crowd::stranger(harness.anybody(), (1 << 19) + n as u64);
        let took = harness.did(SYSTEM, &Command::AddMember(user))?;
        drop(held);
        Ok(took)
    })?;
    harness.measure("presence, after the reader is done", Samples::Sometimes, |harness, _| {
        let (_, held) = harness.snapshot()?;
        drop(held);
        harness.change_presence()
    })?;
    harness.measure("(reader: end of a snapshot that went stale)", Samples::Sometimes, |harness, _| {
        let (_, held) = harness.snapshot()?;
        harness.change_presence()?;
        let started = Instant::now();
        drop(held);
        Ok(started.elapsed())
    })
}

fn relays(harness: &mut Harness) -> Result<()> {
    harness.measure("resync of a relay", Samples::Always, |harness, _| {
        let (relay, epoch) = (RelayId::first(PartitionId(0)), harness.epoch);
        harness.relay_heard(ToGuild::Resync { relay, epoch })
    })?;
    harness.measure_each("loss of a relay with half of the sessions, each slice", Samples::Seldom, |harness, _| {
        let mut slices = vec![harness.unsubscribe_one(0)?];
        slices.extend(harness.run_until_idle()?.timers);
        harness.subscribe_one(0).context("subscribing again")?;
        for n in (0..harness.sessions).step_by(super::PARTITIONS) {
            harness.attach(n, MembersWanted::OwnAndVoice)?;
        }
        Ok(slices)
    })
}
