//! Messages and what people react to them.

use crate::support::*;
use guildhall_guild::{MessageRecord, NONCES_LOADED_MAX, SentNonce, Write};
use guildhall_model::{Channel, ChannelType, Id, Message, MessageReference, Nonce};
use guildhall_stdx::Timestamp;
use guildhall_store::{Page, Store};
use std::sync::Arc;

pub async fn round_trip_of_a_message(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let mut full = message(100, 101, 500);
    full.edited_timestamp = Some(Timestamp(1_700_000_000_123));
    full.tts = true;
    full.mention_everyone = true;
    full.mentions = vec![user(4), user(2)];
    full.mention_roles = vec![id(100)];
    full.embeds = vec![serde_json::json!({"title": "🎉", "color": 16_777_215, "nested": [null, true, -1, "\u{1}"]})];
    full.components = vec![serde_json::json!([])];
    full.pinned = true;
    full.kind = 19;
    full.flags = u32::MAX;
    full.message_reference =
        Some(MessageReference { message_id: id(499), channel_id: id(101), guild_id: Some(id(100)) });
    let mut sent = full.clone();
    sent.nonce = Some(Nonce::Text("n".to_owned()));
    store.commit(vec![Write::PutMessage(Arc::new(sent))]).await.unwrap();
    let stored = MessageRecord { message: Arc::new(full.clone()), reactions: Vec::new() };
    assert_eq!(store.message(id(101), id(500)).await.unwrap(), Some(stored.clone()), "all but the nonce");
    assert_eq!(store.messages(id(101), Page::Newest, 5).await.unwrap(), [stored]);
    assert_eq!(store.message(id(102), id(500)).await.unwrap(), None, "another channel");

    full.content = "edited".to_owned();
    full.embeds.clear();
    store.commit(vec![Write::PutMessage(Arc::new(full.clone()))]).await.unwrap();
    assert_eq!(*store.message(id(101), id(500)).await.unwrap().unwrap().message, full);
    store.commit(vec![Write::DeleteMessage(id(101), id(500))]).await.unwrap();
    assert_eq!(store.message(id(101), id(500)).await.unwrap(), None);
}

pub async fn nonces_of_recent_messages_are_loaded_with_the_guild(store: &dyn Store) {
    // Five minutes in ids. A nonce that is older than the newest message by more does not count.
    const WINDOW: u64 = 300_000 << 22;
    let newest = 2 * WINDOW;
    let at = |channel_id, n, nonce: Option<Nonce>| {
        let content = r#"not one: ,"nonce":"x""#.to_owned();
        let components = vec![serde_json::json!({"a": 1, "nonce": "of a component"})];
        Write::PutMessage(Arc::new(Message { nonce, content, components, ..message(100, channel_id, n) }))
    };
    let text = |text: &str| Some(Nonce::Text(text.to_owned()));
    let mut writes = guild_with_channels(100, &[101, 102, 103]);
    writes.extend(guild_with_channels(200, &[201]));
    writes.extend([
        at(101, newest - WINDOW - 1, text("old")),
        at(103, newest - WINDOW - 2, Some(Nonce::Number(1))),
        at(101, newest - WINDOW, text("\"odd\\ä")),
        at(102, newest - 3, Some(Nonce::Number(-7))),
        at(101, newest - 2, None),
        at(101, newest - 1, text("edited")),
        at(102, newest, text("newest")),
        Write::PutMessage(Arc::new(Message { nonce: text("elsewhere"), ..message(200, 201, newest + 9) })),
    ]);
    store.commit(writes).await.unwrap();
    store.commit(vec![at(101, newest - 1, None)]).await.unwrap();
    let sent = |channel_id, n, nonce: Option<Nonce>| SentNonce {
        author_id: id(1),
        channel_id: id(channel_id),
        message_id: id(n),
        nonce: nonce.unwrap(),
    };
    let expected = [
        sent(101, newest - WINDOW, text("\"odd\\ä")),
        sent(102, newest - 3, Some(Nonce::Number(-7))),
        sent(102, newest, text("newest")),
    ];
    let loaded = store.load_guild(id(100)).await.unwrap().unwrap();
    assert_eq!(loaded.nonces, expected);
    let message = store.message(id(102), id(newest)).await.unwrap().unwrap().message;
    assert_eq!(message.nonce, None, "only the guild reads it");

    // Many: the newest are loaded.
    let many = NONCES_LOADED_MAX as u64 + 10;
    let stored = (1..=many).map(|n| at(101 + n % 2, newest + n, Some(Nonce::Number(n as i64))));
    store.commit(stored.collect()).await.unwrap();
    let nonces = store.load_guild(id(100)).await.unwrap().unwrap().nonces;
    let ids: Vec<u64> = nonces.iter().map(|sent| sent.message_id.get()).collect();
    assert_eq!(ids, (newest + 11..=newest + many).collect::<Vec<_>>());
    store.commit(vec![Write::DeleteMessage(nonces[0].channel_id, nonces[0].message_id)]).await.unwrap();
    let nonces = store.load_guild(id(100)).await.unwrap().unwrap().nonces;
    assert_eq!(nonces[0].message_id, id(newest + 10), "one that is deleted makes room for an older one");
}

