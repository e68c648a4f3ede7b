//! A URL of a server that this node calls: of a JSON Web Key Set (`auth.jwks_url`), of a store (`uploads.s3_endpoint`),
//! of a collector of traces (`traces.endpoint`).
//!
//! Invariants  requests name host and path as the URL was written: nothing is decoded, resolved or lower-cased.

use super::{
    raw::Scalar,
    value::{Value, quote},
};
use http::Uri;
use std::net::IpAddr;

/// `https://…` or `http://…`, without a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpUrl(Uri);

/// Which URLs a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlRule {
    /// With TLS, or of this machine: otherwise an attacker on the path could replace the content.
    Authenticated,
    /// Without a query: paths are added to it.
    Base,
}

impl HttpUrl {
    /// None for anything else, with a user in it, or against the rule.
    #[must_use]
    pub fn parse(text: &str, rule: UrlRule) -> Option<Self> {
        let url = Self(text.parse().ok()?);
        let is_http = matches!(url.0.scheme_str()?, "http" | "https");
        let is_allowed = match rule {
            UrlRule::Authenticated => url.is_https() || url.is_local(),
            UrlRule::Base => url.0.query().is_none(),
        };
        let is_plain = !url.0.authority()?.as_str().contains('@') && !url.host().is_empty();
        (is_http && is_allowed && is_plain).then_some(url)
    }

    /// For requests.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.0
    }

    /// Whether the URL uses TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    /// Whether it names this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.host() == "localhost" || self.host().parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Without the brackets of an IPv6 address.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    /// All of it, without a slash at the end.
    #[must_use]
    pub fn base(&self) -> String {
        self.0.to_string().trim_end_matches('/').to_owned()
    }

    /// With the query.
    #[must_use]
    pub fn path(&self) -> &str {
        self.0.path_and_query().map_or("/", |path| path.as_str())
    }
}

impl Value for HttpUrl {
    type Rule = UrlRule;

    fn read(raw: &Scalar, rule: &UrlRule) -> Option<Self> {
        Self::parse(raw.text()?, *rule)
    }
    fn expected(rule: &UrlRule) -> String {
        match rule {
            UrlRule::Authenticated => {
                "a URL that begins with https://, or with http:// and names this machine (localhost, 127.0.0.1, [::1])"
                    .to_owned()
            }
            UrlRule::Base => "a URL that begins with http:// or https://, like \"http://localhost:4318\"".to_owned(),
        }
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote(&self.0.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: UrlRule, text: &str, expected: Option<(&str, Option<u16>, &str)>) {
        let url = HttpUrl::parse(text, rule);
        let found = url.as_ref().map(|url| (url.host(), url.uri().port_u16(), url.path()));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn which_urls() {
        let check = |text: &str, expected| check(UrlRule::Authenticated, text, expected);
        check("https://id.example.net/.well-known/jwks.json", Some(("id.example.net", None, "/.well-known/jwks.json")));
        check("https://id.example.net:8443/keys?v=2", Some(("id.example.net", Some(8443), "/keys?v=2")));
        check("https://[2001:db8::1]/", Some(("2001:db8::1", None, "/")));
        check("https://id.example.net", Some(("id.example.net", None, "/")));
        check("https://ID.example.net:443/a/../b", Some(("ID.example.net", Some(443), "/a/../b")));
        check("http://127.0.0.1:8081/jwks", Some(("127.0.0.1", Some(8081), "/jwks")));
        check("http://[::1]/jwks", Some(("::1", None, "/jwks")));
        check("http://localhost/jwks", Some(("localhost", None, "/jwks")));
        for wrong in
            ["http://id.example.net/", "http://10.0.0.1/", "https://u:p@id.example.net/", "ftp://x/", "/jwks", "id", ""]
        {
            check(wrong, None);
        }
    }

    #[test]
    fn which_urls_of_collectors() {
        let check = |text: &str, expected| check(UrlRule::Base, text, expected);
        check("http://localhost:4318", Some(("localhost", Some(4318), "/")));
        check("http://otel:4318/", Some(("otel", Some(4318), "/")));
        check("https://otlp.example.net/otlp/", Some(("otlp.example.net", None, "/otlp/")));
        check("http://[::1]:4318", Some(("::1", Some(4318), "/")));
        for wrong in ["localhost:4318", "grpc://x:4317", "https://u:p@x/", "http://x/?a=b", "", "/v1"] {
            check(wrong, None);
        }
    }
}
