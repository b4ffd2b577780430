//! What reaches the loop from other threads.

use crate::snapshot::Snapshot;
use std::sync::Arc;

/// Something has happened that no key did.
#[derive(Debug)]
pub enum Event {
    /// A window has passed.
    Snapshot(Arc<Snapshot>),
    /// Something that a user asked for is done, or is not; a sentence.
    Said(String),
    /// Nothing new comes any more; why, a sentence.
    Ended(String),
}
