//! One guild and the people in it, as most tests need them.

use guildhall_guild::{Actor, Command, MemberPatch, NewMessage, Reply};
use guildhall_guild_protocol::{PartitionId, RelayId};
use guildhall_model::{ChannelId, ChannelType, Intents, MessageId, RoleId, User};
use guildhall_partition::PartitionConfig;
use guildhall_test_kit::{
    ClientId, ClientParams, GuildBuilder, Received, TestCluster, TestClusterConfig, bot, id, identify_payload,
    privileged, user,
};
use serde_json::Value;
use std::sync::Arc;

pub const GUILD: u64 = 1;
/// Role whose members can view `HIDDEN`.
pub const INSIDERS: u64 = 5;
pub const GENERAL: u64 = 10;
pub const HIDDEN: u64 = 11;
pub const VOICE: u64 = 12;

/// Every intent that needs no grant and that a bot may have.
pub const PLAIN: u32 = Intents::ALL.0 & !Intents::PRIVILEGED.0 & !Intents::USER_ONLY.0;
/// The same with the privileged ones.
pub const FULL: u32 = PLAIN | Intents::PRIVILEGED.0;

/// Owns the guild.
pub fn ana() -> Arc<User> {
    user(701)
}

pub fn bob() -> Arc<User> {
    user(702)
}

/// A bot without grants.
pub fn gob() -> Arc<User> {
    bot(801)
}

/// A bot with all of them.
pub fn pro() -> Arc<User> {
    privileged(802)
}

pub fn guild() -> GuildBuilder {
    GuildBuilder::new(GUILD, &ana())
        .role(INSIDERS, guildhall_model::Permissions::NONE)
        .channel(GENERAL, ChannelType::Text)
        .hidden_channel(HIDDEN, &[INSIDERS])
        .channel(VOICE, ChannelType::Voice)
        .member(&bob(), &[])
        .member(&gob(), &[])
        .member(&pro(), &[])
}

pub fn world() -> TestCluster {
    world_with(|_| {})
}

pub fn world_with(change: impl FnOnce(&mut PartitionConfig)) -> TestCluster {
    let mut config = TestClusterConfig::default();
    change(&mut config.partition);
    world_of(config)
}

pub fn world_of(config: TestClusterConfig) -> TestCluster {
    let mut cluster = TestCluster::new(config);
    [ana(), bob(), gob(), pro()].iter().for_each(|account| cluster.add_account(account));
    cluster.add_guild(guild().load());
    cluster
}

/// A bot with every intent, greeted, ready, and with its guild; its inbox is empty.
pub fn live_bot(cluster: &mut TestCluster) -> ClientId {
    live(cluster, &pro(), Some(FULL), ClientParams::JSON)
}

/// A client with READY and its guild, and an empty inbox.
pub fn live(cluster: &mut TestCluster, account: &Arc<User>, intents: Option<u32>, params: ClientParams) -> ClientId {
    let client = cluster.login(account, intents, params);
    let names = cluster.names(client);
    assert_eq!(names[0], (1, "READY".to_owned()), "{names:?}");
    client
}

pub fn say(cluster: &mut TestCluster, who: &Arc<User>, channel: u64, content: &str) -> MessageId {
    let new = NewMessage { content: content.to_owned(), ..NewMessage::default() };
    say_as(cluster, who, channel, new)
}

/// Ana writes all messages before any is delivered.
pub fn say_all(cluster: &mut TestCluster, contents: impl IntoIterator<Item = String>) {
    for content in contents {
        say(cluster, &ana(), GENERAL, &content);
    }
}

pub fn say_as(cluster: &mut TestCluster, who: &Arc<User>, channel: u64, new: NewMessage) -> MessageId {
    let command = Command::CreateMessage(id(channel), Box::new(new));
    match cluster.command(Actor::User(who.id), command) {
        Ok(Reply::Message(reply)) => reply.message.id,
        other => panic!("{other:?}"),
    }
}

pub fn system(cluster: &mut TestCluster, command: Command) {
    cluster.command(Actor::System, command).expect("the system may everything");
}

pub fn give_role(cluster: &mut TestCluster, who: &Arc<User>, role: u64) {
    system(cluster, Command::AddMemberRole(who.id, id(role)));
}