pub async fn large_and_odd_content(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let contents = [
        "𝕏".repeat(2000),
        "👩‍👩‍👧‍👦".repeat(285),
        "\u{0}\u{1}\u{7f}\u{2028}\u{feff}".repeat(400),
        "'; DROP TABLE messages; --".to_owned(),
        "\\\"\\u0000".to_owned(),
        "\u{fffd}\u{10ffff}".to_owned(),
        String::new(),
    ];
    let sent = contents.iter().zip(501..).map(|(content, n)| {
        let mut message = message(100, 101, n);
        message.content.clone_from(content);
        // About what a message may weigh at most.
        message.embeds = vec![serde_json::json!({"description": "𝕏".repeat(6000)})];
        Arc::new(message)
    });
    let sent: Vec<_> = sent.collect();
    store.commit(sent.iter().cloned().map(Write::PutMessage).collect()).await.unwrap();
    let stored = store.messages(id(101), Page::Newest, 100).await.unwrap();
    let stored: Vec<_> = stored.into_iter().rev().map(|record| record.message).collect();
    assert!(stored == sent);
}

pub async fn newest_message_of_a_channel(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101, 102])).await.unwrap();
    let last = async || {
        let channels = load(store, id(100)).await.unwrap().channels;
        channels.iter().map(|channel| channel.last_message_id.map_or(0, |id| id.get())).collect::<Vec<_>>()
    };
    assert_eq!(last().await, [0, 0]);
    store.commit(vec![put_message(100, 101, 500), put_message(100, 101, 400)]).await.unwrap();
    assert_eq!(last().await, [500, 0]);
    // Fields of the channel object do not count, only stored messages.
    let mut channel = guildhall_model::Channel::clone(&channel(100, 102));
    channel.last_message_id = Some(id(9999));
    store.commit(vec![Write::PutChannel(Arc::new(channel)), put_message(100, 102, 600)]).await.unwrap();
    assert_eq!(last().await, [500, 600]);
    store.commit(vec![Write::DeleteMessage(id(101), id(500))]).await.unwrap();
    assert_eq!(last().await, [400, 600]);
    assert_eq!(store.largest_id().await.unwrap(), 600);
}

