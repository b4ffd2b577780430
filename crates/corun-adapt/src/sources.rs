//! Reads from Linux: the CPUs that this process may use, their idle time, and the CPU time of the process.

use std::fs::File;
use std::io;
use std::mem::size_of_val;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Room for 8,192 CPUs, the most that Linux can be built for.
const MOST_CPUS: usize = 8_192;
/// `USER_HZ`, the unit of /proc/stat: the same on every architecture that corun runs on.
const NANOS_PER_TICK: u64 = 10_000_000;

/// A set of CPUs.
#[derive(Clone, Copy)]
pub(crate) struct Cpus([u64; MOST_CPUS / 64]);

impl Cpus {
    /// The CPUs that the calling thread may run on.
    pub fn allowed() -> io::Result<Cpus> {
        let mut mask = [0u64; MOST_CPUS / 64];
        // The system call itself, since the C library's function may be a hook that calls this crate.
        // SAFETY: the kernel writes at most the size it is given.
        let written =
            unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, size_of_val(&mask), mask.as_mut_ptr()) };
        match written {
            1.. => Ok(Cpus(mask)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    fn has(&self, cpu: usize) -> bool {
        self.0.get(cpu / 64).is_some_and(|word| word >> (cpu % 64) & 1 == 1)
    }
}

/// CPU time of all threads of this process, in nanoseconds.
pub(crate) fn used_ns() -> Option<u64> {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// CPU time of the calling thread, in nanoseconds.
pub(crate) fn spent_ns() -> Option<u64> {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Time on the monotonic clock, in nanoseconds.
pub(crate) fn now_ns() -> Option<u64> {
    clock_ns(libc::CLOCK_MONOTONIC)
}

fn clock_ns(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes one timespec.
    let rc = unsafe { libc::clock_gettime(clock, &mut time) };
    (rc == 0).then(|| time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// /proc/stat, held open, with a buffer for its text.
#[derive(Debug)]
pub(crate) struct Stat {
    file: File,
    text: Vec<u8>,
}

/// The idle time of some CPUs, and how many CPUs the machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Idle {
    pub idle_ns: u64,
    pub online: u32,
}

impl Stat {
    pub fn open(root: &Path) -> io::Result<Stat> {
        let mut stat = Stat { file: File::open(root.join("proc/stat"))?, text: vec![0; 4_096] };
        // If the file fills the buffer, it may be longer. The lines of CPUs come first, and a line has at most 240 bytes.
        while stat.file.read_at(&mut stat.text, 0)? == stat.text.len() && stat.text.len() < MOST_CPUS * 256 {
            let twice = 2 * stat.text.len();
            stat.text.resize(twice, 0);
        }
        // The numbers grow.
        let twice = 2 * stat.text.len();
        stat.text.resize(twice, 0);
        Ok(stat)
    }

    /// Reads the idle time. Waiting for disks counts as idle, since such a CPU can run others.
    pub fn read(&mut self, cpus: &Cpus) -> Option<Idle> {
        let length = self.file.read_at(&mut self.text, 0).ok()?;
        idle(std::str::from_utf8(&self.text[..length]).ok()?, cpus)
    }
}

fn idle(stat: &str, cpus: &Cpus) -> Option<Idle> {
    let (mut ticks, mut online) = (0u64, 0);
    // cpuN user nice system idle iowait …
    for line in stat.lines().take_while(|line| line.starts_with("cpu")) {
        let mut fields = line.split_ascii_whitespace();
        let Some(cpu) = fields.next()?.strip_prefix("cpu").filter(|cpu| !cpu.is_empty()) else { continue };
        online += 1;
        if cpus.has(cpu.parse().ok()?) {
            let mut fields = fields.skip(3);
            ticks += fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?;
        }
    }
    (online > 0).then_some(Idle { idle_ns: ticks * NANOS_PER_TICK, online })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 1 2 3 100 7 0 0 0 0 0\ncpu1 1 2 3 200 0 0 0 0 0 0\n\
                        cpu64 1 2 3 1000 0 0 0 0 0 0\nintr 5 cpu\n";

    fn cpus(list: &[usize]) -> Cpus {
        let mut mask = [0; MOST_CPUS / 64];
        list.iter().for_each(|cpu| mask[cpu / 64] |= 1 << (cpu % 64));
        Cpus(mask)
    }

    #[test]
    fn idle_time_is_that_of_the_cpus_that_the_process_may_use() {
        for (list, ticks) in [(&[0, 1][..], 307), (&[1], 200), (&[64], 1_000), (&[5], 0)] {
            let expected = Idle { idle_ns: ticks * NANOS_PER_TICK, online: 3 };
            assert_eq!(idle(STAT, &cpus(list)), Some(expected), "{list:?}");
        }
        for bad in ["", "intr 5\n", "cpu0 1 2\n", "cpu0 1 2 3 x 5\n"] {
            assert_eq!(idle(bad, &cpus(&[0])), None, "{bad:?}");
        }
    }

    #[test]
    fn this_machine_can_be_read() {
        let cpus = Cpus::allowed().unwrap();
        assert!(cpus.count() > 0);
        let idle = Stat::open(Path::new("/")).unwrap().read(&cpus).unwrap();
        assert!(idle.online > 0);
        let before = (used_ns().unwrap(), now_ns().unwrap());
        while now_ns().unwrap() < before.1 + 5_000_000 {}
        assert!(used_ns().unwrap() > before.0);
    }
}
