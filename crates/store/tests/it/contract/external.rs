//! External ids: unique within a kind, both ways.

use crate::support::*;
use guildhall_guild::Write;
use guildhall_store::{ExternalId, ExternalKind, Store, StoreError};

async fn texts(store: &dyn Store, kind: ExternalKind, ids: &[u64]) -> Vec<(u64, String)> {
    let mut found = store.external_ids(kind, ids).await.unwrap();
    found.sort();
    found.into_iter().map(|ExternalId { id, text }| (id, text)).collect()
}

async fn id_of(store: &dyn Store, kind: ExternalKind, text: &str) -> Option<u64> {
    let found = store.with_external_ids(kind, &[text.to_owned(), "nobody".to_owned()]).await.unwrap();
    assert!(found.len() <= 1 && found.iter().all(|found| found.text == text), "{found:?}");
    found.first().map(|found| found.id)
}

fn some(id: u64, text: &str) -> (u64, Option<String>) {
    (id, Some(text.to_owned()))
}

pub async fn one_object_for_each_text(store: &dyn Store) {
    use ExternalKind::{Channel, User};
    store.put_external_ids(User, &[some(1, "a"), some(ID_MAX, "[\"b\", 0]")]).await.unwrap();
    store.put_external_ids(Channel, &[some(2, "a")]).await.unwrap();
    assert_eq!(id_of(store, User, "a").await, Some(1));
    assert_eq!(id_of(store, User, "[\"b\", 0]").await, Some(ID_MAX));
    assert_eq!(id_of(store, Channel, "a").await, Some(2), "kinds are apart");
    assert_eq!(id_of(store, ExternalKind::Guild, "a").await, None);
    assert_eq!(id_of(store, User, "A").await, None, "byte by byte");

    let taken = store.put_external_ids(User, &[some(3, "c"), some(4, "a")]).await;
    assert!(matches!(taken, Err(StoreError::Taken { .. })), "{taken:?}");
    assert_eq!(texts(store, User, &[1, 3, 4]).await, [(1, "a".to_owned())], "all or none");
    store.put_external_ids(User, &[some(1, "x"), some(3, "a")]).await.unwrap();
    store.put_external_ids(User, &[some(1, "a"), some(3, "x")]).await.unwrap();
    assert_eq!(texts(store, User, &[1, 3]).await, [(1, "a".to_owned()), (3, "x".to_owned())], "exchanged");
    store.put_external_ids(User, &[(1, None), (99, None)]).await.unwrap();
    assert_eq!(texts(store, User, &[1, 3, 99]).await, [(3, "x".to_owned())]);
    store.put_external_ids(User, &[some(5, "a")]).await.unwrap();
    assert_eq!(id_of(store, User, "a").await, Some(5));
    store.put_external_ids(User, &[]).await.unwrap();
}

pub async fn deleting_releases_it(store: &dyn Store) {
    use ExternalKind::{Channel, Guild};
    store.commit(vec![Write::PutGuild(guild(10)), Write::PutGuild(guild(20))]).await.unwrap();
    let channels = [(10, 11), (10, 12), (20, 21)].map(|(guild, n)| Write::PutChannel(channel(guild, n)));
    store.commit(channels.into()).await.unwrap();
    store.put_external_ids(Guild, &[some(10, "one"), some(20, "two")]).await.unwrap();
    store.put_external_ids(Channel, &[some(11, "a"), some(12, "b"), some(21, "c")]).await.unwrap();
    store.commit(vec![Write::DeleteChannel(id(10), id(11))]).await.unwrap();
    assert_eq!(texts(store, Channel, &[11, 12, 21]).await, [(12, "b".to_owned()), (21, "c".to_owned())]);
    store.commit(vec![Write::DeleteGuild(id(10))]).await.unwrap();
    assert_eq!(texts(store, Channel, &[11, 12, 21]).await, [(21, "c".to_owned())]);
    assert_eq!(texts(store, Guild, &[10, 20]).await, [(20, "two".to_owned())]);
}
