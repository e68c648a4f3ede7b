//! Curve: CPU and bytes per delivery against the size of the audience, shared-match and classic contexts, as text.

use std::fmt::Write as _;

/// Format, classic mode, shared mode.
pub const COMPARED: [(&str, &str, &str); 4] = [
    ("zstd", "zstd_classic", "shared_zstd"),
    ("zlib", "zlib_classic", "shared_zlib"),
    ("zstd, auto", "zstd_classic", "auto_zstd"),
    ("zlib, auto", "zlib_classic", "auto_zlib"),
];

/// Figures of one audience size, classic first.
pub struct Point {
    pub audience: String,
    pub cpu_us: [f64; 2],
    pub bytes: [f64; 2],
}

/// Columns of a ratio of 1.
const WIDTH: f64 = 24.0;
/// Longer bars are cut.
const RATIO_MAX: f64 = 2.0;

/// A line per audience size, with ratios to classic as bars: the mark is classic.
pub fn chart(format: &str, points: &[Point]) -> String {
    let mut text = format!(
        "{format:<10}  {:>9} {:>8} {:>8} {:>6}  {:<width$} {:>8} {:>8} {:>6}\n",
        "audience",
        "classic",
        "ours",
        "ratio",
        "CPU µs",
        "classic",
        "ours",
        "bytes",
        width = (WIDTH * RATIO_MAX) as usize + 1,
    );
    for point in points {
        let [cpu, bytes] = [point.cpu_us, point.bytes].map(|[classic, shared]| shared / classic.max(f64::MIN_POSITIVE));
        let _ = writeln!(
            text,
            "{:>21} {:>8.2} {:>8.2} {cpu:>6.2}  {} {:>8.1} {:>8.1} {bytes:>6.2}",
            point.audience,
            point.cpu_us[0],
            point.cpu_us[1],
            bar(cpu),
            point.bytes[0],
            point.bytes[1],
        );
    }
    text
}

fn bar(ratio: f64) -> String {
    let columns = (WIDTH * RATIO_MAX) as usize + 1;
    let length = (ratio.clamp(0.0, RATIO_MAX) * WIDTH).round() as usize;
    (0..columns)
        .map(|column| match (column < length, column == WIDTH as usize) {
            (true, true) => '+',
            (true, false) => '#',
            (false, true) => '|',
            (false, false) => ' ',
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_a_mark_where_both_are_equal() {
        assert_eq!(bar(0.0).find('|'), Some(24));
        assert_eq!(bar(0.5).trim_end(), "############            |");
        assert_eq!(bar(1.5).find('+'), Some(24));
        assert_eq!(bar(9.0).matches('#').count(), 47);
        let point = Point { audience: "1–4".to_owned(), cpu_us: [10.0, 5.0], bytes: [100.0, 90.0] };
        assert!(chart("zstd", &[point]).contains("0.50"));
    }
}
