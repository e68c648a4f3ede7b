//! GUILD_CREATE: its content for each kind of recipient (docs/protocol/reference.md §6.11).

use crate::fixture::*;
use guildhall_guild::Command;
use guildhall_model::{ClientStatus, Intents, Overwrite, OverwriteKind, Permissions, Platform, Presence, Status, User};
use guildhall_test_kit::{ClientParams, GuildBuilder, TestCluster, id, identify_payload, user};
use serde_json::{Value, json};
use std::sync::Arc;

/// Of members 901–960, these have a presence, a role, a nick or a voice state.
const ONLINE: u64 = 901;
const WITH_ROLE: u64 = 902;
const WITH_NICK: u64 = 903;
const IN_VOICE: u64 = 904;
const MEMBERS: std::ops::RangeInclusive<u64> = 901..=960;

fn crowd(builder: GuildBuilder) -> GuildBuilder {
    MEMBERS.fold(builder, |builder, n| {
        let roles: &[u64] = if n == WITH_ROLE { &[INSIDERS] } else { &[] };
        builder.member(&user(n), roles)
    })
}

fn crowded() -> TestCluster {
    let mut cluster = world();
    cluster.add_guild(crowd(guild()).load());
    let mut client_status = ClientStatus::default();
    client_status.raise(Platform::Mobile, Status::Idle);
    let presence = Presence { status: Status::Idle, activities: Vec::new(), client_status };
    system(&mut cluster, Command::ShowPresence(id(ONLINE), Some(Arc::new(presence))));
    nick(&mut cluster, &user(WITH_NICK), "Nicky");
    system(&mut cluster, Command::ShowVoice(id(IN_VOICE), Some(channel(VOICE))));
    cluster
}

/// GUILD_CREATE for this account.
fn guild_create(
    cluster: &mut TestCluster,
    account: &Arc<User>,
    intents: Option<u32>,
    large_threshold: Option<u64>,
) -> Value {
    let client = cluster.connect(ClientParams::JSON);
    let mut d = identify_payload(&account.username, intents);
    d["large_threshold"] = large_threshold.into();
    cluster.client(client).identify(d);
    let dispatches = cluster.dispatches(client);
    let guild_create = match account.bot {
        true => dispatches[1].d(),
        false => dispatches[0].d()["guilds"][0].clone(),
    };
    assert_eq!(guild_create["id"], id::<()>(GUILD).to_string());
    guild_create
}

fn check(account: &Arc<User>, intents: Option<u32>, threshold: Option<u64>, members: &[u64], presences: &[u64]) {
    let mut cluster = crowded();
    let guild_create = guild_create(&mut cluster, account, intents, threshold);
    let with_own = |ids: &[u64]| {
        let others = ids.iter().map(|n| user(*n));
        self::ids(&others.chain([account.clone()]).collect::<Vec<_>>())
    };
    assert_eq!(listed(&guild_create["members"], "/user/id"), with_own(members), "members");
    let expected: Vec<String> = presences.iter().map(|n| user(*n).id.to_string()).collect();
    let mut shown = listed(&guild_create["presences"], "/user/id");
    // The receiver's own presence comes with any others.
    shown.retain(|shown| *shown != account.id.to_string());
    assert_eq!(shown, expected, "presences");
    assert_eq!(guild_create["member_count"], 64);
}

const STAND_OUT: [u64; 4] = [ONLINE, WITH_ROLE, WITH_NICK, IN_VOICE];

#[test]
fn without_presences_a_bot_receives_itself_and_users_in_voice() {
    let plain = PLAIN & !Intents::GUILD_PRESENCES.0;
    check(&gob(), Some(plain), None, &[IN_VOICE], &[]);
    check(&pro(), Some(plain | Intents::GUILD_MEMBERS.0), Some(250), &[IN_VOICE], &[]);
}

#[test]
fn with_presences_a_bot_receives_notable_members_of_a_large_guild() {
    for threshold in [None, Some(0), Some(25), Some(50)] {
        check(&pro(), Some(FULL), threshold, &STAND_OUT, &[ONLINE]);
    }
}

