//! The programs and interferers of the live studies (`corun.programs/1`, `studies/programs.toml`), ready to run here: real programs,
//! numerical kernels built from source, and loads of corun.
//!
//! Shell scripts in the file make the inputs once, in a folder that later studies reuse. An input depends only on its script. Each
//! program and each interferer runs in its own session (see [`crate::session`]), without input and output. The wall time of a run is
//! from its start to its end, including loading.
//!
//! Limits. A real program that shares work dynamically, or searches with racing threads, does not do exactly the same work twice. This
//! difference is part of a study's error.

use crate::hash::fnv1a;
use crate::session::Session;
use crate::study_file::{read, BadStudy};
use corun_model::duration::written_ns;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::time::{Duration, Instant};

/// The programs that corun brings along.
pub const PROGRAMS: &str = include_str!("../../../studies/programs.toml");

/// The sources of the kernels, and their names in the folder of inputs.
const SOURCES: [(&str, &str); 6] = [
    ("Makefile", include_str!("../../../studies/programs/Makefile")),
    ("cg.c", include_str!("../../../demo/cg.c")),
    ("lu.c", include_str!("../../../studies/programs/lu.c")),
    ("mg.c", include_str!("../../../studies/programs/mg.c")),
    ("triad.c", include_str!("../../../studies/programs/triad.c")),
    ("learn.py", include_str!("../../../studies/programs/learn.py")),
];

/// The kind of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A program that people use.
    Real,
    /// A numerical kernel of the studies.
    Kernel,
    /// A load of corun, with known behavior.
    Load,
}

/// How the threads of a program wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Waits {
    /// They sleep in the kernel.
    Block,
    /// They spin on the CPU.
    Spin,
    /// They wait hardly or not at all.
    Alone,
}

/// How to run something, for programs and interferers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Environment variables that are added.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// A shell script that makes its input.
    #[serde(default)]
    pub prepare: Option<String>,
    /// Debian packages that it needs.
    #[serde(default)]
    pub packages: Vec<String>,
}

/// A program: it has a fixed amount of work, and ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// What it is, in one line.
    pub about: String,
    /// Its kind.
    pub kind: Kind,
    /// How its threads wait for each other.
    pub waits: Waits,
    /// Approximate solo length on two CPUs, in nanoseconds.
    #[serde(deserialize_with = "written_ns")]
    pub solo: u64,
    /// How to run it.
    #[serde(flatten)]
    pub recipe: Recipe,
}

/// An interferer: it runs until it is ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interferer {
    /// Its name.
    pub name: String,
    /// What it is, in one line.
    pub about: String,
    /// How to run it.
    #[serde(flatten)]
    pub recipe: Recipe,
}

/// All programs and interferers of a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    schema: String,
    /// Programs, in the order of the file.
    #[serde(rename = "program")]
    pub programs: Vec<Program>,
    /// Interferers, in the order of the file.
    #[serde(rename = "interferer")]
    pub interferers: Vec<Interferer>,
}

impl Catalogue {
    /// The programs that corun brings along.
    pub fn own() -> Catalogue {
        Catalogue::parse("studies/programs.toml", PROGRAMS).expect("a test reads it")
    }

    /// Reads a file's text. Errors call the file `file`.
    ///
    /// # Errors
    /// [`BadStudy`] with file, line and remedy.
    pub fn parse(file: &str, text: &str) -> Result<Catalogue, BadStudy> {
        let at = |line, what: String| BadStudy { file: file.to_owned(), line, what };
        let catalogue: Catalogue = read(file, text)?;
        if catalogue.schema != "corun.programs/1" {
            return Err(at(
                1,
                format!("schema is `{}`, this corun reads `corun.programs/1`", catalogue.schema),
            ));
        }
        let recipes = catalogue.programs.iter().map(|p| (&p.name, &p.recipe));
        let mut names = BTreeSet::new();
        for (name, recipe) in recipes.chain(catalogue.interferers.iter().map(|i| (&i.name, &i.recipe))) {
            let line = || text.lines().position(|l| l.contains(&format!("\"{name}\""))).map_or(1, |n| n + 1);
            if !names.insert(name) {
                return Err(at(line(), format!("`{name}` occurs twice; give each its own name")));
            }
            if recipe.argv.is_empty() {
                return Err(at(line(), format!("`{name}` has no argv; give the program and its arguments")));
            }
        }
        Ok(catalogue)
    }

