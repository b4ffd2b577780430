//! Storms by hand: is `corun profile` punctual and cheap while a machine is at its worst?
//!
//!     cargo build --release -p corun
//!     cargo run --release -p corun-linux --example storms -- target/release/corun [STORM...]
//!
//! Needs root. For each storm it prints how long a profile of five seconds took, how much of a CPU corun
//! used, and what corun lost. It also prints how much of the storm's time went to a tenant without a name. It
//! removes everything that it creates.

use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const SECONDS: u64 = 5;
const CGROUPS: usize = 10_000;
const THREADS: usize = 20_000;
/// In the program's own arguments: what a child process does.
const EXECUTE_FROM_A_THREAD: &str = "--execute-from-a-thread";

/// The name of a storm, and the function that creates it and reports on the corun at this path.
type Storm<'a> = (&'a str, &'a dyn Fn(&str));

fn main() {
    let mut words = std::env::args().skip(1);
    let Some(corun) = words.next() else {
        eprintln!("storms: name the corun to try, such as target/release/corun");
        std::process::exit(2);
    };
    if corun == EXECUTE_FROM_A_THREAD {
        let _ = std::thread::spawn(|| Command::new("/bin/true").exec()).join();
        return;
    }
    let wanted: Vec<String> = words.collect();
    println!("{:<28} {:>8} {:>8} {:>10} {:>8}  lost", "storm", "took", "CPU", "made", "unnamed");
    let storms: [Storm; 5] = [
        ("nothing", &|corun| report("nothing", corun, None)),
        ("cgroups", &|corun| {
            let cgroups = Cgroups::make();
            report("10,000 cgroups", corun, None);
            drop(cgroups);
        }),
        ("groups", &|corun| {
            let one = || drop(Command::new("/bin/true").process_group(0).status());
            report("process groups", corun, Some(&one));
        }),
        ("execs", &|corun| {
            let me = std::env::current_exe().unwrap_or_default();
            let one = || drop(Command::new(&me).arg(EXECUTE_FROM_A_THREAD).process_group(0).status());
            report("execs by other threads", corun, Some(&one));
        }),
        ("threads", &|corun| {
            let left = AtomicU64::new(THREADS as u64);
            let one = || match left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)) {
                Ok(_) => {
                    let sleep = || std::thread::sleep(Duration::from_secs(2 * SECONDS));
                    let _ = std::thread::Builder::new().stack_size(16 << 10).spawn(sleep);
                }
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            };
            report("20,000 threads", corun, Some(&one));
            std::thread::sleep(Duration::from_secs(2 * SECONDS));
        }),
    ];
    for (name, storm) in storms {
        if wanted.is_empty() || wanted.iter().any(|w| w == name) {
            storm(&corun);
        }
    }
}

/// Profiles everybody while two threads repeat `one` operation.
#[allow(clippy::zombie_processes)] // `cpu_of` waits for it.
fn report(name: &str, corun: &str, one: Option<&(dyn Fn() + Sync)>) {
    let file = std::env::temp_dir().join(format!("corun-storms.{}.json", std::process::id()));
    let (is_over, made) = (AtomicBool::new(false), AtomicU64::new(0));
    let (took, cpu) = std::thread::scope(|scope| {
        for one in one.into_iter().flat_map(|one| [one, one]) {
            let (is_over, made) = (&is_over, &made);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    one();
                    made.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let begin = Instant::now();
        let mut command = Command::new(corun);
        command.args(["profile", "--all", "-q", "--for", &format!("{SECONDS}s"), "--json"]).arg(&file);
        let child = command.stdout(Stdio::null()).spawn();
        let cpu = child.ok().map(|child| cpu_of(child.id()));
        is_over.store(true, Ordering::Relaxed);
        (begin.elapsed(), cpu)
    });
    let told = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    let told: serde_json::Value = serde_json::from_str(&told).unwrap_or_default();
    let of = |wanted: &dyn Fn(&serde_json::Value) -> bool| -> f64 {
        let tenants = told["tenants"].as_array().into_iter().flatten().filter(|t| wanted(t));
        tenants.filter_map(|t| t["ledger"]["compute_ns"].as_f64()).sum()
    };
    let unnamed = of(&|t| t["tenant"]["kind"] == "others") / of(&|_| true).max(1.0);
    println!(
        "{name:<28} {:>6.2} s {:>7.1}% {:>10} {:>7.2}%  {}",
        took.as_secs_f64(),
        cpu.unwrap_or_default() / SECONDS as f64 * 100.0,
        made.load(Ordering::Relaxed),
        unnamed * 100.0,
        told["loss"]
    );
    let _ = std::io::stdout().flush();
}

/// Waits for a child; returns the CPU time that it used, in seconds.
fn cpu_of(pid: u32) -> f64 {
    // SAFETY: all zeros is a value of this plain type, and the call fills it in.
    unsafe {
        let mut used: libc::rusage = std::mem::zeroed();
        libc::wait4(pid as i32, std::ptr::null_mut(), 0, &mut used);
        let seconds = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
        seconds(used.ru_utime) + seconds(used.ru_stime)
    }
}

/// Ten thousand cgroups below one, with a process in every fiftieth.
struct Cgroups(PathBuf, Vec<std::process::Child>);

impl Cgroups {
    fn make() -> Cgroups {
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let mount = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (mount, kind) = (words.next()?, words.next()?);
            (kind == "cgroup2").then(|| PathBuf::from(mount))
        });
        let top = mount.unwrap_or_default().join(format!("corun-storms.{}", std::process::id()));
        let mut made = Cgroups(top.clone(), Vec::new());
        for n in 0..CGROUPS {
            let folder = top.join(format!("{}/{n}", n / 100));
            let _ = std::fs::create_dir_all(&folder);
            if n % 50 == 0 {
                let mut sleep = Command::new("sleep");
                if let Ok(child) = sleep.arg("60").spawn() {
                    let _ = std::fs::write(folder.join("cgroup.procs"), child.id().to_string());
                    made.1.push(child);
                }
            }
        }
        made
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for child in &mut self.1 {
            let _ = child.kill();
            let _ = child.wait();
        }
        for _ in 0..100 {
            let _ = Command::new("find")
                .arg(&self.0)
                .args(["-depth", "-type", "d", "-exec", "rmdir", "{}", "+"])
                .status();
            if !self.0.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
