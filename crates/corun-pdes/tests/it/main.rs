//! How programs use the engine, and what it refuses.
//!
//! | module | holds |
//! | --- | --- |
//! | `own_threads` | workers that are the caller's threads |
//! | `refusals` | invalid options and models |
//! | `width` | workers that park because fewer are wanted |

mod own_threads;
mod refusals;
mod width;
