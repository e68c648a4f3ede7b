//! Accounts that are made when the sign-on's token is first seen.

use crate::{
    issuers::{NOW_S, Signer, set},
    support::{World, bounded, config, limits, user},
};
use guildhall_model::{User, UserId};
use guildhall_node::{AuthError, Issuers, NodeLimits, SignOnAccounts, SubjectKind, Terms, TokenFault, TokenKind};
use guildhall_store::{ExternalKind, MemoryStore, Store};
use serde_json::json;
use std::sync::Arc;

const ON: SignOnAccounts = SignOnAccounts { is_on: true, per_minute_max: 10 };

fn world(sign_on: SignOnAccounts, store: &Arc<dyn Store>, signer: &Signer) -> World {
    let world = World::with(config(), NodeLimits { sign_on, ..limits() }, store.clone());
    let issuers = Issuers::parse(&set(&[signer.jwk("a")]), Terms::default()).unwrap();
    world.node.set_issuers(Some(issuers));
    world
}

/// Subjects are external ids.
fn external(sign_on: SignOnAccounts, store: &Arc<dyn Store>, signer: &Signer) -> World {
    let world = world(sign_on, store, signer);
    let terms = Terms { subject_kind: SubjectKind::ExternalId, ..Terms::default() };
    world.node.set_issuers(Some(Issuers::parse(&set(&[signer.jwk("a")]), terms).unwrap()));
    world
}

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::new())
}

fn token(signer: &Signer, sub: &str) -> String {
    let claims = json!({"sub": sub, "exp": NOW_S + 60, "preferred_username": "ana", "name": "Ana Álvarez"});
    signer.token("a", &claims)
}

fn fault<T>(result: Result<T, AuthError>) -> Option<TokenFault> {
    match result {
        Err(AuthError::Invalid(fault) | AuthError::Busy(fault)) => Some(fault),
        Err(error) => panic!("{error}"),
        Ok(_) => None,
    }
}

#[tokio::test]
async fn a_first_token_makes_the_account() {
    let (signer, store) = (Signer::ed(), store());
    let world = world(ON, &store, &signer);
    let ana = world.node.authenticate(&token(&signer, "auth0|7f")).await.unwrap().user;
    assert_eq!((&*ana.username, ana.global_name.as_deref(), ana.bot), ("ana", Some("Ana Álvarez"), false));
    assert_eq!(world.node.user(ana.id).await.unwrap().unwrap(), ana, "it is durable");
    let again = world.node.authenticate(&token(&signer, "auth0|7f")).await.unwrap();
    assert_eq!(again.user.id, ana.id);
    let other = world.node.authenticate(&token(&signer, "auth0|80")).await.unwrap();
    assert_ne!(other.user.id, ana.id);
    let digits = world.node.authenticate(&token(&signer, "5000")).await.unwrap();
    assert_eq!(digits.user.id, UserId::new(5_000), "digits are the id");
    assert_eq!(world.node.sign_on_accounts_made(), 3);
    assert!(world.node.refused_tokens().iter().all(|(_, count)| *count == 0));
}

#[tokio::test]
async fn a1_many_tokens_at_once_make_one_account() {
    let (signer, store) = (Signer::ed(), store());
    let world = world(ON, &store, &signer);
    let tokens: Vec<String> = (0..30).map(|_| token(&signer, "auth0|7f")).collect();
    let requests = tokens.iter().map(|token| {
        let (node, token) = (world.node.clone(), token.clone());
        tokio::spawn(async move { node.authenticate(&token).await.unwrap().user.id })
    });
    let requests: Vec<_> = requests.collect();
    let mut ids = Vec::new();
    for task in requests {
        ids.push(bounded(task).await.unwrap());
    }
    ids.dedup();
    assert_eq!((ids.len(), world.node.sign_on_accounts_made()), (1, 1));
    // The next process knows it, also when no accounts are made any more.
    let next = self::world(SignOnAccounts::default(), &store, &signer);
    assert_eq!(next.node.authenticate(&token(&signer, "auth0|7f")).await.unwrap().user.id, ids[0]);
    assert_eq!(fault(next.node.authenticate(&token(&signer, "auth0|80")).await), Some(TokenFault::Subject));
}

