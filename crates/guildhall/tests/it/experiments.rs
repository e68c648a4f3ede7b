//! Experiments on a running node, over real sockets with stock decoders: the arm of each account, the end of one.

use crate::{
    backend::Backend,
    dictionary::Client,
    lab_dictionaries::{assert_refused, files, lab_ok, listed, query},
    nodes::{Site, two},
    support::{Demo, guildhall, metric, metrics, run_to_end, stderr, wait_until},
};
use guildhall_codec::DictionaryId;
use guildhall_partition::{Audience, Experiment, Experiments, Subject};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
};

pub const OWNER: u64 = 1_510_000_000_000_000_001;
pub const GUILD: &str = "1520000000000000001";
pub const CHANNEL: &str = "1530000000000000001";
/// More dispatches than a sample takes.
const MESSAGES: usize = 70;

fn demo(dir: &tempfile::TempDir) -> Demo {
    // The clients send no heartbeats. On a busy machine contexts would take more than their share, and streams that
    // begin without one take no part.
    let args = [
        "codec.contexts_cpu_percent=100",
        "limits.rest_rate_percent=0",
        "limits.identify_concurrency=100",
        "codec.streams=auto",
        "server.heartbeat_interval_ms=600000",
    ];
    let args = args.iter().flat_map(|set| ["--set", *set]);
    Demo::start(dir.path(), &["--members", "2", "--rate", "0"].into_iter().chain(args).collect::<Vec<_>>())
}

/// A guild of these accounts.
pub fn build(backend: &mut Backend, accounts: u64) {
    for at in 0..accounts {
        let (id, name) = (OWNER + at, format!("account{at}"));
        backend.put(&format!("/users/{id}"), json!({"username": name}), 201);
    }
    backend.put(&format!("/guilds/{GUILD}"), json!({"name": "tried", "owner_id": OWNER.to_string()}), 201);
    for at in 1..accounts {
        backend.put(&format!("/guilds/{GUILD}/members/{}", OWNER + at), json!({}), 201);
    }
    backend.put(&format!("/guilds/{GUILD}/channels/{CHANNEL}"), json!({"name": "general", "type": 0}), 201);
}

/// The arm of an account in an experiment, as any node has it.
pub fn arm_of(name: &str, arms: &[&str], account_id: u64) -> usize {
    let experiment = Experiment {
        name: name.to_owned(),
        salt: name.to_owned(),
        layer: "default".to_owned(),
        slots: 0..1_000,
        arms: arms.iter().map(|name| ((*name).to_owned(), 1)).collect(),
        audience: Audience::default(),
    };
    let experiments = Experiments::new(vec![experiment]).unwrap();
    let subject = Subject { account_id, platform: "desktop", is_bot: false, guild_ids: &[] };
    experiments.assign(&subject).next().expect("all take part").1
}

fn join(demo: &Demo, backend: &mut Backend, at: u64, query: &str) -> Client {
    join_at(demo.addr, backend, at, query)
}

fn join_at(addr: SocketAddr, backend: &mut Backend, at: u64, query: &str) -> Client {
    let token = backend.token(&(OWNER + at).to_string());
    let mut client = Client::connect(addr, query, None);
    client.await_payload(10, None);
    client.identify(&token);
    client.await_payload(0, Some("READY"));
    client
}

/// What writes the stream of the account's connection.
fn writer(backend: &mut Backend, at: u64) -> Value {
    let listed = backend.get(&format!("/sessions?user_id={}", OWNER + at));
    let is_connected = |session: &&Value| !session["writer"].is_null();
    let session = listed["sessions"].as_array().and_then(|sessions| sessions.iter().find(is_connected));
    session.unwrap_or_else(|| panic!("{at} is not connected: {listed}"))["writer"].clone()
}

