//! Passive user accounts: the events that still reach them, their updates, and that nothing is missing or repeated when
//! they become active (docs/protocol/reference.md §8.5).

use crate::fixture::*;
use guildhall_guild::{Actor, BackendCommand, Command};
use guildhall_guild_protocol::{AudienceRule, BackendEvent};
use guildhall_model::User;
use guildhall_stdx::Rng;
use guildhall_test_kit::{ClientId, ClientParams, Dispatch, TestCluster, id, identify_payload, user};
use serde_json::{Value, json, value::RawValue};
use std::{collections::BTreeMap, sync::Arc};

const V1: u64 = 1 << 11;
const V2: u64 = 1 << 14;
const INTERVAL_MS: u64 = 30_000;
/// No round is further from the last than this.
const ROUND_MS: u64 = INTERVAL_MS * 5 / 4;

fn quiet() -> TestCluster {
    world_with(|config| config.passive_above_members = Some(0))
}

/// A guild with this many members, Bob among them.
fn of_size(cluster: &mut TestCluster, members: u64) {
    let strangers = members - 4;
    cluster.add_guild((0..strangers).fold(guild(), |guild, n| guild.member(&user(10_000 + n), &[])).load());
}

/// Whether a user account with this in its IDENTIFY receives messages.
fn is_active(cluster: &mut TestCluster, change: impl FnOnce(&mut Value)) -> bool {
    let client = cluster.connect(ClientParams::JSON);
    let mut d = identify_payload(&bob().username, None);
    change(&mut d);
    cluster.client(client).identify(d);
    assert_eq!(names(cluster, client), ["READY"]);
    say(cluster, &ana(), GENERAL, "hi");
    let received = names(cluster, client);
    cluster.client(client).close(Some(1000));
    cluster.run_until_idle();
    !received.is_empty()
}

#[test]
fn sessions_start_passive_above_the_threshold() {
    for (members, threshold, expected) in
        [(250, None, true), (251, None, false), (100, Some(99), false), (100, Some(100), true), (30, Some(0), false)]
    {
        let mut cluster = world();
        of_size(&mut cluster, members);
        let threshold: Value = threshold.into();
        let active = is_active(&mut cluster, |d| d["large_threshold"] = threshold.clone());
        assert_eq!(active, expected, "{members} members, {threshold}");
    }
    // The node's setting overrides the client's.
    for (above, expected) in [(4, true), (3, false), (0, false)] {
        let mut cluster = world_with(|config| config.passive_above_members = Some(above));
        assert_eq!(is_active(&mut cluster, |d| d["large_threshold"] = 250.into()), expected, "above {above}");
    }
}

#[test]
fn bots_are_never_passive() {
    let mut cluster = quiet();
    of_size(&mut cluster, 300);
    let client = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    cluster.take(client);
    say(&mut cluster, &ana(), GENERAL, "hi");
    assert_eq!(names(&mut cluster, client), ["MESSAGE_CREATE"]);
}

#[test]
fn mentions_reach_passive_sessions() {
    let mut cluster = quiet();
    give_role(&mut cluster, &bob(), INSIDERS);
    let client = live_user(&mut cluster, &bob(), V2);
    let outsider = user_in(&mut cluster, 750);
    let outsider = live_user(&mut cluster, &outsider, V2);
    cluster.take(client);
    let role = id::<()>(INSIDERS);
    for (who, channel, content, expected) in [
        (ana(), GENERAL, "to nobody".to_owned(), [0, 0]),
        (ana(), GENERAL, format!("<@{}>, come", bob().id), [1, 0]),
        (ana(), GENERAL, format!("<@{}>, come", gob().id), [0, 0]),
        (ana(), GENERAL, format!("<@&{role}>, all of you"), [1, 0]),
        (ana(), GENERAL, "@everyone".to_owned(), [1, 1]),
        (ana(), GENERAL, "@here".to_owned(), [1, 1]),
        (ana(), HIDDEN, "@everyone".to_owned(), [1, 0]),
        (bob(), GENERAL, "I said that".to_owned(), [1, 0]),
        (bob(), GENERAL, format!("<@{}> <@&{role}> that was me", bob().id), [1, 0]),
    ] {
        say(&mut cluster, &who, channel, &content);
        for (client, expected) in [client, outsider].into_iter().zip(expected) {
            assert_eq!(heard(&mut cluster, client).len(), expected, "{content}");
        }
    }
}

