//! Writing a ring: entries one after another, segment after segment; the newest segment overwrites the
//! oldest.

use super::segment::{frame_header, framed, header, scan, Fault, FRAME, HEADER};
use super::{is_full, segment_name, segments, RingError};
use corun_linux::limits::explained;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A full ring has this many segments: this part of it is lost at a time.
const SEGMENTS: u64 = 16;
/// The minimum size of a ring.
pub const LEAST_BYTES: u64 = SEGMENTS * (4 << 10);
/// The maximum size of a segment; a larger ring has more of them.
const MOST_OF_SEGMENT: u64 = 64 << 20;

/// Writes a ring, alone.
pub struct Writer {
    folder: PathBuf,
    /// Locked while the ring is where it was created; `None` if the next entry has to create it.
    lock: Option<File>,
    /// What each segment begins with.
    first: Vec<u8>,
    bytes: u64,
    segment_bytes: u64,
    /// Those before the current one, oldest first: number and length.
    older: VecDeque<(u64, u64)>,
    current: Option<Current>,
}

struct Current {
    file: File,
    number: u64,
    length: u64,
    end: u64,
}

impl Writer {
    /// Opens or creates a ring of at most `bytes` in a folder. `first` is written at the beginning of every
    /// segment, and now. If the disk is full, the next entry tries again: there may be room by then.
    ///
    /// # Errors
    /// [`RingError`]: somebody else writes to it, it is too small, or the folder cannot be written.
    pub fn open(folder: &Path, bytes: u64, first: Vec<u8>) -> Result<Writer, RingError> {
        if bytes < LEAST_BYTES {
            return Err(RingError::TooSmall(bytes));
        }
        let segment_bytes = (bytes / SEGMENTS).min(MOST_OF_SEGMENT) / FRAME as u64 * FRAME as u64;
        let mut writer = Writer {
            folder: folder.to_owned(),
            lock: None,
            first,
            bytes,
            segment_bytes,
            older: VecDeque::new(),
            current: None,
        };
        match writer.make() {
            Err(e) if !e.is_of_full_disk() => Err(e),
            _ => Ok(writer),
        }
    }

    /// Goes on with the ring that is there, or makes one.
    fn make(&mut self) -> Result<(), RingError> {
        self.try_to_make().inspect_err(|_| self.let_go())
    }

    fn try_to_make(&mut self) -> Result<(), RingError> {
        fs::create_dir_all(&self.folder).map_err(RingError::making_folder(&self.folder))?;
        self.lock = Some(lock(&self.folder)?);
        for (number, path) in segments(&self.folder)? {
            let length = fs::metadata(&path).map_err(RingError::reading(&path))?.len();
            self.older.push_back((number, length));
        }
        self.go_on()?;
        while self.used() > self.bytes && self.remove_oldest()? {}
        match self.current {
            Some(_) => self.append(&self.first.clone()),
            None => self.begin_segment(),
        }
    }

    /// The next entry makes it anew.
    fn let_go(&mut self) {
        self.current = None;
        self.older.clear();
        self.lock = None;
    }

    /// Bytes that the ring takes on the disk.
    pub fn used(&self) -> u64 {
        let current = self.current.as_ref().map_or(0, |c| c.length);
        self.older.iter().map(|(_, length)| length).sum::<u64>() + current
    }

    /// Writes an entry. When this returns, it is on the disk; if it fails, the ring is unchanged. If somebody
    /// has removed a ring, the entry after the one that notices creates it again.
    ///
    /// # Errors
    /// [`RingError`]: it is larger than a segment, the disk does not take it, or the ring is not there any more.
    pub fn append(&mut self, payload: &[u8]) -> Result<(), RingError> {
        self.notice_removal()?;
        if self.lock.is_none() {
            self.make()?;
        }
        let (bytes, first) = (framed(payload.len()), framed(self.first.len()));
        let most = self.segment_bytes - HEADER as u64;
        if bytes + first > most {
            return Err(RingError::WindowTooLarge { bytes, most });
        }
        if self.current.as_ref().is_none_or(|c| c.end + bytes > c.length) {
            self.begin_segment()?;
        }
        let current = self.current.as_mut().expect("a segment has begun");
        let path = self.folder.join(segment_name(current.number));
        current.append(payload).map_err(RingError::writing("write to", &path))
    }

    /// A removed or moved file still accepts writes, and nobody can read them.
    fn notice_removal(&mut self) -> Result<(), RingError> {
        let Some(current) = &self.current else { return Ok(()) };
        let path = self.folder.join(segment_name(current.number));
        let is_there = match (fs::metadata(&path), current.file.metadata()) {
            (Ok(named), Ok(open)) => (named.dev(), named.ino()) == (open.dev(), open.ino()),
            (Err(e), _) => e.kind() != io::ErrorKind::NotFound && e.kind() != io::ErrorKind::NotADirectory,
            (_, Err(_)) => true,
        };
        if is_there {
            return Ok(());
        }
        self.let_go();
        Err(RingError::Removed(self.folder.clone()))
    }

