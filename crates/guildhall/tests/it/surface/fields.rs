//! Fields of requests that upstream documents: each is read, refused, or named on the page of choices.
//!
//! Owns        the requests with a wrong value in every field; the reader of that page's table.
//! Invariants  a field counts as read or refused if its wrong value gets an error under its key. Routes come from
//!             upstream's description and from the table of `rest`: a new route, or a new field in a new copy of the
//!             description, fails the test until something is done about it.
//! Not here    the description itself: `crate::upstream`. Fields of components: `component_form` of `rest`.

use super::uploads::Form;
use crate::{
    support::{Answer, exchange},
    test_node::{Person, TestNode},
    upstream::{self, alternatives},
};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

const CHOICES: &str = include_str!("../../../../../docs/protocol/choices.md");
const TABLE_TITLE: &str = "### Fields that are not kept";
const PICTURE: &str = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const FIRE: &str = "%F0%9F%94%A5";
/// Longer than any text but those of a search, and nothing else. With more, all fields together would not fit a URL.
const WRONG_QUERY_CHARS: usize = 300;
/// Texts of up to 1,024 characters.
const SEARCH_TEXTS: [&str; 2] = ["content", "attachment_filename"];

/// Fields that keep a right value, because others are read only with it. Each is read, or this value would not matter.
fn right(schema: &str, field: &str) -> Option<Value> {
    let kind = |name: &str| {
        let kinds = [
            ("Subcommand", 1),
            ("SubcommandGroup", 2),
            ("String", 3),
            ("Integer", 4),
            ("Boolean", 5),
            ("User", 6),
            ("Channel", 7),
            ("Role", 8),
            ("Mentionable", 9),
            ("Number", 10),
            ("Attachment", 11),
        ];
        kinds.iter().find(|(of, _)| *of == name).map(|(_, number)| json!(number))
    };
    match (schema, field) {
        // The number of the file that comes with it.
        ("MessageAttachmentRequest", "id") => Some(json!(0)),
        // They have no fields: any object is right.
        ("QuarantineUserAction", "metadata") | ("MLSpamUpsertRequestPartial", "trigger_metadata") => Some(json!({})),
        (_, "type") => schema.strip_prefix("ApplicationCommand")?.strip_suffix("Option").and_then(kind),
        _ => None,
    }
}

/// Schemas that other tests cover, or that the node passes on within a limit of bytes.
fn is_opaque(schema: &str) -> bool {
    schema.contains("Component") || schema.starts_with("EntityMetadata")
}

/// The object type of a field, or of the items of its list; none if the test reads none of its fields.
fn object_of(of: &str) -> Option<(bool, Vec<&str>)> {
    let is_object =
        |name: &&str| upstream::properties(name).is_some_and(|fields| !fields.is_empty()) && !is_opaque(name);
    for one in alternatives(of) {
        let (is_list, inner) = match one.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) => (true, inner),
            None => (false, one),
        };
        let names: Vec<&str> = alternatives(inner).into_iter().filter(is_object).collect();
        if !names.is_empty() {
            return Some((
                is_list,
                if is_list { names } else { alternatives(of).into_iter().filter(is_object).collect() },
            ));
        }
    }
    None
}

/// How deep options of commands are looked at: a subcommand in a group has them too.
const DEPTH_MAX: usize = 4;

/// An object with a wrong value in every field.
fn wrong_object(schema: &str, fields: &Map<String, Value>, depth: usize) -> Value {
    let wrong = |(name, of): (&String, &Value)| {
        let value = right(schema, name).unwrap_or_else(|| wrong_value(of.as_str().expect("a type"), depth + 1));
        (name.clone(), value)
    };
    Value::Object(fields.iter().map(wrong).collect())
}

fn wrong_value(of: &str, depth: usize) -> Value {
    let wrong = json!({"wrong": true});
    match object_of(of) {
        Some((is_list, names)) if depth < DEPTH_MAX => {
            let object = |name: &&str| wrong_object(name, &upstream::properties(name).expect("it has fields"), depth);
            match is_list {
                true => Value::Array(names.iter().map(object).collect()),
                false => names.iter().map(object).next().unwrap_or(wrong),
            }
        }
        _ if of.contains("object") || of.contains("EntityMetadata") => json!("wrong"),
        _ => wrong,
    }
}

