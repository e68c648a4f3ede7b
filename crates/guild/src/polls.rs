//! Polls: votes, and the end of a poll.
//!
//! Owns        `Vote`, `EndPoll`, `poll_load`; which polls are open.
//! Invariants  P1 an event is published exactly when a vote was added or removed, and it takes no votes after the end
//!             of a poll. P2 a poll that has ended has its final counts in its message, and is followed by one message
//!             of type 46, unless its thread is archived. P3 a poll is in `OpenPolls` exactly while its message exists
//!             and has no final counts. (tests `polls::p1_*` …)
//! Limits      `polls_max` open polls. Polls whose time is over are ended 16 at once, and when the guild
//!             is next loaded.
//! Not here    lengths of texts: the parser. Votes are stored as reactions: `ReactionEmoji::of_answer`.
//! Spec        docs/protocol/choices.md "Polls".

use crate::{
    cache::CachedMessage,
    check::ChannelContext,
    command::{Actor, CommandResult, MessageReply, NewMessage, NewPoll, Refusal, Stop},
    machine::Guild,
    messages::Sending,
    record::Write,
    turn::Turn,
};
use guildhall_guild_protocol::{Payload, ReplicaUpdate, ResourcePayload};
use guildhall_model::{
    ChannelId, EventName, GuildResource, Message, MessageId, MessageReference, OpenPoll, Permissions, Poll, PollAnswer,
    ReactionEmoji, ResourceKey, ResourceKind, UserId,
};
use guildhall_stdx::{Now, Timestamp};
use serde_json::{Value, json};

type Key = (ChannelId, MessageId);

const HOUR_MS: i64 = 3_600_000;
/// Polls that one timer ends.
const ENDED_AT_ONCE_MAX: usize = 16;

impl NewPoll {
    fn begin(&self, now: Timestamp) -> Poll {
        let answer = |(id, answer): (u8, &PollAnswer)| PollAnswer { id, ..answer.clone() };
        Poll {
            question: self.question.clone(),
            answers: (1..).zip(&self.answers).map(answer).collect(),
            expires_at: Timestamp(now.0 + i64::from(self.duration_h) * HOUR_MS),
            allow_multiselect: self.allow_multiselect,
            results: None,
        }
    }
}

impl Guild {
    /// Refuses a new poll that the guild has no room for, or with emoji that are not the guild's.
    pub(crate) fn check_poll(&self, new: &NewMessage) -> Result<(), Refusal> {
        let Some(poll) = &new.poll else { return Ok(()) };
        if self.polls.len() >= self.limits.polls_max {
            return Err(Refusal::TooManyPolls);
        }
        let ids = poll.answers.iter().filter_map(|answer| answer.emoji.as_ref()?.id);
        let is_own = |id| self.is_direct() || self.structure.guild.emojis.iter().any(|emoji| emoji.id == id);
        if ids.into_iter().all(is_own) { Ok(()) } else { Err(Refusal::PollEmoji) }
    }

    /// Whether members may begin a poll there.
    pub(crate) fn need_for_poll(&self, context: &ChannelContext, new: &NewMessage) -> Result<(), Refusal> {
        if new.poll.is_none() || self.is_direct() { Ok(()) } else { context.need(Permissions::SEND_POLLS) }
    }

    pub(crate) fn poll_of(&self, now: Now, new: &NewMessage) -> Option<Box<Poll>> {
        let mut poll = Box::new(new.poll.as_ref()?.begin(now.unix));
        for emoji in poll.answers.iter_mut().filter_map(|answer| answer.emoji.as_mut()) {
            let own = self.structure.guild.emojis.iter().find(|own| Some(own.id) == emoji.id);
            if let Some(own) = own {
                emoji.name.clone_from(&own.name);
            }
        }
        Some(poll)
    }

    /// The message is stored with its poll.
    pub(crate) fn open_poll(&mut self, now: Now, message: &Message) {
        let Some(poll) = message.poll.as_ref().filter(|poll| poll.results.is_none()) else { return };
        let (channel_id, message_id, expires_at) = (message.channel_id, message.id, poll.expires_at);
        self.polls.begin(now, (channel_id, message_id), expires_at);
        self.put_resource(GuildResource::OpenPoll(OpenPoll { channel_id, message_id, expires_at }));
    }

