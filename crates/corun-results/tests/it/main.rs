//! Reads files of tools, and writes files for others.
//!
//! | module | holds |
//! | --- | --- |
//! | `output` | outcomes for JUnit, Bencher and GitHub |
//! | `results` | the files of benchmark tools |

mod output;
mod results;
