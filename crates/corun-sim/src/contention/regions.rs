//! Data that the threads of a program share: once in each cache, for any number of users.
//!
//! Method: the threads of one program below one last-level cache refer to one set of lines, the *region*. It is a member of the cache's
//! [`super::llc::Domain`], like the data of a task. Its users together insert the lines that they miss, and each of them hits any line
//! that one of them has brought in.
//!
//! Source: PARSEC's own characterization, which separates shared from private data.
//! Limits: every thread refers to all of the region equally. Lines in two caches are only read; `coherence-pki` covers written lines.

use super::llc::Left;

/// "In no domain".
pub const NOWHERE: u32 = u32::MAX;

/// A program's shared data below one cache.
#[derive(Clone, Debug)]
pub struct Region {
    program: u32,
    /// The cache.
    pub llc: u32,
    /// Its place in the domain, while it has users.
    pub place: u32,
    /// CPUs whose threads use it.
    pub users: Vec<u32>,
    /// The rest of it when no thread uses it.
    pub left: Left,
    /// Bytes per nanosecond that its users insert.
    pub inserted: f64,
    /// Its share has moved since its users' rates were evaluated.
    pub stale: bool,
}

/// Misses by target: as a share of references, or per instruction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Missed {
    /// Own data that is not hot.
    pub own: f64,
    /// Hot data.
    pub hot: f64,
    /// Data that threads share.
    pub shared: f64,
}

impl Missed {
    /// The same per instruction of a task with this many references in each.
    pub fn per_instruction(self, references: f64) -> Missed {
        let Missed { own, hot, shared } = self;
        Missed { own: own * references, hot: hot * references, shared: shared * references }
    }
}

/// All regions.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    all: Vec<Region>,
    /// By LLC: its regions.
    by_llc: Vec<Vec<u32>>,
}

impl Regions {
    /// The region of a program below a cache.
    pub fn of(&mut self, program: u32, llc: u32) -> u32 {
        if self.by_llc.len() <= llc as usize {
            self.by_llc.resize(llc as usize + 1, Vec::new());
        }
        let here = &mut self.by_llc[llc as usize];
        if let Some(known) = here.iter().find(|r| self.all[**r as usize].program == program) {
            return *known;
        }
        let new = self.all.len() as u32;
        here.push(new);
        let (users, left) = (Vec::new(), Left::default());
        self.all.push(Region { program, llc, place: NOWHERE, users, left, inserted: 0.0, stale: false });
        new
    }

    /// One of them.
    pub fn get(&self, region: u32) -> &Region {
        &self.all[region as usize]
    }

    /// The same, mutable.
    pub fn at(&mut self, region: u32) -> &mut Region {
        &mut self.all[region as usize]
    }
}
