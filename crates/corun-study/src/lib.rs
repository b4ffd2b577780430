//! Studies: a matrix of experiments, its runs on the live and on the modelled machine, what came of them as tables,
//! figures and dated records.
//!
//! ```text
//! studies/*.toml ─▶ study ─▶ cell ─┬▶ live      real processes, watched by the probe ─┐
//!                                  └▶ modelled  the same workloads on the model      ─┴▶ outcome ─▶ verdict
//!                                                            text, figure, record ◀──────────────────┘
//! ```
//!
//! | module | holds |
//! | --- | --- |
//! | [`study_file`] | what is wrong with a study file, and where |
//! | [`study`], [`cell`] | the study file, and the cells of its matrix with their workload texts |
//! | [`programs`], [`pairs`] | the programs and interferers of the live studies, ready to run, and a study of pairs of them |
//! | [`mod@this_machine`] | the model of the machine that corun runs on |
//! | [`session`] | a child process in a session of its own |
//! | [`live`], [`modelled`] | a cell's runs on either host |
//! | [`real`], [`real_program`], [`solo_fit`] | real programs, and the workload fitted to what one did alone |
//! | [`fit`] | the one number that is fitted, on one half of the cells |
//! | [`outcome`], [`cell_outcome`] | the result as it is written and read back (`corun.validate/1`), and what came of a cell |
//! | [`statistics`] | quantiles |
//! | [`verdict`] | errors, per cell and overall |
//! | [`text`], [`figure`], [`record`] | tables, the scatter plot, the dated folder |
//! | [`kept`], [`facts`] | records as the tree keeps them, and the figures that documents quote from them |
//! | [`predicting`], [`predicting_text`] | how good predictions are, live |
//! | [`alone`] | how long a program takes alone, and how well that is known |
//! | [`control_file`], [`controlling`], [`tenant_cgroup`] | what control wins: the study file, its runs, a tenant's cgroup |
//! | [`control_outcome`], [`control_text`] | their metrics, tables and record |
//! | [`verifying`], [`verifying_text`] | false alarms and misses of verdicts on short runs, live |
//! | [`schedulers`] | what papers show of their schedulers, on modelled machines |
//! | [`bars`] | bar charts, for figures redrawn from papers |

pub mod alone;
pub mod bars;
pub mod cell;
pub mod cell_outcome;
pub mod control_file;
pub mod control_outcome;
pub mod control_text;
pub mod controlling;
pub mod facts;
pub mod figure;
pub mod fit;
pub mod kept;
pub mod live;
pub mod modelled;
pub mod outcome;
pub mod pairs;
pub mod predicting;
pub mod predicting_text;
pub mod programs;
pub mod real;
pub mod real_program;
pub mod record;
pub mod schedulers;
pub mod session;
pub mod solo_fit;
pub mod statistics;
pub mod study;
pub mod study_file;
pub mod tenant_cgroup;
pub mod text;
pub mod this_machine;
pub mod verdict;
pub mod verifying;
pub mod verifying_text;
