//! Bodies: sizes, deadlines, form data.

use crate::support::{Answer, World, invalid_form};
use axum::{
    body::{Body, Bytes},
    http::Request,
};
use futures_util::stream;
use guildhall_api::ApiLimits;
use serde_json::json;
use std::convert::Infallible;

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
    let too_large = json!({"message": "Request entity too large", "code": 40005});
    let json_of = |len: usize| format!("{{\"content\":\"hi\"{}}}", " ".repeat(len - 16));
    assert_eq!(json_of(1000).len(), 1000);
    let announced = |len: usize| Body::from(json_of(len));
    let streamed = |len: usize| Body::from_stream(stream::iter([Ok::<_, Infallible>(Bytes::from(json_of(len)))]));
    for body in [announced(1000), streamed(1000)] {
        world.send(post(&world, &world.ana.token, "application/json", body)).await.has(200, 0);
    }
    for body in [announced(1001), streamed(1001)] {
        world.send(post(&world, &world.ana.token, "application/json", body)).await.is(413, too_large.clone());
    }
    let file =
        |len: usize| format!("--XX\nContent-Disposition: form-data; name=\"files[0]\"\n\n{}\n--XX--", "x".repeat(len));
    form_data(&world, &file(2000)).await.has(400, 50035);
    form_data(&world, &file(3000)).await.is(413, too_large.clone());
    let field = file(2000).replace("files[0]", "payload_json");
    form_data(&world, &field).await.is(413, too_large);
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

#[tokio::test]
async fn bodies_share_their_room() {
    // Room for one body only, which a slow client holds.
    let limits =
        ApiLimits { json_bytes_max: 1024, bodies_bytes_max: 1024, body_deadline_ms: 20, ..ApiLimits::unlimited() };
    let world = World::limited(limits).await;
    let never = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
    let slow = world.send(post(&world, &world.ana.token, "application/json", never));
    let quick = world.send(post(&world, &world.ana.token, "application/json", Body::from(r#"{"content":"hi"}"#)));
    let (slow, quick) = tokio::join!(slow, quick);
    slow.has(408, 0);
    // It waited for room until its own deadline, or got the room the other one left.
    assert!(matches!(quick.status, 200 | 408), "{}", quick.body);
    world.send(post(&world, &world.ana.token, "application/json", Body::from(r#"{"content":"hi"}"#))).await.has(200, 0);
}