#[test]
fn with_presences_a_bot_receives_all_members_of_a_small_guild() {
    let members: Vec<u64> = MEMBERS.collect();
    let mut cluster = crowded();
    for threshold in [64, 250, 1_000] {
        let guild_create = guild_create(&mut cluster, &pro(), Some(FULL), Some(threshold));
        assert_eq!(guild_create["members"].as_array().map(Vec::len), Some(members.len() + 4));
        assert_eq!(guild_create["large"], false);
        assert!(listed(&guild_create["presences"], "/user/id").contains(&user(ONLINE).id.to_string()));
    }
    assert_eq!(guild_create(&mut cluster, &pro(), Some(FULL), Some(63))["large"], true);
}

#[test]
fn a_user_account_receives_itself_and_users_in_voice() {
    check(&bob(), None, None, &[IN_VOICE], &[]);
    check(&bob(), Some(FULL), Some(250), &[IN_VOICE], &[]);
}

#[test]
fn all_channels_and_roles_are_listed_hidden_or_not() {
    let mut cluster = crowded();
    say(&mut cluster, &ana(), HIDDEN, "secret");
    for account in [gob(), bob()] {
        let guild_create = guild_create(&mut cluster, &account, Some(PLAIN), None);
        let channels: Vec<String> = [GENERAL, HIDDEN, VOICE].map(|n| channel(n).to_string()).to_vec();
        assert_eq!(listed(&guild_create["channels"], "/id"), channels);
        assert_eq!(listed(&guild_create["roles"], "/id").len(), 2);
        let hidden = &guild_create["channels"].as_array().expect("an array")[1];
        assert!(hidden["last_message_id"].is_null());
        assert_eq!(hidden["permission_overwrites"].as_array().map(Vec::len), Some(2));
        assert_eq!(guild_create["voice_states"][0]["user_id"], user(IN_VOICE).id.to_string());
        assert!(
            guild_create["voice_states"][0].get("guild_id").is_none()
                && guild_create["voice_states"][0].get("member").is_none()
        );
        for key in ["threads", "stage_instances", "guild_scheduled_events", "soundboard_sounds", "emojis", "stickers"] {
            assert_eq!(guild_create[key], json!([]), "{key}");
        }
        assert_eq!(guild_create["unavailable"], false);
        assert_eq!(guild_create["owner_id"], ana().id.to_string());
    }
}

/// Capability bit 15: in READY, in what happens to the channel, and whole as soon as it is in view.
#[test]
fn a_client_with_obfuscated_channels_receives_only_the_position_of_a_hidden_one() {
    let mut cluster = world();
    let client = cluster.connect(ClientParams::JSON);
    let mut d = identify_payload(&bob().username, None);
    d["capabilities"] = (1 << 15).into();
    cluster.client(client).identify(d);
    let ready = cluster.dispatches(client).remove(0);
    assert_eq!(ready.name, "READY");
    let (id, guild) = (channel(HIDDEN).to_string(), &ready.d()["guilds"][0]);
    let channels = guild["channels"].as_array().expect("an array");
    let hidden = channels.iter().find(|channel| channel["id"] == id).expect("it is listed");
    assert_eq!(hidden["name"], "___hidden___");

    let open = |allow| Overwrite { target: OverwriteKind::Member(bob().id), allow, deny: Permissions::NONE };
    for (allow, is_visible) in
        [(Permissions::NONE, false), (Permissions::VIEW_CHANNEL, true), (Permissions::NONE, false)]
    {
        system(&mut cluster, Command::PutOverwrite(channel(HIDDEN), open(allow)));
        let [update] = &cluster.dispatches(client)[..] else { panic!("it receives one change") };
        assert_eq!((update.name.as_str(), &update.d()["id"]), ("CHANNEL_UPDATE", &json!(id)));
        assert_eq!(update.d()["name"] != "___hidden___", is_visible);
        let flags = update.d()["flags"].as_u64().expect("a number");
        assert_eq!(flags & 1 << 17 == 0, is_visible);
    }
}

#[test]
fn etf_tells_the_same() {
    let mut cluster = crowded();
    let mut tell = |params| {
        let client = cluster.login(&pro(), Some(FULL), params);
        let mut d = cluster.dispatches(client)[1].d();
        cluster.client(client).close(Some(1000));
        cluster.run_until_idle();
        d["version"] = Value::Null;
        d
    };
    let json = tell(ClientParams::JSON);
    assert_eq!(tell(ClientParams::ETF), json);
}

