//! The name under which programs load the library: it has the number of the ABI, which is that of `corun.h`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcorun.so.1");
}
