//! The URLs of NATS servers, the value of `cluster.nats_url`.
//!
//! Invariants  a URL is shown without its password. (tests `the_password_is_hidden`, `tests::c3_*`)

use super::{
    raw::Scalar,
    value::{Value, quote},
};
use std::fmt;

/// `nats://host:port` or `tls://host:port`, with `user:password@` or `token@` before the host; several by commas.
#[derive(Clone, PartialEq, Eq)]
pub struct NatsUrl(String);

impl NatsUrl {
    /// Parses URLs; none if one of them is not of NATS.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_url = |url: &str| {
            let rest = url.strip_prefix("nats://").or_else(|| url.strip_prefix("tls://"));
            rest.is_some_and(|rest| {
                let host = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
                !host.is_empty() && !rest.contains(|c: char| c.is_whitespace() || c.is_control() || c == '/')
            })
        };
        text.split(',').all(is_url).then(|| Self(text.to_owned()))
    }

    /// The URLs without accounts.
    #[must_use]
    pub fn servers(&self) -> Vec<String> {
        let bare = |url: &str| match split(url) {
            Some((scheme, _, host)) => format!("{scheme}://{host}"),
            None => url.to_owned(),
        };
        self.0.split(',').map(bare).collect()
    }

    /// The first account: a user with a password, or a token.
    #[must_use]
    pub fn account(&self) -> Option<(&str, Option<&str>)> {
        let (_, account, _) = self.0.split(',').find_map(split)?;
        Some(account.split_once(':').map_or((account, None), |(user, password)| (user, Some(password))))
    }

    /// The URLs with `(hidden)` in place of passwords and tokens.
    #[must_use]
    pub fn redacted(&self) -> String {
        let redact =
            |url: &str| match url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?))) {
                None => url.to_owned(),
                Some((scheme, (account, host))) => match account.split_once(':') {
                    Some((user, _)) => format!("{scheme}://{user}:(hidden)@{host}"),
                    None => format!("{scheme}://(hidden)@{host}"),
                },
            };
        self.0.split(',').map(redact).collect::<Vec<_>>().join(",")
    }
}

/// Scheme, account and host of a URL with an account.
fn split(url: &str) -> Option<(&str, &str, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let (account, host) = rest.rsplit_once('@')?;
    Some((scheme, account, host))
}

impl fmt::Debug for NatsUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NatsUrl({})", self.redacted())
    }
}

impl Value for NatsUrl {
    type Rule = ();
    const SECRET: bool = true;

    fn read(raw: &Scalar, (): &()) -> Option<Self> {
        raw.text().and_then(Self::parse)
    }
    fn expected((): &()) -> String {
        "URLs of NATS servers like \"nats://host:4222\", separated by commas".to_owned()
    }
    fn to_toml(&self) -> Option<String> {
        Some(quote(&self.redacted()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_is_hidden() {
        let url = NatsUrl::parse("nats://app:s3cret@a:4222,tls://t0ken@b:4222,nats://c").unwrap();
        assert_eq!(url.redacted(), "nats://app:(hidden)@a:4222,tls://(hidden)@b:4222,nats://c");
        assert!(!format!("{url:?}{:?}", url.to_toml()).contains("s3cret"));
        assert_eq!(url.servers(), ["nats://a:4222", "tls://b:4222", "nats://c"]);
        assert_eq!(url.account(), Some(("app", Some("s3cret"))));
        assert_eq!(NatsUrl::parse("nats://a,tls://t0ken@b").unwrap().account(), Some(("t0ken", None)));
        assert_eq!(NatsUrl::parse("nats://a").unwrap().account(), None);
        for bad in ["", "nats://", "http://a", "nats://a b", "nats://a,", "nats://a/b"] {
            assert_eq!(NatsUrl::parse(bad), None, "{bad}");
        }
    }
}
