//! Is the sampled instruction part of a loop that only waits?
//!
//! A task spins while there is a path from the sampled instruction back to itself that makes no progress, and
//! that would be repeated unless somebody else changed memory. The steps:
//!
//! 1. Remove every instruction that makes progress by itself (`step.rs`). If no path leads back, it is no
//!    wait.
//! 2. If every path back passes a PAUSE or a `sched_yield`, it is a wait: compilers never emit either
//!    unasked.
//! 3. Remove instructions that show progress only over iterations (`chains.rs`): a value that is computed
//!    further, an address that moves, a retry that ends by itself. Repeat until nothing changes.
//! 4. The rest is a wait if it can end through a read from memory at an address that does not move.
//! 5. A wait may lie in a loop that makes progress (for each thread: wait until it is ready). If the whole
//!    loop is no wait, the paths back are examined on which nothing that comes around changes, and then the
//!    shortest path back alone.
//! 6. A second look at a value just read (a sequence lock's, as in the vDSO's clocks) hardly ever leads back.
//!    If there is one, the same test is made as if it never did. So a wait that reads the clock in every turn
//!    counts as a wait there, too.
//!
//! This is the software form of the test in hardware spin detectors (no change of state from one backward
//! branch to the next), and of the "spinning read loop" of race detectors. Counters of iterations and
//! back-off may change.
//!
//! Limits: some waits count as useful: loops that store outside their stack (statistics, a queue of helpers'
//! work), and loops that poll through a function pointer or many small functions (unoptimized C++ or Rust). A
//! loop that counts in a register until a flag is set (`while (!stop) n++;`) looks like a wait for the flag,
//! and counts as one.

use super::chains::Chains;
use super::flow::Flow;
use super::step::{Carry, Effect};
use iced_x86::{FlowControl, Instruction};
use std::collections::VecDeque;

/// A loop that only waits, as far as the outcome of a sample needs it. The first turn is the sampled
/// instruction.
#[derive(Clone, Debug)]
pub struct WaitLoop {
    /// Its lowest address: samples in the same loop have it in common.
    pub at: u64,
    /// Its instructions.
    pub turns: Vec<Turn>,
}

impl WaitLoop {
    /// Whether it pauses while it waits.
    pub fn pauses(&self) -> bool {
        self.turns.iter().any(|t| t.pauses)
    }
}

/// One instruction of a loop that waits, and what comes next within the loop.
#[derive(Clone, Debug)]
pub struct Turn {
    /// The instruction.
    pub instruction: Instruction,
    /// Whether it waits a moment.
    pub pauses: bool,
    /// The next instruction; `None` if that is outside.
    pub falls_to: Option<usize>,
    /// The target of the jump; `None` if that is outside.
    pub jumps_to: Option<usize>,
}

/// The verdict on the code around a sample.
#[derive(Clone, Debug)]
pub enum Around {
    /// A loop that waits.
    Wait(WaitLoop),
    /// Not in itself, but it can return without progress: the caller may wait.
    Returns,
    /// Code that gets on.
    Work {
        /// Other instructions with the same verdict: those that every path around passes together with this
        /// one.
        likewise: Vec<u64>,
    },
}

/// Judges the first instruction of `flow`.
pub fn around(flow: &Flow) -> Around {
    let mut open: Vec<bool> = flow.nodes.iter().map(|n| n.step.effect != Effect::Progress).collect();
    let whole = ring(flow, &open);
    let mut learnt = Learnt::of(flow, &open);
    let found = wait(flow, &mut open, &mut learnt).or_else(|| {
        let still: Vec<bool> = learnt.within.iter().zip(&learnt.still).map(|(a, b)| *a && *b).collect();
        [ring(flow, &still), shortest_ring(flow, &learnt.within)].into_iter().find_map(|inner| {
            let mut inner = inner.filter(|ring| Some(ring) != whole.as_ref())?;
            wait(flow, &mut inner, &mut learnt)
        })
    });
    if let Some(wait) = found {
        return Around::Wait(wait);
    }
    if !learnt.rereads.is_empty() {
        return around(&flow.without(&learnt.rereads));
    }
    let returns = |&(node, _): &(usize, _)| open[0] && (node == 0 || ahead(flow, &open)[node]);
    if flow.outer_return.as_ref().is_some_and(returns) {
        Around::Returns
    } else {
        Around::Work { likewise: whole.map_or_else(Vec::new, |ring| straight_line(flow, &ring)) }
    }
}

/// What is learned about a loop that is no wait as a whole.
struct Learnt {
    /// Nodes that may be part of a wait in an inner loop: they would not leave if nobody interfered.
    within: Vec<bool>,
    /// Nodes through which no changing value comes around.
    still: Vec<bool>,
    /// Back edges that are taken only if somebody has changed a value just read.
    rereads: Vec<(usize, usize)>,
}

impl Learnt {
    /// At first: a try in an inner loop may make progress in the outer one (compare and exchange until it
    /// succeeds).
    fn of(flow: &Flow, open: &[bool]) -> Learnt {
        let nodes = flow.nodes.iter().zip(open);
        let within: Vec<bool> = nodes.map(|(n, open)| *open && n.step.carry != Carry::Try).collect();
        Learnt { still: within.clone(), within, rereads: Vec::new() }
    }
}

