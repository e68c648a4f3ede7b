//! Tokens: good ones name their account, all others are refused alike.

use crate::support::{SECRET, World, config, user};
use aws_lc_rs::hmac;
use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use guildhall_model::UserId;
use guildhall_node::{AuthError, TokenFault};
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
        Err(error) => panic!("{error}"),
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
    for token in [token.clone(), format!("Bot {token}"), format!("bearer {token}"), format!("Bot  {token}")] {
        check(&world, &token, Some(BOT)).await;
    }
    for token in [format!("Robot {token}"), format!("Bot{token}"), format!("Bot Bot {token}"), format!(" {token}")] {
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

/// T1 without a read.
#[tokio::test]
async fn t1_a_token_that_was_read_with_others_is_refused_once_it_is_revoked() {
    let world = world().await;
    let (one, two) = (world.node.mint_bot_token(BOT).await.unwrap(), world.node.mint_bot_token(BOT).await.unwrap());
    let (_, secret) = one.split_once('.').unwrap();
    let forged = format!("{}.{secret}", STANDARD_NO_PAD.encode("1100000000000000778"));
    let read = async || world.node.read_bots([one.as_str(), &two, &forged, "no token"].into_iter()).await;
    let account = |token: &str| world.node.authenticate_at_once(token, true).map(|(account, _)| account.user.id);
    assert_eq!(account(&one), None, "nothing was read yet");
    read().await;
    assert_eq!([&one, &two].map(|token| account(token)), [Some(BOT); 2]);
    assert_eq!(account(&forged), None);
    let reads = world.store.counts().tokens;
    check(&world, &one, Some(BOT)).await;
    assert_eq!(world.store.counts().tokens, reads);
    let before = world.node.revocations();
    world.node.revoke_token(one.as_str()).await.unwrap().expect("it was valid");
    assert_eq!(world.node.unless_revoked(before, || ()), None, "a check from before the revocation does not count");
    read().await;
    assert_eq!([&one, &two].map(|token| account(token)), [None, Some(BOT)]);
    world.node.revoke_user_tokens(BOT).await.unwrap();
    read().await;
    assert_eq!([&one, &two].map(|token| account(token)), [None; 2]);
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
    check(&world, &world.node.mint_user_token(nobody, 60).await.unwrap(), None).await;
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
    let token = world.node.mint_user_token(BOT, 60).await.unwrap();
    assert_ne!(world.node.mint_user_token(BOT, 60).await.unwrap(), token);
    for token in [token.clone(), format!("Bearer {token}"), format!("Bot {token}")] {
        check(&world, &token, Some(BOT)).await;
    }
    world.advance(59_999).await;
    check(&world, &token, Some(BOT)).await;
    world.advance(1).await;
    check(&world, &token, None).await;
    check(&world, &world.node.mint_user_token(BOT, 0).await.unwrap(), None).await;
    check(&world, &world.node.mint_user_token(BOT, u64::MAX).await.unwrap(), Some(BOT)).await;
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
    let (one, two) =
        (world.node.mint_user_token(BOT, 60).await.unwrap(), world.node.mint_user_token(BOT, 60).await.unwrap());
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
    assert_eq!(world.node.revoke_user_tokens(BOT).await.unwrap().count, 1);
    check(&world, &two, None).await;
    check(&world, &bot, None).await;
    let same_millisecond = world.node.mint_user_token(BOT, 60).await.unwrap();
    check(&world, &same_millisecond, Some(BOT)).await;
    world.pass(1);
    check(&world, &world.node.mint_user_token(BOT, 60).await.unwrap(), Some(BOT)).await;
    // A revocation survives a restart on the same store.
    assert!(world.store.record("revoked_token", &TokenHash::of(&one).0).await.unwrap().is_some());
}

#[tokio::test]
async fn t2_all_tokens_of_an_account_end_also_those_that_are_dated_ahead() {
    let world = world().await;
    let header = json!({ "alg": "HS256", "typ": "JWT" });
    let dated = |ahead_s: i64, more: Value| {
        let mut claims = claims();
        claims["iat"] = json!(NOW_S as i64 + ahead_s);
        claims["exp"] = json!(NOW_S + 10_000_000);
        more.as_object().unwrap().iter().for_each(|(name, value)| claims[name] = value.clone());
        jwt(SECRET, &header, &claims)
    };
    // By a clock that is ahead: up to a minute they are good.
    let ahead: Vec<String> = [1, 2, 60, 61, 3_600, 86_400].map(|seconds| dated(seconds, json!({}))).into();
    for (index, token) in ahead.iter().enumerate() {
        check(&world, token, (index < 3).then_some(BOT)).await;
    }
    let inspected = world.node.inspect_token(&ahead[3]).await.unwrap();
    assert_eq!((inspected.fault, inspected.user_id), (Some(TokenFault::IssuedAhead), None));
    let earlier = world.node.mint_user_token(BOT, 10_000_000).await.unwrap();
    world.node.revoke_user_tokens(BOT).await.unwrap();
    let later = world.node.mint_user_token(BOT, 10_000_000).await.unwrap();
    for seconds in [0, 2, 60, 3_600, 90_000] {
        world.advance(seconds * 1_000).await;
        for token in ahead.iter().chain([&earlier]) {
            check(&world, token, None).await;
        }
        check(&world, &later, Some(BOT)).await;
    }
    // Every generation but the current one is refused.
    for generation in [json!(0), json!(1), json!(u64::MAX)] {
        check(&world, &dated(0, json!({ "gen": generation })), None).await;
    }
    world.node.revoke_user_tokens(BOT).await.unwrap();
    check(&world, &later, None).await;
}

#[tokio::test]
async fn t2_a_token_that_is_dated_ahead_can_be_revoked_before_it_is_good() {
    let world = world().await;
    let mut ahead = claims();
    ahead["iat"] = json!(NOW_S + 3_600);
    ahead["exp"] = json!(NOW_S + 10_000);
    let ahead = jwt(SECRET, &json!({ "alg": "HS256", "typ": "JWT" }), &ahead);
    assert_eq!(world.node.revoke_token(&*ahead).await.unwrap().map(|revoked| revoked.user_id), Some(BOT));
    world.advance(3_700_000).await;
    check(&world, &ahead, None).await;
}

/// Of 0.1.0 before generations: eight bytes, and tokens with `ms`.
#[tokio::test]
async fn t2_an_earlier_revocation_still_counts_by_time() {
    let world = world().await;
    let floor_ms = NOW_S as i64 * 1_000 + 500;
    world.store.put_record("token_floor", &BOT.get().to_be_bytes(), &floor_ms.to_be_bytes()).await.unwrap();
    let header = json!({ "alg": "HS256", "typ": "JWT" });
    for (ms, expected) in [(0, None), (500, None), (501, Some(BOT))] {
        let mut claims = claims();
        claims["ms"] = json!(ms);
        check(&world, &jwt(SECRET, &header, &claims), expected).await;
    }
    world.advance(501).await;
    let good = world.node.mint_user_token(BOT, 60).await.unwrap();
    check(&world, &good, Some(BOT)).await;
    world.node.revoke_user_tokens(BOT).await.unwrap();
    check(&world, &good, None).await;
    // A record that cannot be read refuses all tokens.
    let world = self::world().await;
    world.store.put_record("token_floor", &BOT.get().to_be_bytes(), b"what?").await.unwrap();
    check(&world, &good, None).await;
}
