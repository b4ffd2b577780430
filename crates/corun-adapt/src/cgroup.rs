//! Finds the cgroup of this process, and reads its quotas and weights.
//!
//! Quotas are read from both hierarchies. Weights are read only from the unified one, and only if the path to its root is visible. A
//! container's own view hides the siblings outside, so the share of a weight is unknown.

use crate::decision::Quota;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Open files of all quotas that limit this process.
#[derive(Debug)]
pub(crate) struct Quotas {
    /// Whether a cgroup was found. Without one, quotas are unknown.
    is_known: bool,
    levels: Vec<Level>,
}

#[derive(Debug)]
enum Level {
    /// `cpu.max`: quota or `max`, and period.
    Unified(File),
    /// `cpu.cfs_quota_us`, -1 for none, and `cpu.cfs_period_us`.
    Legacy(File, File),
}

/// The place of this process in the cpu hierarchy: its own folder, the folder of the mount, whether the hierarchy is unified, and
/// whether the mount shows the root.
struct Place {
    leaf: PathBuf,
    mount: PathBuf,
    is_unified: bool,
    shows_root: bool,
}

/// Finds the cgroup of this process. `root` is `/`, or a folder of fixtures in tests.
fn place(root: &Path) -> Option<Place> {
    let cgroups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let path_of = |matches: &dyn Fn(&str, &str) -> bool| {
        cgroups.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (number, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            matches(number, controllers).then(|| path.to_owned())
        })
    };
    // mountinfo: id parent device root mount-point options … - type source super-options
    let mount_of = |matches: &dyn Fn(&str, &str) -> bool| {
        mounts.lines().find_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let mut after = after.split(' ');
            let (kind, _, options) = (after.next()?, after.next()?, after.next()?);
            let mut before = before.split(' ').skip(3);
            let (inside, point) = (before.next()?, before.next()?);
            matches(kind, options).then(|| (inside.to_owned(), point.to_owned()))
        })
    };
    let has_cpu = |list: &str| list.split(',').any(|controller| controller == "cpu");
    let legacy = path_of(&|_, controllers| has_cpu(controllers))
        .and_then(|path| Some((path, mount_of(&|kind, options| kind == "cgroup" && has_cpu(options))?)));
    let unified = || {
        let path = path_of(&|number, controllers| number == "0" && controllers.is_empty())?;
        Some((path, mount_of(&|kind, _| kind == "cgroup2")?))
    };
    let is_unified = legacy.is_none();
    let (path, (inside, point)) = legacy.or_else(unified)?;
    let below = Path::new(&path).strip_prefix(&inside).ok()?;
    let mount = root.join(point.trim_start_matches('/'));
    Some(Place { leaf: mount.join(below), mount, is_unified, shows_root: inside == "/" })
}

/// All cgroups from the process's own up to the root of the mount, which is included.
fn way_up(place: &Place) -> impl Iterator<Item = &Path> {
    place.leaf.ancestors().take_while(|folder| folder.starts_with(&place.mount))
}

fn read(folder: &Path, file: &str) -> Option<u64> {
    fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
}

impl Quotas {
    /// Opens the quotas that limit this process.
    pub fn open(root: &Path) -> Quotas {
        let Some(place) = place(root) else { return Quotas { is_known: false, levels: Vec::new() } };
        let open = |folder: &Path| {
            if place.is_unified {
                return File::open(folder.join("cpu.max")).ok().map(Level::Unified);
            }
            let quota = File::open(folder.join("cpu.cfs_quota_us")).ok()?;
            Some(Level::Legacy(quota, File::open(folder.join("cpu.cfs_period_us")).ok()?))
        };
        Quotas { is_known: place.leaf.is_dir(), levels: way_up(&place).filter_map(open).collect() }
    }

    /// Reads the quotas. Returns the tightest.
    pub fn read(&self) -> Quota {
        if !self.is_known {
            return Quota::Unknown;
        }
        let mut tightest = Quota::None;
        for level in &self.levels {
            match (level.milli(), tightest) {
                (Quota::Unknown, _) => return Quota::Unknown,
                (Quota::Milli(milli), Quota::Milli(already)) if milli >= already => {}
                (Quota::Milli(milli), _) => tightest = Quota::Milli(milli),
                (Quota::None, _) => {}
            }
        }
        tightest
    }
}

impl Level {
    fn milli(&self) -> Quota {
        let (mut first, mut second) = ([0; 64], [0; 64]);
        let (quota, period) = match self {
            Level::Unified(max) => match text(max, &mut first).and_then(|text| text.split_once(' ')) {
                Some(("max", _)) => return Quota::None,
                Some((quota, period)) => (quota.parse().ok(), period.parse().ok()),
                None => (None, None),
            },
            Level::Legacy(quota, period) => match text(quota, &mut first) {
                Some("-1") => return Quota::None,
                quota => (
                    quota.and_then(|quota| quota.parse().ok()),
                    text(period, &mut second).and_then(|period| period.parse().ok()),
                ),
            },
        };
        let (quota, period): (Option<u64>, Option<u64>) = (quota, period);
        match (quota, period.filter(|period| *period > 0)) {
            (Some(quota), Some(period)) => Quota::Milli(quota.saturating_mul(1_000) / period),
            _ => Quota::Unknown,
        }
    }
}

