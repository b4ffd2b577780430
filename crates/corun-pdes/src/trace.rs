//! The trace of a logical process: one number over all its committed events, in order.

use std::hash::{Hash, Hasher};

use crate::event::Key;
use crate::rng::mixed;

/// A 64-bit hash with one multiplication a word. It is the same in every run, on machines of the same byte order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trace(u64);

impl Trace {
    /// Adds an event.
    #[inline]
    pub fn add<E: Hash>(&mut self, key: &Key, event: &E) {
        self.write_u64(key.time);
        self.write_u64(key.serial);
        self.write_u64(u64::from(key.sender));
        event.hash(self);
    }

    /// Returns the trace together with the last state of the process.
    pub fn with<S: Hash>(mut self, state: &S) -> u64 {
        state.hash(&mut self);
        self.finish()
    }
}

impl Hasher for Trace {
    fn finish(&self) -> u64 {
        mixed(self.0)
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }

    fn write_u32(&mut self, n: u32) {
        self.write_u64(u64::from(n));
    }

    #[inline]
    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }
}
