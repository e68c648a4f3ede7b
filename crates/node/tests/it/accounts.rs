//! Accounts of guilds and of the store.

use crate::support::{OWNER, World, attach, bounded, session};
use guildhall_guild::{ChannelPatch, Command};

#[tokio::test]
async fn the_busiest_guild_is_listed_with_its_message_types_and_channels() {
    let world = World::new();
    let (loud, channel_id) = world.guild_with_channel().await;
    let quiet = world.guild().await;
    let mut relay = world.listen(loud, 0);
    world.send(loud, attach(session(0, 0), OWNER));
    relay.snapshot().await;
    for n in 0..20 {
        bounded(world.start_saying(loud, channel_id, &n.to_string())).await.unwrap().unwrap();
    }
    let accounts = bounded(world.node.guild_accounts(10)).await;
    assert_eq!(accounts.loaded, 2);
    let [first, second] = &accounts.guilds[..] else { panic!("{accounts:?}") };
    assert_eq!((&first.id, &second.id), (&loud.to_string(), &quiet.to_string()));
    assert!(first.busy_ns_total > second.busy_ns_total && second.busy_ns_total > 0, "{accounts:?}");
    assert!(first.events_total >= 20, "{first:?}");
    assert_eq!((first.members, second.members, second.events_total), (1, 1, 0));
    assert_eq!(bounded(world.node.guild_accounts(1)).await.guilds.len(), 1);

    let account = bounded(world.node.guild_account(loud)).await.unwrap();
    let sent = account.types.iter().find(|of| of.name == "create_message").unwrap();
    assert_eq!(sent.times.count_total, 20);
    assert!(sent.times.max_ns > 0 && sent.times.ns_total >= sent.times.max_ns, "{sent:?}");
    let sum: u64 = account.types.iter().map(|of| of.times.ns_total).sum();
    assert_eq!(account.guild.busy_ns_total, sum);
    let [channel] = &account.channels[..] else { panic!("{account:?}") };
    assert_eq!((&*channel.id, channel.events_total), (&*channel_id.to_string(), 20));
    assert_eq!((&*channel.name, &*channel.kind), ("general", "text"));
    // A change of the channel is an event of it, though all members receive it.
    let patch = ChannelPatch { topic: Some(Some("new".to_owned())), ..ChannelPatch::default() };
    world.command(loud, Command::UpdateChannel(channel_id, Box::new(patch))).await.unwrap();
    let account = bounded(world.node.guild_account(loud)).await.unwrap();
    assert_eq!(account.channels[0].events_total, 21, "{account:?}");
    let unknown = guildhall_model::GuildId::new(77);
    assert!(bounded(world.node.guild_account(unknown)).await.is_none());
}

#[tokio::test]
async fn operations_of_the_store_have_their_times() {
    let world = World::new();
    world.guild().await;
    let report = world.node.store_report();
    let commit = report.kinds.iter().find(|kind| kind.name == "commit_fenced").unwrap();
    assert!(commit.times.count() > 0 && commit.times.total_ns > 0, "{commit:?}");
    assert_eq!(report.busy_ns, report.kinds.iter().map(|kind| kind.times.total_ns).sum::<u64>());
}
