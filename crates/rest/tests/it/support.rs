//! Support: a node with one guild in a store, a clock that tests advance, and requests without sockets.

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, Request, StatusCode},
};
use guildhall_files::Bucket;
use guildhall_guild::{Actor, Command, NewChannel, NewGuild, NewRole, Reply};
use guildhall_guild_protocol::{HiddenChannels, PartitionId, ToRelay};
use guildhall_http_kit::Peer;
use guildhall_media::{Files, FilesOptions, files_router};
use guildhall_model::{
    Channel, ChannelId, ChannelType, Guild, GuildId, Overwrite, OverwriteKind, Permissions, RoleId, User, UserId,
};
use guildhall_node::{Clock, Node, NodeConfig, RelaySink};
use guildhall_rest::{ApiLimits, ApiState, NoStreams, SessionStartLimit, router};
use guildhall_stdx::Now;
use guildhall_store::{MemoryStore, Store};
use serde_json::Value;
use std::{
    fmt::Debug,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tower::ServiceExt;

/// Longer than anything takes that a test waits for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a state; the panic shows what there is instead.
pub async fn until<T, S: Debug>(what: &str, mut state: impl AsyncFnMut() -> Result<T, S>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match state().await {
            Ok(reached) => return reached,
            Err(instead) => assert!(Instant::now() < deadline, "{PATIENCE:?} without {what}: {instead:?}"),
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Where the wall clock starts.
pub const UNIX_MS: i64 = 1_750_000_000_000;
pub const GATEWAY_URL: &str = "ws://gw.example.net:8080";

/// A clock that only `advance_ms` moves.
#[derive(Default)]
pub struct StillClock(AtomicU64);

impl StillClock {
    pub fn advance_ms(&self, ms: u64) {
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for StillClock {
    fn now(&self) -> Now {
        let ms = self.0.load(Ordering::SeqCst);
        Now::new(ms, UNIX_MS + ms as i64)
    }
}

/// No relay listens.
struct NoRelays;

impl RelaySink for NoRelays {
    fn try_deliver(&self, _: PartitionId, _: ToRelay) -> Result<(), ToRelay> {
        Ok(())
    }
}

/// An account with its token.
#[derive(Clone)]
pub struct Account {
    pub id: UserId,
    pub token: String,
}

/// A guild with people in it, and the API in front.
pub struct World {
    pub node: Node,
    pub clock: Arc<StillClock>,
    pub api: Router,
    pub guild: GuildId,
    /// All members may read and write here.
    pub general: ChannelId,
    /// Owns the guild; a user account.
    pub ana: Account,
    /// A member; a user account.
    pub bob: Account,
    /// Not in the guild; a user account.
    pub eve: Account,
    /// A member; a bot without any privileged intent.
    pub bot: Account,
    /// A member; a bot with all of them.
    pub trusted: Account,
}

/// A received response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: String,
    pub bytes: Vec<u8>,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The answer is this, exactly.
    #[track_caller]
    pub fn is(&self, status: u16, body: Value) {
        assert_eq!((self.status, self.json()), (status, body));
    }

    /// The answer has this status and, if it is an error, this code.
    #[track_caller]
    pub fn has(&self, status: u16, code: u32) {
        assert_eq!(self.status, status, "{}", self.body);
        if status >= 400 {
            assert_eq!(self.json()["code"], code, "{}", self.body);
        }
    }

    /// The status is 204, without a body.
    #[track_caller]
    pub fn is_done(&self) {
        assert_eq!((self.status, self.body.as_str()), (204, ""));
    }
}

impl World {
    /// A world without rate limits.
    pub async fn new() -> Self {
        Self::with(ApiLimits::unlimited(), Arc::new(MemoryStore::new())).await
    }

    pub async fn limited(limits: ApiLimits) -> Self {
        Self::with(limits, Arc::new(MemoryStore::new())).await
    }

    /// Channels out of view have this form.
    pub async fn hiding(hidden_channels: HiddenChannels) -> Self {
        Self::made(ApiLimits::unlimited(), Arc::new(MemoryStore::new()), hidden_channels, None).await
    }

    pub async fn with(limits: ApiLimits, store: Arc<dyn Store>) -> Self {
        Self::made(limits, store, HiddenChannels::default(), None).await
    }

    /// A world without rate limits that keeps files in `dir`.
    pub async fn with_files(dir: &std::path::Path, bytes_max: u64) -> Self {
        Self::with_files_in(dir, None, bytes_max).await
    }

    /// A world without rate limits that keeps files in a bucket, or without one in `dir`.
    pub async fn with_files_in(dir: &std::path::Path, bucket: Option<Bucket>, bytes_max: u64) -> Self {
        Self::with_shares(dir, bucket, bytes_max, [100, 100, 0]).await
    }

    /// The same with shares of an account, a guild and pictures, percent.
    pub async fn with_shares(
        dir: &std::path::Path,
        bucket: Option<Bucket>,
        bytes_max: u64,
        [account_day_percent, guild_percent, pictures_percent]: [u32; 3],
    ) -> Self {
        let options = FilesOptions {
            dir: dir.join("files"),
            bucket,
            base_url: "http://files.example.net".to_owned(),
            secret: vec![7; 32],
            account_day_percent,
            guild_percent,
            pictures_percent,
            bytes_max,
            file_bytes_max: 1 << 20,
            picture_bytes_max: 300 << 10,
            sweep_every: std::time::Duration::from_secs(600),
            links_expire_s: 0,
        };
        let files = Files::open(options, Arc::new(StillClock::default())).await.unwrap();
        let store = Arc::new(MemoryStore::new());
        Self::made(ApiLimits::unlimited(), store, HiddenChannels::default(), Some(files)).await
    }

    async fn made(
        limits: ApiLimits,
        store: Arc<dyn Store>,
        hidden_channels: HiddenChannels,
        files: Option<Files>,
    ) -> Self {
        let served = files.clone().map(|files| files_router(files, store.clone()));
        let clock = Arc::new(StillClock::default());
        let config = NodeConfig { guild_workers_count: 1, jwt_secret: vec![7; 32], worker_mailbox_max: 1024 };
        let node = Node::start(config, store, clock.clone(), Arc::new(NoRelays));
        let flags = User::APPLICATION_PRESENCE | User::APPLICATION_GUILD_MEMBERS | User::APPLICATION_MESSAGE_CONTENT;
        let ana = account(&node, 100, "ana", None).await;
        let bob = account(&node, 101, "bob", None).await;
        let eve = account(&node, 102, "eve", None).await;
        let bot = account(&node, 200, "bot", Some(0)).await;
        let trusted = account(&node, 201, "trusted", Some(flags)).await;
        let owner = node.user(ana.id).await.unwrap().unwrap();
        let id: GuildId = node.next_id().await.unwrap();
        let new = NewGuild::new(Guild::new(id, "demo", ana.id), owner);
        let guild = node.create_guild(new).await.unwrap();
        for member in [&bob, &bot, &trusted] {
            let user = node.user(member.id).await.unwrap().unwrap();
            node.command(guild, Actor::System, Command::AddMember(user)).await.unwrap();
        }
        let general = channel(&node, guild, "general", Vec::new()).await;
        let api = router(ApiState {
            node: node.clone(),
            gateway_url: format!("{GATEWAY_URL}/").into(),
            is_gateway_url_local: false,
            limits,
            hidden_channels,
            clock: clock.clone(),
            session_starts: Arc::new(SessionStartLimit { remaining: 998, reset_after_ms: 5000, ..Default::default() }),
            own_streams: Arc::new(NoStreams),
            files,
            unserved: Arc::default(),
            dictionaries: Default::default(),
        });
        let api = served.into_iter().fold(api, Router::merge);
        Self { node, clock, api, guild, general, ana, bob, eve, bot, trusted }
    }

    /// A channel with overwrites.
    pub async fn channel(&self, name: &str, overwrites: Vec<Overwrite>) -> ChannelId {
        channel(&self.node, self.guild, name, overwrites).await
    }

    /// Denies permissions to all members.
    pub fn deny(&self, permissions: Permissions) -> Overwrite {
        Overwrite { target: OverwriteKind::Role(self.guild.cast()), allow: Permissions::NONE, deny: permissions }
    }

    /// Gives a member a new role.
    pub async fn grant(&self, member: &Account, permissions: Permissions) -> RoleId {
        let role = NewRole {
            id: None,
            name: "granted".to_owned(),
            color: 0,
            hoist: false,
            position: 1,
            permissions,
            managed: false,
            mentionable: false,
            icon: None,
        };
        let create = Command::CreateRole(Box::new(role));
        let Ok(Reply::Role(role)) = self.node.command(self.guild, Actor::System, create).await else { panic!() };
        let give = Command::AddMemberRole(member.id, role.id);
        self.node.command(self.guild, Actor::System, give).await.unwrap();
        role.id
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.api.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
            bytes: body.to_vec(),
        }
    }

    /// A request for a path below `/api/v10`.
    pub async fn call(&self, caller: &Account, method: &str, path: &str, body: Option<Value>) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/v10{path}"))
            .header("authorization", &caller.token)
            .header("content-type", "application/json");
        self.send(request.body(body.map_or(Body::empty(), |body| Body::from(body.to_string()))).unwrap()).await
    }

    pub async fn get(&self, caller: &Account, path: &str) -> Answer {
        self.call(caller, "GET", path, None).await
    }

    pub async fn post(&self, caller: &Account, path: &str, body: Value) -> Answer {
        self.call(caller, "POST", path, Some(body)).await
    }

    /// A request without an account, for a whole path.
    pub async fn anonymous(&self, method: &str, path: &str, from: &str) -> Answer {
        let request = Request::builder().method(method).uri(path).extension(Peer(from.parse().unwrap()));
        self.send(request.body(Body::empty()).unwrap()).await
    }

    /// Posts a message in a channel; returns its id.
    pub async fn say(&self, caller: &Account, channel_id: ChannelId, content: &str) -> String {
        self.clock.advance_ms(1);
        let path = format!("/channels/{channel_id}/messages");
        let answer = self.post(caller, &path, serde_json::json!({"content": content})).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        answer.json()["id"].as_str().unwrap().to_owned()
    }
}

async fn account(node: &Node, id: u64, name: &str, bot_flags: Option<u32>) -> Account {
    let id = UserId::new(id);
    let user = User { bot: bot_flags.is_some(), application_flags: bot_flags.unwrap_or(0), ..User::new(id, name) };
    node.put_user(Arc::new(user)).await.unwrap();
    let token = match bot_flags {
        Some(_) => format!("Bot {}", node.mint_bot_token(id).await.unwrap()),
        None => node.mint_user_token(id, 1 << 24).await.unwrap(),
    };
    Account { id, token }
}

async fn channel(node: &Node, guild: GuildId, name: &str, overwrites: Vec<Overwrite>) -> ChannelId {
    let new = NewChannel {
        name: name.to_owned(),
        kind: ChannelType::Text,
        topic: None,
        parent_id: None,
        position: None,
        overwrites,
        user_limit: 0,
    };
    let reply = node.command(guild, Actor::System, Command::CreateChannel(Box::new(new))).await;
    let Ok(Reply::Channel(channel)) = reply else { panic!("{reply:?}") };
    Channel::clone(&channel).id
}

/// The complaint about one field, as a whole body.
pub fn invalid_form(errors: Value) -> Value {
    serde_json::json!({"message": "Invalid Form Body", "code": 50035, "errors": errors})
}
