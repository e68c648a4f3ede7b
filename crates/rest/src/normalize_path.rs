//! Path normalisation: from the raw request to the form of the routes.
//!
//! Owns        the version prefix, percent-encoded path segments, and the preflight requests of browsers (CORS).
//! Invariants  E1 normalising does not change the meaning of a path: only characters that need no encoding are
//!             decoded. (test `e1_*`)
//! Spec        docs/protocol/reference.md §10: `/api/v10`, `/api/v9`, `/api`; docs/protocol/reference.md §12.

use crate::{error::ApiError, middleware, state::Api};
use axum::{
    Router,
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header, uri::PathAndQuery},
    response::{IntoResponse, Response},
};
use percent_encoding::percent_decode_str;
use std::{borrow::Cow, sync::Arc};
use tower::ServiceExt;

/// Normalises the path, and hands over to the routes.
pub(crate) async fn normalize(api: Arc<Api>, routes: Router, mut request: Request) -> Response {
    let requested = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
    let mut response = if request.method() == Method::OPTIONS {
        // The answer is the same for every path, so that it needs no token.
        StatusCode::NO_CONTENT.into_response()
    } else {
        match inner_path(request.uri().path()) {
            Ok(path) => match with_path(request.uri(), &path) {
                Some(uri) => {
                    *request.uri_mut() = uri;
                    match routes.oneshot(request).await {
                        Ok(response) => response,
                        Err(never) => match never {},
                    }
                }
                None => ApiError::NotFound.into_response(),
            },
            Err(error) => match middleware::anonymous(&api, &request) {
                Ok(()) => error.into_response(),
                Err(refused) => refused.into_response(),
            },
        }
    };
    write_cors(response.headers_mut(), requested.as_ref());
    response
}

/// The path behind the version prefix, normalised.
fn inner_path(path: &str) -> Result<String, ApiError> {
    let rest = match path.strip_prefix("/api") {
        Some(rest) if rest.starts_with('/') => rest,
        _ => return Err(ApiError::NotApi),
    };
    let (first, after) = match rest[1..].find('/') {
        Some(at) => rest[1..].split_at(at),
        None => (&rest[1..], ""),
    };
    let is_version = first.strip_prefix('v').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    match first {
        "v9" | "v10" => Ok(normal(after)),
        _ if is_version => Err(ApiError::InvalidVersion),
        _ => Ok(normal(rest)),
    }
}

/// Decodes the pieces of a path that need no encoding: `%40me` is `@me`. Others stay as they are, and are
/// decoded where they are read.
fn normal(path: &str) -> String {
    let piece = |piece: &str| -> String {
        match percent_decode_str(piece).decode_utf8() {
            Ok(Cow::Owned(decoded))
                if !decoded.is_empty()
                    && decoded.bytes().all(|b| b.is_ascii_alphanumeric() || b"@-_:~".contains(&b)) =>
            {
                decoded
            }
            _ => piece.to_owned(),
        }
    };
    path.split('/').map(piece).collect::<Vec<_>>().join("/")
}

fn with_path(uri: &Uri, path: &str) -> Option<Uri> {
    let path_and_query = match uri.query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_owned(),
    };
    let path_and_query = PathAndQuery::try_from(path_and_query).ok()?;
    // From here on only the path matters; without scheme and host it is still a valid URI.
    path_and_query.as_str().starts_with('/').then(|| Uri::from(path_and_query))
}

const ALLOWED_HEADERS: &str = "Authorization, Content-Type, X-Audit-Log-Reason";

/// Any page may talk to the API with a token it has; none gets one from the browser, as there are no cookies. So it may
/// send any header that its preflight request names; those that this server does not know have no effect.
fn write_cors(headers: &mut HeaderMap, requested: Option<&HeaderValue>) {
    let allowed = requested
        .and_then(|requested| HeaderValue::try_from(format!("{ALLOWED_HEADERS}, {}", requested.to_str().ok()?)).ok());
    headers.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        allowed.unwrap_or_else(|| HeaderValue::from_static(ALLOWED_HEADERS)),
    );
    for (name, value) in [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),
        (
            header::ACCESS_CONTROL_EXPOSE_HEADERS,
            "Retry-After, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, X-RateLimit-Reset-After, \
             X-RateLimit-Bucket, X-RateLimit-Global, X-RateLimit-Scope",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "86400"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn versions() {
        let check = |path: &str, expected: Result<&str, u16>| {
            let got = inner_path(path).map_err(|error| error.into_response().status().as_u16());
            assert_eq!(got.as_deref().map_err(|status| *status), expected, "{path}");
        };
        check("/api/v10/users/@me", Ok("/users/@me"));
        check("/api/v9/users/@me", Ok("/users/@me"));
        check("/api/users/@me", Ok("/users/@me"));
        check("/api/v10/oauth2/applications/%40me", Ok("/oauth2/applications/@me"));
        check("/api/v8/users/@me", Err(400));
        check("/api/v11/users/@me", Err(400));
        check("/api/v6", Err(400));
        check("/api/v10", Ok(""));
        check("/api/", Ok("/"));
        check("/api", Err(404));
        check("/apiv10/users/@me", Err(404));
        check("/users/@me", Err(404));
        check("/", Err(404));
        check("/api/vx/users", Ok("/vx/users"));
    }

    #[test]
    fn preflight_requests_get_the_headers_they_ask_for() {
        let allowed = |requested: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            write_cors(&mut headers, requested.map(HeaderValue::from_static).as_ref());
            headers[header::ACCESS_CONTROL_ALLOW_HEADERS].to_str().unwrap().to_owned()
        };
        assert_eq!(allowed(None), "Authorization, Content-Type, X-Audit-Log-Reason");
        let requested = "authorization,x-super-properties,x-discord-locale";
        assert_eq!(allowed(Some(requested)), format!("{ALLOWED_HEADERS}, {requested}"));
    }

    #[test]
    fn e1_only_characters_of_a_segment_are_decoded() {
        assert_eq!(
            normal("/a%2Fb/%F0%9F%94%A5/%40me/party%3A5/%zz/%2e%2e"),
            "/a%2Fb/%F0%9F%94%A5/@me/party:5/%zz/%2e%2e"
        );
    }

    proptest! {
        #[test]
        fn e1_pieces_keep_their_meaning(path in "/([a-z0-9@%.:/]|%[0-9a-fA-F]{2}){0,30}") {
            let before: Vec<Vec<u8>> = path.split('/').map(|piece| percent_decode_str(piece).collect()).collect();
            let normal = normal(&path);
            let after: Vec<Vec<u8>> = normal.split('/').map(|piece| percent_decode_str(piece).collect()).collect();
            prop_assert_eq!(before, after);
        }
    }
}
