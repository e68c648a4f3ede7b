//! Entropy coding: bits, FSE and Huffman codes, and the trained tables of streams.
//!
//! Spec  RFC 8878 §4 (FSE, Huffman). Deflate has codes of its own: see `deflate`.

pub mod bits;
pub mod fse;
pub mod huffman;
pub mod tables;
