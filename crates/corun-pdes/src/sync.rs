//! Atomics, locks and queues: from the standard library and crossbeam, or from loom when a model checker runs the tests.

#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

#[cfg(not(loom))]
pub(crate) use crossbeam_queue::SegQueue as Queue;

#[cfg(loom)]
pub(crate) use checked::Queue;
#[cfg(loom)]
pub(crate) use loom::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

#[cfg(loom)]
mod checked {
    use loom::sync::Mutex;
    use std::collections::VecDeque;

    /// A queue that behaves like crossbeam's, and that loom can follow.
    pub(crate) struct Queue<T>(Mutex<VecDeque<T>>);

    impl<T> Queue<T> {
        pub fn new() -> Queue<T> {
            Queue(Mutex::new(VecDeque::new()))
        }

        pub fn push(&self, item: T) {
            self.0.lock().unwrap().push_back(item);
        }

        pub fn pop(&self) -> Option<T> {
            self.0.lock().unwrap().pop_front()
        }

        pub fn len(&self) -> usize {
            self.0.lock().unwrap().len()
        }
    }
}
