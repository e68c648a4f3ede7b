//! Direct messages: kept like guilds, listed apart from them.

use crate::support::*;
use futures_util::future::join_all;
use guildhall_guild::Write;
use guildhall_model::{Channel, ChannelType, DirectFields, Guild, GuildId};
use guildhall_store::Store;
use std::sync::Arc;

fn direct(n: u64, users: &[u64]) -> Vec<Write> {
    let guild_id: GuildId = id(n);
    let fields = Guild { is_direct: true, ..Guild::new(guild_id, "", id(0)) };
    let channel = Channel::new(id(n), guild_id, ChannelType::Dm, "");
    let mut writes = vec![Write::PutGuild(Arc::new(fields)), Write::PutChannel(Arc::new(channel))];
    writes.extend(users.iter().map(|user| Write::PutMember(guild_id, member(*user))));
    writes
}

pub async fn listed_apart_from_guilds(store: &dyn Store) {
    store.commit(vec![Write::PutGuild(guild(10)), Write::PutMember(id(10), member(1))]).await.unwrap();
    store.commit(direct(20, &[1, 2])).await.unwrap();
    store.commit(direct(30, &[3, 1])).await.unwrap();
    store.commit(vec![put_message(20, 20, 500)]).await.unwrap();
    assert_eq!(store.guilds_of_user(id(1), 10).await.unwrap(), [id(10)]);
    assert_eq!(store.guilds_of_user(id(2), 10).await.unwrap(), []);
    assert_eq!(store.guild_ids(id(0), 10).await.unwrap(), [id(10)]);
    assert_eq!(store.guild_of_channel(id(20)).await.unwrap(), Some(id(20)));
    let directs = store.directs_of_user(id(1), 10).await.unwrap();
    let found: Vec<_> = directs
        .iter()
        .map(|direct| {
            let people: Vec<u64> = direct.recipients.iter().map(|user| user.id.get()).collect();
            (direct.channel.id.get(), people, direct.channel.last_message_id.map(|id| id.get()))
        })
        .collect();
    assert_eq!(found, [(20, vec![1, 2], Some(500)), (30, vec![1, 3], None)]);
    assert_eq!(store.directs_of_user(id(1), 1).await.unwrap(), directs[..1]);
    assert_eq!(store.directs_of_user(id(4), 10).await.unwrap(), []);
    assert!(store.load_guild(id(20)).await.unwrap().is_some_and(|record| record.guild.is_direct));
    // What changes it later does not make it a guild, and what ends it ends it.
    store.commit(direct(20, &[])).await.unwrap();
    store.commit(vec![Write::DeleteMember(id(30), id(1))]).await.unwrap();
    assert_eq!(store.directs_of_user(id(1), 10).await.unwrap(), directs[..1]);
    store.commit(vec![Write::DeleteGuild(id(20))]).await.unwrap();
    assert_eq!(store.directs_of_user(id(2), 10).await.unwrap(), []);
}

/// `direct`, of another kind and closed by some.
fn direct_of(n: u64, users: &[u64], kind: ChannelType, closed_by: &[u64]) -> Vec<Write> {
    let mut writes = direct(n, users);
    let mut channel = Channel::new(id(n), id(n), kind, "");
    let closed_by = closed_by.iter().map(|user| id(*user)).collect();
    channel.direct = Some(Box::new(DirectFields { owner_id: None, closed_by }));
    writes.push(Write::PutChannel(Arc::new(channel)));
    writes
}

/// S11: a flood of groups, or of direct messages that were closed, hides none of the others.
pub async fn s11_the_open_and_the_newest_are_listed_first(store: &dyn Store) {
    store.commit(direct_of(20, &[1, 2], ChannelType::Dm, &[2])).await.unwrap();
    store.commit(direct_of(21, &[1, 3], ChannelType::Dm, &[])).await.unwrap();
    for n in 30..60 {
        store.commit(direct_of(n, &[1, 4], ChannelType::GroupDm, &[])).await.unwrap();
    }
    for n in 60..90 {
        store.commit(direct_of(n, &[1, 4], ChannelType::Dm, &[4, 1])).await.unwrap();
    }
    store.commit(vec![put_message(20, 20, 500), put_message(31, 31, 600), put_message(61, 61, 700)]).await.unwrap();
    let listed = |user, limit| async move {
        let directs = store.directs_of_user(id(user), limit).await.unwrap();
        directs.iter().map(|direct| direct.channel.id.get()).collect::<Vec<_>>()
    };
    assert_eq!(listed(1, 5).await, [20, 21, 31, 59, 58]);
    assert_eq!(listed(1, 1_000).await.len(), 32);
    assert_eq!(listed(2, 5).await, [0; 0], "it is closed");
    assert_eq!(listed(4, 1_000).await.len(), 30);
    let directs = store.directs_of_user(id(1), 3).await.unwrap();
    assert!(directs.iter().all(|direct| direct.recipients.len() == 2), "all of them with their people");
}

pub async fn s11_common_guilds_are_found(store: &dyn Store) {
    for (guild_id, users) in [(10, [1, 2]), (11, [2, 3])] {
        store.commit(vec![Write::PutGuild(guild(guild_id))]).await.unwrap();
        store.commit(users.map(|user| Write::PutMember(id(guild_id), member(user))).into()).await.unwrap();
    }
    store.commit(direct(20, &[1, 3])).await.unwrap();
    for (a, b, expected) in [(1, 2, true), (2, 3, true), (1, 3, false), (1, 4, false), (4, 5, false)] {
        assert_eq!(store.have_common_guild([id(a), id(b)]).await.unwrap(), expected, "{a} and {b}");
        assert_eq!(store.have_common_guild([id(b), id(a)]).await.unwrap(), expected, "{b} and {a}");
    }
    store.commit(vec![Write::DeleteMember(id(10), id(1))]).await.unwrap();
    assert!(!store.have_common_guild([id(1), id(2)]).await.unwrap());
}

pub async fn one_for_each_pair(store: &dyn Store) {
    assert_eq!(store.direct_of_pair([id(1), id(2)]).await.unwrap(), None);
    let requests = (0..4u64).map(|n| {
        let pair = if n % 2 == 0 { [id(1), id(2)] } else { [id(2), id(1)] };
        store.direct_of_pair_or_insert(pair, id(100 + n))
    });
    let got: Vec<_> = join_all(requests).await.into_iter().map(Result::unwrap).collect();
    assert!(got.iter().all(|id| *id == got[0]), "{got:?}");
    assert_eq!(store.direct_of_pair([id(2), id(1)]).await.unwrap(), Some(got[0]));
    assert_eq!(store.direct_of_pair([id(1), id(3)]).await.unwrap(), None);
    assert!(store.largest_id().await.unwrap() >= got[0].get(), "an id that is promised is not given away");
}
