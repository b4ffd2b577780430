//! Weights: of cells, of cgroups over two levels, of nice values.

use crate::hog::Hog;
use crate::{alone, cell_of, config, judge, near, ran_ns, started, wait_ms};
use corun_bpf::{Scheduler, TaskKnobs, ROOT_CELL};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

#[test]
fn cells_get_the_shares_of_their_weights() {
    let Some(_alone) = alone() else { return };
    let scheduler = started(&config());
    let hogs: Vec<Hog> = (0..6).map(|_| Hog::on(None)).collect();
    // The lighter cell has more tasks: it must not profit from that.
    let heavy = cell_of(&scheduler, 300, &[hogs[0].tid, hogs[1].tid]);
    let light = cell_of(&scheduler, 100, &[hogs[2].tid, hogs[3].tid, hogs[4].tid, hogs[5].tid]);
    let share = |ms| {
        let before = [heavy, light].map(|c| ran_ns(&scheduler, c));
        wait_ms(ms);
        let [h, l] = [(0, heavy), (1, light)].map(|(i, c)| (ran_ns(&scheduler, c) - before[i]) as f64);
        h / (h + l)
    };
    wait_ms(200);
    judge(|| near("share of the heavy cell", share(1_500), 0.75, 0.03));
    scheduler.set_weight(heavy, 50).expect("it has a weight");
    wait_ms(200);
    judge(|| near("share of the cell made light", share(1_500), 1.0 / 3.0, 0.03));
}

/// Removes its cgroup when dropped.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(path: &str, weight: u32) -> Cgroup {
        let path = PathBuf::from("/sys/fs/cgroup").join(path);
        fs::create_dir(&path).expect("the guest's root may make cgroups");
        fs::write(path.join("cpu.weight"), weight.to_string()).expect("the cpu controller is on");
        Cgroup(path)
    }

    /// The scheduler's cell for it.
    fn cell(&self, scheduler: &Scheduler) -> u32 {
        let id = fs::metadata(&self.0).expect("it is there").ino();
        scheduler.cell_of_cgroup(id).expect("it has a cell of its own")
    }

    fn usage_us(&self) -> f64 {
        let stat = fs::read_to_string(self.0.join("cpu.stat")).expect("every cgroup has one");
        let line = stat.lines().find_map(|l| l.strip_prefix("usage_usec ")).expect("it tells the usage");
        line.parse().expect("a number")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Its processes have been killed; the last of them may still exist.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            wait_ms(10);
        }
    }
}

/// A process that computes in a cgroup, on CPU 0, until it is dropped.
struct Busy(Child);

impl Busy {
    fn within(cgroup: &Cgroup, nice: i32) -> Busy {
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]).stdout(Stdio::null());
        let members = cgroup.0.join("cgroup.procs");
        // SAFETY: runs between fork and exec of a test that has no other thread writing files; the calls take plain
        // numbers and a set on the stack.
        unsafe {
            command.pre_exec(move || {
                libc::setpriority(libc::PRIO_PROCESS, 0, nice);
                crate::hog::pin(0);
                fs::write(&members, "0")
            });
        }
        Busy(command.spawn().expect("the guest has a shell"))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Shares of the time of `of`, over the next `ms`.
fn shares(of: &[&Cgroup], ms: u64) -> Vec<f64> {
    let before: Vec<f64> = of.iter().map(|c| c.usage_us()).collect();
    wait_ms(ms);
    let used: Vec<f64> = of.iter().zip(before).map(|(c, b)| c.usage_us() - b).collect();
    let sum: f64 = used.iter().sum();
    used.iter().map(|u| u / sum).collect()
}

