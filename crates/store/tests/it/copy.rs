//! Copy of an SQLite database into PostgreSQL: everything that a store returns is the same afterwards.

use crate::{postgres, postgres_server::PostgresServer, support::*};
use guildhall_guild::Write;
use guildhall_model::{Channel, ChannelType, Guild, GuildResource, Message, Pin, ResourceKind, UserId};
use guildhall_stdx::Timestamp;
use guildhall_store::{
    ExternalKind, Page, SqliteStore, Store, StoreError, TokenHash, TokenRecord, copy_sqlite_to_postgres,
};
use std::sync::Arc;

/// Something of each kind.
async fn fill(store: &SqliteStore) {
    for n in [100, 200, 300] {
        store.commit(guild_with_channels(n, &[n + 1, n + 2])).await.unwrap();
    }
    let mut thread = Channel::new(id(150), id(100), ChannelType::PublicThread, "thread");
    thread.parent_id = Some(id(101));
    let odd = Message { content: "a\u{0}b 𝕏 \\ \t\n'".to_owned(), ..message(100, 101, 777) };
    let pin = Pin { channel_id: id(101), message_id: id(777), pinned_at: Timestamp(5) };
    let mut writes = vec![
        Write::PutChannel(Arc::new(thread)),
        Write::PutMessage(Arc::new(odd)),
        Write::AddReaction(id(101), id(777), unicode("👍"), id(2)),
        Write::AddReaction(id(101), id(777), custom(9, "party"), id(1)),
        Write::AddReaction(id(101), id(777), unicode("👍"), id(1)),
        Write::PutResource(id(100), GuildResource::Pin(pin)),
    ];
    writes.extend((1_000..6_000).map(|n| put_message(200, 201, n)));
    store.commit(writes).await.unwrap();
    let mut direct = Guild::clone(&guild(400));
    direct.is_direct = true;
    store.direct_of_pair_or_insert([id(1), id(2)], id(400)).await.unwrap();
    let channel = Channel::new(id(400), id(400), ChannelType::Dm, "");
    store
        .commit(vec![
            Write::PutGuild(Arc::new(direct)),
            Write::PutChannel(Arc::new(channel)),
            Write::PutMember(id(400), member(1)),
            Write::PutMember(id(400), member(2)),
            put_message(400, 400, 9_000),
        ])
        .await
        .unwrap();
    store.put_external_ids(ExternalKind::Channel, &[(101, Some("general".to_owned()))]).await.unwrap();
    store.set_keep_days(101, Some(30)).await.unwrap();
    store.put_token(TokenHash::of("t"), TokenRecord { user_id: id(1), created_at: Timestamp(7) }).await.unwrap();
    store.put_record("key", &[0, 255], &[1, 0]).await.unwrap();
    store.setting_or_insert("secret", &[0, 1, 2]).await.unwrap();
    store.commit(vec![Write::DeleteGuild(id(300)), Write::DeleteChannel(id(100), id(102))]).await.unwrap();
}

