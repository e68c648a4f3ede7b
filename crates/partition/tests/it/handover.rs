//! Sessions over a restart: no dispatch is lost, sent twice, or sent to a user who may not see it any more.

use crate::fixture::*;
use guildhall_guild::{Actor, Command, DirectCommand, NewDirect, NewMessage};
use guildhall_model::ChannelId;
use guildhall_test_kit::{ClientId, ClientParams, Dispatch, GuildBuilder, Hold, Received, TestCluster, id};
use serde_json::json;

const ROOM: usize = 1 << 20;
/// A second guild.
const OTHER: u64 = 70;
const RESUME_WINDOW_MS: u64 = 180_000;

fn restart(cluster: &mut TestCluster) -> usize {
    let over = cluster.restart(vec![guild().load()], ROOM);
    over.iter().map(|over| over.sessions.len()).sum()
}

/// Seq, name and content of the dispatches after a RESUME.
fn dispatches(received: Vec<Received>) -> Vec<(u64, String, String)> {
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

fn contents(dispatches: &[(u64, String, String)]) -> Vec<&str> {
    dispatches.iter().map(|(.., content)| content.as_str()).filter(|content| !content.is_empty()).collect()
}

fn etf() -> ClientParams {
    let mut params = ClientParams::JSON;
    params.conn.encoding = guildhall_codec::Encoding::Etf;
    params
}

#[test]
fn h2_x1_a_session_goes_on_where_it_was() {
    for params in [ClientParams::JSON, etf()] {
        let mut cluster = world();
        let client = live(&mut cluster, &pro(), Some(FULL), params);
        say_all(&mut cluster, ["heard".to_owned()]);
        assert_eq!(heard(&mut cluster, client).len(), 1);
        let seen = cluster.client(client).seq;
        cluster.cut(client);
        say_all(&mut cluster, ["one", "two", "three"].map(str::to_owned));
        assert_eq!(restart(&mut cluster), 1);
        assert_eq!((cluster.partition().sessions_count(), cluster.partition().is_restoring()), (1, false));
        // It also receives later messages.
        say_all(&mut cluster, ["four".to_owned()]);
        let (client, received) = resumed(&mut cluster, client, &pro());
        let dispatches = dispatches(received);
        assert_eq!(contents(&dispatches), ["one", "two", "three", "four"]);
        assert!(dispatches.iter().all(|(_, name, _)| name == "MESSAGE_CREATE" || name == "RESUMED"), "{dispatches:?}");
        assert!(dispatches.iter().enumerate().all(|(n, (seq, ..))| *seq == seen + 1 + n as u64), "{dispatches:?}");
        say_all(&mut cluster, ["live".to_owned()]);
        assert_eq!(heard(&mut cluster, client).len(), 1);
    }
}

#[test]
fn what_sessions_share_goes_over_once() {
    let mut cluster = world();
    let clients: Vec<ClientId> = (0..20).map(|_| live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON)).collect();
    clients.iter().for_each(|client| cluster.client(*client).heartbeat());
    cluster.run_until_idle();
    clients.iter().for_each(|client| cluster.cut(*client));
    say_all(&mut cluster, (0..50).map(|n| format!("number {n}")));
    let over = cluster.restart(vec![guild().load()], ROOM);
    assert_eq!(over[0].sessions.len(), 20);
    let messages = over[0].dispatches.iter().filter(|dispatch| dispatch.name == "MESSAGE_CREATE").count();
    assert_eq!(messages, 50);
    assert!(over[0].sessions.iter().all(|session| session.entries.len() <= 3), "{:?}", over[0].sessions[0].entries);
    for client in clients {
        let (_, received) = resumed(&mut cluster, client, &pro());
        assert_eq!(contents(&dispatches(received)).len(), 50);
    }
}

