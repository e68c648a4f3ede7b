//! Several nodes and one home: requests and reports that are delayed, lost, overtaken and repeated.

use guildhall_cluster::{AccountLimits, IdentifyRequest, Ledger, NodeNumber, OverLimit, Reporter, Usage};
use guildhall_model::UserId;
use guildhall_stdx::{Instant, Rng};

const NODES: u8 = 3;
const SESSIONS_MAX: u32 = 5;
const LIMITS: AccountLimits =
    AccountLimits { user_sessions_max: SESSIONS_MAX, bot_identifies_per_day: 100, max_concurrency: 16 };
const USER: UserId = UserId::new(7);

/// Counts of a node, and its requests under way.
#[derive(Default)]
struct Node {
    process: u64,
    stamp: u64,
    /// Sessions, and requests under way.
    counted: u32,
    waiting: u32,
    is_alive: bool,
}

enum Sent {
    Admit { of: Reporter, stamp: u64, usage: u32 },
    Report { of: Reporter, stamp: u64, usage: u32 },
}

struct World {
    rng: Rng,
    now: Instant,
    nodes: Vec<Node>,
    ledger: Ledger,
    /// On their way to the home, in any order.
    sent: Vec<Sent>,
}

impl World {
    fn new(seed: u64) -> Self {
        let nodes = (0..NODES).map(|_| Node { process: 1, is_alive: true, ..Node::default() }).collect();
        Self { rng: Rng::new(seed), now: Instant(0), nodes, ledger: Ledger::default(), sent: Vec::new() }
    }

    fn of(&self, node: usize) -> Reporter {
        Reporter { node: NodeNumber(node as u8), process: self.nodes[node].process }
    }

    /// Sessions that exist: no request under way.
    fn sessions(&self) -> u32 {
        self.nodes.iter().map(|node| node.counted - node.waiting).sum()
    }

    fn report(&mut self, node: usize) {
        let of = self.of(node);
        let entry = &mut self.nodes[node];
        entry.stamp += 1;
        self.sent.push(Sent::Report { of, stamp: entry.stamp, usage: entry.counted });
    }

    fn act(&mut self) {
        self.now = self.now.after_ms(self.rng.below(50));
        let node = self.rng.below(NODES.into()) as usize;
        match self.rng.below(10) {
            0..=3 if self.nodes[node].is_alive => {
                let of = self.of(node);
                let entry = &mut self.nodes[node];
                (entry.stamp, entry.counted, entry.waiting) = (entry.stamp + 1, entry.counted + 1, entry.waiting + 1);
                self.sent.push(Sent::Admit { of, stamp: entry.stamp, usage: entry.counted });
            }
            4 if self.nodes[node].counted > self.nodes[node].waiting => {
                self.nodes[node].counted -= 1;
                self.report(node);
            }
            // It is killed; its messages may arrive later.
            5 if self.rng.below(10) == 0 => {
                let process = self.nodes[node].process + 1;
                self.nodes[node] = Node { process, ..Node::default() };
            }
            6 if !self.nodes[node].is_alive => {
                // Its number is free once the messages of the process before have arrived or are lost.
                let late = |sent: &Sent| match sent {
                    Sent::Admit { of, .. } | Sent::Report { of, .. } => usize::from(of.node.0) == node,
                };
                if !self.sent.iter().any(late) {
                    self.nodes[node].is_alive = true;
                }
            }
            _ => self.deliver(),
        }
    }

    fn deliver(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let index = self.rng.below(self.sent.len() as u64) as usize;
        let alive: Vec<bool> = self.nodes.iter().map(|node| node.is_alive).collect();
        let living = |number: NodeNumber| alive[usize::from(number.0)];
        match self.sent.swap_remove(index) {
            Sent::Report { of, stamp, usage } => {
                let usage = Usage { sessions: usage, ..Usage::default() };
                self.ledger.report(self.now, (of, stamp), USER, &usage);
            }
            Sent::Admit { of, stamp, usage } => {
                let usage = Usage { sessions: usage, ..Usage::default() };
                let request = IdentifyRequest { user_id: USER, is_bot: false, shard_id: 0, usage };
                let decided = self.ledger.admit((self.now, &living), (of, stamp), &request, &LIMITS);
                let node = usize::from(of.node.0);
                let entry = &mut self.nodes[node];
                if entry.process != of.process || !entry.is_alive {
                    return;
                }
                entry.waiting -= 1;
                match decided.expect("there is room") {
                    Ok(_) => {}
                    Err(limit) => {
                        assert_eq!(limit, OverLimit::Sessions);
                        entry.counted -= 1;
                        self.report(node);
                    }
                }
            }
        }
    }
}

#[test]
fn h1_all_nodes_together_never_have_more_sessions_than_one_would() {
    let mut most = 0;
    for seed in 0..400 {
        let mut world = World::new(seed);
        for step in 0..400 {
            world.act();
            assert!(world.sessions() <= SESSIONS_MAX, "seed {seed}, step {step}: {} sessions", world.sessions());
            most = most.max(world.sessions());
        }
        while !world.sent.is_empty() {
            world.deliver();
        }
        let alive: Vec<bool> = world.nodes.iter().map(|node| node.is_alive).collect();
        let living = |number: NodeNumber| alive[usize::from(number.0)];
        assert!(world.sessions() <= SESSIONS_MAX, "seed {seed}");
        // A round of each node: the home has what there is.
        for node in 0..usize::from(NODES) {
            if !world.nodes[node].is_alive {
                continue;
            }
            let (of, round_start) = (world.of(node), world.nodes[node].stamp + 1);
            world.report(node);
            world.deliver();
            world.ledger.end_round(world.now, of, round_start);
        }
        assert_eq!(world.ledger.sessions(USER, &living), world.sessions(), "seed {seed}");
    }
    assert_eq!(most, SESSIONS_MAX, "the limit was reached");
}
