//! Compiles the in-kernel decisions with the system's C compiler, as ordinary functions that Rust can call.

fn main() {
    cc::Build::new()
        .file("src/decisions.c")
        .include("include")
        .flag_if_supported("-Wall")
        .flag_if_supported("-Wextra")
        .compile("corun_decisions");
    println!("cargo:rerun-if-changed=include/decisions.h");
    println!("cargo:rerun-if-changed=src/decisions.c");
}
