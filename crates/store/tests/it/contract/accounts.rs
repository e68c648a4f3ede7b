//! Accounts: each change states the version that it was made of.

use crate::support::*;
use futures_util::future::join_all;
use guildhall_guild::Write;
use guildhall_model::User;
use guildhall_store::{Store, UserChange, UserVersion};
use std::{collections::BTreeMap, sync::Arc};

fn named(n: u64, name: &str) -> Arc<User> {
    Arc::new(User::new(id(n), name))
}

fn change(n: u64, name: &str, expected: Option<UserVersion>) -> UserChange {
    UserChange { user: named(n, name), expected }
}

/// Name and version of each.
async fn stored(store: &dyn Store, ids: &[u64]) -> BTreeMap<u64, (String, UserVersion)> {
    let ids: Vec<_> = ids.iter().map(|n| id(*n)).collect();
    let found = store.user_versions(&ids).await.unwrap();
    found.into_iter().map(|(user, version)| (user.id.get(), (user.username.clone(), version))).collect()
}

async fn version(store: &dyn Store, n: u64) -> UserVersion {
    stored(store, &[n]).await[&n].1
}

pub async fn a_change_of_an_earlier_version_is_refused(store: &dyn Store) {
    assert!(stored(store, &[1, ID_MAX]).await.is_empty());
    assert_eq!(store.change_users(&[change(1, "ana", None), change(ID_MAX, "max", None)]).await.unwrap(), 2);
    assert_eq!(store.change_users(&[change(1, "other", None)]).await.unwrap(), 0, "it is there");
    let first = version(store, 1).await;
    assert_eq!(store.change_users(&[change(1, "bea", Some(first))]).await.unwrap(), 1);
    let second = version(store, 1).await;
    assert!(second > first);
    assert_eq!(store.change_users(&[change(1, "late", Some(first))]).await.unwrap(), 0);
    assert_eq!(store.change_users(&[change(2, "nobody", Some(first))]).await.unwrap(), 0, "there is none");
    // Of several each is stored or refused by itself.
    let mixed =
        [change(1, "cleo", Some(second)), change(ID_MAX, "late", Some(UserVersion(99))), change(3, "dan", None)];
    assert_eq!(store.change_users(&mixed).await.unwrap(), 2);
    let names: Vec<_> = stored(store, &[1, 2, 3, ID_MAX]).await.into_values().map(|(name, _)| name).collect();
    assert_eq!(names, ["cleo", "dan", "max"]);
    assert_eq!(store.user(id(1)).await.unwrap(), Some(named(1, "cleo")));
    assert_eq!(store.change_users(&[]).await.unwrap(), 0);
}

pub async fn every_write_of_an_account_raises_its_version(store: &dyn Store) {
    store.commit(vec![Write::PutUser(named(1, "ana"))]).await.unwrap();
    let first = version(store, 1).await;
    store.commit(vec![Write::PutUser(named(1, "bea"))]).await.unwrap();
    assert!(version(store, 1).await > first);
    assert_eq!(store.change_users(&[change(1, "late", Some(first))]).await.unwrap(), 0);
    // Of a bulk too.
    let versions = stored(store, &[1]).await;
    let many = (1..=500).map(|n| Write::PutUser(named(n, "one of many"))).collect();
    store.commit(many).await.unwrap();
    assert!(version(store, 1).await > versions[&1].1);
    // A member's account is stored once, and stays as it is.
    let before = stored(store, &[1, 7]).await;
    let members = [1, 7].map(|n| Write::PutMember(id(10), member(n)));
    store.commit([vec![Write::PutGuild(guild(10))], members.into()].concat()).await.unwrap();
    assert_eq!(stored(store, &[1, 7]).await, before);
}

pub async fn of_changes_at_once_one_counts(store: &dyn Store) {
    store.change_users(&[change(1, "ana", None)]).await.unwrap();
    for _ in 0..20 {
        let now = version(store, 1).await;
        let names: Vec<String> = (0..8).map(|n| format!("name {n}")).collect();
        let changes: Vec<_> = names.iter().map(|name| [change(1, name, Some(now))]).collect();
        let counts = join_all(changes.iter().map(|change| store.change_users(change))).await;
        assert_eq!(counts.into_iter().map(Result::unwrap).sum::<u64>(), 1);
    }
    let new: Vec<_> = (0..8).map(|n| [change(2, &format!("name {n}"), None)]).collect();
    let counts = join_all(new.iter().map(|change| store.change_users(change))).await;
    assert_eq!(counts.into_iter().map(Result::unwrap).sum::<u64>(), 1);
}

pub async fn a_channel_belongs_to_one_guild(store: &dyn Store) {
    store.commit(vec![Write::PutGuild(guild(10)), Write::PutGuild(guild(20))]).await.unwrap();
    store.commit(vec![Write::PutChannel(channel(10, 11)), put_message(10, 11, 100)]).await.unwrap();
    for writes in
        [vec![Write::PutChannel(channel(20, 11))], vec![Write::PutGuild(guild(20)), Write::PutChannel(channel(20, 11))]]
    {
        let refused = store.commit(writes).await;
        assert!(matches!(refused, Err(guildhall_store::StoreError::Taken { .. })), "{refused:?}");
    }
    assert_eq!(store.guild_of_channel(id(11)).await.unwrap(), Some(id(10)));
    store.commit(vec![Write::PutChannel(channel(10, 11))]).await.unwrap();
    assert!(store.message(id(11), id(100)).await.unwrap().is_some());
    // Of several at once one gets it.
    let puts = [10, 20].map(|guild| store.commit(vec![Write::PutChannel(channel(guild, 12))]));
    assert_eq!(join_all(puts).await.into_iter().filter(Result::is_ok).count(), 1);
    // A deleted one is free.
    store.commit(vec![Write::DeleteChannel(id(10), id(11))]).await.unwrap();
    store.commit(vec![Write::PutChannel(channel(20, 11))]).await.unwrap();
    assert_eq!(store.guild_of_channel(id(11)).await.unwrap(), Some(id(20)));
    assert!(store.message(id(11), id(100)).await.unwrap().is_none());
}

pub async fn accounts_are_found_by_name(store: &dyn Store) {
    let bot = User { bot: true, ..User::new(id(3), "ana") };
    let odd = "a\"\\u0000\0' é";
    let accounts =
        [named(2, "ana"), named(1, "bea"), Arc::new(bot), named(4, "Ana"), named(5, odd), named(ID_MAX, "é '")];
    store.commit(accounts.into_iter().map(Write::PutUser).collect()).await.unwrap();
    let found = async |name: &str, limit: u32| {
        let found = store.users_named(name, limit).await.unwrap();
        found.iter().map(|user| user.id.get()).collect::<Vec<_>>()
    };
    assert_eq!(found("ana", 10).await, [2, 3]);
    assert_eq!(found("ana", 1).await, [2]);
    assert_eq!(found("é '", 10).await, [ID_MAX]);
    assert!(found("an", 10).await.is_empty() && found("", 10).await.is_empty() && found("a%", 10).await.is_empty());
    // PostgreSQL finds no name with U+0000.
    assert!([vec![], vec![5]].contains(&found(odd, 10).await));
    let version = version(store, 2).await;
    assert_eq!(store.change_users(&[change(2, "cleo", Some(version))]).await.unwrap(), 1);
    assert_eq!((found("ana", 10).await, found("cleo", 10).await), (vec![3], vec![2]));
}