    /// The program called `name`.
    pub fn program(&self, name: &str) -> Option<&Program> {
        self.programs.iter().find(|p| p.name == name)
    }

    /// The interferer called `name`.
    pub fn interferer(&self, name: &str) -> Option<&Interferer> {
        self.interferers.iter().find(|i| i.name == name)
    }
}

/// A folder with inputs, and the values of the placeholders in recipes.
#[derive(Clone, Debug)]
pub struct ProgramSetup {
    folder: PathBuf,
    corun: PathBuf,
    loops_per_ms: u64,
    length: f64,
}

impl ProgramSetup {
    /// Prepares inputs in `folder`, and makes the folder if necessary. `corun` is the path of the corun executable, and `loops_per_ms`
    /// the pace of its loads (see [`crate::pace::pace`]).
    ///
    /// # Errors
    /// The kernel's error.
    pub fn new(folder: &Path, corun: &Path, loops_per_ms: u64) -> io::Result<ProgramSetup> {
        let kernels = folder.join("kernels");
        std::fs::create_dir_all(&kernels)?;
        for (name, source) in SOURCES {
            let file = kernels.join(name);
            // An existing file is not written again, so that its builds stay valid.
            if std::fs::read_to_string(&file).ok().as_deref() != Some(source) {
                std::fs::write(file, source)?;
            }
        }
        Ok(ProgramSetup {
            folder: folder.canonicalize()?,
            corun: corun.to_owned(),
            loops_per_ms,
            length: 1.0,
        })
    }

    /// The same, for programs with `length` times the work.
    pub fn with_length(self, length: f64) -> ProgramSetup {
        ProgramSetup { length, ..self }
    }

    /// Makes the input of a recipe, unless an earlier call has.
    ///
    /// # Errors
    /// One sentence: the program is not installed, or its input cannot be made.
    pub fn prepare(&self, recipe: &Recipe) -> Result<(), String> {
        if let Some(script) = &recipe.prepare {
            let script = self.filled(script);
            let done = self.folder.join(format!("{:016x}.done", fnv1a(script.as_bytes())));
            if !done.exists() {
                let made = Command::new("sh")
                    .args(["-ec", &script])
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .status();
                match made {
                    Ok(status) if status.success() => {}
                    Ok(status) => {
                        return Err(format!("making its input failed ({status}); {}", needs(recipe)))
                    }
                    Err(e) => return Err(format!("making its input failed: {e}")),
                }
                std::fs::write(&done, script).map_err(|e| format!("cannot write {}: {e}", done.display()))?;
            }
        }
        let program = self.filled(&recipe.argv[0]);
        let there = match program.contains('/') {
            true => Path::new(&program).is_file(),
            false => std::env::var_os("PATH")
                .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(&program).is_file())),
        };
        there.then_some(()).ok_or_else(|| format!("`{program}` is not installed; {}", needs(recipe)))
    }

    /// Starts a prepared recipe in its own session.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn start(&self, recipe: &Recipe) -> io::Result<Running> {
        let begin = Instant::now();
        Ok(Running { session: Session::start(self.command(recipe))?, begin })
    }

    /// The command of a prepared recipe, ready to start.
    pub fn command(&self, recipe: &Recipe) -> Command {
        let mut words = recipe.argv.iter().map(|word| self.filled(word));
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).envs(&recipe.env).stderr(Stdio::null());
        command
    }

    /// Runs a program to its end, alone or with an interferer that starts `lead` earlier. Ends the program after `limit`. When this
    /// returns, neither runs.
    ///
    /// # Errors
    /// The kernel's error, and `Other` if the interferer ended by itself.
    pub fn run(
        &self,
        program: &Program,
        beside: Option<(&Interferer, Duration)>,
        limit: Duration,
    ) -> io::Result<Run> {
        let mut interferer = match beside {
            Some((interferer, lead)) => {
                let running = self.start(&interferer.recipe)?;
                std::thread::sleep(lead);
                Some(running)
            }
            None => None,
        };
        let mut running = self.start(&program.recipe)?;
        let ended = running.ends_within(limit)?;
        let wall_ns = running.begin.elapsed().as_nanos() as u64;
        if let Some(gone) = interferer.as_mut().map(Running::ended).transpose()?.flatten() {
            return Err(io::Error::other(format!("the interferer ended by itself ({gone})")));
        }
        Ok(Run { wall_ns, status: ended })
    }

    fn filled(&self, text: &str) -> String {
        let filled = text
            .replace("{dir}", &self.folder.display().to_string())
            .replace("{corun}", &self.corun.display().to_string())
            .replace("{pace}", &self.loops_per_ms.to_string());
        let mut pieces = filled.split("{times:");
        let mut longer = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let times = |n: u64| (n as f64 * self.length).round() as u64;
            let of = |(n, rest)| Some((times(u64::from_str(n).ok()?), rest));
            match piece.split_once('}').and_then(of) {
                Some((n, rest)) => longer += &format!("{n}{rest}"),
                None => longer += &format!("{{times:{piece}"),
            }
        }
        longer
    }
}

