//! A ring on a real file system: written data are read, whatever happens in between.

use crate::made::{window, WINDOW_NS};
use corun_agent::ring::{
    decode, encode, oldest_ns, Damage, Entry, KeptWindow, Reader, RingError, Run, Writer,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The time of day of the first window.
const EPOCH_NS: u64 = 1_800_000_000_000_000_000;
const SMALL: u64 = 64 << 10;
const TENANTS: u32 = 1;

fn run() -> Vec<u8> {
    encode(&Entry::Run(Run {
        corun: "0.0.0".into(),
        source: "ebpf".into(),
        machine: "two CPUs".into(),
        cpus: 2,
        began_unix_ns: EPOCH_NS,
    }))
}

fn entry(n: u64) -> Vec<u8> {
    let begin_ns = EPOCH_NS + n * WINDOW_NS;
    encode(&Entry::Window { unix_ns: begin_ns..begin_ns + WINDOW_NS, seen: Box::new(window(n, TENANTS)) })
}

fn open(folder: &Path) -> Writer {
    Writer::open(folder, SMALL, run()).unwrap()
}

fn read(folder: &Path) -> (Vec<KeptWindow>, Vec<Damage>) {
    let reader = Reader::open(folder).unwrap();
    let mut damages = Vec::new();
    let kept = reader.windows(0..u64::MAX).filter_map(|w| w.map_err(|d| damages.push(d)).ok()).collect();
    (kept, damages)
}

/// The numbers of the windows, each of which is unchanged.
fn numbers(kept: &[KeptWindow]) -> Vec<u64> {
    let number = |k: &KeptWindow| {
        let n = (k.unix_ns.start - EPOCH_NS) / WINDOW_NS;
        assert_eq!(*k.seen, window(n, TENANTS));
        assert_eq!((k.run.machine.as_str(), k.run.cpus), ("two CPUs", 2));
        n
    };
    kept.iter().map(number).collect()
}

fn newest(folder: &Path) -> PathBuf {
    let names = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    names.filter(|path| path.to_str().unwrap().contains("segment-")).max().unwrap()
}

#[test]
fn the_start_of_the_oldest_window_is_known_without_reading_the_ring() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(oldest_ns(&folder.path().join("nowhere")), None);
    let mut ring = open(folder.path());
    assert_eq!(oldest_ns(folder.path()), None, "only who writes is in it");
    let mut oldest = 0;
    for n in 0..400 {
        ring.append(&entry(n)).unwrap();
        oldest = Reader::open(folder.path()).unwrap().span().unwrap().start;
        assert_eq!(oldest_ns(folder.path()), Some(oldest), "at window {n}");
    }
    assert!(oldest > EPOCH_NS, "it went round");
}

#[test]
fn a_ring_that_is_removed_while_it_is_written_loses_an_entry_says_so_and_is_created_again() {
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("ring");
    let removals: [&dyn Fn(); 3] = [
        &|| fs::remove_dir_all(&folder).unwrap(),
        &|| fs::rename(&folder, above.path().join("elsewhere")).unwrap(),
        &|| fs::remove_file(newest(&folder)).unwrap(),
    ];
    let mut ring = open(&folder);
    for remove in removals {
        ring.append(&entry(0)).unwrap();
        remove();
        let noticed = ring.append(&entry(1));
        assert!(matches!(noticed, Err(RingError::Removed(_))), "{noticed:?}");
        ring.append(&entry(2)).unwrap();
        assert_eq!(numbers(&read(&folder).0), [2]);
        assert!(ring.used() <= SMALL);
    }
    // If it cannot be created, that is tried again.
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    assert!(ring.append(&entry(3)).is_err() && ring.append(&entry(4)).is_err());
    fs::remove_file(&folder).unwrap();
    ring.append(&entry(5)).unwrap();
    assert_eq!(numbers(&read(&folder).0), [5]);
}

#[test]
fn written_windows_are_read_back_and_a_time_is_cut_out_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let mut ring = open(folder.path());
    (0..10).for_each(|n| ring.append(&entry(n)).unwrap());
    let (kept, damages) = read(folder.path());
    assert_eq!((numbers(&kept), damages), ((0..10).collect(), vec![]), "while it is being written");
    drop(ring);
    let reader = Reader::open(folder.path()).unwrap();
    assert_eq!(reader.span(), Some(EPOCH_NS..EPOCH_NS + 10 * WINDOW_NS));
    let at = |n: u64| EPOCH_NS + n * WINDOW_NS;
    let some: Vec<KeptWindow> = reader.windows(at(3)..at(5) + 1).map(Result::unwrap).collect();
    assert_eq!(numbers(&some), [3, 4, 5], "also the one that is only touched");
}

