//! Searches for messages.

use crate::support::*;
use guildhall_guild::Write;
use guildhall_model::{Attachment, Message, MessageReference, MessageSnapshot, Poll, PollAnswer, StickerItem};
use guildhall_stdx::{Rng, Timestamp};
use guildhall_store::{
    AuthorType, Has, INDEXED_AT_ONCE_MAX, MemoryStore, MessageSearch, SEARCH_HITS_MAX, SearchIndex, SearchOrder, Store,
};
use serde_json::json;
use std::sync::Arc;

const GUILD: u64 = 100;

fn search() -> MessageSearch {
    MessageSearch { guild_id: Some(id(GUILD)), channels: vec![id(10), id(11)], limit: 25, ..MessageSearch::default() }
}

fn content(text: &str) -> MessageSearch {
    MessageSearch { content: text.to_owned(), ..search() }
}

async fn index(store: &dyn Store) {
    while store.index_messages(INDEXED_AT_ONCE_MAX).await.unwrap() != SearchIndex::Current {}
}

/// Ids of the messages that are found, after the index was brought up to date.
async fn found(store: &dyn Store, search: MessageSearch) -> Vec<u64> {
    index(store).await;
    let page = store.search_messages(&search).await.unwrap();
    page.messages.iter().map(|(_, message_id)| message_id.get()).collect()
}

fn put(channel_id: u64, n: u64, with: impl FnOnce(&mut Message)) -> Write {
    let mut message = message(GUILD, channel_id, n);
    with(&mut message);
    Write::PutMessage(Arc::new(message))
}

fn text(channel_id: u64, n: u64, content: &str) -> Write {
    put(channel_id, n, |message| content.clone_into(&mut message.content))
}

async fn commit(store: &dyn Store, writes: impl IntoIterator<Item = Write>) {
    store.commit(writes.into_iter().collect()).await.unwrap();
}

async fn filled(store: &dyn Store) {
    commit(store, guild_with_channels(GUILD, &[10, 11, 12])).await;
    commit(store, guild_with_channels(200, &[20])).await;
}

pub async fn messages_are_found_by_their_words(store: &dyn Store) {
    filled(store).await;
    let messages = [
        text(10, 1, "The quick brown fox"),
        text(11, 2, "Quickly, said the FOX!"),
        text(12, 3, "the fox of a hidden channel"),
        text(10, 4, "日本語の検索, Ärger"),
        put(10, 5, |message| message.kind = Message::KIND_PIN),
    ];
    commit(store, messages).await;
    commit(store, [put_message(200, 20, 6)]).await;
    let check = async |text: &str, expected: &[u64]| assert_eq!(found(store, content(text)).await, expected, "{text}");
    check("fox", &[2, 1]).await;
    check("FOX quick", &[2, 1]).await;
    check("quick brown", &[1]).await;
    check("quickly", &[2]).await;
    check("fo", &[]).await;
    check("uick", &[]).await;
    check("検索", &[4]).await;
    check("ärger", &[4]).await;
    check("!!!", &[]).await;
    check("message", &[]).await;
    check("", &[4, 2, 1]).await;
    let one_channel = MessageSearch { channels: vec![id(11)], ..content("fox") };
    assert_eq!(found(store, one_channel).await, [2]);
    assert_eq!(found(store, MessageSearch { channels: Vec::new(), ..search() }).await, NONE);
    let many = (10..200).map(id).collect();
    assert_eq!(found(store, MessageSearch { channels: many, ..content("fox") }).await, [3, 2, 1]);
}

/// No text of a search is an error, or an operator.
pub async fn f2_no_text_is_syntax(store: &dyn Store) {
    filled(store).await;
    commit(store, [text(10, 1, "a or b near c"), text(10, 2, "b")]).await;
    let check = async |text: &str, expected: &[u64]| assert_eq!(found(store, content(text)).await, expected, "{text}");
    for nothing in ["\"", "*", "'", "(", ")", "^", "-", ":", "\\", "|", "&", "!", "<->", "\0", "%", ";--", "#"] {
        check(nothing, &[]).await;
        check(&format!("b{nothing}"), &[2, 1]).await;
        check(&format!("{nothing}b{nothing}{nothing}a"), &[1]).await;
    }
    check("a OR b", &[1]).await;
    check("NEAR(a b, 2)", &[]).await;
    check("content: b", &[]).await;
    check("b NOT a", &[]).await;
    check("#p", &[]).await;
    check(&"\"b\" AND ".repeat(120), &[]).await;
}

