//! Studies: a matrix of experiments, its runs on the live and on the modelled machine, and the results as tables, figures and dated
//! records.
//!
//! Every study is a folder: its file as written, its runs, its result, its tables and record, and the facts that documents may quote. A
//! study for `corun study` implements [`Study`](study::Study), and is a row of [`kinds`].
//!
//! | folder | the study of |
//! | --- | --- |
//! | [`predict`] | predictions of slowdown |
//! | [`control`] | control: the gains, for whom, and who pays |
//! | [`verify`] | verdicts on short runs |
//! | [`schedulers`] | figures of papers on schedulers, on modelled machines |
//! | [`validate`] | the modelled machine compared with this one (`corun validate`) |
//! | [`describe`] | programs: their solo runs as workload files (`corun study programs`) |
//!
//! | file | holds |
//! | --- | --- |
//! | [`study`], [`kinds`] | the interface of every study, and the kinds |
//! | [`study_file`] | errors of a study file, with their line |
//! | [`programs`] | the programs and interferers of the live studies, ready to run |
//! | [`session`], [`mod@pace`] | a child process in its own session; the speed of this machine |
//! | [`mod@this_machine`], [`circumstances`] | the model of the machine that corun runs on; place and date of a record |
//! | [`kept`], [`facts`] | records in the repository, and the figures that documents quote from them |
//! | [`mod@simulated`] | a scenario that ran on a modelled machine, as a report |
//! | [`paper_figures`] | the figures of an example that redraws a paper, as such a record |
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
