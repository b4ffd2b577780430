//! Compiles the BPF programs with clang and generates their skeletons.

use libbpf_cargo::SkeletonBuilder;
use std::path::PathBuf;

fn main() {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    // The header of the decisions in the kernel, which the modelled machine compiles, too.
    let decisions = std::env::var("DEP_CORUN_DECISIONS_INCLUDE").expect("corun-decisions says where it is");
    let include = format!("-I{decisions}");
    for program in ["probe", "births", "sched", "floor"] {
        SkeletonBuilder::new()
            .source(format!("src/bpf/{program}.bpf.c"))
            // v3 is the newest instruction set that clang 14 (Debian 12) supports.
            .clang_args([
                "-mcpu=v3",
                "-Wall",
                "-Wno-unused-function",
                "-Wno-compare-distinct-pointer-types",
                &include,
            ])
            .build_and_generate(out.join(format!("{program}.skel.rs")))
            .unwrap_or_else(|e| panic!("compiling src/bpf/{program}.bpf.c (is clang installed?): {e:#}"));
    }
    println!("cargo:rerun-if-changed=src/bpf");
    println!("cargo:rerun-if-changed={decisions}");
}