    /// The poll has ended, or its message is gone.
    pub(crate) fn forget_poll(&mut self, key: Key) {
        if self.polls.remove(key) {
            self.delete_resource(ResourceKey { kind: ResourceKind::OpenPoll, id: key.0.get(), part: key.1.get() });
        }
    }

    /// Those of a channel, in messages below `before` if there is one.
    pub(crate) fn forget_polls_in(&mut self, channel_id: ChannelId, before: Option<MessageId>) {
        for key in self.polls.in_channel(channel_id, before) {
            self.forget_poll(key);
        }
    }

    /// Number of votes for each answer of the message's poll.
    pub(crate) fn votes_of(&mut self, message: &Message) -> Vec<(u8, u64)> {
        if message.poll.is_none() {
            return Vec::new();
        }
        let found = self.messages.cached((message.channel_id, message.id));
        found.map_or_else(Vec::new, |cached| counts(cached).collect())
    }

    /// The actor's votes are these from now on. None withdraws them.
    pub(crate) fn vote(&mut self, turn: Turn<'_>, key: Key, answers: &[u8]) -> CommandResult<()> {
        let context = self.message_channel(turn, key.0)?;
        let user_id = context.author()?.user.id;
        context.need_history()?;
        context.need_free()?;
        self.need_open(&context)?;
        let message = self.need_message(key)?;
        let poll = message.message.poll.as_ref().ok_or(Refusal::NoPoll)?;
        if !poll.is_open(turn.now.unix) {
            return Err(Refusal::PollExpired.into());
        }
        let is_one_too_many = answers.len() > 1 && !poll.allow_multiselect;
        if is_one_too_many || !answers.iter().all(|answer| poll.has_answer(*answer)) {
            return Err(Refusal::InvalidForm("answer_ids").into());
        }
        let ids = || poll.answers.iter().map(|answer| answer.id);
        let has = |id: &u8| message.reactions.iter().any(|of| of.emoji.answer() == Some(*id) && of.contains(user_id));
        let removed: Vec<u8> = ids().filter(|id| has(id) && !answers.contains(id)).collect();
        let added: Vec<u8> = ids().filter(|id| !has(id) && answers.contains(id)).collect();
        // Nothing is refused from here on.

        for answer_id in removed {
            self.remove_vote(&context, key, answer_id, user_id);
        }
        for answer_id in added {
            let emoji = ReactionEmoji::of_answer(answer_id);
            self.write(Write::AddReaction(key.0, key.1, emoji.clone(), user_id));
            let version = self.touch();
            self.messages.change(key, version, |message| message.add_reaction(&emoji, user_id));
            self.publish_vote(EventName::MessagePollVoteAdd, &context, key, answer_id, user_id);
        }
        Ok(())
    }

    /// Removes a vote that is there.
    pub(crate) fn remove_vote(&mut self, context: &ChannelContext, key: Key, answer_id: u8, user_id: UserId) {
        let emoji = ReactionEmoji::of_answer(answer_id);
        self.write(Write::RemoveReaction(key.0, key.1, emoji.clone(), user_id));
        let version = self.touch();
        self.messages.change(key, version, |message| message.remove_reaction(&emoji, user_id));
        self.publish_vote(EventName::MessagePollVoteRemove, context, key, answer_id, user_id);
    }

    fn publish_vote(
        &mut self,
        name: EventName,
        context: &ChannelContext,
        (channel_id, message_id): Key,
        answer_id: u8,
        user_id: UserId,
    ) {
        let resource = ResourcePayload::PollVote { user_id, channel_id, message_id, answer_id };
        let event = self.event(name, self.channel_rule(&context.channel), Payload::Resource(Box::new(resource)));
        self.publish(event, ReplicaUpdate::None);
    }

