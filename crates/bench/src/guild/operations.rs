//! Operations: everything that a guild does with one input, and the worst cases within its limits.
//!
//! Invariants  each measurement leaves the guild about as it found it, so the order does not matter, except for `last`.
//! Not here    operations of several inputs: `slow`.

use super::{GUILD, Lab, Often, SYSTEM, by, presence, session, shared, slow};
use crate::{crowd, text};
use anyhow::{Context, Result, bail};
use guildhall_guild::{
    Actor, ChannelPatch, Command, GuildPatch, MemberPatch, MessagePatch, NewChannel, NewMessage, NewRole, Reply,
    ReplyTo, RolePatch,
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
pub fn all(lab: &mut Lab) -> Result<()> {
    reading(lab)?;
    messages(lab)?;
    reactions(lab)?;
    members(lab)?;
    roles(lab)?;
    channels(lab)?;
    sessions(lab)?;
    presences(lab)?;
    voice(lab)?;
    snapshots(lab)?;
    slow::all(lab)?;
    relays(lab)
}

/// Times what cannot be undone.
pub fn last(lab: &mut Lab) -> Result<()> {
    lab.measure("delete guild", Often::Once, |lab, _| lab.did(SYSTEM, &Command::DeleteGuild))
}

impl Lab {
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

    fn say_something(&mut self, author: usize, channel: usize, n: usize) -> Result<MessageId> {
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

fn reading(lab: &mut Lab) -> Result<()> {
    lab.measure("read guild", Often::Always, |lab, _| {
        let who = lab.anybody();
        lab.did(by(who), &Command::ReadGuild)
    })?;
    lab.measure("read member", Often::Always, |lab, _| {
        let (who, whom) = (lab.anybody(), lab.anybody());
        lab.did(by(who), &Command::ReadMember(crowd::user_id(whom)))
    })?;
    lab.measure("may somebody read a channel's history", Often::Always, |lab, _| {
        let who = lab.anybody();
        lab.did(by(who), &Command::AuthorizeHistory(crowd::channel_id(0)))
    })
}

fn messages(lab: &mut Lab) -> Result<()> {
    lab.measure("create message", Often::Always, |lab, n| {
        let who = lab.anybody();
        Ok(lab.say(who, n % crowd::PUBLIC_CHANNELS, sentence(n))?.0)
    })?;
    lab.measure("create message, reply", Often::Always, |lab, n| {
        let (who, whom) = (lab.anybody(), lab.anybody());
        let message_id = lab.say_something(whom, 0, n)?;
        let reply_to = Some(ReplyTo { message_id, fail_if_not_exists: true });
        Ok(lab.say(who, 0, NewMessage { reply_to, ..sentence(n) })?.0)
    })?;
    lab.measure("create message, 80 mentions", Often::Always, |lab, _| {
        let who = lab.anybody();
        let content = (0..MENTIONS).map(|_| format!("<@{}>", crowd::user_id(lab.anybody()))).collect();
        Ok(lab.say(who, 0, NewMessage { content, ..NewMessage::default() })?.0)
    })?;
    let slow = |seconds| {
        let patch = ChannelPatch { rate_limit_per_user: Some(seconds), ..ChannelPatch::default() };
        Command::UpdateChannel(crowd::channel_id(1), Box::new(patch))
    };
    lab.did(SYSTEM, &slow(SLOW_S as u16))?;
    lab.measure("create message, slow mode", Often::Always, |lab, n| {
        // Each once: staff would be exempt, and nobody may write twice.
        Ok(lab.say(n % lab.members, 1, sentence(n))?.0)
    })?;
    lab.measure("timer, 65,536 waits of slow mode are over", Often::Seldom, |lab, n| {
        // Past the waits of the last time.
        lab.advance_ms(SLOW_S * 2_000);
        for wait in 0..WAITS.min(lab.members) {
            lab.say(wait, 1, sentence(n))?;
        }
        lab.advance_ms(SLOW_S * 2_000);
        lab.timer()
    })?;
    lab.did(SYSTEM, &slow(0))?;
    lab.measure("edit message", Often::Always, |lab, n| {
        let who = lab.anybody();
        let message_id = lab.say_something(who, 0, n)?;
        let patch = MessagePatch { content: Some(format!("edited {n}")), ..MessagePatch::default() };
        lab.did(by(who), &Command::EditMessage(crowd::channel_id(0), message_id, Box::new(patch)))
    })?;
    lab.measure("delete message", Often::Always, |lab, n| {
        let who = lab.anybody();
        let message_id = lab.say_something(who, 0, n)?;
        lab.did(by(who), &Command::DeleteMessage(crowd::channel_id(0), message_id))
    })?;
    lab.measure("typing", Often::Always, |lab, n| {
        let who = lab.anybody();
        lab.did(by(who), &Command::StartTyping(crowd::channel_id(n % crowd::PUBLIC_CHANNELS)))
    })?;
    lab.measure("commit done, one message", Often::Always, |lab, n| {
        let command = Command::CreateMessage(crowd::channel_id(0), Box::new(sentence(n)));
        let who = lab.anybody();
        lab.uncommitted(by(who), &command)?;
        lab.commit()
    })?;
    lab.measure("commit done, 1,000 messages", Often::Sometimes, |lab, _| {
        for n in 0..1_000 {
            let command = Command::CreateMessage(crowd::channel_id(0), Box::new(sentence(n)));
            let who = lab.anybody();
            lab.uncommitted(by(who), &command)?;
        }
        lab.commit()
    })
}

fn reactions(lab: &mut Lab) -> Result<()> {
    let channel_id = crowd::channel_id(0);
    let thumb = unicode("👍");
    lab.measure("add reaction", Often::Always, |lab, n| {
        let who = lab.anybody();
        let message_id = lab.say_something(who, 0, n)?;
        lab.did(by(who), &Command::AddReaction(channel_id, message_id, thumb.clone()))
    })?;
    lab.measure("remove reaction", Often::Always, |lab, n| {
        let who = lab.anybody();
        let message_id = lab.say_something(who, 0, n)?;
        lab.did(by(who), &Command::AddReaction(channel_id, message_id, thumb.clone()))?;
        let user_id = crowd::user_id(who);
        lab.did(by(who), &Command::RemoveReaction(channel_id, message_id, thumb.clone(), user_id))
    })?;

    let count = MANY_REACTIONS.min(lab.members - 1);
    let react = |lab: &mut Lab, message_id| -> Result<()> {
        for who in 0..count {
            lab.did(by(who), &Command::AddReaction(channel_id, message_id, thumb.clone()))?;
        }
        Ok(())
    };
    let message_id = lab.say_something(0, 0, 0)?;
    react(lab, message_id)?;
    lab.measure("add reaction, 100,000 there", Often::Always, |lab, _| {
        let who = count;
        let took = lab.did(by(who), &Command::AddReaction(channel_id, message_id, thumb.clone()))?;
        let user_id = crowd::user_id(who);
        lab.did(by(who), &Command::RemoveReaction(channel_id, message_id, thumb.clone(), user_id))?;
        Ok(took)
    })?;
    lab.measure("edit message, 100,000 reactions", Often::Seldom, |lab, n| {
        let patch = MessagePatch { content: Some(format!("edited {n}")), ..MessagePatch::default() };
        lab.did(by(0), &Command::EditMessage(channel_id, message_id, Box::new(patch)))
    })?;
    lab.measure("clear reactions, 100,000", Often::Seldom, |lab, _| {
        react(lab, message_id)?;
        lab.did(SYSTEM, &Command::ClearReactions(channel_id, message_id, None))
    })?;
    lab.measure("delete message, 100,000 reactions", Often::Seldom, |lab, n| {
        let message_id = lab.say_something(0, 0, n)?;
        react(lab, message_id)?;
        lab.did(SYSTEM, &Command::DeleteMessage(channel_id, message_id))
    })
}

fn members(lab: &mut Lab) -> Result<()> {
    lab.measure("add member, the newest account", Often::Always, |lab, n| {
        let user = crowd::stranger(lab.members, n as u64);
        lab.did(SYSTEM, &Command::AddMember(user))
    })?;
    lab.measure("add member, an account of any age", Often::Always, |lab, n| {
        let user = crowd::stranger(lab.anybody(), n as u64);
        lab.did(SYSTEM, &Command::AddMember(user))
    })?;
    lab.measure("remove member", Often::Always, |lab, n| {
        let who = lab.absent(n * 7_919);
        let took = lab.did(SYSTEM, &Command::RemoveMember(crowd::user_id(who)))?;
        lab.did(SYSTEM, &Command::AddMember(shared(crowd::user(who))))?;
        Ok(took)
    })?;
    lab.measure("update member, nick", Often::Always, |lab, n| {
        let who = lab.anybody();
        lab.did(SYSTEM, &Command::UpdateMember(crowd::user_id(who), nick(n)))
    })?;
    let role = crowd::role_id(crowd::ROLES_MIN);
    lab.measure("add role to member", Often::Always, |lab, _| {
        let user_id = crowd::user_id(lab.anybody());
        let took = lab.did(SYSTEM, &Command::AddMemberRole(user_id, role))?;
        lab.did(SYSTEM, &Command::RemoveMemberRole(user_id, role))?;
        Ok(took)
    })?;
    lab.measure("remove role from member", Often::Always, |lab, _| {
        let user_id = crowd::user_id(lab.anybody());
        lab.did(SYSTEM, &Command::AddMemberRole(user_id, role))?;
        lab.did(SYSTEM, &Command::RemoveMemberRole(user_id, role))
    })
}

fn roles(lab: &mut Lab) -> Result<()> {
    lab.measure("create role", Often::Always, |lab, _| {
        let (took, role) = lab.make_role()?;
        lab.did(SYSTEM, &Command::DeleteRole(role))?;
        Ok(took)
    })?;
    lab.measure("update role", Often::Always, |lab, n| {
        let patch = RolePatch { color: Some(n as u32 + 1), ..RolePatch::default() };
        lab.did(SYSTEM, &Command::UpdateRole(crowd::role_id(0), Box::new(patch)))
    })?;
    lab.measure("delete role", Often::Always, |lab, _| {
        let (_, role) = lab.make_role()?;
        lab.did(SYSTEM, &Command::DeleteRole(role))
    })?;
    lab.measure("delete role, overwrites in all 480 channels", Often::Sometimes, |lab, _| {
        let (_, role) = lab.make_role()?;
        for channel in 0..super::CHANNELS {
            let overwrite = overwrite(OverwriteKind::Role(role), channel);
            lab.did(SYSTEM, &Command::PutOverwrite(crowd::channel_id(channel), overwrite))?;
        }
        lab.did(SYSTEM, &Command::DeleteRole(role))
    })?;
    lab.measure("update guild", Often::Always, |lab, n| {
        let patch = GuildPatch { name: Some(format!("name {n}")), ..GuildPatch::default() };
        lab.did(SYSTEM, &Command::UpdateGuild(Box::new(patch)))
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

fn channels(lab: &mut Lab) -> Result<()> {
    lab.measure("create channel", Often::Always, |lab, n| {
        let (took, channel) = lab.make_channel(n)?;
        lab.did(SYSTEM, &Command::DeleteChannel(channel))?;
        Ok(took)
    })?;
    lab.measure("update channel", Often::Always, |lab, n| {
        let patch = ChannelPatch { topic: Some(Some(format!("topic {n}"))), ..ChannelPatch::default() };
        lab.did(SYSTEM, &Command::UpdateChannel(crowd::channel_id(2), Box::new(patch)))
    })?;
    lab.measure("delete channel", Often::Always, |lab, n| {
        let (_, channel) = lab.make_channel(n)?;
        lab.did(SYSTEM, &Command::DeleteChannel(channel))
    })?;
    let level = OverwriteKind::Role(crowd::role_id(0));
    lab.measure("put overwrite", Often::Always, |lab, n| {
        lab.did(SYSTEM, &Command::PutOverwrite(crowd::channel_id(3), overwrite(level, n)))
    })?;
    lab.measure("delete overwrite", Often::Always, |lab, n| {
        lab.did(SYSTEM, &Command::PutOverwrite(crowd::channel_id(3), overwrite(level, n)))?;
        lab.did(SYSTEM, &Command::DeleteOverwrite(crowd::channel_id(3), level))
    })?;
    let full = crowd::channel_id(4);
    let overwrites: Vec<Overwrite> =
        (0..OVERWRITES_MAX).map(|n| overwrite(OverwriteKind::Member(crowd::user_id(n)), 0)).collect();
    let patch = ChannelPatch { overwrites: Some(overwrites), ..ChannelPatch::default() };
    lab.did(SYSTEM, &Command::UpdateChannel(full, Box::new(patch)))?;
    lab.measure("put overwrite, 1,000 in the channel", Often::Sometimes, |lab, n| {
        let overwrite = overwrite(OverwriteKind::Member(crowd::user_id(OVERWRITES_MAX - 1)), n + 1);
        lab.did(SYSTEM, &Command::PutOverwrite(full, overwrite))
    })?;
    let patch = ChannelPatch { overwrites: Some(Vec::new()), ..ChannelPatch::default() };
    lab.did(SYSTEM, &Command::UpdateChannel(full, Box::new(patch)))?;
    Ok(())
}

fn sessions(lab: &mut Lab) -> Result<()> {
    lab.measure("attach", Often::Always, |lab, n| {
        let who = lab.absent(n);
        let took = lab.attach(who, MembersWanted::OwnAndVoice)?;
        lab.relay_heard(ToGuild::Detach { session: session(who) })?;
        Ok(took)
    })?;
    lab.measure("attach, with a member snapshot", Often::Always, |lab, n| {
        let who = lab.absent(n);
        let took = lab.attach(who, SNAPSHOT)?;
        lab.relay_heard(ToGuild::Detach { session: session(who) })?;
        Ok(took)
    })?;
    lab.measure("detach", Often::Always, |lab, n| {
        let who = lab.absent(n);
        lab.attach(who, MembersWanted::OwnAndVoice)?;
        lab.relay_heard(ToGuild::Detach { session: session(who) })
    })?;
    lab.measure("request members, all of them", Often::Always, |lab, n| {
        let request = RequestGuildMembers {
            guild_ids: Vec::new(),
            query: MemberQuery::All,
            presences: true,
            nonce: Some("bench".to_owned()),
        };
        let session = session(n % lab.sessions);
        lab.relay_heard(ToGuild::RequestMembers { session, request: Box::new(request) })
    })
}

fn presences(lab: &mut Lab) -> Result<()> {
    lab.measure("presence of a session", Often::Always, |lab, _| lab.change_presence())?;
    lab.measure("presence shown by a backend", Often::Always, |lab, n| {
        let user_id = crowd::user_id(lab.absent(n));
        let shown = shared(Presence { status: Status::Online, ..Presence::default() });
        let took = lab.did(SYSTEM, &Command::ShowPresence(user_id, Some(shown)))?;
        lab.did(SYSTEM, &Command::ShowPresence(user_id, None))?;
        Ok(took)
    })
}

fn voice(lab: &mut Lab) -> Result<()> {
    lab.measure("voice join", Often::Always, |lab, n| {
        let who = n % lab.sessions;
        let took = lab.move_in_voice(who, Some(crowd::voice_channel(n)))?;
        lab.move_in_voice(who, None)?;
        Ok(took)
    })?;
    lab.measure("voice leave", Often::Always, |lab, n| {
        let who = n % lab.sessions;
        lab.move_in_voice(who, Some(crowd::voice_channel(n)))?;
        lab.move_in_voice(who, None)
    })?;
    let talking = IN_VOICE.min(lab.members - lab.sessions);
    for n in 0..talking {
        let channel = Some(crowd::voice_channel(n));
        lab.did(SYSTEM, &Command::ShowVoice(crowd::user_id(lab.absent(n)), channel))?;
    }
    lab.measure("voice join, 5,000 there", Often::Always, |lab, n| {
        let who = n % lab.sessions;
        let took = lab.move_in_voice(who, Some(crowd::voice_channel(n)))?;
        lab.move_in_voice(who, None)?;
        Ok(took)
    })?;
    lab.measure("attach, 5,000 in voice", Often::Sometimes, |lab, n| {
        let who = lab.absent(talking + n);
        let took = lab.attach(who, MembersWanted::OwnAndVoice)?;
        lab.relay_heard(ToGuild::Detach { session: session(who) })?;
        Ok(took)
    })?;
    for n in 0..talking {
        lab.did(SYSTEM, &Command::ShowVoice(crowd::user_id(lab.absent(n)), None))?;
    }
    Ok(())
}

/// Cost of a reader that holds a member snapshot.
fn snapshots(lab: &mut Lab) -> Result<()> {
    lab.measure("member snapshot", Often::Always, |lab, _| Ok(lab.snapshot()?.0))?;
    lab.measure("presence, first change after a snapshot is taken", Often::Sometimes, |lab, _| {
        let (_, held) = lab.snapshot()?;
        let took = lab.change_presence()?;
        drop(held);
        Ok(took)
    })?;
    lab.measure("presence, second change after a snapshot is taken", Often::Sometimes, |lab, n| {
        let (_, held) = lab.snapshot()?;
        lab.did(SYSTEM, &Command::UpdateMember(crowd::user_id(0), nick(n)))?;
        let took = lab.change_presence()?;
        drop(held);
        Ok(took)
    })?;
    lab.measure("add member, first change after a snapshot is taken", Often::Sometimes, |lab, n| {
        let (_, held) = lab.snapshot()?;
        let user = crowd::stranger(lab.anybody(), (1 << 19) + n as u64);
        let took = lab.did(SYSTEM, &Command::AddMember(user))?;
        drop(held);
        Ok(took)
    })?;
    lab.measure("presence, after the reader is done", Often::Sometimes, |lab, _| {
        let (_, held) = lab.snapshot()?;
        drop(held);
        lab.change_presence()
    })?;
    lab.measure("(reader: end of a snapshot that went stale)", Often::Sometimes, |lab, _| {
        let (_, held) = lab.snapshot()?;
        lab.change_presence()?;
        let started = Instant::now();
        drop(held);
        Ok(started.elapsed())
    })
}

fn relays(lab: &mut Lab) -> Result<()> {
    lab.measure("resync of a relay", Often::Always, |lab, _| {
        let (relay, epoch) = (RelayId::first(PartitionId(0)), lab.epoch);
        lab.relay_heard(ToGuild::Resync { relay, epoch })
    })?;
    lab.measure_each("loss of a relay with half of the sessions, each slice", Often::Seldom, |lab, _| {
        let mut slices = vec![lab.unsubscribe_one(0)?];
        slices.extend(lab.settle()?.timers);
        lab.subscribe_one(0).context("subscribing again")?;
        for n in (0..lab.sessions).step_by(super::PARTITIONS) {
            lab.attach(n, MembersWanted::OwnAndVoice)?;
        }
        Ok(slices)
    })
}
