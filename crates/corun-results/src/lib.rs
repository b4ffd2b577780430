//! Reads what benchmark tools and test runners write, and writes what continuous integration reads.
//!
//! ```text
//! hyperfine, criterion, … ──▶ tools ──▶ Results ─┐                       ┌─▶ JUnit
//!                                                ├─▶ Span ─▶ (a judge) ─▶ Outcome ─┼─▶ Bencher's metric format
//! a runner's JUnit file ────▶ annotate ─▶ Case ──┘                       └─▶ GitHub: summary, annotations
//! ```
//!
//! Tools seldom say when an iteration ran. So a [`Span`] says between which two instants it can have begun, and a judge who
//! needs to know it better says so. This crate judges nothing: it opens no file, reads no clock and knows no ledger.
//!
//! | module | holds |
//! | --- | --- |
//! | [`when`] | times that tools write, and where in a run their iterations and tests can have been |
//! | [`lives`] | the same of iterations that are processes, from when those lived |
//! | [`tools`] | results of benchmark tools: runs and iterations |
//! | [`mod@annotate`] | JUnit files of others: test cases read as a stream, properties put in, nothing else changed |
//! | [`output`] | an [`Outcome`], written for who reads it |

pub mod annotate;
mod field;
pub mod lives;
pub mod output;
pub mod tools;
mod unread;
pub mod when;

pub use annotate::{annotate, time_of, Annotated, Case};
pub use lives::Life;
pub use output::{Outcome, State};
pub use tools::{Results, Tool};
pub use unread::{Problem, Unread};
pub use when::{NotPlaced, Run, Span};
