//! Sessions over a restart: nothing lost, nothing told twice, nothing told that may not be seen any more.

use crate::fixture::*;
use guildhall_guild::{Actor, Command, DirectCommand, NewDirect, NewMessage};
use guildhall_model::ChannelId;
use guildhall_test_kit::{ClientId, ClientParams, Dispatch, Pair, Received, id};
use serde_json::json;

const ROOM: usize = 1 << 20;
const RESUME_WINDOW_MS: u64 = 180_000;

fn restart(pair: &mut Pair) -> usize {
    let over = pair.restart(vec![guild().load()], ROOM);
    over.iter().map(|over| over.sessions.len()).sum()
}

/// Seq, name and content of what a resume was sent.
fn told(received: Vec<Received>) -> Vec<(u64, String, String)> {
    let dispatch = |received| match received {
        Received::Dispatch(dispatch) => {
            let content = dispatch.d()["content"].as_str().unwrap_or_default().to_owned();
            (dispatch.seq, dispatch.name, content)
        }
        other => panic!("{other:?} in a replay"),
    };
    received.into_iter().map(dispatch).collect()
}

fn dispatch(received: Received) -> Option<Dispatch> {
    if let Received::Dispatch(dispatch) = received { Some(dispatch) } else { None }
}

fn contents(told: &[(u64, String, String)]) -> Vec<&str> {
    told.iter().map(|(.., content)| content.as_str()).filter(|content| !content.is_empty()).collect()
}

fn etf() -> ClientParams {
    let mut params = ClientParams::JSON;
    params.conn.encoding = guildhall_codec::Encoding::Etf;
    params
}

#[test]
fn h2_x1_a_session_goes_on_where_it_was() {
    for params in [ClientParams::JSON, etf()] {
        let mut pair = world();
        let client = live(&mut pair, &pro(), Some(FULL), params);
        say_all(&mut pair, ["heard".to_owned()]);
        assert_eq!(heard(&mut pair, client).len(), 1);
        let seen = pair.client(client).seq;
        pair.cut(client);
        say_all(&mut pair, ["one", "two", "three"].map(str::to_owned));
        assert_eq!(restart(&mut pair), 1);
        assert_eq!((pair.partition().sessions_count(), pair.partition().is_restoring()), (1, false));
        // It also receives later messages.
        say_all(&mut pair, ["four".to_owned()]);
        let (client, received) = resumed(&mut pair, client, &pro());
        let told = told(received);
        assert_eq!(contents(&told), ["one", "two", "three", "four"]);
        assert!(told.iter().all(|(_, name, _)| name == "MESSAGE_CREATE" || name == "RESUMED"), "{told:?}");
        assert!(told.iter().enumerate().all(|(n, (seq, ..))| *seq == seen + 1 + n as u64), "{told:?}");
        say_all(&mut pair, ["live".to_owned()]);
        assert_eq!(heard(&mut pair, client).len(), 1);
    }
}

#[test]
fn what_sessions_share_goes_over_once() {
    let mut pair = world();
    let clients: Vec<ClientId> = (0..20).map(|_| live(&mut pair, &pro(), Some(FULL), ClientParams::JSON)).collect();
    clients.iter().for_each(|client| pair.client(*client).heartbeat());
    pair.settle();
    clients.iter().for_each(|client| pair.cut(*client));
    say_all(&mut pair, (0..50).map(|n| format!("number {n}")));
    let over = pair.restart(vec![guild().load()], ROOM);
    assert_eq!(over[0].sessions.len(), 20);
    let messages = over[0].dispatches.iter().filter(|dispatch| dispatch.name == "MESSAGE_CREATE").count();
    assert_eq!(messages, 50);
    assert!(over[0].sessions.iter().all(|session| session.entries.len() <= 3), "{:?}", over[0].sessions[0].entries);
    for client in clients {
        let (_, received) = resumed(&mut pair, client, &pro());
        assert_eq!(contents(&told(received)).len(), 50);
    }
}

