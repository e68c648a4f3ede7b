//! Migrations: a database of every schema version that was ever on `main` is migrated to the newest one.
//!
//! `tests/fixtures/` has one text file per version and driver, named like its migration. All have the same community,
//! in the form in which programs of that version stored it; the header of a file names the commit. `Community::of` is
//! that community with the fields that the version had. The fixture of a new migration is the newest one with that
//! migration applied (`sqlite3 guildhall.db .dump`, `pg_dump --inserts`), and with rows for what it adds.

use crate::{
    postgres,
    postgres_server::PostgresServer,
    sqlite::raw,
    support::{Loaded, TempDir, custom, id, load, open, page, reactions, unicode},
};
use guildhall_model::{
    Attachment, AuditAction, AuditChange, AuditEntry, Ban, Channel, ChannelType, DefaultReaction, DirectFields, Emoji,
    ForumFields, ForumTag, Guild, GuildId, GuildResource, Id, Invite, Member, MemberPictures, MentionTarget, Message,
    MessageReference, Overwrite, OverwriteKind, Permissions, Pin, ReadState, ResourceKind, Role, RoleIcon,
    ScheduledEvent, StageInstance, Sticker, StickerItem, ThreadFields, ThreadMember, UnreadMention, User, Webhook,
};
use guildhall_stdx::Timestamp;
use guildhall_store::{
    ContentOf, EventBounds, EventFilter, ExternalId, ExternalKind, MessageAge, MessageSearch, Page, PictureOwner,
    SearchIndex, Store, StoredEvent, TokenHash, TokenRecord,
};
use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Version of SQLite's schema from which on the community has an object or a field. PostgreSQL's first one has the
/// objects of `GUILD_RESOURCES`.
const RESOURCES: i64 = 2;
const RECORDS: i64 = 20;
const DIRECTS: i64 = 21;
const ATTACHMENTS: i64 = 25;
const DELETED: i64 = 27;
const EXTERNAL_IDS: i64 = 31;
const RETENTION: i64 = 32;
const GUILD_RESOURCES: i64 = 33;
/// The account of bert has changed twice.
const ACCOUNT_VERSIONS: i64 = 40;
const EVENTS: i64 = 51;
const READ_STATES: i64 = 52;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The versions of a folder of migrations, each with its fixture.
fn fixtures(migrations: &str, driver: &str) -> Vec<(i64, String)> {
    let names = fs::read_dir(folder(migrations)).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut fixtures: Vec<(i64, String)> = names
        .map(|name| {
            let version = name.split_once('_').and_then(|(version, _)| version.parse().ok());
            let path = folder("tests/fixtures").join(format!("{driver}-{name}"));
            let dump = fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}: each migration needs a fixture", path.display()));
            (version.unwrap(), dump)
        })
        .collect();
    fixtures.sort();
    assert!(!fixtures.is_empty());
    fixtures
}

