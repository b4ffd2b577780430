//! PHOLD, the usual benchmark of Time Warp: a fixed number of events that hop between logical processes at random.
//!
//! R. M. Fujimoto, Performance of Time Warp under synthetic workloads, 1990. Each event sends one event when it is handled.

use crate::{Context, Model};

/// PHOLD. A tick is a thousandth of its unit of time.
#[derive(Clone, Copy, Debug)]
pub struct Phold {
    /// Number of logical processes.
    pub lps: u32,
    /// Number of events that each logical process begins with.
    pub population: u32,
    /// Probability, in millionths, that an event goes to a random process. Otherwise it goes back to the process that handled it.
    pub remote_ppm: u32,
    /// The least delay, in ticks, at least 1.
    pub look_ahead: u64,
    /// Mean of the exponentially distributed part of the delay, in ticks. It is added to `look_ahead`.
    pub mean_delay: u64,
    /// Rounds of arithmetic for each event. [`Phold::rounds_for`] converts nanoseconds into rounds.
    pub grain: u32,
}

impl Default for Phold {
    fn default() -> Phold {
        Phold { lps: 1_024, population: 8, remote_ppm: 250_000, look_ahead: 100, mean_delay: 1_000, grain: 0 }
    }
}

impl Phold {
    /// How many rounds of `grain` take this many nanoseconds on this machine: measured on the calling thread, the best of five
    /// times.
    pub fn rounds_for(nanos: u64) -> u32 {
        const ROUNDS: u32 = 200_000;
        let best = (0..5).map(|_| {
            let begin = std::time::Instant::now();
            std::hint::black_box(work(ROUNDS, 1));
            begin.elapsed().as_nanos().max(1) as u64
        });
        let best = best.min().expect("five were measured");
        (u128::from(nanos) * u128::from(ROUNDS) / u128::from(best)).min(u128::from(u32::MAX)) as u32
    }

    fn hop(&self, context: &mut Context<'_, ()>) {
        let delay = self.look_ahead.max(1).saturating_add(context.rng().exponential(self.mean_delay));
        let is_remote = context.rng().chance(self.remote_ppm);
        let all = u64::from(context.lps());
        let to = if is_remote { context.rng().below(all) as u32 } else { context.lp() };
        context.send(to, delay, ());
    }
}

/// Arithmetic in which each step depends on the one before.
fn work(rounds: u32, seed: u64) -> u64 {
    (0..rounds).fold(seed, |x, _| (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9))
}

impl Model for Phold {
    /// A number that depends on all handled events.
    type State = u64;
    type Event = ();

    fn lps(&self) -> u32 {
        self.lps
    }

    fn start(&self, context: &mut Context<'_, ()>) -> u64 {
        (0..self.population).for_each(|_| self.hop(context));
        u64::from(context.lp())
    }

    fn handle(&self, state: &mut u64, _: &(), context: &mut Context<'_, ()>) {
        *state = work(self.grain + 1, *state ^ context.now());
        self.hop(context);
    }
}
