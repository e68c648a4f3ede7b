//! `auth.jwks_file`: an issuer signs user tokens, and changes keys while the node runs.

use crate::{
    support::{Demo, Http, run, stderr, wait_for},
    ws::{PLAIN, Ws},
};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use serde_json::json;
use std::{fs, path::Path, process::Stdio, thread, time::Duration};

/// A set of these public keys.
pub fn jwks(pairs: &[(&str, &Ed25519KeyPair)]) -> String {
    let key = |(kid, pair): &(&str, &Ed25519KeyPair)| json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "x": BASE64.encode(pair.public_key().as_ref())});
    let keys: Vec<_> = pairs.iter().map(key).collect();
    json!({ "keys": keys }).to_string()
}

fn put_keys(path: &Path, pairs: &[(&str, &Ed25519KeyPair)]) {
    // As such files are changed: a new one takes the place of the old.
    let next = path.with_extension("next");
    fs::write(&next, jwks(pairs)).unwrap();
    fs::rename(next, path).unwrap();
}

/// A token that such a key signs.
pub fn token(kid: &str, pair: &Ed25519KeyPair, sub: &str, audience: &str) -> String {
    let part = |json: serde_json::Value| BASE64.encode(json.to_string());
    let claims = json!({"sub": sub, "aud": audience, "exp": 4_000_000_000u64});
    let text = format!("{}.{}", part(json!({"alg": "EdDSA", "kid": kid})), part(claims));
    format!("{text}.{}", BASE64.encode(pair.sign(text.as_bytes())))
}

#[test]
fn keys_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (dir.path().join("jwks.json"), dir.path().join("data"));
    let pairs = [Ed25519KeyPair::generate().unwrap(), Ed25519KeyPair::generate().unwrap()];
    put_keys(&file, &[("a", &pairs[0])]);
    let setting = format!("auth.jwks_file={}", file.display());
    let args = ["--members", "5", "--rate", "0", "--set", &setting, "--set", "auth.jwt_audience=chat"];
    let demo = Demo::start_on(&data, "127.0.0.1:0", &args, Stdio::null());
    let me = demo.client("user_token").get("/api/v10/users/@me").unwrap().body["id"].as_str().unwrap().to_owned();
    let status = |token: &str| Http::new(demo.addr, token).get("/api/v10/users/@me").unwrap().status;
    let (first, second) = (token("a", &pairs[0], &me, "chat"), token("b", &pairs[1], &me, "chat"));
    assert_eq!((status(&first), status(&second)), (200, 401));
    assert_eq!(status(&token("a", &pairs[0], &me, "mail")), 401);
    drop(Ws::session(demo.addr, &first));
    // Not so often that the rate limit of the address refuses.
    let wait_until = |what: &str, is_so: &dyn Fn() -> bool| {
        wait_for(what, || {
            thread::sleep(Duration::from_millis(200));
            is_so().then_some(())
        });
    };
    put_keys(&file, &[("a", &pairs[0]), ("b", &pairs[1])]);
    wait_until("the second key is taken", &|| status(&second) == 200);
    assert_eq!(status(&first), 200);
    // One that is wrong changes nothing.
    fs::write(&file, "{\"keys\": [").unwrap();
    thread::sleep(Duration::from_millis(2_500));
    assert_eq!((status(&first), status(&second)), (200, 200));
    put_keys(&file, &[("b", &pairs[1])]);
    wait_until("the first key is gone", &|| status(&first) == 401);
    drop(Ws::session(demo.addr, &second));
    let mut late = Ws::connect(demo.addr, PLAIN, "").unwrap();
    late.identify(&first);
    assert_eq!(late.close_code(), Some(4004));
    // An empty set is how stolen keys are taken away.
    put_keys(&file, &[]);
    wait_until("no key is left", &|| status(&second) == 401);
    assert_eq!(demo.client("user_token").get("/api/v10/users/@me").unwrap().status, 200, "ours are good");
    assert_eq!(demo.terminate(), Some(0));

    fs::write(&file, "{}").unwrap();
    let data = data.to_str().unwrap();
    let audience = "auth.jwt_audience=any";
    let refused = run(["serve", "--listen", "127.0.0.1:0", "--data", data, "--set", &setting, "--set", audience]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("auth.jwks_file") && stderr(&refused).contains("not a JSON Web Key Set"));
}

