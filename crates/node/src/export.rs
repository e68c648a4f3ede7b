//! Export: the guilds of a node that ends, for the next process on its database.
//!
//! Owns        the form of a guild on its way: chunks of its state, then the last part.
//! Doors       of the node that ends: `Node::export_to`, before `shut_down`. Of the next one: `GuildImports::add` for
//!             each part; `Node::import` before any input; `Node::end_restore` when all sessions have attached again.
//! Invariants  O1 a worker exports a guild when everything accepted is durable and published, and then drops it: one
//!             guild per worker is in both processes at a time. O2 a guild whose form is incomplete or damaged is not
//!             imported; the first input loads it from the database.
//! Limits      a part has `CHUNK_ITEMS` members or resources of `guildhall_guild`; the last one has what the guild
//!             bounds. The sink refuses a part that is too large for its channel. `BUILDS_MAX` guilds are built at a
//!             time, and `INSTALLS_MAX` claimed.
//! Not here    the channel between the processes (`guildhall::takeover`), sessions.     Spec  docs/adr/0047.

use crate::{
    Clock, Node,
    guild_host::{HandoffStep, TakenOver},
    ids::RESTING_ORIGIN,
};
use guildhall_cluster::wire;
use guildhall_guild::{Guild, GuildLimits, HandoffChunk, HandoffParts, HandoffTail};
use guildhall_guild_protocol::RelayStreams;
use guildhall_model::GuildId;
use guildhall_stdx::Now;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use tokio::{sync::Semaphore, task::JoinSet};

/// Guilds that are built at a time.
const BUILDS_MAX: usize = 4;
/// Guilds that are built or claimed at a time.
const INSTALLS_MAX: usize = 64;

/// Takes the guilds of a node that ends.
pub trait GuildSink: Send + Sync {
    /// The next part of a guild. May block. False: the rest of this guild is not wanted.
    fn take_part(&self, guild_id: GuildId, part: Vec<u8>) -> bool;
}

#[derive(Serialize, Deserialize)]
enum Part {
    Chunk(HandoffChunk),
    /// With the number of chunks before it.
    Last(u64, Box<HandoffTail>),
}

/// The sink did not take a part.
struct NotTaken;

/// Passes a guild to the sink. Takes time with the members.
pub(crate) fn export(now: Now, guild: &Guild, to: &dyn GuildSink) {
    let (guild_id, (base, tail)) = (guild.id(), guild.export(now));
    let take = |part: Part| if to.take_part(guild_id, wire::encode(&part)) { Ok(()) } else { Err(NotTaken) };
    let mut chunks_count = 0;
    let taken = base.for_each_chunk(|chunk| {
        chunks_count += 1;
        take(Part::Chunk(chunk))
    });
    if taken.and_then(|()| take(Part::Last(chunks_count, Box::new(tail)))).is_err() {
        tracing::warn!(%guild_id, "a guild is not passed on: the next process loads it from the database");
    }
}

/// Guilds that the previous process has passed on so far.
#[derive(Default)]
pub struct GuildImports(BTreeMap<GuildId, Import>);

#[derive(Default)]
struct Import {
    parts: HandoffParts,
    chunks_count: u64,
    tail: Option<Box<HandoffTail>>,
    is_damaged: bool,
}

impl GuildImports {
    /// Adds the next part of a guild.
    pub fn add(&mut self, guild_id: GuildId, part: &[u8]) {
        let import = self.0.entry(guild_id).or_default();
        match wire::decode::<Part>(wire::VERSION, part) {
            Ok(Part::Chunk(chunk)) if import.tail.is_none() => {
                import.parts.add(chunk);
                import.chunks_count += 1;
            }
            Ok(Part::Last(count, tail)) if import.tail.is_none() && count == import.chunks_count => {
                import.tail = Some(tail);
            }
            Ok(Part::Chunk(_) | Part::Last(..)) => import.is_damaged = true,
            Err(error) => {
                tracing::warn!(%guild_id, %error, "a guild of the process before cannot be read");
                import.is_damaged = true;
            }
        }
        if import.is_damaged {
            import.parts = HandoffParts::default();
        }
    }

    /// Number of guilds of which something has arrived.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Node {
    /// `shut_down` passes each guild in memory to `sink`, when it has ended. Only the first call counts.
    pub fn export_to(&self, sink: Arc<dyn GuildSink>) {
        // A second process cannot take over at the same time.
        let _ = self.inner.export.set(sink);
    }

    /// Begins with guilds of the process before. Sessions that attach as restored are found again, until
    /// `end_restore`. Returns the guilds that are in memory now. Call it before any input.
    pub async fn import(&self, imports: GuildImports) -> BTreeSet<GuildId> {
        let mut imported = BTreeSet::new();
        if imports.is_empty() {
            return imported;
        }
        // No guild makes ids before the floor is known.
        if let Err(error) = self.inner.ids.floor().await {
            tracing::warn!(%error, "guilds of the process before are loaded from the database");
            return imported;
        }
        let (mut installs, builds) = (JoinSet::new(), Arc::new(Semaphore::new(BUILDS_MAX)));
        for (guild_id, import) in imports.0 {
            if installs.len() >= INSTALLS_MAX
                && let Some(installed) = installs.join_next().await
            {
                imported.extend(installed.ok().flatten());
            }
            let (node, builds) = (self.clone(), builds.clone());
            installs.spawn(async move { node.install(guild_id, import, &builds).await });
        }
        while let Some(installed) = installs.join_next().await {
            imported.extend(installed.ok().flatten());
        }
        imported
    }

    /// Builds a guild, and gives it to its worker. None: it is incomplete, or cannot be claimed.
    async fn install(&self, guild_id: GuildId, import: Import, builds: &Semaphore) -> Option<GuildId> {
        let place = builds.acquire().await.ok()?;
        let (clock, limits) = (self.inner.clock.clone(), self.inner.guild_limits.clone());
        let built = tokio::task::spawn_blocking(move || build(&*clock, limits, import)).await;
        drop(place);
        let Some(guild) = built.ok().flatten().filter(|guild| guild.id() == guild_id) else {
            tracing::warn!(%guild_id, "a guild of the process before is incomplete: it is loaded from the database");
            return None;
        };
        let claimed = self.inner.store.claim_guild(guild_id).await;
        let epoch = claimed.inspect_err(|error| tracing::warn!(%guild_id, %error, "a guild cannot be claimed")).ok()?;
        let taken = TakenOver { guild, streams: RelayStreams::default(), epoch, forget: Vec::new() };
        self.mailbox(guild_id).hand_over(guild_id, HandoffStep::TakeOver(Box::new(taken)));
        Some(guild_id)
    }

    /// All sessions of the process before have attached to these guilds, or will not.
    pub fn end_restore(&self, guilds: &BTreeSet<GuildId>) {
        for guild_id in guilds {
            self.mailbox(*guild_id).hand_over(*guild_id, HandoffStep::EndRestore);
        }
    }
}

fn build(clock: &dyn Clock, limits: GuildLimits, import: Import) -> Option<Box<Guild>> {
    let Import { parts, tail, is_damaged, .. } = import;
    let tail = tail.filter(|_| !is_damaged)?;
    parts.restored(clock.now(), limits, RESTING_ORIGIN, *tail).map(Box::new)
}
