//! Properties of the codec, checked with independent decoders: eetf for terms, miniz_oxide and ruzstd for streams.

#[cfg(feature = "stream")]
mod arm;
#[cfg(feature = "stream")]
mod context_pool;
#[cfg(feature = "stream")]
mod deflate;
#[cfg(feature = "stream")]
mod dictionary;
mod etf_bytes;
mod etf_decode;
mod etf_oracle;
mod frame;
mod payload;
#[cfg(feature = "stream")]
mod prepared;
#[cfg(feature = "stream")]
mod stream;
mod support;
