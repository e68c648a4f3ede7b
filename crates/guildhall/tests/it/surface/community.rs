//! Widget, welcome screen, vanity URL, onboarding and templates.

use crate::{
    support::exchange,
    test_node::{EVERYTHING, Person, TestNode},
};
use serde_json::{Value, json};

const NOTHING: Value = Value::Null;

fn id_of(value: &Value) -> String {
    value["id"].as_str().unwrap_or_else(|| panic!("no id: {value}")).to_owned()
}

fn channel(owner: &Person, guild: &str, name: &str, kind: u8) -> String {
    id_of(&owner.done("POST", &format!("/guilds/{guild}/channels"), json!({"name": name, "type": kind})))
}

#[test]
fn a_widget_shows_open_voice_channels_and_members_online_without_a_token() {
    let mut node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let bot = node.bot(200, "bot");
    let (guild, general) = node.guild(&ana, &[&bob, &bot]);
    let (open, closed) = (channel(&ana, &guild, "open", 2), channel(&ana, &guild, "closed", 2));
    let deny = json!({"type": 0, "deny": (1_u64 << 10).to_string()});
    ana.done("PUT", &format!("/channels/{closed}/permissions/{guild}"), deny);
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    let settings = format!("/guilds/{guild}/widget");
    let path = format!("/guilds/{guild}/widget.json");
    let anonymous = |node: &TestNode, path: &str| {
        let request = format!("GET /api/v10{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let raw = exchange(node.addr, request.as_bytes()).expect("an answer");
        (raw.status, raw.json())
    };
    let disabled = (403, json!({"code": 50004, "message": "Widget Disabled"}));
    for path in [path.as_str(), "/guilds/5/widget.json", "/guilds/x/widget.json"] {
        assert_eq!(anonymous(&node, path), disabled);
    }
    assert_eq!(ana.get(&settings), json!({"enabled": false, "channel_id": null}));
    bob.refused("PATCH", &settings, json!({"enabled": true}), 403, 50013);
    ana.refused("PATCH", &settings, json!({"channel_id": "5"}), 400, 50035);
    let wished = json!({"enabled": true, "channel_id": general});
    assert_eq!(ana.done("PATCH", &settings, wished.clone()), wished);
    let update = client.event("GUILD_UPDATE");
    assert_eq!((&update["widget_enabled"], &update["widget_channel_id"]), (&json!(true), &json!(general)));
    let log = ana.get(&format!("/guilds/{guild}/audit-logs?action_type=1"));
    assert_eq!(log["audit_log_entries"][0]["changes"][0]["key"], "widget_enabled");

    drop(client);
    node.restart();
    let (ana, bot) = (node.again(&ana), node.again(&bot));
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    let (status, widget) = anonymous(&node, &path);
    assert_eq!((status, &widget["id"], &widget["name"]), (200, &json!(guild), &json!("node")), "{widget}");
    assert_eq!(
        widget["channels"],
        json!([{"id": open, "name": "open", "position": widget["channels"][0]["position"]}])
    );
    assert_eq!((&widget["presence_count"], &widget["members"][0]["username"]), (&json!(1), &json!("bot")));
    assert_eq!(widget["members"][0]["id"], "0", "no id of an account");
    ana.done("DELETE", &format!("/channels/{general}"), NOTHING);
    assert_eq!(ana.get(&settings), json!({"enabled": true, "channel_id": null}));
}

#[test]
fn a_welcome_screen_comes_with_invites() {
    let mut node = TestNode::new();
    let (ana, bob, eve) = (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "eve"));
    let (guild, general) = node.guild(&ana, &[&bob]);
    let path = format!("/guilds/{guild}/welcome-screen");
    ana.refused("GET", &path, NOTHING, 404, 10069);
    let invite = ana.done("POST", &format!("/channels/{general}/invites"), json!({}));
    let invite = format!("/invites/{}", invite["code"].as_str().expect("a code"));
    let welcome = |emoji: &str| json!([{"channel_id": general, "description": "rules", "emoji_name": emoji}]);
    bob.refused("PATCH", &path, json!({"enabled": true}), 403, 50013);
    ana.refused("PATCH", &path, json!({"welcome_channels": welcome("no emoji")}), 400, 50035);
    ana.refused("PATCH", &path, json!({"welcome_channels": vec![welcome("👋")[0].clone(); 6]}), 400, 50035);
    let screen = ana.done("PATCH", &path, json!({"description": "hello", "welcome_channels": welcome("👋")}));
    bob.refused("GET", &path, NOTHING, 403, 50013);
    assert!(eve.get(&invite)["guild"].get("welcome_screen").is_none());
    ana.done("PATCH", &path, json!({"enabled": true}));

    node.restart();
    let (bob, eve) = (node.again(&bob), node.again(&eve));
    let channels = json!([{"channel_id": general, "description": "rules", "emoji_id": null, "emoji_name": "👋"}]);
    assert_eq!(screen, json!({"description": "hello", "welcome_channels": channels}));
    assert_eq!(bob.get(&path), screen);
    let shown = eve.get(&invite);
    assert_eq!(shown["guild"]["welcome_screen"], screen);
    assert_eq!(shown["guild"]["features"], json!(["WELCOME_SCREEN_ENABLED"]));
}

