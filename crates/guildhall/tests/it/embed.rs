//! A node inside a program: settings, hooks for tokens and messages (`guildhall::Server`).

use crate::{
    support::{Answer, Http},
    test_node::{Client, EVERYTHING, Person},
};
use guildhall::{
    Server, ServerError, async_trait,
    model::User,
    node::{Authenticate, Author, Draft, Identity, Review, ReviewMessage, TokenCheck},
};
use guildhall_model::UserId;
use serde_json::{Value, json};
use std::{future::pending, net::SocketAddr, path::Path, sync::Arc};
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Tokens `game:NAME`; some names have other results.
struct Logins;

#[async_trait]
impl Authenticate for Logins {
    async fn authenticate(&self, token: &str) -> TokenCheck {
        match token.strip_prefix("game:") {
            None => TokenCheck::NotMine,
            Some("banned") => TokenCheck::Invalid,
            Some("away") => TokenCheck::Unavailable,
            Some("old") => TokenCheck::Valid(Identity { expires_at_s: Some(1), ..Identity::new("old") }),
            Some(name) => TokenCheck::Valid(Identity { username: Some(name.to_uppercase()), ..Identity::new(name) }),
        }
    }
}

/// Decides by the words of a text.
struct Words;

#[async_trait]
impl ReviewMessage for Words {
    async fn review(&self, draft: Draft<'_>) -> Review {
        match draft.content {
            text if text.contains("stall") => pending().await,
            text if text.contains("spam") => Review::Refuse,
            "who" => Review::Replace(match draft.author {
                Author::User(_) => "an account".to_owned(),
                Author::Webhook(_) => "a webhook".to_owned(),
            }),
            "long" => Review::Replace("x".repeat(2_001)),
            _ => Review::Publish,
        }
    }
}

struct Embedded {
    runtime: Runtime,
    server: Option<Server>,
    dir: TempDir,
}

fn start(runtime: &Runtime, dir: &Path) -> Server {
    let builder = Server::builder()
        .toml("embedded.toml", "[limits]\nrest_rate_percent = 0\n[server]\ndrain_timeout_ms = 6000\n")
        .set("server.partitions", "1")
        .data_dir(dir.to_str().expect("a path"))
        .listen("127.0.0.1:0")
        .authenticate(Logins)
        .review_messages(Words);
    runtime.block_on(builder.start()).expect("it starts")
}

impl Embedded {
    fn new() -> Self {
        let (runtime, dir) = (Runtime::new().expect("a runtime"), tempfile::tempdir().expect("a folder"));
        let server = start(&runtime, dir.path());
        Self { runtime, server: Some(server), dir }
    }

    fn server(&self) -> &Server {
        self.server.as_ref().expect("it runs")
    }

    fn addr(&self) -> SocketAddr {
        self.server().local_addr()
    }

    fn restart(&mut self) {
        let server = self.server.take().expect("it runs");
        self.runtime.block_on(server.stop());
        self.server = Some(start(&self.runtime, self.dir.path()));
    }

    fn me(&self, token: &str) -> Answer {
        Http::new(self.addr(), token).request("GET", "/api/v10/users/@me", None).expect("the server answers")
    }

    fn person(&self, name: &str) -> Person {
        let token = format!("game:{name}");
        let me = self.me(&token);
        assert_eq!(me.status, 200, "{me:?}");
        Person { id: me.body["id"].as_str().expect("an id").to_owned(), token, addr: self.addr() }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.stop());
        }
    }
}

#[test]
fn h2_the_account_of_a_subject_outlives_a_restart() {
    let mut embedded = Embedded::new();
    let ana = embedded.person("ana");
    assert_eq!(embedded.me(&ana.token).body["username"], "ANA");
    assert_ne!(embedded.person("bob").id, ana.id);
    assert_eq!(Client::connect(embedded.addr(), &ana, json!({"intents": 1})).ready["user"]["id"], *ana.id);
    embedded.restart();
    assert_eq!(embedded.person("ana").id, ana.id);
}

#[test]
fn the_hook_refuses_tokens_and_leaves_others_to_the_node() {
    let embedded = Embedded::new();
    assert_eq!(embedded.me("game:banned").status, 401);
    assert_eq!(embedded.me("game:old").status, 401, "its end has passed");
    assert_eq!(embedded.me("game:away").status, 503);
    assert_eq!(embedded.me("game").status, 401, "the node does not know it either");
    let node = embedded.server().node();
    let token = embedded.runtime.block_on(async {
        node.put_user(Arc::new(User { bot: true, ..User::new(UserId::new(7), "bot") })).await.expect("it is stored");
        node.mint_bot_token(UserId::new(7)).await.expect("it is stored")
    });
    assert_eq!(embedded.me(&format!("Bot {token}")).body["id"], "7");
}

