//! The name under which programs load the library. It contains the number of the ABI in `corun.h`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcorun.so.1");
}
