//! Rates: how fast this machine's disk lets the SQLite store be.
//!
//! `cargo run --release -p guildhall-store --example store_rates [directory]`: the directory is for a scratch database
//! and is removed afterwards; it must not exist. Numbers depend on the disk's honesty about syncing.

use guildhall_guild::Write;
use guildhall_model::{Channel, ChannelType, Guild, GuildId, Id, Member, Message, User};
use guildhall_stdx::Timestamp;
use guildhall_store::{Page, SqliteOptions, SqliteStore, Store, StoreError, Synchronous};
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

/// Each committer commits one message at a time, and waits for it.
async fn rate_of_commits(
    store: &Arc<SqliteStore>,
    committers: u64,
    next_id: &Arc<AtomicU64>,
) -> Result<(), StoreError> {
    let author = Arc::new(User::new(Id::new(1), "author"));
    let (before, started) = (store.writer_counts(), Instant::now());
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
    let (after, seconds) = (store.writer_counts(), started.elapsed().as_secs_f64());
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

async fn measure(dir: &PathBuf, synchronous: Synchronous) -> Result<(), StoreError> {
    println!("synchronous: {synchronous:?}");
    let options = SqliteOptions { synchronous, ..SqliteOptions::default() };
    let store = Arc::new(SqliteStore::open(dir, options).await?);
    let mut writes = vec![Write::PutGuild(Arc::new(Guild::new(GUILD, "g", Id::new(1))))];
    let channel = |n| Write::PutChannel(Arc::new(Channel::new(Id::new(10 + n), GUILD, ChannelType::Text, "c")));
    writes.extend((0..CHANNELS).map(channel));
    store.commit(writes).await?;

    let next_id = Arc::new(AtomicU64::new(1_000_000));
    for committers in [1, 64, 512] {
        rate_of_commits(&store, committers, &next_id).await?;
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
    timed("DeleteChannel with over 200,000 messages", store.commit(vec![Write::DeleteChannel(GUILD, Id::new(10))]))
        .await?;
    timed("DeleteGuild with all the rest", store.commit(vec![Write::DeleteGuild(GUILD)])).await?;
    timed("close", async {
        store.close().await;
        Ok(())
    })
    .await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
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
