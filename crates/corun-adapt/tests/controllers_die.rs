//! Controllers that are killed at random moments while they advise. Whatever they leave on the page, every piece of work is done
//! exactly once.
//!
//! A controller is this test binary again: with `ADVISES` set to a process number it advises that process until it is killed.

mod moments;

use corun_adapt::{Crew, Mode, Page, Peer, Width};
use moments::moments;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

const WORKERS: u32 = 4;
const CONTROLLERS: usize = 20;
/// Pieces of work for each controller.
const PIECES: usize = 500;

/// Does nothing unless this process is a controller.
#[test]
fn controller() {
    let Some(program) = std::env::var("ADVISES").ok().and_then(|number| number.parse().ok()) else { return };
    let peer = Peer::find(program).unwrap().expect("it published a page");
    for n in 0.. {
        // This includes widths without meaning.
        peer.advise(n % (WORKERS + 3));
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Starts a controller, and kills it after `for_long`. The last one must first have advised something.
fn be_advised(page: &Page, for_long: Duration, is_last: bool) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "controller"]).env("ADVISES", std::process::id().to_string());
    let mut controller = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(for_long);
    while is_last && page.advice().is_none() {
        assert_eq!(controller.try_wait().unwrap(), None, "the controller failed");
        std::thread::sleep(Duration::from_millis(1));
    }
    controller.kill().unwrap();
    controller.wait().unwrap();
}

/// The pieces of work, and how often each was done.
struct Work {
    done: Vec<AtomicU32>,
    next: AtomicUsize,
    came: AtomicUsize,
    no_more_comes: AtomicBool,
}

impl Work {
    /// Does one piece, if there is one. Returns whether there may be more.
    fn one(&self, page: &Page) -> bool {
        // Read before the piece is taken: the last piece comes before this is set.
        let is_over = self.no_more_comes.load(SeqCst);
        let next = self.next.fetch_update(SeqCst, SeqCst, |n| (n < self.came.load(SeqCst)).then_some(n + 1));
        match next {
            Ok(piece) => {
                self.done[piece].fetch_add(1, Relaxed);
                page.progress(1);
            }
            Err(_) => std::thread::sleep(Duration::from_micros(100)),
        }
        next.is_ok() || !is_over
    }
}

fn work(worker: usize, crew: &Crew, width: &Width, page: &Page, work: &Work) {
    crew.join(worker).unwrap();
    while work.one(page) {
        crew.slots()[worker].beat();
        crew.refresh(width);
        if !crew.is_wanted(worker) {
            crew.park(worker, Duration::MAX, width);
        }
    }
    crew.slots()[worker].leave();
}

#[test]
fn whenever_controllers_are_killed_each_piece_of_work_is_done_once() {
    let width = Width::new(Mode::On, 1, WORKERS).unwrap();
    let page = width.publish().unwrap();
    let crew = Crew::new(WORKERS as usize, Duration::from_millis(1)).unwrap();
    let pieces = Work {
        done: (0..CONTROLLERS * PIECES).map(|_| AtomicU32::new(0)).collect(),
        next: AtomicUsize::new(0),
        came: AtomicUsize::new(0),
        no_more_comes: AtomicBool::new(false),
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS as usize)
            .map(|worker| {
                let (crew, width, pieces) = (&crew, &width, &pieces);
                scope.spawn(move || work(worker, crew, width, page, pieces))
            })
            .collect();
        for (number, for_long) in (1..).zip(moments(CONTROLLERS)) {
            pieces.came.fetch_add(PIECES, SeqCst);
            be_advised(page, for_long, number == CONTROLLERS);
        }
        pieces.no_more_comes.store(true, SeqCst);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
    });
    let times: Vec<u32> = pieces.done.iter().map(|times| times.load(Relaxed)).collect();
    assert!(times.iter().all(|times| *times == 1), "done more or less than once: {times:?}");
    let peer = Peer::find(std::process::id()).unwrap().expect("it published a page");
    assert_eq!(peer.read().expect("it lives").progress, times.len() as u64);
    // The last advice counts for a while, and then no longer.
    while page.advice().is_some() {
        std::thread::sleep(Duration::from_millis(10));
    }
}
