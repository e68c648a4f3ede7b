//! Read states, and the mentions after them.

use crate::support::*;
use guildhall_guild::Write;
use guildhall_model::{Member, MentionTarget, Message, MessageId, ReadState, UnreadMention, User, UserId};
use guildhall_stdx::{Rng, Timestamp};
use guildhall_store::{DirectSpan, MemoryStore, ReadChange, ReadStateChange, ReadUpTo, Store};
use std::{collections::BTreeMap, sync::Arc};

const ADA: u64 = 2;
/// After the members of the tests have joined: July 2024.
const SINCE: u64 = 1_260_000_000_000_000_000;

fn change(user_id: u64, channel_id: u64, change: ReadChange) -> ReadStateChange {
    ReadStateChange { user_id: id(user_id), channel_id: id(channel_id), change }
}

fn read(message_id: u64) -> ReadChange {
    ReadChange { message: Some(ReadUpTo::AtLeast(id(message_id))), ..ReadChange::default() }
}

fn set(message_id: u64) -> ReadChange {
    ReadChange { message: Some(ReadUpTo::Exactly(id(message_id))), ..ReadChange::default() }
}

async fn states(store: &dyn Store, user_id: u64) -> Vec<ReadState> {
    store.read_states(id(user_id), 100).await.unwrap()
}

async fn mentions(store: &dyn Store, user_id: u64) -> Vec<UnreadMention> {
    let mut mentions = store.unread_mentions(id(user_id)).await.unwrap();
    mentions.sort_unstable();
    mentions
}

pub async fn acknowledgements_only_go_forward(store: &dyn Store) {
    let changes = [change(1, 11, read(50)), change(1, 10, read(40)), change(2, 10, read(30))];
    store.change_read_states(&changes).await.unwrap();
    let state =
        |channel_id, message_id| ReadState { last_message_id: id(message_id), ..ReadState::new(id(channel_id)) };
    assert_eq!(states(store, 1).await, [state(10, 40), state(11, 50)], "by channel");
    assert_eq!(store.read_states(id(1), 1).await.unwrap(), [state(10, 40)]);

    store.change_read_states(&[change(1, 11, read(49)), change(1, 10, set(7))]).await.unwrap();
    assert_eq!(states(store, 1).await, [state(10, 7), state(11, 50)]);

    let pin = |at| ReadChange { pin: Some(Timestamp(at)), ..ReadChange::default() };
    let viewed = ReadChange { flags: Some(1), last_viewed: Some(4_000), ..ReadChange::default() };
    let changes = [change(1, 10, pin(9)), change(1, 10, pin(8)), change(1, 10, viewed), change(1, 12, pin(5))];
    store.change_read_states(&changes).await.unwrap();
    let with_pin = |state, at| ReadState { last_pin_timestamp: Some(Timestamp(at)), ..state };
    let seen = ReadState { flags: 1, last_viewed: 4_000, ..with_pin(state(10, 7), 9) };
    assert_eq!(states(store, 1).await, [seen, state(11, 50), with_pin(state(12, 0), 5)]);

    let forget = ReadChange { is_reset: true, ..ReadChange::default() };
    store.change_read_states(&[change(1, 10, forget), change(1, 11, forget.then(read(3)))]).await.unwrap();
    assert_eq!(states(store, 1).await, [state(11, 3), with_pin(state(12, 0), 5)]);
    assert_eq!(states(store, 2).await, [state(10, 30)], "another account");
}

pub async fn the_newest_states_are_kept(store: &dyn Store) {
    let changes: Vec<_> = (1..=10).map(|n| change(1, 100 - n, read(n))).collect();
    store.change_read_states(&changes).await.unwrap();
    store.change_read_states(&[change(2, 95, read(1))]).await.unwrap();
    store.trim_read_states(id(1), 3).await.unwrap();
    let kept: Vec<u64> = states(store, 1).await.iter().map(|state| state.last_message_id.get()).collect();
    assert_eq!(kept, [10, 9, 8]);
    store.trim_read_states(id(1), 0).await.unwrap();
    assert_eq!((states(store, 1).await.len(), states(store, 2).await.len()), (0, 1));
}

fn mention(channel_id: u64, message_id: u64, target: MentionTarget) -> UnreadMention {
    UnreadMention { channel_id: id(channel_id), message_id: id(SINCE + message_id), target }
}

fn put(channel_id: u64, n: u64, with: impl FnOnce(&mut Message)) -> Write {
    let mut message = message(100, channel_id, SINCE + n);
    with(&mut message);
    Write::PutMessage(Arc::new(message))
}

