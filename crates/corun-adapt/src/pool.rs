//! Rayon with as many threads as there are CPUs for.
//!
//! A pool of rayon has a fixed number of threads. So here is one pool for each width, made when it is first needed; the others sleep.
//! The width changes between calls of [`Pool::install`], when nothing runs. Rayon's threads steal work from each other instead of
//! waiting, so they are [independent](Width::independent).

use crate::width::Width;
use rayon::{ThreadPool, ThreadPoolBuildError, ThreadPoolBuilder};
use std::sync::OnceLock;

/// One rayon pool for each width. The one that runs has as many threads as there are CPUs for.
#[derive(Debug)]
pub struct Pool {
    width: Width,
    /// The pool of width n is at n - 1.
    pools: Box<[OnceLock<ThreadPool>]>,
}

impl Pool {
    /// Makes a pool that follows `width`.
    ///
    /// # Errors
    /// The threads of the widest pool cannot be started.
    pub fn new(width: Width) -> Result<Pool, ThreadPoolBuildError> {
        let pool =
            Pool { pools: (0..width.most()).map(|_| OnceLock::new()).collect(), width: width.independent() };
        // Makes the widest pool now, so that a program learns at once if its threads cannot be started.
        pool.of(pool.width.most())?;
        Ok(pool)
    }

    /// The width that the pool follows.
    pub fn width(&self) -> &Width {
        &self.width
    }

    /// Runs `run` in the pool of the current width: its parallel parts use that many threads. If those threads cannot be started, it
    /// runs in the widest pool.
    pub fn install<R: Send>(&self, run: impl FnOnce() -> R + Send) -> R {
        self.width.refresh();
        let most = self.width.most();
        let pool = self.of(self.width.threads()).or_else(|_| self.of(most));
        match pool {
            Ok(pool) => pool.install(run),
            Err(_) => unreachable!("the widest pool was made first"),
        }
    }

    fn of(&self, threads: u32) -> Result<&ThreadPool, ThreadPoolBuildError> {
        let place = &self.pools[threads as usize - 1];
        if let Some(pool) = place.get() {
            return Ok(pool);
        }
        let pool = ThreadPoolBuilder::new().num_threads(threads as usize).build()?;
        // If two threads made this pool at the same moment, one of the pools ends.
        Ok(place.get_or_init(|| pool))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Peer;
    use crate::width::Mode;
    use rayon::prelude::*;

    #[test]
    fn each_call_runs_as_wide_as_advised_before_it() {
        let pool = Pool::new(Width::new(Mode::On, 1, 3).unwrap()).unwrap();
        pool.width().publish().unwrap();
        // Another test of this process may publish too. The page of this test is the one with these bounds.
        let peer = Peer::find(std::process::id()).unwrap().expect("it was just published");
        if peer.read().expect("it lives").most != 3 {
            println!("skipped: another page of this process is found first");
            return;
        }
        for width in [1, 3, 2, 1] {
            peer.advise(width);
            let (threads, sum) =
                pool.install(|| (rayon::current_num_threads(), (0..1_000u64).into_par_iter().sum::<u64>()));
            assert_eq!((threads, sum), (width as usize, 499_500), "advised {width}");
        }
        pool.width().set_mode(Mode::Off);
        assert_eq!(pool.install(rayon::current_num_threads), 3);
    }
}
