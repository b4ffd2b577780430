//! `corun top`: who keeps whom from a CPU, in a terminal, live and a while back.
//!
//! ```text
//! keys ─────┐                          ┌▶ a frame of lines   (view, pure)
//! windows ──┴▶ App (state, pure) ──────┤
//!   ▲                                  └▶ a request of the user's: a report, a trace, to leave
//!   └ live: a session in a thread of its own
//! ```
//!
//! Only [`terminal`] touches the terminal, only [`live`] the machine and only [`requests`] files. Names come
//! from other users' processes: [`snapshot`] removes everything that could control a terminal.

#![deny(missing_docs)]

pub mod app;
pub mod event;
pub mod fit;
pub mod history;
pub mod keys;
pub mod live;
pub mod requests;
pub mod sentence;
pub mod snapshot;
pub mod terminal;
pub mod view;