/// Sends messages until each client has the last. Returns those that were sent op 7 before that.
fn say(demo: &Demo, backend: &mut Backend, clients: &mut BTreeMap<u64, Client>) -> BTreeSet<u64> {
    let token = backend.token(&OWNER.to_string());
    let mut http = crate::support::Http::new(demo.addr, &token);
    let path = format!("/api/v10/channels/{CHANNEL}/messages");
    for number in 0..MESSAGES {
        let content = json!({"content": format!("this is message {number} of those that all members receive")});
        let answer = http.request("POST", &path, Some(&content)).unwrap();
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    let last = format!("this is message {} of", MESSAGES - 1);
    let mut reconnecting = BTreeSet::new();
    for (at, client) in clients {
        client.until(&format!("the last message to {at}"), |payload| {
            if payload["op"] == 7 {
                reconnecting.insert(*at);
            }
            payload["t"] == "MESSAGE_CREATE"
                && payload["d"]["content"].as_str().is_some_and(|text| text.starts_with(&last))
        });
    }
    reconnecting
}

fn ended(backend: &mut Backend, name: &str) -> Value {
    wait_until("the end of the experiment", || {
        let of = backend.get(&format!("/experiments/{name}"));
        if of["state"] == "running" { Err(backend.get(&format!("/experiments/{name}/report"))) } else { Ok(of) }
    })
}

#[test]
fn each_arm_is_read_by_a_stock_decoder_and_is_that_of_the_account() {
    let dir = tempfile::tempdir().unwrap();
    let demo = demo(&dir);
    let mut backend = Backend::root(&demo);
    build(&mut backend, 12);
    for (codec, arm) in [("zstd-stream", "zstd:level=1,window=10"), ("zlib-stream", "zlib:level=1,window=9")] {
        let arms = ["control", "small", "shared"];
        let body = json!({"name": codec, "permille": 1000, "arms": [
            {"name": "control", "policy": "context"}, {"name": "small", "arm": arm},
            {"name": "shared", "policy": "shared-match"}]});
        let made = backend.request("POST", "/experiments", Some(body), 201);
        assert_eq!((&made["state"], &made["changed_by"]), (&json!("running"), &json!("root")), "{made}");
        let query = format!("encoding=json&compress={codec}");
        let mut clients: BTreeMap<u64, Client> =
            (0..12).map(|at| (at, join(&demo, &mut backend, at, &query))).collect();
        say(&demo, &mut backend, &mut clients);
        let mut by_arm = [0_u64; 3];
        for at in 0..12 {
            let arm = arm_of(codec, &arms, OWNER + at);
            by_arm[arm] += 1;
            let expected = if arm == 2 { "shared-match" } else { "per-connection" };
            assert_eq!(writer(&mut backend, at), expected, "{at} is in {}", arms[arm]);
        }
        let report = wait_until("a sample of each connection", || {
            let report = backend.get(&format!("/experiments/{codec}/report"));
            let samples = |arm: usize| report["arms"][arm]["metrics"][0]["samples"].as_u64().unwrap();
            if (0..3).all(|arm| samples(arm) == by_arm[arm]) { Ok(report) } else { Err(report) }
        });
        assert!(by_arm.iter().all(|count| *count > 0), "{by_arm:?}");
        for arm in 0..3 {
            assert_eq!(report["arms"][arm]["connections"], by_arm[arm], "{report}");
        }
        let bytes = |arm: usize| report["arms"][arm]["metrics"][0]["mean"].as_f64().unwrap();
        assert!(bytes(1) > bytes(0), "a window of some hundred bytes finds less: {report}");
        let stopped = backend.request("POST", &format!("/experiments/{codec}/stop"), Some(json!({})), 200);
        assert_eq!(stopped["state"], "stopped");
    }
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn an_arm_that_doubles_bytes_is_rolled_back_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let demo = demo(&dir);
    let mut backend = Backend::root(&demo);
    build(&mut backend, 40);
    let body = json!({"name": "small", "permille": 1000, "samples_min": 30, "layer": "default", "arms": [
        {"name": "control", "policy": "context"}, {"name": "small", "arm": "zstd:level=1,window=10"}]});
    backend.request("POST", "/experiments", Some(body), 201);
    // Two connections of each account: both arms need 30 samples.
    let query = "encoding=json&compress=zstd-stream";
    let mut clients: BTreeMap<u64, Client> = (0..80).map(|at| (at, join(&demo, &mut backend, at / 2, query))).collect();
    let arms = ["control", "small"];
    let count = (0..40).filter(|at| arm_of("small", &arms, OWNER + at) == 1).count();
    assert!((15..=25).contains(&count), "{count} accounts of 40 are in the arm: choose another name");
    let reconnecting = say(&demo, &mut backend, &mut clients);
    let of = ended(&mut backend, "small");
    assert_eq!((&of["state"], &of["changed_by"]), (&json!("rolled_back"), &json!("guardrail")), "{of}");
    let reason = of["reason"].as_str().unwrap();
    assert!(reason.starts_with("wire_bytes of small is ") && reason.contains("of control"), "{reason}");
    let report = backend.get("/experiments/small/report");
    let bytes = &report["arms"][1]["metrics"][0];
    assert!(bytes["comparison"]["is_worse"] == true && bytes["comparison"]["low"].as_f64() > Some(0.0), "{report}");
    assert_eq!(report["arms"][0]["metrics"][0]["comparison"], Value::Null);
    // Clients of the arm leave it by op 7; those of the control stay.
    for (at, client) in &mut clients {
        let is_in_arm = arm_of("small", &arms, OWNER + at / 2) == 1;
        assert!(is_in_arm || !reconnecting.contains(at), "{at} is in the control");
        // The alarm may come before the last message.
        if is_in_arm && !reconnecting.contains(at) {
            client.await_payload(7, None);
        }
    }
    let audit = backend.get("/audit?limit=1000");
    let entry = |entry: &&Value| entry["action"].as_str().is_some_and(|action| action.starts_with("GUARDRAIL "));
    let entry = audit["entries"].as_array().unwrap().iter().find(entry).unwrap_or_else(|| panic!("{audit}"));
    assert_eq!(entry["object"]["experiment"], "small");
    // A connection after it is in no experiment.
    let before =
        report["arms"][1]["connections"].as_u64().unwrap() + report["arms"][0]["connections"].as_u64().unwrap();
    join(&demo, &mut backend, 3, query);
    let report = backend.get("/experiments/small/report");
    let after = report["arms"][1]["connections"].as_u64().unwrap() + report["arms"][0]["connections"].as_u64().unwrap();
    assert_eq!(before, after);
    // The command prints the same.
    let server = format!("http://{}", demo.addr);
    let mut command = guildhall(["experiment", "report", "small", "--server", &server]);
    command.env("GUILDHALL_KEY", demo.manifest["admin_key"].as_str().unwrap());
    let shown = run_to_end(&mut command);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("small: rolled_back") && text.contains("WORSE"), "{text}{}", stderr(&shown));
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn an_arm_that_clients_cannot_decode_rolls_itself_back() {
    let dir = tempfile::tempdir().unwrap();
    let demo = demo(&dir);
    let mut backend = Backend::root(&demo);
    build(&mut backend, 20);
    let arms = ["control", "broken"];
    let body = json!({"name": "broken", "permille": 1000, "samples_min": 30, "arms": [
        {"name": "control"}, {"name": "broken", "arm": "zlib:level=9"}]});
    backend.request("POST", "/experiments", Some(body), 201);
    let ends: Vec<u64> = (0..20).collect();
    let mut rounds = 0;
    let of = wait_until("the end of the experiment", || {
        let of = backend.get("/experiments/broken");
        if of["state"] != "running" {
            return Ok(of);
        }
        rounds += 1;
        for at in &ends {
            let client = join(&demo, &mut backend, *at, "encoding=json&compress=zlib-stream");
            // The control leaves in order.
            client.close(if arm_of("broken", &arms, OWNER + at) == 1 { 4002 } else { 1001 });
        }
        Err(backend.get("/experiments/broken/report"))
    });
    let reason = of["reason"].as_str().unwrap();
    assert!(of["state"] == "rolled_back" && reason.starts_with("decode_faults of broken is 1.0"), "{of}");
    assert!(rounds >= 3, "30 samples of each arm come first: {rounds} rounds");
    assert_eq!(demo.terminate(), Some(0));
}

fn dictionary_experiment(backend: &mut Backend, name: &str, id: DictionaryId) -> Value {
    let body = json!({"name": name, "permille": 1000, "samples_min": 30, "arms": [
        {"name": "control"}, {"name": "tried", "arm": format!("zstd:dict={id}")}]});
    backend.request("POST", "/experiments", Some(body), 201)
}

#[test]
fn an_arm_with_a_dictionary_is_offered_to_its_accounts_and_taken_back() {
    let (dir, trained) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [(file, dictionary), _] = files(trained.path(), 1);
    let (id, arms) = (dictionary.id(), ["control", "tried"]);
    let demo = demo(&dir);
    let mut backend = Backend::root(&demo);
    build(&mut backend, 12);
    let key = backend.key.clone();
    lab_ok(demo.addr, &key, &["stage", file.to_str().unwrap()]);
    assert_refused(demo.addr, id);
    dictionary_experiment(&mut backend, "dict", id);
    // The list names it for the accounts of the arm, and for no other client.
    assert_eq!(listed(demo.addr, None), Ok(vec![]));
    let is_tried = |at: u64| arm_of("dict", &arms, OWNER + at) == 1;
    let mut clients = BTreeMap::new();
    for at in 0..12 {
        let token = backend.token(&(OWNER + at).to_string());
        let expected = if is_tried(at) { vec![id.to_string()] } else { vec![] };
        // The last account requests no list, and takes no part.
        if at < 11 {
            assert_eq!(listed(demo.addr, Some(&token)), Ok(expected), "{at}");
        }
        let mut client = match is_tried(at) {
            true => Client::connect(demo.addr, &query(id, "json"), Some(&dictionary)),
            false => Client::connect(demo.addr, "encoding=json&compress=zstd-stream", None),
        };
        client.await_payload(10, None);
        client.identify(&token);
        client.await_payload(0, Some("READY"));
        clients.insert(at, client);
    }
    say(&demo, &mut backend, &mut clients);
    let count = |arm: bool| (0..11).filter(|at| is_tried(*at) == arm).count() as u64;
    assert!(count(false) > 0 && count(true) > 0, "choose another name");
    let report = wait_until("a sample of each connection", || {
        let report = backend.get("/experiments/dict/report");
        let samples = |arm: usize| report["arms"][arm]["metrics"][0]["samples"].as_u64().unwrap();
        if [samples(0), samples(1)] == [count(false), count(true)] { Ok(report) } else { Err(report) }
    });
    let connections = |report: &Value| [0, 1].map(|arm| report["arms"][arm]["connections"].as_u64().unwrap());
    assert_eq!(connections(&report), [count(false), count(true)]);
    let bytes = |arm: usize| report["arms"][arm]["metrics"][0]["mean"].as_f64().unwrap();
    assert!(bytes(0) > 20.0 && bytes(1) > 20.0, "{report}");
    let delivery = &report["arms"][1]["metrics"][3];
    assert!(delivery["name"] == "delivery_us" && delivery["mean"].as_f64() > Some(0.0), "{report}");

    let of_arm = "experiment=\"dict\",arm=\"tried\"";
    assert_eq!(metric::<u64>(demo.addr, "experiment_state{experiment=\"dict\",state=\"running\"}"), 1);
    assert_eq!(metric::<u64>(demo.addr, &format!("experiment_connections_total{{{of_arm}}}")), count(true));
    let of_bytes = format!("{{{of_arm},metric=\"wire_bytes\"}}");
    assert_eq!(metric::<u64>(demo.addr, &format!("experiment_samples_total{of_bytes}")), count(true));
    let mean: f64 = metric(demo.addr, &format!("experiment_mean{of_bytes}"));
    assert!((mean - bytes(1)).abs() < 1e-6, "{mean}");

    // While it runs, the dictionary stays.
    let refused = backend.request("DELETE", &format!("/lab/dictionaries/{id}"), None, 409);
    assert!(refused.to_string().contains("/stop"), "{refused}");
    backend.request("POST", "/experiments/dict/stop", Some(json!({"reconnect": true})), 200);
    assert_eq!(metric::<u64>(demo.addr, "experiment_state{experiment=\"dict\",state=\"stopped\"}"), 1);
    assert!(!metrics(demo.addr).contains(of_arm), "arms of running experiments alone");
    for (at, client) in &mut clients {
        if is_tried(*at) && *at < 11 {
            client.await_payload(7, None);
        }
    }
    assert_refused(demo.addr, id);
    let token = backend.token(&(OWNER + (0..11).find(|at| is_tried(*at)).unwrap()).to_string());
    assert_eq!(listed(demo.addr, Some(&token)), Ok(vec![]));
    for (change, because) in [
        (json!({"audience": {"platforms": ["web"]}}), "GET /dictionaries has no platform"),
        (json!({"audience": {"guild_id": GUILD}}), "GET /dictionaries has no guild"),
        (
            json!({"arms": [{"name": "a", "policy": "context"}, {"name": "b", "arm": format!("zstd:dict={id}")}]}),
            "nothing else can differ",
        ),
    ] {
        let mut body = json!({"name": "wrong", "permille": 1, "arms": [
            {"name": "a"}, {"name": "b", "arm": format!("zstd:dict={id}")}]});
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let answer = backend.request("POST", "/experiments", Some(body), 400);
        assert!(answer.to_string().contains(because), "{answer}");
    }
    lab_ok(demo.addr, &key, &["withdraw", &id.to_string()]);
    let body = json!({"name": "late", "permille": 1, "arms": [
        {"name": "a"}, {"name": "b", "arm": format!("zstd:dict={id}")}]});
    let answer = backend.request("POST", "/experiments", Some(body), 400);
    assert!(answer.to_string().contains("is withdrawn: remove it"), "{answer}");
    lab_ok(demo.addr, &key, &["remove", &id.to_string()]);
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn a_dictionary_that_clients_cannot_decode_rolls_itself_back() {
    let (dir, trained) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let [(file, dictionary), _] = files(trained.path(), 1);
    let (id, arms) = (dictionary.id(), ["control", "tried"]);
    let demo = demo(&dir);
    let mut backend = Backend::root(&demo);
    build(&mut backend, 20);
    let key = backend.key.clone();
    lab_ok(demo.addr, &key, &["stage", file.to_str().unwrap()]);
    dictionary_experiment(&mut backend, "broken", id);
    let tokens: Vec<String> = (0..20).map(|at| backend.token(&(OWNER + at).to_string())).collect();
    let of = wait_until("the end of the experiment", || {
        let of = backend.get("/experiments/broken");
        if of["state"] != "running" {
            return Ok(of);
        }
        for (at, token) in (0..).zip(&tokens) {
            listed(demo.addr, Some(token)).unwrap();
            if arm_of("broken", &arms, OWNER + at) == 1 {
                // It cannot read HELLO.
                match Client::connect(demo.addr, &query(id, "json"), Some(&dictionary)) {
                    client if backend.get("/experiments/broken")["state"] == "running" => client.close(4002),
                    _ => break,
                }
            } else {
                join(&demo, &mut backend, at, "encoding=json&compress=zstd-stream").close(1001);
            }
        }
        Err(backend.get("/experiments/broken/report"))
    });
    let reason = of["reason"].as_str().unwrap();
    assert!(of["state"] == "rolled_back" && reason.starts_with("decode_faults of tried is 1.0"), "{of}");
    assert_refused(demo.addr, id);
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn a_ramp_keeps_accounts_in_their_arm_and_wrong_plans_are_refused_with_the_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let demo = demo(&dir);
    let mut backend = Backend::root(&demo);
    build(&mut backend, 24);
    let arms = json!([{"name": "control", "policy": "context"}, {"name": "shared", "policy": "shared-match"}]);
    let body = json!({"name": "ramp", "permille": 300, "arms": arms, "draft": true});
    assert_eq!(backend.request("POST", "/experiments", Some(body), 201)["state"], "draft");
    let shared_of = |backend: &mut Backend, demo: &Demo| -> Vec<u64> {
        let clients: Vec<Client> =
            (0..24).map(|at| join(demo, backend, at, "encoding=json&compress=zstd-stream")).collect();
        let mut shared = Vec::new();
        for at in 0..24 {
            if writer(backend, at) == "shared-match" {
                shared.push(at);
            }
        }
        clients.into_iter().for_each(|client| client.close(1000));
        shared
    };
    assert!(shared_of(&mut backend, &demo).is_empty(), "a draft has no accounts");
    backend.request("PATCH", "/experiments/ramp", Some(json!({"start": true})), 200);
    let few = shared_of(&mut backend, &demo);
    let ramped = backend.request("PATCH", "/experiments/ramp", Some(json!({"permille": 1000})), 200);
    assert_eq!((&ramped["permille"], &ramped["state"]), (&json!(1000), &json!("running")));
    let all = shared_of(&mut backend, &demo);
    assert!(few.len() < all.len() && few.iter().all(|at| all.contains(at)), "{few:?} {all:?}");

    let two =
        |arm: Value| json!({"name": "other", "layer": "second", "permille": 10, "arms": [{"name": "control"}, arm]});
    let with = |field: &str, value: Value| {
        let mut body = two(json!({"name": "x", "policy": "context"}));
        body[field] = value;
        body
    };
    for (body, because) in [
        (json!({"name": "a", "permille": 1, "arms": [{"name": "control"}]}), "Must have 2 to 8 items"),
        (json!({"name": "a b", "permille": 1, "arms": arms}), "letters, digits"),
        (json!({"name": "a", "permille": 1001, "arms": arms}), "from 0 to 1000; it is 1001."),
        (two(json!({"name": "x", "arm": "zstd:level=99"})), "from -7 to 22"),
        (two(json!({"name": "x", "arm": "zstd:window=25"})), "give window=21 or less"),
        (two(json!({"name": "x", "arm": "zstd-once"})), "use zlib, zstd or shared-match"),
        (two(json!({"name": "x", "arm": "zstd:dict=00112233445566778899aabbccddeeff"})), "stage it first"),
        (two(json!({"name": "x", "arm": "zstd:dict=newest"})), "dict"),
        (two(json!({"name": "x", "arm": "zstd:level=3,dict=00112233445566778899aabbccddeeff"})), "as zstd:dict=ID"),
        (two(json!({"name": "x", "policy": "fast"})), "use context, larger or shared-match"),
        (two(json!({"name": "control"})), "differ"),
        (two(json!({"name": "a b"})), "letters, digits"),
        (two(json!({"name": "x", "arm": ""})), "use zlib"),
        (two(json!({"name": "x", "weight": 0})), "Must be a whole number from 1 to 10000; it is 0."),
        (two(json!({"name": "x", "weight": 1.5})), "Must be a whole number from 1 to 10000; it is 1.5."),
        (with("permille", json!(-1)), "Must be a whole number from 0 to 1000; it is -1."),
        (with("permille", json!("10")), "Must be a whole number from 0 to 1000"),
        (with("alpha", json!("low")), "Must be a number; it is"),
        (with("audience", json!({"guild_id": "999"})), "GET /v1/guilds lists them"),
        (with("audience", json!({"platforms": ["phone"]})), "desktop"),
        (with("first_slot", json!(999)), "Must be 0 to 990."),
        (with("alpha", json!(0.9)), "Must be 0.000001 to 0.5."),
        (with("tolerance_percent", json!(-1)), "Must be 0 to 1000."),
        (with("samples_min", json!(5)), "Must be a whole number from 30 to 1000000; it is 5."),
        (with("layer", json!("")), "1 to 64"),
        (with("percent", json!(5)), "no field `percent`"),
        (two(json!({"name": "x", "arm": "zlib", "policy": "context"})), "not both"),
    ] {
        let answer = backend.http.request("POST", "/v1/experiments", Some(&body)).unwrap();
        assert_eq!(answer.status, 400, "{body}: {answer:?}");
        assert!(answer.body.to_string().contains(because), "{body}: {}", answer.body);
    }
    for (method, path, body, because) in [
        ("POST", "", json!({"name": "ramp", "permille": 1, "arms": arms}), "choose another name"),
        ("POST", "", json!({"name": "full", "permille": 1, "arms": arms}), "has no room"),
        ("DELETE", "/ramp", Value::Null, "stop it first"),
    ] {
        let body = Some(body).filter(|body| !body.is_null());
        let answer = backend.http.request(method, &format!("/v1/experiments{path}"), body.as_ref()).unwrap();
        assert!(answer.status == 409 && answer.body.to_string().contains(because), "{method} {path}: {answer:?}");
    }
    backend.request("GET", "/experiments/none", None, 404);
    backend.request("GET", "/experiments/none/report", None, 404);
    let mut kept: BTreeMap<u64, Client> = BTreeMap::new();
    for at in &all {
        kept.insert(*at, join(&demo, &mut backend, *at, "encoding=json&compress=zstd-stream"));
    }
    let stop = json!({"reconnect": true, "reason": "enough"});
    let stopped = backend.request("POST", "/experiments/ramp/stop", Some(stop), 200);
    assert_eq!((&stopped["state"], &stopped["reason"]), (&json!("stopped"), &json!("enough")));
    kept.values_mut().for_each(|client| drop(client.await_payload(7, None)));
    backend.request("PATCH", "/experiments/ramp", Some(json!({"permille": 5})), 409);
    backend.request("DELETE", "/experiments/ramp", None, 204);
    assert_eq!(backend.get("/experiments"), json!([]));
    assert_eq!(demo.terminate(), Some(0));
}

#[test]
fn two_nodes_follow_one_set_of_experiments() {
    let Some(site) = Site::new() else { return };
    let (first, second) = two(&site);
    let mut backends = [first.backend(), second.backend()];
    let body = json!({"name": "both", "permille": 100, "arms": [
        {"name": "control", "policy": "context"}, {"name": "shared", "policy": "shared-match"}]});
    backends[0].request("POST", "/experiments", Some(body), 201);
    let mut follows = |at: usize, key: &str, expected: Value| {
        wait_until(&format!("{key} {expected} at node {at}"), || {
            let listed = backends[at].get("/experiments");
            if listed[0]["name"] == "both" && listed[0][key] == expected { Ok(()) } else { Err(listed) }
        });
    };
    follows(1, "state", json!("running"));
    second.backend().request("PATCH", "/experiments/both", Some(json!({"permille": 500})), 200);
    follows(0, "permille", json!(500));
    let stop = json!({"reason": "enough"});
    first.backend().request("POST", "/experiments/both/stop", Some(stop), 200);
    follows(1, "state", json!("stopped"));
    second.backend().request("PATCH", "/experiments/both", Some(json!({"permille": 600})), 409);
}

#[test]
fn samples_of_a_node_that_has_ended_count_for_the_alarm_of_the_cluster() {
    let Some(site) = Site::with(&["codec.contexts_cpu_percent=100", "codec.streams=auto"]) else { return };
    let (first, second) = two(&site);
    build(&mut first.backend(), 40);
    let arms = ["control", "broken"];
    let of_arm = |arm: usize| (0..40).filter(move |at| arm_of("broken", &arms, OWNER + at) == arm).take(10);
    let accounts: Vec<(u64, usize)> = (0..2).flat_map(|arm| of_arm(arm).map(move |at| (at, arm))).collect();
    assert_eq!(accounts.len(), 20, "choose another name");
    let body = json!({"name": "broken", "permille": 1000, "samples_min": 30, "arms": [
        {"name": "control"}, {"name": "broken", "arm": "zlib:level=9"}]});
    first.backend().request("POST", "/experiments", Some(body), 201);
    let mut backend = first.backend();
    let round = |addr: SocketAddr, backend: &mut Backend| {
        for (at, arm) in &accounts {
            let client = join_at(addr, backend, *at, "encoding=json&compress=zlib-stream");
            // The control leaves in order.
            client.close(if *arm == 1 { 4002 } else { 1001 });
        }
    };
    let faults = |report: &Value, arm: usize| {
        let metrics = report["arms"][arm]["metrics"].as_array().unwrap();
        metrics.iter().find(|metric| metric["name"] == "decode_faults").unwrap()["samples"].as_u64().unwrap()
    };
    let has = |samples: u64, nodes: u64| {
        wait_until(&format!("{samples} samples of {nodes} nodes"), || {
            let report = first.backend().get("/experiments/broken/report");
            let is_so = (0..2).all(|arm| faults(&report, arm) == samples) && report["nodes"] == nodes;
            if is_so { Ok(()) } else { Err(report) }
        });
    };
    round(second.addr, &mut backend);
    has(10, 2);
    // The first node has taken them: they outlive the other one.
    assert_eq!(second.process.terminate(), Some(0));
    first.wait_for_members(1);
    has(10, 1);
    round(first.addr, &mut backend);
    has(20, 1);
    assert_eq!(backend.get("/experiments/broken")["state"], "running");
    // 20 of its own and 10 of the other node: the 30 that a verdict needs.
    round(first.addr, &mut backend);
    let of = ended(&mut backend, "broken");
    let reason = of["reason"].as_str().unwrap();
    assert!(of["state"] == "rolled_back" && reason.starts_with("decode_faults of broken is 1.0"), "{of}");
    assert!(reason.ends_with("after 30 samples"), "{reason}");
    has(30, 1);
}

#[test]
fn a_list_that_one_node_answers_counts_for_a_connection_to_another() {
    let Some(site) = Site::with(&["codec.contexts_cpu_percent=100", "codec.streams=auto"]) else { return };
    let (first, second) = two(&site);
    let trained = tempfile::tempdir().unwrap();
    let [(file, dictionary), _] = files(trained.path(), 1);
    let (id, arms, mut backend) = (dictionary.id(), ["control", "tried"], first.backend());
    build(&mut backend, 4);
    let key = backend.key.clone();
    lab_ok(first.addr, &key, &["stage", file.to_str().unwrap()]);
    dictionary_experiment(&mut backend, "dict", id);
    let mut by_arm = [0, 0];
    for at in 0..4 {
        let token = backend.token(&(OWNER + at).to_string());
        let arm = arm_of("dict", &arms, OWNER + at);
        let expected = if arm == 1 { vec![id.to_string()] } else { vec![] };
        wait_until("the list of its arm at the other node", || {
            let ids = listed(second.addr, Some(&token)).unwrap();
            if ids == expected { Ok(()) } else { Err(ids) }
        });
        let _kept = wait_until("a sample of a connection to the first node", || {
            let mut client = match arm {
                1 => Client::connect(first.addr, &query(id, "json"), Some(&dictionary)),
                _ => Client::connect(first.addr, "encoding=json&compress=zstd-stream", None),
            };
            client.await_payload(10, None);
            client.identify(&token);
            client.await_payload(0, Some("READY"));
            let report = backend.get("/experiments/dict/report");
            let is_there = report["arms"][arm]["connections"].as_u64().unwrap() > by_arm[arm];
            if is_there { Ok(client) } else { Err(report) }
        });
        by_arm[arm] += 1;
    }
    assert!(by_arm.iter().all(|count| *count > 0), "choose another name: {by_arm:?}");
}

#[test]
fn two_nodes_test_their_samples_together() {
    let Some(site) = Site::with(&["codec.contexts_cpu_percent=100", "codec.streams=auto"]) else { return };
    let (first, second) = two(&site);
    build(&mut first.backend(), 40);
    let arms = ["control", "broken"];
    let body = json!({"name": "broken", "permille": 1000, "samples_min": 30, "arms": [
        {"name": "control"}, {"name": "broken", "arm": "zlib:level=9"}]});
    first.backend().request("POST", "/experiments", Some(body), 201);
    let mut backend = first.backend();
    // Fewer than 30 samples of an arm at each node, and more than 30 together.
    for addr in [first.addr, second.addr] {
        for at in 0..40 {
            let arm = arm_of("broken", &arms, OWNER + at);
            let client = join_at(addr, &mut backend, at, "encoding=json&compress=zlib-stream");
            client.close(if arm == 1 { 4002 } else { 1001 });
        }
    }
    let count = (0..40).filter(|at| arm_of("broken", &arms, OWNER + at) == 1).count();
    assert!((15..=25).contains(&count), "{count} accounts of 40 are in the arm: choose another name");
    for node in [&first, &second] {
        let of = ended(&mut node.backend(), "broken");
        assert!(of["reason"].as_str().is_some_and(|reason| reason.starts_with("decode_faults of broken")), "{of}");
    }
}
