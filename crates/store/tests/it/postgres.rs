//! PostgreSQL driver beyond the contract: one node at a time, outages, faulty databases, the shape of transactions.

use crate::{postgres_server::PostgresServer, support::*};
use futures_util::future::join_all;
use guildhall_guild::Write;
use guildhall_store::{Page, PostgresOptions, PostgresStore, Store, StoreError, TokenHash, TokenRecord};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

pub async fn open(url: &str) -> PostgresStore {
    PostgresStore::open(PostgresOptions::new(url).unwrap()).await.unwrap()
}

fn options(url: &str, change: impl FnOnce(&mut PostgresOptions)) -> PostgresOptions {
    let mut options = PostgresOptions::new(url).unwrap();
    change(&mut options);
    options
}

async fn failure(options: PostgresOptions) -> StoreError {
    PostgresStore::open(options).await.err().expect("opening should fail")
}

/// Waits for a state that comes within seconds.
async fn until_so(what: &str, mut is_so: impl FnMut() -> bool) {
    until(what, async || if is_so() { Ok(()) } else { Err("it is not so") }).await;
}

/// Another node takes the database, as after a failure of the network.
fn claim(server: &PostgresServer, database: &str) {
    server.sql(database, "SELECT guildhall_claim_1(0)");
}

#[tokio::test]
async fn everything_is_there_after_reopening() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.url(&server.create_database());
    let store = open(&url).await;
    let mut writes = guild_with_channels(100, &[101, 102]);
    writes.extend((0..500).map(|n| put_message(100, 101, 500 + n)));
    writes.extend((1..10).map(|n| Write::AddReaction(id(101), id(700), unicode("🔥"), id(n))));
    store.commit(writes).await.unwrap();
    let record = TokenRecord { user_id: id(1), created_at: guildhall_stdx::Timestamp(5) };
    store.put_token(TokenHash::of("t"), record.clone()).await.unwrap();
    store.setting_or_insert("secret", b"value").await.unwrap();
    let before = (load(&store, id(100)).await, store.messages(id(101), Page::Newest, 1000).await.unwrap());
    store.close().await;
    for result in [store.commit(vec![put_message(100, 101, 1)]).await, store.message(id(101), id(1)).await.map(drop)] {
        assert!(matches!(result, Err(StoreError::Closed)), "{result:?}");
    }
    store.close().await;

    let store = open(&url).await;
    let after = (load(&store, id(100)).await, store.messages(id(101), Page::Newest, 1000).await.unwrap());
    assert_eq!(after, before);
    assert_eq!(store.token(TokenHash::of("t")).await.unwrap(), Some(record));
    assert_eq!(store.setting("secret").await.unwrap().as_deref(), Some(&b"value"[..]));
    // The order of reactions continues.
    store.commit(vec![Write::AddReaction(id(101), id(700), unicode("👍"), id(1))]).await.unwrap();
    let order: Vec<_> = reactions(&store, 101, 700).await.into_iter().map(|(emoji, _)| emoji).collect();
    assert_eq!(order, [unicode("🔥"), unicode("👍")]);
    store.close().await;
}