pub async fn reactions_keep_their_order(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let (thumb, fire, party) = (unicode("👍"), unicode("🔥"), custom(7, "party"));
    let add = |emoji: &_, user| Write::AddReaction(id(101), id(500), Clone::clone(emoji), id(user));
    let remove = |emoji: &_, user| Write::RemoveReaction(id(101), id(500), Clone::clone(emoji), id(user));
    store.commit(vec![put_message(100, 101, 500), add(&thumb, 9), add(&fire, 2), add(&thumb, 3)]).await.unwrap();
    store.commit(vec![add(&party, 5), add(&thumb, 1)]).await.unwrap();
    let all = [(thumb.clone(), vec![9, 3, 1]), (fire.clone(), vec![2]), (party.clone(), vec![5])];
    assert_eq!(reactions(store, 101, 500).await, all);

    // An emoji keeps its place while it has a reaction, and loses it with the last.
    store.commit(vec![remove(&thumb, 9), remove(&fire, 2)]).await.unwrap();
    assert_eq!(reactions(store, 101, 500).await, [(thumb.clone(), vec![3, 1]), (party.clone(), vec![5])]);
    store.commit(vec![add(&fire, 4), add(&thumb, 9)]).await.unwrap();
    let all = [(thumb.clone(), vec![3, 1, 9]), (party.clone(), vec![5]), (fire.clone(), vec![4])];
    assert_eq!(reactions(store, 101, 500).await, all);

    store.commit(vec![Write::ClearReactions(id(101), id(500), Some(thumb))]).await.unwrap();
    assert_eq!(reactions(store, 101, 500).await, all[1..]);
    store.commit(vec![Write::ClearReactions(id(101), id(500), None)]).await.unwrap();
    assert_eq!(reactions(store, 101, 500).await, []);
}

pub async fn reactions_are_idempotent(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let add = |user| Write::AddReaction(id(101), id(500), unicode("👍"), id(user));
    let remove = |user| Write::RemoveReaction(id(101), id(500), unicode("👍"), id(user));
    store.commit(vec![put_message(100, 101, 500), add(1), add(2), add(1), add(1)]).await.unwrap();
    store.commit(vec![add(1)]).await.unwrap();
    assert_eq!(reactions(store, 101, 500).await, [(unicode("👍"), vec![1, 2])]);
    store.commit(vec![remove(1), remove(1), remove(7)]).await.unwrap();
    assert_eq!(reactions(store, 101, 500).await, [(unicode("👍"), vec![2])]);
}

pub async fn reactions_go_with_their_message(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let react = |n| Write::AddReaction(id(101), id(n), unicode("👍"), id(1));
    let messages = (500..503).map(|n| put_message(100, 101, n));
    store.commit(messages.chain((500..503).map(react)).collect()).await.unwrap();
    // An edit keeps them.
    store.commit(vec![Write::DeleteMessage(id(101), id(501)), put_message(100, 101, 500)]).await.unwrap();
    let records = store.messages(id(101), Page::Newest, 10).await.unwrap();
    let expected = [(unicode("👍"), vec![id(1)])];
    assert_eq!(
        records.iter().map(|r| (r.message.id.get(), &r.reactions[..])).collect::<Vec<_>>(),
        [(502, &expected[..]), (500, &expected[..])]
    );
    store.commit(vec![put_message(100, 101, 501)]).await.unwrap();
    assert_eq!(reactions(store, 101, 501).await, []);
}

pub async fn emoji_are_distinct_by_id_and_name(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    // Same name, same id, modifiers, a variation selector, what no client sends.
    let emoji = [
        unicode("party"),
        custom(0, "party"),
        custom(1, "party"),
        custom(1, "Party"),
        custom(ID_MAX, "party"),
        unicode("👍"),
        unicode("👍🏽"),
        unicode("❤"),
        unicode("❤️"),
        unicode("👩‍👩‍👧‍👦"),
        unicode(""),
        unicode("a\u{0}b"),
        unicode("a"),
    ];
    let add = |emoji: &_| Write::AddReaction(id(101), id(500), Clone::clone(emoji), id(1));
    store.commit(std::iter::once(put_message(100, 101, 500)).chain(emoji.iter().map(add)).collect()).await.unwrap();
    let expected: Vec<_> = emoji.iter().map(|emoji| (emoji.clone(), vec![1])).collect();
    assert_eq!(reactions(store, 101, 500).await, expected);
    for (n, emoji) in emoji.iter().enumerate() {
        assert_eq!(store.reaction_users(id(101), id(500), emoji, id(0), 9).await.unwrap().len(), 1, "{emoji:?}");
        store.commit(vec![Write::ClearReactions(id(101), id(500), Some(emoji.clone()))]).await.unwrap();
        assert_eq!(reactions(store, 101, 500).await, expected[n + 1..]);
    }
}

