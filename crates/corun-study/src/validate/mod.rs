//! The study of the modelled machine (`corun.study/1`, `studies/validate.toml`): the same programs live and modelled, and the errors of
//! the model. `corun validate` runs it with its own flags, `corun study validate` like other studies.
//!
//! | file | holds |
//! | --- | --- |
//! | [`mod@file`], [`cell`] | the study as written, and the cells of its matrix with their workload texts |
//! | [`live`], [`modelled`] | the runs of a cell on either host |
//! | [`real`], [`real_program`], [`solo_fit`] | real programs, and the workload fitted to a solo run |
//! | [`runs`] | a run of the study |
//! | [`fit`] | the one fitted number, from half of the cells |
//! | [`outcome`], [`cell_outcome`] | the result (`corun.validate/1`), and the result of a cell |
//! | [`verdict`] | errors, per cell and overall |
//! | [`text`], [`figure`], [`record`] | tables, the scatter plot, the dated folder |
//! | [`facts`] | the facts that documents may quote |

pub mod cell;
pub mod cell_outcome;
pub mod facts;
pub mod figure;
pub mod file;
pub mod fit;
pub mod live;
pub mod modelled;
pub mod outcome;
pub mod real;
pub mod real_program;
pub mod record;
pub mod runs;
pub mod solo_fit;
pub mod text;
pub mod verdict;

use crate::study::{Study, StudyError, StudyFile, Wanted};
use runs::{Options, Part, Validation};

/// Opens a study of this kind. Keeps the cells of the grid whose names contain all wanted programs as words.
///
/// # Errors
/// The file has an error, or lacks what the user asked for.
pub fn open(file: &StudyFile<'_>, wanted: &Wanted) -> Result<Box<dyn Study>, StudyError> {
    let cells = (!wanted.programs.is_empty()).then(|| wanted.programs.join(" "));
    let part = if cells.is_some() { Part::Grid } else { Part::All };
    let options = Options {
        part,
        quick: wanted.quick,
        cells,
        repetitions: wanted.repetitions,
        live: wanted.after.clone(),
        ..Options::default()
    };
    Ok(Box::new(Validation::open(file, options)?))
}
