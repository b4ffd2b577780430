//! All tests of the command line that may run in parallel, in one binary. Tests that load or change this
//! machine, and tests that are sensitive to others, have binaries of their own.
//!
//! | module | holds |
//! | --- | --- |
//! | `bench` | the tests of the benchmarks in `bench` |
//! | `contract` | the field names of every JSON that is documented |
//! | `generate` | the man page and completions |
//! | `helm` | the Helm chart against the types of Kubernetes |
//! | `orphans` | processes whose parents end while corun loads its probe |
//! | `packages` | what `make package` makes, installed and removed |
//! | `pipes` | what becomes of a run whose output nobody reads |
//! | `places` | flags that name files and folders, given what is none |
//! | `record` | a recording made and replayed |
//! | `run` | `corun run` |
//! | `signals` | signals that a command gets through corun |
//! | `sim`, `study` | runs on modelled machines |
//! | `targets` | whom each verb takes, and that its help says so |
//! | `top` | a frame of `corun top`, and rings |

#[path = "../anybodys/mod.rs"]
mod anybodys;
#[path = "../../../corun-report/tests/it/fields.rs"]
mod fields;
#[path = "../hog/mod.rs"]
mod hog;
#[path = "../printed/mod.rs"]
mod printed;

mod bench;
mod contract;
mod generate;
mod helm;
mod orphans;
mod packages;
mod pipes;
mod places;
mod record;
mod run;
mod signals;
mod sim;
mod study;
mod targets;
mod top;