    /// Continues in the newest segment, if it is intact: otherwise an agent that starts often would use up
    /// the ring.
    fn go_on(&mut self) -> Result<(), RingError> {
        let Some(&(number, length)) = self.older.back() else { return Ok(()) };
        let path = self.folder.join(segment_name(number));
        let bytes = fs::read(&path).map_err(RingError::reading(&path))?;
        let seen = scan(&bytes);
        let is_good = matches!(seen.fault, None | Some((Fault::Unfinished, _)));
        if !is_good || seen.number != Some(number) || seen.length != length {
            return Ok(());
        }
        let io = || {
            let file = OpenOptions::new().write(true).open(&path)?;
            if seen.fault.is_some() {
                file.write_all_at(&vec![0; (length - seen.end) as usize], seen.end)?;
            }
            file.sync_data().map(|()| file)
        };
        let file = io().map_err(RingError::writing("write to", &path))?;
        self.older.pop_back();
        self.current = Some(Current { file, number, length, end: seen.end });
        Ok(())
    }

    /// Begins the next segment: a new one while there is room, otherwise in place of the oldest.
    fn begin_segment(&mut self) -> Result<(), RingError> {
        let newest = self.current.as_ref().map(|c| (c.number, c.length));
        let number = newest.or(self.older.back().copied()).map_or(1, |(number, _)| number + 1);
        // A segment of another length, from when the ring had another size, cannot be overwritten.
        let own = self.segment_bytes;
        let is_other = |oldest: &(u64, u64)| oldest.1 != own;
        while self.used() + self.segment_bytes > self.bytes && self.older.front().is_some_and(is_other) {
            self.remove_oldest()?;
        }
        let path = self.folder.join(segment_name(number));
        let made = if self.used() + self.segment_bytes <= self.bytes {
            self.made(&path)
        } else {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        };
        let file = match made {
            Err(e) if is_full(e.kind()) => self.oldest_renamed(&path, e)?,
            made => made.map_err(RingError::writing("make the segment", &path))?,
        };
        let mut current = Current { file, number, length: self.segment_bytes, end: HEADER as u64 };
        let written = current
            .file
            .write_all_at(&header(number, self.segment_bytes as u32), 0)
            .and_then(|()| current.append(&self.first));
        written.map_err(RingError::writing("write to", &path))?;
        self.older.extend(newest);
        self.current = Some(current);
        Ok(())
    }

    /// A new file, with all the space that it will take.
    fn made(&self, path: &Path) -> io::Result<File> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        // SAFETY: the descriptor is open, and numbers are all that is passed.
        let errno = unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, self.segment_bytes as libc::off_t) };
        let reserved = match errno {
            0 => file.sync_all().and_then(|()| self.sync_folder()),
            errno => Err(io::Error::from_raw_os_error(errno)),
        };
        reserved.inspect_err(|_| drop(fs::remove_file(path))).map(|()| file)
    }

    /// The oldest segment's file under a new name, full of zeros. Its space stays reserved throughout.
    fn oldest_renamed(&mut self, path: &Path, why: io::Error) -> Result<File, RingError> {
        let Some((oldest, length)) = self.older.pop_front() else {
            return Err(RingError::writing("make the segment", path)(why));
        };
        let old = self.folder.join(segment_name(oldest));
        let io = || {
            let file = OpenOptions::new().read(true).write(true).open(&old)?;
            // The header is cleared first: a simultaneous reader finds a segment that has not begun.
            file.write_all_at(&[0; HEADER], 0)?;
            file.write_all_at(&vec![0; length as usize - HEADER], HEADER as u64)?;
            file.sync_data()?;
            fs::rename(&old, path)?;
            self.sync_folder()?;
            Ok(file)
        };
        io().map_err(RingError::writing("write over", &old))
    }

    fn remove_oldest(&mut self) -> Result<bool, RingError> {
        let Some((oldest, _)) = self.older.pop_front() else { return Ok(false) };
        let path = self.folder.join(segment_name(oldest));
        fs::remove_file(&path).map_err(RingError::writing("remove", &path))?;
        Ok(true)
    }

    /// A name is on the disk once its folder is.
    fn sync_folder(&self) -> io::Result<()> {
        File::open(&self.folder)?.sync_all()
    }
}

impl Current {
    fn append(&mut self, payload: &[u8]) -> io::Result<()> {
        let mut filled = payload.to_vec();
        filled.resize(payload.len().next_multiple_of(FRAME), 0);
        let put = |file: &File| {
            file.write_all_at(&filled, self.end + FRAME as u64)?;
            file.write_all_at(&frame_header(self.number, payload), self.end)?;
            file.sync_data()
        };
        if let Err(e) = put(&self.file) {
            // Its previous state, as far as the disk allows; a reader stops here in any case.
            let _ = self.file.write_all_at(&[0; FRAME], self.end);
            return Err(e);
        }
        self.end += framed(payload.len());
        Ok(())
    }
}

fn lock(folder: &Path) -> Result<File, RingError> {
    let path = folder.join("lock");
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .map_err(RingError::writing("make", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(RingError::InUse(folder.to_owned())),
        Err(fs::TryLockError::Error(e)) => Err(RingError::locking(&path)(explained(e))),
    }
}
