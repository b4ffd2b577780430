//! The cache of a hook's search results. This test compiles the source itself: a program linked to the library would be hooked.
#![allow(dead_code)]

#[path = "../src/real.rs"]
mod real;

use real::{Cache, Near};
use std::ffi::c_void;

/// The number of libraries whose results are kept.
const KEPT: usize = 16;

fn address(number: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(number)
}

/// The result of `cache` for this address if the search finds `function`, and whether it searched.
fn asked(cache: &Cache, from: *const c_void, function: usize) -> (Option<*mut c_void>, bool) {
    let mut searched = false;
    let found = cache.get(from, || {
        searched = true;
        Some(address(function))
    });
    (found, searched)
}

#[test]
fn a_library_that_asks_from_a_hundred_places_is_searched_for_once() {
    let cache = Cache::new();
    let here = asked as *const c_void;
    assert_eq!(asked(&cache, here, 0x77), (Some(address(0x77)), true));
    for place in 0..100 {
        assert_eq!(asked(&cache, here.wrapping_byte_add(16 * place), 0x99), (Some(address(0x77)), false));
    }
    // The C library is another library.
    assert_eq!(asked(&cache, libc::getpid as *const c_void, 0x88), (Some(address(0x88)), true));
    assert_eq!(asked(&cache, libc::abort as *const c_void, 0x99), (Some(address(0x88)), false));
    assert_eq!(asked(&cache, here, 0x99), (Some(address(0x77)), false));
}

#[test]
fn more_places_than_are_kept_are_never_mixed_up() {
    let cache = Cache::new();
    // No library contains these addresses.
    for round in 0..3 {
        for number in 1..=2 * KEPT {
            let (found, searched) = asked(&cache, address(number), 0x1000 + number);
            assert_eq!(found, Some(address(0x1000 + number)), "round {round}");
            assert!(searched || round > 0, "{number} was not asked for before");
        }
    }
}

#[test]
fn a_failed_search_is_kept_too() {
    let near = Near::new(&[c"no_such_function", c"nor_this_one"]);
    let here = asked as *const c_void;
    assert_eq!([near.of(here), near.of(here)], [None, None]);
}
