//! Time as a value: a monotonic `Instant` for deadlines, a wall-clock `Timestamp` for the wire.
//!
//! Invariants  both are plain millisecond counts; neither can read a clock.
//! Spec        the text form is ISO 8601 with microseconds and offset (docs/protocol/reference.md, Notation).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::fmt;

/// A point on the monotonic clock, in milliseconds since an origin chosen by the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(pub u64);

impl Instant {
    /// This instant plus `ms` milliseconds; saturates.
    #[must_use]
    pub fn after_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// This instant minus `ms` milliseconds; saturates.
    #[must_use]
    pub fn before_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// Milliseconds since `earlier`; 0 if `earlier` is later.
    #[must_use]
    pub fn ms_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// An `Option<Instant>` in eight bytes: the latest instant, which no clock reaches, represents none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionalInstant(u64);

impl OptionalInstant {
    /// An absent instant; the clock never reaches its number.
    pub const NONE: Self = Self(u64::MAX);

    /// The instant, if there is one.
    #[must_use]
    pub fn get(self) -> Option<Instant> {
        (self != Self::NONE).then_some(Instant(self.0))
    }

    /// An instant from now on.
    pub fn set(&mut self, at: Instant) {
        *self = Self(at.0.min(u64::MAX - 1));
    }

    /// Sets it to none if it is this instant. Returns whether it was.
    pub fn clear_if(&mut self, at: Instant) -> bool {
        let is_same = self.get() == Some(at);
        if is_same {
            *self = Self::NONE;
        }
        is_same
    }
}

impl Default for OptionalInstant {
    fn default() -> Self {
        Self::NONE
    }
}

/// Current time, passed by the driver with each input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For deadlines: never goes backwards.
    pub instant: Instant,
    /// For the wire and for ids: may be corrected.
    pub unix: Timestamp,
}

impl Now {
    /// Both clocks in milliseconds: monotonic, and since the Unix epoch.
    #[must_use]
    pub fn new(instant_ms: u64, unix_ms: i64) -> Self {
        Self { instant: Instant(instant_ms), unix: Timestamp(unix_ms) }
    }
}

/// Wall-clock time in milliseconds since the Unix epoch, years 0 to 9999.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(pub i64);

/// The text is not an ISO 8601 date and time.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an ISO 8601 timestamp, like 2024-05-01T12:00:00.123000+00:00")]
pub struct ParseTimestampError;

const DAY_MS: i64 = 86_400_000;
/// 9999-12-31T23:59:59.999 and 0000-01-01T00:00:00, the range of four-digit years.
const MAX_MS: i64 = 253_402_300_799_999;
const MIN_MS: i64 = -62_167_219_200_000;