#[tokio::test]
async fn a4_a_subject_stands_for_the_account_with_its_external_id() {
    let (signer, store) = (Signer::ed(), store());
    let world = external(SignOnAccounts::default(), &store, &signer);
    let (bob, eve) = (UserId::new(70), UserId::new(71));
    for id in [bob, eve] {
        world.node.put_user(user(id)).await.unwrap();
    }
    let bobs = token(&signer, "auth0|7f");
    assert_eq!(fault(world.node.authenticate(&bobs).await), Some(TokenFault::UnknownAccount));
    let put = async |of: &[(u64, Option<&str>)]| {
        let of: Vec<_> = of.iter().map(|(id, text)| (*id, text.map(str::to_owned))).collect();
        store.put_external_ids(ExternalKind::User, &of).await.unwrap();
    };
    put(&[(bob.get(), Some("auth0|7f")), (eve.get(), Some("70"))]).await;
    assert_eq!(world.node.authenticate(&bobs).await.unwrap().user.id, bob);
    assert_eq!(world.node.authenticate(&token(&signer, "70")).await.unwrap().user.id, eve, "digits are no id");
    assert_eq!(fault(world.node.authenticate(&token(&signer, "71")).await), Some(TokenFault::UnknownAccount));
    // A backend that moves the external id moves the sign-on with it.
    put(&[(bob.get(), None)]).await;
    assert_eq!(fault(world.node.authenticate(&bobs).await), Some(TokenFault::UnknownAccount));
    put(&[(eve.get(), Some("auth0|7f"))]).await;
    assert_eq!(world.node.authenticate(&bobs).await.unwrap().user.id, eve);
    assert_eq!(world.node.sign_on_accounts_made(), 0);
}

#[tokio::test]
async fn a4_an_account_that_is_made_has_the_subject_as_its_external_id() {
    let (signer, store) = (Signer::ed(), store());
    let world = external(ON, &store, &signer);
    let requests: Vec<_> = (0..20)
        .map(|_| {
            let (node, token) = (world.node.clone(), token(&signer, "5000"));
            tokio::spawn(async move { node.authenticate(&token).await.unwrap().user.id })
        })
        .collect();
    let mut ids = Vec::new();
    for task in requests {
        ids.push(bounded(task).await.unwrap());
    }
    ids.dedup();
    assert_eq!((ids.len(), world.node.sign_on_accounts_made()), (1, 1));
    assert_ne!(ids[0], UserId::new(5_000), "digits are no id");
    let found = store.with_external_ids(ExternalKind::User, &["5000".to_owned()]).await.unwrap();
    assert_eq!((found.len(), found[0].id), (1, ids[0].get()));
}

#[tokio::test]
async fn a2_nothing_is_made_for_a_token_that_is_not_good() {
    let (signer, store) = (Signer::ed(), store());
    let world = world(ON, &store, &signer);
    let bot = User { bot: true, ..User::clone(&user(UserId::new(77))) };
    world.node.put_user(Arc::new(bot)).await.unwrap();
    let expired = signer.token("a", &json!({"sub": "auth0|7f", "exp": NOW_S - 60}));
    assert_eq!(fault(world.node.authenticate(&expired).await), Some(TokenFault::Expired));
    assert_eq!(fault(world.node.authenticate(&token(&Signer::ed(), "auth0|7f")).await), Some(TokenFault::Signature));
    assert_eq!(fault(world.node.authenticate(&token(&signer, "77")).await), Some(TokenFault::BotAccount));
    let far = token(&signer, "9000000000000000000");
    assert_eq!(fault(world.node.authenticate(&far).await), Some(TokenFault::Subject), "years ahead");
    let inspected = world.node.inspect_token(&token(&signer, "auth0|7f")).await.unwrap();
    assert_eq!((inspected.kind, inspected.user_id), (Some(TokenKind::SignOn), None));
    assert_eq!(inspected.fault, Some(TokenFault::Subject), "an inspection makes nothing");
    assert_eq!(world.node.sign_on_accounts_made(), 0);
    // This node's own tokens name accounts that a backend makes.
    let own = world.node.mint_user_token(UserId::new(6_000), 60).await.unwrap();
    assert_eq!(fault(world.node.authenticate(&own).await), Some(TokenFault::UnknownAccount));
}

#[tokio::test]
async fn so_many_accounts_are_made_in_a_minute() {
    let (signer, store) = (Signer::ed(), store());
    let world = world(ON, &store, &signer);
    let mut made = 0;
    for n in 0..15 {
        match world.node.authenticate(&token(&signer, &format!("auth0|{n}"))).await {
            Ok(_) => made += 1,
            Err(AuthError::Busy(fault)) => assert_eq!(fault, TokenFault::AccountRate),
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(made, 10);
    assert!(world.node.authenticate(&token(&signer, "auth0|0")).await.is_ok(), "one that is there");
    assert!(world.node.refused_tokens().contains(&("account_rate", 5)));
    world.pass(6_000);
    assert!(world.node.authenticate(&token(&signer, "auth0|14")).await.is_ok());
    assert_eq!(fault(world.node.authenticate(&token(&signer, "auth0|13")).await), Some(TokenFault::AccountRate));
}

#[tokio::test]
async fn revoked_tokens_of_made_accounts_stay_revoked() {
    let (signer, store) = (Signer::ed(), store());
    let world = world(ON, &store, &signer);
    let first = token(&signer, "auth0|7f");
    let ana = world.node.authenticate(&first).await.unwrap().user;
    let revoked = world.node.revoke_token(first.as_str()).await.unwrap();
    assert_eq!(revoked.map(|revoked| revoked.user_id), Some(ana.id));
    assert_eq!(fault(world.node.authenticate(&first).await), Some(TokenFault::Revoked));
}
