//! What adapting is worth on this machine: programs alone, next to one and two busy loops, and with a quota of half the machine; throughput
//! with fixed numbers of threads and adaptive, as a table for a document. Two minutes of a quiet machine:
//!
//! ```sh
//! cargo build --release -p corun-preload --lib --examples
//! target/release/examples/cells [SECONDS A RUN] > table.md
//! ```
//!
//! The quota needs root, OpenMP needs gcc, OpenBLAS its development files. What is missing is left out, and says so.

use corun_adapt::{cpus, Mode, Pool, Width};
use corun_pdes::models::Phold;
use corun_pdes::{Idle, Mapping, Options};
use rayon::prelude::*;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where a program runs.
#[derive(Clone, Copy)]
enum Place {
    Loops(usize),
    Quota,
}

/// How many threads a program has.
#[derive(Clone, Copy)]
enum Threads {
    Fixed(u32),
    Adaptive,
}

/// A program to measure.
#[derive(Clone, Copy)]
enum Program {
    OpenMp,
    OpenBlas,
    Rayon,
    Engine,
}

const PROGRAMS: [(Program, &str); 4] = [
    (Program::OpenMp, "OpenMP (libgomp, waits actively)"),
    (Program::OpenBlas, "OpenBLAS (dgemm)"),
    (Program::Rayon, "rayon"),
    (Program::Engine, "corun-pdes (LADM)"),
];
const PLACES: [(Place, &str); 4] = [
    (Place::Loops(0), "alone"),
    (Place::Loops(1), "one loop"),
    (Place::Loops(2), "two loops"),
    (Place::Quota, "quota of half"),
];

fn main() {
    let words: Vec<String> = env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["loop"] => loop {
            std::hint::spin_loop();
        },
        ["rayon", threads, seconds] => println!("{}", with_rayon(threads.parse().ok(), length(seconds))),
        ["engine", threads, seconds] => println!("{}", with_engine(threads.parse().ok(), length(seconds))),
        [seconds] => table(seconds),
        _ => table("2"),
    }
}

fn length(seconds: &str) -> Duration {
    Duration::from_secs_f64(seconds.parse().expect("seconds are a number"))
}

/// Steps a second of a loop of parallel steps of some 2 ms; adaptive without a number of threads.
fn with_rayon(threads: Option<u32>, length: Duration) -> f64 {
    let mode = if threads.is_some() { Mode::Off } else { Mode::On };
    let width = Width::new(mode, 1, threads.unwrap_or(cpus())).expect("/proc is mounted");
    let pool = Pool::new(width).expect("threads can be started");
    let part = |n: u32| (0..5_000).fold(f64::from(n), |x, _| std::hint::black_box(x) * 0.999 + 0.5);
    let (begin, mut steps) = (Instant::now(), 0.0);
    while begin.elapsed() < length {
        std::hint::black_box(pool.install(|| (0..200u32).into_par_iter().map(part).sum::<f64>()));
        steps += 1.0;
    }
    steps / begin.elapsed().as_secs_f64()
}

/// Committed events a second: fixed mapping with so many workers, or LADM with all.
fn with_engine(threads: Option<u32>, length: Duration) -> f64 {
    let model = Phold::default();
    let options = Options {
        until: 20_000,
        workers: threads.unwrap_or(cpus()) as usize,
        mapping: if threads.is_some() { Mapping::Fixed { pin: false } } else { Mapping::ladm() },
        idle: if threads.is_some() { Idle::Spin } else { Idle::Block },
        ..Options::default()
    };
    let (begin, mut events) = (Instant::now(), 0.0);
    while begin.elapsed() < length {
        events += corun_pdes::run(&model, &options).expect("the options make sense").committed as f64;
    }
    events / begin.elapsed().as_secs_f64()
}

/// What is needed to run programs in C.
struct Setup {
    folder: PathBuf,
    library: PathBuf,
    seconds: String,
}

impl Setup {
    /// The C programs that can be compiled here.
    fn compile(&self, name: &str, flags: &[&str]) -> bool {
        let source = self.folder.join("throughput.c");
        fs::write(&source, include_str!("../tests/c/throughput.c")).expect("the folder can be written");
        let mut cc = Command::new("gcc");
        cc.args(["-O2"]).arg(&source).arg("-o").arg(self.folder.join(name)).args(flags);
        let is_done = cc.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        if !is_done {
            eprintln!("left out: gcc cannot compile with {flags:?} here");
        }
        is_done
    }

