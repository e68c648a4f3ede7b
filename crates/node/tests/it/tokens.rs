//! Tokens: good ones name their account, all others are refused alike.

use crate::support::{SECRET, World, config, user};
use aws_lc_rs::hmac;
use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use guildhall_model::UserId;
use guildhall_node::AuthError;
use guildhall_stdx::Timestamp;
use guildhall_store::{Store as _, TokenHash, TokenRecord};
use serde_json::{Value, json};

const BOT: UserId = UserId::new(1_100_000_000_000_000_777);
/// The fake clock's, in seconds.
const NOW_S: u64 = 1_700_000_000;

async fn world() -> World {
    let world = World::new();
    world.node.put_user(user(BOT)).await.unwrap();
    world
}

async fn check(world: &World, token: &str, expected: Option<UserId>) {
    match world.node.authenticate(token).await {
        Ok(account) => assert_eq!(Some(account.user.id), expected, "{token}"),
        Err(AuthError::Invalid(_)) => assert_eq!(None, expected, "{token}"),
        Err(error @ (AuthError::Unavailable(_) | AuthError::KeysComing | AuthError::Busy(_))) => panic!("{error}"),
    }
}

fn jwt(key: &[u8], header: &Value, claims: &Value) -> String {
    let part = |json: &Value| URL_SAFE_NO_PAD.encode(json.to_string());
    let text = format!("{}.{}", part(header), part(claims));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes());
    format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature))
}

fn claims() -> Value {
    json!({ "sub": BOT.to_string(), "iat": NOW_S, "exp": NOW_S + 60, "jti": "x" })
}

#[tokio::test]
async fn bot_tokens_have_discords_form_and_work() {
    let world = world().await;
    let token = world.node.mint_bot_token(BOT).await.unwrap();
    let parts: Vec<&str> = token.split('.').collect();
    assert_eq!(parts.len(), 3);
    assert_eq!(STANDARD_NO_PAD.decode(parts[0]).unwrap(), BOT.to_string().as_bytes());
    assert!(URL_SAFE_NO_PAD.decode(parts[2]).unwrap().len() >= 32);
    for token in [token.clone(), format!("Bot {token}"), format!("Bearer {token}")] {
        check(&world, &token, Some(BOT)).await;
    }
    for token in [format!("bot {token}"), format!("Bot  {token}"), format!("Bot Bot {token}"), format!(" {token}")] {
        check(&world, &token, None).await;
    }
    assert_ne!(world.node.mint_bot_token(BOT).await.unwrap(), token);
    // Also after a restart: it is stored, and only as a hash.
    assert!(world.store.token(TokenHash::of(&token)).await.unwrap().is_some());
    check(&world.restarted().await, &token, Some(BOT)).await;
}

#[tokio::test]
async fn good_bot_tokens_are_looked_up_once() {
    let world = world().await;
    let token = world.node.mint_bot_token(BOT).await.unwrap();
    for _ in 0..5 {
        check(&world, &token, Some(BOT)).await;
    }
    assert_eq!(world.store.counts().tokens, 1);
}

#[tokio::test]
async fn damaged_and_forged_bot_tokens_are_refused() {
    let world = world().await;
    let token = world.node.mint_bot_token(BOT).await.unwrap();
    check(&world, &token, Some(BOT)).await;
    for end in 0..token.len() {
        check(&world, &token[..end], None).await;
    }
    let (id, rest) = token.split_once('.').unwrap();
    let other = STANDARD_NO_PAD.encode("1100000000000000778");
    for forged in [
        format!("{other}.{rest}"),
        format!("{token}A"),
        format!("{token}.A"),
        format!("{token}."),
        token.to_lowercase(),
        format!("{id}..{}", "A".repeat(43)),
        format!("{id}.AAAAAAAAAAA.{}", "A".repeat(43)),
        STANDARD_NO_PAD.encode("not a number"),
        "x".repeat(100_000),
        format!("{id}.{}.{}", "A".repeat(300), "A".repeat(300)),
        String::new(),
        "Bot ".to_owned(),
        ".".to_owned(),
        "..".to_owned(),
        "\u{0}\u{fffd}.é.ü".to_owned(),
    ] {
        check(&world, &forged, None).await;
    }
}