#[tokio::test]
async fn one_node_at_a_time() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.url(&server.create_database());
    let store = open(&url).await;
    let error = failure(options(&url, |options| options.in_use_wait_ms = 200)).await;
    assert!(matches!(error, StoreError::DatabaseInUse { .. }), "{error:?}");
    assert!(error.to_string().contains("is in use by another node: stop it first"), "{error}");
    assert!(!store.is_fenced(), "a node that was refused takes nothing");
    // It waits for a node that stops.
    let second = tokio::spawn(async move { open(&url).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    store.close().await;
    within("the second node", second).await.unwrap().close().await;
}

/// W3: whatever a node believes, it writes nothing once another has claimed the database.
#[tokio::test]
async fn w3_a_node_that_lost_the_database_writes_nothing() {
    let Some(server) = PostgresServer::shared() else { return };
    let database = server.create_database();
    let store = open(&server.url(&database)).await;
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    claim(server, &database);
    let many: Vec<Write> = (0..100).map(|n| put_message(100, 101, 500 + n)).collect();
    let record = TokenRecord { user_id: id(1), created_at: guildhall_stdx::Timestamp(5) };
    let refused = [
        store.commit(vec![put_message(100, 101, 1)]).await,
        store.commit(many).await,
        store.commit(vec![Write::DeleteGuild(id(100))]).await,
        store.put_token(TokenHash::of("t"), record).await,
        store.put_record("key", b"a", b"b").await,
        store.set_keep_days(100, Some(1)).await,
        store.put_external_ids(guildhall_store::ExternalKind::Guild, &[(100, Some("a".to_owned()))]).await,
        store.setting_or_insert("secret", b"a").await.map(drop),
        store.direct_of_pair_or_insert([id(1), id(2)], id(9)).await.map(drop),
        store.expire_messages(id(101), id(1000), 10).await.map(drop),
    ];
    for (n, result) in refused.into_iter().enumerate() {
        assert!(matches!(result, Err(StoreError::Fenced)), "{n}: {result:?}");
    }
    assert!(store.is_fenced());
    assert!(load(&store, id(100)).await.is_some(), "it can still read");
    assert_eq!(page(&store, 101, Page::Newest, 10).await, NONE);
    store.close().await;
}

/// A node without writes finds out as well, when its connection is lost.
#[tokio::test]
async fn w3_a_node_without_writes_finds_out() {
    let Some(server) = PostgresServer::shared() else { return };
    let database = server.create_database();
    let store = open(&server.url(&database)).await;
    claim(server, &database);
    let others = "datname = current_database() AND pid <> pg_backend_pid()";
    server.sql(&database, &format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {others}"));
    until_so("a claim that is noticed", || store.is_fenced()).await;
    store.close().await;
}

/// A claim waits for transactions under way, so that none is committed after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w3_nothing_is_committed_after_a_claim() {
    let Some(server) = PostgresServer::shared() else { return };
    let database = server.create_database();
    let store = Arc::new(open(&server.url(&database)).await);
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let acked = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (store, acked) = (store.clone(), acked.clone());
            tokio::spawn(async move {
                for n in 0.. {
                    let from = 1_000_000 * (task + 1) + n * 100;
                    let writes = (from..from + 1 + n % 50).map(|n| put_message(100, 101, n)).collect();
                    match store.commit(writes).await {
                        Ok(()) => drop(acked.fetch_add(1, Relaxed)),
                        Err(StoreError::Fenced) => return,
                        Err(other) => panic!("{other:?}"),
                    }
                }
            })
        })
        .collect();
    until_so("fifty commits", || acked.load(Relaxed) > 50).await;
    let count = "SELECT count(*) FROM messages";
    let at_claim = tokio::task::block_in_place(|| {
        // The count is read on a snapshot that is made after the claim was committed.
        claim(server, &database);
        server.sql(&database, count)
    });
    within("the end of all writers", join_all(tasks)).await.into_iter().for_each(Result::unwrap);
    assert_eq!(server.sql(&database, count), at_claim);
    assert_ne!(at_claim, "0");
    store.close().await;
}

