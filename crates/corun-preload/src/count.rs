//! The number of CPUs, for programs that ask once how many there are and start that many threads. Only with `CORUN_ADAPT_COUNT=1`,
//! since a program may need the number for other reasons.
//!
//! The first question takes 60 ms, since the answer needs two readings, unless a quota or the allowed CPUs leave only one thread.

use crate::process::{hook, limit};
use std::ffi::{c_int, c_long, c_void, CStr};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::sync::OnceLock;
use std::time::Duration;

/// The value `1` switches this on.
const VARIABLE: &str = "CORUN_ADAPT_COUNT";
const FIRST_ANSWER: Duration = Duration::from_millis(60);

fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| std::env::var_os(VARIABLE).is_some_and(|value| value == "1"))
}

/// How many of `cpus` CPUs the program sees.
fn limited(cpus: u32) -> u32 {
    if !is_on() {
        return cpus;
    }
    let limited = hook(|width| {
        if width.answer().threads.is_none() {
            std::thread::sleep(FIRST_ANSWER);
            width.refresh();
        }
        limit(width, cpus)
    });
    limited.unwrap_or(cpus)
}

/// Finds the real function with this name, and keeps it in `place`.
fn real(place: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = place.load(Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name ends with a zero.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    place.store(found, Relaxed);
    found
}

/// Replaces the function of the C library.
///
/// # Safety
/// The same as for that function.
#[no_mangle]
pub unsafe extern "C" fn sysconf(name: c_int) -> c_long {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    // SAFETY: the C library has this function, with this type.
    let real: extern "C" fn(c_int) -> c_long = unsafe { std::mem::transmute(real(&REAL, c"sysconf")) };
    let answer = real(name);
    match u32::try_from(answer) {
        Ok(cpus) if name == libc::_SC_NPROCESSORS_ONLN => limited(cpus).into(),
        _ => answer,
    }
}

/// Replaces the function of the C library.
///
/// # Safety
/// The same as for that function.
#[no_mangle]
pub unsafe extern "C" fn get_nprocs() -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    // SAFETY: the C library has this function, with this type.
    let real: extern "C" fn() -> c_int = unsafe { std::mem::transmute(real(&REAL, c"get_nprocs")) };
    let answer = real();
    u32::try_from(answer).map_or(answer, |cpus| limited(cpus) as c_int)
}

/// Replaces the function of the C library. Returns only the first CPUs of those that a thread of this process may use.
///
/// # Safety
/// The same as for that function.
#[no_mangle]
pub unsafe extern "C" fn sched_getaffinity(
    pid: libc::pid_t,
    size: usize,
    mask: *mut libc::cpu_set_t,
) -> c_int {
    static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
    type Function = extern "C" fn(libc::pid_t, usize, *mut libc::cpu_set_t) -> c_int;
    // SAFETY: the C library has this function, with this type.
    let real: Function = unsafe { std::mem::transmute(real(&REAL, c"sched_getaffinity")) };
    let answer = real(pid, size, mask);
    let is_own = pid == 0 || pid as u32 == std::process::id();
    if answer == 0 && is_own && !mask.is_null() && is_on() {
        // SAFETY: the caller promises this many bytes, and the real function has just written them.
        let bytes = unsafe { std::slice::from_raw_parts_mut(mask.cast::<u8>(), size) };
        let count = |bytes: &[u8]| bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
        let mut left = limited(count(bytes));
        for byte in bytes {
            while byte.count_ones() > left {
                *byte &= !(0x80 >> byte.leading_zeros());
            }
            left -= byte.count_ones();
        }
    }
    answer
}
