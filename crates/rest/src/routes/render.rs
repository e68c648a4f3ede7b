//! Rendering: messages as one account may see them.
//!
//! Invariants  R1 a bot whose application lacks MESSAGE_CONTENT gets no content except in direct messages, and in
//!             messages that it wrote or that mention it. The message that a reply refers to is judged
//!             separately. (tests `r1_*`)
//! Spec        docs/protocol/reference.md §4.3, §6.6.

use guildhall_guild::{MessageRecord, MessageReply};
use guildhall_model::{
    Message, ReactionEmoji, User,
    from_gateway::{MessageBody, ReactionBody, ReferencedMessage, VoteCount},
};

/// A message without reactions and reference.
fn plain<'a>(viewer: &User, message: &'a Message) -> MessageBody<'a> {
    let body = MessageBody::new(message).for_rest();
    if may_read_content(viewer, message) { body } else { body.redacted() }
}

/// Whether an account may read the content of a message that it can view (R1).
pub(crate) fn may_read_content(viewer: &User, message: &Message) -> bool {
    let reads_content = !viewer.bot || viewer.application_flags & User::APPLICATION_MESSAGE_CONTENT != 0;
    reads_content || message.is_direct() || message.concerns(viewer.id)
}

/// A message with its reactions. `referenced` is the message that it replies to: `Some(None)` if that was deleted, none
/// if it is no reply.
pub(crate) fn message<'a>(
    viewer: &User,
    record: &'a MessageRecord,
    referenced: Option<Option<&'a Message>>,
) -> MessageBody<'a> {
    let reactions = record.reactions.iter().filter(|(_, users)| !users.is_empty());
    let reactions = reactions.map(|(emoji, users)| (emoji, users.len() as u64, users.contains(&viewer.id)));
    with_reference(viewer, with_reactions(plain(viewer, &record.message), reactions), referenced)
}

/// Adds the reactions and the votes for the message's poll. Each entry of `all` has its number of users, and whether
/// the viewer is among these users.
fn with_reactions<'a>(
    body: MessageBody<'a>,
    all: impl Iterator<Item = (&'a ReactionEmoji, u64, bool)>,
) -> MessageBody<'a> {
    let (mut reactions, mut votes) = (Vec::new(), Vec::new());
    for (emoji, count, me) in all {
        match emoji.answer() {
            Some(id) => votes.push(VoteCount { id, count, me_voted: me }),
            None => reactions.push(ReactionBody::new(emoji, count, me)),
        }
    }
    body.with_reactions(reactions).with_votes(&votes)
}

/// A message as a guild answered it to the viewer.
pub(crate) fn reply<'a>(viewer: &User, reply: &'a MessageReply) -> MessageBody<'a> {
    let reactions = reply.reactions.iter().map(|of| (&of.emoji, of.count, of.me));
    let referenced = reply.referenced.as_ref().map(Option::as_deref);
    with_reference(viewer, with_reactions(plain(viewer, &reply.message), reactions), referenced)
}

fn with_reference<'a>(
    viewer: &User,
    body: MessageBody<'a>,
    referenced: Option<Option<&'a Message>>,
) -> MessageBody<'a> {
    body.with_referenced(match referenced {
        None => ReferencedMessage::NotAReply,
        Some(None) => ReferencedMessage::Deleted,
        Some(Some(message)) => ReferencedMessage::Found(Box::new(plain(viewer, message))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_model::{ChannelId, GuildId, MessageId, MessageReference, UserId};
    use serde_json::json;
    use std::sync::Arc;

    fn user(id: u64, bot: bool, application_flags: u32) -> User {
        User { bot, application_flags, ..User::new(UserId::new(id), "somebody") }
    }

    fn posted(author: &User, content: &str) -> Message {
        Message {
            content: content.to_owned(),
            embeds: vec![json!({"title": "t"})],
            components: vec![json!({"type": 1})],
            ..Message::new(MessageId::new(50), ChannelId::new(10), GuildId::new(1), Arc::new(author.clone()))
        }
    }

    fn content_seen(viewer: &User, message: Message) -> serde_json::Value {
        let record = MessageRecord { message: Arc::new(message), reactions: Vec::new() };
        let body = serde_json::to_value(super::message(viewer, &record, None)).unwrap();
        json!([body["content"], body["embeds"], body["components"]])
    }

    #[test]
    fn r1_content_is_withheld_from_bots_without_the_grant() {
        let ana = user(7, false, 0);
        let all = json!(["hi", [{"title": "t"}], [{"type": 1}]]);
        let nothing = json!(["", [], []]);
        let check = |viewer: &User, message: Message, expected: &serde_json::Value| {
            assert_eq!(&content_seen(viewer, message), expected);
        };
        let bot = user(9, true, 0);
        check(&bot, posted(&ana, "hi"), &nothing);
        check(&bot, posted(&bot, "hi"), &all);
        check(&bot, Message { mentions: vec![Arc::new(bot.clone())], ..posted(&ana, "hi") }, &all);
        check(&user(9, true, 1 << 18), posted(&ana, "hi"), &all);
        check(&user(9, true, 1 << 19), posted(&ana, "hi"), &all);
        check(&user(8, false, 0), posted(&ana, "hi"), &all);
    }

    #[test]
    fn r1_the_referenced_message_is_judged_apart() {
        let (ana, bot) = (user(7, false, 0), user(9, true, 0));
        let answered = posted(&ana, "question");
        let answer = Message {
            kind: Message::KIND_REPLY,
            message_reference: Some(MessageReference {
                message_id: answered.id,
                channel_id: answered.channel_id,
                guild_id: answered.guild_id,
            }),
            ..posted(&bot, "answer")
        };
        let record = MessageRecord { message: Arc::new(answer), reactions: Vec::new() };
        let body = serde_json::to_value(message(&bot, &record, Some(Some(&answered)))).unwrap();
        assert_eq!(body["content"], "answer");
        assert_eq!(body["referenced_message"]["content"], "");
        let body = serde_json::to_value(message(&bot, &record, Some(None))).unwrap();
        assert!(body["referenced_message"].is_null() && body.get("referenced_message").is_some());
    }

    #[test]
    fn reactions_know_the_viewer() {
        let ana = user(7, false, 0);
        let fire = ReactionEmoji { id: None, name: "🔥".to_owned() };
        let record = MessageRecord {
            message: Arc::new(posted(&ana, "hi")),
            reactions: vec![
                (fire.clone(), vec![UserId::new(3), UserId::new(7)]),
                (ReactionEmoji { id: None, name: "👍".to_owned() }, vec![]),
            ],
        };
        let body = serde_json::to_value(message(&ana, &record, None)).unwrap();
        assert_eq!(body["reactions"].as_array().unwrap().len(), 1);
        assert_eq!(body["reactions"][0]["count"], 2);
        assert_eq!(body["reactions"][0]["me"], true);
        let body = serde_json::to_value(message(&user(8, false, 0), &record, None)).unwrap();
        assert_eq!(body["reactions"][0]["me"], false);
    }
}