#[tokio::test]
async fn a_token_is_for_the_account_it_names() {
    let world = world().await;
    let token = world.node.mint_bot_token(UserId::new(5)).await.unwrap();
    let record = TokenRecord { user_id: BOT, created_at: Timestamp(0) };
    world.store.put_token(TokenHash::of(&token), record).await.unwrap();
    check(&world, &token, None).await;
}

#[tokio::test]
async fn what_is_too_long_or_has_no_form_does_not_reach_the_store() {
    let world = world().await;
    for token in ["x".repeat(513), "x".to_owned(), "!!.a.b".to_owned(), "MTIz.a".to_owned()] {
        check(&world, &token, None).await;
    }
    assert_eq!(world.store.counts().tokens, 0);
}

#[tokio::test]
async fn a_revoked_token_is_refused_at_once() {
    let world = world().await;
    let by_token = world.node.mint_bot_token(BOT).await.unwrap();
    let by_hash = world.node.mint_bot_token(BOT).await.unwrap();
    let kept = world.node.mint_bot_token(BOT).await.unwrap();
    for token in [&by_token, &by_hash, &kept] {
        check(&world, token, Some(BOT)).await;
    }
    assert_eq!(world.node.revoke_token(&*format!("Bot {by_token}")).await.unwrap().map(|r| r.user_id), Some(BOT));
    assert!(world.node.revoke_token(TokenHash::of(&by_hash)).await.unwrap().is_some());
    assert_eq!(world.node.revoke_token(&*by_token).await.unwrap(), None, "it was revoked already");
    check(&world, &by_token, None).await;
    check(&world, &by_hash, None).await;
    check(&world, &kept, Some(BOT)).await;
}