impl Timestamp {
    /// Whole seconds since the Unix epoch, rounded down.
    #[must_use]
    pub fn unix_s(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Parses `YYYY-MM-DDTHH:MM[:SS[.fraction]][Z|±HH[[:]MM]]`; digits past milliseconds are dropped. Without an offset
    /// the time is in UTC. A space may be in place of the `T`, and before the offset; one in place of the `+` is what
    /// a query has if its sender did not encode the `+`.
    ///
    /// # Errors
    /// `ParseTimestampError` for anything else, including dates that do not exist.
    pub fn parse(text: &str) -> Result<Self, ParseTimestampError> {
        parse(text.as_bytes()).ok_or(ParseTimestampError)
    }
}

fn parse(b: &[u8]) -> Option<Timestamp> {
    let ([y1, y2, y3, y4, b'-', mo1, mo2, b'-', d1, d2, b'T' | b't' | b' ', h1, h2, b':', mi1, mi2], rest) =
        b.split_first_chunk::<16>()?
    else {
        return None;
    };
    let (y, mo, d) = (number(&[*y1, *y2, *y3, *y4])?, number(&[*mo1, *mo2])?, number(&[*d1, *d2])?);
    let (h, mi) = (number(&[*h1, *h2])?, number(&[*mi1, *mi2])?);
    let ((s, ms), rest) = match rest {
        [b':', s1, s2, rest @ ..] => {
            let (ms, rest) = fraction_ms(rest)?;
            ((number(&[*s1, *s2])?, ms), rest)
        }
        _ => ((0, 0), rest),
    };
    let days = days_from_civil(y, mo, d);
    // Many clients have no year 0: Python's `datetime` begins with year 1.
    if y < 1 || civil_from_days(days) != (y, mo, d) || h > 23 || mi > 59 || s > 60 {
        return None;
    }
    let unix_ms = days * DAY_MS + ((h * 60 + mi - offset_min(rest)?) * 60 + s) * 1000 + ms;
    (MIN_MS..=MAX_MS).contains(&unix_ms).then_some(Timestamp(unix_ms))
}

fn number(digits: &[u8]) -> Option<i64> {
    digits.iter().try_fold(0, |n, c| c.is_ascii_digit().then(|| n * 10 + i64::from(c - b'0')))
}

/// The milliseconds of a fraction, 0 without one, and the bytes behind it.
fn fraction_ms(b: &[u8]) -> Option<(i64, &[u8])> {
    let [b'.' | b',', b @ ..] = b else { return Some((0, b)) };
    let (fraction, rest) = b.split_at(b.iter().take_while(|c| c.is_ascii_digit()).count());
    let digit = |i: usize| fraction.get(i).map_or(0, |c| i64::from(c - b'0'));
    (!fraction.is_empty()).then(|| (digit(0) * 100 + digit(1) * 10 + digit(2), rest))
}

/// Minutes east of UTC.
fn offset_min(b: &[u8]) -> Option<i64> {
    let (sign, digits) = match b {
        [] | [b'Z' | b'z'] | [b' ', b'Z' | b'z'] => return Some(0),
        [b' ', sign @ (b'+' | b'-'), digits @ ..] | [sign @ (b'+' | b'-' | b' '), digits @ ..] => (*sign, digits),
        _ => return None,
    };
    let (h, m) = match digits {
        [h1, h2] => (number(&[*h1, *h2])?, 0),
        [h1, h2, m1, m2] | [h1, h2, b':', m1, m2] => (number(&[*h1, *h2])?, number(&[*m1, *m2])?),
        _ => return None,
    };
    (h <= 23 && m <= 59).then_some((h * 60 + m) * if sign == b'-' { -1 } else { 1 })
}

/// Howard Hinnant, "chrono-compatible low-level date algorithms".
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let doy = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719_468
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.clamp(MIN_MS, MAX_MS);
        let (year, month, day) = civil_from_days(ms.div_euclid(DAY_MS));
        let in_day = ms.rem_euclid(DAY_MS);
        let (s, ms) = (in_day / 1000, in_day % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{ms:03}000+00:00", s / 3600, s / 60 % 60, s % 60)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_form() {
        assert_eq!(Timestamp(1_700_000_000_123).to_string(), "2023-11-14T22:13:20.123000+00:00");
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000000+00:00");
        assert_eq!(Timestamp(-1).to_string(), "1969-12-31T23:59:59.999000+00:00");
        assert_eq!(Timestamp(951_782_400_000).to_string(), "2000-02-29T00:00:00.000000+00:00");
    }

    #[test]
    fn parses_what_clients_send() {
        for text in [
            "2023-11-14T22:13:20.123Z",
            "2023-11-14T23:13:20.123456789+01:00",
            "2023-11-14T22:13:20.123000+00:00",
            "2023-11-14T22:13:20.123",
            "2023-11-14 22:13:20,1239999999999999999999",
            "2023-11-14T16:43:20.123-0530",
            "2023-11-14t23:13:20.123+01",
            "2023-11-14 23:13:20.123 +0100",
            "2023-11-14T23:13:20.123 01:00",
            "2023-11-14 22:13:20.123 z",
        ] {
            assert_eq!(Timestamp::parse(text), Ok(Timestamp(1_700_000_000_123)), "{text}");
        }
        for text in ["2023-11-14T22:13Z", "2023-11-14T22:13", "2023-11-14 23:13+01:00", "2023-11-14T22:13:00.0-0000"] {
            assert_eq!(Timestamp::parse(text), Ok(Timestamp(1_699_999_980_000)), "{text}");
        }
        for text in [
            "",
            "yesterday",
            "2023-11-14",
            "2023-11-14T",
            "2023-11-14T22",
            "2023-02-30T00:00:00Z",
            "2023-11-14T24:00:00Z",
            "2023-11-14T22:60Z",
            "2023-11-14T22:13:",
            "2023-11-14T22:13:2",
            "2023-11-14T22:13:20.Z",
            "2023-11-14T22:13.5Z",
            "2023-11-14T22:13:20+9999",
            "2023-11-14T22:13:20+24:00",
            "2023-11-14T22:13:20+1",
            "2023-11-14T22:13:20+010",
            "2023-11-14T22:13:20+01:0",
            "2023-11-14T22:13:20  +01:00",
            "2023-11-14T22:13:20Z ",
            "2023-11-14T22:13:20+01:00Z",
            "2023-11-14T22:13:20 ",
            "0000-01-01T00:00:00+23:59",
        ] {
            assert_eq!(Timestamp::parse(text), Err(ParseTimestampError), "{text}");
        }
    }

    proptest! {
        #[test]
        fn round_trip(ms in MIN_MS..=MAX_MS) {
            prop_assert_eq!(Timestamp::parse(&Timestamp(ms).to_string()), Ok(Timestamp(ms)));
        }

        #[test]
        fn parse_never_panics(text in "(2023-11-14[T ]22:13)?\\PC{0,40}") {
            let _ = Timestamp::parse(&text);
        }
    }
}
