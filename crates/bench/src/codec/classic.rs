//! Plain messages, streams with a library's context per connection, and frames of their own per message.

use super::mode::{Mode, Reader};
use anyhow::Result;
use guildhall_codec::{
    Arm, ArmEncoder, CodecError, Dictionaries, DispatchFrame, Encoding, Framing, StreamCompressor, StreamDecompressor,
};
use guildhall_traffic::Event;

/// No compression: an envelope around a shared body. The product writes it in place; here it is copied once.
pub struct Plain;

impl Mode for Plain {
    fn prepare(&mut self, _: &Event, _: usize, _: &mut DispatchFrame) -> Result<()> {
        Ok(())
    }

    fn connect(&mut self) -> Result<()> {
        Ok(())
    }

    fn deliver(&mut self, _: usize, _: &Event, frame: &mut DispatchFrame, seq: u64, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(frame.write_for(seq, Framing::None));
        Ok(())
    }

    fn state_bytes(&self, _: usize) -> usize {
        0
    }

    fn reader(&self) -> Result<Reader> {
        Ok(Reader::Plain)
    }
}

/// A context per connection. What makes one, and what makes its reader.
pub struct Streams<W, R> {
    writer: W,
    reader: R,
    streams: Vec<StreamCompressor>,
}

impl<W, R> Streams<W, R>
where
    W: Fn() -> Result<StreamCompressor, CodecError>,
    R: Fn() -> Result<StreamDecompressor, CodecError>,
{
    pub fn new(writer: W, reader: R) -> Self {
        Self { writer, reader, streams: Vec::new() }
    }
}

impl<W, R> Mode for Streams<W, R>
where
    W: Fn() -> Result<StreamCompressor, CodecError>,
    R: Fn() -> Result<StreamDecompressor, CodecError>,
{
    fn prepare(&mut self, _: &Event, _: usize, _: &mut DispatchFrame) -> Result<()> {
        Ok(())
    }

    fn connect(&mut self) -> Result<()> {
        self.streams.push((self.writer)()?);
        Ok(())
    }

    fn deliver(
        &mut self,
        conn: usize,
        _: &Event,
        frame: &mut DispatchFrame,
        seq: u64,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        Ok(self.streams[conn].compress(&[frame.write_for(seq, Framing::None)], out)?)
    }

    fn state_bytes(&self, conn: usize) -> usize {
        self.streams[conn].memory_bytes()
    }

    fn reader(&self) -> Result<Reader> {
        Ok(Reader::Stream((self.reader)()?))
    }
}

/// One frame per message, which refers to no other: one context serves all connections.
pub struct Once(ArmEncoder);

impl Once {
    /// # Errors
    /// The library's.
    pub fn new(arm: &Arm, encoding: Encoding) -> Result<Self> {
        Ok(Self(ArmEncoder::new(arm, encoding, &Dictionaries::default())?))
    }
}

impl Mode for Once {
    fn prepare(&mut self, _: &Event, _: usize, _: &mut DispatchFrame) -> Result<()> {
        Ok(())
    }

    fn connect(&mut self) -> Result<()> {
        Ok(())
    }

    fn deliver(&mut self, _: usize, _: &Event, frame: &mut DispatchFrame, seq: u64, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(self.0.encode(frame.parts(seq, Framing::None).slices(0))?);
        Ok(())
    }

    fn state_bytes(&self, _: usize) -> usize {
        0
    }

    fn reader(&self) -> Result<Reader> {
        Ok(Reader::Once)
    }
}
