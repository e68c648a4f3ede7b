//! Seeding: the plan becomes durable, once per data directory.
//!
//! Owns        two settings of the store: the recipe, and the mark that everything was written.
//! Invariants  S1 seeding may be killed at any moment: the next start ends up with the same community. S2 what was
//!             seeded is never written again, so changes people made stay. (tests `s*_*`)
//! Limits      `BATCH_WRITES` changes per commit.

use super::plan::{Plan, Recipe};
use guildhall_store::{Store, StoreError};

const RECIPE: &str = "demo.recipe";
const SEEDED: &str = "demo.seeded";
/// A few hundred kilobytes each.
const BATCH_WRITES: usize = 1000;

/// Why there is no community.
#[derive(Debug, thiserror::Error)]
pub(super) enum SeedError {
    #[error("the store failed")]
    Store(#[from] StoreError),
    #[error("this data directory was seeded by another version of the demo: choose another --data, or delete it")]
    OtherVersion,
}

/// The seeded community.
#[derive(Debug)]
pub(super) struct Seeded {
    /// As it was planned, then or now.
    pub plan: Plan,
    /// Inputs of its plan, which may differ from the requested ones.
    pub recipe: Recipe,
}

/// Seeds the community of `wanted`, or finds the one that was seeded before.
///
/// # Errors
/// `SeedError`.
pub(super) async fn seed(store: &dyn Store, wanted: Recipe) -> Result<Seeded, SeedError> {
    let text = serde_json::to_vec(&wanted).map_err(|_| SeedError::OtherVersion)?;
    let stored = store.setting_or_insert(RECIPE, &text).await?;
    let recipe: Recipe = serde_json::from_slice(&stored).map_err(|_| SeedError::OtherVersion)?;
    let plan = Plan::new(recipe);
    let mark = fingerprint(&plan);
    match store.setting(SEEDED).await? {
        Some(seeded) if seeded == mark => {}
        Some(_) => return Err(SeedError::OtherVersion),
        None => {
            let mut batch = Vec::with_capacity(BATCH_WRITES);
            for write in plan.writes() {
                batch.push(write);
                if batch.len() == BATCH_WRITES {
                    store.commit(std::mem::take(&mut batch)).await?;
                }
            }
            store.commit(batch).await?;
            store.setting_or_insert(SEEDED, &mark).await?;
        }
    }
    Ok(Seeded { plan, recipe })
}

/// Distinguishes plans whose ids differ. Another version of the demo may plan other people from the same recipe.
fn fingerprint(plan: &Plan) -> Vec<u8> {
    let channels = plan.channels.iter().map(|channel| channel.id.get());
    let accounts = plan.people.iter().chain([&plan.bot, &plan.user]).map(|member| member.user.id.get());
    // FNV-1a over whole ids: the standard library's hasher may change with the compiler.
    let fnv = |hash: u64, id: u64| (hash ^ id).wrapping_mul(0x0000_0100_0000_01b3);
    let second = plan.second.people.iter().map(|member| member.user.id.get()).chain([plan.second.guild.id.get()]);
    let ids = [plan.guild.id.get()].into_iter().chain(channels).chain(accounts).chain(second);
    let hash = ids.fold(0xcbf2_9ce4_8422_2325, fnv);
    hash.to_be_bytes().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_guild::Write;
    use guildhall_model::{Guild, GuildId};
    use guildhall_stdx::Timestamp;
    use guildhall_store::{MemoryStore, Page};
    use std::sync::Arc;

    fn recipe(seed: u64) -> Recipe {
        Recipe { seed, members: 60, at: Timestamp(1_760_000_000_000) }
    }

    /// Everything of both guilds, in one comparable text.
    async fn content(store: &MemoryStore) -> String {
        let ids = store.guild_ids(GuildId::new(0), 10).await.unwrap();
        assert_eq!(ids.len(), 2);
        let mut text = format!("{ids:?}");
        for id in ids {
            let mut record = store.load_guild(id).await.unwrap().unwrap();
            record.roles.sort_by_key(|role| role.id);
            record.channels.sort_by_key(|channel| channel.id);
            text += &format!("{record:?}");
            for channel in &record.channels {
                let messages = store.messages(channel.id, Page::Newest, 100).await.unwrap();
                text += &format!("{messages:?}");
            }
        }
        text
    }

    #[tokio::test]
    async fn deterministic() {
        let (a, b, c) = (MemoryStore::new(), MemoryStore::new(), MemoryStore::new());
        for (store, number) in [(&a, 7), (&b, 7), (&c, 8)] {
            seed(store, recipe(number)).await.unwrap();
        }
        assert_eq!(content(&a).await, content(&b).await);
        assert_ne!(content(&a).await, content(&c).await);
    }

    #[tokio::test]
    async fn s1_seeding_that_was_cut_short_is_finished() {
        let (whole, cut) = (MemoryStore::new(), MemoryStore::new());
        seed(&whole, recipe(7)).await.unwrap();
        // As after a kill: the recipe and the first batch are there, the mark is not.
        cut.setting_or_insert(RECIPE, &serde_json::to_vec(&recipe(7)).unwrap()).await.unwrap();
        cut.commit(Plan::new(recipe(7)).writes().take(40).collect()).await.unwrap();
        let again = seed(&cut, Recipe { at: Timestamp(1_770_000_000_000), ..recipe(9) }).await.unwrap();
        assert_eq!(again.recipe, recipe(7));
        assert_eq!(content(&whole).await, content(&cut).await);
    }

    #[tokio::test]
    async fn s2_changes_stay() {
        let store = MemoryStore::new();
        let plan = seed(&store, recipe(7)).await.unwrap().plan;
        let renamed = Guild { name: "Renamed".to_owned(), ..plan.guild.clone() };
        store.commit(vec![Write::PutGuild(Arc::new(renamed))]).await.unwrap();
        seed(&store, recipe(7)).await.unwrap();
        assert_eq!(store.load_guild(plan.guild.id).await.unwrap().unwrap().guild.name, "Renamed");
    }

    #[tokio::test]
    async fn another_version_s_folder_is_refused() {
        let store = MemoryStore::new();
        store.setting_or_insert(SEEDED, b"whatever").await.unwrap();
        assert!(matches!(seed(&store, recipe(7)).await, Err(SeedError::OtherVersion)));
    }
}
