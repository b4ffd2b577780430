//! Reads results of benchmark tools and test runners, and writes reports for continuous integration.
//!
//! ```text
//! hyperfine, criterion, … ──▶ tools ──▶ Results ─┐                       ┌─▶ JUnit
//!                                                ├─▶ Span ─▶ (a judge) ─▶ Outcome ─┼─▶ Bencher's metric format
//! a runner's JUnit file ────▶ annotate ─▶ Case ──┘                       └─▶ GitHub: summary, annotations
//! ```
//!
//! Tools seldom say when an iteration ran. So a [`Span`] has the bounds of its start. A judge that needs a better time has to say so.
//! This crate judges nothing: it opens no file, reads no clock, and knows no ledger.
//!
//! | module | holds |
//! | --- | --- |
//! | [`when`] | times that tools write, and the possible times of iterations and tests |
//! | [`lives`] | the times of iterations that are processes, from the lives of those |
//! | [`tools`] | results of benchmark tools: runs and iterations |
//! | [`mod@annotate`] | JUnit files of test runners: reads test cases as a stream, and adds properties |
//! | [`output`] | an [`Outcome`] in the formats of its readers |

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