/// Results of a store's reads, as text.
async fn content(store: &dyn Store) -> Vec<String> {
    let mut all = Vec::new();
    let guilds = store.guild_ids(id(0), 100).await.unwrap();
    all.push(format!("{guilds:?}"));
    for guild_id in [id(100), id(200), id(300), id(400)] {
        all.push(format!("{:?}", load(store, guild_id).await));
        if let Some(record) = store.load_guild(guild_id).await.unwrap() {
            all.push(format!("{:?}", record.resources));
        }
    }
    for channel_id in [101, 102, 150, 201, 301, 400] {
        all.push(format!("{:?}", store.messages(id(channel_id), Page::Newest, 10_000).await.unwrap()));
        all.push(format!("{:?}", store.guild_of_channel(id(channel_id)).await.unwrap()));
        all.push(format!("{:?}", store.keep_days(channel_id).await.unwrap()));
    }
    all.push(format!("{:?}", store.message_ages(id(0), 100).await.unwrap()));
    for user_id in (1..12).map(UserId::new) {
        all.push(format!("{:?}", store.user(user_id).await.unwrap()));
        all.push(format!("{:?}", store.guilds_of_user(user_id, 100).await.unwrap()));
        all.push(format!("{:?}", store.directs_of_user(user_id, 100).await.unwrap()));
        all.push(format!("{:?}", store.tokens_of_user(user_id, 100).await.unwrap()));
    }
    all.push(format!("{:?}", store.direct_of_pair([id(2), id(1)]).await.unwrap()));
    all.push(format!("{:?}", store.external_ids(ExternalKind::Channel, &[101]).await.unwrap()));
    all.push(format!("{:?}", store.records("key", &[], 100).await.unwrap()));
    all.push(format!("{:?}", store.setting("secret").await.unwrap()));
    all.push(format!("{:?}", store.guild_of_resource(ResourceKind::Pin, 101).await.unwrap()));
    all.push(format!("{:?}", store.largest_id().await.unwrap()));
    all
}

#[tokio::test]
async fn everything_is_the_same_afterwards() {
    let Some(server) = PostgresServer::shared() else { return };
    let dir = TempDir::new();
    let from = open(dir.path()).await;
    fill(&from).await;
    let database = server.create_database();
    let to = postgres::open(&server.url(&database)).await;
    let mut seen = Vec::new();
    let copied = copy_sqlite_to_postgres(&from, &to, |table, rows, of| seen.push((table, rows, of))).await.unwrap();
    assert!(
        copied.rows() > 5_000
            && seen.iter().any(|(table, rows, of)| *table == "messages" && *rows == 2_000 && *of > 5_000),
        "{copied:?} {seen:?}"
    );
    let (before, after) = (content(&from).await, content(&to).await);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before, after);
    }
    assert_eq!(before.len(), after.len());
    // The order of reactions continues.
    to.commit(vec![Write::AddReaction(id(101), id(777), unicode("🔥"), id(1))]).await.unwrap();
    let order: Vec<_> = reactions(&to, 101, 777).await.into_iter().map(|(emoji, _)| emoji).collect();
    assert_eq!(order, [unicode("👍"), custom(9, "party"), unicode("🔥")]);

    // A second copy overwrites nothing.
    let error = copy_sqlite_to_postgres(&from, &to, |_, _, _| {}).await.unwrap_err();
    assert!(matches!(error, StoreError::NotEmpty { .. }), "{error:?}");
    to.close().await;
    from.close().await;
}

#[tokio::test]
async fn a_copy_that_fails_leaves_nothing() {
    let Some(server) = PostgresServer::shared() else { return };
    let dir = TempDir::new();
    let from = open(dir.path()).await;
    fill(&from).await;
    let database = server.create_database();
    let to = postgres::open(&server.url(&database)).await;
    server.sql(
        &database,
        "CREATE FUNCTION fail() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN RAISE 'no'; END $$; \
         CREATE TRIGGER fail BEFORE INSERT ON settings FOR EACH ROW EXECUTE FUNCTION fail()",
    );
    let error = copy_sqlite_to_postgres(&from, &to, |_, _, _| {}).await.unwrap_err();
    assert!(matches!(error, StoreError::Database(_)), "{error:?}");
    for table in ["users", "messages", "members"] {
        assert_eq!(server.sql(&database, &format!("SELECT count(*) FROM {table}")), "0");
    }
    // Nor when another node claims the target meanwhile.
    server.sql(&database, "DROP TRIGGER fail ON settings; SELECT guildhall_claim_1(0)");
    let error = copy_sqlite_to_postgres(&from, &to, |_, _, _| {}).await.unwrap_err();
    assert!(matches!(error, StoreError::Fenced), "{error:?}");
    to.close().await;
    from.close().await;
}
