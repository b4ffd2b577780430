//! Processes to watch, by PID.

use clap::builder::TypedValueParser;

/// Reads the PID of a process that may be watched: any but this one, which is no part of what it watches.
pub fn watched() -> impl TypedValueParser<Value = u32> {
    clap::value_parser!(u32).try_map(|pid| match pid == std::process::id() {
        true => {
            Err("that is corun itself (did `exec` put it in the place of its shell?); name another process")
        }
        false => Ok(pid),
    })
}
