//! Whether this machine's kernel takes the probe. Nothing but trying tells: kernels are built with and without much that it reads.

use super::config::config;
use super::options::{LiveError, LiveOptions};
use crate::root::Root;
use crate::target::Subject;
use crate::topology;
use corun_bpf::Probe;

/// The smallest ring there can be: a page.
const LEAST_RING: u32 = 4_096;

/// Loads the probe with all that it can be asked for, and lets go of it again. Nothing is watched.
///
/// # Errors
/// [`LiveError`]; nothing stays behind.
pub fn try_loading(root: &Root) -> Result<(), LiveError> {
    let options = LiveOptions {
        trace_bytes: LEAST_RING,
        waits: true,
        record_bytes: LEAST_RING,
        ..LiveOptions::new(Subject::All)
    };
    Ok(Probe::try_loading(&config(root, &topology::read_machine(root)?, &options))?)
}
