//! Voice of user accounts over several guilds.

use crate::fixture::*;
use guildhall_model::{ChannelId, ChannelType, GuildId};
use guildhall_test_kit::{ClientId, ClientParams, GuildBuilder, TestCluster, id};
use serde_json::json;

const OTHER: u64 = 2;
const OTHER_VOICE: u64 = 22;

fn join(cluster: &mut TestCluster, client: ClientId, guild: GuildId, channel: Option<ChannelId>) {
    let d = json!({
        "guild_id": guild.to_string(), "channel_id": channel.map(|id| id.to_string()), "self_mute": false, "self_deaf": false,
    });
    cluster.client(client).send(4, &d);
    cluster.run_until_idle();
}

/// Guild and channel of each VOICE_STATE_UPDATE that a client got.
fn moves(cluster: &mut TestCluster, client: ClientId) -> Vec<(String, Option<String>)> {
    let dispatches = cluster.dispatches(client).into_iter().filter(|dispatch| dispatch.name == "VOICE_STATE_UPDATE");
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    dispatches.map(|dispatch| (text(&dispatch.d()["guild_id"]).unwrap(), text(&dispatch.d()["channel_id"]))).collect()
}

/// Bob's other guild is there as well.
fn world_of_two() -> (TestCluster, GuildId, GuildId) {
    let mut cluster = world();
    let other = GuildBuilder::new(OTHER, &ana()).member(&bob(), &[]).channel(OTHER_VOICE, ChannelType::Voice);
    cluster.name_guild(&bob(), other.id());
    let there = other.id();
    cluster.wake_guild(other.load());
    (cluster, id(GUILD), there)
}

#[test]
fn an_account_is_in_voice_in_one_guild() {
    let (mut cluster, here, there) = world_of_two();
    let desk = cluster.login(&bob(), None, ClientParams::JSON);
    let phone = cluster.login(&bob(), None, ClientParams::JSON);
    cluster.take(desk);
    cluster.take(phone);

    join(&mut cluster, desk, here, Some(channel(VOICE)));
    let joined_here = (here.to_string(), Some(channel(VOICE).to_string()));
    assert_eq!(moves(&mut cluster, desk), [joined_here]);
    cluster.take(phone);

    join(&mut cluster, phone, there, Some(channel(OTHER_VOICE)));
    let joined_there = (there.to_string(), Some(channel(OTHER_VOICE).to_string()));
    for client in [desk, phone] {
        let mut received = moves(&mut cluster, client);
        received.sort();
        assert_eq!(received, [(here.to_string(), None), joined_there.clone()], "it left here first");
    }

    join(&mut cluster, phone, there, None);
    assert_eq!(moves(&mut cluster, desk), [(there.to_string(), None)]);
}

/// A client that moves to a voice channel in another guild sends only the new channel.
#[test]
fn a_voice_join_in_another_guild_leaves_the_first() {
    let (mut cluster, here, there) = world_of_two();
    let desk = cluster.login(&bob(), None, ClientParams::JSON);
    cluster.take(desk);
    join(&mut cluster, desk, here, Some(channel(VOICE)));
    cluster.take(desk);
    join(&mut cluster, desk, there, Some(channel(OTHER_VOICE)));
    let mut received = moves(&mut cluster, desk);
    received.sort();
    assert_eq!(received, [(here.to_string(), None), (there.to_string(), Some(channel(OTHER_VOICE).to_string()))]);
}
