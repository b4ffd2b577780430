//! Studies: a matrix of experiments, its runs on the live and on the modelled machine, what came of them as tables,
//! figures and dated records.
//!
//! Every study is a folder: its file as written, its runs, what came of them, tables and record, and what documents may
//! quote of it. Those that `corun study` runs implement [`Study`](study::Study), and are a row each of [`kinds`].
//!
//! | folder | the study of |
//! | --- | --- |
//! | [`predict`] | predictions of slowdown |
//! | [`control`] | control: what it wins, for whom, and who pays |
//! | [`verify`] | verdicts on short runs |
//! | [`schedulers`] | what papers show of their schedulers, on modelled machines |
//! | [`validate`] | the modelled machine against this one (`corun validate`) |
//! | [`describe`] | programs: what they do alone, as workload files (`corun study programs`) |
//!
//! | file | holds |
//! | --- | --- |
//! | [`study`], [`kinds`] | what every study is, and which kinds there are |
//! | [`study_file`] | what is wrong with a study file, and where |
//! | [`programs`] | the programs and interferers of the live studies, ready to run |
//! | [`session`], [`mod@pace`] | a child process in a session of its own; how fast this machine is |
//! | [`mod@this_machine`], [`circumstances`] | the model of the machine that corun runs on; where and when, for a record |
//! | [`kept`], [`facts`] | records as the tree keeps them, and the figures that documents quote from them |
//! | [`mod@simulated`] | a scenario that ran on a modelled machine, as a report |
//! | [`paper_figures`] | what an example that redraws a paper states, as such a record |
//! | [`statistics`], [`hash`], [`bars`] | quantiles, a hash that never changes, bar charts |

pub mod bars;
pub mod circumstances;
pub mod control;
pub mod describe;
pub mod facts;
pub mod hash;
pub mod kept;
pub mod kinds;
pub mod pace;
pub mod paper_figures;
pub mod predict;
pub mod programs;
mod quoted;
pub mod schedulers;
pub mod session;
pub mod simulated;
pub mod statistics;
pub mod study;
pub mod study_file;
pub mod this_machine;
pub mod validate;
pub mod verify;
