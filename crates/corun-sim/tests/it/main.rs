//! All tests of the modelled machine that need whole runs, in one binary. A name selects a module: `cargo
//! test -p corun-sim --test it eevdf`.
//!
//! | module | holds |
//! | --- | --- |
//! | `rig` | shared code: scenarios from text, readings of what happened |
//! | `bad_scenarios` | refusals, in one sentence with file, line and remedy |
//! | `bursts`, `grains`, `phases`, `queues` | the activity of programs |
//! | `in_step` | when threads share lines |
//! | `cfs`, `eevdf`, `xen` | the schedulers |
//! | `checkers` | schedulers that break the rules are found |
//! | `host` | the suite that every host passes |
//! | `policies`, `sam` | policies at work |
//! | `best_threads` | how many threads are best for the papers' programs alone |
//! | `papers`, `pact16` | the papers' calibration points, and what emerges from them |
//! | `properties` | random scenarios on random machines |
//! | `replay` | same seed, same bytes |
//! | `replayed`, `replayed_ends`, `replayed_retries`, `replayed_timers`, `replayed_model` | replays of runs
//! from their logs, some of them compared with solo runs on the modelled machine |

mod bad_scenarios;
mod best_threads;
mod bursts;
mod cfs;
mod checkers;
mod eevdf;
mod grains;
mod host;
mod in_step;
mod pact16;
mod papers;
mod pdes;
mod phases;
mod policies;
mod properties;
mod queues;
mod recorded;
mod replay;
mod replayed;
mod replayed_crews;
mod replayed_ends;
mod replayed_limits;
mod replayed_model;
mod replayed_retries;
mod replayed_timers;
mod rig;
mod sam;
mod xen;
