//! Corun run by another user, without any permission.

use std::fs::{copy, set_permissions, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Corun run by an unprivileged user: a copy in `folder`, where everybody may execute it.
pub fn corun(folder: &Path) -> Command {
    let file = folder.join("corun");
    copy(assert_cmd::cargo::cargo_bin("corun"), &file).unwrap();
    for path in [folder, &file] {
        set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(&file);
    command.uid(65534).gid(65534).current_dir("/");
    command
}
