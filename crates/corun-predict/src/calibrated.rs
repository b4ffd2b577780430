//! The numbers of the predictor that were set by looking at runs: all of them, and nothing else.
//!
//! Every other number in this crate is a **definition** (the meaning of a word, such as from which share of the work on a task is a worker),
//! a **limit** (on memory, on time, on rounding), or follows from these. A test counts them, and fails if one is outside of this file
//! (`tests::every_number_is_calibrated_here_or_is_a_definition_or_a_limit`).
//!
//! Errors are standard deviations of logarithms, so 0.09 is 9 %. None of them is larger than the possible error: if nobody else runs, all
//! are 0.

/// How far off a method is besides chance in its windows: the rest of a run is not like its beginning, and computing itself changes next
/// to others.
///
/// Unit: a logarithm of the slowdown. From: recorded live co-runs, other than those of the study (docs/accuracy.md). There, 95 % of the
/// intervals held with 0.08 for dedicated windows, and with 0.09 for the ledger of programs whose tasks do not wait for each other.
pub(crate) const REST_OF_RUN: f64 = 0.09;

/// The share `p` of programs that are never left in peace in which waiting for siblings is the program's own. In the rest it is induced. So
/// the slowdown lies this far down from the upper bound to the lower, give or take `√(p(1 - p))` of that way.
///
/// Unit: a share of programs. From: 40 recorded co-runs of eight programs. The upper bound was 4 % too high on average; with this it is
/// not.
pub(crate) const WAITS_OF_ITS_OWN: f64 = 0.2;

/// How far off a replay is besides what its log leaves open.
///
/// Unit: a logarithm. From: nine live programs (the half of eighteen that a seed chose), next to one and two loops. The replay was off by
/// 5 % in the root mean square, and with 6 % all 20 intervals hold. For the other half, 15 of 17 hold, and it was off by 9.5 % on average.
pub(crate) const REPLAY: f64 = 0.06;

/// How much the number of blockings per time computing varies at most from window to window in a program that goes in steps.
///
/// Unit: standard deviation divided by mean. From: recorded programs; 1 to 10 % in the six that have barriers, 13 to 500 % in the others.
pub(crate) const STEPS_VARY: f64 = 0.125;

/// The factor by which time or blockings for the same work may differ alone and next to co-runners.
///
/// Unit: a factor. From: `triad`, which took 1.5 times as long on memory that two threads want at once, and some room.
pub(crate) const SAME_WORK: f64 = 2.0;

/// The factor by which branches per instruction and mispredictions per branch differ between code that computes and a loop that waits.
///
/// Unit: a factor. From: set by hand, for loops of two to five instructions compared with code that has a branch in five to twenty; judged
/// on programs of NPB and PARSEC on the modelled machine.
pub(crate) const OTHER_CODE: f64 = 1.5;

/// How much a feature of a program's behavior must differ for it to be another phase.
///
/// Unit: a logarithm. From: set by hand, in the middle of the numbers that five features had one by one (0.07 to 0.3); judged on the
/// modelled record of predictions.
pub(crate) const OTHER_PHASE: f64 = 0.25;

/// How much an idle machine's background may take from a run at once: daemons that wake up for a moment.
///
/// Unit: nanoseconds. From: idle machines of the study of verdicts, where daemons took up to 3 ms of a CPU.
pub(crate) const MOMENT_NS: u64 = 4_000_000;

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    /// The lines of a file that are compiled into the crate and are no comment, with the comment before each.
    fn code(text: &str) -> Vec<(String, String)> {
        let text = text.split("#[cfg(test)]").next().unwrap_or("");
        let (mut found, mut comment) = (Vec::new(), String::new());
        for line in text.lines().map(str::trim) {
            match line.strip_prefix("///") {
                Some(said) => comment.push_str(said),
                None if line.starts_with("//") || line.starts_with("#[") => {}
                None => found.push((std::mem::take(&mut comment), line.to_owned())),
            }
        }
        found
    }

    /// Numbers with digits after the point, except for halves and wholes: those are in every equation.
    fn fractions(line: &str) -> Vec<&str> {
        let words = line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'));
        let is_fraction = |word: &&str| {
            let digits =
                word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.') && !word.contains("..");
            let number = word.trim_end_matches("f64").replace('_', "");
            digits && number.parse::<f64>().is_ok_and(|x| x != 0.5 && x.fract() != 0.0)
        };
        words.filter(is_fraction).collect()
    }

    /// A constant that is a plain number.
    fn is_number(line: &str) -> bool {
        let is_const =
            line.starts_with("const ") || line.contains(") const ") || line.starts_with("pub const ");
        let value = line.split_once(" = ").map_or("", |(_, value)| value);
        is_const && value.starts_with(|c: char| c.is_ascii_digit() || c == '[' || c == '(')
    }

    /// The files of a folder and of those in it, without tests.
    fn files_in(folder: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
        let files = files.into_iter().filter(|file| !file.ends_with("tests.rs"));
        files.chain(folders.iter().flat_map(|folder| files_in(folder))).collect()
    }

    #[test]
    fn every_number_is_calibrated_here_or_is_a_definition_or_a_limit() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let (mut wrong, mut calibrated, mut named) = (Vec::new(), 0, 0);
        for file in files_in(&sources) {
            let name = file.file_name().unwrap().to_string_lossy();
            for (comment, line) in code(&std::fs::read_to_string(&file).unwrap()) {
                let said = comment.trim();
                let is_named = said.starts_with("Definition: ") || said.starts_with("Limit: ");
                match (&*name, is_number(&line)) {
                    ("calibrated.rs", true) => {
                        calibrated += 1;
                        assert!(said.contains("Unit: ") && said.contains("From: "), "{line}");
                    }
                    (_, true) if is_named => named += 1,
                    (_, true) => wrong.push(format!("{name}: {line}")),
                    (_, false) if fractions(&line).is_empty() => {}
                    _ => wrong.push(format!("{name}: {line}")),
                }
            }
        }
        wrong.sort();
        assert!(
            wrong.is_empty(),
            "give each a comment that begins with `Definition: ` or `Limit: `, or move it to calibrated.rs:\n{}",
            wrong.join("\n")
        );
        assert!((1..=10).contains(&calibrated), "{calibrated} calibrated numbers; there may be ten");
        assert!(named > 20, "only {named} definitions and limits were found, so the test looks past them");
    }

    #[test]
    fn the_page_on_the_method_lists_the_calibrated_numbers() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let page = std::fs::read_to_string(root.join("../../docs/prediction.md")).unwrap();
        for (_, line) in code(&std::fs::read_to_string(root.join("src/calibrated.rs")).unwrap()) {
            let name = line.split_once("const ").and_then(|(_, rest)| rest.split_once(':'));
            let Some((name, _)) = name.filter(|_| is_number(&line)) else { continue };
            assert!(page.contains(&format!("`{name}`")), "docs/prediction.md does not name {name}");
        }
    }

    #[test]
    fn the_test_of_numbers_sees_what_it_looks_for() {
        let lines =
            code("/// How much.\nconst A: f64 = 0.3;\nlet x = 0.25 * y + 1.0 - 0.5 * z[0..2];\n// 0.7\n");
        assert_eq!((lines[0].0.as_str(), is_number(&lines[0].1)), (" How much.", true));
        assert_eq!(fractions(&lines[1].1), ["0.25"]);
        assert_eq!(lines.len(), 2);
        assert!(
            is_number("pub(crate) const B: [f64; 2] = [1.0, 2.0];")
                && !is_number("const C: Set = Set::new();")
        );
    }
}
