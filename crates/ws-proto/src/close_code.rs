//! Close codes that a close frame may carry.
//!
//! Spec  RFC 6455 §7.4 and the IANA registry, which added 1012 to 1014.

/// `code` may be sent in a close frame. All others are reserved: 1005, 1006 and 1015 are never sent, 1004 and 1016 to
/// 2999 are unassigned, and codes outside 1000 to 4999 are invalid.
#[must_use]
pub fn close_code_is_valid(code: u16) -> bool {
    matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999)
}

#[cfg(test)]
mod tests {
    use super::close_code_is_valid;

    #[test]
    fn table() {
        let valid: Vec<(u16, u16)> = vec![(1000, 1003), (1007, 1014), (3000, 4999)];
        for code in 0..=u16::MAX {
            let expected = valid.iter().any(|&(first, last)| (first..=last).contains(&code));
            assert_eq!(close_code_is_valid(code), expected, "{code}");
        }
    }
}