/// A guild of `owner` with a second member; its first channel.
fn guild(owner: &Person, member: &Person) -> (String, String) {
    let guild = owner.done("POST", "/guilds", json!({"name": "guild"}))["id"].as_str().expect("an id").to_owned();
    let channel = owner.get(&format!("/guilds/{guild}/channels"))[0]["id"].as_str().expect("an id").to_owned();
    let invite = owner.done("POST", &format!("/channels/{channel}/invites"), json!({}));
    member.done("POST", &format!("/invites/{}", invite["code"].as_str().expect("a code")), json!({}));
    (guild, channel)
}

#[test]
fn h1_a_refused_text_is_stored_nowhere_and_reaches_no_client() {
    let embedded = Embedded::new();
    let (ana, bob) = (embedded.person("ana"), embedded.person("bob"));
    let (guild, channel) = guild(&ana, &bob);
    let mut client = Client::connect(embedded.addr(), &bob, json!({"intents": EVERYTHING}));
    let messages = format!("/channels/{channel}/messages");
    let text = |content: &str| json!({ "content": content });

    ana.refused("POST", &messages, text("buy spam"), 400, 200_000);
    ana.refused("POST", &messages, text("long"), 400, 200_000);
    let stalled = ana.request("POST", &messages, text("stall"));
    assert_eq!(stalled.status, 503, "the hook did not answer in time: {stalled:?}");
    let first = ana.done("POST", &messages, text("hello"));
    assert_eq!(client.event("MESSAGE_CREATE")["content"], "hello", "the texts before it reached no client");

    let first = format!("{messages}/{}", first["id"].as_str().expect("an id"));
    ana.refused("PATCH", &first, text("spam"), 400, 200_000);
    assert_eq!(ana.done("PATCH", &first, text("who"))["content"], "an account");
    assert_eq!(client.event("MESSAGE_UPDATE")["content"], "an account");

    let webhook = ana.done("POST", &format!("/channels/{channel}/webhooks"), json!({"name": "hook"}));
    let webhook =
        format!("/webhooks/{}/{}", webhook["id"].as_str().expect("an id"), webhook["token"].as_str().expect("a token"));
    ana.refused("POST", &webhook, text("spam"), 400, 200_000);
    assert_eq!(ana.done("POST", &format!("{webhook}?wait=true"), text("who"))["content"], "a webhook");

    let forum = ana.done("POST", &format!("/guilds/{guild}/channels"), json!({"name": "forum", "type": 15}));
    let posts = format!("/channels/{}/threads", forum["id"].as_str().expect("an id"));
    ana.refused("POST", &posts, json!({"name": "post", "message": text("spam")}), 400, 200_000);
    let dm = ana.done("POST", "/users/@me/channels", json!({"recipient_id": bob.id}));
    let dm = format!("/channels/{}/messages", dm["id"].as_str().expect("an id"));
    ana.refused("POST", &dm, text("spam"), 400, 200_000);

    let history: Vec<Value> = ana.get(&messages).as_array().expect("a list").clone();
    let contents: Vec<&str> = history.iter().filter_map(|message| message["content"].as_str()).collect();
    assert_eq!(contents, ["a webhook", "an account"]);
}

#[test]
fn a_wrong_setting_is_named() {
    let runtime = Runtime::new().expect("a runtime");
    let started = runtime.block_on(Server::builder().set("limits.replay_events", "many").set("no.such", "1").start());
    let Err(ServerError::Settings(error)) = started else { panic!("it must not start") };
    let error = error.to_string();
    assert!(error.contains("limits.replay_events") && error.contains("no.such"), "{error}");
}

/// The page has the program as it is compiled.
#[test]
fn the_example_of_the_page_compiles() {
    let page = include_str!("../../../../docs/embedding.md");
    let program = include_str!("../../examples/embed.rs");
    let (_, program) = program.split_once("\n\n").expect("a header");
    assert!(page.contains(&format!("```rust\n{program}```")), "docs/embedding.md and examples/embed.rs differ");
}
