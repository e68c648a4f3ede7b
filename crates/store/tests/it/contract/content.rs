//! Content of one account, over all channels.

use crate::support::*;
use guildhall_guild::Write;
use guildhall_model::Message;
use guildhall_store::{ContentOf, Store};
use std::sync::Arc;

pub async fn an_account_s_content_is_found_in_steps(store: &dyn Store) {
    store.commit(guild_with_channels(100, &[101, 102])).await.unwrap();
    let of = |channel_id, n, author| {
        Write::PutMessage(Arc::new(Message { author: user(author), ..message(100, channel_id, n) }))
    };
    let messages = [of(101, 500, 1), of(101, 501, 2), of(101, 502, 2), of(102, 400, 3), of(102, 600, 2)];
    store.commit(messages.into()).await.unwrap();
    let react = |channel_id, n, user| Write::AddReaction(id(channel_id), id(n), unicode("👍"), id(user));
    store.commit(vec![react(101, 500, 2), react(101, 500, 3), react(102, 600, 2), react(102, 600, 3)]).await.unwrap();

    let place = |channel_id, n| (id(channel_id), id(n));
    let all = store.content_of(id(2), place(0, 0), 100).await.unwrap();
    let reactions = vec![(place(101, 500), unicode("👍")), (place(102, 600), unicode("👍"))];
    let expected =
        ContentOf { messages: vec![place(101, 501), place(101, 502), place(102, 600)], reactions, next: None };
    assert_eq!(all, expected);

    let mut found = ContentOf::default();
    let (mut after, mut steps) = (place(0, 0), 0);
    loop {
        let step = store.content_of(id(2), after, 2).await.unwrap();
        assert!(step.messages.len() <= 2);
        found.messages.extend(step.messages);
        found.reactions.extend(step.reactions);
        steps += 1;
        match step.next {
            Some(next) => after = next,
            None => break,
        }
    }
    assert_eq!((found, steps), (expected, 3));
    assert_eq!(store.content_of(id(9), place(0, 0), 100).await.unwrap(), ContentOf::default());
    assert_eq!(store.content_of(id(2), place(102, 600), 100).await.unwrap(), ContentOf::default(), "above");
}
