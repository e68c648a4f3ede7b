//! Kinds: the type of a file by its content, and its permitted names.
//!
//! Invariants  K1 a browser can show every type that `sniff` knows without executing anything. K2 a clean name is one
//!             segment of a path, needs no encoding in URLs and headers, and is not empty.

/// Bytes from which `sniff` determines the type.
pub(super) const HEAD_BYTES: usize = 64;
const NAME_BYTES_MAX: usize = 100;
const CLAIM_BYTES_MAX: usize = 100;

/// The media type of pictures, sound and films that are known by their first bytes (K1). No SVG: it can hold scripts.
pub(super) fn sniff(head: &[u8]) -> Option<&'static str> {
    let starts = |start: &[u8]| head.starts_with(start);
    let at = |from: usize, what: &[u8]| head.get(from..).is_some_and(|rest| rest.starts_with(what));
    Some(match head {
        _ if starts(b"\x89PNG\r\n\x1a\n") => "image/png",
        _ if starts(b"\xff\xd8\xff") => "image/jpeg",
        _ if starts(b"GIF87a") || starts(b"GIF89a") => "image/gif",
        _ if starts(b"RIFF") && at(8, b"WEBP") => "image/webp",
        _ if starts(b"RIFF") && at(8, b"WAVE") => "audio/wav",
        _ if starts(b"OggS") => "audio/ogg",
        _ if starts(b"fLaC") => "audio/flac",
        _ if starts(b"ID3") || starts(b"\xff\xfb") || starts(b"\xff\xf3") || starts(b"\xff\xf2") => "audio/mpeg",
        _ if at(4, b"ftypavif") || at(4, b"ftypavis") => "image/avif",
        _ if at(4, b"ftypM4A ") => "audio/mp4",
        _ if at(4, b"ftypqt  ") => "video/quicktime",
        _ if at(4, b"ftyp") => "video/mp4",
        _ if starts(b"\x1a\x45\xdf\xa3") && head.windows(4).any(|piece| piece == b"webm") => "video/webm",
        _ => return None,
    })
}

/// Content type of an attachment: by its content, otherwise by its extension, otherwise as declared by the sender.
pub(crate) fn content_type(head: &[u8], filename: &str, claimed: Option<&str>) -> Option<String> {
    if let Some(known) = sniff(head) {
        return Some(known.to_owned());
    }
    if let Some(guess) = mime_guess::from_path(filename).first_raw() {
        return Some(if guess.starts_with("text/") { format!("{guess}; charset=utf-8") } else { guess.to_owned() });
    }
    let claimed = claimed.filter(|claimed| is_media_type(claimed) && *claimed != "application/octet-stream")?;
    Some(claimed.to_ascii_lowercase())
}

fn is_media_type(text: &str) -> bool {
    let is_token = |piece: &str| {
        !piece.is_empty() && piece.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&^_.+-".contains(&b))
    };
    text.len() <= CLAIM_BYTES_MAX && text.split_once('/').is_some_and(|(kind, rest)| is_token(kind) && is_token(rest))
}

/// Media type of a served file, and whether a browser may show it.
pub(super) fn served(head: &[u8], filename: &str) -> (&'static str, bool) {
    match sniff(head) {
        Some(known) => (known, true),
        // Text is always plain text, whatever it claims to be: scripts and pages are downloads.
        None if mime_guess::from_path(filename).first_raw() == Some("text/plain") => {
            ("text/plain; charset=utf-8", false)
        }
        None => ("application/octet-stream", false),
    }
}

/// A name as files get it (K2), like upstream: letters, digits, `-`, `_` and `.` of ASCII; runs of others become `_`.
pub(crate) fn clean_name(name: &str) -> String {
    let mut clean = String::new();
    // Some send whole paths.
    for c in name.rsplit(['/', '\\']).next().unwrap_or_default().chars() {
        let is_plain = c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        match is_plain {
            true => clean.push(c),
            false if clean.ends_with('_') => {}
            false => clean.push('_'),
        }
    }
    let clean = clean.trim_start_matches('.');
    if clean.len() <= NAME_BYTES_MAX {
        return if clean.is_empty() { "file".to_owned() } else { clean.to_owned() };
    }
    // The extension determines the type.
    let (stem, end) = match clean.rfind('.') {
        Some(dot) if clean.len() - dot <= 16 => clean.split_at(dot),
        _ => (clean, ""),
    };
    format!("{}{end}", &stem[..NAME_BYTES_MAX - end.len()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names() {
        let check = |name: &str, expected: &str| assert_eq!(clean_name(name), expected, "{name:?}");
        check("note.txt", "note.txt");
        check("SPOILER_a-b.png", "SPOILER_a-b.png");
        check("two words (1).png", "two_words_1_.png");
        check("Снимок.png", "_.png");
        check("../../etc/passwd", "passwd");
        check("C:\\Users\\a\\b.txt", "b.txt");
        check("..", "file");
        check(".htaccess", "htaccess");
        check("", "file");
        check("a/", "file");
        check("a\r\nb\0\".txt", "a_b_.txt");
        check(
            &format!("{}.tar.gz", "x".repeat(500)),
            &format!("{}.gz", format!("{}.tar", "x".repeat(500)).split_at(97).0),
        );
        check(&"x".repeat(500), &"x".repeat(100));
    }

    #[test]
    fn kinds() {
        let check =
            |head: &[u8], name: &str, claimed: Option<&str>, expected: Option<&str>, served: (&'static str, bool)| {
                assert_eq!(content_type(head, name, claimed).as_deref(), expected, "{name}");
                assert_eq!(super::served(head, name), served, "{name}");
            };
        let download = ("application/octet-stream", false);
        check(b"\x89PNG\r\n\x1a\n....", "a.html", Some("text/html"), Some("image/png"), ("image/png", true));
        check(b"RIFF1234WEBPVP8 ", "a", None, Some("image/webp"), ("image/webp", true));
        check(b"<html>", "a.html", Some("image/png"), Some("text/html; charset=utf-8"), download);
        check(b"<svg>", "a.svg", None, Some("image/svg+xml"), download);
        check(b"hello", "a.txt", None, Some("text/plain; charset=utf-8"), ("text/plain; charset=utf-8", false));
        check(b"not a picture", "a.png", None, Some("image/png"), download);
        check(b"?", "a", Some("application/x-Thing"), Some("application/x-thing"), download);
        check(b"?", "a", Some("application/octet-stream"), None, download);
        check(b"?", "a", Some("text/html\r\nX: y"), None, download);
        check(b"", "a", None, None, download);
    }

    proptest! {
        #[test]
        fn k2_clean_names_are_plain(name in "\\PC{0,300}|[a./\\\\]{0,20}") {
            let clean = clean_name(&name);
            prop_assert!((1..=NAME_BYTES_MAX).contains(&clean.len()));
            prop_assert!(clean.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b)));
            prop_assert!(!clean.starts_with('.'));
            prop_assert_eq!(clean_name(&clean), clean);
        }
    }
}
