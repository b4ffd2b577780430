//! Links between nodes: a request for DRAM of another node also waits for its turn on the link.
//!
//! Method: between any two nodes there is a link in each direction that moves `link-bandwidth`. A request
//! queues for it as for a node's memory ([`super::membw`], M/D/1 with the time that one line takes) and then
//! for the memory itself. The two queues are solved alternately, since each throttles the other's traffic.
//!
//! Source: data sheets of HyperTransport and QPI; remote STREAM figures. Limits: a path over two links counts
//! as a separate link, so paths do not share links. Coherence transfers do not load links.

use super::membw::{Memory, LINE};

/// All links of a machine, for each pair of requesting and requested node.
#[derive(Clone, Debug)]
pub struct Links {
    nodes: usize,
    /// One of them; `None`: unlimited bandwidth.
    pub link: Option<Memory>,
    waits: Vec<f64>,
}

impl Links {
    /// Links with this capacity in bytes per cycle.
    pub fn new(nodes: usize, capacity: Option<f64>) -> Links {
        let link = capacity.map(|capacity| Memory { capacity, busy: LINE / capacity, rows: None });
        Links { nodes, link, waits: vec![0.0; nodes * nodes] }
    }

    /// Cycles that a request from one node to another waits.
    #[inline]
    pub fn wait(&self, from: u32, to: usize) -> f64 {
        self.waits[from as usize * self.nodes + to]
    }

    /// Sets the wait from now on.
    pub fn set(&mut self, from: usize, to: usize, wait: f64) {
        self.waits[from * self.nodes + to] = wait;
    }
}
