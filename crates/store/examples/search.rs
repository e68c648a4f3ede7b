//! Cost of searches among many messages: bytes of the index, and times of queries.
//!
//! `cargo run --release -p guildhall-store --example search [MESSAGES] [FILE] [postgres://…]`: a million messages by
//! default, in a guild with 100 channels. Each line of FILE is the text of a message, in turn; without it words are
//! drawn from 50,000 made-up ones, the n-th of them n times as rarely as the first. The database of SQLite is in a
//! temporary folder, without waits for the disk; one of PostgreSQL must be empty. Prints the median of `RUNS`.

use guildhall_guild::Write;
use guildhall_model::{
    Channel, ChannelId, ChannelType, Guild, GuildId, Id, Member, Message, MessageId, User, UserId, smallest_id_at,
};
use guildhall_stdx::{Rng, Timestamp};
use guildhall_store::{
    Has, INDEXED_AT_ONCE_MAX, MessageSearch, PostgresOptions, PostgresStore, SearchIndex, SqliteOptions, SqliteStore,
    Store, StoreError, Synchronous,
};
use sqlx::Connection as _;
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

const RUNS: usize = 11;
const CHANNELS: u64 = 100;
const AUTHORS: u64 = 1_000;
const WORDS: usize = 50_000;
const GUILD: GuildId = Id::new(1 << 40);
const FIRST_CHANNEL: u64 = 2 << 40;
const BEGAN: Timestamp = Timestamp(1_700_000_000_000);
/// Between two messages.
const EVERY_MS: i64 = 30_000;

type Error = Box<dyn std::error::Error>;

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn made_up(mut n: usize) -> String {
    const SYLLABLES: [&str; 16] =
        ["ka", "to", "mi", "re", "so", "lu", "ne", "bi", "da", "fo", "gu", "he", "ji", "po", "va", "we"];
    let mut word = String::new();
    loop {
        word.push_str(SYLLABLES[n % 16]);
        n /= 16;
        if n == 0 {
            return word;
        }
    }
}

/// 3 to 17 words: the n-th word with a probability of about 1 / n.
fn text(rng: &mut Rng) -> String {
    let word = |rng: &mut Rng| made_up((WORDS as f64).powf(rng.fraction()) as usize);
    let words: Vec<String> = (0..3 + rng.below(15)).map(|_| word(rng)).collect();
    words.join(" ")
}

async fn fill(store: &dyn Store, messages: u64, lines: &[String]) -> Result<(), StoreError> {
    let mut rng = Rng::new(53);
    let authors: Vec<Arc<User>> = (1..=AUTHORS).map(|n| Arc::new(User::new(UserId::new(n), "author"))).collect();
    let mut writes = vec![
        Write::PutGuild(Arc::new(Guild::new(GUILD, "guild", authors[0].id))),
        Write::PutMember(GUILD, Arc::new(Member::new(authors[0].clone(), BEGAN))),
    ];
    for n in 0..CHANNELS {
        let channel = Channel::new(ChannelId::new(FIRST_CHANNEL + n), GUILD, ChannelType::Text, "channel");
        writes.push(Write::PutChannel(Arc::new(channel)));
    }
    for n in 0..messages {
        let id = MessageId::new(smallest_id_at::<()>(Timestamp(BEGAN.0 + n as i64 * EVERY_MS)).get());
        let channel_id = ChannelId::new(FIRST_CHANNEL + rng.below(CHANNELS));
        let author = authors[rng.below(AUTHORS) as usize].clone();
        let content = match lines.is_empty() {
            true => text(&mut rng),
            false => lines[n as usize % lines.len()].clone(),
        };
        let pinned = n % 1_000 == 0;
        let message = Message { content, pinned, ..Message::new(id, channel_id, GUILD, author) };
        writes.push(Write::PutMessage(Arc::new(message)));
        if writes.len() >= 2_000 {
            store.commit(std::mem::take(&mut writes)).await?;
        }
    }
    store.commit(writes).await
}

async fn index(store: &dyn Store) -> Result<(), StoreError> {
    while store.index_messages(INDEXED_AT_ONCE_MAX).await? != SearchIndex::Current {}
    Ok(())
}

