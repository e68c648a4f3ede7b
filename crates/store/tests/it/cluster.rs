//! Several nodes on one database: nodes that refuse each other, and two owners of one guild.

use crate::{postgres_server::PostgresServer, support::*};
use futures_util::future::join_all;
use guildhall_guild::Write;
use guildhall_model::User;
use guildhall_store::{
    GuildEpoch, MemoryStore, Page, PostgresOptions, PostgresStore, Sharing, Store, StoreError, TokenHash, TokenRecord,
    UserChange, UserVersion,
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

fn options(url: &str, cluster: Option<&str>) -> PostgresOptions {
    let mut options = PostgresOptions::new(url).unwrap();
    options.in_use_wait_ms = 1000;
    if let Some(name) = cluster {
        options.sharing = Sharing::Cluster { name: name.to_owned() };
    }
    options
}

pub async fn open_node(url: &str) -> PostgresStore {
    PostgresStore::open(options(url, Some("site"))).await.unwrap()
}

async fn refusal(options: PostgresOptions) -> StoreError {
    PostgresStore::open(options).await.err().expect("a refusal")
}

#[tokio::test]
async fn a_cluster_and_a_node_alone_refuse_each_other() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.url(&server.create_database());
    let (one, other) = (open_node(&url).await, open_node(&url).await);
    let error = refusal(options(&url, None)).await;
    assert!(matches!(error, StoreError::DatabaseOfCluster { .. }), "{error:?}");
    let error = refusal(options(&url, Some("another"))).await;
    assert!(matches!(&error, StoreError::OtherCluster { found, wanted, .. } if found == "site" && wanted == "another"));
    // Both still write: a node that was refused has claimed nothing.
    for (n, store) in [&one, &other].into_iter().enumerate() {
        let record = TokenRecord { user_id: id(1), created_at: guildhall_stdx::Timestamp(5) };
        store.put_token(TokenHash::of(&n.to_string()), record).await.unwrap();
    }
    one.close().await;
    other.close().await;

    // The name is free once no node holds the database.
    PostgresStore::open(options(&url, Some("another"))).await.unwrap().close().await;
    let alone = PostgresStore::open(options(&url, None)).await.unwrap();
    let error = refusal(options(&url, Some("site"))).await;
    assert!(matches!(error, StoreError::DatabaseNotShared { .. }), "{error:?}");
    alone.commit(guild_with_channels(100, &[101])).await.unwrap();
    alone.close().await;
    open_node(&url).await.close().await;
}

/// The lock is a courtesy: if a node got past it, the epoch of the database still decides.
#[tokio::test]
async fn w3_a_node_alone_fences_a_cluster_and_the_other_way_round() {
    let Some(server) = PostgresServer::shared() else { return };
    let database = server.create_database();
    let url = server.url(&database);
    let (one, other) = (open_node(&url).await, open_node(&url).await);
    one.commit(guild_with_channels(100, &[101])).await.unwrap();
    other.commit(vec![put_message(100, 101, 1)]).await.unwrap();
    // As a node alone that starts while the server has forgotten the locks.
    server.sql(&database, "SELECT guildhall_claim_1(0)");
    for store in [&one, &other] {
        assert!(matches!(store.commit(vec![put_message(100, 101, 2)]).await, Err(StoreError::Fenced)));
        assert!(matches!(store.claim_guild(id(100)).await, Err(StoreError::Fenced)));
        assert!(store.is_fenced());
    }
    // A node that joins afterwards does not revive the earlier ones.
    let third = open_node(&url).await;
    third.commit(vec![put_message(100, 101, 3)]).await.unwrap();
    assert!(matches!(one.commit(vec![put_message(100, 101, 4)]).await, Err(StoreError::Fenced)));
    assert_eq!(page(&third, 101, Page::Newest, 10).await, [3, 1]);
    for store in [one, other, third] {
        store.close().await;
    }
}

