//! What is found for a hook is kept. The source is compiled into this test: a program that is linked to the library would be hooked itself.
#![allow(dead_code)]

#[path = "../src/real.rs"]
mod real;

use real::{Cache, Near};
use std::ffi::c_void;

/// As many addresses as are kept.
const KEPT: usize = 16;

fn address(number: usize) -> *mut c_void {
    std::ptr::without_provenance_mut(number)
}

#[test]
fn each_address_gets_what_was_found_for_it_and_is_searched_for_once_while_it_is_kept() {
    let cache = Cache::new();
    // Two of them share a place.
    let table =
        [(0x10, true), (0x20, true), (0x10, false), (0x20, false), (0x10 + 16 * KEPT, true), (0x10, true)];
    for (from, is_searched) in table {
        let mut searched = false;
        let found = cache.get(address(from), || {
            searched = true;
            Some(address(from + 1))
        });
        assert_eq!((found, searched), (Some(address(from + 1)), is_searched), "{from:#x}");
    }
}

#[test]
fn what_is_not_there_is_not_there_the_second_time() {
    let near = Near::new(&[c"no_such_function", c"nor_this_one"]);
    let here =
        each_address_gets_what_was_found_for_it_and_is_searched_for_once_while_it_is_kept as *const c_void;
    assert_eq!([near.of(here), near.of(here)], [None, None]);
}
