//! Voice of user accounts over several guilds.

use crate::fixture::*;
use guildhall_model::{ChannelId, ChannelType, GuildId};
use guildhall_test_kit::{ClientId, ClientParams, GuildBuilder, Pair, id};
use serde_json::json;

const OTHER: u64 = 2;
const OTHER_VOICE: u64 = 22;

fn join(pair: &mut Pair, client: ClientId, guild: GuildId, channel: Option<ChannelId>) {
    let d = json!({
        "guild_id": guild.to_string(), "channel_id": channel.map(|id| id.to_string()), "self_mute": false, "self_deaf": false,
    });
    pair.client(client).send(4, &d);
    pair.settle();
}

/// Guild and channel of each VOICE_STATE_UPDATE that a client got.
fn moves(pair: &mut Pair, client: ClientId) -> Vec<(String, Option<String>)> {
    let dispatches = pair.dispatches(client).into_iter().filter(|dispatch| dispatch.name == "VOICE_STATE_UPDATE");
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    dispatches.map(|dispatch| (text(&dispatch.d()["guild_id"]).unwrap(), text(&dispatch.d()["channel_id"]))).collect()
}

/// Bob's other guild is there as well.
fn world_of_two() -> (Pair, GuildId, GuildId) {
    let mut pair = world();
    let other = GuildBuilder::new(OTHER, &ana()).member(&bob(), &[]).channel(OTHER_VOICE, ChannelType::Voice);
    pair.name_guild(&bob(), other.id());
    let there = other.id();
    pair.wake_guild(other.load());
    (pair, id(GUILD), there)
}

#[test]
fn an_account_is_in_voice_in_one_guild() {
    let (mut pair, here, there) = world_of_two();
    let desk = pair.login(&bob(), None, ClientParams::JSON);
    let phone = pair.login(&bob(), None, ClientParams::JSON);
    pair.take(desk);
    pair.take(phone);

    join(&mut pair, desk, here, Some(channel(VOICE)));
    let joined_here = (here.to_string(), Some(channel(VOICE).to_string()));
    assert_eq!(moves(&mut pair, desk), [joined_here]);
    pair.take(phone);

    join(&mut pair, phone, there, Some(channel(OTHER_VOICE)));
    let joined_there = (there.to_string(), Some(channel(OTHER_VOICE).to_string()));
    for client in [desk, phone] {
        let mut told = moves(&mut pair, client);
        told.sort();
        assert_eq!(told, [(here.to_string(), None), joined_there.clone()], "it left here first");
    }

    join(&mut pair, phone, there, None);
    assert_eq!(moves(&mut pair, desk), [(there.to_string(), None)]);
}

/// A client that is in voice says where it goes, and nothing of where it was.
#[test]
fn who_goes_to_another_guild_leaves_the_first() {
    let (mut pair, here, there) = world_of_two();
    let desk = pair.login(&bob(), None, ClientParams::JSON);
    pair.take(desk);
    join(&mut pair, desk, here, Some(channel(VOICE)));
    pair.take(desk);
    join(&mut pair, desk, there, Some(channel(OTHER_VOICE)));
    let mut told = moves(&mut pair, desk);
    told.sort();
    assert_eq!(told, [(here.to_string(), None), (there.to_string(), Some(channel(OTHER_VOICE).to_string()))]);
}
