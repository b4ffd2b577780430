//! Compiles the in-kernel decisions with the system's C compiler, as ordinary functions that Rust can call. Dependent crates get the
//! folder of the header in `DEP_CORUN_DECISIONS_INCLUDE`.

use std::path::PathBuf;

fn main() {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    cc::Build::new()
        .file("src/decisions.c")
        .include("include")
        .flag_if_supported("-Wall")
        .flag_if_supported("-Wextra")
        .compile("corun_decisions");
    println!("cargo:include={}", here.join("include").display());
    println!("cargo:rerun-if-changed=include/decisions.h");
    println!("cargo:rerun-if-changed=src/decisions.c");
}
