//! Inflate: the partition's inflater for compressed messages of clients, one message at a time.

use guildhall_codec::{CodecError, MessageInflater};
use guildhall_stdx::heap;
use std::mem;

/// See the module.
#[derive(Debug, Default)]
pub struct Inflate {
    /// None before the first compressed message.
    inflater: Option<MessageInflater>,
    /// The message that is being inflated; kept for its allocation.
    buffer: Vec<u8>,
}

impl Inflate {
    /// The inflater.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn inflater(&mut self) -> Result<&mut MessageInflater, CodecError> {
        match &mut self.inflater {
            Some(inflater) => Ok(inflater),
            none => Ok(none.insert(MessageInflater::new()?)),
        }
    }

    /// Takes the empty buffer.
    pub fn take_buffer(&mut self) -> Vec<u8> {
        let mut buffer = mem::take(&mut self.buffer);
        buffer.clear();
        buffer
    }

    /// Puts the buffer back once its message is handled.
    pub fn put_buffer(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// Heap memory of the inflater and the buffer in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.memory_bytes() + heap::allocated(self.buffer.capacity())
    }

    /// Memory of the inflater in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.inflater.as_ref().map_or(0, MessageInflater::memory_bytes)
    }
}
