//! MESSAGE_CONTENT: which sessions get the content of messages (docs/protocol/reference.md §4.3).

use crate::fixture::*;
use guildhall_guild::{Actor, Command, MessagePatch, NewMessage, ReplyTo};
use guildhall_model::{MessageId, User};
use guildhall_test_kit::{ClientId, ClientParams, TestCluster, bot};
use serde_json::{Value, json};
use std::sync::Arc;

struct Cast {
    cluster: TestCluster,
    /// Without MESSAGE_CONTENT.
    blind: ClientId,
    blind_etf: ClientId,
    seeing: ClientId,
    /// A user account.
    user: ClientId,
}

fn cast() -> Cast {
    let mut cluster = world();
    let blind = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    let blind_etf = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::ETF);
    let seeing = live_bot(&mut cluster);
    let user = live(&mut cluster, &bob(), None, ClientParams::JSON);
    [blind, blind_etf, seeing, user].into_iter().for_each(|client| drop(cluster.take(client)));
    Cast { cluster, blind, blind_etf, seeing, user }
}

fn message(content: &str) -> NewMessage {
    NewMessage {
        content: content.to_owned(),
        embeds: vec![json!({"title": "e"})],
        components: vec![json!({"type": 1})],
        ..NewMessage::default()
    }
}

impl Cast {
    fn say(&mut self, who: &Arc<User>, new: NewMessage) -> MessageId {
        say_as(&mut self.cluster, who, GENERAL, new)
    }

    /// The last dispatch of each client, blind ones first.
    fn last_dispatches(&mut self) -> [Value; 4] {
        [self.blind, self.blind_etf, self.seeing, self.user].map(|client| {
            let dispatches = self.cluster.dispatches(client);
            dispatches.last().expect("each client receives one").d()
        })
    }

    /// Whether the content is readable, and that of the message it answers, for the blind bot. The other clients read
    /// all.
    fn check(&mut self, content: &str, reads: bool, reads_referenced: Option<bool>) {
        for (n, d) in self.last_dispatches().iter().enumerate() {
            let is_blind = n < 2;
            check_one(d, content, reads || !is_blind, n);
            match reads_referenced {
                Some(reads) => check_one(&d["referenced_message"], "original", reads || !is_blind, n),
                None => assert!(d.get("referenced_message").is_none()),
            }
        }
    }
}

fn check_one(d: &Value, content: &str, reads: bool, n: usize) {
    let parts = [&d["embeds"], &d["components"]].map(|part| part.as_array().expect("an array").len());
    let expected = if reads { (content, [1, 1]) } else { ("", [0, 0]) };
    assert_eq!((d["content"].as_str().expect("a string"), parts), expected, "client {n}: {d}");
    assert_eq!(d["attachments"], json!([]));
    assert!(d["author"]["id"].is_string() && d["mentions"].is_array());
}

#[test]
fn others_messages_are_withheld() {
    let mut cast = cast();
    cast.say(&ana(), message("hello"));
    cast.check("hello", false, None);
}

#[test]
fn what_mentions_the_bot_is_not() {
    let mut cast = cast();
    let content = format!("hello <@{}>", gob().id);
    cast.say(&ana(), message(&content));
    cast.check(&content, true, None);
}

#[test]
fn mentions_of_others_and_of_everyone_do_not_count() {
    let mut cast = cast();
    let content = format!("hello <@{}> @everyone", pro().id);
    cast.say(&ana(), message(&content));
    cast.check(&content, false, None);
}

#[test]
fn its_own_messages_are_not() {
    let mut cast = cast();
    cast.say(&gob(), message("I am"));
    cast.check("I am", true, None);
}

#[test]
fn another_bot_of_the_same_kind_is_not_the_same_bot() {
    let mut cast = cast();
    let other = bot(899);
    system(&mut cast.cluster, Command::AddMember(other.clone()));
    cast.say(&other, message("beep"));
    cast.check("beep", false, None);
}

#[test]
fn the_message_it_answers_is_judged_apart() {
    let mut cast = cast();
    let reply = |to, content: &str, replied_user| NewMessage {
        reply_to: Some(ReplyTo { message_id: to, fail_if_not_exists: true }),
        allowed_mentions: Some(guildhall_guild::AllowedMentions {
            all_users: true,
            replied_user,
            ..guildhall_guild::AllowedMentions::default()
        }),
        ..message(content)
    };
    let own = cast.say(&gob(), message("original"));
    let foreign = cast.say(&ana(), message("original"));

    cast.say(&ana(), reply(own, "to the bot", false));
    cast.check("to the bot", false, Some(true));
    cast.say(&ana(), reply(own, "to the bot, loudly", true));
    cast.check("to the bot, loudly", true, Some(true));
    cast.say(&gob(), reply(foreign, "from the bot", false));
    cast.check("from the bot", true, Some(false));
    cast.say(&bob(), reply(foreign, "between others", false));
    cast.check("between others", false, Some(false));
    let mention = format!("<@{}>", gob().id);
    cast.say(&bob(), reply(foreign, &mention, false));
    cast.check(&mention, true, Some(false));
}

#[test]
fn each_edit_is_redacted_by_its_own_mentions() {
    let mut cast = cast();
    let mention = format!("hello <@{}>", gob().id);
    let message_id = cast.say(&ana(), message(&mention));
    cast.check(&mention, true, None);
    let edit = |cast: &mut Cast, content: &str| {
        let patch = MessagePatch { content: Some(content.to_owned()), ..MessagePatch::default() };
        let command = Command::EditMessage(channel(GENERAL), message_id, Box::new(patch));
        cast.cluster.command(Actor::User(ana().id), command).expect("it is theirs");
    };
    edit(&mut cast, "hello nobody");
    cast.check("hello nobody", false, None);
    edit(&mut cast, &mention);
    cast.check(&mention, true, None);
}

#[test]
fn what_was_redacted_is_replayed_redacted() {
    let mut cast = cast();
    let blind = cast.blind;
    cast.cluster.cut(blind);
    cast.say(&ana(), message("secret"));
    let (_, received) = resumed(&mut cast.cluster, blind, &gob());
    let guildhall_test_kit::Received::Dispatch(dispatch) = &received[0] else { panic!("{received:?}") };
    check_one(&dispatch.d(), "secret", false, 0);
}
