//! Tokens of other issuers: EdDSA and RS256, keys that come and go, and what must not be taken for one.

use crate::support::{SECRET, World, user};
use aws_lc_rs::{
    rand::SystemRandom,
    rsa::{KeySize, PublicKeyComponents},
    signature::{Ed25519KeyPair, KeyPair as _, RSA_PKCS1_SHA256, RsaKeyPair},
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use guildhall_model::{User, UserId};
use guildhall_node::{AuthError, Issuers, IssuersError, TOKEN_BYTES_MAX, Terms, TokenFault, TokenKind};
use serde_json::{Value, json};

const ANA: UserId = UserId::new(1_100_000_000_000_000_555);
/// The fake clock's, in seconds.
pub const NOW_S: u64 = 1_700_000_000;

pub enum Signer {
    Ed(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

impl Signer {
    pub fn ed() -> Self {
        Self::Ed(Ed25519KeyPair::generate().unwrap())
    }

    fn rsa() -> Self {
        Self::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap())
    }

    pub fn jwk(&self, kid: &str) -> Value {
        match self {
            Self::Ed(pair) => {
                let x = BASE64.encode(pair.public_key().as_ref());
                json!({"kty": "OKP", "crv": "Ed25519", "kid": kid, "use": "sig", "alg": "EdDSA", "x": x})
            }
            Self::Rsa(pair) => {
                let PublicKeyComponents::<Vec<u8>> { n, e } = pair.public_key().into();
                json!({"kty": "RSA", "kid": kid, "n": BASE64.encode(n), "e": BASE64.encode(e)})
            }
        }
    }

    pub fn token(&self, kid: &str, claims: &Value) -> String {
        let alg = if matches!(self, Self::Ed(_)) { "EdDSA" } else { "RS256" };
        let part = |json: &Value| BASE64.encode(json.to_string());
        let text = format!("{}.{}", part(&json!({"typ": "JWT", "alg": alg, "kid": kid})), part(claims));
        let signature = match self {
            Self::Ed(pair) => pair.sign(text.as_bytes()).as_ref().to_vec(),
            Self::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature).unwrap();
                signature
            }
        };
        format!("{text}.{}", BASE64.encode(signature))
    }
}

fn claims() -> Value {
    json!({"sub": ANA.to_string(), "exp": NOW_S + 60, "iss": "https://id.example.net", "aud": ["chat", "other"]})
}

fn with(change: &Value) -> Value {
    let mut claims = claims();
    change.as_object().unwrap().iter().for_each(|(name, value)| claims[name] = value.clone());
    claims
}

pub fn set(keys: &[Value]) -> String {
    json!({ "keys": keys }).to_string()
}

async fn world() -> World {
    let world = World::new();
    world.node.put_user(user(ANA)).await.unwrap();
    world
}

