//! Exposition: the two text formats that Prometheus reads, and the choice by a scraper's `Accept`.
//!
//! Invariants  E1 the classic format is the default: a reader that names no format cannot be expected to know
//!             OpenMetrics.
//! Source      prometheus.io "Exposition formats" (text 0.0.4); OpenMetrics 1.0.

use axum::http::{HeaderMap, header};

/// A text format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exposition {
    /// Prometheus text format 0.0.4.
    Classic,
    OpenMetrics,
}

impl Exposition {
    /// The format with the highest `q` in `Accept`; the classic one without that header.
    pub fn accepted(headers: &HeaderMap) -> Self {
        let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let (mut classic, mut open_metrics) = (0.0, 0.0);
        for range in accept.flat_map(|value| value.split(',')) {
            let (kind, parameters) = range.split_once(';').unwrap_or((range, ""));
            let parameters = || parameters.split(';').map(str::trim);
            let quality = parameters().find_map(|parameter| parameter.strip_prefix("q="));
            let quality: f32 = quality.and_then(|quality| quality.parse().ok()).unwrap_or(1.0);
            match kind.trim() {
                "application/openmetrics-text" => open_metrics = f32::max(open_metrics, quality),
                "text/plain" | "text/*" | "*/*" => classic = f32::max(classic, quality),
                _ => {}
            }
        }
        if open_metrics > classic || open_metrics > 0.0 && open_metrics == classic {
            Self::OpenMetrics
        } else {
            Self::Classic
        }
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Classic => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }

    /// Turns OpenMetrics text into this format.
    pub fn of_open_metrics(self, text: String) -> String {
        match self {
            Self::OpenMetrics => text,
            Self::Classic => classic(&text),
        }
    }
}

/// The classic format names a counter as its series are named, with `_total`, and has no units and no end mark. It has
/// no info type: an info metric is a gauge.
fn classic(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 1024);
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let suffix = |types: &str| match types.rsplit(' ').next() {
            Some("counter") => "_total",
            Some("info") => "_info",
            _ => "",
        };
        if let Some(help) = line.strip_prefix("# HELP ") {
            // The TYPE line follows the HELP line and decides the suffix of its name.
            let kind = lines.peek().filter(|next| next.starts_with("# TYPE ")).map_or("", |next| suffix(next));
            let (name, help) = help.split_once(' ').unwrap_or((help, ""));
            out.push_str(&format!("# HELP {name}{kind} {help}\n"));
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, "untyped"));
            let shown = if kind == "info" { "gauge" } else { kind };
            out.push_str(&format!("# TYPE {name}{} {shown}\n", suffix(line)));
        } else if !line.starts_with("# UNIT ") && line != "# EOF" {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn accepted(value: Option<&'static str>) -> Exposition {
        let value = value.map(|value| (header::ACCEPT, HeaderValue::from_static(value)));
        Exposition::accepted(&value.into_iter().collect())
    }

    #[test]
    fn e1_the_accept_header_selects_the_format() {
        use Exposition::{Classic, OpenMetrics};
        for (value, expected) in [
            (None, Classic),
            (Some("*/*"), Classic),
            (Some("text/plain;version=0.0.4"), Classic),
            (Some("application/openmetrics-text"), OpenMetrics),
            // The header of Prometheus.
            (Some("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"), OpenMetrics),
            (Some("text/plain;q=0.9, application/openmetrics-text;q=0.2"), Classic),
            (Some("application/openmetrics-text;q=0"), Classic),
            (Some("text/html, nonsense;;;q=x"), Classic),
        ] {
            assert_eq!(accepted(value), expected, "{value:?}");
        }
    }

    #[test]
    fn counters_are_named_as_their_series() {
        let open = "# HELP a_b Help.\n# TYPE a_b counter\na_b_total 3\n# HELP c_seconds Help.\n# TYPE c_seconds gauge\n\
                    # UNIT c_seconds seconds\nc_seconds 1.5\n# HELP build About.\n# TYPE build info\n\
                    build_info{version=\"1\"} 1\n# EOF\n";
        let expected = "# HELP a_b_total Help.\n# TYPE a_b_total counter\na_b_total 3\n# HELP c_seconds Help.\n\
                        # TYPE c_seconds gauge\nc_seconds 1.5\n# HELP build_info About.\n# TYPE build_info gauge\n\
                        build_info{version=\"1\"} 1\n";
        assert_eq!(classic(open), expected);
    }
}