    /// Ends a poll, before its time if its author requests it.
    pub(crate) fn end_poll(&mut self, turn: Turn<'_>, key: Key) -> CommandResult<Box<MessageReply>> {
        let context = self.message_channel(turn, key.0)?;
        if turn.actor != Actor::System {
            context.need_history()?;
            self.need_editable(&context)?;
        }
        let cached = self.need_message(key)?;
        let before = cached.message.clone();
        if turn.actor != Actor::System && !context.is(before.author.id) {
            return Err(Refusal::NotTheAuthor.into());
        }
        let poll = before.poll.as_ref().ok_or(Refusal::NoPoll)?;
        if poll.results.is_some() {
            return Err(Refusal::PollExpired.into());
        }
        let counted: Vec<(u8, u64)> = counts(cached).collect();
        let reactions = cached.counts(turn.actor);
        let referenced = self.referenced_by(&before)?;
        // Nothing is refused from here on.

        let count =
            |answer: &PollAnswer| counted.iter().find(|(id, _)| *id == answer.id).map_or(0, |(_, count)| *count);
        let ended = Poll {
            results: Some(poll.answers.iter().map(count).collect()),
            expires_at: poll.expires_at.min(turn.now.unix),
            ..Poll::clone(poll)
        };
        self.forget_poll(key);
        let note = result_embed(&ended);
        let message = Message { poll: Some(Box::new(ended)), ..Message::clone(&before) };
        let message = self.replace_message(turn.now, &context, message, referenced.clone().flatten());
        if self.need_open(&context).is_ok() {
            let reference =
                MessageReference { message_id: key.1, channel_id: key.0, guild_id: self.guild_of_messages() };
            let result = Message {
                kind: Message::KIND_POLL_RESULT,
                message_reference: Some(reference),
                embeds: vec![note],
                webhook_id: before.webhook_id,
                ..Message::new(self.next_id(turn.now), key.0, self.guild_of_messages(), before.author.clone())
            };
            self.commit_message(turn.now, &context, result, Sending::default());
        }
        let message = self.limits.links.renewed(turn.now.unix, message);
        let referenced = self.renewed_reference(turn.now, referenced);
        Ok(Box::new(MessageReply { message, reactions, referenced }))
    }

    /// Ends the polls whose time is over.
    pub(crate) fn end_polls(&mut self, now: Now) {
        if self.is_deleted || self.polls.due_at().is_none_or(|at| at > now.instant) {
            return;
        }
        for _ in 0..ENDED_AT_ONCE_MAX {
            let Some(key) = self.polls.next_due(now) else { break };
            match self.end_poll(Turn::new(now, Actor::System), key) {
                Err(Stop::Needs(channel_id, message_id)) => {
                    if self.polls.want(now, (channel_id, message_id)) {
                        self.messages.load_began((channel_id, message_id));
                    }
                    return;
                }
                // Its message or channel is gone.
                Err(Stop::Refused(_) | Stop::Later(_)) => self.forget_poll(key),
                Ok(_) => {}
            }
        }
        self.polls.arm(now);
    }

    /// A message that a timer needs from the store, as `Outcome::NeedsMessage`, without a command: call it after
    /// `handle_timer`.
    pub fn poll_load(&mut self) -> Option<(ChannelId, MessageId)> {
        self.polls.take_wanted()
    }
}

fn counts(message: &CachedMessage) -> impl Iterator<Item = (u8, u64)> {
    message.reactions.iter().filter_map(|of| Some((of.emoji.answer()?, of.len() as u64)))
}

/// The result as upstream's clients read it. Without a winner if several answers have the most votes.
fn result_embed(poll: &Poll) -> Value {
    let results = poll.results.as_deref().unwrap_or_default();
    let (total, most) = (results.iter().sum::<u64>(), results.iter().max().copied().unwrap_or(0));
    let field = |name: &str, value: String| json!({"name": name, "value": value, "inline": false});
    let mut fields = vec![
        field("poll_question_text", poll.question.clone()),
        field("victor_answer_votes", most.to_string()),
        field("total_votes", total.to_string()),
    ];
    let mut best = poll.answers.iter().zip(results).filter(|(_, count)| **count == most && most > 0);
    if let (Some((answer, _)), None) = (best.next(), best.next()) {
        fields.push(field("victor_answer_id", answer.id.to_string()));
        fields.extend(answer.text.iter().map(|text| field("victor_answer_text", text.clone())));
        if let Some(emoji) = &answer.emoji {
            fields.extend(emoji.id.iter().map(|id| field("victor_answer_emoji_id", id.to_string())));
            fields.push(field("victor_answer_emoji_name", emoji.name.clone()));
            fields.push(field("victor_answer_emoji_animated", "false".to_owned()));
        }
    }
    json!({"type": "poll_result", "fields": fields})
}