/// Two nodes, one guild: the earlier owner's commits fail after the later claim, and nothing else does.
async fn the_later_owner_wins(earlier: &dyn Store, later: &dyn Store) {
    let old = earlier.claim_guild(id(100)).await.unwrap();
    let kept = earlier.claim_guild(id(200)).await.unwrap();
    earlier.commit_fenced((id(100), old), guild_with_channels(100, &[101])).await.unwrap();
    earlier.commit_fenced((id(200), kept), guild_with_channels(200, &[201])).await.unwrap();
    let new = later.claim_guild(id(100)).await.unwrap();
    assert!(new > old);
    let batches = (1..100).map(|n| {
        let (guild_id, channel_id, epoch) = if n % 3 == 0 { (100, 101, old) } else { (200, 201, kept) };
        earlier.commit_fenced((id(guild_id), epoch), vec![put_message(guild_id, channel_id, n)])
    });
    for (result, n) in join_all(batches).await.into_iter().zip(1..) {
        match result {
            Ok(()) => assert_ne!(n % 3, 0, "batch {n} of the earlier owner"),
            Err(StoreError::Fenced) => assert_eq!(n % 3, 0, "batch {n} of another guild"),
            Err(error) => panic!("{error:?}"),
        }
    }
    assert!(!earlier.is_fenced(), "it is only one guild");
    later.commit_fenced((id(100), new), vec![put_message(100, 101, 1000)]).await.unwrap();
    assert_eq!(page(later, 101, Page::Newest, 200).await, [1000]);
    assert_eq!(page(later, 201, Page::Newest, 200).await.len(), 66);
    // An epoch that was never claimed is refused.
    for wrong in [0, new.0 + 1] {
        let result = later.commit_fenced((id(100), GuildEpoch(wrong)), vec![put_message(100, 101, 1001)]).await;
        assert!(matches!(result, Err(StoreError::Fenced)), "{result:?}");
    }
    let result = later.commit_fenced((id(300), GuildEpoch(1)), Vec::new()).await;
    assert!(matches!(result, Err(StoreError::Fenced)), "{result:?}");
    // Writes without a guild need no epoch.
    earlier.commit(vec![Write::PutUser(Arc::new(guildhall_model::User::new(id(20), "c")))]).await.unwrap();
}

#[tokio::test]
async fn w4_the_later_owner_wins_in_postgres() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.url(&server.create_database());
    let (one, other) = (open_node(&url).await, open_node(&url).await);
    the_later_owner_wins(&one, &other).await;
    one.close().await;
    other.close().await;
}

#[tokio::test]
async fn w4_the_later_owner_wins_in_memory() {
    let store = MemoryStore::new();
    the_later_owner_wins(&store, &store.clone()).await;
}

/// A guild changes its owner again and again while all owners write as fast as they can: after a claim, the messages do
/// not change until the new owner writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w4_nothing_in_flight_slips_past_a_claim() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.url(&server.create_database());
    let nodes = [Arc::new(open_node(&url).await), Arc::new(open_node(&url).await)];
    nodes[0].commit([guild_with_channels(100, &[101]), guild_with_channels(200, &[201])].concat()).await.unwrap();
    let next = Arc::new(AtomicU64::new(1000));
    // Batches of another guild share transactions with these.
    let other = nodes[0].claim_guild(id(200)).await.unwrap();
    let mut owners = Vec::new();
    let until = Instant::now() + Duration::from_secs(3);
    let mut claims = 0;
    while Instant::now() < until || claims <= 5 {
        let node = nodes[claims % 2].clone();
        let epoch = node.claim_guild(id(100)).await.unwrap();
        claims += 1;
        let found = page(&*node, 101, Page::Newest, u32::MAX).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
        assert_eq!(page(&*node, 101, Page::Newest, u32::MAX).await, found, "an earlier owner wrote after the claim");
        for _ in 0..4 {
            let (node, next) = (node.clone(), next.clone());
            owners.push(tokio::spawn(async move {
                loop {
                    let n = next.fetch_add(1, Relaxed);
                    match node.commit_fenced((id(100), epoch), vec![put_message(100, 101, n)]).await {
                        Ok(()) => {}
                        Err(StoreError::Fenced) => return,
                        Err(error) => panic!("{error:?}"),
                    }
                }
            }));
        }
        let n = next.fetch_add(1, Relaxed);
        nodes[0].commit_fenced((id(200), other), vec![put_message(200, 201, n)]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    nodes[0].claim_guild(id(100)).await.unwrap();
    within("the end of all owners", join_all(owners)).await.into_iter().for_each(Result::unwrap);
    assert!(claims > 5, "{claims}");
    assert!(!page(&*nodes[0], 101, Page::Newest, 10).await.is_empty(), "nobody wrote");
    assert_eq!(page(&*nodes[0], 201, Page::Newest, u32::MAX).await.len(), claims);
    for node in nodes {
        node.close().await;
    }
}

/// An owner that is paused in the middle of a transaction loses it, and the claim succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w4_a_paused_owner_does_not_hold_up_a_claim() {
    let Some(server) = PostgresServer::shared() else { return };
    let database = server.create_database();
    let url = server.url(&database);
    let node = open_node(&url).await;
    node.commit(guild_with_channels(100, &[101])).await.unwrap();
    let epoch = node.claim_guild(id(100)).await.unwrap();
    // The connection of a paused process: it has stated the epoch and stays silent.
    let mut options = url.parse::<sqlx::postgres::PgConnectOptions>().unwrap();
    options = options.options([("idle_in_transaction_session_timeout", "2000")]);
    let mut paused = sqlx::ConnectOptions::connect(&options).await.unwrap();
    let sql = format!("BEGIN; SELECT guildhall_fence_guilds_1(ARRAY[100], ARRAY[{}]);", epoch.0);
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&mut paused).await.unwrap();
    let began = Instant::now();
    let claimed = node.claim_guild(id(100)).await.unwrap();
    assert!(claimed > epoch && began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(sqlx::raw_sql("COMMIT").execute(&mut paused).await.is_err());
    node.close().await;
}

