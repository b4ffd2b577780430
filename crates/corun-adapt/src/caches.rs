//! Which CPUs share a last-level cache.

use std::fs;
use std::path::Path;

/// The last-level cache of each CPU, by the number of the first CPU under it.
#[derive(Debug, Default)]
pub(crate) struct Caches(Vec<u32>);

impl Caches {
    /// Reads sysfs below `root`: `/`, or a folder of fixtures in tests. Without sysfs the caches are unknown.
    pub fn read(root: &Path) -> Caches {
        let mut caches = Vec::new();
        while let Some(first) = last_level(&root.join(format!("sys/devices/system/cpu/cpu{}", caches.len())))
        {
            caches.push(first);
        }
        Caches(caches)
    }

    /// The cache of a CPU.
    pub fn of(&self, cpu: u32) -> Option<u32> {
        self.0.get(cpu as usize).copied()
    }
}

/// The first CPU under the highest cache of this CPU.
fn last_level(cpu: &Path) -> Option<u32> {
    let caches = (0..16).map(|index| cpu.join(format!("cache/index{index}")));
    let read = |path: std::path::PathBuf| fs::read_to_string(path).ok();
    let levels = caches.filter_map(|cache| {
        let level: u32 = read(cache.join("level"))?.trim().parse().ok()?;
        let shared = read(cache.join("shared_cpu_list"))?;
        let first = shared.trim().split(['-', ',']).next()?.parse().ok()?;
        Some((level, first))
    });
    levels.max_by_key(|(level, _)| *level).map(|(_, first)| first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_grouped_by_their_highest_cache() {
        let folder = tempfile::tempdir().unwrap();
        let caches = [
            (0, 0, "1", "0"),
            (0, 3, "3", "0-1"),
            (1, 0, "1", "1"),
            (1, 3, "3", "0-1"),
            (2, 0, "2", "2,3"),
            (3, 0, "2", "2,3"),
        ];
        for (cpu, index, level, shared) in caches {
            let cache = folder.path().join(format!("sys/devices/system/cpu/cpu{cpu}/cache/index{index}"));
            fs::create_dir_all(&cache).unwrap();
            fs::write(cache.join("level"), format!("{level}\n")).unwrap();
            fs::write(cache.join("shared_cpu_list"), format!("{shared}\n")).unwrap();
        }
        let caches = Caches::read(folder.path());
        let of: Vec<_> = (0..5).map(|cpu| caches.of(cpu)).collect();
        assert_eq!(of, [Some(0), Some(0), Some(2), Some(2), None]);
        assert_eq!(Caches::read(Path::new("/does/not/exist")).of(0), None);
    }
}
