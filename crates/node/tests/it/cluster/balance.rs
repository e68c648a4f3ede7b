//! Guilds move for load, by what the nodes measure.

use super::{handoff::talk, *};
use guildhall_cluster::{BalanceLimits, worker_of};

/// Guild workers of each node of a site.
const WORKERS: usize = 2;

/// Moves after seconds, of workers that are busy for a few hundredths of their time.
fn hasty(is_on: bool) -> BalanceOptions {
    let limits = BalanceLimits {
        busy_min: 30,
        gap_min: 20,
        margin: 10,
        guild_min: 5,
        looks_min: 2,
        settle_ms: 500,
        ..BalanceLimits::default()
    };
    let (look_every, measure_for) = (Duration::from_millis(250), Duration::from_millis(250));
    BalanceOptions { is_on, limits, look_every, measure_for }
}

impl Site {
    /// Guilds of one worker of node `owner`, with a channel each.
    async fn guilds_of_one_worker(&self, owner: usize, count: usize) -> Vec<(GuildId, ChannelId)> {
        let number = self.place(owner).membership.number();
        let mut guilds = Vec::new();
        for n in 0..400_u64 {
            let guild_id = GuildId::new((1_700_000_000_000 << 22) + (n << 12));
            if worker_of(guild_id, WORKERS) != 0 {
                continue;
            }
            bounded(self.place(owner).node.create_guild(new_guild(guild_id.get(), OWNER))).await.unwrap();
            if self.place(owner).membership.owner_of(guild_id) == Some(number) {
                guilds.push((guild_id, self.channel(guild_id, owner).await));
            }
            if guilds.len() == count {
                return guilds;
            }
        }
        panic!("no {count} guilds of 400 came to a worker of node {owner}");
    }

    fn owner(&self, guild_id: GuildId) -> Option<usize> {
        let owner = self.place(0).membership.owner_of(guild_id)?;
        (0..self.nodes.len()).find(|at| self.place(*at).membership.number() == owner)
    }

    fn moves(&self) -> Vec<(u64, u64, u64)> {
        let figures = self.nodes.iter().flatten().map(|place| place.membership.report().handoffs);
        figures.map(|of| (of.left, of.arrived, of.failed)).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_guild_moves_to_an_idle_node_and_nothing_is_lost_doubled_or_reset() {
    let site = Site::balanced(3, LEASE_MS, &NodeLimits::default(), hasty(true)).await;
    let guilds = site.guilds_of_one_worker(1, 2).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut talks = Vec::new();
    for (guild_id, channel_id) in &guilds {
        let listeners = site.listen_everywhere(*guild_id).await;
        let of_one: Vec<_> = (0..3).map(|through| talk(&site, through, *guild_id, *channel_id, &is_over)).collect();
        talks.push((listeners, of_one));
    }
    let has_moved = || guilds.iter().any(|(guild_id, _)| site.owner(*guild_id).is_some_and(|at| at != 1));
    until(has_moved, || (site.moves(), site.place(0).membership.report().nodes)).await;
    // Longer than a relay waits for a confirmation that does not come.
    tokio::time::sleep(Duration::from_millis(guildhall_cluster::CONFIRM_MS_MAX + 500)).await;
    is_over.store(true, Ordering::SeqCst);
    for (mut listeners, of_one) in talks {
        let mut sent = Vec::new();
        for talk in of_one {
            sent.extend(talk.await.unwrap());
        }
        sent.sort();
        for listener in &mut listeners {
            for expected in &sent {
                assert_eq!(listener.next_message().await, *expected);
            }
            assert!(listener.try_next().is_none(), "no relay was reset");
        }
    }
    let moves = site.moves();
    println!("{moves:?}");
    let moved_count: u64 = moves.iter().map(|(left, ..)| left).sum();
    assert!((1..=2).contains(&moved_count), "a guild that arrived stays for an hour: {moves:?}");
    assert_eq!(moves[1].0, moved_count, "they left the busy node: {moves:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_guild_moves_for_load_where_the_setting_is_off() {
    let site = Site::balanced(2, LEASE_MS, &NodeLimits::default(), hasty(false)).await;
    let guilds = site.guilds_of_one_worker(1, 2).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let talks: Vec<_> =
        guilds.iter().map(|(guild_id, channel_id)| talk(&site, 1, *guild_id, *channel_id, &is_over)).collect();
    // Its load is there, for reports, and was seen often enough.
    let loads = || -> Vec<_> {
        site.place(0).membership.report().nodes.into_iter().filter_map(|node| node.record.load).collect()
    };
    let is_busy = || loads().iter().any(|load| load.workers.iter().any(|busy| *busy >= 30));
    until(is_busy, loads).await;
    for _ in 0..6 {
        let before = loads();
        until(|| loads() != before, loads).await;
    }
    is_over.store(true, Ordering::SeqCst);
    for talk in talks {
        talk.await.unwrap();
    }
    assert!(loads().iter().all(|load| !load.takes_part && load.workers.len() == WORKERS));
    assert_eq!(site.moves(), [(0, 0, 0); 2]);
}
