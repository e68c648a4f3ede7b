//! Hidden channels (S13): the three forms in which members receive channels that they cannot view.

use crate::fixture::*;
use guildhall_guild::{
    Actor, ChannelPatch, Command, NewChannel, NewScheduledEvent, Reply, ScheduledEventContent, StageContent,
};
use guildhall_guild_protocol::HiddenChannels::{self, Absent, Listed, Obfuscated};
use guildhall_model::{ChannelId, ChannelType, Overwrite, OverwriteKind, Permissions, ScheduledEvent, User};
use guildhall_partition::PartitionConfig;
use guildhall_stdx::Timestamp;
use guildhall_test_kit::{ClientId, ClientParams, Dispatch, Received, TestCluster, identify_payload};
use serde_json::{Value, json};
use std::sync::Arc;

const BLANK: &str = "___hidden___";

fn world_hiding(hidden: HiddenChannels) -> TestCluster {
    world_with(|config: &mut PartitionConfig| config.hidden_channels = hidden)
}

/// The hidden channel in READY or GUILD_CREATE.
fn listed_in_guild(cluster: &mut TestCluster, account: &Arc<User>, capabilities: u64) -> Option<Value> {
    let client = cluster.connect(ClientParams::JSON);
    let mut d = identify_payload(&account.username, account.bot.then_some(PLAIN));
    d["capabilities"] = capabilities.into();
    cluster.client(client).identify(d);
    let dispatches = cluster.dispatches(client);
    let guild = match account.bot {
        true => dispatches[1].d(),
        false => dispatches[0].d()["guilds"][0].clone(),
    };
    cluster.client(client).close(Some(1000));
    cluster.run_until_idle();
    let channels = guild["channels"].as_array().expect("an array").clone();
    channels.into_iter().find(|of| of["id"] == channel(HIDDEN).to_string())
}

/// Events about the hidden channel: name and body.
fn hidden_channel_events(dispatches: Vec<Dispatch>) -> Vec<(String, Value)> {
    let events = dispatches.into_iter().map(|dispatch| (dispatch.name.clone(), dispatch.d()));
    events.filter(|(name, d)| name.starts_with("CHANNEL_") && d["id"] == channel(HIDDEN).to_string()).collect()
}

fn channel_names(cluster: &mut TestCluster, client: ClientId) -> Vec<(String, String)> {
    let events = hidden_channel_events(cluster.dispatches(client));
    events.into_iter().map(|(name, d)| (name, text(&d["name"]))).collect()
}

fn expected(name: &str, channel_name: &str) -> (String, String) {
    (name.to_owned(), channel_name.to_owned())
}

fn rename(cluster: &mut TestCluster, name: &str) {
    let patch = ChannelPatch { name: Some(name.to_owned()), ..ChannelPatch::default() };
    system(cluster, Command::UpdateChannel(channel(HIDDEN), Box::new(patch)));
}

fn show_to(cluster: &mut TestCluster, account: &Arc<User>, allow: Permissions) {
    let overwrite = Overwrite { target: OverwriteKind::Member(account.id), allow, deny: Permissions::NONE };
    system(cluster, Command::PutOverwrite(channel(HIDDEN), overwrite));
}

#[test]
fn s13_the_guild_shows_hidden_channels_in_the_form_that_is_set() {
    for hidden in [Listed, Obfuscated, Absent] {
        for account in [gob(), bob()] {
            let mut cluster = world_hiding(hidden);
            let newest = say(&mut cluster, &ana(), HIDDEN, "secret");
            let seen = listed_in_guild(&mut cluster, &ana(), 0).expect("its owner views it");
            let name = text(&seen["name"]);
            assert_eq!(seen["last_message_id"], newest.to_string());
            let found = listed_in_guild(&mut cluster, &account, 0);
            let name_of = |found: &Option<Value>| found.as_ref().map(|found| text(&found["name"]));
            let expected = match hidden {
                Listed => Some(name),
                Obfuscated => Some(BLANK.to_owned()),
                Absent => None,
            };
            assert_eq!(name_of(&found), expected, "{hidden:?}");
            assert!(found.is_none_or(|found| found["last_message_id"].is_null()), "{hidden:?}");
            // The capability never widens the setting.
            let found = listed_in_guild(&mut cluster, &bob(), 1 << 15);
            let expected = (hidden != Absent).then(|| BLANK.to_owned());
            assert_eq!(name_of(&found), expected, "{hidden:?}");
        }
    }
}

