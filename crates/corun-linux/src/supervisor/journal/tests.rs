//! Lines that are written, read back, renewed and removed.

use super::super::undo::{Aspect, Task};
use super::*;

fn journal() -> (tempfile::TempDir, Journal) {
    let dir = tempfile::tempdir().unwrap();
    let mut journal = Journal::open(&dir.path().join("corun")).unwrap();
    journal.begin([]).unwrap();
    (dir, journal)
}

fn of_another(journal: &Journal) -> Journal {
    Journal::inherited(journal.descriptors().unwrap(), journal.folder().to_owned())
}

fn thaw(n: u32) -> Undo {
    Undo::Thaw(PathBuf::from(format!("/cg/{n}")))
}

#[test]
fn an_older_file_is_not_used_when_the_newer_one_is_lost() {
    let (dir, mut journal) = journal();
    journal.add(&thaw(1)).unwrap();
    journal.begin([]).unwrap();
    let newest = journal.folder().join(FILES[journal.active]);
    drop(journal);
    fs::remove_file(newest).unwrap();
    let journal = Journal::open(&dir.path().join("corun")).unwrap();
    assert!(journal.contents().unwrap().in_force.is_empty(), "it was undone long since");
}

#[test]
fn the_locked_file_goes_last_so_that_nobody_begins_with_files_that_are_being_removed() {
    let (_dir, journal) = journal();
    let path = std::ffi::CString::new(journal.folder().to_str().unwrap()).unwrap();
    // SAFETY: the path outlives the call, and the descriptor is nobody else's.
    let mut watch = unsafe {
        let fd = libc::inotify_init1(libc::IN_CLOEXEC | libc::IN_NONBLOCK);
        assert!(fd >= 0 && libc::inotify_add_watch(fd, path.as_ptr(), libc::IN_DELETE) >= 0);
        File::from_raw_fd(fd)
    };
    journal.remove();
    let mut events = [0u8; 4096];
    let length = io::Read::read(&mut watch, &mut events).unwrap();
    let text = String::from_utf8_lossy(&events[..length]).into_owned();
    let (lock, other) = (text.find("journal\0").unwrap(), text.find("journal.2\0").unwrap());
    assert!(other < lock, "{text:?}");
}

#[test]
fn changes_in_force_can_be_read_back_by_another_process() {
    let (_dir, mut journal) = journal();
    let first = journal.add(&thaw(1)).unwrap();
    journal.add(&thaw(2)).unwrap();
    journal.undone(first).unwrap();
    let task = Undo::Task(Task { tid: 5, start_ns: 6, pid: 7, pgid: 8 }, Aspect::Slice { was_ns: 0 });
    let sliced = journal.add(&task).unwrap();
    journal.undone(sliced).unwrap();
    let other = of_another(&journal);
    let said = other.contents().unwrap();
    assert_eq!((said.in_force, said.undone), (vec![thaw(2)], vec![task]));
    assert_eq!(said.controller, std::process::id());
    journal.add(&thaw(1)).unwrap();
    assert_eq!(other.contents().unwrap().in_force, [thaw(2), thaw(1)]);
}

#[test]
fn two_simultaneous_readers_both_read_all_of_it() {
    let (_dir, mut journal) = journal();
    let undos: Vec<Undo> = (0..500).map(thaw).collect();
    for undo in &undos {
        journal.add(undo).unwrap();
    }
    let other = of_another(&journal);
    let read = |journal: &Journal| (0..500).all(|_| journal.contents().unwrap().in_force == undos);
    std::thread::scope(|s| {
        let theirs = s.spawn(|| read(&other));
        assert!(read(&journal));
        assert!(theirs.join().unwrap());
    });
}

#[test]
fn a_second_controller_is_refused_by_the_firsts_pid() {
    let (dir, journal) = journal();
    let e = Journal::open(&dir.path().join("corun")).unwrap_err().to_string();
    let expected =
        format!("corun already controls this machine (PID {}); stop that one first", std::process::id());
    assert_eq!(e, expected);
    let copy = journal.descriptors().unwrap();
    drop(journal);
    assert!(Journal::open(&dir.path().join("corun")).is_err(), "the supervisor holds the lock too");
    drop(copy);
    Journal::open(&dir.path().join("corun")).unwrap();
}

#[test]
fn a_truncated_line_and_another_boot_say_nothing() {
    let text = format!("{MAGIC} boot-1 77 5 3\n+thaw /cg/1\n+thaw /c");
    let (generation, said) = parse(&text, "boot-1").unwrap();
    assert_eq!(generation, 3);
    assert_eq!((said.controller, said.since_ns, said.in_force), (77, 5, vec![thaw(1)]));
    for (text, boot) in [(text.as_str(), "boot-2"), ("", "boot-1"), ("\n", "")] {
        assert_eq!(parse(text, boot), None);
    }
}

/// What the files hold.
fn held(journal: &Journal) -> [Vec<u8>; 2] {
    [read(&journal.files[0]).unwrap(), read(&journal.files[1]).unwrap()]
}

/// A journal in which most changes have been undone.
fn grown(journal: &mut Journal) {
    for n in 0..200 {
        let entry = journal.add(&thaw(n)).unwrap();
        if n % 10 > 0 {
            journal.undone(entry).unwrap();
        }
    }
}

