//! What reaches the loop from other threads.

use crate::snapshot::Snapshot;
use std::sync::Arc;

/// An event other than a key.
#[derive(Debug)]
pub enum Event {
    /// A window has passed.
    Snapshot(Arc<Snapshot>),
    /// A user's request is done, or has failed; a sentence.
    Said(String),
    /// The end of new data; the reason, as a sentence.
    Ended(String),
}