#[test]
fn v1_a_vanity_url_belongs_to_one_guild_and_admits_accounts() {
    let mut node = TestNode::new();
    let (ana, bob, eve) = (node.user(100, "ana"), node.user(101, "bob"), node.user(102, "eve"));
    let bot = node.bot(200, "bot");
    let (first, general) = node.guild(&ana, &[&bot]);
    let (second, _) = node.guild(&bob, &[]);
    let path = |guild: &str| format!("/guilds/{guild}/vanity-url");
    assert_eq!(ana.get(&path(&first)), json!({"code": null, "uses": 0}));
    ana.refused("PATCH", &path(&first), json!({"code": "no spaces"}), 400, 50035);
    ana.refused("GET", "/invites/our-place", NOTHING, 404, 10006);
    let mut client = node.connect(&bot, EVERYTHING);
    client.event("GUILD_CREATE");
    let set = |person: &Person, guild: &str, code: Value| person.done("PATCH", &path(guild), json!({"code": code}));
    assert_eq!(set(&ana, &first, json!("Our-Place")), json!({"code": "our-place", "uses": 0}));
    assert_eq!(client.event("GUILD_UPDATE")["vanity_url_code"], "our-place");
    bob.refused("PATCH", &path(&second), json!({"code": "our-place"}), 400, 50020);
    bot.refused("PATCH", &path(&first), json!({"code": "x1"}), 403, 50013);

    drop(client);
    node.restart();
    let (ana, bob, eve) = (node.again(&ana), node.again(&bob), node.again(&eve));
    let shown = eve.get("/invites/OUR-place?with_counts=true");
    assert_eq!((&shown["code"], &shown["guild"]["id"]), (&json!("our-place"), &json!(first)));
    assert_eq!((&shown["channel"]["id"], &shown["approximate_member_count"]), (&json!(general), &json!(2)));
    assert_eq!(shown["guild"]["vanity_url_code"], "our-place");
    assert_eq!(eve.done("POST", "/invites/our-place", NOTHING)["code"], "our-place");
    eve.done("POST", "/invites/our-place", NOTHING);
    assert_eq!(ana.get(&path(&first)), json!({"code": "our-place", "uses": 1}));
    assert_eq!(ana.get(&format!("/guilds/{first}/invites")), json!([]));
    ana.refused("DELETE", "/invites/our-place", NOTHING, 400, 50020);

    // Another code gives the first one back.
    set(&ana, &first, json!("elsewhere"));
    eve.refused("GET", "/invites/our-place", NOTHING, 404, 10006);
    assert_eq!(set(&bob, &second, json!("our-place"))["code"], "our-place");
    assert_eq!(eve.get("/invites/our-place")["guild"]["id"], json!(second));
    assert_eq!(set(&ana, &first, NOTHING), json!({"code": null, "uses": 0}));
    assert_eq!(ana.get(&path(&first)), json!({"code": null, "uses": 0}));
    // That of a guild that is gone is not free at once: its claim may be one that is under way.
    bob.done("DELETE", &format!("/guilds/{second}"), NOTHING);
    eve.refused("GET", "/invites/our-place", NOTHING, 404, 10006);
    ana.refused("PATCH", &path(&first), json!({"code": "our-place"}), 400, 50020);
}