/// Adds the fields of an object without an error under their key, with dots between keys.
fn unread(
    schema: &str,
    fields: &Map<String, Value>,
    errors: &Value,
    within: &str,
    depth: usize,
    out: &mut BTreeSet<String>,
) {
    // The object itself was refused.
    if !errors["_errors"].is_null() {
        return;
    }
    for (name, of) in fields {
        let path = format!("{within}{name}");
        if right(schema, name).is_some() {
            continue;
        }
        if errors[name].is_null() {
            out.insert(path);
            continue;
        }
        let Some((is_list, names)) = object_of(of.as_str().expect("a type")).filter(|_| depth + 1 < DEPTH_MAX) else {
            continue;
        };
        if !errors[name]["_errors"].is_null() {
            continue;
        }
        for (index, inner) in names.iter().enumerate() {
            let errors = if is_list { &errors[name][index.to_string()] } else { &errors[name] };
            let inner_fields = upstream::properties(inner).expect("it has fields");
            unread(inner, &inner_fields, errors, &format!("{path}."), depth + 1, out);
        }
    }
}

/// A guild with one of everything.
struct Scene {
    node: TestNode,
    bot: Person,
    ids: BTreeMap<&'static str, String>,
}

fn id_of(value: &Value) -> String {
    value["id"].as_str().unwrap_or_else(|| panic!("no id: {value}")).to_owned()
}

impl Scene {
    fn new() -> Self {
        let node = TestNode::new();
        let (bot, other) = (node.bot(100, "bot"), node.user(200, "other"));
        let (guild, general) = node.guild(&bot, &[&other]);
        let channel = |kind: u8| {
            let body = json!({"name": format!("c{kind}"), "type": kind});
            id_of(&bot.done("POST", &format!("/guilds/{guild}/channels"), body))
        };
        let (stage, forum) = (channel(13), channel(15));
        let message = id_of(&bot.done("POST", &format!("/channels/{general}/messages"), json!({"content": "x"})));
        bot.done("PUT", &format!("/channels/{general}/messages/{message}/reactions/{FIRE}/@me"), Value::Null);
        let thread =
            id_of(&bot.done("POST", &format!("/channels/{general}/threads"), json!({"name": "t", "type": 11})));
        let webhook = bot.done("POST", &format!("/channels/{general}/webhooks"), json!({"name": "hook"}));
        let (webhook_id, token) = (id_of(&webhook), webhook["token"].as_str().expect("a token").to_owned());
        let posted = bot.done("POST", &format!("/webhooks/{webhook_id}/{token}?wait=true"), json!({"content": "x"}));
        let role = bot.done("POST", &format!("/guilds/{guild}/roles"), json!({"name": "role"}));
        let emoji = json!({"name": "party", "image": PICTURE});
        let emoji = bot.done("POST", &format!("/guilds/{guild}/emojis"), emoji);
        let event = json!({"name": "party", "scheduled_start_time": "2100-05-01T12:00:00Z", "privacy_level": 2,
            "scheduled_end_time": "2100-05-01T14:00:00Z", "entity_type": 3, "entity_metadata": {"location": "here"}});
        let event = bot.done("POST", &format!("/guilds/{guild}/scheduled-events"), event);
        bot.done("POST", "/stage-instances", json!({"channel_id": stage, "topic": "t"}));
        let command = json!({"name": "c", "description": "d"});
        let command = bot.done("POST", &format!("/applications/{}/commands", bot.id), command);
        let of_guild = format!("/applications/{}/guilds/{guild}/commands", bot.id);
        let of_guild = bot.done("POST", &of_guild, json!({"name": "c", "description": "d"}));
        let rule = json!({"name": "r", "event_type": 1, "trigger_type": 1, "actions": [{"type": 1}]});
        let rule = bot.done("POST", &format!("/guilds/{guild}/auto-moderation/rules"), rule);
        let invite = bot.done("POST", &format!("/channels/{general}/invites"), json!({}));
        let template = bot.done("POST", &format!("/guilds/{guild}/templates"), json!({"name": "t"}));
        node.in_voice(&guild, &bot, &stage);
        let ids = BTreeMap::from([
            ("guild_id", guild.clone()),
            ("channel_id", general),
            ("stage", stage),
            ("forum", forum),
            ("thread", thread),
            ("message_id", message),
            ("posted", id_of(&posted)),
            ("webhook_id", webhook_id),
            ("webhook_token", token),
            ("role_id", id_of(&role)),
            ("overwrite_id", id_of(&role)),
            ("emoji_id", id_of(&emoji)),
            ("rule_id", id_of(&rule)),
            ("template", template["code"].as_str().expect("a code").to_owned()),
            ("answer_id", "1".to_owned()),
            ("emoji_name", FIRE.to_owned()),
            ("sticker_id", node.sticker(&guild, &bot, "wave")),
            ("guild_scheduled_event_id", id_of(&event)),
            ("application_id", bot.id.clone()),
            ("command_id", id_of(&command)),
            ("command_of_guild", id_of(&of_guild)),
            ("code", invite["code"].as_str().expect("a code").to_owned()),
            ("user_id", other.id),
            ("self", bot.id.clone()),
        ]);
        Self { node, bot, ids }
    }

