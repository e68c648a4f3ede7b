//! A URL of a server that is authenticated: of a JSON Web Key Set (`auth.jwks_url`), or of a store
//! (`uploads.s3_endpoint`).
//!
//! Invariants  a URL without TLS must name this machine: otherwise an attacker on the path could replace the content.

use super::{
    raw::Scalar,
    value::{Value, quote},
};
use hyper::Uri;
use std::net::IpAddr;

/// `https://…`, or `http://` of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwksUrl(Uri);

impl JwksUrl {
    /// None for anything else, and with a user in it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let authority = uri.authority()?.as_str();
        let url = Self(uri.clone());
        let is_fine = !url.host().is_empty() && !authority.contains('@');
        match uri.scheme_str()? {
            "https" => is_fine.then_some(url),
            "http" => (is_fine && url.is_local()).then_some(url),
            _ => None,
        }
    }

    fn is_local(&self) -> bool {
        self.host() == "localhost" || self.host().parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    }

    /// Whether the URL uses TLS.
    #[must_use]
    pub fn is_https(&self) -> bool {
        self.0.scheme_str() == Some("https")
    }

    /// Without the brackets of an IPv6 address.
    #[must_use]
    pub fn host(&self) -> &str {
        self.0.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']')
    }

    /// The URL's port, or the default of its scheme.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.port_u16().unwrap_or(if self.is_https() { 443 } else { 80 })
    }

    /// Host and port as they were written.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.0.authority().map_or("", |authority| authority.as_str())
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

impl Value for JwksUrl {
    type Rule = ();

    fn read(raw: &Scalar, (): &()) -> Option<Self> {
        Self::parse(raw.text()?)
    }
    fn expected((): &()) -> String {
        "a URL that begins with https://, or with http:// and names this machine (localhost, 127.0.0.1, [::1])"
            .to_owned()
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote(&self.0.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_urls() {
        let check = |text: &str, expected: Option<(&str, u16, &str)>| {
            let url = JwksUrl::parse(text);
            assert_eq!(url.as_ref().map(|url| (url.host(), url.port(), url.path())), expected, "{text}");
        };
        check("https://id.example.net/.well-known/jwks.json", Some(("id.example.net", 443, "/.well-known/jwks.json")));
        check("https://id.example.net:8443/keys?v=2", Some(("id.example.net", 8443, "/keys?v=2")));
        check("https://[2001:db8::1]/", Some(("2001:db8::1", 443, "/")));
        check("https://id.example.net", Some(("id.example.net", 443, "/")));
        check("http://127.0.0.1:8081/jwks", Some(("127.0.0.1", 8081, "/jwks")));
        check("http://[::1]/jwks", Some(("::1", 80, "/jwks")));
        check("http://localhost/jwks", Some(("localhost", 80, "/jwks")));
        for wrong in
            ["http://id.example.net/", "http://10.0.0.1/", "https://u:p@id.example.net/", "ftp://x/", "/jwks", "id", ""]
        {
            check(wrong, None);
        }
    }
}
