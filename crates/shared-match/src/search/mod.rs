//! Search: earlier occurrences of a body's bytes, as zlib's and zstd's match finders have them.

pub mod candidates;
pub mod compare;
pub mod dictionary;
mod domain_matches;
pub mod finder;
mod near_index;
pub mod source;
pub mod standalone;
