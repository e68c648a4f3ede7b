//! Direct messages: READY waits for them, and nothing falls between it and what happens meanwhile.

use crate::fixture::*;
use guildhall_guild::{Actor, Command, NewDirect, NewMessage};
use guildhall_model::{ChannelId, GuildId};
use guildhall_test_kit::{ClientId, ClientParams, Pair, Received};
use serde_json::json;

const DM: ChannelId = ChannelId::new(9_000);

fn with_direct() -> Pair {
    let mut pair = world();
    pair.add_direct(NewDirect { id: DM, recipients: vec![ana(), bob()], is_group: false });
    pair
}

fn write(pair: &mut Pair, content: &str) {
    let new = NewMessage { content: content.to_owned(), ..NewMessage::default() };
    let command = Command::CreateMessage(DM, Box::new(new));
    let guild_id: GuildId = DM.cast();
    pair.command_in(guild_id, Actor::User(ana().id), command).expect("ana may");
    pair.settle();
}

fn names(pair: &mut Pair, client: ClientId) -> Vec<String> {
    pair.names(client).into_iter().map(|(_, name)| name).collect()
}

#[test]
fn ready_holds_them_and_what_is_said_meanwhile_follows() {
    let mut pair = with_direct();
    pair.holds_directs = true;
    let client = pair.login(&bob(), None, ClientParams::JSON);
    assert_eq!(names(&mut pair, client), [""; 0], "it is not ready without them");
    write(&mut pair, "early");
    assert_eq!(names(&mut pair, client), [""; 0]);
    pair.answer_directs();
    pair.settle();
    let dispatches = pair.dispatches(client);
    assert_eq!(dispatches.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["READY", "MESSAGE_CREATE"]);
    assert_eq!(listed(&dispatches[0].d()["private_channels"], "/id"), [DM.to_string()]);
    assert_eq!(dispatches[1].d()["content"], json!("early"));
}

#[test]
fn ready_says_nothing_of_a_guild_that_its_user_was_thrown_out_of_meanwhile() {
    for comes_back in [false, true] {
        let mut pair = world();
        pair.holds_directs = true;
        let client = pair.login(&bob(), None, ClientParams::JSON);
        say(&mut pair, &ana(), GENERAL, "for those who are in it");
        pair.command(Actor::System, Command::RemoveMember(bob().id)).expect("it may");
        pair.settle();
        if comes_back {
            pair.command(Actor::System, Command::AddMember(bob())).expect("it may");
            pair.settle();
        }
        pair.answer_directs();
        pair.settle();
        let dispatches = pair.dispatches(client);
        assert_eq!(dispatches.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["READY"]);
        let guilds = dispatches[0].d()["guilds"].as_array().expect("a list").len();
        assert_eq!(guilds, usize::from(comes_back), "each once, and only those it is in");
    }
}

#[test]
fn a_session_whose_direct_messages_cannot_be_read_ends() {
    for times_out in [false, true] {
        let mut pair = with_direct();
        pair.are_directs_down = !times_out;
        pair.holds_directs = times_out;
        let client = pair.login(&bob(), None, ClientParams::JSON);
        if times_out {
            pair.advance(5_000);
        }
        let received = pair.take(client);
        let ends = matches!(received[..], [Received::Hello { .. }, Received::Close(Some(4000), _), Received::End]);
        assert!(ends, "READY would say that there are none: {received:?}");
        assert_eq!(pair.partition().sessions_count(), 0);
        // An answer that comes after that is nobody's.
        (pair.are_directs_down, pair.holds_directs) = (false, false);
        pair.answer_directs();
        let client = pair.login(&bob(), None, ClientParams::JSON);
        assert_eq!(names(&mut pair, client), ["READY"]);
    }
}

#[test]
fn bots_are_not_asked_for() {
    let mut pair = with_direct();
    pair.are_directs_down = true;
    let client = pair.login(&gob(), Some(PLAIN), ClientParams::JSON);
    assert_eq!(names(&mut pair, client), ["READY", "GUILD_CREATE"]);
}