#[test]
fn s13_updates_of_hidden_channels_come_in_the_form_that_is_set() {
    for hidden in [Listed, Obfuscated, Absent] {
        let mut cluster = world_hiding(hidden);
        say(&mut cluster, &ana(), HIDDEN, "secret");
        let insider = live(&mut cluster, &ana(), None, ClientParams::JSON);
        let outsiders =
            [live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON), live_user(&mut cluster, &bob(), 0)];
        outsiders.iter().for_each(|client| drop(cluster.take(*client)));
        cluster.take(insider);
        rename(&mut cluster, "renamed");
        system(&mut cluster, Command::DeleteChannel(channel(HIDDEN)));
        let seen = hidden_channel_events(cluster.dispatches(insider));
        assert_eq!((seen.len(), &seen[0].1["name"]), (2, &json!("renamed")), "{hidden:?}: {seen:?}");
        assert!(seen[0].1["last_message_id"].is_string());
        // A deletion has one form for all recipients.
        let name = if hidden == Obfuscated { BLANK } else { "renamed" };
        assert_eq!(seen[1].1["name"], name, "{hidden:?}");
        for client in outsiders {
            let seen = hidden_channel_events(cluster.dispatches(client));
            assert!(seen.iter().all(|(_, d)| d["last_message_id"].is_null()), "{hidden:?}: {seen:?}");
            let names: Vec<_> = seen.into_iter().map(|(name, d)| (name, text(&d["name"]))).collect();
            let name = match hidden {
                Listed => "renamed",
                Obfuscated => BLANK,
                Absent => {
                    assert_eq!(names, []);
                    continue;
                }
            };
            assert_eq!(names, [expected("CHANNEL_UPDATE", name), expected("CHANNEL_DELETE", name)], "{hidden:?}");
        }
    }
}

/// By an overwrite, by a role, active and passive: sessions of the account receive the change once, and no other
/// session receives it.
#[test]
fn s13_a_channel_that_enters_or_leaves_the_view_is_sent_once() {
    type Change = fn(&mut TestCluster, bool);
    let by_overwrite: Change = |cluster, is_shown| {
        show_to(cluster, &bob(), if is_shown { Permissions::VIEW_CHANNEL } else { Permissions::NONE });
    };
    let by_role: Change = |cluster, is_shown| match is_shown {
        true => give_role(cluster, &bob(), INSIDERS),
        false => take_role(cluster, &bob(), INSIDERS),
    };
    for (hidden, change) in [Obfuscated, Absent].into_iter().flat_map(|form| [(form, by_overwrite), (form, by_role)]) {
        for passive_above in [None, Some(0)] {
            let mut cluster = world_with(|config| {
                (config.hidden_channels, config.passive_above_members) = (hidden, passive_above);
            });
            let newest = say(&mut cluster, &ana(), HIDDEN, "secret");
            let insider = live(&mut cluster, &ana(), None, ClientParams::JSON);
            let outsider = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
            let clients = [live_user(&mut cluster, &bob(), 0), live_user(&mut cluster, &bob(), 1 << 15)];
            [insider, outsider, clients[0], clients[1]].iter().for_each(|client| drop(cluster.take(*client)));
            change(&mut cluster, true);
            for client in clients {
                let seen = hidden_channel_events(cluster.dispatches(client));
                let name = if hidden == Absent { "CHANNEL_CREATE" } else { "CHANNEL_UPDATE" };
                let [(event_name, d)] = &seen[..] else { panic!("{hidden:?}: {seen:?}") };
                assert_eq!((event_name.as_str(), &d["last_message_id"]), (name, &json!(newest.to_string())));
                assert_ne!(d["name"], BLANK);
            }
            change(&mut cluster, false);
            for client in clients {
                let seen = hidden_channel_events(cluster.dispatches(client));
                let name = if hidden == Absent { "CHANNEL_DELETE" } else { "CHANNEL_UPDATE" };
                let [(event_name, d)] = &seen[..] else { panic!("{hidden:?}: {seen:?}") };
                assert_eq!((event_name.as_str(), &d["name"]), (name, &json!(BLANK)));
            }
            let names = channel_names(&mut cluster, outsider);
            assert!(names.iter().all(|(_, name)| name == BLANK), "{hidden:?}: {names:?}");
            assert!(hidden == Obfuscated || names.is_empty(), "{names:?}");
            assert!(channel_names(&mut cluster, insider).iter().all(|(name, _)| name == "CHANNEL_UPDATE"));
        }
    }
}