#[test]
fn h3_what_may_not_be_seen_any_more_is_withheld() {
    let mut cluster = world();
    give_role(&mut cluster, &pro(), INSIDERS);
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    cluster.cut(client);
    say(&mut cluster, &ana(), GENERAL, "open");
    say(&mut cluster, &ana(), HIDDEN, "secret");
    cluster.run_until_idle();
    // As the store has it after the role was taken away: that is how the guild comes back.
    assert_eq!(restart(&mut cluster), 1);
    let (_, received) = resumed(&mut cluster, client, &pro());
    let dispatches = dispatches(received);
    assert_eq!(contents(&dispatches), ["open"]);
    assert_eq!(cluster.partition().counters().replay_suppressed_total, 1);
}

#[test]
fn an_active_session_stays_active_after_a_restart() {
    let mut cluster = world_with(|config| config.passive_above_members = Some(0));
    let client = live_user(&mut cluster, &bob(), 0);
    subscribe(&mut cluster, client, json!({"typing": true}));
    cluster.take(client);
    cluster.cut(client);
    say_all(&mut cluster, ["before".to_owned()]);
    assert_eq!(restart(&mut cluster), 1);
    say_all(&mut cluster, ["after".to_owned()]);
    let (_, received) = resumed(&mut cluster, client, &bob());
    let dispatches = dispatches(received);
    assert_eq!(contents(&dispatches), ["before", "after"]);
    assert!(dispatches.iter().all(|(_, name, _)| name != "GUILD_CREATE" && name != "GUILD_DELETE"), "{dispatches:?}");
}

#[test]
fn passive_sessions_receive_their_update_after_a_restart() {
    const DELTAS: u64 = 1 << 14;
    let mut cluster = world_with(|config| config.passive_above_members = Some(0));
    let client = live_user(&mut cluster, &bob(), DELTAS);
    cluster.take(client);
    cluster.cut(client);
    say_all(&mut cluster, ["unread".to_owned()]);
    assert_eq!(restart(&mut cluster), 1);
    let (_, received) = resumed(&mut cluster, client, &bob());
    let dispatches = dispatches(received);
    assert!(dispatches.iter().any(|(_, name, _)| name == "PASSIVE_UPDATE_V2"), "{dispatches:?}");
}

/// The client joins the guild's voice channel.
fn join_voice(cluster: &mut TestCluster, client: ClientId) {
    let d = json!({"guild_id": id::<()>(GUILD).to_string(), "channel_id": id::<()>(VOICE).to_string(),
        "self_mute": false, "self_deaf": false});
    cluster.client(client).send(4, &d);
    cluster.run_until_idle();
}

#[test]
fn voice_ends_with_the_process_and_is_published() {
    let mut cluster = world();
    let listener = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    let speaker = live_user(&mut cluster, &bob(), 0);
    join_voice(&mut cluster, speaker);
    cluster.take(listener);
    assert_eq!(restart(&mut cluster), 2);
    let (_, received) = resumed(&mut cluster, listener, &pro());
    let left = received.into_iter().find_map(|received| match received {
        Received::Dispatch(dispatch) if dispatch.name == "VOICE_STATE_UPDATE" => Some(dispatch.d()),
        _ => None,
    });
    assert!(left.expect("a voice state")["channel_id"].is_null());
}

/// Otherwise a client that saw the user join voice would show them there for ever.
#[test]
fn voice_that_ended_with_the_process_is_replayed_to_users_who_lost_the_view() {
    for restarts in [1, 2] {
        let mut cluster = world();
        let listener = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
        let speaker = live_user(&mut cluster, &bob(), 0);
        join_voice(&mut cluster, speaker);
        let is_state = |dispatch: &Dispatch| dispatch.name == "VOICE_STATE_UPDATE";
        assert!(cluster.dispatches(listener).iter().any(is_state), "the listener sees them come");
        for _ in 0..restarts {
            cluster.restart(vec![guild().hidden_channel(VOICE, &[INSIDERS]).load()], ROOM);
        }
        let (_, received) = resumed(&mut cluster, listener, &pro());
        let dispatches: Vec<Dispatch> = received.into_iter().filter_map(dispatch).collect();
        let states: Vec<_> = dispatches.iter().filter(|dispatch| is_state(dispatch)).map(Dispatch::d).collect();
        assert_eq!(states.len(), 1, "after {restarts}: {states:?}");
        assert_eq!(states[0]["user_id"], bob().id.to_string());
        assert!(states[0]["channel_id"].is_null(), "{states:?}");
    }
}

