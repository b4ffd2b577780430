//! A closed queueing network: stations on a ring, each with one server, and customers that are served and go on to another station.

use crate::{Context, Model};
use std::collections::VecDeque;

/// A closed queueing network on a ring of stations.
#[derive(Clone, Copy, Debug)]
pub struct Queueing {
    /// Number of stations. Each is a logical process.
    pub stations: u32,
    /// Number of customers that begin at each station.
    pub customers: u32,
    /// Mean service time of a customer, exponentially distributed, in ticks.
    pub service: u64,
    /// Travel time to another station, in ticks, at least 1.
    pub way: u64,
    /// Probability, in millionths, that a customer goes to a random station. Otherwise it goes to the next one on the ring.
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
    /// Customers that wait, first come, first served. The first one is in service.
    queue: VecDeque<u32>,
    /// Number of customers that were served.
    served: u64,
    /// Ticks in which a customer was in service.
    busy: u64,
}

impl Station {
    /// Number of customers that were served.
    pub fn served(&self) -> u64 {
        self.served
    }

    /// Ticks of service, for customers that were served and for the one in service.
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
