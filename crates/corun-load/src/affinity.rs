//! Reads the CPUs that a thread may use, and pins it to one.

use crate::LoadError;
use std::io;

/// Room for 8,192 CPUs, the most that Linux can be built for.
type Mask = [u64; 128];

/// The CPUs that the calling thread may run on, in order.
pub fn allowed_cpus() -> io::Result<Vec<u32>> {
    let mut mask: Mask = [0; 128];
    // SAFETY: the kernel writes at most the size it is given.
    let rc = unsafe { libc::sched_getaffinity(0, size_of::<Mask>(), mask.as_mut_ptr().cast()) };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((0..64 * mask.len() as u32).filter(|cpu| mask[*cpu as usize / 64] >> (cpu % 64) & 1 == 1).collect())
}

/// Pins the calling thread to `cpu`.
pub fn pin_this_thread(cpu: u32) -> io::Result<()> {
    let mut mask: Mask = [0; 128];
    let word = mask.get_mut(cpu as usize / 64).ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?;
    *word = 1 << (cpu % 64);
    // SAFETY: the kernel reads the mask alone.
    match unsafe { libc::sched_setaffinity(0, size_of::<Mask>(), mask.as_ptr().cast()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Checks that this process may use all of `cpus`.
///
/// # Errors
/// [`LoadError::Cpu`] with the first CPU that it may not use, and those that it may.
pub fn check(cpus: &[u32]) -> Result<(), LoadError> {
    let allowed = allowed_cpus().map_err(LoadError::Affinity)?;
    match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(&cpu) => Err(LoadError::Cpu { cpu, allowed: list(&allowed) }),
        None => Ok(()),
    }
}

/// Writes CPUs as the kernel does: `0-3,6`.
pub fn list(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let write = |(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    ranges.iter().map(write).collect::<Vec<_>>().join(",")
}

/// Reads a list of CPUs such as `0-3,6`, in the order given.
///
/// # Errors
/// One sentence that names the text and the remedy.
pub fn parse(text: &str) -> Result<Vec<u32>, String> {
    let bad = || format!("`{text}` is not a list of CPUs such as 0-3,6");
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |t: &str| t.trim().parse::<u32>().ok().filter(|n| *n < 8192).ok_or_else(bad);
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(bad());
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read_and_written_as_the_kernel_does() {
        assert_eq!(parse("0-3,6"), Ok(vec![0, 1, 2, 3, 6]));
        assert_eq!(parse("1,0"), Ok(vec![1, 0]));
        assert_eq!(list(&[0, 1, 2, 3, 6]), "0-3,6");
        assert_eq!(list(&[]), "");
        for bad in ["", "a", "3-1", "0-99999", "1,,2", "-1"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_pinned_thread_may_use_only_that_cpu() {
        let cpu = *allowed_cpus().unwrap().last().unwrap();
        let after = std::thread::spawn(move || {
            pin_this_thread(cpu).unwrap();
            allowed_cpus().unwrap()
        });
        assert_eq!(after.join().unwrap(), [cpu]);
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused_with_those_that_do() {
        assert!(check(&allowed_cpus().unwrap()).is_ok());
        let refusal = check(&[8191]).unwrap_err().to_string();
        assert!(refusal.starts_with("CPU 8191 is not one this process may use"), "{refusal}");
    }
}
