//! A real Slurm: a controller and two nodes on this machine, and an agent. Jobs get a sentence in their
//! comment, and an array of jobs makes a study. It needs root, and slurmctld, slurmd, slurm-client and munge
//! from Debian.
//!
//! `CORUN_JOBS` sets the number of jobs with a sentence (8), four at a time, of five to eight seconds.

mod serving;

use assert_cmd::cargo::cargo_bin;
use serving::{said, Agent};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const NODES: [&str; 2] = ["corun-test-node1", "corun-test-node2"];
/// One cluster at a time: the names of nodes and their cgroups are the same.
static ONE: Mutex<()> = Mutex::new(());

/// A cluster of these nodes; dropping ends it.
struct Cluster {
    folder: PathBuf,
    daemons: Vec<Child>,
    _one: MutexGuard<'static, ()>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.slurm("scancel").args(["--user", "root"]).output();
        for daemon in self.daemons.iter_mut().rev() {
            // SAFETY: sends a signal to a child that is not waited for yet.
            unsafe { libc::kill(daemon.id() as i32, libc::SIGTERM) };
            let _ = daemon.wait();
        }
        // slurmd leaves its cgroups.
        for tree in fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten() {
            for node in NODES {
                let top = tree.path().join(format!("slurm_{node}"));
                let _ = fs::remove_dir(top.join("uid_0"));
                let _ = fs::remove_dir(top);
            }
        }
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Cluster {
    /// One that accepts jobs; `None`, after a line that says why, if there can be none here.
    fn up(folder: &Path, metrics: &str) -> Option<Cluster> {
        // SAFETY: takes nothing and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            println!("skipped: slurmd needs root");
            return None;
        }
        for tool in ["/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "scontrol"] {
            if Command::new(tool).arg("--version").output().is_err() {
                println!("skipped: {tool} is not there (Debian: munge, slurmctld, slurmd, slurm-client)");
                return None;
            }
        }
        // munged checks who may write to its folders.
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        let cluster = Cluster::start(folder, metrics);
        if !cluster.is_up() {
            println!("skipped: slurmd cannot work here: {}", cluster.told("scontrol", &["show", "node"]));
            return None;
        }
        Some(cluster)
    }