#[test]
fn s13_a_new_name_is_withheld_when_the_view_is_lost_with_it() {
    for hidden in [Obfuscated, Absent] {
        let mut cluster = world_hiding(hidden);
        give_role(&mut cluster, &gob(), INSIDERS);
        let client = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
        cluster.take(client);
        let everyone = OverwriteKind::Role(guild_role());
        let closed = Overwrite { target: everyone, allow: Permissions::NONE, deny: Permissions::VIEW_CHANNEL };
        let patch =
            ChannelPatch { name: Some("merger".to_owned()), overwrites: Some(vec![closed]), ..ChannelPatch::default() };
        system(&mut cluster, Command::UpdateChannel(channel(HIDDEN), Box::new(patch)));
        let name = if hidden == Absent { "CHANNEL_DELETE" } else { "CHANNEL_UPDATE" };
        assert_eq!(channel_names(&mut cluster, client), [expected(name, BLANK)]);
    }
}

fn guild_role() -> guildhall_model::RoleId {
    guildhall_test_kit::id(GUILD)
}

fn resume_tells(cluster: &mut TestCluster, client: ClientId) -> Vec<(String, String)> {
    let (_, received) = resumed(cluster, client, &gob());
    let dispatches = received.into_iter().filter_map(|received| match received {
        Received::Dispatch(dispatch) => Some(dispatch),
        _ => None,
    });
    let events = hidden_channel_events(dispatches.collect());
    events.into_iter().map(|(name, d)| (name, text(&d["name"]))).collect()
}

#[test]
fn s13_a_replay_tells_of_channels_by_the_view_that_holds_then() {
    for (hidden, restarts) in [(Obfuscated, false), (Absent, false), (Obfuscated, true), (Absent, true)] {
        let mut cluster = world_hiding(hidden);
        give_role(&mut cluster, &gob(), INSIDERS);
        let client = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
        cluster.take(client);
        cluster.cut(client);
        rename(&mut cluster, "merger");
        take_role(&mut cluster, &gob(), INSIDERS);
        if restarts {
            cluster.restart(vec![guild().load()], 1 << 20);
        }
        let names = resume_tells(&mut cluster, client);
        assert!(names.iter().all(|(_, name)| name != "merger"), "{hidden:?}: {names:?}");
        assert!(names.iter().all(|(name, _)| name != "CHANNEL_UPDATE" || hidden == Obfuscated), "{names:?}");
        let last = if hidden == Absent { "CHANNEL_DELETE" } else { "CHANNEL_UPDATE" };
        assert_eq!(names.last().map(|(name, _)| name.as_str()), Some(last), "{hidden:?}");

        let mut cluster = world_hiding(hidden);
        let client = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
        cluster.take(client);
        cluster.cut(client);
        rename(&mut cluster, "merger");
        give_role(&mut cluster, &gob(), INSIDERS);
        take_role(&mut cluster, &gob(), INSIDERS);
        let names = resume_tells(&mut cluster, client);
        assert!(names.iter().all(|(name, _)| name != "CHANNEL_CREATE"), "{hidden:?}: {names:?}");
    }
}

