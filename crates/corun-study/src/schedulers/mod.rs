//! The study of schedulers (`corun.schedulers-study/1`, `studies/schedulers.toml`): what papers show of their schedulers,
//! made again on modelled machines, beside the numbers that the papers state.
//!
//! Method. A figure is a machine, a scheduler, policies, and groups of programs that run together. Every program also runs
//! alone. With a `duration`, programs repeat and how fast each is counts as work by time; without one, all start together
//! and end once, and the time to the end of the first run counts. A **slowdown** is the mean speed alone over the mean
//! speed beside the others, both over the same seeds.
//!
//! | file | holds |
//! | --- | --- |
//! | [`mod@file`], `check` | the study as written, and as checked |
//! | [`scenarios`] | which programs run together, and the scenarios that say so |
//! | [`outcome`] | the runs, and what the figures show of them |
//! | [`text`] | tables, charts, record |

mod check;
pub mod file;
pub mod outcome;
pub mod presets;
pub mod scenarios;
pub mod text;