pub async fn users_of_a_reaction(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let emoji = unicode("👍");
    let add = |user| Write::AddReaction(id(101), id(500), unicode("👍"), id(user));
    let mut writes = vec![put_message(100, 101, 500), put_message(100, 101, 501)];
    writes.extend([5, 3, 9, 1, 7].map(add));
    writes.push(Write::AddReaction(id(101), id(500), unicode("🔥"), id(2)));
    writes.push(Write::AddReaction(id(101), id(501), unicode("👍"), id(2)));
    store.commit(writes).await.unwrap();
    let users = async |after, limit| {
        let users = store.reaction_users(id(101), id(500), &emoji, id(after), limit).await.unwrap();
        users.iter().map(|user| user.id.get()).collect::<Vec<_>>()
    };
    assert_eq!(users(0, 100).await, [1, 3, 5, 7, 9]);
    assert_eq!(users(0, 2).await, [1, 3]);
    assert_eq!(users(3, 2).await, [5, 7]);
    assert_eq!(users(4, 2).await, [5, 7]);
    assert_eq!(users(9, 2).await, NONE);
    assert_eq!(users(0, 0).await, NONE);
    let first = store.reaction_users(id(101), id(500), &emoji, id(0), 1).await.unwrap();
    assert_eq!(first, [guildhall_model::User::clone(&user(1))]);
}