#[test]
fn s13_a_guild_that_was_sent_with_a_channel_in_view_is_not_sent_again_without_the_view() {
    for (hidden, is_refused) in [(Listed, false), (Obfuscated, true), (Absent, true)] {
        let mut cluster = world_hiding(hidden);
        give_role(&mut cluster, &gob(), INSIDERS);
        let client = cluster.login(&gob(), Some(PLAIN), ClientParams::JSON);
        // READY and GUILD_CREATE were written, and the client acknowledged neither.
        let seen = cluster.names(client);
        assert_eq!(seen[1].1, "GUILD_CREATE");
        cluster.cut(client);
        take_role(&mut cluster, &gob(), INSIDERS);
        let client = cluster.reconnect(client);
        cluster.take(client);
        cluster.client(client).seq = 1;
        cluster.client(client).resume(&gob().username);
        let received = cluster.take(client);
        assert_eq!(received.contains(&Received::InvalidSession(false)), is_refused, "{hidden:?}");
    }
}

/// A stage, and a scheduled event in it, whatever the form of hidden channels.
#[test]
fn s13_stages_and_scheduled_events_of_hidden_channels_are_for_their_viewers() {
    let mut cluster = world();
    let insider = live(&mut cluster, &ana(), None, ClientParams::JSON);
    let outsider = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    let closed = Overwrite {
        target: OverwriteKind::Role(guild_role()),
        allow: Permissions::NONE,
        deny: Permissions::VIEW_CHANNEL,
    };
    let new = NewChannel {
        name: "stage".to_owned(),
        kind: ChannelType::Stage,
        topic: None,
        parent_id: None,
        position: None,
        overwrites: vec![closed],
        user_limit: 0,
    };
    let made = cluster.command(Actor::System, Command::CreateChannel(Box::new(new)));
    let Ok(Reply::Channel(stage)) = made else { panic!("{made:?}") };
    let stage_content = StageContent { topic: "merger".to_owned(), privacy_level: 2, guild_scheduled_event_id: None };
    let event = |channel_id: Option<ChannelId>| {
        let content = ScheduledEventContent {
            channel_id,
            name: "party".to_owned(),
            description: None,
            scheduled_start_time: Timestamp(1_800_000_000_000),
            scheduled_end_time: Some(Timestamp(1_800_003_600_000)),
            privacy_level: 2,
            status: 1,
            entity_type: if channel_id.is_some() { ScheduledEvent::STAGE } else { ScheduledEvent::EXTERNAL },
            entity_metadata: channel_id.is_none().then(|| json!({"location": "here"})),
            image: None,
        };
        Command::CreateScheduledEvent(Box::new(NewScheduledEvent { id: None, content }))
    };
    cluster.run_until_idle();
    [insider, outsider].iter().for_each(|client| drop(cluster.take(*client)));
    system(&mut cluster, Command::CreateStage(stage.id, Box::new(stage_content)));
    system(&mut cluster, event(Some(stage.id)));
    system(&mut cluster, event(None));
    assert_eq!(
        names(&mut cluster, insider),
        ["STAGE_INSTANCE_CREATE", "GUILD_SCHEDULED_EVENT_CREATE", "GUILD_SCHEDULED_EVENT_CREATE"]
    );
    assert_eq!(names(&mut cluster, outsider), ["GUILD_SCHEDULED_EVENT_CREATE"]);
    for (account, counts) in [(ana(), (1, 2)), (bob(), (0, 1))] {
        let client = cluster.login(&account, None, ClientParams::JSON);
        let guild = &cluster.dispatches(client)[0].d()["guilds"][0];
        let count = |key: &str| guild[key].as_array().expect("an array").len();
        assert_eq!((count("stage_instances"), count("guild_scheduled_events")), counts);
    }
}