#[test]
fn a_full_ring_keeps_its_size_and_its_newest_windows() {
    let folder = tempfile::tempdir().unwrap();
    let mut ring = open(folder.path());
    for n in 0..400 {
        ring.append(&entry(n)).unwrap();
        assert!(ring.used() <= SMALL);
    }
    let on_disk: u64 =
        fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().metadata().unwrap().len()).sum();
    assert_eq!(on_disk, ring.used());
    let (kept, damages) = read(folder.path());
    assert_eq!(damages, []);
    let numbers = numbers(&kept);
    assert_eq!(numbers.last(), Some(&399));
    assert!(numbers.len() > 30 && numbers.windows(2).all(|n| n[0] + 1 == n[1]), "{numbers:?}");
}

#[test]
fn a_ring_that_is_opened_again_and_again_continues_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    for n in 0..20 {
        open(folder.path()).append(&entry(n)).unwrap();
    }
    let (kept, damages) = read(folder.path());
    assert_eq!((numbers(&kept), damages), ((0..20).collect(), vec![]));
}

#[test]
fn a_smaller_ring_returns_the_space_of_the_oldest() {
    let folder = tempfile::tempdir().unwrap();
    let mut ring = Writer::open(folder.path(), 4 * SMALL, run()).unwrap();
    (0..400).for_each(|n| ring.append(&entry(n)).unwrap());
    let large = ring.used();
    drop(ring);
    let mut ring = open(folder.path());
    assert!(large > SMALL && ring.used() <= SMALL, "{large} {}", ring.used());
    (400..500).for_each(|n| ring.append(&entry(n)).unwrap());
    let (kept, damages) = read(folder.path());
    assert_eq!((numbers(&kept).last(), damages), (Some(&499), vec![]));
}

/// The segment that a closed ring of three entries keeps, and its bytes.
fn segment_of_three(folder: &Path) -> (PathBuf, Vec<u8>) {
    let mut ring = open(folder);
    (0..3).for_each(|n| ring.append(&entry(n)).unwrap());
    drop(ring);
    let path = newest(folder);
    let bytes = fs::read(&path).unwrap();
    (path, bytes)
}

#[test]
fn whichever_byte_is_damaged_the_rest_is_read_and_the_damage_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (path, whole) = segment_of_three(folder.path());
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        fs::write(&path, &bytes).unwrap();
        let (kept, damages) = read(folder.path());
        let read = numbers(&kept);
        assert_eq!(read, (0..read.len() as u64).collect::<Vec<_>>(), "byte {at}");
        assert_eq!(damages.len(), 1, "byte {at}: {damages:?}");
        assert!(damages[0].to_string().contains(path.to_str().unwrap()), "{}", damages[0]);
        assert!(damages[0].at <= at as u64, "byte {at}: {}", damages[0]);
    }
}

#[test]
fn wherever_a_segment_is_truncated_the_rest_is_read_and_the_cut_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (path, whole) = segment_of_three(folder.path());
    for length in (1..whole.len()).rev() {
        fs::write(&path, &whole[..length]).unwrap();
        let (kept, damages) = read(folder.path());
        let read = numbers(&kept);
        assert_eq!(read, (0..read.len() as u64).collect::<Vec<_>>(), "{length} bytes");
        assert_eq!(damages.len(), 1, "{length} bytes: {damages:?}");
    }
}

#[test]
fn a_damaged_ring_is_continued_and_newer_windows_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, mut bytes) = segment_of_three(folder.path());
    bytes[40] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let mut ring = open(folder.path());
    (3..6).for_each(|n| ring.append(&entry(n)).unwrap());
    let (kept, damages) = read(folder.path());
    assert_eq!((numbers(&kept), damages.len()), (vec![3, 4, 5], 1));
}

#[test]
fn a_removed_segment_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let mut ring = open(folder.path());
    (0..100).for_each(|n| ring.append(&entry(n)).unwrap());
    fs::remove_file(folder.path().join("segment-000000000002")).unwrap();
    let (kept, damages) = read(folder.path());
    assert!(kept.len() < 100 && damages.len() == 1, "{damages:?}");
    assert!(damages[0].to_string().ends_with("segment-000000000002 is missing, so what it held is lost"));
}

#[test]
fn a_second_writer_and_a_folder_that_is_no_ring_are_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Reader::open(folder.path()), Err(RingError::NoRing(_))));
    assert!(matches!(Reader::open(&folder.path().join("nowhere")), Err(RingError::Io { .. })));
    let _first = open(folder.path());
    let second = Writer::open(folder.path(), SMALL, run()).err().unwrap().to_string();
    assert!(second.ends_with("is in use by another agent; stop it, or choose another folder"), "{second}");
    assert!(matches!(Writer::open(folder.path(), 100, run()), Err(RingError::TooSmall(100))));
}

