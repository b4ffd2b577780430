//! The spin matrix of `docs/spinning.md`: compares both spin detectors with programs that know how long they spun, and with programs
//! that never spin.
//!
//! ```text
//! cargo run --release -p corun-study --example spin_matrix [-- --runs N] [--beside LOOPS] [PROGRAM…]
//! cargo run --release -p corun-study --example spin_matrix -- --sample-cost
//! ```
//!
//! Method: each program runs several times. Samples and counters watch the same run in the same windows, as
//! `corun predict` does. A program that spins prints a line `TID NAME CPU_NS SPIN_NS` for each of its
//! threads, from the threads' own clocks. All other programs here never spin. `--beside 2` runs each with two
//! endless loops in their own session. Then the program gets half of a machine with two CPUs, and waits more.
//! The error of a detector is the difference from the truth, in points of the program's or thread's time on a
//! CPU. The sampler reports the cost of samples. The cost of counters is the program's switches times the
//! added cost of one, plus reading. Both are shares of one CPU. `--sample-cost` measures the cost of one
//! sample to the program, which the sampler has to assume.
//!
//! Limits: a row is left out, with a message, if this machine lacks something for it (a compiler, Go, Java, counters). Rows of few
//! seconds have a few thousand samples, so a tenth of a point is chance.

use corun_linux::clock::thread_cpu_ns;
use corun_linux::counters::{LivePerf, Options};
use corun_linux::launch::Held;
use corun_linux::probe::LiveOptions;
use corun_linux::spin::{SpinOptions, SpinSampler};
use corun_linux::target::Subject;
use corun_linux::watcher::Watcher;
use corun_linux::Root;
use corun_load::stop::Stop;
use corun_model::spin::SpinEstimate;
use corun_model::workload::{Parallel, Program, Sync, Wait};
use corun_model::{CounterSource, Host, TaskId};
use corun_predict::spin::SpinByCounters;
use corun_study::session::Session;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

type Failure = Box<dyn std::error::Error>;

/// How long a window is, as in `corun predict`.
const WINDOW: Duration = Duration::from_millis(200);

fn main() -> Result<(), Failure> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("load") => return load(&args[1], &args[2]),
        Some("loop") => loop {
            work_ns();
        },
        Some("--sample-cost") => return sample_cost(),
        _ => {}
    }
    let mut runs = 5;
    if args.first().is_some_and(|a| a == "--runs") {
        runs = args.get(1).ok_or("--runs takes a number")?.parse()?;
        args.drain(..2);
    }
    let mut beside = 0;
    if args.first().is_some_and(|a| a == "--beside") {
        beside = args.get(1).ok_or("--beside takes a number of loops")?.parse()?;
        args.drain(..2);
    }
    let folder = tempfile::tempdir()?;
    println!("| program | spins | by samples | by counters | cost of samples | of counters |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: |");
    for (name, command) in programs(folder.path()) {
        if !args.is_empty() && !args.contains(&name) {
            continue;
        }
        let Some(command) = command() else {
            eprintln!("{name} is left out: what it takes is not here");
            continue;
        };
        let mut rows = Vec::new();
        for _ in 0..runs {
            rows.push(watch(&command, beside)?);
        }
        println!("{}", row(&name, &rows));
    }
    Ok(())
}

/// The results for a thread over a run, in nanoseconds.
#[derive(Clone, Debug, Default)]
struct Found {
    name: String,
    on_cpu_ns: u64,
    by_samples_ns: u64,
    by_counters_ns: Option<u64>,
}

/// One run.
#[derive(Clone, Debug)]
struct Run {
    /// Time on a CPU of the threads that are compared, summed.
    on_cpu_ns: f64,
    true_ns: f64,
    samples: Error,
    counters: Option<Error>,
    sampling: f64,
    counting: Option<f64>,
}

/// The errors of a detector, in points.
#[derive(Clone, Copy, Debug, Default)]
struct Error {
    /// The error for the whole program.
    whole: f64,
    /// The largest error for a thread.
    worst: f64,
}

