//! Bodies: sizes, deadlines, form data.

use crate::support::{Answer, World, invalid_form, until};
use axum::{
    body::{Body, Bytes},
    http::Request,
};
use futures_util::{FutureExt as _, stream};
use guildhall_http_kit::Peer;
use guildhall_rest::ApiLimits;
use serde_json::json;
use std::convert::Infallible;
use tower::ServiceExt as _;

fn post(world: &World, token: &str, content_type: &str, body: Body) -> Request<Body> {
    Request::post(format!("/api/v10/channels/{}/messages", world.general))
        .header("authorization", token)
        .header("content-type", content_type)
        .body(body)
        .unwrap()
}

async fn form_data(world: &World, body: &str) -> Answer {
    let content_type = "multipart/form-data; boundary=XX";
    world.send(post(world, &world.ana.token, content_type, Body::from(body.replace('\n', "\r\n")))).await
}

#[tokio::test]
async fn json_of_any_content_type() {
    let world = World::new().await;
    for content_type in ["application/json", "application/json; charset=utf-8", "text/plain", ""] {
        let body = Body::from(r#"{"content":"hi"}"#);
        world.send(post(&world, &world.ana.token, content_type, body)).await.has(200, 0);
    }
    for body in ["{", "{\"content\":", "nonsense", "\u{feff}{}", "{} {}"] {
        let answer = world.send(post(&world, &world.ana.token, "application/json", Body::from(body))).await;
        answer.is(400, json!({"message": "The request body contains invalid JSON.", "code": 50109}));
    }
    let deep = "[".repeat(100_000);
    world.send(post(&world, &world.ana.token, "application/json", Body::from(deep))).await.has(400, 50109);
    world.send(post(&world, &world.ana.token, "application/json", Body::empty())).await.has(400, 50006);
}

#[tokio::test]
async fn form_data_without_files() {
    let world = World::new().await;
    let body = "--XX\nContent-Disposition: form-data; name=\"payload_json\"\nContent-Type: application/json\n\n\
                {\"content\":\"from form data\"}\n--XX--\n";
    assert_eq!(form_data(&world, body).await.json()["content"], "from form data");
    let body = "--XX\nContent-Disposition: form-data; name=\"content\"\n\nplain\n\
                --XX\nContent-Disposition: form-data; name=\"tts\"\n\nfalse\n--XX--";
    assert_eq!(form_data(&world, body).await.json()["content"], "plain");
}

#[tokio::test]
async fn files_are_refused_clearly() {
    let world = World::new().await;
    let body = "--XX\nContent-Disposition: form-data; name=\"payload_json\"\n\n{\"content\":\"x\"}\n\
                --XX\nContent-Disposition: form-data; name=\"files[0]\"; filename=\"a.txt\"\n\nbytes\n--XX--";
    let fault = json!({"code": "UNSUPPORTED", "message": "This server does not store attachments."});
    form_data(&world, body).await.is(400, invalid_form(json!({"attachments": {"_errors": [fault]}})));
}

#[tokio::test]
async fn broken_form_data() {
    let world = World::new().await;
    form_data(&world, "--XX\n").await.has(400, 50109);
    form_data(&world, "--XX\nContent-Disposition: form-data; name=\"payload_json\"\n\n{\n--XX--").await.has(400, 50109);
    let request = post(&world, &world.ana.token, "multipart/form-data", Body::from("--XX--"));
    world.send(request).await.has(400, 50109);
}

#[tokio::test]
async fn bodies_have_a_size() {
    let limits = ApiLimits { json_bytes_max: 1000, multipart_bytes_max: 3000, ..ApiLimits::unlimited() };
    let world = World::limited(limits).await;
    let too_large = |most: usize| json!({"message": format!("Request entity too large: this route accepts at most {most} bytes"), "code": 40005});
    let json_of = |len: usize| format!("{{\"content\":\"hi\"{}}}", " ".repeat(len - 16));
    assert_eq!(json_of(1000).len(), 1000);
    let announced = |len: usize| Body::from(json_of(len));
    let streamed = |len: usize| Body::from_stream(stream::iter([Ok::<_, Infallible>(Bytes::from(json_of(len)))]));
    for body in [announced(1000), streamed(1000)] {
        world.send(post(&world, &world.ana.token, "application/json", body)).await.has(200, 0);
    }
    for body in [announced(1001), streamed(1001)] {
        world.send(post(&world, &world.ana.token, "application/json", body)).await.is(413, too_large(1000));
    }
    let file =
        |len: usize| format!("--XX\nContent-Disposition: form-data; name=\"files[0]\"\n\n{}\n--XX--", "x".repeat(len));
    form_data(&world, &file(2000)).await.has(400, 50035);
    form_data(&world, &file(3000)).await.is(413, too_large(3000));
    let field = file(2000).replace("files[0]", "payload_json");
    form_data(&world, &field).await.is(413, too_large(1000));
}

#[tokio::test]
async fn bodies_have_a_deadline() {
    let world = World::limited(ApiLimits { body_deadline_ms: 10, ..ApiLimits::unlimited() }).await;
    for content_type in ["application/json", "multipart/form-data; boundary=XX"] {
        let never = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let answer = world.send(post(&world, &world.ana.token, content_type, never)).await;
        answer.is(408, json!({"message": "408: Request Timeout", "code": 0}));
    }
}

#[tokio::test]
async fn answers_have_a_deadline() {
    let world = World::limited(ApiLimits { answer_deadline_ms: 10, ..ApiLimits::unlimited() }).await;
    let never = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    let answer = world.send(post(&world, &world.ana.token, "application/json", never)).await;
    answer.is(503, json!({"message": "503: Service Unavailable", "code": 0}));
}

#[tokio::test]
async fn a_body_is_not_read_without_a_token() {
    let world = World::new().await;
    // A body that never ends: reading it would mean waiting for the deadline, half a minute.
    let untouched = Body::from_stream(stream::poll_fn(|_| -> std::task::Poll<Option<Result<Bytes, Infallible>>> {
        panic!("the body was read")
    }));
    world.send(post(&world, "Bot nobody", "application/json", untouched)).await.has(401, 0);
}

/// Sent by an account from an address.
fn post_from(world: &World, token: &str, peer: [u8; 4], body: Body) -> Request<Body> {
    let mut request = post(world, token, "application/json", body);
    request.extensions_mut().insert(Peer(peer.into()));
    request
}

fn never() -> Body {
    Body::from_stream(stream::pending::<Result<Bytes, Infallible>>())
}

#[tokio::test]
async fn s4_a_share_of_the_room_is_refused_at_once_and_others_have_theirs() {
    // An eighth is room for four bodies that do not come.
    let limits = ApiLimits { json_bytes_max: 1024, bodies_bytes_max: 8 * 4 * (16 << 10), ..ApiLimits::unlimited() };
    let world = World::limited(limits).await;
    let (api, hi) = (world.api.clone(), || Body::from(r#"{"content":"hi"}"#));
    let stall = |token: &str, peer: [u8; 4]| {
        let request = post_from(&world, token, peer, never());
        let mut answer = Box::pin(api.clone().oneshot(request));
        assert!((&mut answer).now_or_never().is_none());
        answer
    };
    let mut stalled: Vec<_> = (0..4).map(|n| stall(&world.ana.token, [192, 0, 2, n])).collect();
    // Each waits for its body once the guild has answered its query of the channel.
    let refused = until("a refusal", async || {
        stalled.iter_mut().for_each(|answer| assert!(answer.now_or_never().is_none()));
        let answer = world.send(post_from(&world, &world.ana.token, [192, 0, 2, 9], hi())).await;
        if answer.status == 503 {
            return Ok(answer);
        }
        answer.has(200, 0);
        Err(answer)
    });
    let refused = refused.await;
    assert_eq!(refused.header("retry-after"), "1");
    assert!(refused.body.contains("Too many requests of this account or address"), "{}", refused.body);
    world.send(post_from(&world, &world.bob.token, [192, 0, 2, 1], hi())).await.has(200, 0);
    drop(stalled);
    world.send(post_from(&world, &world.ana.token, [192, 0, 2, 9], hi())).await.has(200, 0);
}

#[tokio::test]
async fn s3_an_address_has_a_share_too() {
    let limits = ApiLimits { json_bytes_max: 1024, bodies_bytes_max: 8 * 2 * (16 << 10), ..ApiLimits::unlimited() };
    let world = World::limited(limits).await;
    let hi = || Body::from(r#"{"content":"hi"}"#);
    let (api, here) = (world.api.clone(), [192, 0, 2, 1]);
    let mut stalled: Vec<_> = [&world.ana, &world.bob]
        .map(|account| Box::pin(api.clone().oneshot(post_from(&world, &account.token, here, never()))))
        .into();
    let refused = until("a refusal", async || {
        stalled.iter_mut().for_each(|answer| assert!(answer.now_or_never().is_none()));
        let answer = world.send(post_from(&world, &world.trusted.token, here, hi())).await;
        if answer.status == 503 {
            return Ok(());
        }
        answer.has(200, 0);
        Err(answer)
    });
    refused.await;
    world.send(post_from(&world, &world.trusted.token, [192, 0, 2, 2], hi())).await.has(200, 0);
}

/// Seven bytes of it become more than six hundred.
fn bomb(objects: usize) -> String {
    format!("{{\"x\":[{}]}}", vec!["{\"\":0}"; objects].join(","))
}

#[tokio::test]
async fn s2_trees_have_a_budget() {
    let world = World::new().await;
    let send = async |objects: usize| {
        world.send(post(&world, &world.ana.token, "application/json", Body::from(bomb(objects)))).await
    };
    let answer = send(30_000).await;
    let message =
        "The request body has too many values: this route accepts at most 16384 numbers, texts, lists and objects";
    answer.is(400, json!({"message": message, "code": 50109}));
    // Within the budget it is a form without content.
    send(8_000).await.has(400, 50006);
    send(100_000).await.has(413, 40005);
    let form = format!("--XX\nContent-Disposition: form-data; name=\"payload_json\"\n\n{}\n--XX--", bomb(30_000));
    form_data(&world, &form).await.has(400, 50109);
}

#[tokio::test]
async fn s2_trees_share_their_room() {
    let limits = ApiLimits { trees_bytes_max: 4 << 20, ..ApiLimits::unlimited() };
    let world = World::limited(limits).await;
    let answer = world.send(post(&world, &world.ana.token, "application/json", Body::from(bomb(5_000)))).await;
    answer.has(503, 0);
    assert_eq!(answer.header("retry-after"), "1");
    world.say(&world.ana, world.general, "hi").await;
}

#[tokio::test]
async fn compressed_bodies_are_refused_clearly() {
    let world = World::new().await;
    for (encoding, status) in [("gzip", 415), ("br", 415), ("identity", 200), ("Identity", 200)] {
        let mut request = post(&world, &world.ana.token, "application/json", Body::from(r#"{"content":"hi"}"#));
        request.headers_mut().insert("content-encoding", encoding.parse().unwrap());
        let answer = world.send(request).await;
        assert_eq!(answer.status, status, "{encoding}");
        assert!(status == 200 || answer.body.contains("Send the body uncompressed"), "{}", answer.body);
    }
}

/// Each route has the limit that its forms need.
#[tokio::test]
async fn s2_routes_have_their_own_body_limits() {
    let world = World::new().await;
    let padded = |bytes: usize| format!("{{\"name\":\"x\"{}}}", " ".repeat(bytes - 12));
    let general = world.general;
    for (method, path, bytes_max) in [
        ("POST", format!("/channels/{general}/messages"), 256 << 10),
        ("PATCH", format!("/channels/{general}"), 1 << 20),
        ("POST", format!("/channels/{general}/invites"), 64 << 10),
        ("POST", format!("/channels/{general}/messages/bulk-delete"), 64 << 10),
        ("PATCH", format!("/guilds/{}/channels", world.guild), 256 << 10),
        ("PATCH", "/users/@me".to_owned(), 6 << 20),
        ("PATCH", format!("/guilds/{}/members/@me", world.guild), 6 << 20),
        ("POST", format!("/guilds/{}/emojis", world.guild), 1 << 20),
    ] {
        for (bytes, is_taken) in [(bytes_max, true), (bytes_max + 1, false)] {
            let request = Request::builder().method(method).uri(format!("/api/v10{path}"));
            let request = request.header("authorization", &world.ana.token).body(Body::from(padded(bytes))).unwrap();
            let answer = world.send(request).await;
            assert_eq!(answer.status != 413, is_taken, "{method} {path} {bytes}: {answer:?}");
        }
    }
}
