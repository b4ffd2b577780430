//! A page of memory that a program shares with a controller: how many threads it wants at least and at most, how far it got, and what the
//! controller advises.
//!
//! The page has no name in any file system: it is a `memfd`, which a controller finds among the open files of the program. So it is gone with
//! the program, however that ends. Its size is sealed, so that no program can make a controller that reads it fail. Every field is one word,
//! written by one side.

use crate::sources::now_ns;
use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The version of the layout. A page of another version is not read further.
pub const PAGE_VERSION: u32 = 1;
/// The first eight bytes.
const MAGIC: u64 = u64::from_le_bytes(*b"corunpg\0");
const NAME: &CStr = c"corun-page";
/// How the kernel names its descriptor.
const LINK: &str = "/memfd:corun-page";
const BYTES: usize = 4_096;
/// Older advice is of a controller that died.
const DEAD: Duration = Duration::from_secs(1);
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// What is on the page.
#[repr(C)]
struct Layout {
    magic: AtomicU64,
    version: AtomicU64,
    /// Who published it: a child that was forked has it too, and is somebody else.
    process: AtomicU64,
    least: AtomicU64,
    most: AtomicU64,
    /// Units of work done, whatever they are.
    progress: AtomicU64,
    /// By the controller: the width, and when it said so on the clock that does not jump; 0 for never.
    advised: AtomicU64,
    advised_at_ns: AtomicU64,
}

/// Why there is no page to share.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The system gives no such memory.
    #[error("no page can be shared: {0}; programs decide alone")]
    None(#[source] io::Error),
    /// The program has a page of another version.
    #[error("its page is of version {theirs}, and this is version {PAGE_VERSION}: use corun and libcorun of the same release")]
    Version {
        /// The version of the page.
        theirs: u64,
    },
    /// What looks like a page is none.
    #[error("what it calls a page is none: it is not sealed, too short, or does not begin like one")]
    Foreign,
    /// The open files of the program cannot be read.
    #[error("its open files cannot be read: {0}; run this as its user, or as root")]
    Denied(#[source] io::Error),
}

/// A page in this process's memory.
#[derive(Debug)]
struct Mapping(*mut Layout);

// SAFETY: what it points to are atomics, in memory that stays until the mapping is dropped.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(file: &File) -> io::Result<Mapping> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, of a file whose size is sealed, at an address that the kernel chooses.
        let at =
            unsafe { libc::mmap(std::ptr::null_mut(), BYTES, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapping(at.cast()))
    }

    #[inline]
    fn layout(&self) -> &Layout {
        // SAFETY: the mapping is a whole page, longer than the layout, and lives as long as `self`.
        unsafe { &*self.0 }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody has a reference that outlives `self`.
        unsafe { libc::munmap(self.0.cast(), BYTES) };
    }
}

/// The program's side.
#[derive(Debug)]
pub struct Page {
    mapping: Mapping,
    /// It is found through this.
    file: File,
}

impl AsRawFd for Page {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl Page {
    /// Shares a page of this process.
    ///
    /// # Errors
    /// The system gives none.
    pub fn publish(least: u32, most: u32) -> Result<Page, PageError> {
        let file = sealed(NAME).map_err(PageError::None)?;
        let mapping = Mapping::new(&file).map_err(PageError::None)?;
        let layout = mapping.layout();
        layout.process.store(std::process::id().into(), Relaxed);
        layout.least.store(least.into(), Relaxed);
        layout.most.store(most.into(), Relaxed);
        layout.version.store(PAGE_VERSION.into(), Relaxed);
        // Last: without it nobody reads the rest.
        layout.magic.store(MAGIC, std::sync::atomic::Ordering::Release);
        Ok(Page { mapping, file })
    }

    /// So many more units of work are done: one add.
    #[inline]
    pub fn progress(&self, units: u64) {
        self.mapping.layout().progress.fetch_add(units, Relaxed);
    }

    /// The width that a controller advises; `None` where none does, or it died.
    pub fn advice(&self) -> Option<u32> {
        let layout = self.mapping.layout();
        let at = layout.advised_at_ns.load(Relaxed);
        let is_alive = at > 0 && now_ns()?.saturating_sub(at) < DEAD.as_nanos() as u64;
        u32::try_from(layout.advised.load(Relaxed)).ok().filter(|_| is_alive)
    }

    /// Decides alone until the controller says something again.
    pub fn forget_advice(&self) {
        self.mapping.layout().advised_at_ns.store(0, Relaxed);
    }
}

/// Memory without a name, whose size nobody can change.
fn sealed(name: &CStr) -> io::Result<File> {
    // SAFETY: the name ends with a zero.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(BYTES as u64)?;
    // SAFETY: the descriptor is open.
    match unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, SEALS) } {
        0 => Ok(file),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What a program published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// It runs at least so many threads.
    pub least: u32,
    /// And at most so many.
    pub most: u32,
    /// Units of work that it has done.
    pub progress: u64,
}

/// The controller's side: the page of another process.
#[derive(Debug)]
pub struct Peer {
    mapping: Mapping,
    /// `/proc/PID/stat`, which tells of no other process that has the same number later.
    stat: File,
}

