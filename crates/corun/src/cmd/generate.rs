//! `corun generate`: the man pages and the shell completions, from the same definition that parses the
//! command line.
//!
//! Hidden from `--help`: it is for `make man`, `make completions`, `make install` and packagers. Nothing generated is
//! kept in the repository, so nothing can be out of date.
//!
//! By convention, the text after a verb's options is a block headed `Examples:`, and then paragraphs with
//! further information. A man page needs a mark that the lines of examples are not to be filled, and it has a
//! section of its own for the line that begins with `Exit status:`.

use crate::usage::check_folder;
use anyhow::Context;
use clap::builder::Resettable;
use clap::{ArgGroup, Command, Id};
use clap_complete::Shell;
use clap_mangen::roff::{roman, Roff};
use clap_mangen::Man;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// The beginning of the line that explains the exit status.
const EXIT_STATUS: &str = "Exit status:";

/// Write the man pages or the shell completions into a folder
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to write
    what: What,
    /// The folder; created if it does not exist
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    Man,
    Completions,
}

/// Runs the verb on the definition of the whole command line.
pub fn run(args: Args, mut command: Command) -> anyhow::Result<ExitCode> {
    let folder = &args.folder;
    check_folder(folder)?;
    let written = match args.what {
        What::Man => {
            command.build();
            let program = format!("corun {}", command.get_version().unwrap_or_default());
            man_pages(&command, &program, folder)
        }
        What::Completions => completions(&command, folder),
    };
    written.with_context(|| format!("writing into {}", folder.display()))?;
    Ok(ExitCode::SUCCESS)
}

fn completions(command: &Command, folder: &Path) -> std::io::Result<()> {
    let mut shown = without_hidden(command);
    SHELLS
        .iter()
        .try_for_each(|&shell| clap_complete::generate_to(shell, &mut shown, "corun", folder).map(drop))
}

/// The command line without the verbs and flags that `--help` leaves out: shells would offer them.
fn without_hidden(command: &Command) -> Command {
    let shown_flags = || command.get_arguments().filter(|a| !a.is_hide_set());
    let is_shown = |id: &&Id| shown_flags().any(|a| a.get_id() == *id);
    // Flags name groups that they exclude.
    let groups = command.get_groups().map(|g| {
        let members: Vec<Id> = g.get_args().filter(is_shown).cloned().collect();
        ArgGroup::new(g.get_id().clone()).args(members).multiple(true)
    });
    // Clap keeps names forever; there are a few, and corun ends after this.
    let shown = Command::new(&*command.get_name().to_owned().leak())
        .disable_help_subcommand(command.is_disable_help_subcommand_set())
        .args(shown_flags().cloned())
        .groups(groups)
        .subcommands(command.get_subcommands().filter(|c| !c.is_hide_set()).map(without_hidden));
    let shown = match command.get_about() {
        Some(about) => shown.about(about.clone()),
        None => shown,
    };
    match command.get_version() {
        Some(_) => shown.version(env!("CARGO_PKG_VERSION")),
        None => shown,
    }
}

/// One page for `command` and one for each of its subcommands, at all levels.
fn man_pages(command: &Command, program: &str, folder: &Path) -> std::io::Result<()> {
    for sub_command in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        man_pages(sub_command, program, folder)?;
    }
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let man = Man::new(command.clone().after_help(Resettable::Reset)).source(program).manual("corun");
    let mut page = Vec::new();
    man.render(&mut page)?;
    page.extend(after_options(&after).to_roff().into_bytes());
    std::fs::write(folder.join(man.get_filename()), page)
}

/// The last sections of a page.
fn after_options(text: &str) -> Roff {
    let (examples, rest) = match text.strip_prefix("Examples:\n") {
        Some(text) => text.split_once("\n\n").unwrap_or((text, "")),
        None => ("", text),
    };
    let (exit, rest): (Vec<&str>, Vec<&str>) = rest.lines().partition(|line| line.starts_with(EXIT_STATUS));
    let rest = rest.join("\n");
    let mut roff = Roff::new();
    for line in exit {
        roff.control("SH", ["EXIT STATUS"]).text([roman(capital(line[EXIT_STATUS.len()..].trim_start()))]);
    }
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]).control("nf", []);
        for line in examples.lines() {
            roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
        }
        roff.control("fi", []);
    }
    if !rest.trim().is_empty() {
        roff.control("SH", ["NOTES"]);
        for paragraph in rest.split("\n\n").filter(|paragraph| !paragraph.is_empty()) {
            roff.control("PP", []).text([roman(paragraph)]);
        }
    }
    roff
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_examples_stay_lines_and_other_text_is_filled() {
        let page = after_options("Examples:\n  corun doctor   all of it\n  corun -V\n\nOne.\nTwo.").to_roff();
        let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("no `{part}` in:\n{page}"));
        assert!(at(".nf") < at("corun doctor   all of it\ncorun \\-V\n") && at("corun \\-V\n") < at(".fi"));
        assert!(at(".fi") < at(".SH NOTES") && at(".SH NOTES") < at("One."));
    }

    #[test]
    fn the_exit_status_has_its_own_section_and_not_the_line_below_it() {
        let page =
            after_options("Examples:\n  corun -V\n\nOne.\n\nExit status: that of CMD.\nMore.").to_roff();
        let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("no `{part}` in:\n{page}"));
        assert!(at(".SH \"EXIT STATUS\"\nThat of CMD.\n.SH EXAMPLES") < at(".SH NOTES"), "{page}");
        assert!(at("One.") < at("More."));
        let page = after_options("Examples:\n  corun -V\n\nExit status: 0.").to_roff();
        assert!(!page.contains("NOTES"), "{page}");
    }

    #[test]
    fn text_without_examples_makes_no_empty_section() {
        assert!(!after_options("Only this.").to_roff().contains("EXAMPLES"));
        assert!(!after_options("").to_roff().contains(".SH"));
    }
}