pub fn take_role(cluster: &mut TestCluster, who: &Arc<User>, role: u64) {
    let role: RoleId = id(role);
    system(cluster, Command::RemoveMemberRole(who.id, role));
}

pub fn nick(cluster: &mut TestCluster, who: &Arc<User>, nick: &str) {
    let patch = MemberPatch { nick: Some(Some(nick.to_owned())), ..MemberPatch::default() };
    system(cluster, Command::UpdateMember(who.id, Box::new(patch)));
}

/// Contents of the messages among what a client got, with their sequence numbers.
pub fn heard(cluster: &mut TestCluster, client: ClientId) -> Vec<(u64, String)> {
    let messages = cluster.dispatches(client).into_iter().filter(|dispatch| dispatch.name == "MESSAGE_CREATE");
    messages.map(|dispatch| (dispatch.seq, text(&dispatch.d()["content"]))).collect()
}

/// Reconnects, resumes, and returns what comes, without HELLO.
pub fn resumed(cluster: &mut TestCluster, client: ClientId, account: &Arc<User>) -> (ClientId, Vec<Received>) {
    let client = cluster.reconnect(client);
    assert!(matches!(cluster.take(client)[..], [Received::Hello { .. }]));
    cluster.client(client).resume(&account.username);
    let received = cluster.take(client);
    (client, received)
}

/// A resume that must succeed. Returns the replay without RESUMED, which must be last.
pub fn replayed(cluster: &mut TestCluster, client: ClientId, account: &Arc<User>) -> (ClientId, Vec<(u64, String)>) {
    let (client, received) = resumed(cluster, client, account);
    let mut names: Vec<(u64, String)> = received
        .into_iter()
        .map(|received| match received {
            Received::Dispatch(dispatch) => (dispatch.seq, dispatch.name),
            other => panic!("{other:?} in a replay"),
        })
        .collect();
    let last = names.pop().expect("at least RESUMED");
    assert_eq!(last.1, "RESUMED", "after {names:?}");
    (client, names)
}

/// A resume that must be refused with op 9 `false` on a connection that stays open.
pub fn refused(cluster: &mut TestCluster, client: ClientId, account: &Arc<User>) -> ClientId {
    let (client, received) = resumed(cluster, client, account);
    assert_eq!(received, [Received::InvalidSession(false)]);
    cluster.client(client).heartbeat();
    assert_eq!(cluster.take(client), [Received::HeartbeatAck]);
    client
}

pub fn text(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}

/// Names of the objects in an array under `key`, sorted.
pub fn listed(array: &Value, key: &str) -> Vec<String> {
    let mut listed: Vec<String> =
        array.as_array().expect("an array").iter().map(|item| text(item.pointer(key).expect("the key"))).collect();
    listed.sort();
    listed
}

pub fn ids(accounts: &[Arc<User>]) -> Vec<String> {
    let mut ids: Vec<String> = accounts.iter().map(|account| account.id.to_string()).collect();
    ids.sort();
    ids
}

/// A user account with capabilities who is ready; the inbox holds what followed READY.
pub fn live_user(cluster: &mut TestCluster, account: &Arc<User>, capabilities: u64) -> ClientId {
    let client = cluster.connect(ClientParams::JSON);
    let mut d = identify_payload(&account.username, None);
    d["capabilities"] = capabilities.into();
    cluster.client(client).identify(d);
    let names = names(cluster, client);
    assert_eq!(names.first().map(String::as_str), Some("READY"), "{names:?}");
    client
}

/// Op 14 about the guild.
pub fn subscribe(cluster: &mut TestCluster, client: ClientId, mut subscription: Value) {
    subscription["guild_id"] = id::<()>(GUILD).to_string().into();
    cluster.client(client).send(14, &subscription);
    cluster.run_until_idle();
}

/// Names of the dispatches that a client got.
pub fn names(cluster: &mut TestCluster, client: ClientId) -> Vec<String> {
    cluster.names(client).into_iter().map(|(_, name)| name).collect()
}

/// One of the guild's relays on the first partition.
pub fn relay(index: u16) -> RelayId {
    RelayId { partition: PartitionId(0), index }
}

pub fn channel(n: u64) -> ChannelId {
    id(n)
}
