//! The study of the modelled machine (`corun.study/1`, `studies/validate.toml`): the same programs live and modelled, and how
//! far the model is off. `corun validate` runs it with flags of its own, `corun study validate` like the others.
//!
//! | file | holds |
//! | --- | --- |
//! | [`mod@file`], [`cell`] | the study as written, and the cells of its matrix with their workload texts |
//! | [`live`], [`modelled`] | a cell's runs on either host |
//! | [`real`], [`real_program`], [`solo_fit`] | real programs, and the workload fitted to what one did alone |
//! | [`runs`] | the study as it is run |
//! | [`fit`] | the one number that is fitted, on one half of the cells |
//! | [`outcome`], [`cell_outcome`] | the result as it is written and read back (`corun.validate/1`), and what came of a cell |
//! | [`verdict`] | errors, per cell and overall |
//! | [`text`], [`figure`], [`record`] | tables, the scatter plot, the dated folder |
//! | [`facts`] | what documents may quote of it |

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

/// Opens a study of this kind: of its grid the cells that have the names of all programs that are wanted as words.
///
/// # Errors
/// The file is wrong, or has not what is wanted.
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
