//! What every study is: a file that is read, runs that are made, and what is told of them.
//!
//! A new study is a folder with a type that implements [`Study`], and a row of [`KINDS`](crate::kinds::KINDS).

use crate::circumstances::{Circumstances, RecordHead};
use crate::pace::pace;
use crate::programs::ProgramSetup;
use crate::study_file::BadStudy;
use corun_linux::Root;
use corun_report::places::unmade;
use corun_session::Stop;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A study's file.
#[derive(Clone, Copy, Debug)]
pub struct StudyFile<'a> {
    /// What it is called in errors.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
    /// The folder that other files are named from.
    pub folder: &'a Path,
}

/// An earlier result of a study.
#[derive(Clone, Debug)]
pub struct Earlier {
    /// Where it is.
    pub place: PathBuf,
    /// Its text.
    pub text: String,
}

/// What a user wants of a study: of lists all where nothing is named.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// A command in place of the study's programs.
    pub command: Vec<String>,
    /// Programs.
    pub programs: Vec<String>,
    /// Interferers.
    pub interferers: Vec<String>,
    /// Policies.
    pub policies: Vec<String>,
    /// Groups of cells.
    pub groups: Vec<String>,
    /// Figures.
    pub figures: Vec<String>,
    /// Other than the study's number of repetitions.
    pub repetitions: Option<u32>,
    /// The least that shows something.
    pub quick: bool,
    /// The result that these runs are added to (`--more`).
    pub more: Option<Earlier>,
    /// The result of another part of the study, to go on from (`--after`).
    pub after: Option<Earlier>,
    /// Where the windows of every run are kept.
    pub recordings: Option<PathBuf>,
    /// Only this part of the runs.
    pub shard: Option<Shard>,
}

/// A part of a study's runs, of so many parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Which, from 1.
    pub number: u32,
    /// Of how many.
    pub of: u32,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let part = text.split_once('/').and_then(|(n, of)| Some((n.parse().ok()?, of.parse().ok()?)));
        match part {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Shard { number, of }),
            _ => Err("it is no shard; give one such as 2/8, the second of eight".into()),
        }
    }
}

impl Shard {
    /// Whether a run of this number, from 0, is in it.
    pub fn has(self, run: usize) -> bool {
        run % self.of as usize == self.number as usize - 1
    }
}

/// With what a study is run.
#[derive(Clone, Debug)]
pub struct Place {
    /// The program file of corun itself.
    pub corun: PathBuf,
    /// Its version.
    pub version: &'static str,
    /// When, for people.
    pub date: String,
    /// The folder of the programs' inputs.
    pub inputs: PathBuf,
    /// The command that makes the same record again.
    pub command: String,
}

/// Why a study is not run, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// The user asked for something that is not there: one sentence with the remedy.
    #[error("{0}")]
    Usage(String),
    /// Nothing of the study has all the words that were given.
    #[error("nothing of the study is left; give words of names such as `{such_as}`")]
    NothingLeft {
        /// The name of something that it has.
        such_as: &'static str,
    },
    /// The machine did not do what was asked of it.
    #[error("{0}")]
    Failed(String),
    /// corun itself is wrong: a checker of the modelled machine fired.
    #[error("{0}")]
    Bug(String),
    /// Its user ended it.
    #[error("interrupted")]
    Interrupted {
        /// The signal that did.
        signal: Option<i32>,
    },
}

impl From<BadStudy> for StudyError {
    fn from(bad: BadStudy) -> StudyError {
        StudyError::Usage(bad.to_string())
    }
}

/// The files of a record, by name.
pub type Files = Vec<(PathBuf, String)>;

/// Who hears of a study while it runs.
pub struct Listener<'a> {
    /// Called after every run, with what it was.
    pub done: &'a (dyn Fn(Option<&str>) + Sync),
    /// Called with the record as it is so far, so that a study that is ended early is not lost.
    pub keep: &'a mut dyn FnMut(Files),
}

/// A study of one kind, with what is wanted of it.
pub trait Study {
    /// How many runs it makes when nothing is skipped.
    fn runs(&self) -> u64;

    /// Makes all runs.
    ///
    /// # Errors
    /// [`StudyError`].
    fn run(&mut self, place: &Place, listener: &mut Listener<'_>) -> Result<(), StudyError>;

    /// What came of it, as JSON.
    fn json(&self) -> String;

    /// The same in words and tables.
    fn text(&self) -> String;

    /// The same as the files of a record; `command` is what makes them again.
    fn files(&self, command: &str) -> Files;

    /// Why what came of it cannot be right, once it was told.
    ///
    /// # Errors
    /// [`StudyError::Failed`].
    fn fault(&self) -> Result<(), StudyError> {
        Ok(())
    }
}

impl Place {
    /// The programs' inputs, with the pace of this machine.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn setup(&self) -> Result<ProgramSetup, StudyError> {
        let failed = |e| {
            let (inputs, why) = (self.inputs.display(), unmade(&self.inputs, &e));
            StudyError::Usage(format!("--inputs: cannot make the folder {inputs}: {why}"))
        };
        ProgramSetup::new(&self.inputs, &self.corun, pace()).map_err(failed)
    }

