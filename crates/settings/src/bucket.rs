//! The bucket of uploaded files: the values of `uploads.url` and `uploads.s3_secret_key`.

use super::{
    raw::Scalar,
    value::{Value, quote},
};
use std::fmt;

/// `s3://bucket` or `s3://bucket/prefix`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketUrl {
    bucket: String,
    prefix: String,
}

impl BucketUrl {
    /// None for anything else, and for names that stores do not accept.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix("s3://")?.trim_end_matches('/');
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let is_name = |text: &str, more: &[u8]| {
            text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || more.contains(&byte))
        };
        let is_bucket = (3..=63).contains(&bucket.len()) && is_name(bucket, b"-.");
        let is_part = |part: &str| {
            !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        let is_prefix = prefix.len() <= 500 && (prefix.is_empty() || prefix.split('/').all(is_part));
        (is_bucket && is_prefix).then(|| Self { bucket: bucket.to_owned(), prefix: prefix.to_owned() })
    }

    /// Name of the bucket.
    #[must_use]
    pub fn bucket(&self) -> &str {
        &self.bucket
    }

    /// Beginning of all keys, without slashes around it; may be empty.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }
}

impl fmt::Display for BucketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.prefix.is_empty() { "" } else { "/" };
        write!(f, "s3://{}{separator}{}", self.bucket, self.prefix)
    }
}

impl Value for BucketUrl {
    type Rule = ();

    fn read(raw: &Scalar, (): &()) -> Option<Self> {
        Self::parse(raw.text()?)
    }
    fn expected((): &()) -> String {
        "s3://bucket or s3://bucket/prefix: the bucket has 3 to 63 of a-z, 0-9, - and ., the prefix letters, digits, - and _".to_owned()
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote(&self.to_string()))
    }
}

/// The secret part of an access key, masked in output. The store chose it, so it may be short.
#[derive(Clone, PartialEq, Eq)]
pub struct BucketKey(String);

impl BucketKey {
    /// None if it is empty, or longer than any.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        ((1..=1024).contains(&text.len()) && is_plain).then(|| Self(text.to_owned()))
    }

    /// The secret itself, which signs requests.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for BucketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

impl Value for BucketKey {
    type Rule = ();
    const SECRET: bool = true;

    fn read(raw: &Scalar, (): &()) -> Option<Self> {
        Self::new(raw.text()?)
    }
    fn expected((): &()) -> String {
        "the secret of an access key, without white space".to_owned()
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
        let check = |text: &str, expected: Option<(&str, &str)>| {
            let url = BucketUrl::parse(text);
            assert_eq!(url.as_ref().map(|url| (url.bucket(), url.prefix())), expected, "{text}");
        };
        check("s3://files", Some(("files", "")));
        check("s3://files/", Some(("files", "")));
        check("s3://files.example.net/a/B_2", Some(("files.example.net", "a/B_2")));
        assert_eq!(BucketUrl::parse("s3://files/a/").unwrap().to_string(), "s3://files/a");
        for wrong in ["s3://", "s3://ab", "s3://Files", "s3://files//a", "s3://files/../x", "s3://u:p@files", "files"] {
            check(wrong, None);
        }
    }

    #[test]
    fn c3_the_key_is_hidden() {
        let key = BucketKey::new("s3cret").unwrap();
        assert!(!format!("{key:?}{:?}", key.to_toml()).contains("s3cret"));
        assert_eq!((BucketKey::new(""), BucketKey::new("a b")), (None, None));
    }
}