#[test]
fn cgroups_get_the_shares_of_cpu_weight_over_two_levels_as_under_the_kernels_own_scheduler() {
    let Some(_alone) = alone() else { return };
    let outer = [Cgroup::new("a", 300), Cgroup::new("b", 100)];
    fs::write("/sys/fs/cgroup/a/cgroup.subtree_control", "+cpu")
        .expect("the cpu controller can be passed on");
    let inner = [Cgroup::new("a/x", 100), Cgroup::new("a/y", 200)];
    let of = [&inner[0], &inner[1], &outer[1]];
    // One, two and three processes: the cgroup has its share, whatever their number.
    let busy: Vec<Busy> = [0, 1, 1, 2, 2, 2].into_iter().map(|i: usize| Busy::within(of[i], 0)).collect();
    wait_ms(300);
    println!("the kernel's own: {:.3?}", shares(&of, 1_500));
    let scheduler = started(&config());
    wait_ms(300);
    judge(|| {
        let ours = shares(&of, 2_000);
        near("a/x", ours[0], 0.25, 0.03)
            .and(near("a/y", ours[1], 0.5, 0.03))
            .and(near("b", ours[2], 0.25, 0.03))
    });
    // A weight that changes while we schedule.
    fs::write("/sys/fs/cgroup/b/cpu.weight", "900").expect("the weight can be changed");
    wait_ms(200);
    judge(|| near("b at 900 of 1200", shares(&of, 1_500)[2], 0.75, 0.03));
    assert!(scheduler.exit().is_none());
    drop(busy);
    drop(inner);
}

#[test]
fn within_a_cgroup_nice_values_weigh_as_under_the_kernels_own_scheduler() {
    let Some(_alone) = alone() else { return };
    let cgroup = Cgroup::new("n", 100);
    let busy = [Busy::within(&cgroup, 0), Busy::within(&cgroup, 5)];
    let share = || {
        let ran = |b: &Busy| crate::hog::counted(b.0.id()).ran_ns;
        let before = busy.each_ref().map(ran);
        wait_ms(1_500);
        let [a, b] = [0, 1].map(|i| (ran(&busy[i]) - before[i]) as f64);
        a / (a + b)
    };
    wait_ms(300);
    println!("the kernel's own: {:.3}", share());
    let scheduler = started(&config());
    wait_ms(300);
    // 1024 to 335.
    judge(|| near("nice 0 beside nice 5", share(), 1024.0 / 1359.0, 0.04));
    drop(busy);
    drop(scheduler);
}

#[test]
fn a_cell_created_within_a_cgroup_that_goes_is_not_within_the_next_owner_of_its_number() {
    let Some(_alone) = alone() else { return };
    let scheduler = started(&config());
    let hog = Hog::on(None);
    let goes = Cgroup::new("goes", 100);
    let number = goes.cell(&scheduler);
    let within = scheduler.new_cell(number, 100).expect("there is a free cell");
    let knobs = TaskKnobs { cell: Some(within), ..TaskKnobs::default() };
    scheduler.set_task(hog.tid, &knobs).expect("there is room");
    scheduler.announce();
    wait_ms(100);
    let runs = || {
        let before = hog.counted().ran_ns;
        wait_ms(300);
        hog.counted().ran_ns > before
    };
    scheduler.park(number, true).expect("it can be parked");
    wait_ms(20);
    assert!(!runs(), "it lies within");
    drop(goes);
    // The kernel releases a cgroup some time after it was removed.
    let comes = (0..500).find_map(|_| {
        wait_ms(20);
        Some(Cgroup::new("comes", 100)).filter(|c| c.cell(&scheduler) == number)
    });
    let comes = comes.expect("a free number is used again");
    assert!(runs(), "it was parked with one that has gone");
    scheduler.park(number, true).expect("it can be parked");
    wait_ms(20);
    assert!(runs(), "it is parked with a stranger");
    let parent = scheduler.cells().into_iter().find(|c| c.id == within).expect("it is in use").parent;
    assert_eq!(parent, ROOT_CELL);
    scheduler.park(number, false).expect("it can be unparked");
    drop((hog, comes));
}
