//! Node: tokens, settings and lists over all guilds.

use crate::support::*;
use futures_util::future::join_all;
use guildhall_guild::Write;
use guildhall_stdx::Timestamp;
use guildhall_store::{RecordSwap, Store, TokenHash, TokenRecord};

pub async fn tokens(store: &dyn Store) {
    let (one, two) = (TokenHash::of("one"), TokenHash::of("two"));
    let record = |user, ms| TokenRecord { user_id: id(user), created_at: Timestamp(ms) };
    assert_eq!(store.token(one).await.unwrap(), None);
    assert!(!store.revoke_token(one).await.unwrap());
    store.put_token(one, record(1, 1_700_000_000_000)).await.unwrap();
    store.put_token(two, record(ID_MAX, i64::MIN)).await.unwrap();
    assert_eq!(store.token(one).await.unwrap(), Some(record(1, 1_700_000_000_000)));
    assert_eq!(store.token(two).await.unwrap(), Some(record(ID_MAX, i64::MIN)));
    store.put_token(one, record(2, 5)).await.unwrap();
    assert_eq!(store.token(one).await.unwrap(), Some(record(2, 5)));
    let revoked = join_all([store.revoke_token(one), store.revoke_token(one), store.revoke_token(one)]).await;
    assert_eq!(revoked.into_iter().filter(|revoked| *revoked.as_ref().unwrap()).count(), 1, "only one did it");
    assert_eq!(store.token(one).await.unwrap(), None);
    assert_eq!(store.token(two).await.unwrap(), Some(record(ID_MAX, i64::MIN)));
}

pub async fn sign_ins(store: &dyn Store) {
    let hash = |n: u64| TokenHash::of(&n.to_string());
    let record = |user| TokenRecord { user_id: id(user), created_at: Timestamp(7) };
    store
        .commit(vec![
            Write::PutGuild(guild(20)),
            Write::PutGuild(guild(10)),
            Write::PutMember(id(20), member(1)),
            Write::PutMember(id(10), member(1)),
            Write::PutUser(member(2).user.clone()),
        ])
        .await
        .unwrap();
    for (token, user) in [(1, 1), (2, 2), (3, 3)] {
        store.put_token(hash(token), record(user)).await.unwrap();
    }
    store.put_token(hash(4), record(1)).await.unwrap();
    store.revoke_token(hash(4)).await.unwrap();
    let hashes: Vec<TokenHash> = (1..=5).map(hash).collect();
    let mut found = store.sign_ins(&hashes).await.unwrap();
    found.sort_by_key(|sign_in| sign_in.record.user_id);
    let expected = [(1, true, vec![id(10), id(20)]), (2, true, vec![]), (3, false, vec![])];
    for (sign_in, (user, is_stored, guilds)) in found.iter().zip(expected) {
        assert_eq!((sign_in.hash, &sign_in.record), (hash(user), &record(user)));
        assert_eq!(sign_in.user.as_ref().map(|user| user.id), is_stored.then_some(id(user)));
        assert_eq!(sign_in.guilds.as_ref(), Some(&guilds));
    }
    assert_eq!(found.len(), 3, "neither the revoked nor the unknown one");
    assert!(store.sign_ins(&[]).await.unwrap().is_empty());
}

