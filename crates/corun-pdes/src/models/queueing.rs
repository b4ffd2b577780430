//! A closed queueing network: stations with one server each on a ring, customers that are served, then go on to another station.

use crate::{Context, Model};
use std::collections::VecDeque;

/// A closed queueing network on a ring of stations.
#[derive(Clone, Copy, Debug)]
pub struct Queueing {
    /// Stations, each a logical process.
    pub stations: u32,
    /// Customers that begin at each station.
    pub customers: u32,
    /// Mean of the time that a customer is served, exponentially distributed, in ticks.
    pub service: u64,
    /// How long the way to another station takes, in ticks, at least 1.
    pub way: u64,
    /// How likely it is that the way leads to any station and not to the next on the ring, in millionths.
    pub far_ppm: u32,
}

impl Default for Queueing {
    fn default() -> Queueing {
        Queueing { stations: 256, customers: 4, service: 1_000, way: 200, far_ppm: 50_000 }
    }
}

/// A station.
#[derive(Clone, Debug, Default, Hash)]
pub struct Station {
    /// Who waits, first come, first served; the first is being served.
    queue: VecDeque<u32>,
    /// Customers that were served.
    served: u64,
    /// Ticks in which somebody was served.
    busy: u64,
}

impl Station {
    /// Customers that were served.
    pub fn served(&self) -> u64 {
        self.served
    }

    /// Ticks that went into serving them and whoever is being served.
    pub fn busy(&self) -> u64 {
        self.busy
    }
}

/// What happens at a station.
#[derive(Clone, Copy, Debug, Hash)]
pub enum Happening {
    /// This customer arrives.
    Arrives(u32),
    /// The customer in service is done.
    Done,
}

impl Queueing {
    fn serve(&self, station: &mut Station, context: &mut Context<'_, Happening>) {
        let time = 1 + context.rng().exponential(self.service);
        station.busy += time;
        let here = context.lp();
        context.send(here, time, Happening::Done);
    }
}

impl Model for Queueing {
    type State = Station;
    type Event = Happening;

    fn lps(&self) -> u32 {
        self.stations
    }

    fn start(&self, context: &mut Context<'_, Happening>) -> Station {
        let here = context.lp();
        for customer in 0..self.customers {
            context.send(
                here,
                1,
                Happening::Arrives(here.wrapping_mul(self.customers).wrapping_add(customer)),
            );
        }
        Station::default()
    }

    fn handle(&self, station: &mut Station, event: &Happening, context: &mut Context<'_, Happening>) {
        match *event {
            Happening::Arrives(customer) => {
                station.queue.push_back(customer);
                if station.queue.len() == 1 {
                    self.serve(station, context);
                }
            }
            Happening::Done => {
                let customer = station.queue.pop_front().expect("whoever is done was there");
                station.served += 1;
                let all = u64::from(context.lps());
                let is_far = context.rng().chance(self.far_ppm);
                let next = (u64::from(context.lp()) + 1) % all;
                let to = if is_far { context.rng().below(all) } else { next };
                context.send(to as u32, self.way.max(1), Happening::Arrives(customer));
                if !station.queue.is_empty() {
                    self.serve(station, context);
                }
            }
        }
    }
}
