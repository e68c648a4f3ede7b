//! Headers of exports: the value of `traces.headers`.

use super::{
    raw::Scalar,
    value::{Value, quote},
};
use http::header::{HeaderName, HeaderValue};
use std::fmt;

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