async fn queries(store: &dyn Store, lines: &[String]) -> Result<(), StoreError> {
    let all: Vec<ChannelId> = (0..CHANNELS).map(|n| ChannelId::new(FIRST_CHANNEL + n)).collect();
    let any = MessageSearch { guild_id: Some(GUILD), channels: all.clone(), limit: 25, ..MessageSearch::default() };
    let with = |content: &str| MessageSearch { content: content.to_owned(), ..any.clone() };
    let words = |n: usize| match lines.is_empty() {
        true => made_up(n),
        false => lines[n % lines.len()].split_whitespace().max_by_key(|word| word.len()).unwrap_or("a").to_owned(),
    };
    let (frequent, rare) = (words(20), words(40_000));
    let pair = format!("{frequent} {}", words(300));
    let searches = [
        ("one frequent word", with(&frequent)),
        ("two words", with(&pair)),
        ("one rare word", with(&rare)),
        ("three letters, so a prefix", with("mik")),
        ("a frequent word in one channel", MessageSearch { channels: all[..1].to_vec(), ..with(&frequent) }),
        ("the same, the last page", MessageSearch { offset: 9_975, ..with(&frequent) }),
        ("of one author", MessageSearch { authors: vec![UserId::new(77)], ..any.clone() }),
        ("pinned", MessageSearch { pinned: Some(true), ..any.clone() }),
        ("with a file", MessageSearch { has: vec![(Has::File, true)], ..any.clone() }),
        ("everything", any.clone()),
    ];
    for (what, search) in searches {
        let mut times = Vec::new();
        let mut total = 0;
        for _ in 0..RUNS {
            let started = Instant::now();
            total = store.search_messages(&search).await?.total;
            times.push(started.elapsed());
        }
        println!("{what:34} {:>9.2?}  {total:>6} found", median(times));
    }
    Ok(())
}

async fn sqlite(messages: u64, lines: &[String]) -> Result<(), Error> {
    let dir = std::env::temp_dir().join(format!("guildhall-search-{}", std::process::id()));
    let open = || {
        let options = SqliteOptions { synchronous: Synchronous::Normal, ..SqliteOptions::default() };
        SqliteStore::open(&dir, options)
    };
    let bytes = |dir: &Path| std::fs::metadata(dir.join("guildhall.db")).map_or(0, |file| file.len());
    let store = open().await?;
    let started = Instant::now();
    fill(&store, messages, lines).await?;
    println!("store {messages} messages: {:.1?}", started.elapsed());
    store.close().await;
    let before = bytes(&dir);
    let store = open().await?;
    let started = Instant::now();
    index(&store).await?;
    let took = started.elapsed();
    println!("index them: {took:.1?}, {:.0} per second", messages as f64 / took.as_secs_f64());
    queries(&store, lines).await?;
    store.close().await;
    let after = bytes(&dir);
    println!("bytes per message: {} without the index, {} with it", before / messages, after / messages);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

async fn postgres(url: &str, messages: u64, lines: &[String]) -> Result<(), Error> {
    let store = PostgresStore::open(PostgresOptions::new(url)?).await?;
    let started = Instant::now();
    fill(&store, messages, lines).await?;
    println!("store {messages} messages: {:.1?}", started.elapsed());
    let started = Instant::now();
    index(&store).await?;
    let took = started.elapsed();
    println!("index them: {took:.1?}, {:.0} per second", messages as f64 / took.as_secs_f64());
    let mut connection = sqlx::PgConnection::connect(url).await?;
    sqlx::query("VACUUM ANALYZE search_messages").execute(&mut connection).await?;
    queries(&store, lines).await?;
    for (what, table) in [("messages", "messages"), ("index", "search_messages")] {
        let sql = "SELECT pg_total_relation_size($1::REGCLASS)";
        let bytes: i64 = sqlx::query_scalar(sql).bind(table).fetch_one(&mut connection).await?;
        println!("bytes of the {what} per message: {}", bytes as u64 / messages);
    }
    store.close().await;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Error> {
    let (mut messages, mut lines, mut url) = (1_000_000, Vec::new(), None);
    for argument in std::env::args().skip(1) {
        if let Ok(count) = argument.parse() {
            messages = count;
        } else if argument.starts_with("postgres") {
            url = Some(argument);
        } else {
            lines = std::fs::read_to_string(&argument)?.lines().map(str::to_owned).collect();
        }
    }
    match url {
        Some(url) => postgres(&url, messages, &lines).await,
        None => sqlite(messages, &lines).await,
    }
}
