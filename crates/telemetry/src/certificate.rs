//! Certificate: when one ends.
//!
//! Spec        RFC 5280 §4.1, in DER.

use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use std::path::Path;

/// When the first certificate of a PEM file ends, Unix seconds; none if that cannot be read from it.
#[must_use]
pub fn ends_at(chain: &Path) -> Option<i64> {
    not_after(&CertificateDer::from_pem_file(chain).ok()?)
}

const INTEGER: u8 = 0x02;
const SEQUENCE: u8 = 0x30;
/// The version: `[0]`.
const VERSION: u8 = 0xA0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// `tbsCertificate.validity.notAfter` (RFC 5280 §4.1).
fn not_after(der: &[u8]) -> Option<i64> {
    let (certificate, _) = expect(der, SEQUENCE)?;
    let (mut fields, _) = expect(certificate, SEQUENCE)?;
    if let Some((_, rest)) = expect(fields, VERSION) {
        fields = rest;
    }
    let (_serial, fields) = expect(fields, INTEGER)?;
    let (_algorithm, fields) = expect(fields, SEQUENCE)?;
    let (_issuer, fields) = expect(fields, SEQUENCE)?;
    let (validity, _) = expect(fields, SEQUENCE)?;
    let (_, _, validity) = element(validity)?;
    let (tag, text, _) = element(validity)?;
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let (year, rest) = match tag {
        // Two digits: 1950 to 2049.
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: i64 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let two = |at: usize| rest.get(at..at + 2)?.parse::<i64>().ok();
    let (month, day, hour, minute, second) = (two(0)?, two(2)?, two(4)?, two(6)?, two(8)?);
    ((1..=12).contains(&month) && rest.len() == 10)
        .then(|| days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second)
}

/// The value of an element with this tag, and the input after it.
fn expect(input: &[u8], expected: u8) -> Option<(&[u8], &[u8])> {
    let (tag, value, rest) = element(input)?;
    (tag == expected).then_some((value, rest))
}

/// Tag, value and rest of a DER element.
fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = input.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..0x80 => (usize::from(first), rest),
        _ => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.len() <= 4).then_some(())?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
    };
    let (value, rest) = rest.split_at_checked(length)?;
    Some((tag, value, rest))
}

/// Days of the proleptic Gregorian calendar.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March: leap days come last.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, month) = (year.div_euclid(400), (month + 9) % 12);
    let (year, days) = (year.rem_euclid(400), (153 * month + 2) / 5 + day - 1);
    era * 146_097 + year * 365 + year / 4 - year / 100 + days - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days() {
        for (date, days) in [((1970, 1, 1), 0), ((2000, 2, 29), 11_016), ((2000, 3, 1), 11_017), ((2026, 1, 1), 20_454)]
        {
            assert_eq!(days_since_1970(date.0, date.1, date.2), days, "{date:?}");
        }
    }

    #[test]
    fn the_end_of_a_certificate() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guildhall/tests/it/tls/one.crt");
        let ends = ends_at(&file).expect("it has an end");
        assert!((1_767_225_600..32_503_680_000).contains(&ends), "{ends}");
        // Whatever is cut off, there is an answer.
        let der = CertificateDer::from_pem_file(&file).unwrap();
        for length in 0..der.len() {
            if let Some(of_part) = not_after(&der[..length]) {
                assert_eq!(of_part, ends);
            }
        }
    }
}