/// One update has a message in a channel that the passive session may no longer read, and a user who left voice.
#[test]
fn voice_that_ended_with_the_process_is_in_the_rest_of_a_passive_update() {
    const ROUND_MS: u64 = 37_500;
    let snapshot = |update: &Dispatch| update.d()["voice_states"].is_null();
    let delta = |update: &Dispatch| update.d()["removed_voice_states"] == json!([pro().id.to_string()]);
    type IsRight<'a> = &'a dyn Fn(&Dispatch) -> bool;
    let forms: [(u64, &str, IsRight<'_>); 2] =
        [(1 << 11, "PASSIVE_UPDATE_V1", &snapshot), (1 << 14, "PASSIVE_UPDATE_V2", &delta)];
    for ((capabilities, form, is_right), restarts) in forms.into_iter().flat_map(|form| [(form, 1), (form, 2)]) {
        let mut cluster = world_with(|config| config.passive_above_members = Some(0));
        let reader = live_user(&mut cluster, &bob(), capabilities);
        let speaker = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
        join_voice(&mut cluster, speaker);
        cluster.advance_with_heartbeats(ROUND_MS);
        let is_update = |dispatch: &Dispatch| dispatch.name == form;
        assert!(cluster.dispatches(reader).iter().any(is_update), "the reader receives the join");
        cluster.cut(reader);
        say_all(&mut cluster, ["not for them any more".to_owned()]);
        for _ in 0..restarts {
            cluster.restart(vec![guild().hidden_channel(GENERAL, &[INSIDERS]).load()], ROOM);
        }
        let (_, received) = resumed(&mut cluster, reader, &bob());
        let dispatches: Vec<Dispatch> = received.into_iter().filter_map(dispatch).filter(is_update).collect();
        let bodies: Vec<_> = dispatches.iter().map(Dispatch::d).collect();
        assert!(dispatches.len() == 1 && is_right(&dispatches[0]), "after {restarts}: {bodies:?}");
        assert!(!format!("{bodies:?}").contains(&id::<()>(GENERAL).to_string()), "{bodies:?}");
    }
}

/// The guild has accepted their voice state, but their partition does not know of it yet. A bot may be in voice in any
/// number of guilds; the same holds for it.
#[test]
fn a_pending_voice_join_ends_with_the_process() {
    for speaker in [bob(), gob()] {
        let mut cluster = world();
        let listener = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
        let intents = speaker.bot.then_some(PLAIN);
        let client = live(&mut cluster, &speaker, intents, ClientParams::JSON);
        cluster.take(listener);
        cluster.hold(Hold::Mail);
        join_voice(&mut cluster, client);
        cluster.partition_mut().leave_voice();
        cluster.run_until_idle();
        cluster.release(Hold::Mail);
        cluster.run_until_idle();
        let places: Vec<bool> = (cluster.dispatches(listener).into_iter())
            .filter(|dispatch| dispatch.name == "VOICE_STATE_UPDATE")
            .map(|dispatch| dispatch.d()["channel_id"].is_null())
            .collect();
        assert_eq!(places, [false, true], "they come, and go; bot: {}", speaker.bot);
    }
}

#[test]
fn sessions_past_the_bound_are_left_out_and_refused() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.cut(client);
    say_all(&mut cluster, (0..50).map(|n| format!("number {n}")));
    let over = cluster.restart(vec![guild().load()], 2_000);
    assert_eq!((over[0].sessions.len(), over[0].left_out_count), (0, 1));
    refused(&mut cluster, client, &pro());
}

/// Logs drop dispatches by count, and clients acknowledge by heartbeats only.
#[test]
fn a_session_whose_client_has_the_dropped_dispatches_is_handed_over() {
    const LOG_EVENTS: usize = 20;
    let mut cluster = world_with(|config| config.log.events_max = LOG_EVENTS);
    let client = live(&mut cluster, &pro(), Some(FULL), ClientParams::JSON);
    for n in 0..3 * LOG_EVENTS {
        say(&mut cluster, &ana(), GENERAL, &format!("heard {n}"));
        cluster.run_until_idle();
    }
    assert_eq!(heard(&mut cluster, client).len(), 3 * LOG_EVENTS);
    cluster.cut(client);
    say_all(&mut cluster, ["one", "two"].map(str::to_owned));
    assert_eq!(restart(&mut cluster), 1);
    let (_, received) = resumed(&mut cluster, client, &pro());
    assert_eq!(contents(&dispatches(received)), ["one", "two"]);
}

#[test]
fn a_guild_that_does_not_come_back_in_time_is_an_outage() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    cluster.cut(client);
    cluster.restart(vec![], ROOM);
    assert!(cluster.partition().is_restoring());
    cluster.fail_pending_restores();
    assert!(!cluster.partition().is_restoring());
    cluster.wake_guild(guild().load());
    let (_, received) = resumed(&mut cluster, client, &pro());
    let names: Vec<String> = dispatches(received).into_iter().map(|(_, name, _)| name).collect();
    assert_eq!(names, ["GUILD_DELETE", "GUILD_CREATE", "RESUMED"]);
}