    /// A program's throughput.
    fn measure(&self, program: Program, place: Place, threads: Threads) -> Option<f64> {
        let this = env::current_exe().expect("this program has a path");
        let (path, kernel) = match program {
            Program::OpenMp => (self.folder.join("openmp"), None),
            Program::OpenBlas => (self.folder.join("openblas"), None),
            Program::Rayon => (this.clone(), Some("rayon")),
            Program::Engine => (this.clone(), Some("engine")),
        };
        let _loops = match place {
            Place::Loops(loops) => (0..loops).map(|_| Loop::start(&this)).collect(),
            Place::Quota => Vec::new(),
        };
        let cgroup = match place {
            Place::Quota => Some(Quota::half()?),
            Place::Loops(_) => None,
        };
        let mut command = Command::new("sh");
        let into = cgroup.as_ref().map_or("/dev/null".into(), |quota| quota.0.join("cgroup.procs"));
        command.args(["-c", "echo $$ > \"$0\"; exec \"$@\""]).arg(into).arg(path).args(kernel);
        if matches!(program, Program::Rayon | Program::Engine) {
            command.arg(match threads {
                Threads::Fixed(threads) => threads.to_string(),
                Threads::Adaptive => "adaptive".into(),
            });
        }
        command.arg(&self.seconds).env("OMP_WAIT_POLICY", "active");
        match threads {
            Threads::Fixed(n) => {
                command.envs(["OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"].map(|name| (name, n.to_string())))
            }
            Threads::Adaptive => command.env("LD_PRELOAD", &self.library).env("CORUN_ADAPT", "on"),
        };
        let output = command.output().ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    }
}

/// A busy loop; it ends with this value.
struct Loop(Child);

impl Loop {
    fn start(this: &Path) -> Loop {
        Loop(Command::new(this).arg("loop").spawn().expect("this program can be run"))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A cgroup that may use half of the machine.
struct Quota(PathBuf);

impl Quota {
    fn half() -> Option<Quota> {
        let root = Path::new("/sys/fs/cgroup");
        let quota = cpus() * 50_000;
        let _ = fs::write(root.join("cgroup.subtree_control"), "+cpu");
        let name = format!("corun-cells-{}", std::process::id());
        // Version 2, or the hierarchy of version 1 that has the controller.
        let (folder, file, text) = match root.join("cgroup.controllers").exists() {
            true => (root.join(name), "cpu.max", format!("{quota} 100000")),
            false => (root.join("cpu").join(name), "cpu.cfs_quota_us", quota.to_string()),
        };
        fs::create_dir(&folder).ok()?;
        let made = Quota(folder);
        fs::write(made.0.join(file), text).ok()?;
        Some(made)
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        // The kernel may take a moment to notice that nobody is left.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn table(seconds: &str) {
    let this = env::current_exe().expect("this program has a path");
    let library =
        this.parent().and_then(Path::parent).expect("cargo put it there").join("libcorun_preload.so");
    assert!(library.exists(), "{} is not there: build corun-preload first", library.display());
    let folder = env::temp_dir().join(format!("corun-cells-{}", std::process::id()));
    fs::create_dir(&folder).expect("the folder of temporary files can be written");
    let setup = Setup { folder, library, seconds: seconds.to_owned() };
    let mut widths = vec![1, cpus() / 2, cpus()];
    widths.retain(|width| *width > 0);
    widths.dedup();
    let head: String = widths.iter().map(|width| format!(" {width} fixed |")).collect();
    println!("| program | where |{head} adaptive | of the best fixed |");
    println!("| --- | --- |{} --- | --- |", " --- |".repeat(widths.len()));
    for (program, name) in PROGRAMS {
        let is_there = match program {
            Program::OpenMp => {
                setup.compile("openmp", &["-fopenmp", "-lopenblas"]) || setup.compile("openmp", &["-fopenmp"])
            }
            Program::OpenBlas => setup.compile("openblas", &["-lopenblas"]),
            Program::Rayon | Program::Engine => true,
        };
        for (place, label) in PLACES.iter().filter(|_| is_there) {
            let fixed: Vec<_> =
                widths.iter().map(|width| setup.measure(program, *place, Threads::Fixed(*width))).collect();
            let adaptive = setup.measure(program, *place, Threads::Adaptive);
            let shown = |value: Option<f64>| match value {
                Some(value) if value >= 10_000.0 => format!("{:.0} k", value / 1_000.0),
                Some(value) => format!("{value:.0}"),
                None => "not measured".into(),
            };
            let best = fixed.iter().flatten().copied().fold(0.0, f64::max);
            let of_best = adaptive.filter(|_| best > 0.0);
            let of_best =
                of_best.map_or("not measured".into(), |value| format!("{:.0} %", 100.0 * value / best));
            let cells: String = fixed.into_iter().map(|value| format!(" {} |", shown(value))).collect();
            println!("| {name} | {label} |{cells} {} | {of_best} |", shown(adaptive));
        }
    }
    let _ = fs::remove_dir_all(&setup.folder);
}
