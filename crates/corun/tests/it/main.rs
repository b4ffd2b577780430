//! All tests of the command line that may run side by side, in one binary. Those that watch this machine, or change it, have binaries
//! of their own.
//!
//! | module | holds |
//! | --- | --- |
//! | `contract` | the field names of every JSON that is documented |
//! | `generate` | the man page and completions |
//! | `pipes` | what becomes of a run whose output nobody reads |
//! | `run` | `corun run` |
//! | `sim`, `study` | runs on modelled machines |

#[path = "../../../corun-report/tests/it/fields.rs"]
mod fields;
#[path = "../hog/mod.rs"]
mod hog;
#[path = "../printed/mod.rs"]
mod printed;

mod contract;
mod generate;
mod pipes;
mod run;
mod sim;
mod study;
