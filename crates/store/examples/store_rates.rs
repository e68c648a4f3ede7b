//! Rates of the SQLite store on this machine's disk, or of a PostgreSQL database.
//!
//! `cargo run --release -p guildhall-store --example store_rates [directory | postgres://…]`: the directory is for a
//! scratch database and is removed afterwards; it must not exist. A PostgreSQL database must be empty, and is full
//! afterwards. Numbers depend on the disk's honesty about syncing.
//!
//! `… --example store_rates compare directory postgres://…` only commits messages, by 1, 16 and 256 writers, into each
//! store in turn: SQLite, PostgreSQL of a node alone, and PostgreSQL of a cluster, where each writer has a guild and
//! states its epoch.

use guildhall_guild::Write;
use guildhall_model::{Channel, ChannelType, Guild, GuildId, Id, Member, Message, User};
use guildhall_stdx::Timestamp;
use guildhall_store::{
    Page, PostgresOptions, PostgresStore, Sharing, SqliteOptions, SqliteStore, Store, StoreError, Synchronous,
    WriterCounts, backup_database,
};
use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

const GUILD: GuildId = Id::new(1);
const CHANNELS: u64 = 20;
const MEASURED: Duration = Duration::from_secs(3);
/// Messages of the guild that is deleted.
const PURGED: u64 = 1_000_000;
const WINDOW: u64 = 500;

fn message(n: u64, author: &Arc<User>) -> Write {
    Write::PutMessage(Arc::new(Message {
        content: "About as long as what people write in a chat, which is not much. ".repeat(2),
        ..Message::new(Id::new(n), Id::new(10 + n % CHANNELS), GUILD, Arc::clone(author))
    }))
}

fn member(n: u64) -> Write {
    let user = Arc::new(User::new(Id::new(n), &format!("user-{n}")));
    Write::PutMember(GUILD, Arc::new(Member::new(user, Timestamp(1_700_000_000_000))))
}

/// A store with the counters of its writers.
#[derive(Clone)]
struct Measured {
    store: Arc<dyn Store>,
    counts: Arc<dyn Fn() -> WriterCounts + Send + Sync>,
}

