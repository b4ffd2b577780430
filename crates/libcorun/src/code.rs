//! The codes of `corun.h`, and their sentences.

use corun_adapt::{CrewError, Error, PageError, Taken};
use std::ffi::CStr;

/// Declares a constant and a row of the table for each code.
macro_rules! codes {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        $(#[doc = stringify!($name)] pub const $name: i32 = $value;)*

        /// Every code, its name in `corun.h` and its sentence.
        pub const CODES: &[(i32, &str, &CStr)] = &[$(($value, concat!("CORUN_", stringify!($name)), $text),)*];
    };
}

codes! {
    NOT_KNOWN = -1, c"it cannot be known here";
    NULL = -2, c"a pointer is NULL";
    OTHER_ABI = -3, c"the program was compiled for another version of libcorun: compile it again";
    BAD_MODE = -4, c"the mode is none of off, observe and on: set CORUN_ADAPT to one of them";
    NO_PROC = -5, c"/proc/stat cannot be read: mount /proc";
    NO_MEMORY = -6, c"the system gives no memory";
    FORKED = -7, c"it was opened by the process that this one was forked from: close it and open it again";
    NO_WORKERS = -8, c"workers is 0: name at least one";
    TOO_MANY_WORKERS = -9, c"workers is more than 4,096: name no more than there are CPUs";
    NO_CREW = -10, c"there are no workers yet: call corun_workers first";
    HAS_CREW = -11, c"corun_workers was called before: once is enough";
    NO_SUCH_WORKER = -12, c"there is no worker of that number: they are numbered from 0";
    NOT_JOINED = -13, c"no thread joined as that worker: call corun_join in its thread first";
    TAKEN = -14, c"another thread is that worker: give each thread its own number";
    NOBODY = -15, c"no other worker could take over";
    NO_PAGE = -16, c"the process published no page, or has died";
    PAGE_VERSION = -17, c"its page is of another version: use libcorun of the same release on both sides";
    PAGE_FOREIGN = -18, c"its page is not valid";
    PAGE_DENIED = -19, c"there is no such process, or its open files may not be read: run this as its user, or as root";
}

/// An error, as a code of `corun.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub i32);

impl From<Error> for Code {
    fn from(_: Error) -> Code {
        Code(NO_PROC)
    }
}

impl From<CrewError> for Code {
    fn from(error: CrewError) -> Code {
        Code(match error {
            CrewError::NoWorkers => NO_WORKERS,
            CrewError::TooManyWorkers => TOO_MANY_WORKERS,
            _ => NO_MEMORY,
        })
    }
}

impl From<Taken> for Code {
    fn from(_: Taken) -> Code {
        Code(TAKEN)
    }
}

impl From<PageError> for Code {
    fn from(error: PageError) -> Code {
        Code(match error {
            PageError::Version { .. } => PAGE_VERSION,
            PageError::Foreign => PAGE_FOREIGN,
            PageError::Denied(_) => PAGE_DENIED,
            _ => NO_MEMORY,
        })
    }
}

/// The sentence of a code.
pub fn text(code: i32) -> &'static CStr {
    let found = CODES.iter().find(|(number, ..)| *number == code);
    found.map_or(if code >= 0 { c"no error" } else { c"no code of libcorun" }, |(.., text)| text)
}