/// Runs a command under both detectors, with `beside` endless loops.
fn watch(words: &[String], beside: usize) -> Result<Run, Failure> {
    let root = Root::new("/");
    let a_loop = || {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("loop");
        Session::start(command)
    };
    let _loops = (0..beside).map(|_| a_loop()).collect::<Result<Vec<Session>, _>>()?;
    let (mut reader, writer) = std::io::pipe()?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).env("OMP_WAIT_POLICY", "active").stdout(writer).stderr(Stdio::null());
    let held = Held::start(command)?;
    let first = [TaskId(held.pid())];
    let subject = Subject::command(held.pid(), &words[0]);
    let (mut host, _) = Watcher::start(&root, LiveOptions::new(subject), None)?;
    let of = host.subject().expect("a command is a subject");
    let mut sampler = SpinSampler::start(&root, SpinOptions::default())?;
    sampler.follow(&first);
    let mut perf = LivePerf::start(Options::new(Some(of))).ok();
    if let Some(perf) = &mut perf {
        perf.follow(&first);
    }
    let mut by_counters = SpinByCounters::new(of);
    host.observe()?;
    let begin_ns = host.now_ns();
    let running = held.release()?;
    let mut all: BTreeMap<TaskId, Found> = BTreeMap::new();
    let (mut switches, mut reading_ns) = (0, 0);
    loop {
        let ended = running.ended_within(WINDOW);
        let mut seen = host.observe()?;
        let before_ns = thread_cpu_ns();
        if let Some(perf) = &mut perf {
            perf.read(&mut seen);
        }
        reading_ns += thread_cpu_ns() - before_ns;
        let samples = sampler.collect(&seen);
        let counters = by_counters.estimate(&seen).filter(|_| perf.is_some());
        for task in seen.tasks.iter().filter(|t| t.tenant == of) {
            let sum = all.entry(task.id).or_default();
            sum.name = task.name.to_string();
            sum.on_cpu_ns += task.account.ledger.on_cpu_ns();
            let of = |found: &BTreeMap<TaskId, SpinEstimate>| found.get(&task.id).map_or(0, |e| e.spin_ns);
            sum.by_samples_ns += of(&samples);
            if let Some(found) = &counters {
                *sum.by_counters_ns.get_or_insert(0) += of(found);
            }
            switches += task.account.events.switches().unwrap_or(0);
        }
        if ended {
            break;
        }
        let living: Vec<TaskId> =
            seen.tasks.iter().filter(|t| t.alive && t.tenant == of).map(|t| t.id).collect();
        sampler.follow(&living);
    }
    let wall_ns = (host.now_ns() - begin_ns) as f64;
    if !running.wait()?.success() {
        return Err(format!("`{}` failed", words.join(" ")).into());
    }
    let mut printed = String::new();
    reader.read_to_string(&mut printed)?;
    let truths = truths(&printed, &all);
    let compared: Vec<(&Found, f64)> = match truths.is_empty() {
        true => all.values().map(|f| (f, 0.0)).collect(),
        false => truths.iter().map(|(id, share)| (&all[id], *share)).collect(),
    };
    let on_cpu_ns = compared.iter().map(|(f, _)| f.on_cpu_ns as f64).sum::<f64>().max(1.0);
    let error = |of: &dyn Fn(&Found) -> u64| {
        let off = |(f, truth): &(&Found, f64)| of(f) as f64 - truth * f.on_cpu_ns as f64;
        // The share of a thread that hardly ran has no meaning.
        let long = compared.iter().filter(|(f, _)| f.on_cpu_ns as f64 > on_cpu_ns / 50.0);
        let worst = long.map(|c| 100.0 * off(c) / c.0.on_cpu_ns as f64).fold(0.0, |a: f64, b| {
            if b.abs() > a.abs() {
                b
            } else {
                a
            }
        });
        Error { whole: 100.0 * compared.iter().map(off).sum::<f64>() / on_cpu_ns, worst }
    };
    let counted = compared.iter().any(|(f, _)| f.by_counters_ns.is_some());
    let added_ns = perf.as_ref().and_then(LivePerf::switch_cost).map(|c| c.added_ns());
    Ok(Run {
        on_cpu_ns,
        true_ns: compared.iter().map(|(f, truth)| truth * f.on_cpu_ns as f64).sum(),
        samples: error(&|f| f.by_samples_ns),
        counters: counted.then(|| error(&|f| f.by_counters_ns.unwrap_or(0))),
        sampling: sampler.cost().share(),
        counting: added_ns.map(|ns| (switches * ns + reading_ns) as f64 / wall_ns),
    })
}

/// The true shares of each thread's CPU time that it spun, as the program prints them.
fn truths(printed: &str, all: &BTreeMap<TaskId, Found>) -> Vec<(TaskId, f64)> {
    let of = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [tid, name, cpu_ns, spin_ns] = words[..] else { return None };
        let id = match tid.parse().ok()? {
            0 => *all.iter().find(|(_, f)| f.name == name)?.0,
            tid => TaskId(tid),
        };
        let share = spin_ns.parse::<f64>().ok()? / cpu_ns.parse::<f64>().ok()?;
        all.contains_key(&id).then_some((id, share))
    };
    printed.lines().filter_map(of).collect()
}