fn file(n: u64, filename: &str, content_type: Option<&str>) -> Attachment {
    Attachment {
        id: id(n),
        filename: filename.to_owned(),
        size: 1,
        url: "https://example.org/file".to_owned(),
        content_type: content_type.map(str::to_owned),
        description: None,
        height: None,
        width: None,
    }
}

fn poll() -> Poll {
    let answer = PollAnswer { id: 1, text: Some("pizza".to_owned()), emoji: None };
    Poll {
        question: "Which?".to_owned(),
        answers: vec![answer],
        expires_at: Timestamp(0),
        allow_multiselect: false,
        results: None,
    }
}

fn snapshot() -> MessageSnapshot {
    serde_json::from_value(json!({"content": "elsewhere", "timestamp": Timestamp(0)})).unwrap()
}

pub async fn messages_are_found_by_their_properties(store: &dyn Store) {
    filled(store).await;
    let messages = [
        put(10, 1, |message| {
            message.author = user(2);
            message.mentions = vec![user(3), user(4)];
            message.mention_roles = vec![id(7)];
            message.pinned = true;
            message.poll = Some(Box::new(poll()));
        }),
        put(10, 2, |message| {
            message.author = Arc::new(guildhall_model::User { bot: true, ..(*user(5)).clone() });
            message.mention_everyone = true;
            message.content = "see https://Example.org/path".to_owned();
            let forwarded = MessageReference { message_id: id(3), channel_id: id(11), guild_id: Some(id(GUILD)) };
            message.message_reference = Some(forwarded);
            message.snapshots = vec![snapshot()];
        }),
        put(11, 3, |message| {
            message.webhook_id = Some(id(8));
            message.attachments = vec![file(90, "Cat.PNG", Some("image/png")), file(91, "notes", None)];
            message.sticker_items = vec![StickerItem { id: id(9), name: "wave".to_owned(), format_type: 1 }];
        }),
        put(11, 4, |message| {
            message.embeds = vec![json!({"video": {"url": "https://example.org/v"}})];
            message.attachments = vec![file(92, "song.ogg", Some("audio/ogg"))];
            message.kind = Message::KIND_REPLY;
            message.message_reference =
                Some(MessageReference { message_id: id(3), channel_id: id(11), guild_id: Some(id(GUILD)) });
        }),
    ];
    commit(store, messages).await;
    let check = async |search: MessageSearch, expected: &[u64]| {
        assert_eq!(found(store, search.clone()).await, expected, "{search:?}")
    };
    check(MessageSearch { authors: vec![id(2), id(5)], ..search() }, &[2, 1]).await;
    check(MessageSearch { mentions: vec![id(4), id(9)], ..search() }, &[1]).await;
    check(MessageSearch { mention_roles: vec![id(7)], ..search() }, &[1]).await;
    check(MessageSearch { mention_everyone: Some(true), ..search() }, &[2]).await;
    check(MessageSearch { mention_everyone: Some(false), ..search() }, &[4, 3, 1]).await;
    check(MessageSearch { pinned: Some(true), ..search() }, &[1]).await;
    check(MessageSearch { pinned: Some(false), ..search() }, &[4, 3, 2]).await;
    check(MessageSearch { replied_to: vec![id(3)], ..search() }, &[4]).await;
    check(MessageSearch { link_hosts: vec!["EXAMPLE.org".to_owned()], ..search() }, &[2]).await;
    check(MessageSearch { filenames: vec!["cat.png".to_owned()], ..search() }, &[3]).await;
    check(MessageSearch { extensions: vec!["png".to_owned(), "ogg".to_owned()], ..search() }, &[4, 3]).await;
    for (kind, expected) in [(AuthorType::User, &[4, 1][..]), (AuthorType::Bot, &[2]), (AuthorType::Webhook, &[3])] {
        check(MessageSearch { author_types: vec![(kind, true)], ..search() }, expected).await;
    }
    let not = vec![(AuthorType::Bot, false), (AuthorType::Webhook, false)];
    check(MessageSearch { author_types: not, ..search() }, &[4, 1]).await;
    let has = [
        (Has::Image, &[3][..]),
        (Has::Sound, &[4]),
        (Has::Video, &[4]),
        (Has::File, &[4, 3]),
        (Has::Sticker, &[3]),
        (Has::Embed, &[4]),
        (Has::Link, &[2]),
        (Has::Poll, &[1]),
        (Has::Snapshot, &[2]),
    ];
    for (kind, expected) in has {
        check(MessageSearch { has: vec![(kind, true)], ..search() }, expected).await;
        let others: Vec<u64> = (1..5).rev().filter(|n| !expected.contains(n)).collect();
        check(MessageSearch { has: vec![(kind, false)], ..search() }, &others).await;
    }
    check(MessageSearch { has: vec![(Has::File, true), (Has::Image, false)], ..search() }, &[4]).await;
    check(MessageSearch { content: "which pizza".to_owned(), ..search() }, &[1]).await;
}