#[test]
fn of_many_guilds_that_want_one_code_one_gets_it() {
    let node = TestNode::new();
    let people: Vec<Person> = (100..108).map(|id| node.user(id, &format!("p{id}"))).collect();
    let guilds: Vec<String> = people.iter().map(|person| node.guild(person, &[]).0).collect();
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let threads: Vec<_> = people
            .iter()
            .zip(&guilds)
            .map(|(person, guild)| {
                let path = format!("/guilds/{guild}/vanity-url");
                scope.spawn(move || person.request("PATCH", &path, json!({"code": "popular"})).status)
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("it ends")).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    let has_code =
        |(person, guild): (&Person, &String)| person.get(&format!("/guilds/{guild}"))["vanity_url_code"] == "popular";
    assert_eq!(people.iter().zip(&guilds).filter(|of| has_code(*of)).count(), 1);
}

#[test]
fn an_onboarding_is_kept_with_its_ids() {
    let mut node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let (guild, general) = node.guild(&ana, &[&bob]);
    let path = format!("/guilds/{guild}/onboarding");
    let role = id_of(&ana.done("POST", &format!("/guilds/{guild}/roles"), json!({"name": "news"})));
    let option = json!({"title": "yes", "description": "all of it", "emoji_name": "📰", "role_ids": [role]});
    let prompt = json!({"id": "1", "title": "News?", "options": [option, {"title": "no"}], "type": 1});
    let body = json!({"prompts": [prompt], "default_channel_ids": [general], "mode": 1});
    bob.refused("PUT", &path, json!({}), 403, 50013);
    let answer = ana.request("PUT", &path, body.clone());
    let fault = &answer.body["errors"]["prompts"]["0"]["options"]["1"]["_errors"][0];
    assert_eq!((answer.status, fault["code"].as_str()), (400, Some("INVALID_VALUE")), "{answer:?}");
    let mut body = body;
    body["prompts"][0]["options"][1]["channel_ids"] = json!([general]);
    let made = ana.done("PUT", &path, body);
    let prompt = &made["prompts"][0];
    assert_eq!((&prompt["type"], &prompt["title"], &made["mode"]), (&json!(1), &json!("News?"), &json!(1)));
    let option = &prompt["options"][0];
    assert_eq!(option["emoji"], json!({"id": null, "name": "📰", "animated": false}));
    assert_eq!((&option["role_ids"], &option["channel_ids"]), (&json!([role]), &json!([])));
    ana.refused("PUT", &path, json!({"enabled": true}), 400, 350_001);

    node.restart();
    let (ana, bob) = (node.again(&ana), node.again(&bob));
    let mut of_bob = made.clone();
    of_bob.as_object_mut().unwrap().extend([
        ("responses".to_owned(), json!([])),
        ("onboarding_prompts_seen".to_owned(), json!({})),
        ("onboarding_responses_seen".to_owned(), json!({})),
    ]);
    assert_eq!(bob.get(&path), of_bob);
    let changed = ana.done("PUT", &path, json!({"mode": 0}));
    assert_eq!(changed["prompts"], made["prompts"]);
    let log = ana.get(&format!("/guilds/{guild}/audit-logs?action_type=163"));
    assert_eq!(log["audit_log_entries"][0]["target_id"], prompt["id"]);
}

#[test]
fn answers_are_kept_for_their_member() {
    let mut node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let (guild, _) = node.guild(&ana, &[&bob]);
    let open: Vec<String> = (0..7).map(|n| channel(&ana, &guild, &format!("room-{n}"), 0)).collect();
    let option = |title: &str| json!({"title": title, "channel_ids": [open[0]]});
    let prompt = json!({"id": "1", "title": "News?", "options": [option("yes"), option("no")], "in_onboarding": true});
    let path = format!("/guilds/{guild}/onboarding");
    let body = json!({"enabled": true, "default_channel_ids": open, "prompts": [prompt]});
    let made = ana.done("PUT", &path, body);
    assert_eq!(made.get("responses"), None);
    let (prompt_id, yes) = (id_of(&made["prompts"][0]), id_of(&made["prompts"][0]["options"][0]));
    let seen = json!({&prompt_id: 1_700_000_000_000_u64});
    let answers = json!({"onboarding_responses": [yes], "onboarding_prompts_seen": seen});
    let answered = bob.done("POST", &format!("{path}-responses"), answers);
    assert_eq!((&answered["onboarding_prompts_seen"], &answered["onboarding_responses"]), (&seen, &json!([yes])));
    let wrong = json!({"onboarding_responses": [yes], "onboarding_prompts_seen": {"x": 1}});
    bob.refused("PUT", &format!("{path}-responses"), wrong, 400, 50035);

    node.restart();
    let (ana, bob) = (node.again(&ana), node.again(&bob));
    let of_bob = bob.get(&path);
    assert_eq!((&of_bob["responses"], &of_bob["onboarding_prompts_seen"]), (&json!([yes]), &seen));
    assert_eq!(ana.get(&path)["responses"], json!([]));
    assert!(!ana.get(&format!("/guilds/{guild}/members/101")).to_string().contains(&yes), "only he gets them");
}

#[test]
fn a_guild_is_made_from_a_template() {
    let mut node = TestNode::new();
    let (ana, bob) = (node.user(100, "ana"), node.user(101, "bob"));
    let (guild, _) = node.guild(&ana, &[]);
    let mods =
        id_of(&ana.done("POST", &format!("/guilds/{guild}/roles"), json!({"name": "mods", "permissions": "8192"})));
    let staff = channel(&ana, &guild, "staff", 4);
    let hidden = json!({"name": "plans", "parent_id": staff, "topic": "secret", "permission_overwrites": [
        {"id": guild, "type": 0, "deny": "1024"}, {"id": mods, "type": 0, "allow": "1024"}]});
    ana.done("POST", &format!("/guilds/{guild}/channels"), hidden);
    let templates = format!("/guilds/{guild}/templates");
    ana.refused("POST", &templates, json!({"name": ""}), 400, 50035);
    let made = ana.done("POST", &templates, json!({"name": "a club", "description": "with staff"}));
    ana.refused("POST", &templates, json!({"name": "another"}), 400, 30031);
    let code = made["code"].as_str().expect("a code").to_owned();
    assert_eq!(
        (&made["is_dirty"], &made["creator_id"], &made["source_guild_id"]),
        (&NOTHING, &json!(ana.id), &json!(guild))
    );
    let source = &made["serialized_source_guild"];
    assert_eq!((&source["roles"][0]["id"], &source["roles"][1]["name"]), (&json!(0), &json!("mods")));
    let plans = source["channels"].as_array().unwrap().iter().find(|of| of["name"] == "plans").unwrap();
    assert_eq!(plans["permission_overwrites"][1]["id"], 1);
    let own = format!("{templates}/{code}");
    channel(&ana, &guild, "more", 0);
    assert_eq!(ana.get(&templates)[0]["is_dirty"], true);
    assert_eq!(ana.done("PUT", &own, NOTHING)["is_dirty"], NOTHING);
    assert_eq!(ana.done("PATCH", &own, json!({"name": "the club"}))["name"], "the club");
    bob.refused("GET", &templates, NOTHING, 404, 10004);
    bob.refused("GET", "/guilds/templates/nope", NOTHING, 404, 10057);

    node.restart();
    let (ana, bob) = (node.again(&ana), node.again(&bob));
    let path = format!("/guilds/templates/{code}");
    assert_eq!(bob.get(&path)["name"], "the club");
    bob.refused("POST", &path, json!({}), 400, 50035);
    let mut session = node.connect(&bob, EVERYTHING);
    let copy = id_of(&bob.done("POST", &path, json!({"name": "Bob's"})));
    let event = session.event("GUILD_CREATE");
    assert_eq!((&event["id"], &event["name"], &event["owner_id"]), (&json!(copy), &json!("Bob's"), &json!(bob.id)));
    let names = |of: &Value| -> Vec<String> {
        of.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    for list in ["roles", "channels"] {
        let (before, after) = (ana.get(&format!("/guilds/{guild}/{list}")), bob.get(&format!("/guilds/{copy}/{list}")));
        assert_eq!(names(&after), names(&before), "{list}");
    }
    let channels = bob.get(&format!("/guilds/{copy}/channels"));
    let find = |name: &str| channels.as_array().unwrap().iter().find(|of| of["name"] == name).unwrap().clone();
    let plans = find("plans");
    assert_eq!((&plans["parent_id"], &plans["topic"]), (&find("staff")["id"], &json!("secret")));
    assert_eq!(plans["permission_overwrites"][0]["id"], json!(copy));
    bob.done("POST", &format!("/channels/{}/messages", find("more")["id"].as_str().unwrap()), json!({"content": "x"}));
    assert_eq!(bob.get(&path)["usage_count"], 1);
    assert_eq!(ana.done("DELETE", &own, NOTHING)["code"], json!(code));
    bob.refused("GET", &path, NOTHING, 404, 10057);
}