/// Commits wait for a server that comes back; acknowledged writes from before and after are there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_survive_a_restart_of_the_server() {
    let Some(server) = PostgresServer::start(&[]) else { return };
    let database = server.create_database();
    let patient = options(&server.url(&database), |options| options.outage_ms = 60_000);
    let store = Arc::new(PostgresStore::open(patient).await.unwrap());
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let (acked, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let tasks: Vec<_> = (0..8)
        .map(|task| {
            let (store, acked, stop) = (store.clone(), acked.clone(), stop.clone());
            tokio::spawn(async move {
                let mut count = 0;
                while !stop.load(Relaxed) {
                    let n = 1_000_000 * (task + 1) + count;
                    store.commit(vec![put_message(100, 101, n)]).await.unwrap();
                    count += 1;
                    acked.fetch_add(1, Relaxed);
                }
                count
            })
        })
        .collect();
    let reach = async |count: u64| {
        until(&format!("{count} commits"), async || match acked.load(Relaxed) {
            acked if acked < count => Err(acked),
            _ => Ok(()),
        })
        .await;
    };
    for _ in 0..2 {
        reach(acked.load(Relaxed) + 200).await;
        tokio::task::block_in_place(|| server.crash());
        tokio::task::block_in_place(|| server.start_again());
    }
    reach(acked.load(Relaxed) + 200).await;
    stop.store(true, Relaxed);
    let mut expected = 0;
    for (task, handle) in tasks.into_iter().enumerate() {
        let count = within("a writer's end", handle).await.unwrap();
        expected += count;
        let sql = format!("SELECT count(*) FROM messages WHERE id / 1000000 = {}", task + 1);
        assert_eq!(server.sql(&database, &sql), count.to_string());
    }
    assert_eq!(store.messages(id(101), Page::Newest, u32::MAX).await.unwrap().len() as u64, expected);
    store.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_fails_commits_after_its_limit_and_passes() {
    let Some(server) = PostgresServer::start(&[]) else { return };
    let options = options(&server.url(&server.create_database()), |options| options.outage_ms = 100);
    let store = PostgresStore::open(options.clone()).await.unwrap();
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    tokio::task::block_in_place(|| server.crash());
    let error = store.commit(vec![put_message(100, 101, 1)]).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
    let error = failure(options).await;
    assert!(matches!(error, StoreError::Server { .. }), "{error:?}");
    until_so("an outage that is noticed", || store.is_away()).await;
    tokio::task::block_in_place(|| server.start_again());
    until_so("the end of the outage", || !store.is_away()).await;
    store.commit(vec![put_message(100, 101, 2)]).await.unwrap();
    assert_eq!(page(&store, 101, Page::Newest, 10).await, [2]);
    store.close().await;
}

#[tokio::test]
async fn databases_that_cannot_be_used() {
    let Some(server) = PostgresServer::shared() else { return };
    let url = server.tcp_url("none");
    let text = chain(&failure(PostgresOptions::new(&url).unwrap()).await);
    assert!(text.contains("none at 127.0.0.1:") && text.contains("does not exist"), "{text}");
    let wrong = server.tcp_url("postgres").replace("a%2Fb", "wrong");
    let text = chain(&failure(PostgresOptions::new(&wrong).unwrap()).await);
    assert!(text.contains("password authentication failed") && !text.contains("wrong"), "{text}");
    server.sql("postgres", "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    let error = failure(PostgresOptions::new(&server.url("latin")).unwrap()).await;
    assert!(error.to_string().contains("has encoding LATIN1, and Guildhall needs UTF8"), "{error}");

    let database = server.create_database();
    open(&server.tcp_url(&database)).await.close().await;
    server.sql(&database, "INSERT INTO _sqlx_migrations VALUES (9999, 'later', now(), TRUE, '', 0)");
    let error = failure(PostgresOptions::new(&server.url(&database)).unwrap()).await;
    assert!(matches!(error, StoreError::SchemaTooNew { found: 9999, known: 1..9999 }), "{error:?}");
    server.sql(&database, "DELETE FROM _sqlx_migrations WHERE version = 9999");
    open(&server.url(&database)).await.close().await;
}

/// Texts that PostgreSQL's types refuse.
#[tokio::test]
async fn every_text_can_be_stored() {
    let Some(server) = PostgresServer::shared() else { return };
    let store = open(&server.url(&server.create_database())).await;
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    store.commit(vec![put_message(100, 101, 500)]).await.unwrap();
    let odd = unicode("a\u{0}b");
    store.commit(vec![Write::AddReaction(id(101), id(500), odd.clone(), id(1))]).await.unwrap();
    assert_eq!(reactions(&store, 101, 500).await, [(odd.clone(), vec![1])]);
    assert_eq!(store.reaction_users(id(101), id(500), &odd, id(0), 9).await.unwrap().len(), 1);
    let requested = ["\u{0}".to_owned(), "a".to_owned()];
    assert_eq!(store.with_external_ids(guildhall_store::ExternalKind::User, &requested).await.unwrap(), []);
    store.close().await;
}

/// Commits that are queued together share transactions, and a faulty one fails alone.
#[tokio::test]
async fn concurrent_batches_share_transactions() {
    let Some(server) = PostgresServer::shared() else { return };
    let store = open(&server.url(&server.create_database())).await;
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let before = store.writer_counts();
    join_all((0..500).map(|n| store.commit(vec![put_message(100, 101, n)]))).await.into_iter().for_each(Result::unwrap);
    let after = store.writer_counts();
    assert_eq!(after.batches - before.batches, 500);
    assert!(after.transactions - before.transactions < 50, "{after:?}");
    let batches = (0..100).map(|n| store.commit(vec![put_message(100, if n == 50 { 404 } else { 101 }, 1000 + n)]));
    let results: Vec<_> = join_all(batches).await.into_iter().map(dangling).collect();
    assert_eq!(results.iter().filter(|result| result.is_some()).count(), 1);
    assert_eq!(results[50], Some("message"));
    assert_eq!(page(&store, 101, Page::Newest, 1000).await.len(), 599);
    store.close().await;
}

/// Long runs of rows become one statement, with the same effect as row by row.
#[tokio::test]
async fn rows_in_bulk() {
    let Some(server) = PostgresServer::shared() else { return };
    let store = open(&server.url(&server.create_database())).await;
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let edited = |n: u64| {
        let mut message = message(100, 101, n);
        message.content = "last".to_owned();
        Write::PutMessage(Arc::new(message))
    };
    // The same key several times: the last counts. Then a single write, then more rows.
    let mut writes: Vec<Write> = (0..300).map(|n| put_message(100, 101, n)).collect();
    writes.extend((0..300).step_by(2).map(edited));
    writes.push(Write::DeleteMessage(id(101), id(7)));
    writes.extend((1000..1100).map(|n| Write::PutRole(id(100), role(n))));
    writes.extend((100..5000).map(|n| Write::PutMember(id(100), member(n))));
    store.commit(writes).await.unwrap();
    let messages = store.messages(id(101), Page::Newest, 1000).await.unwrap();
    assert_eq!(messages.len(), 299);
    assert!(messages.iter().all(|of| (of.message.content == "last") == (of.message.id.get() % 2 == 0)));
    let loaded = load(&store, id(100)).await.unwrap();
    assert_eq!((loaded.roles.len(), loaded.members.len()), (101, 4909));

    // One faulty row among many.
    for (what, fault) in [
        ("message", put_message(100, 404, 5)),
        ("member", Write::PutMember(id(404), member(1))),
        ("role", Write::PutRole(id(404), role(1))),
    ] {
        let mut writes: Vec<Write> = match what {
            "message" => (2000..2100).map(|n| put_message(100, 101, n)).collect(),
            "member" => (9000..9100).map(|n| Write::PutMember(id(100), member(n))).collect(),
            _ => (2000..2100).map(|n| Write::PutRole(id(100), role(n))).collect(),
        };
        writes.push(fault);
        assert_eq!(dangling(store.commit(writes).await), Some(what));
    }
    assert_eq!(load(&store, id(100)).await.unwrap().members.len(), 4909);
    store.commit(vec![Write::DeleteGuild(id(100))]).await.unwrap();
    let into_deleted = (0..100).map(|n| Write::PutMember(id(100), member(n))).collect();
    assert_eq!(dangling(store.commit(into_deleted).await), Some("member"));
    store.close().await;
}

/// Commits of the same accounts in different orders wait for each other, and one of them is repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlocks_are_repeated() {
    let Some(server) = PostgresServer::start(&["-c", "deadlock_timeout=10ms"]) else { return };
    let store = Arc::new(open(&server.url(&server.create_database())).await);
    let tasks: Vec<_> = (0..8_u64)
        .map(|task| {
            let store = store.clone();
            tokio::spawn(async move {
                for round in 0..20 {
                    let user = |n: u64| Write::PutUser(user(1 + if task % 2 == 0 { n } else { 9 - n }));
                    let guild = Write::PutGuild(guild(1000 + task * 100 + round));
                    // Not in bulk: a write of another kind is between them.
                    let writes = (0..10).flat_map(|n| [user(n), guild.clone()]).collect();
                    store.commit(writes).await.unwrap();
                }
            })
        })
        .collect();
    within("the end of all writers", join_all(tasks)).await.into_iter().for_each(Result::unwrap);
    assert_eq!(store.guild_ids(id(0), 1000).await.unwrap().len(), 160);
    store.close().await;
}

/// What deleted guilds and channels leave is invisible at once, and purged.
#[tokio::test]
async fn deleted_content_is_purged() {
    let Some(server) = PostgresServer::shared() else { return };
    let database = server.create_database();
    let store = open(&server.url(&database)).await;
    for n in [100, 200] {
        store.commit(guild_with_channels(n, &[n + 1, n + 2])).await.unwrap();
        store.commit((1_000..4_000).map(|of| put_message(n, n + 1, n * 10_000 + of)).collect()).await.unwrap();
        let react = |user| Write::AddReaction(id(n + 1), id(n * 10_000 + 1_000), unicode("🔥"), id(user));
        store.commit((1..9).map(react).collect()).await.unwrap();
    }
    let kept = load(&store, id(200)).await;
    store.commit(vec![Write::DeleteGuild(id(100))]).await.unwrap();
    assert_eq!(load(&store, id(100)).await, None);
    assert_eq!(page(&store, 101, Page::Newest, 10).await, NONE);
    assert_eq!(store.guilds_of_user(id(1), 10).await.unwrap(), [id(200)]);
    let left = "SELECT (SELECT count(*) FROM messages WHERE guild_id = 100) + \
        (SELECT count(*) FROM members WHERE guild_id = 100) + (SELECT count(*) FROM roles WHERE guild_id = 100) + \
        (SELECT count(*) FROM reactions WHERE channel_id = 101) + (SELECT count(*) FROM guilds WHERE id = 100) + \
        (SELECT count(*) FROM channels WHERE guild_id = 0) + (SELECT count(*) FROM deleted_guilds WHERE id > 0)";
    until("the end of the purge", async || match server.sql(&database, left).as_str() {
        "0" => Ok(()),
        left => Err(left.to_owned()),
    })
    .await;
    assert_eq!(load(&store, id(200)).await, kept);
    assert_eq!(reactions(&store, 201, 2_001_000).await[0].1.len(), 8);
    // An id that is used again before its purge starts empty.
    let again = vec![Write::DeleteGuild(id(200)), Write::PutGuild(guild(200)), Write::PutChannel(channel(200, 201))];
    store.commit(again).await.unwrap();
    let loaded = load(&store, id(200)).await.unwrap();
    assert_eq!((loaded.members.len(), loaded.roles.len(), loaded.channels.len()), (0, 0, 1));
    assert_eq!(page(&store, 201, Page::Newest, 10).await, NONE);
    store.close().await;
}

/// By the server's default a commit may be lost; this store sets another mode.
#[tokio::test]
async fn commits_are_durable_with_any_default_of_the_server() {
    let Some(server) = PostgresServer::shared() else { return };
    let database = server.create_database();
    server.sql(&database, &format!("ALTER DATABASE {database} SET synchronous_commit = off"));
    let store = open(&server.url(&database)).await;
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    server.sql(
        &database,
        "CREATE FUNCTION seen() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN \
         IF current_setting('synchronous_commit') <> 'on' THEN RAISE 'not durable'; END IF; RETURN NEW; END $$; \
         CREATE TRIGGER seen BEFORE INSERT ON messages FOR EACH ROW EXECUTE FUNCTION seen(); \
         CREATE TRIGGER seen BEFORE INSERT ON records FOR EACH ROW EXECUTE FUNCTION seen()",
    );
    store.commit(vec![put_message(100, 101, 1)]).await.unwrap();
    store.put_record("key", b"a", b"b").await.unwrap();
    store.close().await;
}

/// A server that others could imitate is not believed.
#[tokio::test]
async fn tls_and_certificates() {
    let tls = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guildhall/tests/it/tls");
    let (certificate, key) = (tls.join("one.crt"), tls.join("one.key"));
    let arguments = ["-c", "ssl=on", "-c", "ssl_cert_file=DIR/one.crt", "-c", "ssl_key_file=DIR/one.key"];
    let Some(server) = PostgresServer::start_with(&[&certificate, &key], &arguments) else { return };
    let database = server.create_database();
    let url = |root: &str| {
        let root = tls.join(root);
        format!("{}?sslmode=verify-full&sslrootcert={}", server.tcp_url(&database), root.display())
    };
    let store = open(&url("one.crt")).await;
    store.commit(guild_with_channels(100, &[101])).await.unwrap();
    let sql = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
        WHERE application_name = 'guildhall' AND usename IS NOT NULL";
    assert_eq!(server.sql(&database, sql), "t");
    store.close().await;
    let text = chain(&failure(PostgresOptions::new(&url("two.crt")).unwrap()).await);
    assert!(text.contains("certificate"), "{text}");

    let Some(plain) = PostgresServer::shared() else { return };
    let url = format!("{}?sslmode=verify-full", plain.tcp_url("postgres"));
    let text = chain(&failure(PostgresOptions::new(&url).unwrap()).await);
    assert!(text.contains("does not support TLS"), "{text}");
}
