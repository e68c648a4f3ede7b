//! Post: one export to the collector, over a connection of its own.
//!
//! Limits      `TIMEOUT` for the whole exchange; no redirects. The answer's body is not read.

use guildhall_http_client::{Client, RequestError, TlsConnector, request};
use guildhall_settings::{Headers, HttpUrl};
use http_body_util::Full;
use hyper::{Method, body::Bytes, header};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(10);
/// Path of OTLP below the base URL.
const TRACES_PATH: &str = "/v1/traces";

/// Where traces go.
pub(super) struct Collector {
    pub endpoint: HttpUrl,
    headers: Headers,
    client: Client,
}

impl Collector {
    /// Without `tls`, not by TLS.
    pub fn new(endpoint: HttpUrl, headers: Headers, tls: Option<TlsConnector>) -> Self {
        Self { endpoint, headers, client: Client { server: "the collector", tls, within: TIMEOUT } }
    }

    pub async fn post(&self, body: Bytes) -> Result<(), RequestError> {
        let url = self.endpoint.uri();
        let mut request = request(Method::POST, url, &traces_path(&self.endpoint))
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .header(header::USER_AGENT, concat!("guildhall/", env!("CARGO_PKG_VERSION")));
        for (name, value) in self.headers.iter() {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(body)).map_err(|_| RequestError::Name)?;
        self.client.send(url, request, 0).await.map(drop)
    }
}

/// Path of the export: OTLP's, below the path of the URL.
fn traces_path(endpoint: &HttpUrl) -> String {
    format!("{}{TRACES_PATH}", endpoint.path().trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use guildhall_settings::UrlRule;

    #[test]
    fn paths_of_exports() {
        let check = |url: &str, expected: &str| {
            assert_eq!(traces_path(&HttpUrl::parse(url, UrlRule::Base).unwrap()), expected, "{url}");
        };
        check("http://localhost:4318", "/v1/traces");
        check("http://otel:4318/", "/v1/traces");
        check("https://otlp.example.net/otlp/", "/otlp/v1/traces");
    }
}
