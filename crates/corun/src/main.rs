//! `corun`: flags and glue. Every verb is one file in `cmd/`; the libraries do its work.

mod beside;
mod cli;
mod cmd;
mod date;
mod lines;
mod memory;
mod pid;
mod reading;
mod refusal;
mod spread;
mod stack;
mod target;
mod usage;
mod values;

use std::process::ExitCode;

#[global_allocator]
static MEMORY: memory::Memory = memory::Memory;

fn main() -> ExitCode {
    // Whoever started it may ignore the ends of its children; here they are waited for.
    // SAFETY: sets the default action, before there is another thread.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    // A limit on the size of files (`ulimit -f`) is to be said, not to end it halfway. A handler, unlike an ignored signal, is
    // not passed on to the commands that it starts.
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGXFSZ, nothing as extern "C" fn(i32) as usize) };
    if let Err(bytes) = stack::take_room() {
        eprintln!(
            "corun: this session allows a stack of {} KiB, which is too little; raise `ulimit -s`",
            bytes >> 10
        );
        return ExitCode::FAILURE;
    }
    corun_session::supervise_if_asked().unwrap_or_else(cli::main)
}

extern "C" fn nothing(_signal: i32) {}
