//! Moves for load: a model of nodes with workers and guilds, and measurements of their loads with noise.

use guildhall_cluster::{
    BalanceLimits, BalanceMove, BalanceReason, Balancer, GuildLoad, GuildLoads, Incarnation, NodeLoad, NodeNumber,
    NodeRecord, NodeState, worker_of,
};
use guildhall_model::GuildId;
use guildhall_stdx::{Instant, Rng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const LOOK_EVERY_MS: u64 = 15_000;
/// Number of looks that a report averages.
const AVERAGED: usize = 4;
const HOUR: u64 = 3_600_000;
const GB: u64 = 1_000_000_000;

struct Site {
    now: u64,
    rng: Rng,
    /// Loads are measured with an error up to this, in thousandths.
    noise: u16,
    nodes: Vec<(NodeNumber, NodeRecord)>,
    recent: BTreeMap<NodeNumber, VecDeque<Vec<u16>>>,
    guilds: Vec<Guild>,
    /// One per node: each believes that it decides if it has the smallest number.
    balancers: Vec<Balancer>,
    moves: Vec<(u64, BalanceMove)>,
}

#[derive(Clone, Copy)]
struct Guild {
    id: GuildId,
    at: NodeNumber,
    busy: u16,
    bytes: u64,
    arrived_at: Option<u64>,
}

fn id(n: u64) -> GuildId {
    GuildId::new((1_700_000_000_000 << 22) + (n << 12))
}

impl Site {
    /// Nodes with these weights and numbers of workers.
    fn new(seed: u64, nodes: &[(u32, usize)]) -> Self {
        Self::with(seed, nodes, BalanceLimits::default())
    }

    fn with(seed: u64, nodes: &[(u32, usize)], limits: BalanceLimits) -> Self {
        let record = |weight: u32, workers: usize| NodeRecord {
            weight,
            load: Some(NodeLoad { workers: vec![0; workers], takes_part: true, ..NodeLoad::default() }),
            ..NodeRecord::active(Incarnation(1))
        };
        let numbered = nodes.iter().zip(0..);
        Self {
            now: 0,
            rng: Rng::new(seed),
            noise: 0,
            nodes: numbered.map(|((weight, workers), n)| (NodeNumber(n), record(*weight, *workers))).collect(),
            recent: BTreeMap::new(),
            guilds: Vec::new(),
            balancers: nodes.iter().map(|_| Balancer::new(Instant(0), limits)).collect(),
            moves: Vec::new(),
        }
    }

    fn add(&mut self, at: u8, busy: u16, bytes: u64) -> GuildId {
        let id = id(self.guilds.len() as u64);
        self.guilds.push(Guild { id, at: NodeNumber(at), busy, bytes, arrived_at: None });
        id
    }

    /// Adds a guild that a certain worker runs at node 0 and, with as many workers, at the others.
    fn add_on_worker(&mut self, worker: usize, at: u8, busy: u16) -> GuildId {
        let workers = self.load_of(0).workers.len();
        let mut n = 1_000 * (self.guilds.len() as u64 + 1);
        while worker_of(id(n), workers) != worker {
            n += 1;
        }
        self.guilds.push(Guild { id: id(n), at: NodeNumber(at), busy, bytes: 0, arrived_at: None });
        id(n)
    }

    fn load_of(&self, node: usize) -> &NodeLoad {
        self.nodes[node].1.load.as_ref().unwrap()
    }

    /// Changes the record of a node. A node without a load in it is of an earlier release.
    fn record(&mut self, node: usize) -> &mut NodeRecord {
        &mut self.nodes[node].1
    }

    fn with_noise(&mut self, value: u16) -> u16 {
        let error = self.rng.below(2 * u64::from(self.noise) + 1) as u16;
        (value + error).saturating_sub(self.noise).min(1_000)
    }

    fn busy_of(&self, number: NodeNumber, workers: usize) -> Vec<u16> {
        let mut busy = vec![0_u16; workers];
        for guild in self.guilds.iter().filter(|guild| guild.at == number) {
            busy[worker_of(guild.id, workers)] += guild.busy;
        }
        busy.into_iter().map(|busy| busy.min(1_000)).collect()
    }

    fn true_load(&self, node: u8) -> Vec<u16> {
        self.busy_of(NodeNumber(node), self.load_of(node.into()).workers.len())
    }

    /// Every node measures, and the one that decides looks.
    fn step(&mut self) {
        self.now += LOOK_EVERY_MS;
        for node in 0..self.nodes.len() {
            let number = self.nodes[node].0;
            let Some(load) = &self.nodes[node].1.load else { continue };
            let workers = load.workers.len();
            let busy = self.busy_of(number, workers).into_iter().map(|busy| self.with_noise(busy)).collect();
            let recent = self.recent.entry(number).or_default();
            recent.push_back(busy);
            if recent.len() > AVERAGED {
                recent.pop_front();
            }
            let mean =
                |worker: usize| recent.iter().map(|busy: &Vec<u16>| busy[worker]).sum::<u16>() / recent.len() as u16;
            let workers = (0..workers).map(mean).collect();
            let bytes: u64 = self.guilds.iter().filter(|guild| guild.at == number).map(|guild| guild.bytes).sum();
            let load = self.nodes[node].1.load.as_mut().unwrap();
            (load.workers, load.memory_bytes) = (workers, bytes);
        }
        for node in 0..self.nodes.len() {
            let now = Instant(self.now);
            let Some(from) = self.balancers[node].look(now, self.nodes[node].0, &self.nodes) else { continue };
            let measured = self.measure(from);
            if let Some(chosen) = self.balancers[node].choose(now, &self.nodes, from, &measured) {
                self.moves.push((self.now, chosen));
                let guild = self.guilds.iter_mut().find(|guild| guild.id == chosen.guild_id).unwrap();
                assert_eq!(guild.at, chosen.from);
                (guild.at, guild.arrived_at) = (chosen.to, Some(self.now));
                self.balancers[node].ended(now, chosen.guild_id, true);
            }
        }
    }

    fn measure(&mut self, from: NodeNumber) -> GuildLoads {
        let workers =
            self.nodes.iter().find(|(number, _)| *number == from).unwrap().1.load.as_ref().unwrap().workers.len();
        let mut guilds: Vec<Guild> = self.guilds.iter().filter(|guild| guild.at == from).copied().collect();
        guilds.sort_by_key(|guild| std::cmp::Reverse((guild.busy, guild.bytes)));
        guilds.truncate(guildhall_cluster::GUILDS_MEASURED_MAX);
        let now = self.now;
        let busy = self.busy_of(from, workers);
        GuildLoads {
            workers: busy.into_iter().map(|busy| self.with_noise(busy)).collect(),
            guilds: guilds
                .into_iter()
                .map(|guild| GuildLoad {
                    guild_id: guild.id,
                    busy: self.with_noise(guild.busy),
                    bytes: guild.bytes,
                    arrived_ms: guild.arrived_at.map(|at| now - at),
                })
                .collect(),
        }
    }

    fn run_hours(&mut self, hours: u64) {
        (0..hours * HOUR / LOOK_EVERY_MS).for_each(|_| self.step());
    }

    fn busiest(&self) -> u16 {
        (0..self.nodes.len() as u8).flat_map(|node| self.true_load(node)).max().unwrap()
    }

    /// Moves in any hour, at most.
    fn moves_per_hour(&self) -> usize {
        let within = |from: u64| self.moves.iter().filter(|(at, _)| (from..from + HOUR).contains(at)).count();
        self.moves.iter().map(|(at, _)| within(*at)).max().unwrap_or(0)
    }

    /// The shortest time between two moves of one guild.
    fn shortest_stay(&self) -> Option<u64> {
        let mut last = BTreeMap::new();
        let again = self.moves.iter().filter_map(|(at, of)| Some(at - last.insert(of.guild_id, *at)?));
        again.min()
    }
}

/// A site whose guilds are all at node 0. They take less than half of all workers' time.
fn uneven(seed: u64) -> Site {
    let mut rng = Rng::new(seed);
    let nodes: Vec<(u32, usize)> = vec![(1, 1 + rng.below(4) as usize); 2 + rng.below(4) as usize];
    let mut site = Site::new(seed, &nodes);
    let capacity = nodes.iter().map(|(_, workers)| 1_000 * *workers as u64).sum::<u64>();
    let mut sum = 0;
    while sum < capacity * 2 / 5 {
        let busy = 20 + rng.below(150);
        site.add(0, busy as u16, 0);
        sum += busy;
    }
    site
}

#[test]
fn b2_uneven_loads_even_out_and_then_no_guild_moves() {
    for seed in 0..60 {
        let mut site = uneven(seed);
        let before = site.busiest();
        site.run_hours(8);
        let (moved, after) = (site.moves.len(), site.busiest());
        site.run_hours(4);
        assert!(before > 700 && after <= 700, "seed {seed}: {before} to {after} after {moved} moves");
        assert_eq!(site.moves.len(), moved, "seed {seed}: {:?}", site.moves.last());
    }
}

#[test]
fn b2_noise_below_the_margin_moves_no_guild_back() {
    for seed in 0..60 {
        let mut site = uneven(seed);
        site.noise = 40;
        site.run_hours(12);
        let moved = site.moves.len();
        site.run_hours(48);
        // A worker that is busy for about half of its time may still be relieved, once.
        let late: Vec<GuildId> = site.moves[moved..].iter().map(|(_, of)| of.guild_id).collect();
        let different: BTreeSet<GuildId> = late.iter().copied().collect();
        assert!(late.len() <= 4 && different.len() == late.len(), "seed {seed}: {:?}", &site.moves[moved..]);
    }
}

#[test]
fn b1_b3_with_noise_moves_are_few_and_guilds_stay_for_an_hour() {
    for seed in 0..40 {
        let mut site = uneven(seed);
        site.noise = 400;
        site.run_hours(24);
        let limits = BalanceLimits::default();
        assert!(site.moves_per_hour() <= limits.moves_per_hour_max, "seed {seed}");
        assert!(site.shortest_stay().is_none_or(|stay| stay >= limits.rest_ms), "seed {seed}");
    }
}

#[test]
fn b1_the_budget_ends_moves_until_an_hour_has_passed() {
    let limits = BalanceLimits { moves_per_hour_max: 3, settle_ms: 0, looks_min: 1, ..BalanceLimits::default() };
    let mut site = Site::with(1, &[(1, 1), (1, 1)], limits);
    (0..20).for_each(|_| _ = site.add(0, 50, 0));
    while site.now < HOUR / 2 {
        site.step();
    }
    assert_eq!(site.moves.len(), 3);
    site.run_hours(1);
    assert_eq!(site.moves.len(), 6);
}

#[test]
fn a_guild_that_is_too_large_stays_and_its_neighbours_leave_it() {
    let mut site = Site::new(1, &[(1, 1), (1, 1), (1, 1)]);
    let large = site.add(0, 900, 0);
    site.run_hours(2);
    assert!(site.moves.is_empty(), "another node would be as busy: {:?}", site.moves);
    let neighbour = site.add(0, 80, 0);
    site.run_hours(2);
    let [(_, of)] = &site.moves[..] else { panic!("{:?}", site.moves) };
    assert_eq!((of.guild_id, of.from), (neighbour, NodeNumber(0)));
    assert!(site.guilds.iter().any(|guild| guild.id == large && guild.at == NodeNumber(0)));
}

#[test]
fn a_worker_is_relieved_although_its_node_is_idle() {
    let mut site = Site::new(1, &[(1, 4), (1, 4)]);
    let hot = [site.add_on_worker(2, 0, 450), site.add_on_worker(2, 0, 450)];
    site.run_hours(1);
    let [(_, of)] = &site.moves[..] else { panic!("{:?}", site.moves) };
    assert!(hot.contains(&of.guild_id));
    assert_eq!(
        of.to_string(),
        "its worker is busy 90 % at node 0 and 0 % at node 1; the guild takes 45 %",
        "the log has the figures"
    );
}

#[test]
fn a_node_with_a_larger_weight_gets_and_keeps_more() {
    let limits = BalanceLimits { busy_min: 100, ..BalanceLimits::default() };
    let share = |weight: u32| {
        let mut site = Site::with(1, &[(1, 1), (weight, 1)], limits);
        (0..36).for_each(|_| _ = site.add(0, 25, 0));
        site.run_hours(8);
        (site.true_load(0)[0], site.true_load(1)[0])
    };
    let (even, uneven) = (share(1), share(3));
    assert!(even.0.abs_diff(even.1) <= 200, "{even:?}");
    assert!(2 * uneven.1 > 3 * uneven.0, "twice as much, less the gap: {uneven:?}");
    assert!(uneven.1 <= 700, "a worker has room left: {uneven:?}");
    // The larger node is not relieved while it has less for its weight.
    let mut site = Site::with(1, &[(1, 1), (3, 1)], limits);
    (0..24).for_each(|_| _ = site.add(1, 25, 0));
    (0..8).for_each(|_| _ = site.add(0, 25, 0));
    site.run_hours(4);
    assert!(site.moves.is_empty(), "{:?}", site.moves);
}

#[test]
fn only_active_nodes_with_a_report_that_take_part_give_and_get_guilds() {
    type Change = fn(&mut NodeRecord);
    let changes: [(&str, Change); 4] = [
        ("it drains", |record| record.state = NodeState::Draining),
        ("it is starting", |record| record.state = NodeState::Joining),
        ("it has an earlier release", |record| record.load = None),
        ("its setting is off", |record| record.load.as_mut().unwrap().takes_part = false),
    ];
    for (what, change) in changes {
        for out in [0, 1] {
            let mut site = Site::new(1, &[(1, 1), (1, 1)]);
            (0..10).for_each(|_| _ = site.add(0, 90, 0));
            change(site.record(out));
            site.run_hours(2);
            assert!(site.moves.is_empty(), "node {out}, {what}: {:?}", site.moves);
        }
        // The others go on without it.
        let mut site = Site::new(1, &[(1, 1), (1, 1), (1, 1)]);
        (0..10).for_each(|_| _ = site.add(2, 90, 0));
        change(site.record(0));
        site.run_hours(2);
        assert!(!site.moves.is_empty(), "{what}");
        assert!(site.moves.iter().all(|(_, of)| of.to == NodeNumber(1)), "{what}: {:?}", site.moves);
    }
}

#[test]
fn b1_a_node_that_becomes_the_smallest_waits_before_it_decides() {
    let mut site = Site::new(1, &[(1, 1), (1, 1), (1, 1)]);
    (0..10).for_each(|_| _ = site.add(2, 90, 0));
    while site.moves.is_empty() {
        site.step();
        assert!(site.now < HOUR);
    }
    let first_at = site.now;
    site.record(0).state = NodeState::Draining;
    while site.moves.len() < 2 {
        site.step();
        assert!(site.now < HOUR);
    }
    assert!(site.now - first_at >= BalanceLimits::default().settle_ms, "{first_at}, {}", site.now);
}

#[test]
fn b4_memory_moves_first_and_neither_undoes_the_other() {
    let mut site = Site::new(1, &[(1, 1), (1, 1)]);
    for node in 0..2 {
        site.record(node).load.as_mut().unwrap().memory_bytes_max = 100 * GB;
    }
    for _ in 0..9 {
        site.add(0, 20, 10 * GB);
    }
    site.add(1, 300, 10 * GB);
    site.run_hours(6);
    let memory = |site: &Site, node: usize| site.load_of(node).memory_bytes / GB;
    assert!(memory(&site, 0) < 80 && memory(&site, 1) <= 70, "{:?}", site.moves);
    assert!(site.moves.iter().all(|(_, of)| matches!(of.reason, BalanceReason::Memory { .. })), "{:?}", site.moves);
    assert_eq!(site.moves[0].1.to_string(), "node 0 uses 90 % of its memory and node 1 10 %; the guild has 10000 MB");
    // A busy guild stays where its memory has room: the other node would have to send one back.
    let mut site = Site::new(1, &[(1, 1), (1, 1)]);
    for node in 0..2 {
        site.record(node).load.as_mut().unwrap().memory_bytes_max = 100 * GB;
    }
    (0..2).for_each(|_| _ = site.add(0, 450, 20 * GB));
    site.add(1, 0, 60 * GB);
    site.run_hours(2);
    assert!(site.moves.is_empty(), "{:?}", site.moves);
    site.guilds[2].bytes = 40 * GB;
    site.run_hours(2);
    assert_eq!(site.moves.len(), 1, "it has room now");
}

#[test]
fn a_guild_that_could_not_be_moved_is_left_alone_for_a_while() {
    let limits = BalanceLimits { settle_ms: 0, looks_min: 1, ..BalanceLimits::default() };
    let mut site = Site::with(1, &[(1, 1), (1, 1)], limits);
    (0..2).for_each(|_| _ = site.add(0, 400, 0));
    site.recent.clear();
    let (mut at, mut tried) = (0, Vec::new());
    let mut balancer = Balancer::new(Instant(0), limits);
    let loads = GuildLoads { workers: vec![800], guilds: site.measure(NodeNumber(0)).guilds };
    let load = NodeLoad { workers: vec![800], takes_part: true, ..NodeLoad::default() };
    site.record(0).load = Some(load);
    while tried.len() < 3 {
        at += LOOK_EVERY_MS;
        let Some(from) = balancer.look(Instant(at), NodeNumber(0), &site.nodes) else { continue };
        let Some(chosen) = balancer.choose(Instant(at), &site.nodes, from, &loads) else { continue };
        assert!(balancer.look(Instant(at), NodeNumber(0), &site.nodes).is_none(), "one at a time");
        tried.push((chosen.guild_id, at));
        balancer.ended(Instant(at), chosen.guild_id, false);
    }
    assert_ne!(tried[0].0, tried[1].0);
    assert!(tried[2].1 - tried[0].1 >= limits.retry_ms, "{tried:?}");
}

#[test]
fn a_load_has_one_form_and_old_records_have_none() {
    let old = r#"{"name":"a","incarnation":7,"url":"","weight":1,"state":"active","version":"0.1.0"}"#;
    let record: NodeRecord = serde_json::from_str(old).unwrap();
    assert!(record.load.is_none() && !record.has_handoff);
    assert!(!serde_json::to_string(&record).unwrap().contains("load"));
    let load = NodeLoad { workers: vec![710, 3], memory_bytes: 5, memory_bytes_max: 9, takes_part: true };
    let record = NodeRecord { load: Some(load), ..record };
    let text = serde_json::to_string(&record).unwrap();
    assert_eq!(serde_json::from_str::<NodeRecord>(&text).unwrap(), record, "{text}");
}
