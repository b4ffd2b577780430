//! How programs use the engine, and what it refuses.
//!
//! | module | holds |
//! | --- | --- |
//! | `own_threads` | workers that are the caller's threads |
//! | `refusals` | options and models that make no sense |
//! | `width` | workers that park because fewer are wanted |

mod own_threads;
mod refusals;
mod width;
