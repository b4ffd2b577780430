//! Perf events that sample, and the rings that they write to; and events that only count.
//!
//! A sampling event is a software clock, of a CPU or of a task. So a task gets samples in proportion to its
//! time on a CPU. The events of one CPU write to one ring.
//!
//! The period is the golden ratio of a millisecond. Programs work in round periods, and round numbers
//! approximate no ratio worse. So samples do not fall into step with the program.

use perf_event_open_sys::bindings;
use perf_event_open_sys::{ioctls, perf_event_open};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{fence, Ordering};

use super::sample::STACK_BYTES;

/// The shortest time on a CPU between two samples of a task, in nanoseconds: φ ms.
pub const PERIOD_NS_MIN: u64 = 1_618_034;

/// Data pages of a ring: with its first page, exactly what every user may lock for each CPU (516 KiB).
const RING_PAGES: usize = 128;

/// `AX` to `FLAGS` and `R8` to `R15`, by the kernel's numbers of registers.
pub const REGISTERS: u64 = 0x3ff | 0xff << 16;

/// The tasks that an event samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// The running task, by the CPU's clock.
    AnyTask,
    /// This task (0 is the caller) and all its children, by a clock that runs while the task is on the CPU.
    Task(u32),
}

/// An open perf event; closing it also ends the inherited ones.
#[derive(Debug)]
pub struct Event(OwnedFd);

fn software(config: u32) -> bindings::perf_event_attr {
    let mut attr = bindings::perf_event_attr::default();
    attr.type_ = bindings::PERF_TYPE_SOFTWARE;
    attr.config = u64::from(config);
    attr.size = size_of::<bindings::perf_event_attr>() as u32;
    attr
}

