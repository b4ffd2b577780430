//! Whether a sched_ext scheduler can be loaded here, and why not.

use crate::namespaces::{self, NamespaceMismatch};
use crate::root::Root;
use corun_bpf::SchedulerError;
use corun_model::why::NoSchedExt;

/// Checks without changing anything: tasks have the same numbers here and on the host, the kernel has
/// sched_ext, no other scheduler is loaded.
///
/// # Errors
/// Why not.
pub fn check(root: &Root) -> Result<(), NoSchedExt> {
    if let Some(NamespaceMismatch { why, remedy }) = namespaces::mismatch(root) {
        return Err(NoSchedExt::OtherNamespace { why, remedy });
    }
    let read = |path: &str| root.read(path).ok().map(|text| text.trim().to_owned());
    match read("/sys/kernel/sched_ext/state").as_deref() {
        None => {
            let release = read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into());
            Err(NoSchedExt::NotInKernel { release })
        }
        Some("disabled") => Ok(()),
        Some(state) => {
            let name = read("/sys/kernel/sched_ext/root/ops").unwrap_or_else(|| "another one".into());
            Err(NoSchedExt::AnotherLoaded { name, state: state.to_owned() })
        }
    }
}

/// Why loading failed, for the user.
pub(super) fn explain(e: &SchedulerError) -> String {
    let remedy = match e {
        SchedulerError::Step { why, .. } if why.kind() == libbpf_permission() => "; run as root",
        SchedulerError::Step { .. } => "; corun knows the interface of Linux 6.12 to 7.x",
        _ => "",
    };
    format!("sched_ext: {e}{remedy}")
}

fn libbpf_permission() -> corun_bpf::ErrorKind {
    corun_bpf::ErrorKind::PermissionDenied
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn root(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::new(folder.path());
        (folder, root)
    }

    #[test]
    fn a_kernel_without_sched_ext_is_named() {
        let (_folder, root) = root(&[("/proc/sys/kernel/osrelease", "6.1.0-9-amd64\n")]);
        assert_eq!(check(&root), Err(NoSchedExt::NotInKernel { release: "6.1.0-9-amd64".into() }));
    }

    #[test]
    fn another_scheduler_is_named_and_left_alone() {
        let files =
            [("/sys/kernel/sched_ext/state", "enabled\n"), ("/sys/kernel/sched_ext/root/ops", "lavd_1.0\n")];
        let (_folder, root) = root(&files);
        let (name, state) = ("lavd_1.0".to_owned(), "enabled".to_owned());
        assert_eq!(check(&root), Err(NoSchedExt::AnotherLoaded { name, state }));
    }

    #[test]
    fn a_kernel_with_room_for_one_is_fine() {
        let (_folder, root) = root(&[("/sys/kernel/sched_ext/state", "disabled\n")]);
        assert_eq!(check(&root), Ok(()));
    }
}