/// One more user account of the guild.
fn user_in(cluster: &mut TestCluster, n: u64) -> Arc<User> {
    let account = user(n);
    cluster.add_account(&account);
    system(cluster, Command::AddMember(account.clone()));
    account
}

#[test]
fn structure_events_reach_passive_sessions() {
    let mut cluster = quiet();
    let client = live_user(&mut cluster, &bob(), V2);
    system(&mut cluster, Command::AddMemberRole(bob().id, id(INSIDERS)));
    system(&mut cluster, Command::DeleteChannel(channel(HIDDEN)));
    system(&mut cluster, Command::DeleteRole(id(INSIDERS)));
    assert_eq!(names(&mut cluster, client), ["GUILD_MEMBER_UPDATE", "CHANNEL_DELETE", "GUILD_ROLE_DELETE"]);
}

#[test]
fn updates_come_at_the_interval_in_the_form_of_the_capabilities() {
    for (capabilities, name) in [
        (0, "CHANNEL_UNREAD_UPDATE"),
        (V1, "PASSIVE_UPDATE_V1"),
        (V2, "PASSIVE_UPDATE_V2"),
        (V1 | V2, "PASSIVE_UPDATE_V2"),
    ] {
        let mut cluster = quiet();
        let client = live_user(&mut cluster, &bob(), capabilities);
        say(&mut cluster, &ana(), GENERAL, "one");
        let newest = say(&mut cluster, &ana(), GENERAL, "two").to_string();
        say(&mut cluster, &ana(), HIDDEN, "not for Bob");
        cluster.run_until_idle();
        cluster.advance_with_heartbeats(INTERVAL_MS - 1);
        assert_eq!(cluster.dispatches(client), [], "{name}");
        cluster.advance_with_heartbeats(1);
        let dispatches = cluster.dispatches(client);
        assert_eq!(dispatches.len(), 1, "{dispatches:?}");
        assert_eq!(dispatches[0].name, name);
        let d = dispatches[0].d();
        assert_eq!(d["guild_id"], id::<()>(GUILD).to_string());
        let (key, others) = match capabilities {
            0 => ("channel_unread_updates", 0),
            V1 => ("channels", 1),
            _ => ("updated_channels", 0),
        };
        let channels = d[key].as_array().expect("an array");
        assert_eq!(channels.len(), 1 + others, "{d}");
        assert_eq!(
            (&channels[0]["id"], &channels[0]["last_message_id"]),
            (&json!(channel(GENERAL).to_string()), &json!(newest))
        );

        // Nothing happens, or nothing that Bob may see: no update is sent.
        cluster.advance_with_heartbeats(10 * ROUND_MS);
        assert_eq!(cluster.dispatches(client), []);
        say(&mut cluster, &ana(), HIDDEN, "still not for Bob");
        cluster.run_until_idle();
        cluster.advance_with_heartbeats(2 * ROUND_MS);
        assert_eq!(cluster.dispatches(client), []);
        say(&mut cluster, &ana(), GENERAL, "three");
        cluster.run_until_idle();
        cluster.advance_with_heartbeats(ROUND_MS);
        assert_eq!(names(&mut cluster, client), [name]);
    }
}

#[test]
fn an_active_session_receives_no_update_of_messages_it_has() {
    let mut cluster = quiet();
    let active = live_user(&mut cluster, &ana(), V2);
    subscribe(&mut cluster, active, json!({"typing": true}));
    let bot = live(&mut cluster, &gob(), Some(PLAIN), ClientParams::JSON);
    cluster.take(bot);
    for client in [active, bot] {
        say(&mut cluster, &ana(), GENERAL, "hi");
        cluster.run_until_idle();
        cluster.advance_with_heartbeats(3 * ROUND_MS);
        assert_eq!(names(&mut cluster, client).first().map(String::as_str), Some("MESSAGE_CREATE"));
        cluster.take(active);
    }
    assert_eq!(cluster.dispatches(bot).len(), 0);
}

