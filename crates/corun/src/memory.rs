//! Memory: if there is none left, the error has a remedy. The standard library only gives the requested size,
//! and aborts.

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, for a program that ends if it gets no memory.
pub struct Memory;

const NONE_LEFT: &str =
    "corun: no memory is left for it; free some, or raise what limits it: `ulimit -v`, the memory of \
                         this container, or vm.overcommit_ratio\n";

// SAFETY: every call is the system's allocator's, whose promises are those of the trait; none returns null.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are passed on.
        given(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, length: usize) -> *mut u8 {
        // SAFETY: as above.
        given(unsafe { System.realloc(memory, layout, length) })
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// The memory, if there was any. If this process changed something on the machine, its supervisor undoes it.
fn given(memory: *mut u8) -> *mut u8 {
    if memory.is_null() {
        // SAFETY: the text outlives the call; neither call needs memory or returns into a program without any.
        unsafe {
            libc::write(libc::STDERR_FILENO, NONE_LEFT.as_ptr().cast(), NONE_LEFT.len());
            libc::_exit(1);
        }
    }
    memory
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    #[test]
    #[ignore = "ends this process; the test below runs it in another one"]
    fn asks_for_more_than_there_is() {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(isize::MAX as usize)));
    }

    #[test]
    fn a_process_without_memory_says_so_and_ends() {
        let this = std::env::current_exe().unwrap();
        let words = ["--exact", "memory::tests::asks_for_more_than_there_is", "--ignored", "--nocapture"];
        let output = Command::new(this).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).ends_with(super::NONE_LEFT), "{output:?}");
    }
}
