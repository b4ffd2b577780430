//! The sentence that a Slurm job gets into its comment, on a real Slurm: a controller and a node on this machine, and an agent.
//!
//! `CORUN_JOBS` says how many jobs there are (8), four at a time. Needs root, and of Debian slurmctld, slurmd, slurm-client, munge and curl.

mod serving;

use serde_json::Value;
use serving::{run, said, Agent};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const NODE: &str = "corun-test-node";

/// A cluster of one node; ended when dropped.
struct Cluster {
    folder: PathBuf,
    daemons: Vec<Child>,
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
            let top = tree.path().join(format!("slurm_{NODE}"));
            let _ = fs::remove_dir(top.join("uid_0"));
            let _ = fs::remove_dir(top);
        }
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Cluster {
    fn start(folder: &Path, metrics: &str) -> Cluster {
        let name = String::from_utf8(Command::new("hostname").output().unwrap().stdout).unwrap();
        let (name, at) = (name.trim(), folder.display());
        for made in ["state", "spool", "munge"] {
            fs::create_dir(folder.join(made)).unwrap();
        }
        let packaging =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/slurm").canonicalize().unwrap();
        let epilog = folder.join("epilog");
        let script = format!(
            "#!/bin/sh\nexport PATH=/usr/bin:/bin CORUN_METRICS=http://{metrics}/metrics\nexec {}/corun-task-epilog\n",
            packaging.display()
        );
        fs::write(&epilog, script).unwrap();
        fs::set_permissions(&epilog, fs::Permissions::from_mode(0o755)).unwrap();
        let key = folder.join("munge/key");
        fs::write(&key, [7; 128]).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).unwrap();
        let config = format!(
            "ClusterName=corun\nSlurmctldHost={name}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\n\
             AuthInfo=socket={at}/munge/socket\nStateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool\n\
             SlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd.pid\nSlurmctldPort={}\n\
             ProctrackType=proctrack/cgroup\nTaskPlugin=task/none\nSelectType=select/cons_tres\n\
             SelectTypeParameters=CR_CPU\nMpiDefault=none\nReturnToService=2\nMinJobAge=3600\n\
             SlurmdParameters=config_overrides\nTaskEpilog={at}/epilog\n\
             NodeName={NODE} NodeHostname={name} NodeAddr=127.0.0.1 Port={} CPUs=4 RealMemory=500\n\
             PartitionName=all Nodes={NODE} Default=YES MaxTime=INFINITE State=UP\n",
            free_port(),
            free_port()
        );
        fs::write(folder.join("slurm.conf"), config).unwrap();
        fs::write(folder.join("cgroup.conf"), "CgroupAutomount=yes\nConstrainCores=no\n").unwrap();
        let mut cluster = Cluster { folder: folder.to_owned(), daemons: Vec::new() };
        let munge = |what: &str| format!("--{what}={at}/munge/{what}");
        let mut munged = Command::new("/usr/sbin/munged");
        munged.args(["--foreground", "--force"]).arg(format!("--key-file={}", key.display()));
        cluster.daemon(munged.args(["socket", "pid-file", "log-file", "seed-file"].map(munge)));
        let controller = &mut cluster.slurm("/usr/sbin/slurmctld");
        cluster.daemon(controller.args(["-D", "-c"]));
        let node = &mut cluster.slurm("/usr/sbin/slurmd");
        cluster.daemon(node.args(["-D", "-N", NODE]));
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

    /// Whether the node takes jobs, before patience ends.
    fn is_up(&self) -> bool {
        let until = Instant::now() + Duration::from_secs(60);
        while Instant::now() < until {
            if self.told("sinfo", &["--noheader", "--format=%T"]).trim() == "idle" {
                return true;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        false
    }
}

/// What others took of what the job wanted, in per cent, from the ring.
fn lost_percent(ring: &str, job: &str) -> f64 {
    let output = run(&["profile", "--from", ring, "--tenant", &format!("slurm {job}.batch"), "--json", "-"]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let subject = &report["subject"];
    let ns = |of: &str| subject["ledger"][of].as_u64().unwrap_or(0);
    let others = subject["culprits"].as_array().unwrap().iter();
    let others =
        others.filter(|c| c["tenant"]["id"] != subject["tenant"]["id"] && c["tenant"]["kind"] != "idle");
    let taken: u64 = others.map(|c| c["steal_ns"].as_u64().unwrap()).sum();
    let wanted = ns("compute_ns") + ns("spin_ns") + ns("steal_ns") + ns("throttled_ns");
    100.0 * (taken + subject["unattributed_ns"].as_u64().unwrap()) as f64 / wanted as f64
}

#[test]
fn each_job_has_a_sentence_in_its_comment_that_says_what_the_ledger_says() {
    // SAFETY: takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return println!("skipped: slurmd needs root");
    }
    for tool in ["/usr/sbin/munged", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "scontrol", "curl"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return println!(
                "skipped: {tool} is not there (Debian: munge, slurmctld, slurmd, slurm-client, curl)"
            );
        }
    }
    let folder = tempfile::tempdir().unwrap();
    // munged looks at who may write to its folders.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let (ring, config) = (folder.path().join("ring"), folder.path().join("agent.toml"));
    let ring = ring.to_str().unwrap();
    fs::write(
        &config,
        format!("window = \"200ms\"\n[ring]\nfolder = {ring:?}\nsize = \"64MiB\"\ninterval = \"200ms\"\n"),
    )
    .unwrap();
    let agent = Agent::start(&["--config", config.to_str().unwrap()]);
    let cluster = Cluster::start(folder.path(), &agent.address);
    if !cluster.is_up() {
        return println!("skipped: slurmd cannot work here: {}", cluster.told("scontrol", &["show", "node"]));
    }
    let script = folder.path().join("job");
    fs::write(&script, "#!/bin/sh\nend=$(($(date +%s) + 12))\nwhile [ $(date +%s) -lt $end ]; do :; done\n")
        .unwrap();
    let jobs: u64 = std::env::var("CORUN_JOBS").map_or(8, |n| n.parse().unwrap());
    for _ in 0..jobs {
        let output = cluster.slurm("sbatch").args(["-n1", "-o", "/dev/null"]).arg(&script).output().unwrap();
        assert!(output.status.success(), "{}", said(&output));
    }
    let until = Instant::now() + Duration::from_secs(120 + 20 * jobs);
    while !cluster.told("squeue", &["--noheader"]).trim().is_empty() {
        assert!(Instant::now() < until, "{}", cluster.told("squeue", &[]));
        std::thread::sleep(Duration::from_millis(500));
    }
    // What was seen last is on the disk.
    std::thread::sleep(Duration::from_secs(1));
    let mut worst: f64 = 0.0;
    for job in 1..=jobs {
        let shown = cluster.told("scontrol", &["show", "job", &job.to_string()]);
        let comment = shown
            .lines()
            .find_map(|l| l.trim().strip_prefix("Comment="))
            .unwrap_or_else(|| panic!("{shown}"));
        let sentence =
            comment.strip_prefix(&format!("{NODE}: corun: lost ")).unwrap_or_else(|| panic!("{comment}"));
        let percent: f64 = sentence.split(' ').next().unwrap().parse().unwrap();
        let ledger = lost_percent(ring, &job.to_string());
        worst = worst.max((percent - ledger).abs());
        assert!((percent - ledger).abs() < 10.0, "job {job}: {comment}, and {ledger:.1} % in the ledger");
    }
    println!("{jobs} jobs: at most {worst:.2} points between sentence and ledger");
}