#[tokio::test]
async fn every_sqlite_version_is_migrated() {
    for (version, dump) in fixtures("migrations", "sqlite") {
        let dir = TempDir::new();
        fs::File::create(dir.path().join("guildhall.db")).unwrap();
        let mut connection = raw(dir.path()).await;
        sqlx::raw_sql(AssertSqlSafe(dump)).execute(&mut connection).await.unwrap();
        let applied = versions(&mut connection).await;
        assert_eq!(applied.last(), Some(&version), "the fixture has the migrations of its version");
        connection.close().await.unwrap();

        let store = open(dir.path()).await;
        Community::of(version).check(&store).await;
        let mut connection = raw(dir.path()).await;
        for attempt in 0.. {
            let query = "SELECT COUNT(*) FROM deleted_guilds WHERE id <> 0 \
                UNION ALL SELECT COUNT(*) FROM channels WHERE guild_id = 0";
            let left: Vec<i64> = sqlx::query_scalar(query).fetch_all(&mut connection).await.unwrap();
            if left == [0, 0] {
                break;
            }
            assert!(attempt < 6_000, "version {version}: the deleted guild is not purged");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        store.close().await;
        let newest: Vec<i64> = fixtures("migrations", "sqlite").iter().map(|(version, _)| *version).collect();
        assert_eq!(versions(&mut connection).await, newest);
        let before = all_rows(&mut connection).await;
        connection.close().await.unwrap();

        let store = open(dir.path()).await;
        Community::of(version).check(&store).await;
        store.close().await;
        let mut connection = raw(dir.path()).await;
        assert_eq!(all_rows(&mut connection).await, before, "version {version}: the second open changes nothing");
        connection.close().await.unwrap();
    }
}

async fn versions(connection: &mut sqlx::SqliteConnection) -> Vec<i64> {
    let query = sqlx::query_scalar("SELECT version FROM _sqlx_migrations WHERE success ORDER BY version");
    query.fetch_all(connection).await.unwrap()
}

/// Schema and rows of a database.
async fn all_rows(connection: &mut sqlx::SqliteConnection) -> Vec<String> {
    let mut all: Vec<String> =
        sqlx::query_scalar("SELECT name || ': ' || COALESCE(sql, '') FROM sqlite_master ORDER BY name")
            .fetch_all(&mut *connection)
            .await
            .unwrap();
    let selects = "SELECT 'SELECT ''' || t.name || ': '' || ' || group_concat('quote(' || c.name || ')', ' || '','' || ') \
        || ' FROM ' || t.name || ' ORDER BY 1' \
        FROM sqlite_master AS t JOIN pragma_table_info(t.name) AS c WHERE t.type = 'table' GROUP BY t.name ORDER BY t.name";
    let selects: Vec<String> = sqlx::query_scalar(selects).fetch_all(&mut *connection).await.unwrap();
    for select in selects {
        let rows: Vec<String> = sqlx::query_scalar(AssertSqlSafe(select)).fetch_all(&mut *connection).await.unwrap();
        all.extend(rows);
    }
    assert!(all.len() > 50);
    all
}

#[tokio::test]
async fn every_postgres_version_is_migrated() {
    let fixtures = fixtures("migrations-postgres", "postgres");
    let Some(server) = PostgresServer::shared() else { return };
    let newest: Vec<String> = fixtures.iter().map(|(version, _)| version.to_string()).collect();
    for (version, dump) in fixtures {
        let database = server.create_database();
        server.sql(&database, &dump);
        let versions = || server.sql(&database, "SELECT version FROM _sqlx_migrations WHERE success ORDER BY version");
        assert_eq!(versions().lines().last(), Some(&*version.to_string()));

        let store = postgres::open(&server.url(&database)).await;
        Community::of(version.max(GUILD_RESOURCES)).check(&store).await;
        for attempt in 0.. {
            let left = server.sql(
                &database,
                "SELECT (SELECT COUNT(*) FROM deleted_guilds WHERE id <> 0) \
                    + (SELECT COUNT(*) FROM channels WHERE guild_id = 0)",
            );
            if left == "0" {
                break;
            }
            assert!(attempt < 600, "version {version}: the deleted guild is not purged");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        store.close().await;
        assert_eq!(versions().lines().collect::<Vec<_>>(), newest);
        let tables = server.sql(
            &database,
            // Each open claims the database, which raises the epoch.
            "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'epochs' ORDER BY 1",
        );
        let rows = || -> Vec<String> {
            let of_table = |table| server.sql(&database, &format!("SELECT t::TEXT FROM {table} AS t ORDER BY 1"));
            tables.lines().map(of_table).collect()
        };
        let before = rows();

        let store = postgres::open(&server.url(&database)).await;
        Community::of(version.max(GUILD_RESOURCES)).check(&store).await;
        store.close().await;
        assert_eq!(rows(), before, "version {version}: the second open changes nothing");
    }
}

fn at(text: &str) -> Timestamp {
    serde_json::from_value(json!(text)).unwrap()
}

/// An account as it was in an author, a mention or a resource.
fn account(n: u64, name: &str) -> Arc<User> {
    Arc::new(User::new(id(n), name))
}

/// The community of all fixtures, with the objects and fields that a version had.
struct Community {
    version: i64,
}

impl Community {
    fn of(version: i64) -> Self {
        Self { version }
    }

    fn has(&self, since: i64) -> bool {
        self.version >= since
    }

    /// A field that was added with a version.
    fn since<T>(&self, since: i64, value: T) -> Option<T> {
        self.has(since).then_some(value)
    }

    /// Fields of a list that was added with a version.
    fn list<T>(&self, since: i64, values: Vec<T>) -> Vec<T> {
        if self.has(since) { values } else { Vec::new() }
    }

    fn ada(&self) -> User {
        User {
            global_name: Some("Ada ⚓".to_owned()),
            avatar: Some("a_11".to_owned()),
            banner: self.since(EXTERNAL_IDS, "b_11".into()),
            public_flags: 64,
            ..User::new(id(11), "ada")
        }
    }

    fn cog() -> User {
        User { discriminator: "0042".to_owned(), bot: true, application_flags: 1 << 18, ..User::new(id(13), "cog") }
    }

    fn accounts(&self) -> [User; 4] {
        [self.ada(), User::new(id(12), "bert"), Self::cog(), User::new(id(14), "dora")]
    }

    fn harbour(&self) -> Guild {
        let event = ScheduledEvent {
            id: id(920),
            creator_id: Some(id(11)),
            channel_id: Some(id(107)),
            name: "regatta".to_owned(),
            description: Some("all boats".to_owned()),
            scheduled_start_time: at("2027-05-01T12:00:00Z"),
            scheduled_end_time: Some(at("2027-05-01T18:00:00Z")),
            privacy_level: 2,
            status: 1,
            entity_type: 1,
            entity_metadata: Some(json!({ "location": "pier" })),
            image: self.since(RETENTION, "e_920".into()),
            followers: vec![id(12)],
        };
        let stage = StageInstance {
            id: id(930),
            guild_id: id(100),
            channel_id: id(107),
            topic: "tides".to_owned(),
            privacy_level: 2,
            guild_scheduled_event_id: Some(id(920)),
        };
        let sticker = Sticker {
            id: id(910),
            name: "wave".to_owned(),
            description: Some("hello".to_owned()),
            tags: "wave".to_owned(),
            format_type: 1,
            user: Some(account(12, "bert")),
        };
        Guild {
            icon: Some("i_100".to_owned()),
            splash: self.since(EXTERNAL_IDS, "s_100".into()),
            discovery_splash: self.since(EXTERNAL_IDS, "d_100".into()),
            banner: self.since(EXTERNAL_IDS, "b_100".into()),
            description: Some("Ships \"and\" docks".to_owned()),
            afk_channel_id: Some(id(102)),
            afk_timeout: 900,
            verification_level: 2,
            default_message_notifications: 1,
            explicit_content_filter: 1,
            system_channel_id: Some(id(101)),
            features: vec!["COMMUNITY".to_owned()],
            emojis: vec![Emoji {
                id: id(900),
                name: "anchor".to_owned(),
                animated: true,
                roles: self.list(RESOURCES, vec![id(103)]),
                user: self.since(RESOURCES, account(11, "ada")),
            }],
            stickers: self.list(RESOURCES, vec![sticker]),
            scheduled_events: self.list(RESOURCES, vec![Arc::new(event)]),
            stage_instances: self.list(RESOURCES, vec![stage]),
            preferred_locale: "de".to_owned(),
            ..Guild::new(id(100), "Harbour", id(11))
        }
    }

    fn roles(&self) -> Vec<Role> {
        let crew = Role {
            color: 0x34_98db,
            hoist: true,
            position: 1,
            mentionable: true,
            icon: self.since(EXTERNAL_IDS, RoleIcon::Emoji("⚓".into())),
            ..role(103, "crew", 8)
        };
        vec![role(100, "@everyone", 104_324_673), crew]
    }

    fn channels(&self) -> Vec<Channel> {
        let channel = |n, kind, name: &str, position| Channel { position, ..Channel::new(id(n), id(100), kind, name) };
        let thread = |n, name: &str, parent_id, thread| Channel {
            parent_id: Some(id(parent_id)),
            thread: Some(Box::new(thread)),
            ..channel(n, ChannelType::PublicThread, name, 0)
        };
        let tag = ForumTag {
            id: id(970),
            name: "rope".to_owned(),
            moderated: true,
            emoji_id: None,
            emoji_name: Some("🪢".to_owned()),
        };
        let forum = ForumFields {
            available_tags: vec![tag],
            default_reaction_emoji: Some(DefaultReaction { emoji_id: None, emoji_name: Some("👍".to_owned()) }),
            default_sort_order: Some(1),
            default_forum_layout: 2,
            flags: 16,
        };
        let pier = Channel {
            overwrites: vec![
                Overwrite { target: OverwriteKind::Role(id(103)), allow: Permissions(1024), deny: Permissions::NONE },
                Overwrite { target: OverwriteKind::Member(id(12)), allow: Permissions::NONE, deny: Permissions(2048) },
            ],
            parent_id: Some(id(104)),
            topic: Some("Tides & times".to_owned()),
            nsfw: true,
            last_message_id: Some(id(if self.has(RESOURCES) { 504 } else { 503 })),
            last_pin_timestamp: Some(at("2026-11-21T10:00:00Z")),
            rate_limit_per_user: 5,
            default_thread_rate_limit_per_user: self.since(DELETED, 10),
            default_auto_archive_duration: self.since(DELETED, 1440),
            ..channel(101, ChannelType::Text, "pier", 1)
        };
        let leak = ThreadFields {
            owner_id: id(12),
            archived: true,
            archive_timestamp: at("2026-11-22T09:00:00Z"),
            auto_archive_duration: 60,
            locked: true,
            invitable: false,
            message_count: 1,
            total_message_sent: 2,
            applied_tags: Vec::new(),
        };
        let knot = ThreadFields {
            owner_id: id(11),
            archived: false,
            archive_timestamp: at("2026-11-24T09:00:00Z"),
            auto_archive_duration: 4320,
            locked: false,
            invitable: false,
            message_count: 0,
            total_message_sent: 0,
            applied_tags: vec![id(970)],
        };
        let mut channels = vec![
            pier,
            Channel { user_limit: 7, ..channel(102, ChannelType::Voice, "Radio", 2) },
            channel(104, ChannelType::Category, "Docks", 0),
            channel(107, ChannelType::Stage, "Mole", 5),
        ];
        if self.has(RESOURCES) {
            let questions = Channel {
                forum: self.since(DELETED, Box::new(forum)),
                ..channel(106, ChannelType::Forum, "questions", 4)
            };
            let leak = Channel { last_message_id: Some(id(505)), ..thread(105, "a leak", 101, leak) };
            channels.extend([leak, questions, thread(108, "a knot", 106, knot)]);
        }
        channels.sort_by_key(|channel| channel.id);
        channels
    }

    fn members(&self) -> Vec<Member> {
        let member = |user, hour| Member::new(Arc::new(user), at(&format!("2026-11-21T{hour:02}:00:00Z")));
        let [ada, bert, cog, _] = self.accounts();
        let pictures = MemberPictures { avatar: Some("m_11".into()), banner: Some("n_11".into()) };
        let ada = Member {
            nick: Some("captain".into()),
            roles: [id(103)].into_iter().collect(),
            deaf: true,
            mute: true,
            flags: 2,
            communication_disabled_until: Some(at("2027-01-01T00:00:00.5Z")),
            pictures: self.since(EXTERNAL_IDS, Box::new(pictures)),
            ..member(ada, 4)
        };
        vec![ada, member(bert, 5), member(cog, 6)]
    }

    /// Messages of channel 101, newest first.
    fn messages(&self) -> Vec<Message> {
        let message = |n, author| Message::new(id(n), id(101), GuildId::new(100), author);
        // As they were then: without pictures that came later.
        let author = User { banner: None, public_flags: 0, ..self.ada() };
        let attachment = Attachment {
            id: id(940),
            filename: "tide.png".to_owned(),
            size: 2048,
            url: "/attachments/101/940/tide.png".to_owned(),
            content_type: Some("image/png".to_owned()),
            description: Some("a table".to_owned()),
            height: Some(480),
            width: Some(640),
        };
        let gauge = User { discriminator: "0000".to_owned(), bot: true, ..User::new(id(950), "tide gauge") };
        let mut messages = vec![
            Message {
                attachments: self.list(DIRECTS, vec![attachment]),
                sticker_items: self
                    .list(DIRECTS, vec![StickerItem { id: id(910), name: "wave".to_owned(), format_type: 1 }]),
                ..message(503, account(11, "ada"))
            },
            Message {
                content: "<@11> <@&103> thanks".to_owned(),
                edited_timestamp: Some(at("2026-11-21T10:05:00.25Z")),
                mention_everyone: true,
                mentions: vec![account(11, "ada")],
                mention_roles: vec![id(103)],
                embeds: vec![json!({ "title": "chart", "type": "rich" })],
                components: vec![json!({ "components": [], "type": 1 })],
                kind: Message::KIND_REPLY,
                flags: 4,
                message_reference: Some(MessageReference {
                    message_id: id(501),
                    channel_id: id(101),
                    guild_id: Some(id(100)),
                }),
                ..message(502, account(12, "bert"))
            },
            Message {
                content: "high tide at six".to_owned(),
                tts: true,
                pinned: true,
                ..message(501, Arc::new(author))
            },
        ];
        if self.has(RESOURCES) {
            let gauge =
                Message { content: "4.2 m".to_owned(), webhook_id: Some(id(950)), ..message(504, Arc::new(gauge)) };
            messages.insert(0, gauge);
        }
        messages
    }

    fn resources(&self) -> Vec<GuildResource> {
        if !self.has(RESOURCES) {
            return Vec::new();
        }
        let ban = Ban { user: account(14, "dora"), reason: Some("pirate".to_owned()) };
        let invite = Invite {
            code: "0Abc1234".parse().unwrap(),
            guild_id: id(100),
            channel_id: id(101),
            inviter: Some(account(11, "ada")),
            created_at: at("2026-11-22T07:00:00Z"),
            max_age_s: 86_400,
            max_uses: 5,
            temporary: true,
            uses: 2,
        };
        let webhook = Webhook {
            id: id(950),
            guild_id: id(100),
            channel_id: id(101),
            name: "tide gauge".to_owned(),
            avatar: Some("w_950".to_owned()),
            token: "secret-of-950".to_owned(),
            user: Some(account(11, "ada")),
            source: None,
            application_id: Some(id(13)),
        };
        let pin = Pin { channel_id: id(101), message_id: id(501), pinned_at: at("2026-11-21T10:00:00Z") };
        let thread_member =
            ThreadMember { thread_id: id(105), user_id: id(12), join_timestamp: at("2026-11-22T08:00:00Z"), flags: 1 };
        let mut resources = vec![
            GuildResource::Ban(Arc::new(ban)),
            GuildResource::Invite(Arc::new(invite)),
            GuildResource::Webhook(Arc::new(webhook)),
            GuildResource::Pin(pin),
            GuildResource::ThreadMember(thread_member),
        ];
        if self.has(ATTACHMENTS) {
            resources.push(GuildResource::TemporaryMember(id(13)));
        }
        if self.has(DELETED) {
            let change =
                AuditChange { key: "nick".to_owned(), old_value: Some(json!("d")), new_value: Some(json!("dora")) };
            let entry = AuditEntry {
                id: id(960),
                action: AuditAction::MemberBanAdd,
                user_id: id(11),
                target_id: Some(id(14)),
                changes: vec![change],
                options: [("delete_member_days".to_owned(), json!("1"))].into_iter().collect(),
                reason: Some("pirate".to_owned()),
            };
            resources.push(GuildResource::AuditEntry(Arc::new(entry)));
        }
        resources
    }

    /// Reads each object of a store and compares it.
    async fn check(&self, store: &dyn Store) {
        self.check_guilds(store).await;
        self.check_messages(store).await;
        self.check_search(store).await;
        self.check_resources(store).await;
        self.check_directs(store).await;
        self.check_reading(store).await;
        self.check_deleted(store).await;
        self.check_node(store).await;
        self.check_events(store).await;
    }

    async fn check_events(&self, store: &dyn Store) {
        let bounds = self.since(EVENTS, EventBounds { pruned: 2, newest: 3 }).unwrap_or_default();
        assert_eq!(store.event_bounds().await.unwrap(), bounds, "version {}", self.version);
        let event = StoredEvent {
            position: 3,
            at: Timestamp(1_764_400_000_000),
            kind: 2,
            guild_id: Some(id(100)),
            channel_id: Some(id(101)),
            data: r#"{"id":"501","channel_id":"101","guild_id":"100"}"#.to_owned(),
        };
        let events = store.events(0, bounds.newest, EventFilter::ALL, 10).await.unwrap();
        assert_eq!(events, self.list(EVENTS, vec![event]), "version {}", self.version);
    }

    /// The migration marks direct messages as read. Earlier messages have no rows in `mentions`.
    async fn check_reading(&self, store: &dyn Store) {
        let version = self.version;
        let of_pier = ReadState {
            last_message_id: id(501),
            last_pin_timestamp: Some(at("2026-11-21T10:00:00Z")),
            flags: 1,
            last_viewed: 4_000,
            ..ReadState::new(id(101))
        };
        let of_direct = ReadState { last_message_id: id(701), ..ReadState::new(id(700)) };
        let mut expected = self.list(READ_STATES, vec![of_pier]);
        expected.extend(self.since(DIRECTS, of_direct));
        assert_eq!(store.read_states(id(11), 10).await.unwrap(), expected, "version {version}");
        let mention = UnreadMention { channel_id: id(101), message_id: id(502), target: MentionTarget::User };
        let expected = self.list(READ_STATES, vec![mention]);
        assert_eq!(store.unread_mentions(id(11)).await.unwrap(), expected, "version {version}");
    }

    async fn check_guilds(&self, store: &dyn Store) {
        let version = self.version;
        let harbour =
            Loaded { guild: self.harbour(), roles: self.roles(), channels: self.channels(), members: self.members() };
        assert_eq!(load(store, id(100)).await, Some(harbour), "version {version}");
        let quay = Loaded {
            guild: Guild::new(id(200), "Quay", id(12)),
            roles: vec![role(200, "@everyone", 1024)],
            channels: vec![Channel::new(id(201), id(200), ChannelType::Text, "general")],
            members: vec![Member::new(account(12, "bert"), at("2026-11-21T07:00:00Z"))],
        };
        assert_eq!(load(store, id(200)).await, Some(quay), "version {version}");
        assert_eq!(store.guild_ids(id(0), 10).await.unwrap(), [id(100), id(200)], "version {version}");
        assert_eq!(store.guilds_of_user(id(12), 10).await.unwrap(), [id(100), id(200)], "version {version}");
        assert_eq!(store.guild_of_channel(id(102)).await.unwrap(), Some(id(100)), "version {version}");
        assert!(store.have_common_guild([id(11), id(12)]).await.unwrap(), "version {version}");
        let accounts: Vec<User> = store.users(id(0), 10).await.unwrap().iter().map(|user| User::clone(user)).collect();
        assert_eq!(accounts, self.accounts(), "version {version}");
        assert_eq!(store.user(id(11)).await.unwrap().as_deref(), Some(&self.ada()), "version {version}");
        let named = store.users_named("bert", 10).await.unwrap();
        assert_eq!(named.iter().map(|user| user.id).collect::<Vec<_>>(), [id(12)], "version {version}");
        let ids: Vec<_> = self.accounts().iter().map(|user| user.id).collect();
        let stored = store.user_versions(&ids).await.unwrap();
        let versions: BTreeMap<u64, u64> = stored.iter().map(|(user, version)| (user.id.get(), version.0)).collect();
        let of_bert = self.since(ACCOUNT_VERSIONS, 3).unwrap_or(1);
        assert_eq!(versions, BTreeMap::from([(11, 1), (12, of_bert), (13, 1), (14, 1)]), "version {version}");
    }

    /// Messages of every version are found once they are indexed.
    async fn check_search(&self, store: &dyn Store) {
        let version = self.version;
        while store.index_messages(2).await.unwrap() != SearchIndex::Current {}
        let found = async |content: &str| {
            let search = MessageSearch {
                guild_id: Some(id(100)),
                channels: vec![id(101), id(105)],
                content: content.to_owned(),
                limit: 25,
                ..MessageSearch::default()
            };
            let page = store.search_messages(&search).await.unwrap();
            page.messages.iter().map(|(_, message_id)| message_id.get()).collect::<Vec<_>>()
        };
        assert_eq!(found("TIDE").await, [501], "version {version}");
        assert_eq!(found("thanks").await, [502], "version {version}");
        assert_eq!(found("leaks").await, self.list(RESOURCES, vec![505]), "version {version}");
        assert_eq!(found("4 2").await, self.list(RESOURCES, vec![504]), "version {version}");
    }

    async fn check_messages(&self, store: &dyn Store) {
        let version = self.version;
        let records = store.messages(id(101), Page::Newest, 10).await.unwrap();
        let messages: Vec<Message> = records.iter().map(|record| Message::clone(&record.message)).collect();
        assert_eq!(messages, self.messages(), "version {version}");
        let of_first = [(unicode("🔥"), vec![12, 11]), (custom(900, "anchor"), vec![13])];
        assert_eq!(reactions(store, 101, 501).await, of_first, "version {version}");
        assert_eq!(reactions(store, 101, 502).await, [(unicode("👍"), vec![11])], "version {version}");
        let users = store.reaction_users(id(101), id(501), &unicode("🔥"), id(0), 10).await.unwrap();
        assert_eq!(users, [self.ada(), User::new(id(12), "bert")], "version {version}");
        let by_ada = store.messages_by(id(101), id(11), id(0), 10).await.unwrap();
        assert_eq!(by_ada, [id(501), id(503)], "version {version}");
        if self.has(RESOURCES) {
            let record = store.message(id(105), id(505)).await.unwrap().unwrap();
            let leaks = Message {
                content: "it leaks".to_owned(),
                ..Message::new(id(505), id(105), GuildId::new(100), account(12, "bert"))
            };
            assert_eq!(*record.message, leaks, "version {version}");
        }

        // Earlier versions did not store which messages have a file.
        let in_use = store.attachments_in_use(&[id(940), id(941)]).await.unwrap();
        let expected: BTreeSet<Id<()>> = self.since(ATTACHMENTS, id(940)).into_iter().collect();
        assert_eq!(in_use, expected, "version {version}");

        let mut messages = vec![(id(101), id(501)), (id(101), id(503))];
        messages.extend(self.since(DIRECTS, (id(700), id(701))));
        let reactions = vec![((id(101), id(501)), unicode("🔥")), ((id(101), id(502)), unicode("👍"))];
        let content = store.content_of(id(11), (id(0), id(0)), 100).await.unwrap();
        assert_eq!(content, ContentOf { messages, reactions, next: None }, "version {version}");

        // Threads have the retention of the channel that they are in.
        let ages = store.message_ages(id(0), 100).await.unwrap();
        let age = |n| ages.iter().copied().find(|age: &MessageAge| age.channel_id == id(n));
        let expected = |channel_id, oldest: Option<u64>, keep_days| {
            let keep_days = self.since(RETENTION, keep_days).flatten();
            Some(MessageAge { channel_id: id(channel_id), guild_id: id(100), oldest: oldest.map(id), keep_days })
        };
        assert_eq!(age(101), expected(101, Some(501), Some(0)), "version {version}");
        assert_eq!(age(102), expected(102, None, Some(30)), "version {version}");
        if self.has(RESOURCES) {
            assert_eq!(age(105), expected(105, Some(505), Some(0)), "version {version}");
        }
        assert_eq!(store.keep_days(100).await.unwrap(), self.since(RETENTION, 30), "version {version}");
        assert_eq!(store.keep_days(101).await.unwrap(), self.since(RETENTION, 0), "version {version}");
    }

    async fn check_resources(&self, store: &dyn Store) {
        let version = self.version;
        let mut resources = store.load_guild(id(100)).await.unwrap().unwrap().resources;
        resources.sort_by_key(GuildResource::key);
        assert_eq!(resources, self.resources(), "version {version}");
        let invite = "0Abc1234".parse::<guildhall_model::InviteCode>().unwrap().number();
        for (kind, n) in [(ResourceKind::Invite, invite), (ResourceKind::Webhook, 950)] {
            let guild_id = store.guild_of_resource(kind, n).await.unwrap();
            assert_eq!(guild_id, self.since(RESOURCES, id(100)), "version {version}");
        }
        let banned_in = store.guilds_with_ban(id(14), id(0), 10).await.unwrap();
        assert_eq!(banned_in, self.list(RESOURCES, vec![id(100)]), "version {version}");

        let names = store.pictures_in_use(&[PictureOwner::User(id(11)), PictureOwner::Guild(id(100))]).await.unwrap();
        let expect = |names: &[(i64, &str)]| -> BTreeSet<String> {
            names.iter().filter(|(since, _)| self.has(*since)).map(|(_, name)| (*name).to_owned()).collect()
        };
        let of_ada = expect(&[(1, "a_11"), (EXTERNAL_IDS, "b_11")]);
        let of_harbour = expect(&[
            (1, "emoji-900"),
            (1, "i_100"),
            (RESOURCES, "sticker-910"),
            (EXTERNAL_IDS, "b_100"),
            (EXTERNAL_IDS, "d_100"),
            (EXTERNAL_IDS, "s_100"),
            (RETENTION, "event-920-e_920"),
        ]);
        assert!(names[0].is_superset(&of_ada), "version {version}: {names:?}");
        assert_eq!(names[1], of_harbour, "version {version}");
        let of_member = store.pictures_in_use(&[PictureOwner::Member(id(100), id(11))]).await.unwrap();
        assert_eq!(of_member, [expect(&[(EXTERNAL_IDS, "m_11"), (EXTERNAL_IDS, "n_11")])], "version {version}");

        let external = [
            (ExternalKind::User, 11, "crm-11"),
            (ExternalKind::Guild, 100, "harbour"),
            (ExternalKind::Channel, 101, "pier"),
        ];
        for (kind, n, text) in external {
            let expected = self.list(EXTERNAL_IDS, vec![ExternalId { id: n, text: text.to_owned() }]);
            assert_eq!(store.with_external_ids(kind, &[text.to_owned()]).await.unwrap(), expected, "version {version}");
            assert_eq!(store.external_ids(kind, &[n]).await.unwrap(), expected, "version {version}");
        }
    }

    async fn check_directs(&self, store: &dyn Store) {
        let version = self.version;
        let directs = store.directs_of_user(id(11), 10).await.unwrap();
        assert_eq!(store.directs_of_user(id(12), 10).await.unwrap(), [], "version {version}: closed, or not there");
        let pair = store.direct_of_pair([id(12), id(11)]).await.unwrap();
        let promised = store.direct_of_pair([id(12), id(13)]).await.unwrap();
        if !self.has(DIRECTS) {
            assert_eq!((directs.len(), pair, promised), (0, None, None), "version {version}");
            return;
        }
        assert_eq!((pair, promised), (Some(id(700)), Some(id(710))), "version {version}");
        let channel = Channel {
            last_message_id: Some(id(701)),
            direct: Some(Box::new(DirectFields { owner_id: None, closed_by: vec![id(12)] })),
            ..Channel::new(id(700), id(700), ChannelType::Dm, "")
        };
        let [direct] = &directs[..] else { panic!("version {version}: {directs:?}") };
        assert_eq!(*direct.channel, channel, "version {version}");
        let mut recipients: Vec<_> = direct.recipients.iter().map(|user| user.id).collect();
        recipients.sort();
        assert_eq!(recipients, [id(11), id(12)], "version {version}");
        let loaded = load(store, id(700)).await.unwrap();
        assert_eq!(loaded.guild, Guild { is_direct: true, ..Guild::new(id(700), "", id(0)) }, "version {version}");
        assert_eq!(loaded.roles, [role(700, "@everyone", 104_324_673)], "version {version}");
        assert_eq!(loaded.members.len(), 2, "version {version}");
        let record = store.message(id(700), id(701)).await.unwrap().unwrap();
        let message =
            Message { content: "between us".to_owned(), ..Message::new(id(701), id(700), None, account(11, "ada")) };
        assert_eq!(*record.message, message, "version {version}");
    }

    /// Guild 300 was deleted, and its content not yet purged.
    async fn check_deleted(&self, store: &dyn Store) {
        let version = self.version;
        assert_eq!(load(store, id(300)).await, None, "version {version}");
        assert_eq!(store.guild_of_channel(id(301)).await.unwrap(), None, "version {version}");
        assert_eq!(page(store, 301, Page::Newest, 10).await, [0; 0], "version {version}");
        let content = store.content_of(id(12), (id(300), id(0)), 100).await.unwrap();
        let in_301 = content.messages.iter().filter(|place| place.0 == id(301)).count();
        assert!(in_301 <= 1, "version {version}: the purge may not have ended");
    }

    async fn check_node(&self, store: &dyn Store) {
        let version = self.version;
        let created_at = Timestamp(1_795_237_200_000);
        let token = TokenRecord { user_id: id(11), created_at };
        let hash = TokenHash::of("token of ada");
        assert_eq!(store.token(hash).await.unwrap().as_ref(), Some(&token), "version {version}");
        assert_eq!(store.tokens_of_user(id(11), 10).await.unwrap(), [(hash, token)], "version {version}");
        let of_cog = TokenRecord { user_id: id(13), created_at: Timestamp(created_at.0 + 1) };
        assert_eq!(store.token(TokenHash::of("token of cog")).await.unwrap(), Some(of_cog), "version {version}");
        let secret: Vec<u8> = (0..32).collect();
        assert_eq!(store.setting("jwt_secret").await.unwrap(), Some(secret), "version {version}");
        let record = (TokenHash::of("revoked").0.to_vec(), 1_800_000_000_u64.to_be_bytes().to_vec());
        let records = store.records("revoked_token", &[], 10).await.unwrap();
        assert_eq!(records, self.list(RECORDS, vec![record]), "version {version}");
        let largest = match version {
            DIRECTS..ATTACHMENTS => 710,
            ATTACHMENTS.. => 940,
            RESOURCES..DIRECTS => 505,
            _ => 503,
        };
        assert_eq!(store.largest_id().await.unwrap(), largest, "version {version}");
    }
}

fn role(n: u64, name: &str, permissions: u64) -> Role {
    Role {
        id: id(n),
        name: name.to_owned(),
        color: 0,
        hoist: false,
        position: 0,
        permissions: Permissions(permissions),
        managed: false,
        mentionable: false,
        icon: None,
    }
}