pub async fn attachments_are_in_use_while_a_message_has_them(store: &dyn Store) {
    let mut writes = guild_with_channels(100, &[101, 102]);
    let attached = |channel: u64, n: u64, ids: &[u64]| {
        let mut message = message(100, channel, n);
        let attachment = |n: &u64| {
            let json = format!(r#"{{"id":"{n}","filename":"a","size":1,"url":"http://a"}}"#);
            serde_json::from_str(&json).unwrap()
        };
        message.attachments = ids.iter().map(attachment).collect();
        message
    };
    let first = attached(101, 500, &[900, 901]);
    writes.extend(
        [first.clone(), attached(101, 501, &[902]), attached(102, 502, &[903])].map(Arc::new).map(Write::PutMessage),
    );
    store.commit(writes).await.unwrap();
    let requested: Vec<Id<()>> = [904, 903, 902, 901, 900].map(id).into();
    let in_use =
        async || -> Vec<u64> { store.attachments_in_use(&requested).await.unwrap().into_iter().map(Id::get).collect() };
    assert_eq!(in_use().await, [900, 901, 902, 903]);
    assert_eq!(store.largest_id().await.unwrap(), 903);
    assert!(store.attachments_in_use(&[]).await.unwrap().is_empty());
    // Stored again unchanged, then edited.
    store.commit(vec![Write::PutMessage(Arc::new(first.clone()))]).await.unwrap();
    assert_eq!(in_use().await, [900, 901, 902, 903]);
    let mut edited = attached(101, 500, &[901, 904]);
    edited.edited_timestamp = Some(Timestamp(1_700_000_000_123));
    store.commit(vec![Write::PutMessage(Arc::new(edited))]).await.unwrap();
    assert_eq!(in_use().await, [901, 902, 903, 904]);
    store.commit(vec![Write::DeleteMessage(id(101), id(501))]).await.unwrap();
    assert_eq!(in_use().await, [901, 903, 904]);
    store.commit(vec![Write::DeleteChannel(id(100), id(101))]).await.unwrap();
    assert_eq!(in_use().await, [903]);
    store.commit(vec![Write::DeleteGuild(id(100))]).await.unwrap();
    assert_eq!(in_use().await, NONE);
}

pub async fn expired_messages_go_in_slices(store: &dyn Store) {
    let (one, other) = (channel(100, 101), channel(100, 102));
    let mut writes =
        vec![Write::PutUser(user(1)), Write::PutGuild(guild(100)), Write::PutChannel(one), Write::PutChannel(other)];
    writes.extend((500..510).map(|n| put_message(100, 101, n)));
    writes.push(put_message(100, 102, 500));
    writes.extend([500, 501, 509].map(|n| Write::AddReaction(id(101), id(n), unicode("🔥"), id(1))));
    store.commit(writes).await.unwrap();
    let mut deleted = 0;
    let mut slices = 0;
    loop {
        let slice = store.expire_messages(id(101), id(507), 3).await.unwrap();
        assert!(slice.messages <= 3, "{slice:?}");
        deleted += slice.messages;
        slices += 1;
        if slice.is_done {
            break;
        }
    }
    assert!((3..=5).contains(&slices), "{slices}");
    assert_eq!(deleted, 7);
    assert_eq!(page(store, 101, Page::Newest, 10).await, [509, 508, 507]);
    assert_eq!(page(store, 102, Page::Newest, 10).await, [500]);
    let newest = store.message(id(101), id(509)).await.unwrap().unwrap();
    assert_eq!(newest.reactions.len(), 1, "of messages that stay, reactions stay");
    assert!(store.expire_messages(id(101), id(507), 3).await.unwrap().is_done);
    assert!(store.expire_messages(id(999), id(507), 3).await.unwrap().is_done);
}

pub async fn retention_of_guilds_channels_and_threads(store: &dyn Store) {
    let thread = |parent: u64, n: u64| {
        let thread =
            Channel { parent_id: Some(id(parent)), ..Channel::new(id(n), id(100), ChannelType::PublicThread, "t") };
        Write::PutChannel(Arc::new(thread))
    };
    let mut writes = vec![Write::PutUser(user(1)), Write::PutGuild(guild(100)), Write::PutGuild(guild(200))];
    writes.extend([channel(100, 101), channel(100, 102), channel(200, 201)].map(Write::PutChannel));
    writes.extend([thread(101, 110), thread(102, 111), put_message(100, 101, 500), put_message(100, 101, 501)]);
    store.commit(writes).await.unwrap();
    for (of, days) in [(100, 30), (102, 7), (111, 0)] {
        store.set_keep_days(of, Some(days)).await.unwrap();
    }
    assert_eq!((store.keep_days(102).await.unwrap(), store.keep_days(101).await.unwrap()), (Some(7), None));
    let ages = async |after: u64, limit| -> Vec<(u64, u64, Option<u64>, Option<u32>)> {
        let ages = store.message_ages(id(after), limit).await.unwrap().into_iter();
        let oldest = |age: &guildhall_store::MessageAge| age.oldest.map(Id::get);
        ages.map(|age| (age.channel_id.get(), age.guild_id.get(), oldest(&age), age.keep_days)).collect()
    };
    let all = [
        (101, 100, Some(500), Some(30)),
        (102, 100, None, Some(7)),
        (110, 100, None, Some(30)),
        (111, 100, None, Some(0)),
        (201, 200, None, None),
    ];
    assert_eq!(ages(0, 10).await, all);
    assert_eq!(ages(101, 2).await, all[1..3]);
    store.set_keep_days(101, Some(1)).await.unwrap();
    assert_eq!(ages(109, 1).await, [(110, 100, None, Some(1))], "a thread has what its channel has");
    store.set_keep_days(101, None).await.unwrap();
    store.set_keep_days(101, None).await.unwrap();
    store.commit(vec![Write::DeleteChannel(id(100), id(102))]).await.unwrap();
    assert_eq!(ages(101, 1).await, [(110, 100, None, Some(30))], "a deleted channel has no messages");
}
