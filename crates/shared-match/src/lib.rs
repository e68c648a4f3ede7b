//! Shared-match streams.
#![forbid(unsafe_code)]

mod alone;
mod bits;
mod codes;
mod coverage;
mod deflate;
mod envelope;
mod find;
mod fse;
mod had;
mod history;
mod huffman;
mod matcher;
mod parse;
mod price;
mod ring;
mod sources;
mod tables;
mod track;
mod train;
mod zstd;

pub use deflate::{Container, DeflateStream};
pub use history::Scope;
pub use matcher::{Counters, Forgotten, Limits, Matcher};
pub use ring::TextId;
pub use tables::{Form, Histogram, Tables, TablesError};
pub use train::{Sample, train};
pub use zstd::ZstdStream;
