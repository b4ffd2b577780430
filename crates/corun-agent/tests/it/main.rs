//! What an agent keeps, on real files.

mod made;
mod metrics;
mod past;
mod ring;
