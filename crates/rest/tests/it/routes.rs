//! The table of routes, as clients notice it: buckets, 401, 404, 405 with `Allow`; and as the documentation lists it.

use crate::support::{Answer, World};
use axum::{body::Body, http::Request};
use guildhall_rest::{ApiLimits, Bucket, OTHER, Route, Unserved, routes};
use serde_json::json;
use std::{collections::BTreeSet, fmt::Write, path::Path};

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE"];

/// The path with ids that no object has.
fn filled(template: &str) -> String {
    let piece = |piece: &str| match piece {
        "{emoji}" => "%F0%9F%94%A5".to_owned(),
        piece if piece.starts_with('{') => "7".to_owned(),
        piece => piece.to_owned(),
    };
    template.split('/').map(piece).collect::<Vec<_>>().join("/")
}

fn fits(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    let is_same = |(template, piece): (&&str, &&str)| template.starts_with('{') || template == piece;
    template.len() == path.len() && template.iter().zip(&path).all(is_same)
}

/// A request for a path that fits a template, with or without a token.
async fn ask(world: &World, method: &str, template: &str, token: Option<&str>) -> Answer {
    let request = Request::builder().method(method).uri(format!("/api/v10{}", filled(template)));
    let request = token.into_iter().fold(request, |request, token| request.header("authorization", token));
    world.send(request.body(Body::empty()).unwrap()).await
}

/// Limits that no test reaches, so that every answer names its bucket.
async fn world() -> World {
    World::limited(ApiLimits::default().scaled(10_000.0)).await
}

fn methods_of(path: &str) -> Vec<&'static str> {
    let of_path = routes().iter().filter(|route| route.path == path);
    of_path
        .flat_map(|route| if route.is_change() { vec![route.method.as_str()] } else { vec!["GET", "HEAD"] })
        .collect()
}

#[tokio::test]
async fn every_route_needs_a_token_and_counts_in_the_bucket_of_its_row() {
    let world = world().await;
    for route in routes() {
        let of_peer = matches!(route.bucket, Bucket::Anonymous | Bucket::Webhook | Bucket::Interaction);
        for method in if route.is_change() { vec![route.method.as_str()] } else { vec!["GET", "HEAD"] } {
            let without = ask(&world, method, route.path, None).await;
            assert_eq!(without.status == 401, !of_peer, "{route:?} without a token: {without:?}");
            let with = ask(&world, method, route.path, Some(&world.eve.token)).await;
            assert_eq!(with.header("x-ratelimit-bucket"), route.bucket.wire_name(), "{route:?}");
            assert_ne!(with.status, 405, "{route:?}");
        }
    }
}

#[tokio::test]
async fn other_methods_of_a_path_get_405_and_the_methods_of_its_rows() {
    let world = world().await;
    // Upstream has another route that fits, which is not served.
    let unserved = Unserved::default();
    let is_unserved = |path: &str| unserved.counts().any(|(label, _)| fits(label, &filled(path)));
    let paths: BTreeSet<_> = routes().iter().map(|route| route.path).filter(|path| !is_unserved(path)).collect();
    assert!(paths.len() > 70, "{}", paths.len());
    for path in paths {
        let served = methods_of(path);
        let is_unserved = |method: &str| unserved.counts().any(|(label, _)| label == format!("{method} {path}"));
        for method in METHODS.into_iter().filter(|method| !served.contains(method) && !is_unserved(method)) {
            let answer = ask(&world, method, path, None).await;
            assert_eq!((answer.status, answer.header("allow")), (405, &*served.join(",")), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn a_path_of_upstream_that_no_row_has_gets_404_with_its_name() {
    let world = world().await;
    let unserved = Unserved::default();
    for (label, _) in unserved.counts().filter(|(label, _)| *label != OTHER) {
        assert!(routes().iter().all(|route| route.path != label), "{label} is served");
        let (method, path) = label.split_once(' ').unwrap_or(("TRACE", label));
        let answer = ask(&world, method, path, None).await;
        let message =
            format!("404: This server does not serve {label}: see docs/protocol/choices.md, \"What is served\"");
        answer.is(404, json!({"message": message, "code": 0}));
    }
}

/// The tables of the page.
fn page() -> String {
    let mut out = String::from("\n| route | rate limit | the body is read after a check of |\n|---|---|---|\n");
    for Route { method, path, bucket, body, .. } in routes() {
        let body = body.map_or_else(String::new, |body| format!("{body:?}").to_lowercase());
        writeln!(out, "| `{method} {path}` | `{bucket:?}` | {body} |").unwrap();
    }
    out += "\n| rate limit | default | |\n|---|---|---|\n";
    for bucket in Bucket::ALL {
        let (rule, about) = (bucket.default_rule(), bucket.about().trim());
        writeln!(out, "| `{bucket:?}` | {} per {} s | {about} |", rule.limit, f64::from(rule.period_ms) / 1e3).unwrap();
    }
    out + "\n"
}

/// `GUILDHALL_UPDATE_DOCS=1` updates the page.
#[test]
fn the_page_lists_every_route() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/protocol/choices.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let begin = text.find("<!-- routes:").expect("the mark before the routes");
    let begin = begin + text[begin..].find('\n').unwrap() + 1;
    let end = text.find("<!-- end of routes -->").expect("the mark after the routes");
    let expected = format!("{}{}{}", &text[..begin], page(), &text[end..]);
    if std::env::var_os("GUILDHALL_UPDATE_DOCS").is_some() {
        std::fs::write(&path, expected).unwrap();
    } else {
        let hint = "GUILDHALL_UPDATE_DOCS=1 cargo test -p guildhall-rest --test it the_page_lists_every_route";
        assert!(text == expected, "docs/protocol/choices.md does not list the routes as they are: {hint}");
    }
}