#[test]
fn h3_what_may_not_be_seen_any_more_is_withheld() {
    let mut pair = world();
    give_role(&mut pair, &pro(), INSIDERS);
    let client = live(&mut pair, &pro(), Some(FULL), ClientParams::JSON);
    pair.cut(client);
    say(&mut pair, &ana(), GENERAL, "open");
    say(&mut pair, &ana(), HIDDEN, "secret");
    pair.settle();
    // As the store has it after the role was taken away: that is how the guild comes back.
    assert_eq!(restart(&mut pair), 1);
    let (_, received) = resumed(&mut pair, client, &pro());
    let told = told(received);
    assert_eq!(contents(&told), ["open"]);
    assert_eq!(pair.partition().counters().replay_suppressed_total, 1);
}

#[test]
fn who_looked_at_a_guild_still_does() {
    let mut pair = world_with(|config| config.passive_above_members = Some(0));
    let client = live_user(&mut pair, &bob(), 0);
    subscribe(&mut pair, client, json!({"typing": true}));
    pair.take(client);
    pair.cut(client);
    say_all(&mut pair, ["before".to_owned()]);
    assert_eq!(restart(&mut pair), 1);
    say_all(&mut pair, ["after".to_owned()]);
    let (_, received) = resumed(&mut pair, client, &bob());
    let told = told(received);
    assert_eq!(contents(&told), ["before", "after"]);
    assert!(told.iter().all(|(_, name, _)| name != "GUILD_CREATE" && name != "GUILD_DELETE"), "{told:?}");
}

#[test]
fn passive_sessions_are_told_what_they_would_have_been() {
    const DELTAS: u64 = 1 << 14;
    let mut pair = world_with(|config| config.passive_above_members = Some(0));
    let client = live_user(&mut pair, &bob(), DELTAS);
    pair.take(client);
    pair.cut(client);
    say_all(&mut pair, ["unread".to_owned()]);
    assert_eq!(restart(&mut pair), 1);
    let (_, received) = resumed(&mut pair, client, &bob());
    let told = told(received);
    assert!(told.iter().any(|(_, name, _)| name == "PASSIVE_UPDATE_V2"), "{told:?}");
}

/// The client joins the guild's voice channel.
fn join_voice(pair: &mut Pair, client: ClientId) {
    let d = json!({"guild_id": id::<()>(GUILD).to_string(), "channel_id": id::<()>(VOICE).to_string(),
        "self_mute": false, "self_deaf": false});
    pair.client(client).send(4, &d);
    pair.settle();
}

#[test]
fn voice_ends_with_the_process_and_others_are_told() {
    let mut pair = world();
    let listener = live(&mut pair, &pro(), Some(FULL), ClientParams::JSON);
    let speaker = live_user(&mut pair, &bob(), 0);
    join_voice(&mut pair, speaker);
    pair.take(listener);
    assert_eq!(restart(&mut pair), 2);
    let (_, received) = resumed(&mut pair, listener, &pro());
    let left = received.into_iter().find_map(|received| match received {
        Received::Dispatch(dispatch) if dispatch.name == "VOICE_STATE_UPDATE" => Some(dispatch.d()),
        _ => None,
    });
    assert!(left.expect("a voice state")["channel_id"].is_null());
}

/// Otherwise a client that saw the user join voice would show them there for ever.
#[test]
fn who_left_voice_with_the_process_left_it_for_those_too_who_may_not_look_there_any_more() {
    for restarts in [1, 2] {
        let mut pair = world();
        let listener = live(&mut pair, &pro(), Some(FULL), ClientParams::JSON);
        let speaker = live_user(&mut pair, &bob(), 0);
        join_voice(&mut pair, speaker);
        let is_state = |dispatch: &Dispatch| dispatch.name == "VOICE_STATE_UPDATE";
        assert!(pair.dispatches(listener).iter().any(is_state), "the listener sees them come");
        for _ in 0..restarts {
            pair.restart(vec![guild().hidden_channel(VOICE, &[INSIDERS]).load()], ROOM);
        }
        let (_, received) = resumed(&mut pair, listener, &pro());
        let dispatches: Vec<Dispatch> = received.into_iter().filter_map(dispatch).collect();
        let states: Vec<_> = dispatches.iter().filter(|dispatch| is_state(dispatch)).map(Dispatch::d).collect();
        assert_eq!(states.len(), 1, "after {restarts}: {states:?}");
        assert_eq!(states[0]["user_id"], bob().id.to_string());
        assert!(states[0]["channel_id"].is_null(), "{states:?}");
    }
}