async fn check(world: &World, token: &str, is_good: bool) {
    match world.node.authenticate(token).await {
        Ok(account) => assert!(is_good && account.user.id == ANA, "{token}"),
        Err(AuthError::Invalid(_)) => assert!(!is_good, "{token}"),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn both_kinds_of_keys_and_their_rotation() {
    let world = world().await;
    let (ed, rsa, next) = (Signer::ed(), Signer::rsa(), Signer::ed());
    check(&world, &ed.token("a", &claims()), false).await;
    world.node.set_issuers(Some(Issuers::parse(&set(&[ed.jwk("a"), rsa.jwk("b")]), Terms::default()).unwrap()));
    check(&world, &ed.token("a", &claims()), true).await;
    check(&world, &rsa.token("b", &claims()), true).await;
    check(&world, &ed.token("b", &claims()), false).await;
    check(&world, &next.token("a", &claims()), false).await;
    // The next key is there before the old one goes.
    world.node.set_issuers(Some(Issuers::parse(&set(&[ed.jwk("a"), next.jwk("c")]), Terms::default()).unwrap()));
    check(&world, &ed.token("a", &claims()), true).await;
    check(&world, &next.token("c", &claims()), true).await;
    check(&world, &rsa.token("b", &claims()), false).await;
    world.node.set_issuers(Some(Issuers::parse(&set(&[next.jwk("c")]), Terms::default()).unwrap()));
    check(&world, &ed.token("a", &claims()), false).await;
    // Ours are good all the while.
    check(&world, &world.node.mint_user_token(ANA, 60).await.unwrap(), true).await;
    world.node.set_issuers(None);
    check(&world, &next.token("c", &claims()), false).await;
    check(&world, &world.node.mint_user_token(ANA, 60).await.unwrap(), true).await;
}

#[tokio::test]
async fn i1_a_public_key_is_no_secret() {
    let world = world().await;
    let rsa = Signer::rsa();
    let jwk = rsa.jwk("b");
    world.node.set_issuers(Some(Issuers::parse(&set(std::slice::from_ref(&jwk)), Terms::default()).unwrap()));
    let Signer::Rsa(pair) = &rsa else { unreachable!() };
    // An attacker who knows the public key uses it as the secret of HS256.
    let der =
        aws_lc_rs::encoding::AsDer::<aws_lc_rs::encoding::PublicKeyX509Der<'_>>::as_der(pair.public_key()).unwrap();
    for key in [der.as_ref(), jwk["n"].as_str().unwrap().as_bytes(), pair.public_key().as_ref()] {
        let text = format!("{}.{}", BASE64.encode(r#"{"alg":"HS256","kid":"b"}"#), BASE64.encode(claims().to_string()));
        let tag = aws_lc_rs::hmac::sign(&aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, key), text.as_bytes());
        check(&world, &format!("{text}.{}", BASE64.encode(tag)), false).await;
    }
    for alg in ["none", "None", "", "RS512", "ES256"] {
        let head = BASE64.encode(json!({"alg": alg, "kid": "b"}).to_string());
        check(&world, &format!("{head}.{}.", BASE64.encode(claims().to_string())), false).await;
    }
    // Of a token that is good, every part counts.
    let good = rsa.token("b", &claims());
    check(&world, &good, true).await;
    let forged = with(&json!({"sub": "1"})).to_string();
    let parts: Vec<&str> = good.split('.').collect();
    check(&world, &format!("{}.{}.{}", parts[0], BASE64.encode(forged), parts[2]), false).await;
    assert!(SECRET.len() >= 32);
}

#[tokio::test]
async fn i2_what_a_token_must_say() {
    let world = world().await;
    let ed = Signer::ed();
    let (issuer, audience) = (Some("https://id.example.net".to_owned()), Some("chat".to_owned()));
    let terms = Terms { issuer, audience, ..Terms::default() };
    world.node.set_issuers(Some(Issuers::parse(&set(&[ed.jwk("a")]), terms).unwrap()));
    for (change, is_good) in [
        (json!({}), true),
        (json!({"aud": "chat"}), true),
        (json!({"aud": "chats"}), false),
        (json!({"aud": []}), false),
        (json!({"aud": null}), false),
        (json!({"iss": "https://id.example.com"}), false),
        (json!({"exp": NOW_S}), false),
        (json!({"exp": NOW_S + 1}), true),
        (json!({"nbf": NOW_S + 20}), true),
        (json!({"nbf": NOW_S + 60}), false),
        (json!({"sub": "ana"}), false),
        (json!({"sub": "1100000000000000556"}), false),
    ] {
        check(&world, &ed.token("a", &with(&change)), is_good).await;
    }
    for missing in ["exp", "sub", "iss", "aud"] {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(missing);
        check(&world, &ed.token("a", &claims), false).await;
    }
}

#[test]
fn i3_sets_that_are_none() {
    let parse = |jwks: &str| Issuers::parse(jwks, Terms::default()).map(|issuers| issuers.keys_count());
    let ed = Signer::ed().jwk("a");
    assert!(matches!(parse("{"), Err(IssuersError::NotJwks(_))));
    assert!(matches!(parse("{}"), Err(IssuersError::NotJwks(_))));
    assert_eq!(parse(&set(&[])).unwrap(), 0, "an empty set takes all keys away");
    let symmetric = json!({"kty": "oct", "kid": "s", "k": BASE64.encode([7; 32])});
    assert!(matches!(parse(&set(std::slice::from_ref(&symmetric))), Err(IssuersError::NoKeys)));
    assert_eq!(parse(&set(&[symmetric, ed.clone()])).unwrap(), 1);
    let mut bad = ed.clone();
    bad["x"] = json!("?");
    assert!(matches!(parse(&set(&[bad])), Err(IssuersError::BadKey { .. })));
    let mut for_encryption = ed.clone();
    for_encryption["use"] = json!("enc");
    assert!(matches!(parse(&set(&[for_encryption])), Err(IssuersError::NoKeys)));
    assert!(matches!(parse(&set(&vec![ed.clone(); 65])), Err(IssuersError::TooMany { got_count: 65 })));
    assert!(matches!(parse(&format!("{}{}", set(&[ed]), " ".repeat(300_000))), Err(IssuersError::TooLong { .. })));
}

/// The longest token up to this length that base64 allows, padded by an unused claim.
fn token_up_to(signer: &Signer, kid: &str, length: usize) -> String {
    let padded = |pad: usize| signer.token(kid, &with(&json!({"scope": "x".repeat(pad)})));
    let pad = (length - padded(0).len()) * 3 / 4;
    let mut fitting = (pad.saturating_sub(2)..pad + 3).map(padded).filter(|token| token.len() <= length);
    let token = fitting.next_back().expect("a padding that fits");
    assert!(token.len() >= length - 1, "{} instead of {length}", token.len());
    token
}

#[tokio::test]
async fn s12_tokens_of_every_legal_size_are_taken_and_revoked() {
    let world = world().await;
    let rsa = Signer::rsa();
    world.node.set_issuers(Some(Issuers::parse(&set(&[rsa.jwk("b")]), Terms::default()).unwrap()));
    for length in [655, 1_025, 1_134, 2_048, 2_050, TOKEN_BYTES_MAX] {
        let token = token_up_to(&rsa, "b", length);
        for token in [token.clone(), format!("Bearer {token}")] {
            check(&world, &token, true).await;
        }
        let revoked = world.node.revoke_token(&*token).await.unwrap().expect("it was good");
        assert_eq!(revoked.user_id, ANA, "{length}");
        check(&world, &token, false).await;
    }
    let longer = token_up_to(&rsa, "b", TOKEN_BYTES_MAX + 3);
    assert!(matches!(world.node.authenticate(&longer).await, Err(AuthError::Invalid(TokenFault::TooLong))));
}

#[tokio::test]
async fn s12_a_jwt_is_one_however_its_header_is_written() {
    let world = world().await;
    let Signer::Ed(pair) = Signer::ed() else { unreachable!() };
    let signer = Signer::Ed(pair);
    world.node.set_issuers(Some(Issuers::parse(&set(&[signer.jwk("a")]), Terms::default()).unwrap()));
    let Signer::Ed(pair) = &signer else { unreachable!() };
    for head in [r#"{ "alg" : "EdDSA", "kid": "a" }"#, "\n{\"kid\":\"a\",\n\"alg\":\"EdDSA\"}"] {
        let text = format!("{}.{}", BASE64.encode(head), BASE64.encode(claims().to_string()));
        let token = format!("{text}.{}", BASE64.encode(pair.sign(text.as_bytes())));
        assert!(!token.starts_with("eyJ"));
        check(&world, &token, true).await;
        assert!(world.node.revoke_token(&*token).await.unwrap().is_some());
        check(&world, &token, false).await;
    }
}

#[tokio::test]
async fn a_sign_on_never_stands_for_a_bot() {
    let world = world().await;
    let bot = UserId::new(1_100_000_000_000_000_999);
    world.node.put_user(std::sync::Arc::new(User { bot: true, ..User::new(bot, "bot") })).await.unwrap();
    let ed = Signer::ed();
    world.node.set_issuers(Some(Issuers::parse(&set(&[ed.jwk("a")]), Terms::default()).unwrap()));
    for token in
        [ed.token("a", &with(&json!({"sub": bot.to_string()}))), world.node.mint_user_token(bot, 60).await.unwrap()]
    {
        let refused = world.node.authenticate(&token).await;
        assert!(matches!(refused, Err(AuthError::Invalid(TokenFault::BotAccount))), "{refused:?}");
    }
    let token = world.node.mint_bot_token(bot).await.unwrap();
    assert_eq!(world.node.authenticate(&token).await.unwrap().user.id, bot);
}

#[tokio::test]
async fn every_refusal_has_a_reason() {
    let world = world().await;
    let (ed, other, rsa) = (Signer::ed(), Signer::ed(), Signer::rsa());
    let terms = Terms {
        issuer: Some("https://id.example.net".to_owned()),
        audience: Some("chat".to_owned()),
        subject_claim: None,
        ..Terms::default()
    };
    world.node.set_issuers(Some(Issuers::parse(&set(&[ed.jwk("a"), rsa.jwk("b")]), terms).unwrap()));
    let mut without_exp = claims();
    without_exp.as_object_mut().unwrap().remove("exp");
    let revoked = world.node.mint_user_token(ANA, 60).await.unwrap();
    world.node.revoke_token(&*revoked).await.unwrap();
    let unknown = world.node.mint_bot_token(ANA).await.unwrap();
    world.node.revoke_token(&*unknown).await.unwrap();
    let changed = |change: Value| ed.token("a", &with(&change));
    let cases = [
        (String::new(), TokenFault::Malformed),
        ("a.b".to_owned(), TokenFault::Malformed),
        ("x.y.z".to_owned(), TokenFault::Malformed),
        ("x".repeat(5_000), TokenFault::TooLong),
        (unknown, TokenFault::Unknown),
        (revoked, TokenFault::Revoked),
        (format!("{}.e30.", BASE64.encode(r#"{"alg":"none"}"#)), TokenFault::Algorithm),
        (format!("{}.e30.", BASE64.encode(r#"{"alg":"RS512","kid":"b"}"#)), TokenFault::Algorithm),
        (ed.token("b", &claims()), TokenFault::Algorithm),
        (ed.token("c", &claims()), TokenFault::UnknownKey),
        (other.token("a", &claims()), TokenFault::Signature),
        (ed.token("a", &without_exp), TokenFault::Claims),
        (changed(json!({"exp": NOW_S - 1})), TokenFault::Expired),
        (changed(json!({"nbf": NOW_S + 60})), TokenFault::NotYetValid),
        (changed(json!({"iat": NOW_S + 61})), TokenFault::IssuedAhead),
        (changed(json!({"iss": "https://id.example.com"})), TokenFault::Issuer),
        (changed(json!({"aud": "mail"})), TokenFault::Audience),
        (changed(json!({"sub": "0d5f…"})), TokenFault::Subject),
        (changed(json!({"sub": "1100000000000000556"})), TokenFault::UnknownAccount),
        (world.node.mint_user_token(ANA, 0).await.unwrap(), TokenFault::Expired),
    ];
    for (token, expected) in &cases {
        match world.node.authenticate(token).await {
            Err(AuthError::Invalid(fault)) => assert_eq!(fault, *expected, "{token}"),
            other => panic!("{token}: {other:?}"),
        }
        let inspected = world.node.inspect_token(token).await.unwrap();
        assert_eq!(inspected.fault, Some(*expected));
    }
    let counted: u64 = world.node.refused_tokens().iter().map(|(_, count)| count).sum();
    assert_eq!(counted, cases.len() as u64, "an inspection counts nothing");
    let good = world.node.inspect_token(&ed.token("a", &claims())).await.unwrap();
    assert_eq!((good.fault, good.user_id, good.kind), (None, Some(ANA), Some(TokenKind::SignOn)));
    assert_eq!(good.expires_at_s, Some(NOW_S + 60));
}

#[tokio::test]
async fn the_account_may_be_in_another_claim() {
    let world = world().await;
    let ed = Signer::ed();
    let terms = Terms { subject_claim: Some("guildhall_id".to_owned()), ..Terms::default() };
    world.node.set_issuers(Some(Issuers::parse(&set(&[ed.jwk("a")]), terms).unwrap()));
    let subject = |id: Value| ed.token("a", &with(&json!({"sub": "auth0|5", "guildhall_id": id})));
    check(&world, &subject(json!(ANA.to_string())), true).await;
    check(&world, &subject(json!(ANA.get())), true).await;
    for wrong in [json!(null), json!("auth0|5"), json!(5.5), json!([ANA.to_string()]), json!(-1)] {
        check(&world, &subject(wrong), false).await;
    }
    check(&world, &ed.token("a", &claims()), false).await;
}

#[tokio::test]
async fn t2_tokens_of_a_sign_on_whose_clock_is_ahead_are_revoked_with_all_others() {
    let world = world().await;
    let ed = Signer::ed();
    world.node.set_issuers(Some(Issuers::parse(&set(&[ed.jwk("a")]), Terms::default()).unwrap()));
    let dated = |at_s: u64| ed.token("a", &with(&json!({"iat": at_s, "exp": NOW_S + 100_000})));
    for at_s in [NOW_S - 5, NOW_S, NOW_S + 60] {
        check(&world, &dated(at_s), true).await;
    }
    check(&world, &dated(NOW_S + 61), false).await;
    world.node.revoke_user_tokens(ANA).await.unwrap();
    for seconds in [0, 30, 60, 3_600] {
        world.advance(seconds * 1_000).await;
        for at_s in [NOW_S - 5, NOW_S, NOW_S + 60] {
            check(&world, &dated(at_s), false).await;
        }
    }
    check(&world, &dated(NOW_S + 61), true).await;
}