#[test]
fn s16_a_key_set_needs_an_audience() {
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (dir.path().join("jwks.json"), dir.path().join("data"));
    put_keys(&file, &[("a", &Ed25519KeyPair::generate().unwrap())]);
    let data = data.to_str().unwrap();
    for setting in [
        format!("auth.jwks_file={}", file.display()),
        "auth.jwks_url=https://id.example.net/.well-known/jwks.json".to_owned(),
    ] {
        for args in [&["config", "check", "--set", &setting][..], &["serve", "--data", data, "--set", &setting]] {
            let refused = run(args);
            let text = stderr(&refused);
            assert_eq!(refused.status.code(), Some(2), "{args:?}: {text}");
            assert!(text.contains("auth.jwt_audience") && text.contains("\"any\"") && text.contains("`aud`"), "{text}");
        }
        for audience in ["chat", "any"] {
            let audience = format!("auth.jwt_audience={audience}");
            let fine = run(["config", "check", "--set", &setting, "--set", &audience]);
            assert!(fine.status.success(), "{}", stderr(&fine));
        }
    }
}

#[test]
fn accounts_are_made_at_first_sight_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let (file, data) = (dir.path().join("jwks.json"), dir.path().join("data"));
    let pair = Ed25519KeyPair::generate().unwrap();
    put_keys(&file, &[("a", &pair)]);
    let jwks = format!("auth.jwks_file={}", file.display());
    let mut args = vec!["--members", "5", "--rate", "0", "--set", &jwks, "--set", "auth.jwt_audience=chat"];
    args.extend(["--set", "auth.jwt_create_accounts=on", "--set", "auth.jwt_display_name_claim=nick"]);
    let demo = Demo::start_on(&data, "127.0.0.1:0", &args, Stdio::null());
    let signed = |sub: &str| {
        let part = |json: serde_json::Value| BASE64.encode(json.to_string());
        let claims = json!({
            "sub": sub, "aud": "chat", "exp": 4_000_000_000u64, "preferred_username": "ana", "nick": "Ana Álvarez"
        });
        let text = format!("{}.{}", part(json!({"alg": "EdDSA", "kid": "a"})), part(claims));
        format!("{text}.{}", BASE64.encode(pair.sign(text.as_bytes())))
    };
    // By REST and by the gateway, in either order.
    let me = Http::new(demo.addr, &signed("auth0|7f")).get("/api/v10/users/@me").unwrap();
    assert_eq!((me.status, &me.body["username"], &me.body["global_name"]), (200, &json!("ana"), &json!("Ana Álvarez")));
    drop(Ws::session(demo.addr, &signed("auth0|7f")));
    drop(Ws::session(demo.addr, &signed("auth0|80")));
    let other = Http::new(demo.addr, &signed("auth0|80")).get("/api/v10/users/@me").unwrap();
    assert_eq!(other.status, 200);
    assert_ne!(other.body["id"], me.body["id"]);
    assert_eq!(
        Http::new(demo.addr, &token("a", &pair, "auth0|81", "mail")).get("/api/v10/users/@me").unwrap().status,
        401
    );
    assert_eq!(demo.terminate(), Some(0));
    // The account stays the subject's, also when no further ones are made.
    let args = ["--members", "5", "--rate", "0", "--set", &jwks, "--set", "auth.jwt_audience=chat"];
    let demo = Demo::start_on(&data, "127.0.0.1:0", &args, Stdio::null());
    let again = Http::new(demo.addr, &signed("auth0|7f")).get("/api/v10/users/@me").unwrap();
    assert_eq!((again.status, &again.body["id"]), (200, &me.body["id"]));
    assert_eq!(Http::new(demo.addr, &signed("auth0|90")).get("/api/v10/users/@me").unwrap().status, 401);
    drop(demo);
    let refused = run(["config", "check", "--set", "auth.jwt_create_accounts=on"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("auth.jwks_file or auth.jwks_url"), "{}", stderr(&refused));
}