#[test]
fn a_compacted_journal_holds_the_changes_in_force_and_nothing_else() {
    let (_dir, mut journal) = journal();
    grown(&mut journal);
    let task = Task { tid: 5, start_ns: 6, pid: 7, pgid: 8 };
    let nice = |was| Undo::Task(task, Aspect::Nice { was, set: 19 });
    let entries = [0, 1].map(|was| journal.add(&nice(was)).unwrap());
    entries.into_iter().for_each(|entry| journal.undone(entry).unwrap());
    let other = of_another(&journal);
    let (before, length) = (other.contents().unwrap(), journal.end);
    journal.compact(|undo| *undo == nice(0)).unwrap();
    let after = other.contents().unwrap();
    assert_eq!(after, Contents { undone: vec![nice(0)], ..before });
    assert!(journal.end < length / 5 && held(&journal)[journal.active].len() as u64 == journal.end);
}

#[test]
fn a_change_that_was_in_force_before_a_compaction_can_be_undone_after_it() {
    let (_dir, mut journal) = journal();
    grown(&mut journal);
    let last = journal.add(&thaw(1_000)).unwrap();
    journal.compact(|_| false).unwrap();
    journal.undone(last).unwrap();
    assert!(!journal.contents().unwrap().in_force.contains(&thaw(1_000)));
    let again = journal.add(&thaw(1_000)).unwrap();
    assert!(journal.contents().unwrap().in_force.contains(&thaw(1_000)) && again != last);
}

#[test]
fn a_journal_in_which_changes_come_and_go_does_not_grow() {
    let (_dir, mut journal) = journal();
    journal.add(&thaw(0)).unwrap();
    let (mut longest, mut compactions) = (0, 0);
    for n in 1..50_000 {
        let entry = journal.add(&thaw(n)).unwrap();
        journal.undone(entry).unwrap();
        if journal.has_doubled() {
            compactions += 1;
            journal.compact(|_| false).unwrap();
        }
        longest = longest.max(journal.end);
    }
    assert!(longest < 2 * LEAST_BYTES + 100 && compactions < 10, "{longest} {compactions}");
    assert_eq!(journal.contents().unwrap().in_force, [thaw(0)]);
}

#[test]
fn between_any_two_writes_of_a_compaction_one_file_is_complete() {
    let (_dir, mut journal) = journal();
    grown(&mut journal);
    let (before, said) = (held(&journal), journal.contents().unwrap());
    journal.compact(|_| false).unwrap();
    let (after, new) = (held(&journal), journal.active);
    assert!(after[1 - new].is_empty(), "the one that held until then says nothing any more");
    let start = after[new].iter().position(|b| *b == b'\n').unwrap() + 1;
    let unfinished = |head: usize, body: usize| {
        let mut file = vec![0; if body > start { body } else { 0 }];
        file[..head].copy_from_slice(&after[new][..head]);
        let body = start.min(file.len())..file.len();
        file[body.clone()].copy_from_slice(&after[new][body]);
        file
    };
    let all = after[new].len();
    let states = (start..=all).map(|body| (0, body)).chain((0..=start).map(|head| (head, all)));
    for (head, body) in states {
        let mut files = before.clone();
        files[new] = unfinished(head, body);
        let newest = newest(&files, &boot_id()).unwrap();
        assert_eq!(newest.contents, said, "{head} bytes of the first line, {body} in all");
        assert_eq!(newest.file == new, head == start);
    }
}

#[test]
fn a_new_journal_is_never_without_the_rest_of_the_old_one() {
    let (dir, mut journal) = journal();
    grown(&mut journal);
    let (active, old) = (journal.active, held(&journal));
    drop(journal);
    let mut journal = Journal::open(&dir.path().join("corun")).unwrap();
    let other = File::open(journal.folder().join(FILES[1 - active])).unwrap();
    let other = std::mem::replace(&mut journal.files[1 - active], other);
    journal.begin(&[thaw(10)]).unwrap_err();
    assert_eq!(held(&journal)[active], old[active], "the old one holds until the new one does");
    journal.files[1 - active] = other;
    journal.begin(&[thaw(10)]).unwrap();
    let said = journal.contents().unwrap();
    assert_eq!((said.in_force, said.undone), (vec![thaw(10)], vec![]));
}

#[test]
fn somebody_elses_folder_is_not_trusted() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/etc", dir.path().join("corun")).unwrap();
    let e = Journal::open(&dir.path().join("corun")).unwrap_err();
    assert!(matches!(e, JournalError::Foreign { .. }), "{e}");
}

#[test]
fn a_folder_that_others_may_write_to_is_not_trusted() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("corun");
    fs::create_dir(&folder).unwrap();
    let allow = |mode| fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
    allow(0o775);
    let e = Journal::open(&folder).unwrap_err();
    assert!(matches!(e, JournalError::Foreign { .. }), "{e}");
    allow(0o755);
    Journal::open(&folder).unwrap();
}

#[test]
fn a_journal_that_is_removed_leaves_no_folder_behind() {
    let (dir, journal) = journal();
    journal.remove();
    assert!(!dir.path().join("corun").exists());
}
