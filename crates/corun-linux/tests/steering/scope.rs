//! Which tenants may be controlled while they change.

use super::actors::{backend, eventually, options, seen, v2_mount, Act, Actors};
use super::{alone, is_root, park, unpark, ACTORS, PATIENCE};
use corun_linux::backend::Backend;
use corun_linux::stock::{Options, StockBackend};
use corun_linux::Root;
use std::path::Path;

/// A parked tenant of two processes, in scope because of its first one only.
fn parked_by_its_first(folder: &Path) -> (Actors, StockBackend) {
    let pair = Actors::spinning(2);
    let mut backend = backend(folder, &pair.pids()[..1]);
    backend.learn(&seen(&[&pair.pids()]));
    park(&mut backend);
    assert_eq!(backend.parked(), [ACTORS].into());
    (pair, backend)
}

#[test]
fn a_parked_tenant_that_may_not_be_controlled_any_more_is_released() {
    if !is_root() || v2_mount().is_none() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let joins = Actors::spinning(1);
    let (pair, mut backend) = parked_by_its_first(folder.path());
    // Which comes to belong to another.
    let [named, left] = pair.pids()[..] else { unreachable!("there are two") };
    backend.learn(&seen(&[&[left, joins.pids()[0]], &[named]]));
    assert_eq!(backend.parked(), [].into());
    let before = pair.counts()[1];
    assert!(eventually(PATIENCE, || pair.counts()[1] > before), "it is parked for ever");
}

#[test]
fn a_tenant_that_was_named_by_a_process_stays_named_when_that_ends() {
    if !is_root() || v2_mount().is_none() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let joins = Actors::spinning(1);
    let (pair, mut backend) = parked_by_its_first(folder.path());
    unpark(&mut backend);
    pair.kill(0);
    backend.learn(&seen(&[&[pair.pids()[1], joins.pids()[0]]]));
    park(&mut backend);
}

#[test]
fn a_protected_process_started_by_a_parked_tenant_is_not_parked() {
    if !is_root() || v2_mount().is_none() {
        return;
    }
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let shell = Actors::start(&[Act::Found], false);
    let options = Options { protect: vec!["server".into()], ..options(folder.path(), &shell.pids()) };
    let mut backend = StockBackend::new(&Root::new("/"), options);
    backend.learn(&seen(&[&shell.pids()]));
    park(&mut backend);
    unpark(&mut backend);
    let server = shell.found(0);
    backend.learn(&seen(&[&shell.pids(), &[server]]));
    park(&mut backend);
    assert!(shell.run(PATIENCE), "its server counts, parked or not");
}
