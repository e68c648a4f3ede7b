//! Codec of a connection: encoding and compression of what it is sent.
//!
//! Invariants  encoding and compression never change; the compressor has the state of the stream.

use super::{Compression, ConnParams};
use crate::{deflate::Form, stream_account::Writer, stream_codec::Compressor};
use guildhall_codec::{DictionaryId, Encoding, Framing, SharedWindow};
use guildhall_stdx::heap;
use guildhall_ws_proto::DeflateParams;

/// See the module.
#[derive(Debug)]
pub struct ConnCodec {
    encoding: Encoding,
    compression: Compression,
    /// The compressed stream, with its context.
    compressor: Option<Box<Compressor>>,
    /// The compressor is one of shared-match: stored here, so that a fan-out need not load it.
    shares_search: bool,
}

impl ConnCodec {
    /// For the parameters of a connection.
    pub fn new(params: ConnParams, compressor: Option<Box<Compressor>>) -> Self {
        Self {
            encoding: params.encoding,
            compression: params.compression,
            shares_search: compressor.as_ref().is_some_and(|compressor| compressor.shares_search()),
            compressor,
        }
    }

    /// Another writer may have taken over the stream.
    pub fn stream_changed(&mut self) {
        self.shares_search = self.compressor.as_ref().is_some_and(|compressor| compressor.shares_search());
    }

    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Name of the compression in logs and `/v1`.
    pub fn name(&self) -> &'static str {
        self.compression.name()
    }

    /// Negotiated permessage-deflate.
    pub fn deflate(&self) -> Option<DeflateParams> {
        match self.compression {
            Compression::Deflate(params) => Some(params),
            Compression::None | Compression::Zlib | Compression::Zstd | Compression::ZstdDict(_) => None,
        }
    }

    /// The dictionary that the stream began with.
    pub fn dictionary(&self) -> Option<DictionaryId> {
        match self.compression {
            Compression::ZstdDict(id) => Some(id),
            Compression::None | Compression::Zlib | Compression::Zstd | Compression::Deflate(_) => None,
        }
    }

    /// The compressed stream. None: messages are uncompressed, or compressed without state.
    pub fn compressor(&self) -> Option<&Compressor> {
        self.compressor.as_deref()
    }

    /// The compressed stream, to write to.
    pub fn compressor_mut(&mut self) -> Option<&mut Compressor> {
        self.compressor.as_deref_mut()
    }

    /// Whether the connection's events are searched once for all recipients.
    pub fn shares_search(&self) -> bool {
        self.shares_search
    }

    /// Form of dispatches, if the connection has no stream.
    pub fn form(&self) -> Form {
        match self.deflate() {
            Some(params) if self.compressor.is_none() => Form::Prepared(SharedWindow::of(params.server_window_bits)),
            _ => Form::Plain(Framing::websocket(self.encoding)),
        }
    }

    /// Name of the component that compresses, for `/v1`. None: it has no compression.
    pub fn writer(&self) -> Option<&'static str> {
        match (&self.compressor, self.deflate()) {
            (Some(compressor), _) => Some(compressor.writer().name()),
            (None, Some(_)) => Some("prepared"),
            (None, None) => None,
        }
    }

    /// What writes payloads that are no dispatch into the stream; none if they are outside of it.
    pub fn control_writer(&self) -> Option<Writer> {
        // With permessage-deflate they go uncompressed.
        self.compressor().filter(|_| self.deflate().is_none()).map(Compressor::writer)
    }

    /// Heap memory of the stream in bytes, without the slot of a library context.
    pub fn heap_bytes(&self) -> usize {
        self.compressor.as_ref().map_or(0, |compressor| heap::boxed::<Compressor>() + compressor.heap_bytes())
    }

    /// Heap memory of the stream in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.compressor.as_ref().map_or(0, |compressor| compressor.memory_bytes())
    }
}
