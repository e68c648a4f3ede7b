//! Random: any sequence of writes, faulty ones included, has the same effect as in the memory store.

use crate::support::*;
use guildhall_guild::Write;
use guildhall_model::{Member, ReactionEmoji, User};
use guildhall_stdx::Rng;
use guildhall_store::{MemoryStore, Page, Store};
use std::sync::Arc;

/// Few ids, so that writes meet.
fn random_write(rng: &mut Rng) -> Write {
    let guild_id = 1 + rng.below(3);
    let channel_id = 10 + rng.below(5);
    let message_id = 100 + rng.below(12);
    let user_id = 1 + rng.below(6);
    let emoji: ReactionEmoji = if rng.chance(0.5) { unicode("👍") } else { custom(rng.below(2), "party") };
    let name = format!("name {}", rng.below(3));
    match rng.below(40) {
        0 => Write::DeleteGuild(id(guild_id)),
        1..3 => Write::PutGuild(guild(guild_id)),
        3 => Write::PutUser(Arc::new(User::new(id(user_id), &name))),
        4 => Write::PutRole(id(guild_id), role(rng.below(4))),
        5 => Write::DeleteRole(id(guild_id), id(rng.below(4))),
        6 => Write::DeleteChannel(id(guild_id), id(channel_id)),
        7..11 => Write::PutChannel(channel(guild_id, channel_id)),
        11..14 => {
            let mut member = Member::clone(&member(user_id));
            member.nick = Some(name.as_str().into());
            member.user = Arc::new(User::new(id(user_id), &name));
            Write::PutMember(id(guild_id), Arc::new(member))
        }
        14 => Write::DeleteMember(id(guild_id), id(user_id)),
        15 => Write::DeleteMessage(id(channel_id), id(message_id)),
        16..26 => put_message(guild_id, channel_id, message_id),
        26..36 => Write::AddReaction(id(channel_id), id(message_id), emoji, id(user_id)),
        36..38 => Write::RemoveReaction(id(channel_id), id(message_id), emoji, id(user_id)),
        38 => Write::ClearReactions(id(channel_id), id(message_id), Some(emoji)),
        _ => Write::ClearReactions(id(channel_id), id(message_id), None),
    }
}

pub async fn same_as_memory(store: &dyn Store) {
    let model = MemoryStore::new();
    let mut rng = Rng::new(0x5eed);
    let (mut applied, mut refused, mut most) = (0, 0, 0);
    for step in 0..300 {
        let writes: Vec<Write> = (0..1 + rng.below(4)).map(|_| random_write(&mut rng)).collect();
        let (expected, got) =
            (dangling(model.commit(writes.clone()).await), dangling(store.commit(writes.clone()).await));
        assert_eq!(got, expected, "step {step}: {writes:?}");
        *if got.is_none() { &mut applied } else { &mut refused } += 1;
        for n in 1..=3 {
            assert_eq!(load(store, id(n)).await, load(&model, id(n)).await, "step {step}: {writes:?}");
        }
        for n in 10..15 {
            let expected = model.messages(id(n), Page::Newest, 50).await.unwrap();
            assert_eq!(store.messages(id(n), Page::Newest, 50).await.unwrap(), expected, "step {step}: {writes:?}");
            assert_eq!(store.guild_of_channel(id(n)).await.unwrap(), model.guild_of_channel(id(n)).await.unwrap());
        }
        for n in 1..=6 {
            assert_eq!(store.user(id(n)).await.unwrap(), model.user(id(n)).await.unwrap());
            assert_eq!(store.guilds_of_user(id(n), 9).await.unwrap(), model.guilds_of_user(id(n), 9).await.unwrap());
        }
        let (largest, expected) = (store.largest_id().await.unwrap(), model.largest_id().await.unwrap());
        // A deleted message counts until it is purged.
        most = most.max(expected);
        assert!((expected..=most).contains(&largest), "{largest}, not {expected} to {most}");
    }
    assert!(applied > 50 && refused > 50, "{applied} applied, {refused} refused");
}
