//! A page of memory that a program shares with a controller. It holds the least and the most threads that the program wants, its
//! progress, and the advice of the controller.
//!
//! The page has no name in any file system. It is a `memfd`, which a controller finds among the open files of the program. So it ends
//! with the program, however that ends. Its size is sealed, so that no program can crash a controller that reads it. Every field is one
//! word, which only one side writes.

use crate::sources::now_ns;
use std::ffi::CStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// The version of the layout. The rest of a page with another version is not read.
pub const PAGE_VERSION: u32 = 1;
/// The first eight bytes.
const MAGIC: u64 = u64::from_le_bytes(*b"corunpg\0");
const NAME: &CStr = c"corun-page";
/// The name of the open file in /proc.
const LINK: &str = "/memfd:corun-page";
const BYTES: usize = 4_096;
/// If the advice is older, its controller has died.
const DEAD: Duration = Duration::from_secs(1);
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;

/// The layout of the page.
#[repr(C)]
struct Layout {
    magic: AtomicU64,
    version: AtomicU64,
    /// The process that published the page. A forked child inherits the page, but is not this process.
    process: AtomicU64,
    least: AtomicU64,
    most: AtomicU64,
    /// Units of work done. The program chooses the unit.
    progress: AtomicU64,
    /// Written by the controller: the width, and the monotonic time of the advice; 0 for never.
    advised: AtomicU64,
    advised_at_ns: AtomicU64,
}

/// Why a page cannot be shared or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PageError {
    /// The system provides no such memory.
    #[error("no page can be shared: {0}; programs decide alone")]
    None(#[source] io::Error),
    /// The program has a page of another version.
    #[error("its page is of version {theirs}, and this is version {PAGE_VERSION}: use corun and libcorun of the same release")]
    Version {
        /// The version of the page.
        theirs: u64,
    },
    /// A file that looks like a page is not one.
    #[error("its page is not valid: it is not sealed, is too short, or has a wrong beginning")]
    Foreign,
    /// The open files of the program cannot be read.
    #[error("its open files cannot be read: {0}; run this as its user, or as root")]
    Denied(#[source] io::Error),
}

/// A page mapped into this process.
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

/// The side of the program.
#[derive(Debug)]
pub struct Page {
    mapping: Mapping,
    /// The controller finds the page through this open file.
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
    /// The system provides none.
    pub fn publish(least: u32, most: u32) -> Result<Page, PageError> {
        let file = sealed(NAME).map_err(PageError::None)?;
        let mapping = Mapping::new(&file).map_err(PageError::None)?;
        let layout = mapping.layout();
        layout.process.store(std::process::id().into(), Relaxed);
        layout.least.store(least.into(), Relaxed);
        layout.most.store(most.into(), Relaxed);
        layout.version.store(PAGE_VERSION.into(), Relaxed);
        // Written last: without it nobody reads the rest.
        layout.magic.store(MAGIC, std::sync::atomic::Ordering::Release);
        Ok(Page { mapping, file })
    }

    /// Adds this many finished units of work. Costs one add.
    #[inline]
    pub fn progress(&self, units: u64) {
        self.mapping.layout().progress.fetch_add(units, Relaxed);
    }

    /// The width that a controller advises. `None` if no controller does, or it has died.
    pub fn advice(&self) -> Option<u32> {
        let layout = self.mapping.layout();
        let at = layout.advised_at_ns.load(Relaxed);
        let is_alive = at > 0 && now_ns()?.saturating_sub(at) < DEAD.as_nanos() as u64;
        u32::try_from(layout.advised.load(Relaxed)).ok().filter(|_| is_alive)
    }

    /// Ignores advice until the controller writes it again.
    pub fn forget_advice(&self) {
        self.mapping.layout().advised_at_ns.store(0, Relaxed);
    }
}

/// Makes memory without a name, whose size nobody can change.
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

/// What a program has published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The least threads that it runs.
    pub least: u32,
    /// The most threads that it runs.
    pub most: u32,
    /// Units of work that it has done.
    pub progress: u64,
}

/// The side of the controller: the page of another process.
#[derive(Debug)]
pub struct Peer {
    mapping: Mapping,
    /// `/proc/PID/stat`, held open: it never shows a later process with the same number.
    stat: File,
}

impl Peer {
    /// Finds the page of a process. Returns `None` if it published none.
    ///
    /// # Errors
    /// Its page has another version or is not a page, or its open files cannot be read.
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
        // The format is `pid (name) state …`, and the name may contain anything.
        let text = &text[..length];
        let end = text.iter().rposition(|byte| *byte == b')').unwrap_or(0);
        !matches!(text.get(end + 2), None | Some(b'Z' | b'X'))
    }

    /// Reads what it published. Returns `None` if it has died.
    pub fn read(&self) -> Option<Published> {
        let layout = self.mapping.layout();
        let number = |value: &AtomicU64| value.load(Relaxed).min(u32::MAX.into()) as u32;
        let (least, most) = bounds(number(&layout.least), number(&layout.most));
        self.is_alive().then(|| Published { least, most, progress: layout.progress.load(Relaxed) })
    }

    /// Advises a width. The advice holds for one second.
    pub fn advise(&self, width: u32) {
        let layout = self.mapping.layout();
        layout.advised.store(width.into(), Relaxed);
        layout.advised_at_ns.store(now_ns().unwrap_or(0), Relaxed);
    }

    /// Takes the advice back, so that the program decides alone at once.
    pub fn withdraw(&self) {
        self.mapping.layout().advised_at_ns.store(0, Relaxed);
    }
}

/// Makes valid bounds of whatever the other program wrote: the least is at least 1, and the most is not below the least.
fn bounds(least: u32, most: u32) -> (u32, u32) {
    let least = least.max(1);
    (least, most.max(least))
}

/// Maps a file after checking that it is a page.
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
    fn whatever_a_program_writes_into_its_page_its_bounds_are_consistent() {
        let (_, mapping) = fresh();
        let peer = Peer { mapping, stat: File::open("/proc/self/stat").unwrap() };
        let all = [0, 1, 7, u64::from(u32::MAX), u64::MAX];
        for (least, most) in all.iter().flat_map(|least| all.map(|most| (*least, most))) {
            peer.mapping.layout().least.store(least, Relaxed);
            peer.mapping.layout().most.store(most, Relaxed);
            let read = peer.read().unwrap();
            assert!(read.least >= 1 && read.most >= read.least, "{least} {most}: {read:?}");
            // A controller uses the bounds like this.
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
