//! Why was I refused: the log, the counters and the close reasons of tokens, IDENTIFYs and intents.

use crate::{
    support::{Http, guildhall, metrics, next_line, run_to_end, serve, wait_for},
    ws::{Got, PLAIN, Ws},
};
use serde_json::{Value, json};
use std::{net::SocketAddr, path::Path, sync::mpsc::Receiver};

fn new_token(data: &Path, kind: &str, name: &str) -> String {
    let made = run_to_end(guildhall(["token", kind, "--new", name, "--data"]).arg(data));
    String::from_utf8(made.stdout).unwrap().trim().trim_start_matches("Bot ").to_owned()
}

/// The next line about a refusal.
fn refusal(log: &Receiver<Value>) -> Value {
    next_line(log, "a line about a refusal", |line| {
        line["message"].as_str().is_some_and(|text| text.starts_with("refused: "))
    })
}

/// The close code and reason that this IDENTIFY gets; no code: op 9.
fn identify(addr: SocketAddr, d: &Value) -> Option<u16> {
    let mut ws = Ws::connect(addr, PLAIN, "").unwrap();
    ws.send(&json!({"op": 2, "d": d}));
    ws.until("a refusal", |got| match got {
        Got::Close(code) => Ok(code),
        Got::Payload(payload) if payload["op"] == 9 => Ok(None),
        Got::Payload(payload) if payload["t"] == "READY" => panic!("it is let in"),
        other => Err(other),
    })
}

#[test]
fn every_refused_identify_has_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let (bot, user) = (new_token(&data, "bot", "bob"), new_token(&data, "user", "ana"));
    let args = [
        "--set",
        "server.metrics=open",
        "--set",
        "limits.user_sessions_max=1",
        "--set",
        "limits.identify_concurrency=5",
    ];
    let args: Vec<&std::ffi::OsStr> = args.iter().map(|arg| arg.as_ref()).collect();
    let (_node, addr, log) = serve(&data, &args);
    let of = |token: &str, more: Value| {
        let mut d = json!({"token": token, "properties": {}, "intents": 1});
        more.as_object().unwrap().iter().for_each(|(name, value)| d[name] = value.clone());
        d
    };
    let (mut secret, mut held) = (user.clone(), Vec::new());
    secret.pop();
    for (d, code, reason, has_account) in [
        (of("no-token", json!({})), Some(4004), "token", false),
        (of(&secret, json!({})), Some(4004), "token", false),
        (json!({"intents": 1}), Some(4001), "payload", false),
        (of(&bot, json!({"intents": null})), Some(4013), "intents_malformed", true),
        (of(&bot, json!({"intents": 1u64 << 40})), Some(4013), "intents_unknown", true),
        (of(&bot, json!({"shard": [5, 1]})), Some(4010), "shard", true),
        (of(&user, json!({})), Some(4015), "sessions", true),
        (of(&bot, json!({})), None, "bot_rate", true),
    ] {
        // The sessions or IDENTIFYs that each may have.
        match reason {
            "sessions" => held.push(Ws::session(addr, &user)),
            "bot_rate" => held.extend((0..5).map(|_| Ws::session(addr, &bot))),
            _ => {}
        }
        assert_eq!(identify(addr, &d), code, "{reason}");
        let is_second = secret == d["token"].as_str().unwrap_or_default();
        if is_second {
            // A second refusal of that reason within five seconds: counted, and the token's own reason is another.
            assert_eq!(refusal(&log)["reason"], "signature");
            continue;
        }
        if reason == "token" {
            let line = refusal(&log);
            assert_eq!(
                (&line["what"], &line["reason"], &line["level"]),
                (&json!("a token"), &json!("malformed"), &json!("INFO"))
            );
        }
        let line = refusal(&log);
        assert_eq!((&line["what"], &line["reason"]), (&json!("an IDENTIFY"), &json!(reason)), "{line}");
        assert_eq!(line.get("user_id").is_some(), has_account, "{line}");
        let text = line.to_string();
        assert!(!text.contains(&user) && !text.contains(&bot), "{text}");
    }
    let counted = metrics(addr);
    for line in [
        "identifies_refused_total{reason=\"token\"} 2",
        "identifies_refused_total{reason=\"payload\"} 1",
        "identifies_refused_total{reason=\"shard\"} 1",
        "identifies_refused_total{reason=\"bot_day\"} 0",
        "tokens_refused_total{reason=\"malformed\"} 1",
    ] {
        assert!(counted.contains(&format!("guildhall_{line}\n")), "{line}: {counted}");
    }
    // REST refuses with the same reasons, and an address that guesses is counted too.
    let mut guess = Http::new(addr, "x.y.z");
    wait_for("429", || (guess.get("/api/v10/users/@me").unwrap().status == 429).then_some(()));
    assert!(metrics(addr).contains("tokens_refused_total{reason=\"rate_limited\"} 1\n"));
}

/// The close reason names the parameter of the URL.
#[test]
fn the_close_reason_names_the_wrong_parameter() {
    let dir = tempfile::tempdir().unwrap();
    let (_node, addr, _log) = serve(&dir.path().join("data"), &[]);
    for (target, code, parameter) in
        [("/?v=8", 4012, "v="), ("/?v=10&encoding=xml", 4002, "encoding="), ("/?v=10&compress=gzip", 4002, "compress=")]
    {
        let mut ws = Ws::connect(addr, target, "").unwrap();
        assert_eq!(ws.close_code(), Some(code), "{target}");
        assert!(ws.close_reason.contains(parameter), "{target}: {}", ws.close_reason);
    }
}
