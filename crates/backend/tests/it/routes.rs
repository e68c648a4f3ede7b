//! The table of routes: the scope that each checks, and the page that lists them.

use crate::v1::Backend;
use guildhall_backend::{V1Limits, V1Route, v1_routes};
use guildhall_node::Scope;
use std::{fmt::Write, path::Path};

#[tokio::test]
async fn a_route_refuses_keys_without_the_scope_of_its_row() {
    let backend = Backend::new(V1Limits::default()).await;
    for needed in Scope::ALL {
        let others: Vec<Scope> = Scope::ALL.into_iter().filter(|scope| *scope != needed).collect();
        let (_, key) = backend.world.node.create_key("others", &others).await.unwrap();
        for V1Route { method, path, .. } in v1_routes().into_iter().filter(|route| route.scope == Some(needed)) {
            let piece = |piece: &str| if piece.starts_with('{') { "7".to_owned() } else { piece.to_owned() };
            let filled = path.split('/').map(piece).collect::<Vec<_>>().join("/");
            let answer = backend.request(&key, method, filled.strip_prefix("/v1").unwrap(), "").await;
            assert_eq!((answer.status, &answer.json()["code"]), (403, &"missing_scope".into()), "{method} {path}");
            let named = format!("with the scope `{}`", needed.as_str());
            assert!(answer.body.contains(&named), "{method} {path}: {}", answer.body);
        }
    }
}

/// The table of the page.
fn page() -> String {
    let mut out = String::from("\n| route | scope | |\n|---|---|---|\n");
    for V1Route { method, path, scope, summary } in v1_routes() {
        let scope = scope.map_or_else(|| "any".to_owned(), |scope| format!("`{}`", scope.as_str()));
        writeln!(out, "| `{method} {path}` | {scope} | {} |", summary.replace('|', "\\|")).unwrap();
    }
    out + "\n"
}

/// `GUILDHALL_UPDATE_DOCS=1` updates the page.
#[test]
fn the_page_lists_every_route() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/backend-api.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let begin = text.find("<!-- routes:").expect("the mark before the routes");
    let begin = begin + text[begin..].find('\n').unwrap() + 1;
    let end = text.find("<!-- end of routes -->").expect("the mark after the routes");
    let expected = format!("{}{}{}", &text[..begin], page(), &text[end..]);
    if std::env::var_os("GUILDHALL_UPDATE_DOCS").is_some() {
        std::fs::write(&path, expected).unwrap();
    } else {
        let hint = "GUILDHALL_UPDATE_DOCS=1 cargo test -p guildhall-backend --test it the_page_lists_every_route";
        assert!(text == expected, "docs/backend-api.md does not list the routes as they are: {hint}");
    }
}