/// More guilds at a time than one transaction checks.
#[tokio::test]
async fn many_guilds_at_once() {
    let Some(server) = PostgresServer::shared() else { return };
    let node = open_node(&server.url(&server.create_database())).await;
    let guilds: Vec<u64> = (1..200).map(|n| n * 1000).collect();
    let claims = guilds.iter().map(async |guild_id| {
        let epoch = node.claim_guild(id(*guild_id)).await.unwrap();
        let writes = guild_with_channels(*guild_id, &[guild_id + 1]);
        node.commit_fenced((id(*guild_id), epoch), writes).await.unwrap();
        (*guild_id, epoch)
    });
    let claimed = join_all(claims).await;
    let messages = claimed.iter().map(|(guild_id, epoch)| {
        node.commit_fenced((id(*guild_id), *epoch), vec![put_message(*guild_id, guild_id + 1, guild_id + 2)])
    });
    join_all(messages).await.into_iter().for_each(Result::unwrap);
    for guild_id in guilds {
        assert_eq!(page(&node, guild_id + 1, Page::Newest, 10).await, [guild_id + 2]);
    }
    node.close().await;
}

/// Accounts have no owner: two nodes may change one at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_nodes_lose_no_change_of_an_account() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.url(&server.create_database());
    let nodes = [Arc::new(open_node(&url).await), Arc::new(open_node(&url).await)];
    const CHANGES: usize = 100;
    let changing = nodes.iter().map(|node| {
        let node = node.clone();
        tokio::spawn(async move {
            let mut done = 0;
            while done < CHANGES {
                let stored = node.user_versions(&[id(1)]).await.unwrap().pop();
                let (user, expected) = stored.unzip();
                let mut user = user.map_or_else(|| User::new(id(1), "ana"), |user| User::clone(&user));
                user.global_name.get_or_insert_default().push('x');
                done += node.change_users(&[UserChange { user: Arc::new(user), expected }]).await.unwrap() as usize;
            }
        })
    });
    for changing in join_all(changing).await {
        changing.unwrap();
    }
    let (user, version) = nodes[0].user_versions(&[id(1)]).await.unwrap().pop().unwrap();
    assert_eq!(user.global_name.as_ref().unwrap().len(), 2 * CHANGES);
    assert_eq!(version, UserVersion(2 * CHANGES as u64));
    join_all(nodes.iter().map(|node| node.close())).await;
}

/// Each guild has an owner, but the id of a channel is unique over all guilds.
#[tokio::test]
async fn of_two_guilds_one_gets_the_id_of_a_channel() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.url(&server.create_database());
    let nodes = [open_node(&url).await, open_node(&url).await];
    let guilds = [100, 200];
    let mut fences = Vec::new();
    for (node, guild) in nodes.iter().zip(guilds) {
        node.commit(guild_with_channels(guild, &[])).await.unwrap();
        fences.push((id(guild), node.claim_guild(id(guild)).await.unwrap()));
    }
    for n in 1000..1020 {
        let put = |at: usize| nodes[at].commit_fenced(fences[at], vec![Write::PutChannel(channel(guilds[at], n))]);
        let done = join_all([put(0), put(1)]).await;
        let winners: Vec<u64> =
            guilds.into_iter().zip(&done).filter(|(_, done)| done.is_ok()).map(|(guild, _)| guild).collect();
        assert_eq!(winners.len(), 1, "{done:?}");
        assert!(done.iter().any(|done| matches!(done, Err(StoreError::Taken { what: "channel" }))), "{done:?}");
        for node in &nodes {
            assert_eq!(node.guild_of_channel(id(n)).await.unwrap(), Some(id(winners[0])));
        }
    }
    join_all(nodes.iter().map(PostgresStore::close)).await;
}