pub async fn mentions_count_until_they_are_read(store: &dyn Store) {
    let mut writes = guild_with_channels(100, &[101, 102]);
    writes.extend([103, 104].map(|n| Write::PutRole(id(100), role(n))));
    let roles = Arc::new(Member { roles: [id(103)].into_iter().collect(), ..Member::clone(&member(ADA)) });
    writes.push(Write::PutMember(id(100), roles));
    let bot = Arc::new(User { bot: true, ..User::clone(&user(8)) });
    writes.extend([
        put(101, 1, |message| message.mentions = vec![user(ADA), user(3), bot]),
        put(101, 2, |message| message.mention_roles = vec![id(103), id(104)]),
        put(101, 3, |message| message.mention_everyone = true),
        put(102, 4, |message| message.content = r#"{"mentions":[{"id":"2"}]}"#.to_owned()),
        put(102, 5, |message| {
            message.author = user(ADA);
            message.mention_everyone = true;
        }),
        put(102, 6, |message| {
            message.mentions = vec![user(ADA)];
            message.mention_everyone = true;
        }),
    ]);
    store.commit(writes).await.unwrap();
    let (own, everyone) = (MentionTarget::User, MentionTarget::Role(id(100)));
    let mut expected = vec![
        mention(101, 1, own),
        mention(101, 2, MentionTarget::Role(id(103))),
        mention(101, 3, everyone),
        mention(102, 6, own),
        mention(102, 6, everyone),
    ];
    assert_eq!(mentions(store, ADA).await, expected);
    assert_eq!(
        mentions(store, 8).await,
        [mention(101, 3, everyone), mention(102, 5, everyone), mention(102, 6, everyone)]
    );
    assert_eq!(mentions(store, 99).await, []);

    store.change_read_states(&[change(ADA, 101, read(SINCE + 2))]).await.unwrap();
    expected.drain(..2);
    assert_eq!(mentions(store, ADA).await, expected);

    // An edit replaces them, and a deletion removes them.
    let edited = put(101, 3, |message| message.mentions = vec![user(ADA)]);
    store.commit(vec![edited, Write::DeleteMessage(id(102), id(SINCE + 6))]).await.unwrap();
    assert_eq!(mentions(store, ADA).await, [mention(101, 3, own)]);
    store.commit(vec![put(101, 3, |message| message.content = "no more".to_owned())]).await.unwrap();
    assert_eq!(mentions(store, ADA).await, []);
}

pub async fn a_new_member_has_no_old_mentions(store: &dyn Store) {
    let mut writes = guild_with_channels(100, &[101]);
    let early = message(100, 101, 1_000);
    writes.push(Write::PutMessage(Arc::new(Message { mention_everyone: true, ..early })));
    writes.push(put(101, 1, |message| message.mention_everyone = true));
    store.commit(writes).await.unwrap();
    assert_eq!(mentions(store, ADA).await, [mention(101, 1, MentionTarget::Role(id(100)))]);
}

pub async fn messages_of_others_count_in_direct_messages(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101, 102])).await.unwrap();
    let by = |channel_id, n, author| {
        Write::PutMessage(Arc::new(Message { author: user(author), ..message(100, channel_id, n) }))
    };
    store.commit(vec![by(101, 5, 1), by(101, 6, ADA), by(101, 7, 1), by(101, 8, 1), by(102, 9, 1)]).await.unwrap();
    let span = |channel_id, after, up_to| DirectSpan { channel_id: id(channel_id), after: id(after), up_to: id(up_to) };
    let spans = [span(102, 0, 99), span(101, 5, 8), span(101, 5, 7), span(103, 0, 99)];
    assert_eq!(store.unread_directs(id(ADA), &spans, 100).await.unwrap(), [1, 2, 1, 0]);
    assert_eq!(store.unread_directs(id(ADA), &spans, 2).await.unwrap(), [1, 1, 1, 0]);
    assert!(store.unread_directs(id(ADA), &[], 2).await.unwrap().is_empty());
}

/// Random messages, edits, deletions and acknowledgements: the unread mentions are those of a store that looks through
/// all messages.
pub async fn unread_mentions_are_those_of_a_naive_model(store: &dyn Store) {
    let model = MemoryStore::new();
    let mut writes = guild_with_channels(100, &[101, 102, 103]);
    writes.extend([110, 111].map(|n| Write::PutRole(id(100), role(n))));
    for n in 1..5 {
        let roles = [id(110), id(111)].into_iter().take(n as usize % 3).collect();
        writes.push(Write::PutMember(id(100), Arc::new(Member { roles, ..Member::clone(&member(n)) })));
    }
    for of in [store, &model] {
        of.commit(writes.clone()).await.unwrap();
    }
    let mut rng = Rng::new(46);
    let mut newest = BTreeMap::new();
    for step in 0..400 {
        let channel_id = 101 + rng.below(3);
        let last: &mut u64 = newest.entry(channel_id).or_default();
        let any = 1 + rng.below((*last).max(1));
        let write = match rng.below(10) {
            0..6 => {
                *last += 1;
                Some(*last)
            }
            6 if *last > 0 => Some(any),
            _ => None,
        };
        let writes = match write {
            Some(n) => {
                let author = user(1 + rng.below(4));
                let users = (1..5).filter(|_| rng.below(4) == 0).map(user).collect();
                let roles = [110, 111].into_iter().filter(|_| rng.below(5) == 0).map(id).collect();
                let everyone = rng.below(8) == 0;
                vec![put(channel_id, n, |message| {
                    message.author = author;
                    message.mentions = users;
                    message.mention_roles = roles;
                    message.mention_everyone = everyone;
                })]
            }
            None if rng.below(3) == 0 => vec![Write::DeleteMessage(id(channel_id), MessageId::new(SINCE + any))],
            None => Vec::new(),
        };
        let reader = 1 + rng.below(4);
        let ack = match rng.below(6) {
            0 => set(SINCE + any),
            1 => ReadChange { is_reset: true, ..ReadChange::default() },
            _ => read(SINCE + any),
        };
        for of in [store, &model] {
            of.commit(writes.clone()).await.unwrap();
            if writes.is_empty() {
                of.change_read_states(&[change(reader, channel_id, ack)]).await.unwrap();
            }
        }
        for reader in 1..5 {
            let user_id = UserId::new(reader);
            let expected = mentions(&model, reader).await;
            assert_eq!(mentions(store, reader).await, expected, "step {step}, account {reader}");
            let states = model.read_states(user_id, 100).await.unwrap();
            assert_eq!(store.read_states(user_id, 100).await.unwrap(), states);
        }
    }
}
