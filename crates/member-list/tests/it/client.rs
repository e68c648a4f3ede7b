//! Watches against naive clients, which keep rows as §8.6 defines and have no other state.

use crate::world::World;
use guildhall_member_list::{Group, Interval, Item, ListOp, Watch};
use std::collections::BTreeMap;

/// Rows of a client; none where nothing was sent.
#[derive(Default)]
struct Client {
    intervals: Vec<Interval>,
    rows: Vec<Option<Item>>,
}

impl Client {
    /// Applies an event: operations in order, then truncation by `groups`.
    fn handle(&mut self, ops: Vec<ListOp>, groups: &[Group]) {
        for op in ops {
            match op {
                ListOp::Sync { interval, items } => {
                    assert!(items.len() <= interval.rows().len());
                    let end = interval.first() + items.len();
                    self.rows.resize_with(self.rows.len().max(end), || None);
                    for (row, item) in self.rows[interval.first()..end].iter_mut().zip(&*items) {
                        *row = Some(item.clone());
                    }
                }
                ListOp::Insert { index, item } => self.rows.insert(index, Some(item)),
                ListOp::Update { index, item } => {
                    let row = self.rows[index].as_mut().expect("a row that was sent");
                    assert_eq!(name(row), name(&item), "an update changes a row, not whose it is");
                    *row = item;
                }
                ListOp::Delete { index } => {
                    self.rows.remove(index).expect("a row that was sent");
                }
                ListOp::Invalidate { interval } => {
                    self.rows.iter_mut().skip(interval.first()).take(interval.rows().len()).for_each(|row| *row = None);
                }
            }
        }
        self.rows.truncate(groups.iter().map(|group| group.count + 1).sum());
    }

    fn check(&self, expected: &[Item], context: &str) {
        for interval in &self.intervals {
            let rows = self.rows.iter().skip(interval.first()).take(interval.rows().len());
            let expected = expected.iter().skip(interval.first()).take(interval.rows().len());
            assert!(
                rows.clone().eq(expected.clone().cloned().map(Some).collect::<Vec<_>>().iter()),
                "{context}: {rows:?}"
            );
        }
    }
}

fn name(item: &Item) -> String {
    match item {
        Item::Group(group) => group.id.to_string(),
        Item::Member(member, _) => format!("user {}", member.user.id),
    }
}

/// A list, its watches and its clients; plays the role of a guild with its relays.
struct Stage {
    world: World,
    watches: BTreeMap<Interval, Watch>,
    clients: Vec<Client>,
    row_ops_count: usize,
    syncs_count: usize,
}

impl Stage {
    fn flush(&mut self, context: &str) {
        let touched = self.world.list.take_dirty();
        let mut sent = BTreeMap::new();
        for (interval, watch) in &mut self.watches {
            if !touched.meets(*interval) {
                assert_eq!(watch.clone().update(&self.world.list), None, "{context}: not touched");
            } else if let Some(ops) = watch.update(&self.world.list) {
                match &ops[..] {
                    [] => panic!("{context}: an update without changes was sent"),
                    [ListOp::Sync { .. }] => self.syncs_count += 1,
                    ops => self.row_ops_count += ops.len(),
                }
                sent.insert(*interval, ops);
            }
        }
        let groups: Vec<_> = self.world.list.groups().collect();
        let expected = self.world.naive_rows();
        for client in &mut self.clients {
            let ops: Vec<_> =
                client.intervals.iter().filter_map(|interval| sent.get(interval)).flatten().cloned().collect();
            if !ops.is_empty() {
                client.handle(ops, &groups);
            }
            client.check(&expected, context);
        }
        for watch in self.watches.values() {
            let rows = expected.iter().skip(watch.interval().first()).take(watch.interval().rows().len());
            assert!(watch.rows().iter().eq(rows), "{context}");
        }
    }

    /// A client subscribes, or changes its ranges.
    fn subscribe(&mut self, at: usize, intervals: Vec<Interval>) {
        let mut ops = Vec::new();
        for gone in self.clients[at].intervals.iter().filter(|old| !intervals.contains(old)) {
            ops.push(self.watches[gone].invalidate());
        }
        for interval in intervals.iter().filter(|new| !self.clients[at].intervals.contains(new)) {
            let watch = self.watches.entry(*interval).or_insert_with(|| Watch::new(&self.world.list, *interval));
            ops.push(watch.sync());
        }
        let groups: Vec<_> = self.world.list.groups().collect();
        self.clients[at].intervals = intervals;
        self.clients[at].handle(ops, &groups);
        let is_watched = |interval: &Interval| self.clients.iter().any(|client| client.intervals.contains(interval));
        self.watches.retain(|interval, _| is_watched(interval));
    }

    /// One to three intervals: adjacent, apart or past the end; often equal to another client's.
    fn some_intervals(&mut self) -> Vec<Interval> {
        let rng = &mut self.world.rng;
        let width = *rng.pick(&[1, 4, 10, 25]).expect("some");
        let blocks: Vec<_> = (0..1 + rng.below(3)).map(|_| rng.below(4)).collect();
        Interval::from_ranges(blocks.into_iter().map(|block| [block * width, (block + 1) * width - 1]))
    }
}

#[test]
fn every_flush_leaves_the_right_rows() {
    let (mut row_ops_count, mut syncs_count) = (0, 0);
    for seed in 0..300 {
        let world = World::new(seed, 70);
        let clients = (0..4).map(|_| Client::default()).collect();
        let mut stage = Stage { world, watches: BTreeMap::new(), clients, row_ops_count: 0, syncs_count: 0 };
        // From a flush after each change to a flush after many.
        let changes_per_flush = *stage.world.rng.pick(&[1, 3, 30]).expect("some");
        for round in 0..40 {
            let context = format!("seed {seed}, round {round}");
            if round == 0 || stage.world.rng.chance(0.3) {
                stage.flush(&context);
                let at = stage.world.rng.below(4) as usize;
                let intervals = stage.some_intervals();
                stage.subscribe(at, intervals);
            }
            for _ in 0..=stage.world.rng.below(changes_per_flush) {
                stage.world.change();
            }
            stage.flush(&context);
        }
        row_ops_count += stage.row_ops_count;
        syncs_count += stage.syncs_count;
    }
    assert!(row_ops_count > 10_000 && syncs_count > 1_000, "both are tried: {row_ops_count}, {syncs_count}");
}

#[test]
fn one_change_takes_few_operations() {
    for seed in 0..300 {
        let mut world = World::new(seed, 300);
        let interval = Interval::from_ranges([[0, 99]])[0];
        let mut watch = Watch::new(&world.list, interval);
        for change in 0..20 {
            let rules = world.list.rules().clone();
            world.change();
            let rows_before = watch.rows().len();
            let Some(ops) = watch.update(&world.list) else { continue };
            // A move that removes one header, adds another and pushes two rows over the ends of the interval.
            let is_new_list = rules != *world.list.rules();
            let is_short = rows_before < 10;
            assert!(ops.len() <= 6 || is_new_list, "seed {seed}, change {change}: {ops:?}");
            let is_sync = matches!(ops[..], [ListOp::Sync { .. }]);
            assert!(!is_sync || is_new_list || is_short, "seed {seed}, change {change}: {ops:?}");
        }
    }
}
