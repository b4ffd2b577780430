//! Compiles the BPF programs with clang and generates their skeletons.

use libbpf_cargo::SkeletonBuilder;
use std::path::PathBuf;

/// What is decided in the kernel is the policies' business; the header stands with them.
const DECISIONS: &str = "../corun-policy/include";

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let decisions = format!("-I{DECISIONS}");
    for program in ["probe", "sched", "floor"] {
        SkeletonBuilder::new()
            .source(format!("src/bpf/{program}.bpf.c"))
            // v3 is the newest instruction set that clang 14 (Debian 12) knows.
            .clang_args([
                "-mcpu=v3",
                "-Wall",
                "-Wno-unused-function",
                "-Wno-compare-distinct-pointer-types",
                &decisions,
            ])
            .build_and_generate(out.join(format!("{program}.skel.rs")))
            .unwrap_or_else(|e| panic!("compiling src/bpf/{program}.bpf.c (is clang installed?): {e:#}"));
    }
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-changed={DECISIONS}");
}