    /// The path of a route, with the ids of the scene; `with` replaces some.
    fn path(&self, route: &str, with: &[(&str, &str)]) -> String {
        let (_, template) = route.split_once(' ').expect("a method");
        let value = |piece: &str| match piece.strip_prefix('{').and_then(|piece| piece.strip_suffix('}')) {
            None => piece.to_owned(),
            Some(variable) => {
                let name = with.iter().find(|(of, _)| *of == variable).map_or(variable, |(_, name)| name);
                self.ids.get(name).unwrap_or_else(|| panic!("nothing is called {name}")).clone()
            }
        };
        template.split('/').map(value).collect::<Vec<_>>().join("/")
    }
}

/// Whether the router has the route of upstream's description.
fn is_served(route: &str) -> bool {
    let (method, template) = route.split_once(' ').expect("a method");
    let segments: Vec<&str> = template.split('/').collect();
    // Only webhooks of interactions have one.
    if segments.contains(&"@original") {
        return false;
    }
    guildhall_rest::routes().iter().any(|route| {
        let path: Vec<&str> = route.path.split('/').collect();
        let fits = |(ours, theirs): (&&str, &&str)| match ours.starts_with('{') {
            // An id of ours may be `@me`.
            true => theirs.starts_with('{') || *theirs == "@me",
            false => ours == theirs,
        };
        route.method == method && path.len() == segments.len() && path.iter().zip(&segments).all(fits)
    })
}

/// Whether a bot can use the route without the token of an interaction: `super::interactions` tests the
/// fields of others.
fn is_for_bots(route: &str) -> bool {
    !route.contains(" /interactions/") && !route.ends_with("/{command_id}/permissions")
}

/// The objects in the path that some alternatives of a body, or some routes, need.
fn with(route: &str, schema: &str) -> &'static [(&'static str, &'static str)] {
    match (route, schema) {
        (_, "UpdateThreadRequestPartial") => &[("channel_id", "thread")],
        (_, "CreateForumThreadRequest") => &[("channel_id", "forum")],
        ("PATCH /stage-instances/{channel_id}", _) => &[("channel_id", "stage")],
        ("PATCH /guilds/{guild_id}/voice-states/{user_id}", _) => &[("user_id", "self")],
        ("PATCH /channels/{channel_id}/messages/{message_id}", _) => &[],
        (route, _) if route.contains("/templates/{code}") => &[("code", "template")],
        (route, _) if route.contains("/webhooks/{webhook_id}/{webhook_token}/messages") => &[("message_id", "posted")],
        (route, _) if route.contains("/guilds/{guild_id}/commands/{command_id}") => {
            &[("command_id", "command_of_guild")]
        }
        _ => &[],
    }
}

/// Fields without an error, by route; a query's begin with `?`.
type Unread = BTreeSet<(String, String)>;

fn errors_of(answer: &Answer) -> Value {
    match (answer.status, answer.body["code"].as_u64()) {
        (400, Some(50035)) => answer.body["errors"].clone(),
        _ => Value::Null,
    }
}

