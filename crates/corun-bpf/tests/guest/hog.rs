//! Tasks under test: threads that compute forever, and the kernel's counts of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc};
use std::thread::JoinHandle;

/// A thread that computes until it is dropped.
pub struct Hog {
    pub tid: u32,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Hog {
    /// One that runs anywhere, or on one CPU.
    pub fn on(cpu: Option<usize>) -> Hog {
        Hog::prepared(move || cpu.into_iter().for_each(pin))
    }

    /// A thread that has a CPU to itself: it is real-time.
    pub fn real_time_on(cpu: usize) -> Hog {
        Hog::prepared(move || {
            pin(cpu);
            let param = libc::sched_param { sched_priority: 1 };
            // SAFETY: a plain struct that outlives the call; 0 is this thread.
            assert_eq!(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &param) }, 0, "real-time");
            // From here on it takes the CPU from another task.
            crate::wait_ms(20);
        })
    }

    fn prepared(prepare: impl FnOnce() + Send + 'static) -> Hog {
        let stop = Arc::new(AtomicBool::new(false));
        let (tell, told) = mpsc::channel();
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            prepare();
            tell.send(tid()).expect("the test waits for it");
            while !stopped.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        Hog { tid: told.recv().expect("the thread starts"), stop, thread: Some(thread) }
    }

    /// CPU time and stretches so far.
    pub fn counted(&self) -> Counted {
        counted(self.tid)
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// This thread's number.
pub fn tid() -> u32 {
    // SAFETY: gettid cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// Confines this thread to a CPU.
pub fn pin(cpu: usize) {
    // SAFETY: a zeroed set is an empty one, and the CPU is below its 1024.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set), 0, "pinning to CPU {cpu}");
    }
}

/// The kernel's counts of a task.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    pub ran_ns: u64,
    pub stretches: u64,
}

impl Counted {
    pub fn since(self, before: Counted) -> Counted {
        Counted { ran_ns: self.ran_ns - before.ran_ns, stretches: self.stretches - before.stretches }
    }

    /// Mean length of a stretch on a CPU.
    pub fn mean_ns(self) -> f64 {
        self.ran_ns as f64 / self.stretches.max(1) as f64
    }
}

/// From `schedstat`: time on a CPU, time waiting, number of stretches.
pub fn counted(tid: u32) -> Counted {
    let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).expect("the task lives");
    let mut fields = text.split_whitespace().map(|f| f.parse::<u64>().expect("a number"));
    let ran_ns = fields.next().expect("three fields");
    Counted { ran_ns, stretches: fields.nth(1).expect("three fields") }
}