/// Each committer commits one message at a time, and waits for it.
async fn rate_of_commits(of: &Measured, committers: u64, next_id: &Arc<AtomicU64>) -> Result<(), StoreError> {
    let Measured { store, counts } = of;
    let author = Arc::new(User::new(Id::new(1), "author"));
    let (before, started) = (counts(), Instant::now());
    let tasks = (0..committers).map(|_| {
        let (store, next_id, author) = (Arc::clone(store), Arc::clone(next_id), Arc::clone(&author));
        tokio::spawn(async move {
            while started.elapsed() < MEASURED {
                store.commit(vec![message(next_id.fetch_add(1, Ordering::Relaxed), &author)]).await?;
            }
            Ok::<(), StoreError>(())
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("a committer panicked")?;
    }
    let (after, seconds) = (counts(), started.elapsed().as_secs_f64());
    let (batches, transactions) = (after.batches - before.batches, after.transactions - before.transactions);
    println!(
        "  {committers:>3} committers  {:>8.0} commits/s  {:>7.0} transactions/s  {:>6.0} µs per commit",
        batches as f64 / seconds,
        transactions as f64 / seconds,
        seconds * 1e6 * committers as f64 / batches as f64,
    );
    Ok(())
}

async fn timed<T>(what: &str, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let started = Instant::now();
    let result = work.await?;
    println!("  {what:<50} {:>9.2} ms", started.elapsed().as_secs_f64() * 1e3);
    Ok(result)
}

/// How long one message takes, quiet and while a guild with over `PURGED` messages is purged.
async fn purge(of: &Measured) -> Result<(), StoreError> {
    let Measured { store, counts } = of;
    let author = Arc::new(User::new(Id::new(1), "author"));
    let (guild_id, channel_id) = (GuildId::new(2), Id::new(9));
    let channel = Channel::new(channel_id, guild_id, ChannelType::Text, "c");
    let guild = Guild::new(guild_id, "g", Id::new(1));
    store.commit(vec![Write::PutGuild(Arc::new(guild)), Write::PutChannel(Arc::new(channel))]).await?;
    for batch in 0..PURGED / 4_000 {
        let ids = (0..4_000).map(|n| 9_000_000_000 + (batch * 4_000 + n) * CHANNELS);
        store.commit(ids.map(|n| message(n, &author)).collect()).await?;
    }
    // Takes `WINDOW` messages at a time, and returns the number of commits of others in between.
    let mut next = 1;
    let mut window = async |took: &mut Vec<Duration>| -> Result<u64, StoreError> {
        let before = counts().batches;
        for _ in 0..WINDOW {
            let message = Message::new(Id::new(next), channel_id, guild_id, author.clone());
            next += 1;
            let began = Instant::now();
            store.commit(vec![Write::PutMessage(Arc::new(message))]).await?;
            took.push(began.elapsed());
        }
        Ok(counts().batches - before - WINDOW)
    };
    let tell = |what: &str, mut took: Vec<Duration>| {
        took.sort_unstable();
        let ms = |per_mille: usize| took[(took.len() - 1) * per_mille / 1_000].as_secs_f64() * 1e3;
        let (half, most, longest) = (ms(500), ms(990), ms(1_000));
        println!("  {what:<50} p50 {half:.2} ms, p99 {most:.2} ms, longest {longest:.2} ms");
    };
    let mut quiet = Vec::new();
    for _ in 0..4 {
        window(&mut quiet).await?;
    }
    tell("one message at a time, quiet", quiet);
    timed("DeleteGuild", store.commit(vec![Write::DeleteGuild(GUILD)])).await?;
    let (began, mut during) = (Instant::now(), Vec::new());
    while window(&mut during).await? > 0 {}
    tell("the same while the guild is purged", during);
    println!("  purged in {:.1} s", began.elapsed().as_secs_f64());
    Ok(())
}

/// The part that all databases have in common.
async fn rates(of: &Measured) -> Result<(), StoreError> {
    let store = &of.store;
    let mut writes = vec![Write::PutGuild(Arc::new(Guild::new(GUILD, "g", Id::new(1))))];
    let channel = |n| Write::PutChannel(Arc::new(Channel::new(Id::new(10 + n), GUILD, ChannelType::Text, "c")));
    writes.extend((0..CHANNELS).map(channel));
    store.commit(writes).await?;

    let next_id = Arc::new(AtomicU64::new(1_000_000));
    for committers in [1, 64, 512] {
        rate_of_commits(of, committers, &next_id).await?;
    }
    let author = Arc::new(User::new(Id::new(1), "author"));
    timed("200,000 messages in one channel, batches of 4,000", async {
        for batch in 0..50 {
            let ids = (0..4000).map(|n| 2_000_000_000 + (batch * 4000 + n) * CHANNELS);
            store.commit(ids.map(|n| message(n, &author)).collect()).await?;
        }
        Ok(())
    })
    .await?;
    timed("100,000 members in one batch", store.commit((100..100_100).map(member).collect())).await?;
    timed("load_guild with 100,000 members", store.load_guild(GUILD)).await?;
    timed("the same, while the first is in memory", store.load_guild(GUILD)).await?;
    timed("1,000 pages of 50 messages, one after the other", async {
        for n in 0..1000 {
            store.messages(Id::new(10), Page::Before(Id::new(2_000_000_000 + n * 4000)), 50).await?;
        }
        Ok(())
    })
    .await?;
    timed("largest_id", store.largest_id()).await?;
    Ok(())
}

async fn measure_postgres(url: &str) -> Result<(), StoreError> {
    let store = Arc::new(PostgresStore::open(PostgresOptions::new(url)?).await?);
    let counting = store.clone();
    let of = Measured { store: store.clone(), counts: Arc::new(move || counting.writer_counts()) };
    rates(&of).await?;
    purge(&of).await?;
    store.close().await;
    Ok(())
}

async fn measure(dir: &PathBuf, synchronous: Synchronous) -> Result<(), StoreError> {
    println!("synchronous: {synchronous:?}");
    let options = SqliteOptions { synchronous, ..SqliteOptions::default() };
    let store = Arc::new(SqliteStore::open(dir, options).await?);
    let counting = store.clone();
    let of = Measured { store: store.clone(), counts: Arc::new(move || counting.writer_counts()) };
    rates(&of).await?;
    let file = |name: &str| dir.join(name);
    timed("backup of the open store", backup_database(dir, &file("copy.db"))).await?;
    println!("  its copy has {} MB", std::fs::metadata(file("copy.db")).map_or(0, |file| file.len() >> 20));
    purge(&of).await?;
    timed("check of all pages", async {
        store.close().await;
        let options = SqliteOptions { synchronous, check_wait_ms: Some(u32::MAX), ..SqliteOptions::default() };
        SqliteStore::open(dir, options).await?.close().await;
        Ok(())
    })
    .await?;
    println!("  database: {} MB", std::fs::metadata(file("guildhall.db")).map_or(0, |file| file.len() >> 20));
    timed("close", async {
        store.close().await;
        Ok(())
    })
    .await
}

/// Writers of the comparison, and guilds.
const WRITERS: [u64; 3] = [1, 16, 256];
/// Runs per number, which alternate between the stores; the table has medians.
const ROUNDS: usize = 3;

/// Commits per second of writers that each commit one message at a time into a guild of their own.
async fn commits_per_second(store: &Arc<dyn Store>, writers: u64, next_id: &Arc<AtomicU64>) -> Result<f64, StoreError> {
    let author = Arc::new(User::new(Id::new(1), "author"));
    let mut owners = Vec::new();
    for n in 0..writers {
        let (guild_id, channel_id) = (GuildId::new(1_000 + 2 * n), Id::new(1_001 + 2 * n));
        let epoch = store.claim_guild(guild_id).await?;
        let channel = Channel::new(channel_id, guild_id, ChannelType::Text, "c");
        let guild = Guild::new(guild_id, "g", Id::new(1));
        let writes = vec![Write::PutGuild(Arc::new(guild)), Write::PutChannel(Arc::new(channel))];
        store.commit_fenced((guild_id, epoch), writes).await?;
        owners.push((guild_id, channel_id, epoch));
    }
    let started = Instant::now();
    let tasks = owners.into_iter().map(|(guild_id, channel_id, epoch)| {
        let (store, next_id, author) = (Arc::clone(store), Arc::clone(next_id), Arc::clone(&author));
        tokio::spawn(async move {
            let mut commits = 0_u64;
            while started.elapsed() < MEASURED {
                let message = Message {
                    content: "About as long as what people write in a chat, which is not much. ".repeat(2),
                    ..Message::new(
                        Id::new(next_id.fetch_add(1, Ordering::Relaxed)),
                        channel_id,
                        guild_id,
                        author.clone(),
                    )
                };
                store.commit_fenced((guild_id, epoch), vec![Write::PutMessage(Arc::new(message))]).await?;
                commits += 1;
            }
            Ok::<u64, StoreError>(commits)
        })
    });
    let mut commits = 0;
    for task in tasks.collect::<Vec<_>>() {
        commits += task.await.expect("a writer panicked")?;
    }
    Ok(commits as f64 / started.elapsed().as_secs_f64())
}

async fn compare(dir: &PathBuf, url: &str) -> Result<(), StoreError> {
    let next_id = Arc::new(AtomicU64::new(1_000_000));
    let cluster = || {
        let mut options = PostgresOptions::new(url)?;
        options.sharing = Sharing::Cluster { name: "rates".to_owned() };
        Ok::<_, StoreError>(options)
    };
    let names = ["SQLite", "PostgreSQL", "PostgreSQL, cluster"];
    let mut rates = vec![[const { Vec::new() }; WRITERS.len()]; names.len()];
    for _ in 0..ROUNDS {
        for (store, rates) in rates.iter_mut().enumerate() {
            let opened: Arc<dyn Store> = match store {
                0 => Arc::new(SqliteStore::open(dir, SqliteOptions::default()).await?),
                1 => Arc::new(PostgresStore::open(PostgresOptions::new(url)?).await?),
                _ => Arc::new(PostgresStore::open(cluster()?).await?),
            };
            for (writers, rates) in WRITERS.into_iter().zip(rates) {
                rates.push(commits_per_second(&opened, writers, &next_id).await?);
            }
            opened.close().await;
        }
    }
    println!("| commits per second | {} |", WRITERS.map(|writers| format!("{writers} writers")).join(" | "));
    println!("|---|{}", "---|".repeat(WRITERS.len()));
    for (name, rates) in names.into_iter().zip(&mut rates) {
        let median = |rates: &mut Vec<f64>| {
            rates.sort_unstable_by(f64::total_cmp);
            format!("{:.0} ({:.0}–{:.0})", rates[ROUNDS / 2], rates[0], rates[ROUNDS - 1])
        };
        println!("| {name} | {} |", rates.each_mut().map(median).join(" | "));
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [word, dir, url] = &arguments[..]
        && word == "compare"
    {
        let dir = PathBuf::from(dir);
        std::fs::create_dir(&dir)?;
        let result = compare(&dir, url).await;
        std::fs::remove_dir_all(&dir)?;
        return Ok(result?);
    }
    if let Some(url) = std::env::args().nth(1).filter(|argument| argument.starts_with("postgres")) {
        return Ok(measure_postgres(&url).await?);
    }
    let dir = std::env::args().nth(1).map_or_else(|| std::env::temp_dir().join("guildhall-store-rates"), PathBuf::from);
    for synchronous in [Synchronous::Full, Synchronous::Normal] {
        // Refuses what exists: it is going to be removed.
        std::fs::create_dir(&dir)?;
        let result = measure(&dir, synchronous).await;
        std::fs::remove_dir_all(&dir)?;
        result?;
    }
    Ok(())
}