/// The unread fields of a body.
fn unread_of_body(scene: &Scene, route: &str, of: &str, media: &str) -> BTreeSet<String> {
    let (method, _) = route.split_once(' ').expect("a method");
    let mut all = BTreeSet::new();
    for schema in alternatives(of) {
        let (is_list, name) = match schema.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(inner) => (true, inner),
            None => (false, schema),
        };
        let Some(fields) = upstream::properties(name) else { continue };
        let path = scene.path(route, with(route, name));
        let object = wrong_object(name, &fields, 0);
        let body = if is_list { json!([object]) } else { object };
        // Those of Slack are no files.
        let has_file = body.to_string().contains("\"attachments\"") && !route.ends_with("/slack");
        let answer = if media == "multipart/form-data" {
            let long = "x".repeat(WRONG_QUERY_CHARS);
            let texts = fields.keys().filter(|field| *field != "file");
            let form = texts.fold(Form::default(), |form, field| form.text(field, &long));
            let raw = exchange(scene.node.addr, &form.request(&scene.bot, method, &path)).expect("an answer");
            Answer { status: raw.status, body: raw.json() }
        } else if has_file {
            let form = Form::json(&body).file("files[0]", "a.txt", b"a");
            let raw = exchange(scene.node.addr, &form.request(&scene.bot, method, &path)).expect("an answer");
            Answer { status: raw.status, body: raw.json() }
        } else {
            scene.bot.request(method, &path, body)
        };
        let errors = errors_of(&answer);
        let errors = if is_list { errors["0"].clone() } else { errors };
        let mut found = BTreeSet::new();
        unread(name, &fields, &errors, "", 0, &mut found);
        if found.len() == fields.len() {
            eprintln!("{route} ({name}): nothing is read: {answer:?}");
        }
        all.extend(found);
    }
    // Read as the bytes of a sticker, once the texts are right.
    if media == "multipart/form-data" {
        let form = Form::default().text("name", "wave").text("tags", "wave").file("file", "a.png", b"no picture");
        let raw =
            exchange(scene.node.addr, &form.request(&scene.bot, method, &scene.path(route, &[]))).expect("an answer");
        let errors = errors_of(&Answer { status: raw.status, body: raw.json() });
        all.retain(|field| errors[field.as_str()].is_null());
    }
    all
}

fn unread_of_query(scene: &Scene, route: &str, names: &[&str]) -> BTreeSet<String> {
    let (method, _) = route.split_once(' ').expect("a method");
    let wrong = |name: &&str| {
        let factor = if SEARCH_TEXTS.contains(name) { 4 } else { 1 };
        format!("{name}={}", "x".repeat(WRONG_QUERY_CHARS * factor))
    };
    let query: Vec<String> = names.iter().map(wrong).collect();
    let path = format!("{}?{}", scene.path(route, with(route, "")), query.join("&"));
    let body = if method == "GET" || method == "DELETE" { Value::Null } else { json!({"content": "x"}) };
    let errors = errors_of(&scene.bot.request(method, &path, body));
    names.iter().filter(|name| errors[**name].is_null()).map(|name| format!("?{name}")).collect()
}

/// The page's table: the fields of each route that have no effect.
fn table() -> Unread {
    let (_, section) = CHOICES.split_once(TABLE_TITLE).expect("the page has the section");
    let section = &section[..section.find("\n##").unwrap_or(section.len())];
    let spans = |cell: &str| -> Vec<String> { cell.split('`').skip(1).step_by(2).map(str::to_owned).collect() };
    let mut out = Unread::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').collect();
        for route in spans(cells[1]) {
            out.extend(spans(cells[2]).into_iter().map(|field| (route.clone(), field)));
        }
    }
    out
}

