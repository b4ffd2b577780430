//! A model to start from: a token goes around a ring, and every station keeps it for a random time.

use corun_pdes::{run, run_sequentially, Context, Error, Model, Options};

struct Ring {
    stations: u32,
}

/// The token, with the number of times it was passed on.
#[derive(Clone, Hash)]
struct Token(u64);

impl Model for Ring {
    /// How often this station had a token.
    type State = u64;
    type Event = Token;

    fn lps(&self) -> u32 {
        self.stations
    }

    fn start(&self, context: &mut Context<'_, Token>) -> u64 {
        // Every tenth station begins with a token.
        let here = context.lp();
        if here.is_multiple_of(10) {
            context.send(here, 1, Token(0));
        }
        0
    }

    fn handle(&self, visits: &mut u64, token: &Token, context: &mut Context<'_, Token>) {
        *visits += 1;
        let next = (context.lp() + 1) % self.stations;
        let kept = 1 + context.rng().below(100);
        context.send(next, kept, Token(token.0 + 1));
    }
}

fn main() -> Result<(), Error> {
    let (model, options) = (Ring { stations: 100 }, Options { until: 100_000, ..Options::default() });
    let parallel = run(&model, &options)?;
    let sequential = run_sequentially(&model, &options)?;
    assert_eq!(parallel.traces, sequential.traces);
    println!("{} events, {:.0} % efficient", parallel.committed, 100.0 * parallel.efficiency());
    Ok(())
}
