//! What `corun control` says before it begins.

use super::{corun, said};
use corun_linux::cgroup::Cgroups;
use corun_linux::Root;
use std::path::PathBuf;

/// A cgroup that nobody is in, removed when dropped.
struct Empty(PathBuf);

impl Empty {
    fn make(name: &str) -> Option<Empty> {
        let cgroups = Cgroups::discover(&Root::new("/")).ok()?;
        let folder = cgroups.v2()?.mount.join(name);
        std::fs::create_dir(&folder).ok()?;
        Some(Empty(folder))
    }
}

impl Drop for Empty {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn who_is_given_by_the_key_of_an_empty_cgroup_may_come_later_and_is_said_to_be_away() {
    let Some(_empty) = Empty::make("corun-comes-later") else {
        println!("skipped: no cgroup can be made here");
        return;
    };
    let key = "cgroup:/corun-comes-later";
    let out = corun(&["control", "gang", "--tenant", key, "--dry-run", "--for", "200ms", "-q"]);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let line = format!("--tenant {key}: nobody is in it now; who comes will be controlled");
    assert!(said(&out).contains(&line), "{}", said(&out));
}

#[test]
fn a_key_that_nobody_who_comes_into_its_cgroup_has_is_refused_with_theirs() {
    let Some(_empty) = Empty::make("corun-comes-later.scope") else {
        println!("skipped: no cgroup can be made here");
        return;
    };
    let key = "cgroup:/corun-comes-later.scope";
    let out = corun(&["control", "gang", "--tenant", key, "--dry-run", "--for", "200ms", "-q"]);
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(said(&out).contains("is `unit:/corun-comes-later.scope`; give --tenant that"), "{}", said(&out));
}
