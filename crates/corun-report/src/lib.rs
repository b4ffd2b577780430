//! Reports: corun's findings, written for people and for programs. Only this crate serializes.
//!
//! ```text
//! Observation ──▶ ProfileReport ──┬▶ json      the contract of `--json`, read back and checked
//!  (+ ProfileMeta, timeline)      ├▶ terminal  one screen, the answer first
//!                                 └▶ html      one self-contained file
//! Estimate ──────────────────────▶ predict   one line, JSON, a page
//! Trace (+ timeline) ─────────────▶ perfetto   a timeline for ui.perfetto.dev
//! ```
//!
//! Every renderer is a pure function: same input, same bytes (invariant 4). Only [`output`] touches files and only
//! [`progress`] the terminal.

pub mod answer;
pub mod category;
pub mod control;
pub mod doctor;
mod energy;
pub mod html;
pub mod json;
pub mod names;
pub mod noise;
pub mod output;
mod outside;
pub mod perfetto;
pub mod places;
pub mod policies;
pub mod predict;
pub mod profile;
pub mod progress;
pub mod refusal;
pub mod sim;
mod single_wait;
pub mod table;
pub mod terminal;
mod unseen;
pub mod verify;
mod words;

pub use profile::{describe, Host, LostTime, ProfileMeta, ProfileReport, SelfCost, Source, Subject};
pub use words::{one_line, printable};
