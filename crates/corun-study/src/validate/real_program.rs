//! A real program of the study file: its input, and its command.

use crate::validate::cell::Interferer;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::{Command, Stdio};

/// The placeholder for the study's folder in `argv` and `prepare`.
const FOLDER: &str = "{dir}";

/// A real program of the study file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct RealProgram {
    /// Its name.
    pub name: String,
    /// Program and arguments; `{dir}` is a folder for its input.
    pub argv: Vec<String>,
    /// A shell script that makes its input; `{dir}` is the same folder.
    #[serde(default)]
    pub prepare: Option<String>,
}

impl RealProgram {
    /// The name of its cell with an interferer.
    pub fn beside(&self, interferer: &Interferer) -> String {
        format!("{} + {}", self.name, interferer.name())
    }

    /// Makes its input in `folder`.
    ///
    /// # Errors
    /// One sentence: the program is not installed, or its input cannot be made.
    pub fn ready(&self, folder: &Path) -> Result<(), String> {
        let program = self.argv.first().map_or("", String::as_str);
        let in_path = |dir: std::path::PathBuf| dir.join(program).is_file();
        if !std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(in_path)) {
            return Err(format!("`{program}` is not installed"));
        }
        let Some(script) = &self.prepare else { return Ok(()) };
        let script = script.replace(FOLDER, &folder.display().to_string());
        let made = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).status();
        match made {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("making its input failed ({status})")),
            Err(e) => Err(format!("making its input failed: {e}")),
        }
    }

    /// The command to run.
    pub fn command(&self, folder: &Path) -> Command {
        let folder = folder.display().to_string();
        let mut words = self.argv.iter().map(|w| w.replace(FOLDER, &folder));
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).stderr(Stdio::null());
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(argv: &[&str], prepare: Option<&str>) -> RealProgram {
        let argv = argv.iter().map(|w| (*w).to_owned()).collect();
        RealProgram { name: "p".into(), argv, prepare: prepare.map(str::to_owned) }
    }

    #[test]
    fn its_input_is_made_in_the_folder_that_its_arguments_name() {
        let folder = tempfile::tempdir().unwrap();
        let p = program(&["cat", "{dir}/in"], Some("seq 3 > {dir}/in"));
        p.ready(folder.path()).unwrap();
        let out = p.command(folder.path()).output().unwrap();
        assert_eq!(out.stdout, b"1\n2\n3\n");
    }

    #[test]
    fn a_missing_program_is_reported_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let why = program(&["no-such-program-at-all"], None).ready(folder.path()).unwrap_err();
        assert_eq!(why, "`no-such-program-at-all` is not installed");
        let why = program(&["cat"], Some("exit 3")).ready(folder.path()).unwrap_err();
        assert!(why.starts_with("making its input failed"), "{why}");
    }
}