#[test]
fn a_window_larger_than_a_segment_is_refused_and_the_ring_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut ring = open(folder.path());
    let large = encode(&Entry::Window { unix_ns: 1..2, seen: Box::new(window(0, 2_000)) });
    let refused = ring.append(&large).err().unwrap();
    assert!(matches!(refused, RingError::WindowTooLarge { .. }), "{refused}");
    ring.append(&entry(0)).unwrap();
    assert_eq!(numbers(&read(folder.path()).0), [0]);
}

#[test]
fn an_entry_that_contradicts_itself_is_refused() {
    let mut seen = window(1, 2);
    assert!(matches!(decode(&entry(1)), Ok(Entry::Window { .. })));
    seen.by_tenant.pop();
    seen.by_tenant[0].tasks = u64::MAX;
    let why = decode(&encode(&Entry::Window { unix_ns: 1..2, seen: Box::new(seen) })).unwrap_err();
    assert_eq!(why, "its numbers are too great");
    assert!(decode(&[]).is_err() && decode(&[0; 40]).is_err());
}

/// The role of the next test's child; by itself it is no test.
#[test]
fn writes_until_it_is_killed() {
    let Some(folder) = std::env::var_os("CORUN_RING_TO_WRITE") else { return };
    let from = std::env::var("CORUN_RING_FROM").unwrap().parse().unwrap();
    let mut ring = open(Path::new(&folder));
    println!("begun");
    for n in from..u64::MAX {
        ring.append(&entry(n)).unwrap();
    }
}

#[test]
fn a_writer_that_is_killed_loses_no_window_but_the_one_in_progress() {
    let folder = tempfile::tempdir().unwrap();
    let mut known = 0;
    for kill in 0..12u64 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "ring::writes_until_it_is_killed", "--nocapture"])
            .env("CORUN_RING_TO_WRITE", folder.path())
            .env("CORUN_RING_FROM", known.to_string())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // The moment varies: the exact instant is the machine's own.
        std::thread::sleep(std::time::Duration::from_micros(60_000 + kill * 7_777));
        child.kill().unwrap();
        child.wait().unwrap();
        let reader = Reader::open(folder.path());
        let Ok(reader) = reader else { continue };
        let (mut kept, mut damages) = (Vec::new(), Vec::new());
        reader.windows(0..u64::MAX).for_each(|w| match w {
            Ok(w) => kept.push(w),
            Err(d) => damages.push(d),
        });
        let numbers = numbers(&kept);
        assert!(numbers.windows(2).all(|n| n[0] + 1 == n[1]), "a window is lost: {numbers:?}");
        assert!(damages.len() <= 1, "more than the last entry: {damages:?}");
        let next = numbers.last().map_or(0, |last| last + 1);
        assert!(next >= known, "{next} of {known}");
        known = next;
    }
    assert!(known > 0, "nothing was ever written");
}

#[test]
fn a_disk_that_others_fill_makes_the_ring_go_around_earlier_and_takes_nothing_away() {
    let folder = tempfile::tempdir().unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=128k", "tmpfs"])
        .arg(folder.path())
        .stderr(Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        println!("skipped: a small disk needs root");
        return;
    }
    struct Mounted<'a>(&'a Path);
    impl Drop for Mounted<'_> {
        fn drop(&mut self) {
            let _ = Command::new("umount").arg("--lazy").arg(self.0).status();
        }
    }
    let _mounted = Mounted(folder.path());
    let ring_folder = folder.path().join("ring");
    let mut ring = open(&ring_folder);
    (0..20).for_each(|n| ring.append(&entry(n)).unwrap());
    let (before, had) = (ring.used(), read(&ring_folder).0.len());
    assert!(before < SMALL, "it still grows");
    let mut hog = fs::File::create(folder.path().join("hog")).unwrap();
    while std::io::Write::write_all(&mut hog, &[1; 4096]).is_ok() {}
    for n in 20..60 {
        ring.append(&entry(n)).unwrap();
    }
    let (kept, damages) = read(&ring_folder);
    assert_eq!((ring.used(), damages.len()), (before, 0));
    let numbers = numbers(&kept);
    assert!(numbers.last() == Some(&59) && numbers.len() + 8 > had, "{numbers:?}");
    drop(ring);
    open(&ring_folder).append(&entry(60)).unwrap();
}