pub async fn swapped_records(store: &dyn Store) {
    let (kind, key) = ("lock", &b"\0key"[..]);
    let swap =
        async |before: Option<&[u8]>, after: Option<&[u8]>| store.swap_record(kind, key, before, after).await.unwrap();
    assert!(swap(None, None).await);
    assert!(!swap(Some(b"one"), Some(b"two")).await && !swap(Some(b"one"), None).await, "there is none");
    assert!(swap(None, Some(b"one")).await);
    assert!(!swap(None, Some(b"two")).await && !swap(None, None).await, "there is one");
    assert!(swap(Some(b"one"), Some(b"\0two")).await);
    assert!(!swap(Some(b"one"), Some(b"three")).await && !swap(Some(b"one"), None).await, "it is another one");
    assert_eq!(store.record(kind, key).await.unwrap().as_deref(), Some(&b"\0two"[..]));
    assert!(swap(Some(b"\0two"), None).await);
    assert_eq!(store.record(kind, key).await.unwrap(), None);
    // Of several at once one does it.
    let values = [b"a", b"b", b"c", b"d"];
    let swapped = join_all(values.iter().map(|value| store.swap_record(kind, key, None, Some(*value)))).await;
    assert_eq!(swapped.into_iter().filter(|swapped| *swapped.as_ref().unwrap()).count(), 1);
    let now = store.record(kind, key).await.unwrap().unwrap();
    let removed = join_all((0..4).map(|_| store.swap_record(kind, key, Some(&now), None))).await;
    assert_eq!(removed.into_iter().filter(|removed| *removed.as_ref().unwrap()).count(), 1);
}

pub async fn records_swapped_together(store: &dyn Store) {
    let kind = "pair";
    let swap = |id: &str, before: Option<&str>, after: Option<&str>| RecordSwap {
        kind,
        id: id.into(),
        before: before.map(Into::into),
        after: after.map(Into::into),
    };
    let now = async || {
        let both = [store.record(kind, b"a").await.unwrap(), store.record(kind, b"b").await.unwrap()];
        both.map(|data| data.map(|data| String::from_utf8(data).unwrap()))
    };
    assert!(store.swap_records(&[swap("b", None, Some("1")), swap("a", None, Some("1"))]).await.unwrap());
    assert_eq!(now().await, [Some("1".to_owned()), Some("1".to_owned())]);
    // One is another one, whichever is first: both stay.
    for faulty in [swap("b", Some("2"), Some("3")), swap("b", None, Some("3")), swap("b", Some("2"), None)] {
        assert!(!store.swap_records(&[swap("a", Some("1"), Some("2")), faulty.clone()]).await.unwrap());
        assert!(!store.swap_records(&[faulty, swap("a", Some("1"), None)]).await.unwrap());
        assert_eq!(now().await, [Some("1".to_owned()), Some("1".to_owned())]);
    }
    assert!(!store.swap_records(&[swap("a", Some("1"), Some("2")), swap("c", Some("1"), None)]).await.unwrap());
    assert_eq!(now().await, [Some("1".to_owned()), Some("1".to_owned())]);
    assert!(store.swap_records(&[swap("a", Some("1"), None), swap("b", Some("1"), Some("2"))]).await.unwrap());
    assert_eq!(now().await, [None, Some("2".to_owned())]);
    // Of several at once one does it, and the others' transactions are not spoiled.
    let both = |n: usize| [swap("a", None, Some(&n.to_string())), swap("b", Some("2"), Some(&n.to_string()))];
    let swaps: Vec<_> = (10..18).map(both).collect();
    let swapped = join_all(swaps.iter().map(|swaps| store.swap_records(swaps))).await;
    assert_eq!(swapped.into_iter().filter(|swapped| *swapped.as_ref().unwrap()).count(), 1);
    let [a, b] = now().await;
    assert!(a.is_some() && a == b, "{a:?} {b:?}");
}

pub async fn settings(store: &dyn Store) {
    assert_eq!(store.setting("secret").await.unwrap(), None);
    let value: Vec<u8> = (0..=255).collect();
    assert_eq!(store.setting_or_insert("secret", &value).await.unwrap(), value);
    assert_eq!(store.setting_or_insert("secret", b"other").await.unwrap(), value);
    assert_eq!(store.setting("secret").await.unwrap(), Some(value));
    assert_eq!(store.setting_or_insert("", b"").await.unwrap(), b"");
    assert_eq!(store.setting("").await.unwrap(), Some(Vec::new()));
    // Whichever call is first, all return the same value.
    let values = [b"a", b"b", b"c"];
    let got = join_all(values.iter().map(|value| store.setting_or_insert("race", *value))).await;
    let got: Vec<_> = got.into_iter().map(Result::unwrap).collect();
    assert!(got.iter().all(|value| *value == got[0]) && values.iter().any(|value| got[0] == *value), "{got:?}");
}