impl Peer {
    /// The page of a process, or `None` where it published none.
    ///
    /// # Errors
    /// Its page is of another version or is no page, or its open files cannot be read.
    pub fn find(process: u32) -> Result<Option<Peer>, PageError> {
        let stat = File::open(format!("/proc/{process}/stat")).map_err(PageError::Denied)?;
        let files = fs::read_dir(format!("/proc/{process}/fd")).map_err(PageError::Denied)?;
        for entry in files.flatten() {
            let is_page = fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().starts_with(LINK));
            if is_page {
                let open = File::options().read(true).write(true).open(entry.path());
                let mapping = checked(&open.map_err(PageError::Denied)?)?;
                if mapping.layout().process.load(Relaxed) == u64::from(process) {
                    return Ok(Some(Peer { mapping, stat }));
                }
            }
        }
        Ok(None)
    }

    /// Whether the process lives.
    pub fn is_alive(&self) -> bool {
        let mut text = [0; 512];
        let Ok(length) = self.stat.read_at(&mut text, 0) else { return false };
        // pid (name) state …, and the name may contain anything.
        let text = &text[..length];
        let end = text.iter().rposition(|byte| *byte == b')').unwrap_or(0);
        !matches!(text.get(end + 2), None | Some(b'Z' | b'X'))
    }

    /// What it published; `None` when it has died.
    pub fn read(&self) -> Option<Published> {
        let layout = self.mapping.layout();
        let number = |value: &AtomicU64| value.load(Relaxed).min(u32::MAX.into()) as u32;
        let (least, most) = bounds(number(&layout.least), number(&layout.most));
        self.is_alive().then(|| Published { least, most, progress: layout.progress.load(Relaxed) })
    }

    /// Advises a width, which holds for a second.
    pub fn advise(&self, width: u32) {
        let layout = self.mapping.layout();
        layout.advised.store(width.into(), Relaxed);
        layout.advised_at_ns.store(now_ns().unwrap_or(0), Relaxed);
    }

    /// Takes the advice back: the program decides alone at once.
    pub fn withdraw(&self) {
        self.mapping.layout().advised_at_ns.store(0, Relaxed);
    }
}

/// Bounds that hold together, whatever somebody else's program has written: at least one, and the most not below the least.
fn bounds(least: u32, most: u32) -> (u32, u32) {
    let least = least.max(1);
    (least, most.max(least))
}

/// Maps what should be a page.
fn checked(file: &File) -> Result<Mapping, PageError> {
    // SAFETY: the descriptor is open.
    let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
    let length = file.metadata().map_err(PageError::None)?.len();
    if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 || length < BYTES as u64 {
        return Err(PageError::Foreign);
    }
    let mapping = Mapping::new(file).map_err(PageError::None)?;
    let layout = mapping.layout();
    if layout.magic.load(std::sync::atomic::Ordering::Acquire) != MAGIC {
        return Err(PageError::Foreign);
    }
    match layout.version.load(Relaxed) {
        theirs if theirs == u64::from(PAGE_VERSION) => Ok(mapping),
        theirs => Err(PageError::Version { theirs }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh() -> (File, Mapping) {
        let file = sealed(NAME).unwrap();
        let mapping = Mapping::new(&file).unwrap();
        (file, mapping)
    }

    #[test]
    fn only_a_sealed_page_of_this_version_is_read() {
        let (file, mapping) = fresh();
        assert!(matches!(checked(&file), Err(PageError::Foreign)), "it does not begin like one");
        mapping.layout().magic.store(MAGIC, Relaxed);
        for version in [0, 2, u64::MAX] {
            mapping.layout().version.store(version, Relaxed);
            assert!(matches!(checked(&file), Err(PageError::Version { theirs }) if theirs == version));
        }
        mapping.layout().version.store(PAGE_VERSION.into(), Relaxed);
        assert!(checked(&file).is_ok());
        assert!(file.set_len(0).is_err(), "nobody can take it from a reader");
        let unsealed = tempfile::tempfile().unwrap();
        unsealed.set_len(BYTES as u64).unwrap();
        assert!(matches!(checked(&unsealed), Err(PageError::Foreign)));
    }

    #[test]
    fn whatever_a_program_writes_into_its_page_its_bounds_hold_together() {
        let (_, mapping) = fresh();
        let peer = Peer { mapping, stat: File::open("/proc/self/stat").unwrap() };
        let all = [0, 1, 7, u64::from(u32::MAX), u64::MAX];
        for (least, most) in all.iter().flat_map(|least| all.map(|most| (*least, most))) {
            peer.mapping.layout().least.store(least, Relaxed);
            peer.mapping.layout().most.store(most, Relaxed);
            let read = peer.read().unwrap();
            assert!(read.least >= 1 && read.most >= read.least, "{least} {most}: {read:?}");
            // What a controller does with them.
            peer.advise(3u32.clamp(read.least, read.most));
        }
    }

    #[test]
    fn advice_holds_while_the_controller_repeats_it() {
        let page = Page::publish(1, 8).unwrap();
        assert_eq!(page.advice(), None);
        let layout = page.mapping.layout();
        layout.advised.store(3, Relaxed);
        let now = now_ns().unwrap();
        for (ago, advice) in [(Duration::ZERO, Some(3)), (DEAD / 2, Some(3)), (2 * DEAD, None)] {
            layout.advised_at_ns.store(now - ago.as_nanos() as u64, Relaxed);
            assert_eq!(page.advice(), advice, "{ago:?} ago");
        }
    }
}