fn text<'b>(file: &File, buffer: &'b mut [u8; 64]) -> Option<&'b str> {
    let length = file.read_at(buffer, 0).ok()?;
    std::str::from_utf8(&buffer[..length]).ok().map(str::trim)
}

/// The share of the machine that weights give this process's cgroup when all cgroups with tasks compete, in millionths.
///
/// At every level it is the weight of the cgroup over the weights of all populated cgroups of that level. The root has no weight, so a
/// process in it has no known share.
pub(crate) fn share_ppm(root: &Path) -> Option<u64> {
    let place = place(root).filter(|place| place.is_unified && place.shows_root)?;
    // The real root has no weight. With a weight, this process sees the inside of a container.
    if place.leaf == place.mount || place.mount.join("cpu.weight").exists() {
        return None;
    }
    let mut ppm = 1_000_000;
    for folder in way_up(&place).filter(|folder| *folder != place.mount) {
        let Some(own) = read(folder, "cpu.weight") else {
            // The controller is not enabled here, so this level competes together with its parent.
            continue;
        };
        let beside = fs::read_dir(folder.parent()?).ok()?.flatten().map(|entry| entry.path());
        let beside = beside.filter(|path| path != folder && is_populated(path));
        let others: u64 = beside.filter_map(|path| read(&path, "cpu.weight")).sum();
        ppm = ppm * own / (own + others).max(1);
    }
    Some(ppm)
}

fn is_populated(folder: &Path) -> bool {
    fs::read_to_string(folder.join("cgroup.events")).is_ok_and(|events| events.contains("populated 1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    const UNIFIED: (&str, &str) = (
        "proc/self/mountinfo",
        "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
    );
    const IN_A_B: (&str, &str) = ("proc/self/cgroup", "0::/a/b\n");

    #[test]
    fn the_tightest_quota_on_the_way_up_counts() {
        let table: [(&[(&str, &str)], Quota); 6] = [
            (&[UNIFIED, IN_A_B, ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n")], Quota::None),
            (&[UNIFIED, IN_A_B, ("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n")], Quota::Milli(500)),
            (
                &[
                    UNIFIED,
                    IN_A_B,
                    ("sys/fs/cgroup/a/b/cpu.max", "300000 100000\n"),
                    ("sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
                ],
                Quota::Milli(1_500),
            ),
            (&[UNIFIED, IN_A_B, ("sys/fs/cgroup/a/b/cpu.max", "?\n")], Quota::Unknown),
            (&[UNIFIED, IN_A_B], Quota::Unknown),
            (&[], Quota::Unknown),
        ];
        for (files, quota) in table {
            let folder = fixture(files);
            assert_eq!(Quotas::open(folder.path()).read(), quota, "{files:?}");
        }
    }

    #[test]
    fn quotas_of_the_legacy_hierarchy_are_read_too() {
        let mounts =
            ("proc/self/mountinfo", "31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
        let own = ("proc/self/cgroup", "4:memory:/\n1:cpu,cpuacct:/job\n0::/\n");
        let folder = "sys/fs/cgroup/cpu/job/";
        for (quota, expected) in
            [("-1\n", Quota::None), ("25000\n", Quota::Milli(250)), ("x\n", Quota::Unknown)]
        {
            let quota_file = format!("{folder}cpu.cfs_quota_us");
            let period_file = format!("{folder}cpu.cfs_period_us");
            let root = fixture(&[mounts, own, (&quota_file, quota), (&period_file, "100000\n")]);
            assert_eq!(Quotas::open(root.path()).read(), expected, "{quota}");
            assert_eq!(share_ppm(root.path()), None);
        }
    }

    #[test]
    fn a_weight_is_worth_its_share_among_cgroups_with_tasks_at_every_level() {
        let all = [
            UNIFIED,
            IN_A_B,
            ("sys/fs/cgroup/a/cpu.weight", "100\n"),
            ("sys/fs/cgroup/a/b/cpu.weight", "300\n"),
            ("sys/fs/cgroup/a/c/cpu.weight", "100\n"),
            ("sys/fs/cgroup/a/c/cgroup.events", "populated 1\n"),
            ("sys/fs/cgroup/x/cpu.weight", "100\n"),
            ("sys/fs/cgroup/x/cgroup.events", "populated 1\n"),
            ("sys/fs/cgroup/y/cpu.weight", "9000\n"),
            ("sys/fs/cgroup/y/cgroup.events", "populated 0\n"),
        ];
        assert_eq!(share_ppm(fixture(&all).path()), Some(375_000));
        // A container's own view has a weight at its root, and hides the siblings.
        let contained = [&all[..], &[("sys/fs/cgroup/cpu.weight", "100\n")]].concat();
        assert_eq!(share_ppm(fixture(&contained).path()), None);
        let in_the_root = [UNIFIED, ("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/cpu.stat", "")];
        assert_eq!(share_ppm(fixture(&in_the_root).path()), None);
    }
}