#[test]
fn an_update_about_a_channel_that_was_lost_meanwhile_is_withheld() {
    let mut cluster = quiet();
    give_role(&mut cluster, &bob(), INSIDERS);
    let client = live_user(&mut cluster, &bob(), V2);
    let _keeps_the_relay = live_user(&mut cluster, &ana(), V2);
    cluster.cut(client);
    say(&mut cluster, &ana(), HIDDEN, "secret");
    cluster.run_until_idle();
    cluster.advance(INTERVAL_MS);
    take_role(&mut cluster, &bob(), INSIDERS);
    cluster.run_until_idle();
    let (client, received) = replayed(&mut cluster, client, &bob());
    assert_eq!(received.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>(), ["GUILD_MEMBER_UPDATE"]);
    assert_eq!(cluster.partition().counters().replay_suppressed_total, 1);
    // He regains the view before the next round, which has the withheld changes.
    give_role(&mut cluster, &bob(), INSIDERS);
    cluster.run_until_idle();
    cluster.advance_with_heartbeats(ROUND_MS);
    assert_eq!(names(&mut cluster, client), ["GUILD_MEMBER_UPDATE", "PASSIVE_UPDATE_V2"]);
}

/// A client's knowledge of the guild, from all its dispatches.
struct Reader {
    client: ClientId,
    capabilities: u64,
    is_active: bool,
    /// How many of the messages in `GENERAL` it knows of.
    known: usize,
    voice: BTreeMap<String, String>,
    is_out: bool,
    seq: u64,
}

/// State of the guild, which clients must know.
#[derive(Default)]
struct Truth {
    messages: Vec<String>,
    voice: BTreeMap<String, String>,
}

impl Truth {
    /// How many messages there are up to this one.
    fn upto(&self, message_id: &Value) -> usize {
        message_id
            .as_str()
            .map_or(0, |message| self.messages.iter().position(|known| known == message).expect("it was sent") + 1)
    }
}

/// Users in voice and their channels; an absent list is empty.
fn voice_of(states: &Value) -> BTreeMap<String, String> {
    let states = states.as_array().into_iter().flatten();
    states.map(|state| (text(&state["user_id"]), text(&state["channel_id"]))).collect()
}

impl Reader {
    fn take(&mut self, cluster: &mut TestCluster, truth: &Truth) -> usize {
        let dispatches = cluster.dispatches(self.client);
        for dispatch in &dispatches {
            assert_eq!(dispatch.seq, self.seq + 1);
            self.seq += 1;
            self.apply(dispatch, truth);
        }
        dispatches.len()
    }

    /// The guild as a whole.
    fn begin(&mut self, guild: &Value, truth: &Truth) {
        (self.known, self.voice) = (0, voice_of(&guild["voice_states"]));
        self.channels(&guild["channels"], truth);
    }

    /// Channels with their newest messages. Whether one of them was news.
    fn channels(&mut self, channels: &Value, truth: &Truth) -> bool {
        let mut is_news = false;
        for entry in channels.as_array().expect("an array") {
            if entry["id"] == channel(GENERAL).to_string() {
                let upto = truth.upto(&entry["last_message_id"]);
                assert!(upto >= self.known, "it goes back");
                is_news |= upto > self.known;
                self.known = upto;
            }
        }
        is_news
    }

