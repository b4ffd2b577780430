//! Variations of a program: its character by phase, and its size by machine.

use super::bad_key::BadKey;
use super::character::Character;
use super::program::{parse_ns_some, Program};
use serde::Deserialize;

/// The most rounds of a phase, so that the sum over phases does not overflow. At a microsecond each they last eleven days.
const MOST_ROUNDS: u64 = 1_000_000_000_000;

/// A part of a program with its own character. Each thread goes through the phases by its own count of rounds (grains), and starts
/// again after the last. The live host ignores phases and characters.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Phase {
    /// Rounds (grains) of a thread in this phase.
    pub rounds: u64,
    /// Its character, complete: missing keys have the default, not the value of `[character]`.
    pub character: Character,
}

/// A program's size on one machine, if it differs from `[program]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OnMachine {
    /// The machine's name, as in its machine file.
    pub machine: String,
    /// Threads; absent: as in `[program]`.
    pub threads: Option<u32>,
    /// The logical processes of a simulation; absent: as in `[program]`.
    pub lps: Option<u32>,
    /// Iterations, for a command those of its model; absent: as in `[program]`.
    pub iterations: Option<u64>,
    /// Work between two synchronizations in nanoseconds; absent: as in `[program]`.
    #[serde(default, deserialize_with = "parse_ns_some")]
    pub grain: Option<u64>,
}

impl OnMachine {
    /// The program in this size.
    pub(super) fn sized(&self, program: &Program) -> Program {
        let mut program = program.clone();
        match &mut program {
            Program::Parallel(p) => {
                p.threads = self.threads.unwrap_or(p.threads);
                p.iterations = self.iterations.unwrap_or(p.iterations);
                p.grain = self.grain.unwrap_or(p.grain);
            }
            Program::Micro(m) => {
                m.threads = self.threads.unwrap_or(m.threads);
                m.iterations = self.iterations.unwrap_or(m.iterations);
            }
            Program::Interference(i) => i.threads = self.threads.unwrap_or(i.threads),
            Program::Pdes(p) => {
                p.threads = self.threads.unwrap_or(p.threads);
                p.lps = self.lps.unwrap_or(p.lps);
                p.iterations = self.iterations.unwrap_or(p.iterations);
                p.grain = self.grain.unwrap_or(p.grain);
            }
            Program::Command(c) => c.iterations = self.iterations.unwrap_or(c.iterations),
        }
        program
    }

    /// Checks it against the program.
    pub(super) fn check(&self, program: &Program) -> Result<(), BadKey> {
        if self.grain.is_some() && !matches!(program, Program::Parallel(_) | Program::Pdes(_)) {
            return Err(BadKey::new(
                "grain",
                "only a parallel program or a simulation has a grain to set for a machine",
            ));
        }
        if self.lps.is_some() && !matches!(program, Program::Pdes(_)) {
            return Err(BadKey::new("lps", "only a simulation (pdes) has LPs to set for a machine"));
        }
        self.sized(program).check()
    }
}

impl Phase {
    /// Checks its length and its character.
    pub(super) fn check(&self) -> Result<(), BadKey> {
        match self.rounds {
            0 => Err(BadKey::is("rounds", 0, "; a phase needs at least 1")),
            long if long > MOST_ROUNDS => {
                Err(BadKey::is("rounds", long, format!("; give at most {MOST_ROUNDS}")))
            }
            _ => self.character.check(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::file::Workload;
    use super::*;

    const TEXT: &str = r#"
schema = "corun.workload/1"
name = "two-faced"

[program]
kind = "parallel"
threads = 4
iterations = 100

[[phase]]
rounds = 3
character = { ipc = 0.8, coherence-pki = 5.0 }

[[phase]]
rounds = 2
character = { ipc = 2.5 }

[[on]]
machine = "large"
threads = 40
grain = "2ms"
"#;

    #[test]
    fn a_program_has_the_size_that_its_file_gives_for_the_machine() {
        let w = Workload::parse("w.toml", TEXT).unwrap();
        let size = |machine| {
            let Program::Parallel(p) = w.for_machine(machine).program else { panic!() };
            (p.threads, p.iterations, p.grain)
        };
        assert_eq!(size("large"), (40, 100, 2_000_000));
        assert_eq!(size("small"), (4, 100, 1_000_000));
    }

    #[test]
    fn bad_variations_are_refused_with_their_line() {
        let refusal = |from, to| Workload::parse("w.toml", &TEXT.replace(from, to)).unwrap_err().to_string();
        assert_eq!(refusal("rounds = 2", "rounds = 0"), "w.toml:15: rounds is 0; a phase needs at least 1");
        let many = "rounds = 9223372036854775807";
        assert!(refusal("rounds = 2", many).starts_with("w.toml:15: rounds is 9223372036854775807; give at"));
        assert!(refusal("ipc = 2.5", "ipc = 1e300").contains("give a number from 0.01 to 16"));
        assert!(refusal("ipc = 2.5", "llc-refs-pki = inf").contains("llc-refs-pki is inf; give a number"));
        let large = refusal("ipc = 2.5", "working-set = \"8000000GB\"");
        assert!(large.contains("working-set is above 1.00 PiB; give a smaller one"), "{large}");
        assert!(refusal("threads = 40", "threads = 0").contains("threads is 0"));
        assert!(refusal("ipc = 2.5", "ipc = 0.0").starts_with("w.toml:16: ipc is 0.0; give"));
        assert!(refusal("ipc = 2.5", "hidden = 1.5").contains("hidden is 1.5; it is a share"));
        assert!(refusal("machine = \"large\"", "machines = \"large\"").contains("unknown field `machines`"));
    }
}