    fn start(folder: &Path, metrics: &str) -> Cluster {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let name = String::from_utf8(Command::new("hostname").output().unwrap().stdout).unwrap();
        let (name, at) = (name.trim(), folder.display());
        for made in ["state", "munge"] {
            fs::create_dir(folder.join(made)).unwrap();
        }
        let packaging =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/slurm").canonicalize().unwrap();
        let epilog = folder.join("epilog");
        let script = format!(
            "#!/bin/sh\nexport PATH=/usr/bin:/bin CORUN_METRICS='http://{metrics}/metrics?now'\nbegan=$(date +%s%N)\n\
             {}/corun-task-epilog\necho $(($(date +%s%N) - began)) >>{at}/took\n",
            packaging.display()
        );
        fs::write(&epilog, script).unwrap();
        fs::set_permissions(&epilog, fs::Permissions::from_mode(0o755)).unwrap();
        let key = folder.join("munge/key");
        fs::write(&key, [7; 128]).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).unwrap();
        let config = format!(
            "ClusterName=corun\nSlurmctldHost={name}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
             AuthInfo=socket={at}/munge/socket\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool-%n\n\
             SlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd-%n.pid\nSlurmctldPort={}\n\
             ProctrackType=proctrack/cgroup\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_CPU\nMpiDefault=none\nReturnToService=2\nMinJobAge=3600\n\
             SlurmdParameters=config_overrides\nTaskEpilog={at}/epilog\n\
             PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
            free_port(),
        );
        let node = |node| {
            let port = free_port();
            format!(
                "NodeName={node} NodeHostname={name} NodeAddr=127.0.0.1 Port={port} CPUs=2 RealMemory=500\n"
            )
        };
        let config = config + &NODES.map(node).concat();
        fs::write(folder.join("slurm.conf"), config).unwrap();
        fs::write(folder.join("cgroup.conf"), "CgroupAutomount=yes\nConstrainCores=no\n").unwrap();
        let mut cluster = Cluster { folder: folder.to_owned(), daemons: Vec::new(), _one: one };
        let munge = |what: &str| format!("--{what}={at}/munge/{what}");
        let mut munged = Command::new("/usr/sbin/munged");
        munged.args(["--foreground", "--force"]).arg(format!("--key-file={}", key.display()));
        cluster.daemon(munged.args(["socket", "pid-file", "log-file", "seed-file"].map(munge)));
        let controller = &mut cluster.slurm("/usr/sbin/slurmctld");
        cluster.daemon(controller.args(["-D", "-c"]));
        for node in NODES {
            fs::create_dir(folder.join(format!("spool-{node}"))).unwrap();
            let daemon = &mut cluster.slurm("/usr/sbin/slurmd");
            cluster.daemon(daemon.args(["-D", "-N", node]));
        }
        cluster
    }

    fn daemon(&mut self, command: &mut Command) {
        self.daemons.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }

    fn slurm(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.folder.join("slurm.conf"));
        command
    }

    fn told(&self, program: &str, args: &[&str]) -> String {
        String::from_utf8(self.slurm(program).args(args).output().unwrap().stdout).unwrap()
    }

    /// Waits until no job is left, and acts in the meantime.
    fn finish(&self, within: Duration, mut meanwhile: impl FnMut()) {
        let until = Instant::now() + within;
        while !self.told("squeue", &["--noheader"]).trim().is_empty() {
            assert!(Instant::now() < until, "{}", self.told("squeue", &[]));
            meanwhile();
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// Whether the nodes accept jobs, before patience ends.
    fn is_up(&self) -> bool {
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until {
            let states = self.told("sinfo", &["--noheader", "--Node", "--format=%T"]);
            if states.lines().filter(|state| *state == "idle").count() == NODES.len() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        false
    }
}

/// How much others took from a job, and how much it wanted, in seconds.
#[derive(Clone, Copy)]
struct Share {
    lost: f64,
    wanted: f64,
}

impl Share {
    fn percent(self) -> f64 {
        100.0 * self.lost / self.wanted
    }

    /// The rest of a sentence, from its share on.
    fn said(sentence: &str) -> Option<Share> {
        let percent: f64 = sentence.split(' ').next()?.parse().ok()?;
        let wanted: f64 = sentence.rsplit_once('(')?.1.strip_suffix(" s wanted)")?.parse().ok()?;
        Some(Share { lost: percent / 100.0 * wanted, wanted })
    }
}

/// The sums of a job's ledgers in the agent's counters: of its steps and of the processes in none of them. A
/// job that waits for another loses nothing.
fn ledger(metrics: &str, job: u64) -> Share {
    let (whole, step) = (format!("slurm {job}"), format!("slurm {job}."));
    let is_its = |name: &str| name == whole || name.starts_with(&step);
    let label = |line: &str, name: &str| {
        line.split_once(&format!("{name}=\"")).map(|(_, rest)| rest.split('"').next().unwrap().to_owned())
    };
    let mut sum = Share { lost: 0.0, wanted: 0.0 };
    for line in metrics.lines().filter(|line| !line.starts_with('#')) {
        let seconds: f64 = line.rsplit(' ').next().unwrap().parse().unwrap();
        let of = |name: &str| label(line, name).is_some_and(|who| is_its(&who));
        if line.starts_with("corun_tenant_seconds_total{") && of("tenant") {
            let category = label(line, "category").unwrap();
            let is_wanted = ["compute", "spin", "steal", "throttled"].contains(&&*category);
            sum.wanted += if is_wanted { seconds } else { 0.0 };
        } else if line.starts_with("corun_blame") && of("victim") {
            let culprit = label(line, "culprit").unwrap_or_default();
            let is_other = !is_its(&culprit) && culprit != "self" && culprit != "idle";
            sum.lost += if is_other { seconds } else { 0.0 };
        }
    }
    sum
}

#[test]
fn each_job_has_a_sentence_in_its_comment_that_agrees_with_the_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(&[]);
    let Some(cluster) = Cluster::up(folder.path(), &agent.address) else { return };
    let script = folder.path().join("job");
    fs::write(&script, "#!/bin/sh\nend=$(($(date +%s) + $1))\nwhile [ $(date +%s) -lt $end ]; do :; done\n")
        .unwrap();
    let jobs: u64 = std::env::var("CORUN_JOBS").map_or(8, |n| n.parse().unwrap());
    for job in 0..jobs {
        let mut command = cluster.slurm("sbatch");
        command.args(["-n1", "-o", "/dev/null"]).arg(&script).arg((5 + job % 4).to_string());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
    }
    // Series end two minutes after their job, with their final values.
    let mut ledgers = vec![Share { lost: 0.0, wanted: 0.0 }; jobs as usize];
    let mut look = |path| {
        let metrics = agent.get(path).1;
        for (job, known) in (1..).zip(&mut ledgers) {
            let now = ledger(&metrics, job);
            *known = if now.wanted > known.wanted { now } else { *known };
        }
    };
    cluster.finish(Duration::from_secs(120 + 20 * jobs), || look("/metrics"));
    look("/metrics?now");
    let (mut worst, mut most_after) = (0.0f64, 0.0f64);
    let mut nodes = BTreeSet::new();
    for (job, whole) in (1..=jobs).zip(ledgers) {
        let shown = cluster.told("scontrol", &["show", "job", &job.to_string()]);
        let comment = shown
            .lines()
            .find_map(|l| l.trim().strip_prefix("Comment="))
            .unwrap_or_else(|| panic!("{shown}"));
        let (node, sentence) = comment.split_once(": corun: lost ").unwrap_or_else(|| panic!("{comment}"));
        nodes.insert(NODES.iter().position(|n| *n == node).unwrap_or_else(|| panic!("{comment}")));
        let said = Share::said(sentence).unwrap_or_else(|| panic!("{comment}"));
        // The time after the sentence is the rest of the epilog. For the time before it, both agree, apart
        // from rounding.
        let after = Share { lost: whole.lost - said.lost, wanted: whole.wanted - said.wanted };
        let rounded = 0.05 + 0.0005 * whole.wanted + 0.05;
        let is_same = after.lost > -rounded && after.lost < after.wanted + rounded;
        let (percent, seconds) = (whole.percent(), whole.wanted);
        let text = format!("job {job}: {comment}; in the ledger {percent:.2} % ({seconds:.2} s wanted)");
        println!("{text}");
        assert!(is_same, "{text}");
        worst = worst.max((said.percent() - percent).abs());
        most_after = most_after.max(after.wanted);
    }
    assert_eq!(nodes.len(), NODES.len(), "all jobs ran on one node");
    println!(
        "{jobs} jobs: at most {worst:.2} points between sentence and ledger, which has up to {most_after:.2} s more, of the epilog"
    );
    let took = fs::read_to_string(folder.path().join("took")).unwrap();
    let mut took: Vec<f64> = took.lines().map(|ns| ns.parse::<f64>().unwrap() / 1e6).collect();
    assert_eq!(took.len() as u64, jobs, "each job ran its epilog");
    took.sort_by(f64::total_cmp);
    let (median, most) = (took[took.len() / 2], took[took.len() - 1]);
    let over = took.iter().filter(|ms| **ms > 50.0).count();
    println!("the epilog took {median:.0} ms (median), {most:.0} ms at most; {over} took more than 50 ms");

    // Two nodes end at the same moment, and nothing is locked. So one of their sentences may be gone, as if
    // the other had overwritten it. The batch script ends last, and adds the missing one.
    let both = format!("srun --overlap -N2 -n2 {} 2", script.display());
    let gone = format!("{both}; scontrol update JobId=$SLURM_JOB_ID Comment=");
    let wide: Vec<(u64, &str)> = (jobs + 1..).zip([&*both, &both, &gone, &gone]).collect();
    for (_, script) in &wide {
        let output =
            cluster.slurm("sbatch").args(["-N2", "-n2", "-o", "/dev/null", "--wrap", script]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", said(&output));
    }
    cluster.finish(Duration::from_secs(120), || {});
    for (job, script) in &wide {
        let shown = cluster.told("scontrol", &["show", "job", &job.to_string()]);
        let comment = shown.lines().find_map(|l| l.trim().strip_prefix("Comment=")).unwrap_or_default();
        println!("job {job}: {comment}");
        let counts = NODES.map(|node| comment.matches(&format!("{node}: corun: lost ")).count());
        assert_eq!(counts, [1, 1], "{script}: {shown}");
    }
    println!("{} of {0} jobs on two nodes have the sentences of both", wide.len());
}

/// The line of a page of the documentation that begins so.
fn documented(page: &str, begin: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = fs::read_to_string(path).unwrap();
    text.lines().find(|line| line.starts_with(begin)).unwrap_or_else(|| panic!("{page}: {begin}")).to_owned()
}

#[test]
fn an_array_of_jobs_makes_the_parts_of_a_study_as_documented() {
    let folder = tempfile::tempdir().unwrap();
    let agent = Agent::start(&[]);
    let Some(cluster) = Cluster::up(folder.path(), &agent.address) else { return };
    fs::write(folder.path().join("my.toml"), include_str!("loops.toml")).unwrap();
    let path = cargo_bin("corun").parent().unwrap().display().to_string();
    let path = format!("{path}:{}", std::env::var("PATH").unwrap());
    let run = |line: &str| {
        let mut sh = cluster.slurm("sh");
        let output = sh.args(["-c", line]).env("PATH", &path).current_dir(&folder).output().unwrap();
        assert!(output.status.success(), "{line}: {}", said(&output));
    };
    run("corun study my.toml --out whole --quiet");
    let (page, smaller) = ("schedulers.md", |line: String| line.replace("study schedulers", "study my.toml"));
    let line = smaller(documented(page, "sbatch --array=")).replace("1-20", "1-3").replace("/20", "/3");
    run(&line);
    cluster.finish(Duration::from_secs(180), || {});
    let parts = folder.path().join("parts");
    assert_eq!(fs::read_dir(&parts).unwrap().count(), 3, "{line}");
    run(&documented(page, "corun study merge").replace("DIR", "merged"));
    for entry in fs::read_dir(folder.path().join("whole")).unwrap().map(Result::unwrap) {
        let merged = fs::read(folder.path().join("merged").join(entry.file_name())).unwrap_or_default();
        assert!(merged == fs::read(entry.path()).unwrap(), "{:?} differs", entry.file_name());
    }
}