    fn apply(&mut self, dispatch: &Dispatch, truth: &Truth) {
        let d = dispatch.d();
        let voice_before = self.voice.clone();
        match dispatch.name.as_str() {
            "RESUMED" => {}
            "GUILD_DELETE" => self.is_out = true,
            "GUILD_CREATE" => {
                assert!(std::mem::take(&mut self.is_out));
                self.begin(&d, truth);
            }
            "MESSAGE_CREATE" => {
                assert!(self.is_active && !self.is_out);
                assert_eq!(truth.upto(&d["id"]), self.known + 1, "missing, twice, or out of order");
                self.known += 1;
            }
            "VOICE_STATE_UPDATE" => {
                assert!(self.is_active || self.capabilities == 0);
                match d["channel_id"].as_str() {
                    Some(channel) => self.voice.insert(text(&d["user_id"]), channel.to_owned()),
                    None => self.voice.remove(&text(&d["user_id"])),
                };
                assert_ne!(self.voice, voice_before, "sent twice");
            }
            "PASSIVE_UPDATE_V1" => {
                assert!(!self.is_out);
                // The update may have no change: a user may have joined and left in between.
                self.channels(&d["channels"], truth);
                self.voice = voice_of(&d["voice_states"]);
            }
            "PASSIVE_UPDATE_V2" => {
                assert!(!self.is_out);
                let is_news = self.channels(&d["updated_channels"], truth);
                self.voice.extend(voice_of(&d["updated_voice_states"]));
                d["removed_voice_states"].as_array().expect("an array").iter().for_each(|gone| {
                    self.voice.remove(&text(gone));
                });
                assert_eq!(
                    d["updated_members"].as_array().map(Vec::len),
                    d["updated_voice_states"].as_array().map(Vec::len)
                );
                assert!(is_news || d["updated_channels"] == json!([]), "an old message is sent as a new one");
            }
            "CHANNEL_UNREAD_UPDATE" => {
                assert!(!self.is_out);
                assert!(self.channels(&d["channel_unread_updates"], truth), "nothing changed");
            }
            other => panic!("{other}"),
        }
    }

    fn come_back(&mut self, cluster: &mut TestCluster) {
        cluster.cut(self.client);
        self.client = cluster.reconnect(self.client);
        cluster.client(self.client).resume(&bob().username);
    }

    fn knows_all(&self, truth: &Truth) -> bool {
        !self.is_out && self.known == truth.messages.len() && self.voice == truth.voice
    }
}

#[test]
fn random_walks_miss_nothing_and_repeat_nothing() {
    for seed in 0..120 {
        let mut rng = Rng::new(seed);
        let mut cluster = quiet();
        let capabilities = [0, V1, V2][seed as usize % 3];
        // Keeps the relay; looks all the time.
        let bot = live(&mut cluster, &pro(), Some(PLAIN), ClientParams::JSON);
        let client = cluster.connect(ClientParams::JSON);
        let mut d = identify_payload(&bob().username, None);
        d["capabilities"] = capabilities.into();
        cluster.client(client).identify(d);
        let ready = cluster.dispatches(client).remove(0);
        let mut truth = Truth::default();
        let mut reader =
            Reader { client, capabilities, is_active: false, known: 0, voice: BTreeMap::new(), is_out: false, seq: 1 };
        reader.begin(&ready.d()["guilds"][0], &truth);
        let (mut is_away, mut away_ms) = (false, 0);
        for _ in 0..80 {
            match rng.below(12) {
                0..=3 => truth.messages.push(say(&mut cluster, &ana(), GENERAL, "hi").to_string()),
                4 => drop(say(&mut cluster, &ana(), HIDDEN, "not for Bob")),
                5 | 6 => {
                    let who = user(9_000 + rng.below(3));
                    let _ = cluster.command(Actor::System, Command::AddMember(who.clone()));
                    let place = (!truth.voice.contains_key(&who.id.to_string())).then_some(channel(VOICE));
                    system(&mut cluster, Command::ShowVoice(who.id, place));
                    match place {
                        Some(place) => truth.voice.insert(who.id.to_string(), place.to_string()),
                        None => truth.voice.remove(&who.id.to_string()),
                    };
                }
                7 if !is_away => {
                    reader.take(&mut cluster, &truth);
                    let typing = rng.chance(0.5);
                    // Dispatches until then were sent to an active or to a passive session; both are right.
                    reader.is_active |= typing;
                    subscribe(&mut cluster, reader.client, json!({"typing": typing}));
                    reader.take(&mut cluster, &truth);
                    reader.is_active = typing;
                }
                8 => {
                    // A session waits for its client only so long.
                    let ms = rng.below(ROUND_MS).min(150_000 - away_ms);
                    away_ms += if is_away { ms } else { 0 };
                    cluster.advance_with_heartbeats(ms);
                }
                9 if !is_away => {
                    cluster.stop_reading(reader.client);
                    is_away = true;
                }
                10 if is_away => {
                    reader.come_back(&mut cluster);
                    (is_away, away_ms) = (false, 0);
                }
                11 if rng.chance(0.3) => {
                    cluster.overflow(relay(0), id(GUILD));
                    cluster.room(relay(0), id(GUILD));
                }
                _ => {
                    cluster.run_until_idle();
                }
            }
            cluster.run_until_idle();
            if !is_away {
                reader.take(&mut cluster, &truth);
                assert!(!reader.is_active || reader.knows_all(&truth), "seed {seed}: an active one knows everything");
            }
        }
        if is_away {
            reader.come_back(&mut cluster);
        }
        cluster.run_until_idle();
        cluster.advance_with_heartbeats(ROUND_MS);
        reader.take(&mut cluster, &truth);
        assert!(reader.knows_all(&truth), "seed {seed}: the client knows everything after a round");
        cluster.advance_with_heartbeats(2 * ROUND_MS);
        assert_eq!(reader.take(&mut cluster, &truth), 0, "seed {seed}: sent once");
        cluster.take(bot);
    }
}