/// A running program or interferer. Dropping it ends it.
#[derive(Debug)]
pub struct Running {
    session: Session,
    begin: Instant,
}

impl Running {
    /// Its PID. It leads its session and process group.
    pub fn pid(&self) -> u32 {
        self.session.pid()
    }

    /// How long it has run.
    pub fn passed(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Its exit status, if it has ended.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.session.ended()
    }

    /// Sleeps until it ends or `timeout` is over. Returns its exit status if it has ended.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn ends_within(&mut self, timeout: Duration) -> io::Result<Option<ExitStatus>> {
        self.session.ends_within(Some(timeout))
    }
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// From its start to its end, in nanoseconds.
    pub wall_ns: u64,
    /// Its exit status. `None` if it was cut off.
    pub status: Option<ExitStatus>,
}

impl Run {
    /// Whether it succeeded.
    pub fn is_good(&self) -> bool {
        self.status.is_some_and(|s| s.success())
    }
}

fn needs(recipe: &Recipe) -> String {
    match &recipe.packages[..] {
        [] => "it needs no package of Debian's".into(),
        packages => format!("on Debian: apt-get install {}", packages.join(" ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Recipe {
        Recipe { argv: ["sh", "-c", script].map(String::from).to_vec(), ..Recipe::default() }
    }

    fn program(script: &str) -> Program {
        Program {
            name: "test".into(),
            about: String::new(),
            kind: Kind::Load,
            waits: Waits::Alone,
            solo: 0,
            recipe: shell(script),
        }
    }

    fn setup() -> (tempfile::TempDir, ProgramSetup) {
        let folder = tempfile::tempdir().unwrap();
        let setup = ProgramSetup::new(folder.path(), Path::new("/no/corun"), 50_000).unwrap();
        (folder, setup)
    }

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn the_studies_own_programs_are_many_and_of_all_kinds() {
        let own = Catalogue::own();
        let kinds = |kind: Kind| own.programs.iter().filter(|p| p.kind == kind).count();
        assert!(kinds(Kind::Real) >= 6 && kinds(Kind::Kernel) >= 6 && kinds(Kind::Load) >= 4);
        let waits = |waits: Waits| own.programs.iter().filter(|p| p.waits == waits).count();
        assert!(waits(Waits::Spin) >= 4 && waits(Waits::Block) >= 6 && waits(Waits::Alone) >= 2);
        assert!(own.interferers.len() >= 5);
        assert!(own.programs.iter().all(|p| p.solo > 0 && !p.about.is_empty()));
    }

    #[test]
    fn a_bad_file_is_named_with_its_line() {
        let refusal = |text: &str| Catalogue::parse("p.toml", text).unwrap_err().to_string();
        let head = "schema = \"corun.programs/1\"\nprogram = []\n";
        let twice = "[[interferer]]\nname = \"a\"\nabout = \"\"\nargv = [\"true\"]\n";
        assert!(refusal(&format!("{head}{twice}{twice}")).starts_with("p.toml:4: `a` occurs twice"));
        let empty = format!("{head}[[interferer]]\nname = \"b\"\nabout = \"\"\nargv = []\n");
        assert!(refusal(&empty).starts_with("p.toml:4: `b` has no argv"));
        assert!(
            refusal("schema = \"x\"\nprogram = []\ninterferer = []\n").contains("reads `corun.programs/1`")
        );
        assert!(refusal("schema = 1\n").starts_with("p.toml:1: "));
    }

    #[test]
    fn an_input_is_made_once_and_placeholders_are_filled() {
        let (folder, setup) = setup();
        let recipe = Recipe { prepare: Some("echo {pace} {corun} >> {dir}/made".into()), ..shell("true") };
        setup.prepare(&recipe).unwrap();
        setup.prepare(&recipe).unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("made")).unwrap(), "50000 /no/corun\n");
    }

    #[test]
    fn work_is_longer_by_the_factor_of_the_study() {
        let (_folder, setup) = setup();
        let text = "head -c {times:300} > f-{times:3}; awk '{ print }'";
        assert_eq!(setup.filled(text), "head -c 300 > f-3; awk '{ print }'");
        assert_eq!(setup.with_length(2.5).filled(text), "head -c 750 > f-8; awk '{ print }'");
    }

    #[test]
    fn a_missing_program_is_reported_with_its_package() {
        let (_folder, setup) = setup();
        let packages = vec!["no-package".to_string()];
        let absent =
            Recipe { argv: vec!["no-program".into()], packages: packages.clone(), ..Recipe::default() };
        let why = setup.prepare(&absent).unwrap_err();
        assert_eq!(why, "`no-program` is not installed; on Debian: apt-get install no-package");
        let broken = Recipe { prepare: Some("exit 3".into()), packages, ..shell("true") };
        let why = setup.prepare(&broken).unwrap_err();
        assert!(why.contains("exit status: 3") && why.contains("no-package"), "{why}");
    }

    #[test]
    fn a_program_runs_to_its_end_alone_and_in_a_co_run_and_nothing_is_left() {
        let (folder, setup) = setup();
        assert!(setup.run(&program("true"), None, LONG).unwrap().is_good());
        assert!(!setup.run(&program("exit 1"), None, LONG).unwrap().is_good());
        let script = "echo $$ > {dir}/pid; while :; do sleep 0.01; done";
        let interferer = Interferer { name: "i".into(), about: String::new(), recipe: shell(script) };
        let beside = Some((&interferer, Duration::from_millis(300)));
        assert!(setup.run(&program("true"), beside, LONG).unwrap().is_good());
        let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
        assert!(!Path::new("/proc").join(pid.trim()).exists(), "the interferer outlived the run");
    }

    #[test]
    fn a_program_that_does_not_end_is_cut_off() {
        let (_folder, setup) = setup();
        let run = setup.run(&program("sleep 600"), None, Duration::from_millis(50)).unwrap();
        assert!(run.status.is_none() && run.wall_ns < 60_000_000_000);
    }

    #[test]
    fn an_interferer_that_ends_by_itself_is_an_error() {
        let (_folder, setup) = setup();
        let interferer = Interferer { name: "i".into(), about: String::new(), recipe: shell("exit 4") };
        let beside = Some((&interferer, Duration::from_millis(300)));
        let error = setup.run(&program("sleep 0.1"), beside, LONG).unwrap_err();
        assert!(error.to_string().contains("exit status: 4"), "{error}");
    }
}