pub async fn a_search_has_pages(store: &dyn Store) {
    filled(store).await;
    commit(store, (1..=60).map(|n| text(10 + n % 2, n, "again"))).await;
    index(store).await;
    let check = async |search: MessageSearch, total: u32, expected: Vec<u64>| {
        let page = store.search_messages(&search).await.unwrap();
        let ids: Vec<u64> = page.messages.iter().map(|(_, message_id)| message_id.get()).collect();
        assert_eq!((page.total, ids), (total, expected), "{search:?}");
        assert!(page.messages.iter().all(|(channel_id, n)| channel_id.get() == 10 + n.get() % 2));
    };
    check(content("again"), 60, (36..=60).rev().collect()).await;
    check(MessageSearch { offset: 50, ..content("again") }, 60, (1..=10).rev().collect()).await;
    check(MessageSearch { offset: 60, ..content("again") }, 60, Vec::new()).await;
    check(MessageSearch { offset: 9_975, ..content("again") }, 60, Vec::new()).await;
    let oldest = MessageSearch { order: SearchOrder::OldestFirst, limit: 3, offset: 2, ..content("again") };
    check(oldest, 60, vec![3, 4, 5]).await;
    let between = MessageSearch { after: Some(id(10)), before: Some(id(14)), ..content("again") };
    check(between, 3, vec![13, 12, 11]).await;
    check(MessageSearch { after: Some(id(ID_MAX)), ..content("again") }, 0, Vec::new()).await;
    check(MessageSearch { before: Some(id(0)), ..content("again") }, 0, Vec::new()).await;
    check(MessageSearch { before: Some(id(ID_MAX)), limit: 1, ..content("again") }, 60, vec![60]).await;
}

pub async fn results_are_counted_up_to_a_limit(store: &dyn Store) {
    filled(store).await;
    for slice in 0..21_u64 {
        commit(store, (1..=500).map(|n| text(10, slice * 500 + n, "again"))).await;
    }
    index(store).await;
    let page = store.search_messages(&MessageSearch { offset: 9_975, ..content("again") }).await.unwrap();
    assert_eq!(page.total, SEARCH_HITS_MAX);
    assert_eq!(page.messages.len(), 25);
    assert_eq!(page.messages[24].1.get(), 501);
}

/// A changed or deleted message is not found by what it had, even before the index is up to date.
pub async fn the_index_follows_every_change(store: &dyn Store) {
    filled(store).await;
    commit(store, (1..=6).map(|n| text(10, n, "before"))).await;
    commit(store, [text(11, 7, "before"), text(12, 8, "before")]).await;
    let all = || MessageSearch { channels: vec![id(10), id(11), id(12)], ..content("before") };
    assert_eq!(found(store, all()).await, [8, 7, 6, 5, 4, 3, 2, 1]);

    commit(store, [text(10, 1, "after"), Write::DeleteMessage(id(10), id(2))]).await;
    let page = store.search_messages(&all()).await.unwrap();
    assert_eq!(page.total, 6, "without indexing");
    assert_eq!(found(store, content("after")).await, [1]);
    assert_eq!(found(store, all()).await, [8, 7, 6, 5, 4, 3]);

    // Twice before it is indexed; the same again; deleted before it is indexed.
    commit(store, [text(10, 3, "once"), text(10, 3, "twice")]).await;
    commit(store, [text(10, 4, "before")]).await;
    commit(store, [text(10, 9, "gone"), Write::DeleteMessage(id(10), id(9))]).await;
    assert_eq!(found(store, content("once")).await, NONE);
    assert_eq!(found(store, content("twice")).await, [3]);
    assert_eq!(found(store, content("gone")).await, NONE);
    assert_eq!(found(store, all()).await, [8, 7, 6, 5, 4]);

    store.expire_messages(id(10), id(5), 100).await.unwrap();
    assert_eq!(found(store, all()).await, [8, 7, 6, 5]);
    assert_eq!(found(store, content("after")).await, NONE);

    // A channel with the id of a deleted one starts empty.
    commit(store, [Write::DeleteChannel(id(GUILD), id(11))]).await;
    commit(store, [Write::PutChannel(channel(GUILD, 11)), text(11, 20, "new")]).await;
    assert_eq!(found(store, all()).await, [8, 6, 5]);
    assert_eq!(found(store, content("new")).await, [20]);
}