pub async fn lists_in_pages(store: &dyn Store) {
    let writes =
        (1..=30).flat_map(|n| [Write::PutGuild(guild(n * 10)), Write::PutMember(id(n * 10), member(1 + n % 2))]);
    store.commit(writes.collect()).await.unwrap();
    let mut all = Vec::new();
    loop {
        let some = store.guild_ids(all.last().copied().unwrap_or(id(0)), 7).await.unwrap();
        assert!(some.len() <= 7);
        if some.is_empty() {
            break;
        }
        all.extend(some);
    }
    assert_eq!(all, (1..=30).map(|n| id(n * 10)).collect::<Vec<_>>());
    let ids = async |after, limit| {
        store.users(id(after), limit).await.unwrap().iter().map(|user| user.id.get()).collect::<Vec<_>>()
    };
    assert_eq!(ids(0, 100).await, [1, 2], "each account once, in however many guilds");
    assert_eq!(ids(0, 1).await, [1]);
    assert_eq!(ids(1, 100).await, [2]);
    assert_eq!(ids(2, 100).await, NONE);
    let odd: Vec<_> = (1..=30).filter(|n| n % 2 == 1).map(|n| id(n * 10)).collect();
    assert_eq!(store.guilds_of_user(id(2), 100).await.unwrap(), odd);
    assert_eq!(store.guilds_of_user(id(2), 3).await.unwrap(), odd[..3]);
    assert_eq!(store.guilds_of_user(id(2), 0).await.unwrap(), []);
}

pub async fn records(store: &dyn Store) {
    assert_eq!(store.record("key", b"a").await.unwrap(), None);
    assert!(!store.delete_record("key", b"a").await.unwrap());
    for id in [&b"b"[..], b"a", b"", &[0xff, 0]] {
        store.put_record("key", id, &[id, b"!"].concat()).await.unwrap();
    }
    store.put_record("other", b"a", b"elsewhere").await.unwrap();
    store.put_record("key", b"a", b"again").await.unwrap();
    assert_eq!(store.record("key", b"a").await.unwrap().as_deref(), Some(&b"again"[..]));
    let pair = |id: &[u8], data: &[u8]| (id.to_vec(), data.to_vec());
    let rest = [pair(b"a", b"again"), pair(b"b", b"b!"), pair(&[0xff, 0], &[0xff, 0, b'!'])];
    assert_eq!(store.records("key", b"", 10).await.unwrap(), rest, "the empty id is not above itself");
    assert_eq!(store.records("key", b"a", 1).await.unwrap(), rest[1..2]);
    assert_eq!(store.records("nothing", b"", 10).await.unwrap(), []);
    assert!(store.delete_record("key", b"a").await.unwrap());
    assert!(!store.delete_record("key", b"a").await.unwrap());
    assert_eq!(store.record("other", b"a").await.unwrap().as_deref(), Some(&b"elsewhere"[..]));
}

pub async fn tokens_of_an_account(store: &dyn Store) {
    let record = |user| TokenRecord { user_id: id(user), created_at: Timestamp(5) };
    for (token, user) in [("one", 1), ("two", 2), ("three", 1)] {
        store.put_token(TokenHash::of(token), record(user)).await.unwrap();
    }
    let mut expected = [(TokenHash::of("one"), record(1)), (TokenHash::of("three"), record(1))];
    expected.sort_by_key(|(hash, _)| *hash);
    assert_eq!(store.tokens_of_user(id(1), 10).await.unwrap(), expected);
    assert_eq!(store.tokens_of_user(id(1), 1).await.unwrap(), expected[..1]);
    assert_eq!(store.tokens_of_user(id(3), 10).await.unwrap(), []);
}
