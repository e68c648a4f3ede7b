//! Pages: slices of a channel's history.

use crate::support::*;
use guildhall_guild::Write;
use guildhall_model::{ReactionEmoji, UserId};
use guildhall_stdx::Rng;
use guildhall_store::{Page, Store};
use std::collections::BTreeMap;

pub async fn edges_of_a_channel(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101, 102, 103])).await.unwrap();
    // Neighbours in the order of keys must not show through.
    store.commit(vec![put_message(100, 101, 999), put_message(100, 103, 1)]).await.unwrap();
    store.commit((1..=5).map(|n| put_message(100, 102, n * 10)).collect()).await.unwrap();
    let check = async |which, limit, expected: &[u64]| {
        assert_eq!(page(store, 102, which, limit).await, expected, "{which:?} {limit}");
    };
    check(Page::Newest, 0, &[]).await;
    check(Page::Newest, 2, &[50, 40]).await;
    check(Page::Newest, 99, &[50, 40, 30, 20, 10]).await;
    check(Page::Before(id(30)), 99, &[20, 10]).await;
    check(Page::Before(id(31)), 2, &[30, 20]).await;
    check(Page::Before(id(10)), 2, &[]).await;
    check(Page::Before(id(999)), 1, &[50]).await;
    // The oldest of the newer ones, yet newest first.
    check(Page::After(id(10)), 2, &[30, 20]).await;
    check(Page::After(id(9)), 2, &[20, 10]).await;
    check(Page::After(id(0)), 99, &[50, 40, 30, 20, 10]).await;
    check(Page::After(id(50)), 2, &[]).await;
    check(Page::After(id(20)), 0, &[]).await;
}

pub async fn around_a_message(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    store.commit((1..=9).map(|n| put_message(100, 101, n * 10)).collect()).await.unwrap();
    let check = async |around, limit, expected: &[u64]| {
        assert_eq!(page(store, 101, Page::Around(id(around)), limit).await, expected, "around {around}, {limit}");
    };
    check(50, 0, &[]).await;
    check(50, 1, &[50]).await;
    check(50, 2, &[50, 40]).await;
    check(50, 3, &[60, 50, 40]).await;
    check(50, 4, &[60, 50, 40, 30]).await;
    check(50, 99, &[90, 80, 70, 60, 50, 40, 30, 20, 10]).await;
    // The message itself need not be there.
    check(55, 4, &[70, 60, 50, 40]).await;
    check(10, 4, &[20, 10]).await;
    check(90, 4, &[90, 80, 70]).await;
    check(0, 4, &[20, 10]).await;
    check(ID_MAX, 4, &[90, 80]).await;
}

/// A channel the naive way: everything is looked at.
#[derive(Default)]
struct Naive(BTreeMap<u64, Vec<(ReactionEmoji, Vec<UserId>)>>);

impl Naive {
    fn page(&self, page: Page, limit: usize) -> Vec<u64> {
        let all: Vec<u64> = self.0.keys().copied().collect();
        let older = |id: u64| all.iter().copied().filter(|n| *n < id).collect::<Vec<_>>();
        let newer = |id: u64| all.iter().copied().filter(|n| *n > id).collect::<Vec<_>>();
        let last = |ids: Vec<u64>, count: usize| ids[ids.len().saturating_sub(count)..].to_vec();
        let first = |ids: Vec<u64>, count: usize| ids[..ids.len().min(count)].to_vec();
        let mut ids = match page {
            Page::Newest => last(all.clone(), limit),
            Page::Before(id) => last(older(id.get()), limit),
            Page::After(id) => first(newer(id.get()), limit),
            Page::Around(id) => {
                let mut from = newer(id.get());
                if all.contains(&id.get()) {
                    from.insert(0, id.get());
                }
                [last(older(id.get()), limit / 2), first(from, limit - limit / 2)].concat()
            }
        };
        ids.reverse();
        ids
    }
}

pub async fn against_a_naive_model(store: &dyn Store) {
    let mut rng = Rng::new(0x9a6e);
    store.commit(guild_with_channels(100, &[101, 102])).await.unwrap();
    let mut naive = Naive::default();
    for _ in 0..40 {
        let mut batch = Vec::new();
        for _ in 0..rng.below(12) {
            let n = rng.below(200);
            if rng.chance(0.3) {
                naive.0.remove(&n);
                batch.push(Write::DeleteMessage(id(101), id(n)));
            } else {
                naive.0.entry(n).or_default();
                batch.push(put_message(100, 101, n));
                batch.push(put_message(100, 102, n + 1)); // a neighbour
            }
            let known: Vec<u64> = naive.0.keys().copied().collect();
            if let Some(n) = rng.pick(&known) {
                let (emoji, user_id) = (unicode(["👍", "🔥", "🎉"][rng.below(3) as usize]), id(1 + rng.below(9)));
                let reactions = naive.0.get_mut(n).unwrap();
                match reactions.iter_mut().find(|(known, _)| *known == emoji) {
                    Some((_, users)) if users.contains(&user_id) => {}
                    Some((_, users)) => users.push(user_id),
                    None => reactions.push((emoji.clone(), vec![user_id])),
                }
                batch.push(Write::AddReaction(id(101), id(*n), emoji, user_id));
            }
        }
        store.commit(batch).await.unwrap();
        for _ in 0..20 {
            let at = id(rng.below(210));
            let which = [Page::Newest, Page::Before(at), Page::After(at), Page::Around(at)][rng.below(4) as usize];
            let limit = rng.below(25) as u32;
            let records = store.messages(id(101), which, limit).await.unwrap();
            let ids: Vec<u64> = records.iter().map(|record| record.message.id.get()).collect();
            assert_eq!(ids, naive.page(which, limit as usize), "{which:?} {limit}");
            for record in records {
                assert_eq!(record.reactions, naive.0[&record.message.id.get()]);
            }
        }
    }
}
