//! Contract of the key-value stores: what every driver does. A driver instantiates it with `kv_suite!`.

use crate::contract::within;
use bytes::Bytes;
use futures_util::future::join_all;
use guildhall_bus::{Entry, KV_VALUE_BYTES_MAX, Key, KeyValue, KvError, KvEvent, KvWatch, Revision};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const SECOND: Duration = Duration::from_secs(1);
/// Longer than any change takes to arrive.
const PATIENCE: Duration = Duration::from_secs(60);
/// How much longer than its time to live a value may live.
const EXPIRY_LATE_MAX: Duration = Duration::from_secs(5);

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

fn text(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[track_caller]
fn next(watch: &mut Box<dyn KvWatch>) -> impl Future<Output = KvEvent> {
    let next = within("a change", watch.next());
    async move { next.await.unwrap() }
}

fn put(name: &str, value: &str, revision: Revision) -> KvEvent {
    KvEvent::Put(key(name), Entry { value: text(value), revision })
}

pub async fn values_by_key(kv: Arc<dyn KeyValue>) {
    let (one, other) = (key("values.one"), key("values.other"));
    assert_eq!(kv.get(&one).await, Ok(None));
    let first = kv.create(&one, text("a"), None).await.unwrap();
    assert_eq!(kv.get(&one).await, Ok(Some(Entry { value: text("a"), revision: first })));
    assert_eq!(kv.get(&other).await, Ok(None));
    let second = kv.update(&one, text(""), first, None).await.unwrap();
    assert!(second > first);
    assert_eq!(kv.get(&one).await, Ok(Some(Entry { value: text(""), revision: second })));
    kv.delete(&one, second).await.unwrap();
    assert_eq!(kv.get(&one).await, Ok(None));
}

pub async fn k1_only_the_expected_revision_is_replaced(kv: Arc<dyn KeyValue>) {
    let of = key("cas.one");
    let first = kv.create(&of, text("a"), None).await.unwrap();
    let exists = Err(KvError::Exists(Entry { value: text("a"), revision: first }));
    assert_eq!(kv.create(&of, text("b"), None).await, exists);
    for wrong in [0, first.0 - 1, first.0 + 1, u64::MAX] {
        assert_eq!(kv.update(&of, text("b"), Revision(wrong), None).await, Err(KvError::Conflict), "{wrong}");
        assert_eq!(kv.delete(&of, Revision(wrong)).await, Err(KvError::Conflict), "{wrong}");
    }
    assert_eq!(kv.get(&of).await.unwrap().unwrap().value, text("a"));
    let absent = key("cas.absent");
    for wrong in [Revision(0), first] {
        assert_eq!(kv.update(&absent, text("b"), wrong, None).await, Err(KvError::Conflict));
        assert_eq!(kv.delete(&absent, wrong).await, Err(KvError::Conflict));
    }
    assert_eq!(kv.get(&absent).await, Ok(None));
}

pub async fn k1_one_of_many_wins(kv: Arc<dyn KeyValue>) {
    let of = key("race.lease");
    for _ in 0..5 {
        let tries = (0..16).map(|n| {
            let (kv, of) = (kv.clone(), of.clone());
            tokio::spawn(async move { (n, kv.create(&of, text(&n.to_string()), None).await) })
        });
        let results: Vec<_> = within("all answers", join_all(tries)).await.into_iter().map(Result::unwrap).collect();
        let won: Vec<_> = results.iter().filter_map(|(n, result)| Some((n, *result.as_ref().ok()?))).collect();
        let [(winner, revision)] = won[..] else { panic!("{won:?} won") };
        let entry = Entry { value: text(&winner.to_string()), revision };
        for (_, result) in results.iter().filter(|(n, _)| n != winner) {
            assert_eq!(*result, Err(KvError::Exists(entry.clone())));
        }
        kv.delete(&of, revision).await.unwrap();
    }
}

/// Many writers add 1, each with compare-and-set: none of the additions is lost.
pub async fn k1_counting_loses_nothing(kv: Arc<dyn KeyValue>) {
    let of = key("race.count");
    kv.create(&of, text("0"), None).await.unwrap();
    let adding = (0..8).map(|_| {
        let (kv, of) = (kv.clone(), of.clone());
        tokio::spawn(async move {
            for _ in 0..10 {
                loop {
                    let Entry { value, revision } = kv.get(&of).await.unwrap().unwrap();
                    let count: u32 = std::str::from_utf8(&value).unwrap().parse().unwrap();
                    match kv.update(&of, text(&(count + 1).to_string()), revision, None).await {
                        Ok(_) => break,
                        Err(KvError::Conflict) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        })
    });
    within("the end of the additions", join_all(adding)).await.into_iter().for_each(Result::unwrap);
    assert_eq!(kv.get(&of).await.unwrap().unwrap().value, text("80"));
}

pub async fn k2_an_old_revision_never_fits_again(kv: Arc<dyn KeyValue>) {
    let of = key("again.one");
    let first = kv.create(&of, text("same"), None).await.unwrap();
    kv.delete(&of, first).await.unwrap();
    assert_eq!(kv.update(&of, text("x"), first, None).await, Err(KvError::Conflict));
    let second = kv.create(&of, text("same"), None).await.unwrap();
    assert!(second > first);
    assert_eq!(kv.update(&of, text("x"), first, None).await, Err(KvError::Conflict));
    assert_eq!(kv.delete(&of, first).await, Err(KvError::Conflict));
    assert_eq!(kv.get(&of).await.unwrap().unwrap().revision, second);
}

pub async fn k2_k3_values_expire(kv: Arc<dyn KeyValue>) {
    let of = key("expiry.one");
    let mut watch = kv.watch(&key("expiry")).await.unwrap();
    assert_eq!(next(&mut watch).await, KvEvent::Current);
    let stays = kv.create(&key("expiry.stays"), text("b"), None).await.unwrap();
    let began = Instant::now();
    let first = kv.create(&of, text("a"), Some(2 * SECOND)).await.unwrap();
    assert_eq!(next(&mut watch).await, put("expiry.stays", "b", stays));
    assert_eq!(next(&mut watch).await, put("expiry.one", "a", first));
    assert_eq!(next(&mut watch).await, KvEvent::Gone(of.clone()));
    let lived = began.elapsed();
    assert!(lived >= 2 * SECOND, "{lived:?}");
    assert!(lived < 2 * SECOND + EXPIRY_LATE_MAX, "{lived:?}");
    assert_eq!(kv.get(&of).await, Ok(None));
    assert_eq!(kv.update(&of, text("x"), first, None).await, Err(KvError::Conflict));
    assert_eq!(kv.delete(&of, first).await, Err(KvError::Conflict));
    let second = kv.create(&of, text("c"), Some(SECOND)).await.unwrap();
    assert!(second > first);
    assert_eq!(next(&mut watch).await, put("expiry.one", "c", second));
    assert_eq!(next(&mut watch).await, KvEvent::Gone(of));
    assert_eq!(kv.get(&key("expiry.stays")).await.unwrap().unwrap().revision, stays);
}

/// A lease that is renewed lives; one whose holder stops renewing expires, and not before its time.
pub async fn k3_renewing_prolongs(kv: Arc<dyn KeyValue>) {
    let of = key("renewed.one");
    let mut revision = kv.create(&of, text("a"), Some(2 * SECOND)).await.unwrap();
    let mut renewed = Instant::now();
    for _ in 0..6 {
        tokio::time::sleep(SECOND / 2).await;
        let (before, now) = (renewed, Instant::now());
        (revision, renewed) = match kv.update(&of, text("a"), revision, Some(2 * SECOND)).await {
            Ok(revision) => (revision, now),
            // This holder was late itself.
            Err(KvError::Conflict) if before.elapsed() >= 2 * SECOND => {
                (kv.create(&of, text("a"), Some(2 * SECOND)).await.unwrap(), now)
            }
            Err(error) => panic!("{error} {:?} after the renewal", before.elapsed()),
        };
    }
    let found = kv.get(&of).await.unwrap().map(|entry| entry.revision);
    assert!(found == Some(revision) || renewed.elapsed() >= 2 * SECOND, "{found:?} instead of {revision:?}");
    gone_in_time(&kv, &of, renewed + 2 * SECOND).await;
    assert!(renewed.elapsed() >= 2 * SECOND, "{:?}", renewed.elapsed());
}

/// Waits until a value is gone that expires at that time.
async fn gone_in_time(kv: &Arc<dyn KeyValue>, of: &Key, expires_at: Instant) {
    loop {
        // Not after the answer: this task may be late.
        let late = Instant::now().saturating_duration_since(expires_at);
        let Some(entry) = kv.get(of).await.unwrap() else { return };
        assert!(late < EXPIRY_LATE_MAX, "{of:?} is still {entry:?}, {late:?} after its end");
        tokio::time::sleep(SECOND / 20).await;
    }
}

/// Creates a value with the first time to live, and replaces it by the second before it expires.
async fn replaced(kv: &Arc<dyn KeyValue>, of: &Key, first: Option<Duration>, second: Option<Duration>) -> Instant {
    let until = Instant::now() + PATIENCE;
    loop {
        let began = Instant::now();
        let revision = kv.create(of, text("a"), first).await.unwrap();
        let replaced_at = Instant::now();
        match kv.update(of, text("a"), revision, second).await {
            Ok(_) => return replaced_at,
            // This task was late itself.
            Err(KvError::Conflict) if first.is_some_and(|first| began.elapsed() >= first) && replaced_at < until => {}
            Err(error) => panic!("{error} after {:?}", began.elapsed()),
        }
    }
}

/// An update without a time to live takes the earlier one away.
pub async fn a_write_replaces_the_time_to_live(kv: Arc<dyn KeyValue>) {
    let (short, long) = (key("ttl.short"), key("ttl.long"));
    replaced(&kv, &long, Some(SECOND), None).await;
    let replaced_at = replaced(&kv, &short, None, Some(SECOND)).await;
    gone_in_time(&kv, &short, replaced_at + SECOND).await;
    assert!(kv.get(&long).await.unwrap().is_some());
}

pub async fn k4_a_watch_reports_everything_below(kv: Arc<dyn KeyValue>) {
    let a = kv.create(&key("watched.a"), text("1"), None).await.unwrap();
    let deep = kv.create(&key("watched.a.deep"), text("2"), None).await.unwrap();
    for other in ["watched", "watched2.a", "x.watched.a"] {
        kv.create(&key(other), text("other"), None).await.unwrap();
    }
    let gone = kv.create(&key("watched.gone"), text("3"), None).await.unwrap();
    kv.delete(&key("watched.gone"), gone).await.unwrap();
    let mut watch = kv.watch(&key("watched")).await.unwrap();
    let mut present = vec![next(&mut watch).await, next(&mut watch).await];
    present.sort_by_key(|event| matches!(event, KvEvent::Put(key, _) if key.as_str() == "watched.a.deep"));
    assert_eq!(present, [put("watched.a", "1", a), put("watched.a.deep", "2", deep)]);
    assert_eq!(next(&mut watch).await, KvEvent::Current);
    kv.create(&key("watched2.b"), text("other"), None).await.unwrap();
    let b = kv.create(&key("watched.b"), text("4"), None).await.unwrap();
    assert_eq!(next(&mut watch).await, put("watched.b", "4", b));
    let later = kv.update(&key("watched.a"), text("5"), a, None).await.unwrap();
    assert_eq!(next(&mut watch).await, put("watched.a", "5", later));
    kv.delete(&key("watched.b"), b).await.unwrap();
    assert_eq!(next(&mut watch).await, KvEvent::Gone(key("watched.b")));
    // Dropping the future loses nothing.
    let impatient = tokio::time::timeout(Duration::from_millis(50), watch.next()).await;
    assert!(impatient.is_err(), "{impatient:?}");
    let c = kv.create(&key("watched.c"), text("6"), None).await.unwrap();
    assert_eq!(next(&mut watch).await, put("watched.c", "6", c));
}

pub async fn k4_a_watch_of_nothing_is_current(kv: Arc<dyn KeyValue>) {
    let mut watch = kv.watch(&key("empty")).await.unwrap();
    assert_eq!(next(&mut watch).await, KvEvent::Current);
    let revision = kv.create(&key("empty.no-more"), text("a"), None).await.unwrap();
    assert_eq!(next(&mut watch).await, put("empty.no-more", "a", revision));
    let mut later = kv.watch(&key("empty")).await.unwrap();
    assert_eq!(next(&mut later).await, put("empty.no-more", "a", revision));
    assert_eq!(next(&mut later).await, KvEvent::Current);
    kv.delete(&key("empty.no-more"), revision).await.unwrap();
    assert_eq!(next(&mut later).await, KvEvent::Gone(key("empty.no-more")));
    let mut last = kv.watch(&key("empty")).await.unwrap();
    assert_eq!(next(&mut last).await, KvEvent::Current);
}

/// Writers change keys all the time: a watch ends with the last value of each.
pub async fn k4_a_watch_ends_with_the_last_values(kv: Arc<dyn KeyValue>) {
    let keys: Vec<Key> = (0..4).map(|n| key(&format!("busy.{n}"))).collect();
    let writing = keys.iter().cloned().map(|of| {
        let kv = kv.clone();
        tokio::spawn(async move {
            let mut revision = kv.create(&of, text("0"), None).await.unwrap();
            for n in 1..50 {
                revision = kv.update(&of, text(&n.to_string()), revision, None).await.unwrap();
            }
            (of, revision)
        })
    });
    let writing: Vec<_> = writing.collect();
    let mut watch = kv.watch(&key("busy")).await.unwrap();
    let last: Vec<_> = within("the writers' end", join_all(writing)).await.into_iter().map(Result::unwrap).collect();
    let mut seen = std::collections::BTreeMap::new();
    while !last.iter().all(|(of, revision)| seen.get(of) == Some(revision)) {
        if let KvEvent::Put(of, entry) = next(&mut watch).await {
            let earlier = seen.insert(of, entry.revision);
            assert!(earlier.is_none_or(|earlier| earlier < entry.revision), "{earlier:?} {entry:?}");
        }
    }
}

pub async fn values_have_a_bound(kv: Arc<dyn KeyValue>) {
    let of = key("large.one");
    let (bytes, bytes_max) = (KV_VALUE_BYTES_MAX + 1, KV_VALUE_BYTES_MAX);
    let too_large = KvError::TooLarge { bytes, bytes_max };
    assert_eq!(kv.create(&of, Bytes::from(vec![0; bytes]), None).await, Err(too_large.clone()));
    let revision = kv.create(&of, Bytes::from(vec![7; bytes_max]), None).await.unwrap();
    assert_eq!(kv.update(&of, Bytes::from(vec![0; bytes]), revision, None).await, Err(too_large));
    assert_eq!(kv.get(&of).await.unwrap().unwrap().value, Bytes::from(vec![7; bytes_max]));
}

/// `restart` returns when the server runs again. Values survive, watches end, revisions go on.
pub async fn k2_a_restart_keeps_values_and_ends_watches(kv: Arc<dyn KeyValue>, restart: impl AsyncFn()) {
    let of = key("restart.one");
    let first = kv.create(&of, text("a"), None).await.unwrap();
    let second = kv.update(&of, text("b"), first, None).await.unwrap();
    let gone = kv.create(&key("restart.gone"), text("c"), None).await.unwrap();
    kv.delete(&key("restart.gone"), gone).await.unwrap();
    let mut watch = kv.watch(&key("restart")).await.unwrap();
    assert_eq!(next(&mut watch).await, put("restart.one", "b", second));
    assert_eq!(next(&mut watch).await, KvEvent::Current);
    restart().await;
    let ended = within("the watch's end", watch.next()).await;
    assert!(matches!(ended, Err(KvError::Away(_))), "{ended:?}");
    assert_eq!(within("its end again", watch.next()).await, ended, "it stays so");
    let until = Instant::now() + PATIENCE;
    let found = loop {
        match kv.get(&of).await {
            Err(KvError::Away(_)) if Instant::now() < until => tokio::time::sleep(SECOND / 20).await,
            result => break result,
        }
    };
    assert_eq!(found, Ok(Some(Entry { value: text("b"), revision: second })));
    assert_eq!(kv.update(&of, text("x"), first, None).await, Err(KvError::Conflict));
    assert_eq!(kv.get(&key("restart.gone")).await, Ok(None));
    let third = kv.create(&key("restart.gone"), text("d"), None).await.unwrap();
    assert!(third > gone);
    let mut again = kv.watch(&key("restart")).await.unwrap();
    let mut present = vec![next(&mut again).await, next(&mut again).await];
    present.sort_by_key(|event| matches!(event, KvEvent::Put(key, _) if key.as_str() == "restart.one"));
    assert_eq!(present, [put("restart.gone", "d", third), put("restart.one", "b", second)]);
    assert_eq!(next(&mut again).await, KvEvent::Current);
}

/// `kv_suite!(name, open, open_alone)`: a module of tests. `open() -> Option<impl KvUnderTest>` makes a store without
/// values, None where its server is not installed; `open_alone` makes one with a server of its own.
macro_rules! kv_suite {
    ($name:ident, $open:path, $open_alone:path) => {
        $crate::kv_contract::kv_suite! { @ $name, $open, $open_alone,
            values_by_key,
            k1_only_the_expected_revision_is_replaced,
            k1_one_of_many_wins,
            k1_counting_loses_nothing,
            k2_an_old_revision_never_fits_again,
            k2_k3_values_expire,
            k3_renewing_prolongs,
            a_write_replaces_the_time_to_live,
            k4_a_watch_reports_everything_below,
            k4_a_watch_of_nothing_is_current,
            k4_a_watch_ends_with_the_last_values,
            values_have_a_bound,
        }
    };
    (@ $name:ident, $open:path, $open_alone:path, $($test:ident),* $(,)?) => {
        mod $name {
            use $crate::kv_contract::KvUnderTest;

            $(#[tokio::test]
            async fn $test() {
                let Some(of) = $open().await else { return };
                $crate::kv_contract::$test(of.store()).await;
            })*

            #[tokio::test]
            async fn k2_a_restart_keeps_values_and_ends_watches() {
                let Some(of) = $open_alone().await else { return };
                $crate::kv_contract::k2_a_restart_keeps_values_and_ends_watches(of.store(), async || of.restart().await).await;
            }
        }
    };
}
pub(crate) use kv_suite;

/// A store, with what must outlive it.
pub trait KvUnderTest {
    fn store(&self) -> Arc<dyn KeyValue>;
    /// Stops its server and starts it again.
    async fn restart(&self);
}