#[test]
fn every_documented_field_is_read_refused_or_on_the_page() {
    let scene = Scene::new();
    let mut found = Unread::new();
    let mut routes_count = 0;
    for (route, body, query) in upstream::requests().filter(|(route, ..)| is_served(route) && is_for_bots(route)) {
        routes_count += 1;
        if !query.is_empty() {
            let unread = unread_of_query(&scene, route, &query);
            found.extend(unread.into_iter().map(|field| (route.to_owned(), field)));
        }
        if let Some((media, of)) = body {
            let unread = unread_of_body(&scene, route, &of, media);
            found.extend(unread.into_iter().map(|field| (route.to_owned(), field)));
        }
    }
    assert!(routes_count > 60, "{routes_count} routes are served");
    let table = table();
    // `*` at the end of a path: the fields there that are not read.
    let covers = |entry: &(String, String), field: &(String, String)| {
        let is_it = match entry.1.strip_suffix('*') {
            Some(start) => field.1.starts_with(start),
            None => field.1 == entry.1,
        };
        is_it && entry.0 == field.0
    };
    let dropped: Vec<_> = found.iter().filter(|field| !table.iter().any(|entry| covers(entry, field))).collect();
    let wrong: Vec<_> = table.iter().filter(|entry| !found.iter().any(|field| covers(entry, field))).collect();
    assert!(dropped.is_empty(), "dropped in silence, and not in the table of choices.md: {dropped:#?}");
    assert!(wrong.is_empty(), "in the table, and read, refused, or not upstream's: {wrong:#?}");
}

#[test]
fn unserved_routes_are_refused_by_name() {
    let node = TestNode::new();
    let bot = node.bot(100, "bot");
    let others: Vec<_> = upstream::routes().filter(|route| !is_served(route) && !route.contains("@original")).collect();
    assert!(others.len() > 60, "{} routes", others.len());
    let is_named = |route: &&&str| {
        let (method, template) = route.split_once(' ').expect("a method");
        let pieces = template.split('/').map(|piece| if piece.starts_with('{') { "123" } else { piece });
        let path = pieces.collect::<Vec<_>>().join("/");
        let body = if method == "GET" || method == "DELETE" { Value::Null } else { json!({}) };
        let answer = bot.request(method, &path, body);
        answer.status == 404 && answer.body["message"].as_str().is_some_and(|text| text.contains("does not serve"))
    };
    let wrong: Vec<_> = others.iter().filter(|route| !is_named(route)).collect();
    assert!(wrong.is_empty(), "neither served nor in `unserved.rs`: {wrong:#?}");
}

#[test]
fn followers_of_an_event_come_in_pages() {
    let node = TestNode::new();
    let people: Vec<Person> = (100..104).map(|id| node.user(id, &format!("p{id}"))).collect();
    let [ana, others @ ..] = &people[..] else { panic!("four") };
    let (guild, _) = node.guild(ana, &others.iter().collect::<Vec<_>>());
    let event = json!({"name": "party", "scheduled_start_time": "2100-05-01T12:00:00Z", "privacy_level": 2,
        "scheduled_end_time": "2100-05-01T14:00:00Z", "entity_type": 3, "entity_metadata": {"location": "here"}});
    let event = id_of(&ana.done("POST", &format!("/guilds/{guild}/scheduled-events"), event));
    let path = format!("/guilds/{guild}/scheduled-events/{event}/users");
    for person in &people {
        person.done("PUT", &format!("{path}/@me"), Value::Null);
    }
    let page = |query: &str| -> Vec<String> {
        let answer = ana.get(&format!("{path}?{query}"));
        let ids =
            answer.as_array().expect("a list").iter().map(|one| one["user_id"].as_str().expect("an id").to_owned());
        ids.collect()
    };
    assert_eq!(page(""), ["100", "101", "102", "103"]);
    assert_eq!(page("limit=2"), ["100", "101"]);
    assert_eq!(page("limit=2&after=101"), ["102", "103"]);
    assert_eq!(page("limit=2&before=103"), ["101", "102"]);
    assert_eq!(page("before=100"), Vec::<String>::new());
    ana.refused("GET", &format!("{path}?limit=0"), Value::Null, 400, 50035);
    let plain = &ana.get(&format!("{path}?limit=1"))[0];
    assert!(plain.get("member").is_none() && plain["response"] == 1, "{plain}");
    let with_member = &ana.get(&format!("{path}?limit=1&with_member=true"))[0];
    assert_eq!(with_member["member"]["user"]["id"], "100");
}
