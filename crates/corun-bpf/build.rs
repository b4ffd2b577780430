//! Compiles the BPF programs with clang and generates their skeletons.

use libbpf_cargo::SkeletonBuilder;
use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    SkeletonBuilder::new()
        .source("src/bpf/probe.bpf.c")
        // v3 is the newest instruction set that clang 14 (Debian 12) knows.
        .clang_args(["-mcpu=v3", "-Wall", "-Wno-unused-function", "-Wno-compare-distinct-pointer-types"])
        .build_and_generate(out.join("probe.skel.rs"))
        .unwrap_or_else(|e| panic!("compiling src/bpf/probe.bpf.c (is clang installed?): {e:#}"));
    println!("cargo:rerun-if-changed=src/bpf");
}