#[test]
fn guilds_that_have_answered_are_no_outage_when_another_does_not() {
    let mut cluster = world();
    cluster.add_guild(GuildBuilder::new(OTHER, &ana()).member(&pro(), &[]).load());
    let client = live_bot(&mut cluster);
    cluster.cut(client);
    cluster.restart(vec![guild().load()], ROOM);
    assert!(cluster.partition().is_restoring());
    cluster.fail_pending_restores();
    assert!(!cluster.partition().is_restoring());
    let (_, received) = resumed(&mut cluster, client, &pro());
    let names: Vec<String> = dispatches(received).into_iter().map(|(_, name, _)| name).collect();
    assert_eq!(names, ["GUILD_DELETE", "RESUMED"]);
}

#[test]
fn a_restored_session_expires_without_a_resume() {
    let mut cluster = world();
    let client = live_bot(&mut cluster);
    assert_eq!(restart(&mut cluster), 1);
    cluster.advance(RESUME_WINDOW_MS + 1);
    assert_eq!(cluster.partition().sessions_count(), 0);
    refused(&mut cluster, client, &pro());
}

/// Messages of a group are not sent to an account that left it, by any process, whenever it left.
#[test]
fn x2_messages_of_a_left_group_are_withheld() {
    const GROUP: ChannelId = ChannelId::new(9_000);
    let found = |cluster: &mut TestCluster| {
        cluster.add_direct(NewDirect { id: GROUP, recipients: vec![ana(), bob(), gob()], is_group: true });
    };
    let run = |cluster: &mut TestCluster, command| {
        cluster.command_in(GROUP.cast(), Actor::User(ana().id), command).expect("ana may");
        cluster.run_until_idle();
    };
    let throw_out = || Command::Direct(DirectCommand::RemoveRecipient(bob().id));
    for (restarts, leaves) in
        [(1, None), (1, Some("before")), (1, Some("after")), (2, None), (2, Some("before")), (2, Some("after"))]
    {
        let mut cluster = world();
        found(&mut cluster);
        let client = live_user(&mut cluster, &bob(), 0);
        cluster.take(client);
        cluster.cut(client);
        let new = NewMessage { content: "among us".to_owned(), ..NewMessage::default() };
        run(&mut cluster, Command::CreateMessage(GROUP, Box::new(new)));
        if leaves == Some("before") {
            run(&mut cluster, throw_out());
        }
        for _ in 0..restarts {
            assert_eq!(restart(&mut cluster), 1);
        }
        if leaves == Some("after") {
            found(&mut cluster);
            run(&mut cluster, throw_out());
        }
        let (_, received) = resumed(&mut cluster, client, &bob());
        let dispatches = dispatches(received);
        assert_eq!(
            contents(&dispatches).contains(&"among us"),
            leaves.is_none(),
            "{restarts} {leaves:?}: {dispatches:?}"
        );
        assert_eq!(
            dispatches.iter().any(|(_, name, _)| name == "CHANNEL_DELETE"),
            leaves.is_some(),
            "{leaves:?}: {dispatches:?}"
        );
    }
}