#[tokio::test]
async fn an_account_that_is_not_there_has_no_tokens() {
    let world = world().await;
    let nobody = UserId::new(5);
    let token = world.node.mint_bot_token(nobody).await.unwrap();
    check(&world, &token, None).await;
    check(&world, &world.node.mint_user_token(nobody, 60), None).await;
    world.node.put_user(user(nobody)).await.unwrap();
    check(&world, &token, Some(nobody)).await;
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_no_verdict() {
    let world = world().await;
    let token = world.node.mint_bot_token(BOT).await.unwrap();
    world.store.set(|faults| faults.failing_tokens = true);
    assert!(matches!(world.node.authenticate(&token).await, Err(AuthError::Unavailable(_))));
    world.store.set(|faults| faults.failing_tokens = false);
    check(&world, &token, Some(BOT)).await;
}

#[tokio::test]
async fn user_tokens_work_until_they_end() {
    let world = world().await;
    let token = world.node.mint_user_token(BOT, 60);
    assert_ne!(world.node.mint_user_token(BOT, 60), token);
    for token in [token.clone(), format!("Bearer {token}"), format!("Bot {token}")] {
        check(&world, &token, Some(BOT)).await;
    }
    world.advance(59_999).await;
    check(&world, &token, Some(BOT)).await;
    world.advance(1).await;
    check(&world, &token, None).await;
    check(&world, &world.node.mint_user_token(BOT, 0), None).await;
    check(&world, &world.node.mint_user_token(BOT, u64::MAX), Some(BOT)).await;
    assert_eq!(world.store.counts().tokens, 0);
}

#[tokio::test]
async fn forged_user_tokens_are_refused() {
    let world = world().await;
    let header = json!({ "alg": "HS256", "typ": "JWT" });
    let good = jwt(SECRET, &header, &claims());
    check(&world, &good, Some(BOT)).await;

    check(&world, &jwt(b"another secret of thirty-two bytes", &header, &claims()), None).await;
    for alg in ["none", "None", "NONE", "HS384", "HS512", "RS256", "ES256", "hs256", ""] {
        let header = json!({ "alg": alg, "typ": "JWT" });
        let forged = jwt(SECRET, &header, &claims());
        check(&world, &forged, None).await;
        let unsigned = format!("{}.", forged.rsplit_once('.').unwrap().0);
        check(&world, &unsigned, None).await;
    }
    for (name, value) in [
        ("sub", json!(null)),
        ("sub", json!(1_100_000_000_000_000_777_u64)),
        ("sub", json!("")),
        ("sub", json!("+5")),
        ("sub", json!("9223372036854775808")),
        ("exp", json!(null)),
        ("exp", json!("1800000000")),
        ("exp", json!(NOW_S)),
        ("exp", json!(NOW_S - 1)),
        ("exp", json!(0)),
        ("exp", json!(-1)),
        ("iat", json!(null)),
        ("jti", json!(null)),
    ] {
        let mut forged = claims();
        forged[name] = value;
        check(&world, &jwt(SECRET, &header, &forged), None).await;
        forged.as_object_mut().unwrap().remove(name);
        check(&world, &jwt(SECRET, &header, &forged), None).await;
    }
    for end in 0..good.len() {
        check(&world, &good[..end], None).await;
    }
    let parts: Vec<&str> = good.split('.').collect();
    let mut other = claims();
    other["sub"] = json!("5");
    let other = URL_SAFE_NO_PAD.encode(other.to_string());
    for forged in [
        format!("{}.{other}.{}", parts[0], parts[2]),
        format!("{good}.x"),
        format!("{good}="),
        format!("{}..{}", parts[0], parts[2]),
        "eyJ".to_owned(),
        "eyJ..".to_owned(),
        "eyJ\u{fffd}.x.y".to_owned(),
    ] {
        check(&world, &forged, None).await;
    }
}

#[tokio::test]
async fn secrets_are_not_printed() {
    let text = format!("{:?}", config());
    assert!(text.contains("redacted") && !text.contains("secret of"), "{text}");
    let bytes = format!("{:?}", SECRET);
    assert!(!text.contains(&bytes[1..20]), "{text}");
}

#[tokio::test]
async fn user_tokens_are_revoked_one_by_one_and_all_at_once() {
    let world = world().await;
    let (one, two) = (world.node.mint_user_token(BOT, 60), world.node.mint_user_token(BOT, 60));
    check(&world, &one, Some(BOT)).await;
    let first = world.node.authenticate(&one).await.unwrap().token;
    let second = world.node.authenticate(&two).await.unwrap().token;
    assert_ne!(first, second, "it identifies sessions of the token");
    let before = world.node.revocations();
    assert_eq!(world.node.unless_revoked(before, || 5), Some(5));
    let revoked = world.node.revoke_token(&*format!("Bearer {one}")).await.unwrap().unwrap();
    assert_eq!((revoked.user_id, revoked.token), (BOT, first));
    assert_eq!(world.node.unless_revoked(before, || 5), None, "a check that began before does not count");
    check(&world, &one, None).await;
    check(&world, &two, Some(BOT)).await;
    assert_eq!(world.node.revoke_token(&*one).await.unwrap(), None, "it was revoked already");
    assert_eq!(world.node.revoke_token("eyJnothing").await.unwrap(), None);

    let bot = world.node.mint_bot_token(BOT).await.unwrap();
    assert_eq!(world.node.revoke_user_tokens(BOT).await.unwrap(), 1);
    check(&world, &two, None).await;
    check(&world, &bot, None).await;
    let same_millisecond = world.node.mint_user_token(BOT, 60);
    check(&world, &same_millisecond, Some(BOT)).await;
    world.pass(1);
    check(&world, &world.node.mint_user_token(BOT, 60), Some(BOT)).await;
    // A revocation survives a restart on the same store.
    assert!(world.store.record("revoked_token", &TokenHash::of(&one).0).await.unwrap().is_some());
}