/// A line of the table: the median over the runs, and the worst values.
fn row(name: &str, runs: &[Run]) -> String {
    let median = |of: &dyn Fn(&Run) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let errors = |of: &dyn Fn(&Run) -> Option<Error>| {
        if runs.iter().any(|r| of(r).is_none()) {
            return "not counted".to_owned();
        }
        let get = |r: &Run| of(r).unwrap_or_default();
        let worst = |get: &dyn Fn(&Run) -> f64| {
            runs.iter().map(get).fold(0.0, |a: f64, b| if b.abs() > a.abs() { b } else { a })
        };
        let (whole, run, thread) =
            (median(&|r| get(r).whole), worst(&|r| get(r).whole), worst(&|r| get(r).worst));
        format!("{whole:+.1} ({run:+.1}; {thread:+.1})")
    };
    let counting = match runs.iter().all(|r| r.counting.is_some()) {
        true => format!("{:.2} %", 100.0 * median(&|r| r.counting.unwrap_or(0.0))),
        false => "—".to_owned(),
    };
    format!(
        "| {name} | {:.1} % | {} | {} | {:.2} % | {counting} |",
        100.0 * median(&|r| r.true_ns / r.on_cpu_ns),
        errors(&|r| Some(r.samples)),
        errors(&|r| r.counters),
        100.0 * median(&|r| r.sampling),
    )
}

type Made = Box<dyn Fn() -> Option<Vec<String>>>;

/// Programs by name. Each is made when its turn comes; `None` if this machine cannot make it.
fn programs(folder: &Path) -> Vec<(String, Made)> {
    let at = |name: &str| folder.join(name);
    let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<String>>();
    let mut found: Vec<(String, Made)> = Vec::new();
    let mut add = |name: String, made: Made| found.push((name, made));
    let own = std::env::current_exe().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default();
    for kind in ["barrier spin", "lock spin", "barrier spin-then-block"] {
        let command = [vec![own.clone(), "load".into()], words(kind)].concat();
        add(format!("corun load {kind}"), Box::new(move || Some(command.clone())));
    }
    for (kind, level) in [
        ("spinlock", "-O2"),
        ("spinlock", "-O0"),
        ("futexlock", "-O2"),
        ("futexlock", "-O0"),
        ("flag", "-O2"),
        ("flag", "-O0"),
        ("each", "-O2"),
        ("yield", "-O2"),
        ("omp", "-O2"),
        ("clock", "-O2"),
    ] {
        let to = at(&format!("waits{level}"));
        let rounds = if level == "-O2" { "2500" } else { "1200" };
        let made = move || {
            compiled("waits.c", level, &to)
                .then(|| vec![to.to_string_lossy().into_owned(), kind.into(), rounds.into()])
        };
        add(format!("C {kind} {level}"), Box::new(made));
    }
    let to = at("waits_mpi").to_string_lossy().into_owned();
    let mpi = move || {
        let from = source("waits_mpi.c").to_string_lossy().into_owned();
        let run = ["mpirun", "--allow-run-as-root", "-np", "2", &to, "2500"].map(str::to_owned).to_vec();
        (built("cc", &["-O2", &from, "-l:libmpi.so.40", "-o", &to])
            && built("mpirun", &["--allow-run-as-root", "-np", "2", "true"]))
        .then_some(run)
    };
    add("C MPI -O2".into(), Box::new(mpi));
    let to = at("waits-go").to_string_lossy().into_owned();
    let go = move || {
        let from = source("waits.go").to_string_lossy().into_owned();
        built("go", &["build", "-o", &to, &from]).then(|| vec![to.clone(), "2500".into()])
    };
    add("Go flag".into(), Box::new(go));
    let to = folder.to_string_lossy().into_owned();
    let java = move || {
        let from = source("Waits.java").to_string_lossy().into_owned();
        let run = ["java", "-cp", &to, "Waits", "2500"].map(str::to_owned).to_vec();
        built("javac", &["-d", &to, &from]).then_some(run)
    };
    add("Java flag".into(), Box::new(java));
    let command = [vec![own, "load".into()], words("barrier block")].concat();
    add("corun load barrier block".into(), Box::new(move || Some(command.clone())));
    for level in ["-O0", "-O2", "-O3"] {
        let to = at(&format!("useful{level}"));
        let made = move || {
            compiled("useful.c", level, &to).then(|| vec![to.to_string_lossy().into_owned(), "150".into()])
        };
        add(format!("hot kernels {level}"), Box::new(made));
    }
    let text = at("text").to_string_lossy().into_owned();
    for (name, script) in [
        ("gzip", "gzip -9 -c TEXT >/dev/null"),
        ("xz", "xz -T2 -3 -c TEXT >/dev/null"),
        ("zstd", "zstd -T2 -15 -q -c TEXT >/dev/null"),
        ("openssl", "openssl speed -seconds 1 sha256 2>/dev/null >/dev/null"),
        ("sqlite3", "sqlite3 :memory: 'with recursive c(x) as (select 1 union all select x+1 from c where x<6000000) select sum(x) from c' >/dev/null"),
        ("python3", "python3 -c 'sum(i*i for i in range(30000000))'"),
        ("perl", "perl -e 'my $s=0; for my $i (1..40000000) { $s+=$i } print $s' >/dev/null"),
        ("cc", "cc -O2 -fopenmp -S -o /dev/null USEFUL && cc -O3 -fopenmp -S -o /dev/null USEFUL && cc -O3 -fopenmp -S -o /dev/null USEFUL"),
    ] {
        let useful = source("useful.c").to_string_lossy().into_owned();
        let script = script.replace("TEXT", &text).replace("USEFUL", &useful);
        let (tool, text) = (name, text.clone());
        let made = move || {
            let is_there = Command::new(tool).arg("--version").output().is_ok();
            (is_there && write_text(&text)).then(|| vec!["sh".into(), "-c".into(), script.clone()])
        };
        add(name.into(), Box::new(made));
    }
    found
}