/// One update tells a passive session of a message in a channel that it may no longer read, and of a user
/// who left voice.
#[test]
fn who_left_voice_with_the_process_left_it_in_what_is_left_of_an_update() {
    const ROUND_MS: u64 = 37_500;
    let snapshot = |update: &Dispatch| update.d()["voice_states"].is_null();
    let delta = |update: &Dispatch| update.d()["removed_voice_states"] == json!([pro().id.to_string()]);
    type IsRight<'a> = &'a dyn Fn(&Dispatch) -> bool;
    let forms: [(u64, &str, IsRight<'_>); 2] =
        [(1 << 11, "PASSIVE_UPDATE_V1", &snapshot), (1 << 14, "PASSIVE_UPDATE_V2", &delta)];
    for ((capabilities, form, is_right), restarts) in forms.into_iter().flat_map(|form| [(form, 1), (form, 2)]) {
        let mut pair = world_with(|config| config.passive_above_members = Some(0));
        let reader = live_user(&mut pair, &bob(), capabilities);
        let speaker = live(&mut pair, &pro(), Some(FULL), ClientParams::JSON);
        join_voice(&mut pair, speaker);
        pair.advance_with_heartbeats(ROUND_MS);
        let is_update = |dispatch: &Dispatch| dispatch.name == form;
        assert!(pair.dispatches(reader).iter().any(is_update), "the reader is told that they came");
        pair.cut(reader);
        say_all(&mut pair, ["not for them any more".to_owned()]);
        for _ in 0..restarts {
            pair.restart(vec![guild().hidden_channel(GENERAL, &[INSIDERS]).load()], ROOM);
        }
        let (_, received) = resumed(&mut pair, reader, &bob());
        let told: Vec<Dispatch> = received.into_iter().filter_map(dispatch).filter(is_update).collect();
        let bodies: Vec<_> = told.iter().map(Dispatch::d).collect();
        assert!(told.len() == 1 && is_right(&told[0]), "after {restarts}: {bodies:?}");
        assert!(!format!("{bodies:?}").contains(&id::<()>(GENERAL).to_string()), "{bodies:?}");
    }
}

/// The guild has accepted their voice state, but their partition does not know of it yet. A bot may be in voice in any
/// number of guilds; the same holds for it.
#[test]
fn who_has_just_asked_for_voice_leaves_it_as_well() {
    for speaker in [bob(), gob()] {
        let mut pair = world();
        let listener = live(&mut pair, &pro(), Some(FULL), ClientParams::JSON);
        let intents = speaker.bot.then_some(PLAIN);
        let client = live(&mut pair, &speaker, intents, ClientParams::JSON);
        pair.take(listener);
        pair.holds_mail = true;
        join_voice(&mut pair, client);
        pair.partition_mut().leave_voice();
        pair.settle();
        pair.holds_mail = false;
        pair.settle();
        let places: Vec<bool> = (pair.dispatches(listener).into_iter())
            .filter(|dispatch| dispatch.name == "VOICE_STATE_UPDATE")
            .map(|dispatch| dispatch.d()["channel_id"].is_null())
            .collect();
        assert_eq!(places, [false, true], "they come, and go; bot: {}", speaker.bot);
    }
}

#[test]
fn past_the_bound_sessions_are_left_out_and_told_so() {
    let mut pair = world();
    let client = live_bot(&mut pair);
    pair.cut(client);
    say_all(&mut pair, (0..50).map(|n| format!("number {n}")));
    let over = pair.restart(vec![guild().load()], 2_000);
    assert_eq!((over[0].sessions.len(), over[0].left_out_count), (0, 1));
    refused(&mut pair, client, &pro());
}

/// Logs forget by count, and clients say what they have by heartbeats only.
#[test]
fn whose_client_has_what_was_forgotten_is_handed_over() {
    const LOG_EVENTS: usize = 20;
    let mut pair = world_with(|config| config.log.events_max = LOG_EVENTS);
    let client = live(&mut pair, &pro(), Some(FULL), ClientParams::JSON);
    for n in 0..3 * LOG_EVENTS {
        say(&mut pair, &ana(), GENERAL, &format!("heard {n}"));
        pair.settle();
    }
    assert_eq!(heard(&mut pair, client).len(), 3 * LOG_EVENTS);
    pair.cut(client);
    say_all(&mut pair, ["one", "two"].map(str::to_owned));
    assert_eq!(restart(&mut pair), 1);
    let (_, received) = resumed(&mut pair, client, &pro());
    assert_eq!(contents(&told(received)), ["one", "two"]);
}

#[test]
fn a_guild_that_does_not_come_back_in_time_is_an_outage() {
    let mut pair = world();
    let client = live_bot(&mut pair);
    pair.cut(client);
    pair.restart(vec![], ROOM);
    assert!(pair.partition().is_restoring());
    pair.fail_pending_restores();
    assert!(!pair.partition().is_restoring());
    pair.wake_guild(guild().load());
    let (_, received) = resumed(&mut pair, client, &pro());
    let names: Vec<String> = told(received).into_iter().map(|(_, name, _)| name).collect();
    assert_eq!(names, ["GUILD_DELETE", "GUILD_CREATE", "RESUMED"]);
}

#[test]
fn who_does_not_come_is_forgotten() {
    let mut pair = world();
    let client = live_bot(&mut pair);
    assert_eq!(restart(&mut pair), 1);
    pair.advance(RESUME_WINDOW_MS + 1);
    assert_eq!(pair.partition().sessions_count(), 0);
    refused(&mut pair, client, &pro());
}

/// Messages of a group are not sent to an account that left it, by any process, whenever it left.
#[test]
fn x2_of_a_group_that_was_left_nothing_is_told() {
    const GROUP: ChannelId = ChannelId::new(9_000);
    let found = |pair: &mut Pair| {
        pair.add_direct(NewDirect { id: GROUP, recipients: vec![ana(), bob(), gob()], is_group: true });
    };
    let run = |pair: &mut Pair, command| {
        pair.command_in(GROUP.cast(), Actor::User(ana().id), command).expect("ana may");
        pair.settle();
    };
    let throw_out = || Command::Direct(DirectCommand::RemoveRecipient(bob().id));
    for (restarts, leaves) in
        [(1, None), (1, Some("before")), (1, Some("after")), (2, None), (2, Some("before")), (2, Some("after"))]
    {
        let mut pair = world();
        found(&mut pair);
        let client = live_user(&mut pair, &bob(), 0);
        pair.take(client);
        pair.cut(client);
        let new = NewMessage { content: "among us".to_owned(), ..NewMessage::default() };
        run(&mut pair, Command::CreateMessage(GROUP, Box::new(new)));
        if leaves == Some("before") {
            run(&mut pair, throw_out());
        }
        for _ in 0..restarts {
            assert_eq!(restart(&mut pair), 1);
        }
        if leaves == Some("after") {
            found(&mut pair);
            run(&mut pair, throw_out());
        }
        let (_, received) = resumed(&mut pair, client, &bob());
        let told = told(received);
        assert_eq!(contents(&told).contains(&"among us"), leaves.is_none(), "{restarts} {leaves:?}: {told:?}");
        assert_eq!(told.iter().any(|(_, name, _)| name == "CHANNEL_DELETE"), leaves.is_some(), "{leaves:?}: {told:?}");
    }
}
