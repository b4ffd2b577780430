//! Models that come with the engine, to measure it and to start from.

mod phold;
mod queueing;

pub use phold::Phold;
pub use queueing::Queueing;
