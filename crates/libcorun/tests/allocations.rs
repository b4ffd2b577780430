//! Nothing is allocated after opening: an allocator counts the requests of this thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_int;
use std::ptr::null_mut;
use std::time::Duration;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: it is the system's allocator, and only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|n| n.set(n.get() + 1));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}

unsafe extern "C" fn on_change(_: *mut std::ffi::c_void, _: c_int) {}

#[test]
fn nothing_is_allocated_after_opening() {
    let mut c = null_mut();
    // SAFETY: `c` can be written, and is open below.
    unsafe {
        let before = allocations();
        assert_eq!(corun::corun_open(corun::ABI, 1, 2, &mut c), 0);
        assert!(allocations() > before, "the allocator counts");
        assert_eq!(corun::corun_workers(c, 2, 0), 0);
        assert!(corun::corun_cpus() > 0);
        let before = allocations();
        assert_eq!(corun::corun_join(c, 0), 0);
        for mode in [0, 1, 2] {
            assert_eq!(corun::corun_set_mode(c, mode), 0);
            assert_eq!(corun::corun_on_change(c, Some(on_change), null_mut()), 0);
            while corun::corun_refresh(c) == 0 {
                std::thread::sleep(Duration::from_millis(10));
            }
            let mut text = [0; 100];
            for _ in 0..100 {
                corun::corun_refresh(c);
                corun::corun_cpus();
                corun::corun_threads(c);
                corun::corun_guaranteed(c);
                corun::corun_available(c);
                corun::corun_reason(c, text.as_mut_ptr(), text.len());
                corun::corun_beat(c, 0);
                corun::corun_stolen(c, 0);
                corun::corun_on_cpu(c, 0);
                corun::corun_heir(c, 0);
                corun::corun_is_wanted(c, 0);
            }
            corun::corun_wake(c, 0);
            corun::corun_park(c, 0, 1_000);
        }
        assert_eq!(corun::corun_leave(c, 0), 0);
        assert_eq!(allocations() - before, 0);
        corun::corun_close(c);
    }
}