fn open(attr: &mut bindings::perf_event_attr, task: i32, cpu: i32) -> io::Result<Event> {
    let flags = bindings::PERF_FLAG_FD_CLOEXEC as libc::c_ulong;
    // SAFETY: the attributes outlive the call, and a descriptor that is returned is nobody else's.
    let fd = unsafe { perf_event_open(attr, task, cpu, -1, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just opened.
    Ok(Event(unsafe { OwnedFd::from_raw_fd(fd as RawFd) }))
}

impl Event {
    /// Samples `whom` while on `cpu`, into `ring`.
    ///
    /// # Errors
    /// The kernel's error: `ESRCH` for a task that has gone, `EACCES` for one that may not be watched.
    pub fn sampling(
        whom: Whom,
        cpu: u32,
        period_ns: u64,
        with_kernel: bool,
        ring: &Ring,
    ) -> io::Result<Event> {
        let (clock, task) = match whom {
            Whom::AnyTask => (bindings::PERF_COUNT_SW_CPU_CLOCK, -1),
            Whom::Task(tid) => (bindings::PERF_COUNT_SW_TASK_CLOCK, tid as i32),
        };
        let mut attr = software(clock);
        attr.sample_type = u64::from(
            bindings::PERF_SAMPLE_IP
                | bindings::PERF_SAMPLE_TID
                | bindings::PERF_SAMPLE_PERIOD
                | bindings::PERF_SAMPLE_REGS_USER
                | bindings::PERF_SAMPLE_STACK_USER,
        );
        attr.sample_regs_user = REGISTERS;
        attr.sample_stack_user = STACK_BYTES as u32;
        attr.__bindgen_anon_1.sample_period = period_ns;
        attr.set_inherit(u64::from(task >= 0));
        attr.set_exclude_idle(1);
        attr.set_task(1);
        attr.set_comm(1);
        attr.set_comm_exec(1);
        attr.set_exclude_hv(1);
        attr.set_exclude_kernel(u64::from(!with_kernel));
        let event = open(&mut attr, task, cpu as i32)?;
        // SAFETY: both descriptors are open perf events.
        let set = unsafe { ioctls::SET_OUTPUT(event.0.as_raw_fd(), ring.event.0.as_raw_fd()) };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(event)
    }

    /// Changes the sampling period.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn change_period(&self, period_ns: u64) -> io::Result<()> {
        let place = (&raw const period_ns).addr() as u64;
        // SAFETY: the descriptor is an open perf event; the kernel reads the number in this place.
        match unsafe { ioctls::PERIOD(self.0.as_raw_fd(), place) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Counts a tracepoint in `task` (0 is the caller), on any CPU, if `filter` matches.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn counting(task: u32, tracepoint: u64, filter: &std::ffi::CStr) -> io::Result<Event> {
        let mut attr = software(0);
        attr.type_ = bindings::PERF_TYPE_TRACEPOINT;
        attr.config = tracepoint;
        let event = open(&mut attr, task as i32, -1)?;
        // SAFETY: the descriptor is an open perf event; the kernel only reads the text.
        let set = unsafe { ioctls::SET_FILTER(event.0.as_raw_fd(), filter.as_ptr().cast_mut()) };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(event)
    }

    /// The number of counted events.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn count(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        // SAFETY: eight bytes are there to be written to.
        let read = unsafe { libc::read(self.0.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        if read == 8 {
            Ok(u64::from_le_bytes(bytes))
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// The ring for the samples of one CPU.
pub struct Ring {
    event: Event,
    map: *mut u8,
    page_bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, and every use of it takes `&mut self`.
unsafe impl Send for Ring {}

impl Ring {
    /// The ring of `cpu`, held by an event that never fires.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn of(cpu: u32) -> io::Result<Ring> {
        let mut attr = software(bindings::PERF_COUNT_SW_DUMMY);
        attr.set_exclude_kernel(1);
        attr.set_exclude_hv(1);
        let event = open(&mut attr, 0, cpu as i32)?;
        // SAFETY: no pointers.
        let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let length = (1 + RING_PAGES) * page_bytes;
        // SAFETY: a fresh mapping of an open perf event.
        let map = unsafe {
            libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, event.0.as_raw_fd(), 0)
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { event, map: map.cast(), page_bytes })
    }

    /// Passes every record that has arrived to `each`, in order, and makes room.
    pub fn drain(&mut self, mut each: impl FnMut(&[u8])) {
        let page = self.map.cast::<bindings::perf_event_mmap_page>();
        let capacity = RING_PAGES * self.page_bytes;
        // SAFETY: the first page of the mapping is this structure; the kernel writes `data_head`.
        let head = unsafe { (&raw const (*page).data_head).read_volatile() };
        fence(Ordering::Acquire);
        // SAFETY: only this code writes `data_tail`.
        let mut tail = unsafe { (&raw const (*page).data_tail).read_volatile() };
        let mut record = Vec::new();
        while tail < head {
            let header = self.bytes(tail, 8, capacity);
            let size = u16::from_le_bytes([header[6], header[7]]);
            if size < 8 {
                break;
            }
            record.clear();
            record.extend_from_slice(&self.bytes(tail, usize::from(size), capacity));
            each(&record);
            tail += u64::from(size);
        }
        fence(Ordering::Release);
        // SAFETY: as above; what lies before the tail has been copied.
        unsafe { (&raw mut (*page).data_tail).write_volatile(tail) };
    }

    /// `length` bytes from position `from` of the endless stream whose end is in the ring.
    fn bytes(&self, from: u64, length: usize, capacity: usize) -> Vec<u8> {
        let start = (from % capacity as u64) as usize;
        let first = length.min(capacity - start);
        let mut bytes = vec![0; length];
        // SAFETY: both parts lie inside the mapping's data pages, which the kernel does not write before the tail moves.
        unsafe {
            let data = self.map.add(self.page_bytes);
            std::ptr::copy_nonoverlapping(data.add(start), bytes.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, bytes.as_mut_ptr().add(first), length - first);
        }
        bytes
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped in `of`, and nothing refers to it any more.
        unsafe { libc::munmap(self.map.cast(), (1 + RING_PAGES) * self.page_bytes) };
    }
}
