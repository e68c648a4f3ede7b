//! JSON bodies.
//!
//! Owns        the way in which this crate writes JSON: compact, appended, and removed again on failure.
//! Doors       `encode_json`.     Spec  docs/protocol/reference.md §2.1.

use serde::Serialize;

use crate::EncodeError;

/// Appends `value` as compact JSON text.
///
/// # Errors
/// [`EncodeError::Json`] when the value has no JSON form (for example map keys that are lists); `out`
/// is then unchanged.
pub fn encode_json<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let start = out.len();
    serde_json::to_writer(&mut *out, value).map_err(|error| {
        out.truncate(start);
        EncodeError::Json(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn appends() {
        let mut out = b"x".to_vec();
        encode_json(&serde_json::json!({"a": [1, null, "é"]}), &mut out).unwrap();
        assert_eq!(out, "x{\"a\":[1,null,\"é\"]}".as_bytes());
    }

    #[test]
    fn leaves_nothing_behind_on_failure() {
        let mut out = b"x".to_vec();
        let bad = std::collections::BTreeMap::from([(vec![1], 2)]);
        assert!(matches!(encode_json(&("kept", bad), &mut out), Err(EncodeError::Json(_))));
        assert_eq!(out, b"x");
    }
}
