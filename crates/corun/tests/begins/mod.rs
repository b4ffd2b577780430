//! The output of `corun control` before it begins.

use super::hog::Hog;
use super::{alone, corun, said};
use corun_linux::cgroup::Cgroups;
use corun_linux::Root;
use std::path::PathBuf;

/// An empty cgroup, removed when dropped.
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
fn a_tenant_given_by_the_key_of_an_empty_cgroup_may_come_later_and_is_reported_as_absent() {
    let Some(_empty) = Empty::make("corun-comes-later") else {
        println!("skipped: no cgroup can be made here");
        return;
    };
    let key = "cgroup:/corun-comes-later";
    let out = corun(&["control", "gang", "--tenant", key, "--dry-run", "--for", "200ms", "-q"]);
    assert_eq!(out.status.code(), Some(0), "{}", said(&out));
    let line = format!("--tenant {key}: it is empty now; processes that come will be controlled");
    assert!(said(&out).contains(&line), "{}", said(&out));
}

#[test]
fn a_key_that_no_tenant_of_its_cgroup_can_have_is_refused_with_theirs() {
    let Some(_empty) = Empty::make("corun-comes-later.scope") else {
        println!("skipped: no cgroup can be made here");
        return;
    };
    let key = "cgroup:/corun-comes-later.scope";
    let out = corun(&["control", "gang", "--tenant", key, "--dry-run", "--for", "200ms", "-q"]);
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(said(&out).contains("is `unit:/corun-comes-later.scope`; name that"), "{}", said(&out));
}

#[test]
fn a_run_that_can_park_nobody_says_so_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let two =
        Hog::running(folder.path(), "corun-hog-two", "sh -c 'while :; do :; done' & while :; do :; done");
    let other = Hog::start(folder.path(), "corun-hog-other");
    let begins = |args: &[&str]| {
        let out = corun(&[&["control"], args, &["--dry-run", "--for", "200ms"]].concat());
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
        said(&out)
    };
    let only = "only corun-hog-two may be controlled now";
    let told = begins(&["gang", "--tenant", "corun-hog-two"]);
    assert!(told.contains(only) && told.contains("name another with --tenant"), "{told}");
    let both = ["--tenant", "corun-hog-two", "--tenant", "corun-hog-other"];
    assert!(!begins(&[&["gang"], &both[..]].concat()).contains("only corun-hog"));
    assert!(!begins(&["differential", "--tenant", "corun-hog-two"]).contains("only corun-hog"));
    // The tenant that gets the windows of `dedicated` is not parked for them.
    let dedicated = |subject: &str| {
        begins(&["dedicated", "-o", &format!("subject={subject}"), "--tenant", "corun-hog-two"])
    };
    assert!(!dedicated("corun-hog-other").contains(only) && dedicated("corun-hog-two").contains(only));
    // The same process once by its PID and once by its name, and the remedy if two programs were started in
    // one script.
    let (pid, other) = (two.0.id().to_string(), other.0.id().to_string());
    let told = begins(&["gang", "--tenant", &pid, "--tenant", "corun-hog-two"]);
    assert!(told.contains(&format!("--tenant {pid} and --tenant corun-hog-two are one tenant")), "{told}");
    assert!(told.contains("start them with setsid") && !told.contains(only), "{told}");
    assert!(!begins(&["gang", "--tenant", &pid, "--tenant", &other]).contains("are one tenant"));
}

#[test]
fn the_tenant_that_gets_dedicated_windows_must_exist() {
    let folder = tempfile::tempdir().unwrap();
    let _hog = Hog::start(folder.path(), "corun-hog-win");
    let who = ["--tenant", "corun-hog-win", "--dry-run", "--for", "200ms", "-q"];
    let out = corun(&[&["control", "dedicated", "-o", "subject=corun-nobody"], &who[..]].concat());
    assert_eq!(out.status.code(), Some(2), "{}", said(&out));
    assert!(said(&out).contains("-o subject=corun-nobody: nothing by that name runs here"), "{}", said(&out));
    assert_eq!(said(&out).trim().lines().count(), 1, "{}", said(&out));
}

#[test]
fn a_run_too_short_for_the_guard_is_told_the_necessary_length() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let _hogs = ["corun-hog-short", "corun-hog-long"].map(|name| Hog::start(folder.path(), name));
    let begins = |more: &[&str]| {
        let who = ["--tenant", "corun-hog-short", "--tenant", "corun-hog-long", "--for", "300ms"];
        let out = corun(&[&["control", "gang"], &who[..], more].concat());
        assert_eq!(out.status.code(), Some(0), "{}", said(&out));
        said(&out)
    };
    let told = begins(&[]);
    assert!(told.contains("too short for the guard") && told.contains("or more, or --guard off"), "{told}");
    for unguarded in [&["--guard", "off"][..], &["--dry-run"]] {
        assert!(!begins(unguarded).contains("too short for the guard"), "{unguarded:?}");
    }
}

#[test]
fn the_effect_of_stock_knobs_on_a_value_is_reported_once_in_the_words_of_the_list_of_policies() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let _hog = Hog::start(folder.path(), "corun-hog-knob");
    let listed: serde_json::Value = serde_json::from_slice(&corun(&["policies", "--json"]).stdout).unwrap();
    let how = |policy: &str| {
        let of = listed["policies"].as_array().unwrap().iter().find(|p| p["name"] == policy).unwrap();
        let stock = of["backends"].as_array().unwrap().iter().find(|b| b["name"] == "stock").unwrap();
        stock["knobs"][0]["how"].as_str().unwrap().to_owned()
    };
    let begins = |policy: &str, more: &[&str]| {
        let who = ["--tenant", "corun-hog-knob", "--backend", "stock", "--for", "200ms"];
        let out = corun(&[&["control", policy], &who[..], more].concat());
        (out.status.code() == Some(0)).then(|| said(&out))
    };
    for policy in ["delayed_preemption", "differential"] {
        let Some(told) = begins(policy, &[]) else {
            println!("skipped: this kernel cannot carry out {policy}");
            continue;
        };
        assert_eq!(told.matches(&how(policy)).count(), 1, "{told}");
        assert!(!begins(policy, &["-q"]).unwrap().contains(&how(policy)));
    }
    assert!(how("delayed_preemption").contains("is none"), "{}", how("delayed_preemption"));
}