/// As GUILD_CREATE, with a form that depends on the client's capabilities.
#[test]
fn x1_a_guild_in_ready_is_the_same_after_other_accounts() {
    const CAPABILITIES: [u64; 3] = [0, 1 << 4, 30_717];
    let prepare = || {
        let mut cluster = crowded();
        say(&mut cluster, &ana(), HIDDEN, "secret");
        say(&mut cluster, &ana(), GENERAL, "hello");
        cluster
    };
    let received = |cluster: &mut TestCluster, account: &Arc<User>, capabilities: u64| {
        let client = cluster.connect(ClientParams::JSON);
        let mut d = identify_payload(&account.username, None);
        d["capabilities"] = capabilities.into();
        cluster.client(client).identify(d);
        let mut ready = cluster.dispatches(client).remove(0).d();
        cluster.client(client).close(Some(1000));
        cluster.run_until_idle();
        ready["guilds"][0]["version"] = Value::Null;
        // The accounts' objects have the same form in any READY.
        ["guilds", "merged_members", "users"].map(|key| ready[key].take())
    };
    let accounts = [ana(), bob()];
    let alone = accounts.each_ref().map(|account| CAPABILITIES.map(|bits| received(&mut prepare(), account, bits)));
    assert_ne!(alone[0][0][0][0]["channels"], alone[1][0][0][0]["channels"], "they see different channels");
    let mut cluster = prepare();
    for round in 0..3 {
        for (account, alone) in accounts.iter().zip(&alone) {
            for (bits, alone) in CAPABILITIES.into_iter().zip(alone) {
                assert_eq!(received(&mut cluster, account, bits), *alone, "{bits} in round {round}");
            }
        }
    }
    // What changes is in the next READY.
    let message = say(&mut cluster, &ana(), GENERAL, "again");
    let [guilds, ..] = received(&mut cluster, &bob(), 0);
    assert_eq!(guilds[0]["channels"][0]["last_message_id"], message.to_string());
}

/// Sessions with the same view share a rendered text, and no session gets that of another view.
#[test]
fn x1_a_bots_guild_create_is_the_same_after_other_bots() {
    let plain = Some(PLAIN & !Intents::GUILD_PRESENCES.0);
    let prepare = || {
        let mut cluster = crowded();
        give_role(&mut cluster, &pro(), INSIDERS);
        say(&mut cluster, &ana(), HIDDEN, "secret");
        say(&mut cluster, &ana(), GENERAL, "hello");
        cluster
    };
    // Attaching changes the version.
    let received = |cluster: &mut TestCluster, account: &Arc<User>| {
        let mut body = guild_create(cluster, account, plain, None);
        body["version"] = Value::Null;
        body
    };
    let alone = [gob(), pro()].map(|account| received(&mut prepare(), &account));
    let newest = |body: &Value| body["channels"][1]["last_message_id"].clone();
    assert!(newest(&alone[0]).is_null() && newest(&alone[1]).is_string());
    for order in [[0, 1, 0, 1, 1, 0], [1, 1, 0, 0, 1, 0]] {
        let mut cluster = prepare();
        for n in order {
            assert_eq!(received(&mut cluster, &[gob(), pro()][n]), alone[n]);
        }
        // What changes is seen by the next.
        take_role(&mut cluster, &pro(), INSIDERS);
        assert!(newest(&received(&mut cluster, &pro())).is_null());
        let message = say(&mut cluster, &ana(), GENERAL, "again");
        let channels = received(&mut cluster, &gob())["channels"].clone();
        assert_eq!(channels[0]["last_message_id"], message.to_string());
        system(&mut cluster, Command::ShowVoice(id(IN_VOICE), None));
        assert_eq!(received(&mut cluster, &gob())["voice_states"], json!([]));
        // An own voice state is in the view of its account alone.
        system(&mut cluster, Command::ShowVoice(gob().id, Some(channel(VOICE))));
        assert_eq!(received(&mut cluster, &gob())["voice_states"].as_array().map(Vec::len), Some(1));
    }
}
