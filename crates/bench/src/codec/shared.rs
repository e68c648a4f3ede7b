//! Shared-match: one search per event, one position ring per connection.

use super::crowd::body_of;
use super::mode::{Mode, Reader};
use anyhow::{Context as _, Result, bail};
use guildhall_codec::{Dictionary, DispatchFrame, Encoding, Framing, StreamDecompressor};
use guildhall_lab::scope_of;
use guildhall_prefetch::prefetch;
use guildhall_settings::defaults;
use guildhall_shared_match::{
    self as shared_match, BodyId, Container, DeflateStream, Form, Limits, Matcher, Tables, ZSTD_WINDOW_LOG, ZstdStream,
};
use guildhall_traffic::Event;
use std::sync::Arc;

/// The streams of one format.
enum Streams {
    Zstd(Vec<ZstdStream>),
    Deflate(Vec<DeflateStream>, Container),
}

/// A matcher with the limits of a node that has the default settings.
pub fn matcher(encoding: Encoding) -> Matcher {
    let limits = Limits { history_bytes_max: defaults::SHARED_HISTORY_BYTES_MAX as usize, ..Limits::default() };
    let form = match encoding {
        Encoding::Json => Form::Json,
        Encoding::Etf => Form::Etf,
    };
    Matcher::new(form, Tables::built_in(form), limits)
}

/// See the module.
pub struct SharedMatch {
    matcher: Matcher,
    encoding: Encoding,
    text: Option<BodyId>,
    connections_count: usize,
    streams: Streams,
    /// What streams begin with, for both ends.
    dictionary: Option<(Arc<shared_match::Dictionary>, Arc<Dictionary>)>,
}

impl SharedMatch {
    /// The mode of this name.
    ///
    /// # Errors
    /// When it is none of these, or its dictionary cannot be used.
    pub fn new(name: &str, encoding: Encoding, dictionary: Option<&Arc<Dictionary>>) -> Result<Self> {
        let streams = match name {
            "shared_zstd" | "shared_zstd_dict" => Streams::Zstd(Vec::new()),
            "shared_zlib" => Streams::Deflate(Vec::new(), Container::Zlib),
            "shared_deflate" => Streams::Deflate(Vec::new(), Container::PerMessage),
            _ => bail!("{name} is no mode of shared matches"),
        };
        let dictionary = match dictionary.filter(|_| name.ends_with("_dict")) {
            Some(known) => {
                let shared = shared_match::Dictionary::new(known.number(), known.content())?;
                Some((Arc::new(shared), known.clone()))
            }
            None if name.ends_with("_dict") => bail!("this mode needs a dictionary"),
            None => None,
        };
        Ok(Self { matcher: matcher(encoding), encoding, text: None, connections_count: 0, streams, dictionary })
    }
}

impl Mode for SharedMatch {
    fn prepare(&mut self, event: &Event, recipients: usize, _: &mut DispatchFrame) -> Result<()> {
        self.text = match event.is_private() {
            true => None,
            false => self.matcher.push(scope_of(event), recipients as u32, event.name, body_of(event, self.encoding)),
        };
        Ok(())
    }

    fn connect(&mut self) -> Result<()> {
        self.connections_count += 1;
        self.matcher.set_connections(self.connections_count);
        match &mut self.streams {
            Streams::Zstd(streams) => streams.push(match &self.dictionary {
                Some((shared, _)) => ZstdStream::with_dictionary(shared.clone()),
                None => ZstdStream::default(),
            }),
            Streams::Deflate(streams, container) => streams.push(DeflateStream::new(*container, 15)),
        }
        Ok(())
    }

    fn warm(&self, soon: Option<usize>, next: Option<usize>) {
        match &self.streams {
            Streams::Zstd(streams) => {
                if let Some(soon) = soon {
                    prefetch(&streams[soon]);
                }
                if let Some(next) = next.filter(|_| self.text.is_some()) {
                    streams[next].prefetch();
                }
            }
            Streams::Deflate(streams, _) => {
                if let Some(soon) = soon {
                    prefetch(&streams[soon]);
                }
                if let Some(next) = next.filter(|_| self.text.is_some()) {
                    streams[next].prefetch();
                }
            }
        }
    }

    fn deliver(
        &mut self,
        conn: usize,
        _: &Event,
        frame: &mut DispatchFrame,
        seq: u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        match (&mut self.streams, self.text) {
            (Streams::Zstd(streams), Some(text)) => {
                self.matcher.zstd(&mut streams[conn], text, seq, out).ok().context("the newest text is kept")?;
            }
            (Streams::Deflate(streams, _), Some(text)) => {
                self.matcher.deflate(&mut streams[conn], text, seq, out).ok().context("the newest text is kept")?;
            }
            (Streams::Zstd(streams), None) => {
                self.matcher.zstd_standalone(&mut streams[conn], frame.write_for(seq, Framing::None), out);
            }
            (Streams::Deflate(streams, _), None) => {
                self.matcher.deflate_standalone(&mut streams[conn], frame.write_for(seq, Framing::None), out);
            }
        }
        Ok(())
    }

    fn state_bytes(&self, conn: usize) -> usize {
        match &self.streams {
            Streams::Zstd(streams) => size_of::<ZstdStream>() + streams[conn].heap_bytes(),
            Streams::Deflate(streams, _) => size_of::<DeflateStream>() + streams[conn].heap_bytes(),
        }
    }

    fn shared_bytes(&self) -> usize {
        self.matcher.heap_bytes()
    }

    fn reader(&self) -> Result<Reader> {
        Ok(match &self.streams {
            Streams::Zstd(_) => Reader::Stream(match &self.dictionary {
                Some((_, known)) => StreamDecompressor::zstd_with(ZSTD_WINDOW_LOG, known)?,
                None => StreamDecompressor::zstd(ZSTD_WINDOW_LOG)?,
            }),
            Streams::Deflate(_, Container::Zlib) => Reader::Stream(StreamDecompressor::zlib()?),
            Streams::Deflate(_, Container::PerMessage) => Reader::DeflateStream(StreamDecompressor::zlib()?, false),
        })
    }
}
