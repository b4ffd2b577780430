//! How programs use the engine, and what it refuses.
//!
//! | module | holds |
//! | --- | --- |
//! | `own_threads` | workers that are the caller's threads |
//! | `refusals` | options and models that make no sense |

mod own_threads;
mod refusals;