/// The addresses of the instructions before and after the first node that follow each other without a branch
/// inside the loop. It does not go beyond calls, where a node is more than an address.
fn straight_line(flow: &Flow, inside: &[bool]) -> Vec<u64> {
    let n = flow.nodes.len();
    let before = before(flow, inside);
    let is_plain = |node: usize| {
        let control = flow.nodes[node].step.instruction.flow_control();
        matches!(
            control,
            FlowControl::Next | FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        )
    };
    let only_next = |node: usize| {
        let mut next = flow.nodes[node].next().filter(|&next| inside[next]);
        next.next().filter(|_| next.next().is_none())
    };
    let only_before = |node: usize| match before[node][..] {
        [of] => Some(of),
        _ => None,
    };
    let follows = |of: usize, to: usize| {
        is_plain(of) && is_plain(to) && only_next(of) == Some(to) && only_before(to) == Some(of)
    };
    let onwards = |&node: &usize| only_next(node).filter(|&to| to != 0 && follows(node, to));
    let backwards = |&node: &usize| only_before(node).filter(|&of| of != 0 && follows(of, node));
    let line = |way: &dyn Fn(&usize) -> Option<usize>| -> Vec<usize> {
        std::iter::successors(way(&0), way).take(n).collect()
    };
    let both = [line(&onwards), line(&backwards)].concat();
    both.into_iter().map(|node| flow.nodes[node].step.instruction.ip()).collect()
}

/// The wait around the first node among those that are `open`; afterwards these exclude everything that makes
/// progress.
fn wait(flow: &Flow, open: &mut [bool], learnt: &mut Learnt) -> Option<WaitLoop> {
    while let Some(inside) = ring(flow, open) {
        let unpaused: Vec<bool> =
            (0..open.len()).map(|n| inside[n] && flow.nodes[n].step.effect != Effect::Pause).collect();
        if ring(flow, &unpaused).is_none() {
            return Some(turns(flow, &inside));
        }
        let chains = Chains::new(flow, &inside);
        let progress = chains.progress();
        if progress.is_empty() {
            return chains.asks_memory().then(|| turns(flow, &inside));
        }
        chains.retrying().into_iter().for_each(|node| learnt.within[node] = false);
        chains.changing().into_iter().for_each(|node| learnt.still[node] = false);
        learnt.rereads.extend(chains.rereads());
        progress.into_iter().for_each(|node| open[node] = false);
    }
    None
}

/// The shortest path from the first node back to it through `open` nodes.
fn shortest_ring(flow: &Flow, open: &[bool]) -> Option<Vec<bool>> {
    let mut from = vec![None; flow.nodes.len()];
    let mut to_do = VecDeque::from([0]);
    while let Some(node) = to_do.pop_front() {
        for next in flow.nodes[node].next().filter(|&next| open[next] && open[node]) {
            if from[next].is_none() {
                from[next] = Some(node);
                to_do.push_back(next);
            }
        }
    }
    let mut inside = vec![false; flow.nodes.len()];
    let mut at = 0;
    while !std::mem::replace(&mut inside[at], true) {
        at = from[at]?;
    }
    Some(inside)
}

/// All nodes that can be reached from the first node through `open` nodes; itself only if a path leads back.
fn ahead(flow: &Flow, open: &[bool]) -> Vec<bool> {
    reach(flow.nodes.len(), |node, to_do| to_do.extend(flow.nodes[node].next().filter(|&next| open[next])))
}

/// All nodes on a path from the first node back to it through `open` nodes; `None` if there is no such path.
fn ring(flow: &Flow, open: &[bool]) -> Option<Vec<bool>> {
    if !*open.first()? {
        return None;
    }
    let n = flow.nodes.len();
    let before = before(flow, open);
    let leads_back = reach(n, |node, to_do| to_do.extend(&before[node]));
    let reached = ahead(flow, open);
    reached[0].then(|| (0..n).map(|node| reached[node] && leads_back[node]).collect())
}

/// For each node, those that lead to it among `open` nodes.
fn before(flow: &Flow, open: &[bool]) -> Vec<Vec<usize>> {
    let mut before = vec![Vec::new(); flow.nodes.len()];
    for node in (0..flow.nodes.len()).filter(|&node| open[node]) {
        for next in flow.nodes[node].next().filter(|&next| open[next]) {
            before[next].push(node);
        }
    }
    before
}

/// All nodes that can be reached from the first node; itself only if a path leads back.
fn reach(n: usize, next: impl Fn(usize, &mut Vec<usize>)) -> Vec<bool> {
    let mut seen = vec![false; n];
    let mut to_do = Vec::with_capacity(n);
    next(0, &mut to_do);
    while let Some(node) = to_do.pop() {
        if !std::mem::replace(&mut seen[node], true) {
            next(node, &mut to_do);
        }
    }
    seen
}

fn turns(flow: &Flow, inside: &[bool]) -> WaitLoop {
    let mut renumbered = vec![None; inside.len()];
    for (new, node) in (0..inside.len()).filter(|&n| inside[n]).enumerate() {
        renumbered[node] = Some(new);
    }
    let members = flow.nodes.iter().zip(inside).filter(|(_, inside)| **inside).map(|(node, _)| node);
    let turns: Vec<Turn> = members
        .map(|node| Turn {
            instruction: node.step.instruction,
            pauses: node.step.effect == Effect::Pause,
            falls_to: node.falls_to.and_then(|n| renumbered[n]),
            jumps_to: node.jumps_to.and_then(|n| renumbered[n]),
        })
        .collect();
    WaitLoop { at: turns.iter().map(|t| t.instruction.ip()).min().unwrap_or_default(), turns }
}