#[test]
fn pins_and_backend_messages_are_in_passive_updates() {
    for (capabilities, key) in [(0, "channel_unread_updates"), (V1, "channels"), (V2, "updated_channels")] {
        let mut cluster = quiet();
        let client = live_user(&mut cluster, &bob(), capabilities);
        let message = say(&mut cluster, &ana(), GENERAL, "one");
        let news = |cluster: &mut TestCluster| {
            cluster.run_until_idle();
            cluster.advance_with_heartbeats(ROUND_MS);
            let dispatches = cluster.dispatches(client);
            assert_eq!(dispatches.len(), 1, "{dispatches:?}");
            dispatches[0].d()[key][0].clone()
        };
        assert!(news(&mut cluster).get("last_pin_timestamp").is_none());
        cluster.command(Actor::User(ana().id), Command::Pin(channel(GENERAL), message)).unwrap();
        let pinned = news(&mut cluster);
        assert!(pinned["last_pin_timestamp"].is_string(), "{pinned}");
        assert_ne!(pinned["last_message_id"], message.to_string(), "the note that it was pinned");
        // Only the pin moves.
        system(&mut cluster, Command::Unpin(channel(GENERAL), message));
        let unpinned = news(&mut cluster);
        assert_eq!(
            (&unpinned["last_message_id"], unpinned.get("last_pin_timestamp")),
            (&pinned["last_message_id"], None)
        );

        let note: u64 = text(&pinned["last_message_id"]).parse().unwrap();
        let newest = note + (1 << 30);
        let publish = |cluster: &mut TestCluster, id: u64| {
            let body = RawValue::from_string(format!(r#"{{"id":"{id}","channel_id":"{}"}}"#, channel(GENERAL)));
            let event = BackendEvent::new("MESSAGE_CREATE", &body.unwrap(), None).unwrap();
            let rule = AudienceRule::Channel(channel(GENERAL));
            let command = BackendCommand::Publish { rule, event: Arc::new(event), id: None };
            system(cluster, Command::Backend(Box::new(command)));
        };
        publish(&mut cluster, newest);
        assert_eq!(news(&mut cluster)["last_message_id"], newest.to_string());
        // Older ones, and those of a clock that is far ahead, are none.
        publish(&mut cluster, message.get());
        publish(&mut cluster, newest + (1 << 45));
        cluster.run_until_idle();
        cluster.advance_with_heartbeats(ROUND_MS);
        assert_eq!(cluster.dispatches(client), []);
    }
}
