//! Cost of an account's read states in READY: reads of the store, and bytes of the body.
//!
//! `cargo run --release -p guildhall-store --example read_states [states]`: 10,000 states by default, in 100 guilds
//! with 100 channels each, of which every tenth has a message to everyone and one to the account. The database is in a
//! temporary folder, without waits for the disk. Prints the median of `RUNS`.

use guildhall_guild::Write;
use guildhall_model::{
    Channel, ChannelId, ChannelType, Guild, GuildId, Id, Member, Message, MessageId, User, UserId,
    from_gateway::ReadStateBody, smallest_id_at,
};
use guildhall_stdx::Timestamp;
use guildhall_store::{
    READ_CHANGES_MAX, ReadChange, ReadStateChange, ReadUpTo, SqliteOptions, SqliteStore, Store as _, StoreError,
    Synchronous,
};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const RUNS: usize = 21;
const CHANNELS_PER_GUILD: u64 = 100;
const ADA: UserId = Id::new(7);
const JOINED: Timestamp = Timestamp(1_700_000_000_000);

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The channels, each with the message up to which it was read.
async fn fill(store: &SqliteStore, states: u64) -> Result<Vec<ChannelId>, StoreError> {
    let author = Arc::new(User::new(Id::new(8), "author"));
    let ada = Arc::new(User::new(ADA, "ada"));
    let base = smallest_id_at::<()>(Timestamp(JOINED.0 + 1_000)).get();
    let mut channels = Vec::new();
    for guild in 0..states.div_ceil(CHANNELS_PER_GUILD) {
        let guild_id = GuildId::new(base + guild);
        let mut writes = vec![
            Write::PutGuild(Arc::new(Guild::new(guild_id, "guild", author.id))),
            Write::PutMember(guild_id, Arc::new(Member::new(ada.clone(), JOINED))),
        ];
        for n in 0..CHANNELS_PER_GUILD {
            let channel_id = ChannelId::new(base + 1_000_000 + guild * CHANNELS_PER_GUILD + n);
            writes.push(Write::PutChannel(Arc::new(Channel::new(channel_id, guild_id, ChannelType::Text, "channel"))));
            channels.push(channel_id);
            if n % 10 == 0 {
                let message = |id| Message::new(MessageId::new(id), channel_id, guild_id, author.clone());
                let id = base + 10_000_000 + channels.len() as u64 * 4;
                let everyone = Message { mention_everyone: true, ..message(id) };
                let named = Message { mentions: vec![ada.clone()], ..message(id + 1) };
                writes.extend([everyone, named].map(|message| Write::PutMessage(Arc::new(message))));
            }
        }
        store.commit(writes).await?;
    }
    let read =
        ReadChange { message: Some(ReadUpTo::AtLeast(MessageId::new(base + 9_000_000))), ..ReadChange::default() };
    let change = |channel_id: &ChannelId| ReadStateChange { user_id: ADA, channel_id: *channel_id, change: read };
    let changes: Vec<ReadStateChange> = channels.iter().take(states as usize).map(change).collect();
    let started = Instant::now();
    for changes in changes.chunks(READ_CHANGES_MAX) {
        store.change_read_states(changes).await?;
    }
    println!("write {} states           {:?}", changes.len(), started.elapsed());
    Ok(channels)
}

#[tokio::main]
async fn main() -> Result<(), StoreError> {
    let states = std::env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(10_000);
    let dir = std::env::temp_dir().join(format!("guildhall-read-states-{}", std::process::id()));
    let options = SqliteOptions { synchronous: Synchronous::Normal, ..SqliteOptions::default() };
    let store = SqliteStore::open(&dir, options).await?;
    fill(&store, states).await?;
    let (mut reads, mut counts, mut renders) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bytes, mut mentions) = (0, 0);
    for _ in 0..RUNS {
        let started = Instant::now();
        let read = store.read_states(ADA, u32::MAX).await?;
        reads.push(started.elapsed());
        let started = Instant::now();
        mentions = store.unread_mentions(ADA).await?.len();
        counts.push(started.elapsed());
        let started = Instant::now();
        let bodies: Vec<ReadStateBody> = read.iter().map(|state| ReadStateBody::new(state, 2)).collect();
        bytes = serde_json::to_vec(&bodies).map_or(0, |json| json.len());
        renders.push(started.elapsed());
    }
    println!("read the states             {:?}", median(reads));
    println!("read {mentions} mentions         {:?}", median(counts));
    println!("render                      {:?}", median(renders));
    println!("JSON                        {bytes} bytes");
    store.close().await;
    let _ = std::fs::remove_dir_all(&dir);
    Ok(())
}