    /// Where the runs are made.
    ///
    /// # Errors
    /// The machine's shape cannot be read.
    pub fn circumstances(&self) -> Result<Circumstances, StudyError> {
        Circumstances::read(&Root::new("/")).map_err(StudyError::Failed)
    }

    /// What ends the runs of this process early: Ctrl-C and its like.
    ///
    /// # Errors
    /// What the kernel says; it has no reason to.
    pub fn stop(&self) -> Result<Stop, StudyError> {
        Stop::on_signals().map_err(|e| StudyError::Failed(format!("handling signals: {e}")))
    }

    /// How a record of runs that are made now begins.
    pub fn record_head(&self, schema: &str, at: &Circumstances) -> RecordHead {
        RecordHead {
            schema: schema.to_owned(),
            corun: self.version.to_owned(),
            date: Some(self.date.clone()),
            machine: at.machine.clone(),
            kernel: at.kernel.clone(),
        }
    }

    /// A folder for what a run writes, gone with it.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn scratch(&self) -> Result<TempDir, StudyError> {
        tempfile::tempdir().map_err(|e| StudyError::Failed(format!("making a temporary folder: {e}")))
    }
}

impl Wanted {
    /// The result that runs are to be added to, if there is one.
    ///
    /// # Errors
    /// It is no such result.
    pub fn to_add_to<T: DeserializeOwned>(&self) -> Result<Option<T>, StudyError> {
        let Some(Earlier { place, text }) = &self.more else { return Ok(None) };
        let no_result = |e| {
            let place = place.display();
            let remedy = "name another folder with --out";
            StudyError::Usage(format!(
                "--more adds to the runs in {place}, which is no such result: {e}; {remedy}"
            ))
        };
        serde_json::from_str(text).map(Some).map_err(no_result)
    }

    /// The result of an earlier part, if there is one, with its place; `what` is what it should be a result of.
    ///
    /// # Errors
    /// It is no such result.
    pub fn to_go_on_from<T: DeserializeOwned>(&self, what: &str) -> Result<Option<(PathBuf, T)>, StudyError> {
        let Some(Earlier { place, text }) = &self.after else { return Ok(None) };
        let found = serde_json::from_str(text);
        let no_result = |e| StudyError::Usage(format!("{} is no result of {what}: {e}", place.display()));
        Ok(Some((place.clone(), found.map_err(no_result)?)))
    }
}

/// The result that new runs are added to: `new`, or the earlier one where there is one that goes with it.
///
/// # Errors
/// The earlier runs were made otherwise; `differs_from` says how.
pub fn added_to<T>(
    new: T,
    earlier: Option<T>,
    differs_from: fn(&T, &T) -> Option<String>,
) -> Result<T, StudyError> {
    let Some(earlier) = earlier else { return Ok(new) };
    match differs_from(&new, &earlier) {
        None => Ok(earlier),
        Some(how) => Err(StudyError::Usage(format!(
            "the runs in --out were made otherwise ({how}); leave --more out, with another folder"
        ))),
    }
}

/// Leaves of `names` those that are `wanted`: all, if nothing is.
///
/// # Errors
/// One of them is not there.
pub fn only(names: &mut Vec<String>, wanted: &[String], what: &str) -> Result<(), StudyError> {
    only_of(names, |name| name, wanted, what)
}

/// Leaves of `all` those whose name is `wanted`: all, if nothing is.
///
/// # Errors
/// One of them is not there.
pub fn only_of<T>(
    all: &mut Vec<T>,
    name: impl Fn(&T) -> &String,
    wanted: &[String],
    what: &str,
) -> Result<(), StudyError> {
    if let Some(unknown) = wanted.iter().find(|w| !all.iter().any(|one| name(one) == *w)) {
        let all: Vec<&str> = all.iter().map(|one| name(one).as_str()).collect();
        let what = format!("the study has no {what} `{unknown}`; it has {}", all.join(", "));
        return Err(StudyError::Usage(what));
    }
    if !wanted.is_empty() {
        all.retain(|one| wanted.contains(name(one)));
    }
    Ok(())
}

/// The files of a record with their names as paths.
pub(crate) fn named<Name: Into<PathBuf>>(files: Vec<(Name, String)>) -> Files {
    files.into_iter().map(|(name, text)| (name.into(), text)).collect()
}
