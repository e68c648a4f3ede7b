//! Where traces are exported to: the values of `traces.endpoint` and `traces.headers`.

use super::{
    raw::Scalar,
    value::{Value, quote},
};
use hyper::{
    Uri,
    header::{HeaderName, HeaderValue},
};
use std::{fmt, net::IpAddr};

/// Path of OTLP below the base URL.
const TRACES_PATH: &str = "/v1/traces";

/// Base URL of a collector: `http://…` or `https://…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpUrl(Uri);

impl OtlpUrl {
    /// None for anything else, and with a user or a query in it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.parse().ok()?;
        let is_fine = !uri.authority()?.as_str().contains('@') && uri.query().is_none();
        let url = Self(uri);
        let is_known = matches!(url.0.scheme_str()?, "http" | "https");
        (is_fine && is_known && !url.host().is_empty()).then_some(url)
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

    /// Path of the export: OTLP's, below the path of the URL.
    #[must_use]
    pub fn traces_path(&self) -> String {
        format!("{}{TRACES_PATH}", self.0.path().trim_end_matches('/'))
    }
}

impl Value for OtlpUrl {
    type Rule = ();

    fn read(raw: &Scalar, (): &()) -> Option<Self> {
        Self::parse(raw.text()?)
    }
    fn expected((): &()) -> String {
        "a URL that begins with http:// or https://, like \"http://localhost:4318\"".to_owned()
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote(&self.0.to_string()))
    }
}

/// Names and values of headers.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(HeaderName, HeaderValue)>);

impl Headers {
    /// `name=value,name=value`; `None` if a name or value cannot be in a header.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let headers = entries.map(|entry| {
            let (name, value) = entry.split_once('=')?;
            let mut value = HeaderValue::from_str(value.trim()).ok()?;
            value.set_sensitive(true);
            Some((name.trim().parse().ok()?, value))
        });
        headers.collect::<Option<Vec<_>>>().map(Self)
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// In the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.0.iter().map(|(name, value)| (name, value))
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl Value for Headers {
    type Rule = ();
    const SECRET: bool = true;

    fn read(raw: &Scalar, (): &()) -> Option<Self> {
        Self::parse(raw.text()?)
    }
    fn expected((): &()) -> String {
        "headers with commas between them, like \"authorization=Bearer 123, x-tenant=a\"".to_owned()
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote("(hidden)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_urls() {
        let check = |text: &str, expected: Option<(&str, u16, &str)>| {
            let url = OtlpUrl::parse(text);
            let path = url.as_ref().map(OtlpUrl::traces_path).unwrap_or_default();
            assert_eq!(url.as_ref().map(|url| (url.host(), url.port(), &*path)), expected, "{text}");
        };
        check("http://localhost:4318", Some(("localhost", 4318, "/v1/traces")));
        check("http://otel:4318/", Some(("otel", 4318, "/v1/traces")));
        check("https://otlp.example.net/otlp/", Some(("otlp.example.net", 443, "/otlp/v1/traces")));
        check("http://[::1]:4318", Some(("::1", 4318, "/v1/traces")));
        for wrong in ["localhost:4318", "grpc://x:4317", "https://u:p@x/", "http://x/?a=b", "", "/v1"] {
            check(wrong, None);
        }
    }

    #[test]
    fn which_headers() {
        let headers = Headers::parse("authorization=Bearer a=b, x-tenant = 7,").unwrap();
        let texts: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(texts, [("authorization", "Bearer a=b"), ("x-tenant", "7")]);
        assert!(!format!("{headers:?}").contains("Bearer"));
        assert_eq!(Headers::parse("no value"), None);
        assert_eq!(Headers::parse("a=b\nc"), None);
        assert!(Headers::parse("").unwrap().is_empty());
    }
}