/// Words in an order that compresses badly: 24 MB, made once.
fn write_text(path: &str) -> bool {
    if Path::new(path).exists() {
        return true;
    }
    let words = ["steal", "spin", "task", "tenant", "window", "ledger", "culprit", "park", "slice", "run"];
    let mut state = 88_172_645_463_325_252u64;
    let mut text = String::with_capacity(24 << 20);
    while text.len() < 24 << 20 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(words[(state % 10) as usize]);
        text.push_str(if state & (1 << 40) == 0 { " " } else { ", " });
        text.push_str(&(state >> 50).to_string());
    }
    std::fs::write(path, text).is_ok()
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corun-linux/tests/spin").join(name)
}

fn compiled(name: &str, level: &str, to: &Path) -> bool {
    let (from, to) = (source(name), to.to_string_lossy().into_owned());
    built("cc", &[level, "-pthread", "-fopenmp", &from.to_string_lossy(), "-o", &to])
}

fn built(tool: &str, args: &[&str]) -> bool {
    let status = Command::new(tool).args(args).env("GO111MODULE", "off").stderr(Stdio::null()).status();
    status.is_ok_and(|s| s.success())
}

/// A program of `corun load` with two threads, which prints how long each waited on a CPU.
fn load(sync: &str, wait: &str) -> Result<(), Failure> {
    let program = Program::Parallel(Parallel {
        threads: 2,
        sync: if sync == "lock" { Sync::Lock } else { Sync::Barrier },
        wait: match wait {
            "spin" => Wait::Spin,
            "block" => Wait::Block,
            _ => Wait::SpinThenBlock,
        },
        spin: 300_000,
        grain: 1_000_000,
        imbalance: 0.5,
        iterations: 2_000,
        duration: 0,
        ..Parallel::default()
    });
    let found = corun_load::run(&program, &corun_load::Options::default(), &Stop::default(), |_| ())?;
    for thread in found.threads {
        let spin_ns = thread.waiting.map_or(0, |w| w.spin_ns);
        println!("{} thread {} {spin_ns}", thread.tid, thread.cpu_ns);
    }
    Ok(())
}

/// Measures the time that one sample takes from the program: alternates the same work with and without samples every 100 µs.
fn sample_cost() -> Result<(), Failure> {
    const ROUNDS: usize = 21;
    let options = SpinOptions { cost_max: 1.0, period_ns_min: 100_000, by_task: false, descriptors: None };
    let me = TaskId(std::process::id());
    let mut added_ns = Vec::new();
    for _ in 0..ROUNDS {
        let bare_ns = work_ns();
        let mut sampler = SpinSampler::start(&Root::new("/"), options.clone())?;
        sampler.follow(&[me]);
        let before = sampler.cost().samples;
        let sampled_ns = work_ns();
        std::thread::sleep(WINDOW);
        let samples = sampler.cost().samples - before;
        drop(sampler);
        added_ns.push((sampled_ns as f64 - bare_ns as f64) / samples.max(1) as f64);
    }
    added_ns.sort_by(f64::total_cmp);
    let at = |part: f64| added_ns[((ROUNDS - 1) as f64 * part) as usize];
    println!("a sample takes {:.0} ns (middle half {:.0} to {:.0} ns)", at(0.5), at(0.25), at(0.75));
    Ok(())
}

/// CPU time of a fixed piece of work.
fn work_ns() -> u64 {
    let before_ns = thread_cpu_ns();
    let mut x = 1u64;
    for i in 0..400_000_000u64 {
        x = std::hint::black_box(x.wrapping_mul(31) ^ i);
    }
    thread_cpu_ns() - before_ns
}