/// Imported messages of two channels may have one id.
pub async fn messages_with_one_id_are_told_apart(store: &dyn Store) {
    filled(store).await;
    commit(store, [text(10, 5, "one"), text(11, 5, "one"), text(12, 5, "one"), text(10, 6, "one")]).await;
    index(store).await;
    let all = MessageSearch { channels: vec![id(10), id(11), id(12)], ..content("one") };
    let places = async |search: &MessageSearch| {
        let page = store.search_messages(search).await.unwrap();
        let mut places: Vec<(u64, u64)> = page.messages.iter().map(|(c, m)| (c.get(), m.get())).collect();
        places.sort_unstable();
        places
    };
    assert_eq!(places(&all).await, [(10, 5), (10, 6), (11, 5), (12, 5)]);
    commit(store, [Write::DeleteMessage(id(11), id(5)), text(12, 5, "two")]).await;
    index(store).await;
    assert_eq!(places(&all).await, [(10, 5), (10, 6)]);
    let before = MessageSearch { before: Some(id(6)), after: Some(id(4)), ..all };
    assert_eq!(places(&before).await, [(10, 5)]);
    assert_eq!(places(&MessageSearch { content: "two".to_owned(), ..before }).await, [(12, 5)]);
}

/// F1: the same searches of the same messages find the same, whatever the store.
pub async fn f1_searches_find_what_a_naive_model_finds(store: &dyn Store) {
    let model = MemoryStore::new();
    filled(store).await;
    filled(&model).await;
    let mut rng = Rng::new(53);
    let words = ["fox", "foxes", "fo", "日", "go1", "Ärger", "near", "or", "x"];
    for n in 1..=300_u64 {
        let mut pick = |max: u64| rng.below(max);
        let message_id = 1 + pick(200);
        let channel_id = 10 + message_id % 3;
        let write = if pick(5) == 0 {
            Write::DeleteMessage(id(channel_id), id(message_id))
        } else {
            let picked: Vec<&str> = (0..pick(4)).map(|_| words[pick(words.len() as u64) as usize]).collect();
            put(channel_id, message_id, |message| {
                message.content = picked.join(" ");
                message.author = user(1 + n % 3);
                message.pinned = n % 4 == 0;
                message.mention_everyone = n % 5 == 0;
                message.mentions = if n % 3 == 0 { vec![user(2)] } else { Vec::new() };
            })
        };
        commit(store, [write.clone()]).await;
        commit(&model, [write]).await;
        if pick(20) == 0 {
            index(store).await;
        }
    }
    index(store).await;
    for n in 0..200_u64 {
        let mut pick = |max: u64| rng.below(max);
        let search = MessageSearch {
            channels: (10..13).filter(|_| pick(3) > 0).map(id).collect(),
            content: (0..pick(3)).map(|_| words[pick(words.len() as u64) as usize]).collect::<Vec<_>>().join(" "),
            authors: if pick(3) == 0 { vec![id(1), id(2)] } else { Vec::new() },
            mentions: if pick(4) == 0 { vec![id(2)] } else { Vec::new() },
            pinned: [None, None, Some(true), Some(false)][pick(4) as usize],
            mention_everyone: [None, None, Some(true), Some(false)][pick(4) as usize],
            after: (pick(3) == 0).then(|| id(pick(200))),
            before: (pick(3) == 0).then(|| id(pick(200))),
            order: if n % 2 == 0 { SearchOrder::NewestFirst } else { SearchOrder::OldestFirst },
            offset: pick(4) as u32,
            limit: 1 + pick(25) as u32,
            ..search()
        };
        let (found, expected) = (store.search_messages(&search), model.search_messages(&search));
        assert_eq!(found.await.unwrap(), expected.await.unwrap(), "{search:?}");
    }
}
