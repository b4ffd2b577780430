//! The table of the kinds of studies that `corun study` runs.

use crate::quoted::Facts;
use crate::study::{Study, StudyError, StudyFile, Wanted};
use crate::{control, describe, predict, schedulers, validate, verify};

/// Opens a study: reads its file, and keeps what the user asked for. Nothing runs.
type Open = fn(&StudyFile<'_>, &Wanted) -> Result<Box<dyn Study>, StudyError>;

/// Returns the facts of a record from the text of its `result.json`.
type FactsOf = fn(&str) -> serde_json::Result<Facts>;

/// A kind of study.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// The schema of its files.
    pub schema: &'static str,
    /// The flags that it takes, in addition to those of all studies.
    pub flags: &'static [&'static str],
    /// The studies of this kind that corun brings along.
    pub own: &'static [Own],
    /// Opens one.
    pub open: Open,
    /// The schema of its records, and the function for their facts. `None` if no document quotes them.
    pub facts: Option<(&'static str, FactsOf)>,
}

/// A study that corun brings along.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// Its name for users.
    pub name: &'static str,
    /// Its file in the tree.
    pub file: &'static str,
    /// The text of the file.
    pub text: &'static str,
}

/// All kinds.
pub const KINDS: &[Kind] = &[
    Kind {
        schema: predict::file::SCHEMA,
        flags: &["--interferers", "--recordings", "--more"],
        own: &[Own { name: "predict", file: "studies/predict.toml", text: predict::file::PREDICT }],
        open: predict::open,
        facts: Some((predict::outcome::SCHEMA, predict::facts::read)),
    },
    Kind {
        schema: control::file::SCHEMA,
        flags: &["--policies", "--groups", "--quick", "--after"],
        own: &[
            Own { name: "control", file: "studies/control.toml", text: control::file::CONTROL },
            Own {
                name: "control-guest",
                file: "studies/control-guest.toml",
                text: control::file::CONTROL_GUEST,
            },
        ],
        open: control::open,
        facts: Some((control::outcome::SCHEMA, control::facts::read)),
    },
    Kind {
        schema: verify::file::SCHEMA,
        flags: &["--interferers", "--more"],
        own: &[Own { name: "verify", file: "studies/verify.toml", text: verify::file::VERIFY }],
        open: verify::open,
        facts: Some((verify::outcome::SCHEMA, verify::facts::read)),
    },
    Kind {
        schema: schedulers::file::SCHEMA,
        flags: &["--figures", "--quick", "--shard"],
        own: &[Own {
            name: "schedulers",
            file: "studies/schedulers.toml",
            text: schedulers::file::SCHEDULERS,
        }],
        open: schedulers::open,
        facts: None,
    },
    Kind {
        schema: validate::file::SCHEMA,
        flags: &["--quick", "--after"],
        own: &[Own { name: "validate", file: "studies/validate.toml", text: validate::file::VALIDATE }],
        open: validate::open,
        facts: Some((validate::outcome::SCHEMA, validate::facts::read)),
    },
    Kind {
        schema: describe::file::SCHEMA,
        flags: &["--quick", "-- CMD"],
        own: &[Own { name: "programs", file: "studies/describe.toml", text: describe::file::DESCRIBE }],
        open: describe::open,
        facts: Some((describe::outcome::SCHEMA, describe::facts::read)),
    },
];

/// The studies that corun brings along.
pub fn own() -> impl Iterator<Item = &'static Own> {
    KINDS.iter().flat_map(|kind| kind.own)
}

/// The kind of a study's file, from its schema.
///
/// # Errors
/// It names no schema, or an unknown one.
pub fn kind_of(file: &StudyFile<'_>) -> Result<&'static Kind, StudyError> {
    let StudyFile { name, text, .. } = file;
    let all: Vec<&str> = KINDS.iter().map(|kind| kind.schema).collect();
    let all = all.join(", ");
    let Some((at, line)) = text.lines().enumerate().find(|(_, line)| line.starts_with("schema")) else {
        return Err(StudyError::Usage(format!("{name}:1: no line says the `schema`; give one of {all}")));
    };
    KINDS.iter().find(|kind| line.contains(kind.schema)).ok_or_else(|| {
        StudyError::Usage(format!("{name}:{}: no study has this schema; give one of {all}", at + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn every_study_that_corun_brings_along_is_found_by_its_schema_and_opened() {
        for own in own() {
            let file = StudyFile { name: own.file, text: own.text, folder: Path::new("") };
            let kind = kind_of(&file).unwrap();
            assert!(kind.own.iter().any(|other| other.name == own.name), "{}", own.name);
            let study = (kind.open)(&file, &Wanted { repetitions: Some(1), ..Wanted::default() });
            assert!(study.is_ok_and(|study| study.runs() > 0), "{}", own.name);
        }
    }
}
