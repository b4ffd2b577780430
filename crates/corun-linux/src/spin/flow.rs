//! The paths that lead on from a sample: the code as a graph, followed until something makes progress.
//!
//! Decoding starts at the sampled instruction, so it is aligned, and all of a loop can be reached from any of
//! its instructions. A call is followed into the function, with the return address as context, so that a loop
//! that polls through functions is one graph. A return goes back to its call. The sampled function's own
//! return leads to a caller only if that caller's address is given. [`Flow::outer_return`] says where the
//! address lies in the stack: pushes and pops are followed to the return, so neither frame pointers nor debug
//! information are needed.
//!
//! Limits: indirect jumps and calls end the path, except those through a pointer in a fixed place (shared
//! libraries, the vDSO). So do [`NODES_MAX`] instructions and [`DEPTH_MAX`] nested calls. The knowledge about
//! the stack at an instruction is that of the first path there.

use super::frame::{FoundBy, Frame};
use super::memory::Memory;
use super::sample::Sample;
use super::step::{number, Effect, Step};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpKind};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// The most instructions that are examined: a loop that only waits is far smaller.
const NODES_MAX: usize = 400;

/// The most calls inside each other.
const DEPTH_MAX: usize = 6;

/// An instruction's place in the graph and its successors.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its effect.
    pub step: Step,
    /// The next instruction, if it is in the graph.
    pub falls_to: Option<usize>,
    /// The target of a branch, if it is in the graph.
    pub jumps_to: Option<usize>,
}

impl Node {
    /// Its successors.
    pub fn next(&self) -> impl Iterator<Item = usize> + '_ {
        self.falls_to.into_iter().chain(self.jumps_to)
    }
}

/// The code reachable from a sample without progress. The first node is the sampled instruction.
#[derive(Clone, Debug, Default)]
pub struct Flow {
    /// The instructions.
    pub nodes: Vec<Node>,
    /// The location of the return address of the outermost known function, and the node that returns.
    pub outer_return: Option<(usize, ReturnSlot)>,
}

impl Flow {
    /// The same code as if these edges, each from one node to another, were never taken.
    pub fn without(&self, ways: &[(usize, usize)]) -> Flow {
        let mut flow = self.clone();
        for &(node, to) in ways {
            let Node { falls_to, jumps_to, .. } = &mut flow.nodes[node];
            for next in [falls_to, jumps_to] {
                *next = next.filter(|n| *n != to);
            }
        }
        flow
    }
}

/// The location of a return address in the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReturnSlot {
    /// This many bytes above the stack pointer.
    AboveStackPointer(u64),
    /// This many bytes above the frame pointer.
    AboveFramePointer(u64),
    /// At this address, found for this sample only.
    At(u64),
}

impl ReturnSlot {
    /// The return address, if the sampled piece of stack reaches that far.
    pub fn address(self, sample: &Sample) -> Option<u64> {
        sample.stack_word(match self {
            ReturnSlot::AboveStackPointer(bytes) => sample.sp().wrapping_add(bytes),
            ReturnSlot::AboveFramePointer(bytes) => sample.bp().wrapping_add(bytes),
            ReturnSlot::At(address) => address,
        })
    }
}

/// The nested calls on the path to an instruction: the number of a [`Call`], 0 for none.
type Context = usize;

/// A call on the path, and those around it.
#[derive(Clone, Copy, Debug, Default)]
struct Call {
    returns_to: u64,
    outside: Context,
    depth: usize,
}

/// Follows the code from `sample`; `callers` are the return addresses of the functions around it, outermost
/// first. `None` if the sampled instruction itself cannot be read.
pub fn follow(memory: &mut dyn Memory, sample: &Sample, callers: &[u64]) -> Option<Flow> {
    let mut walk = Walk {
        memory,
        sample,
        factory: InstructionInfoFactory::new(),
        flow: Flow::default(),
        calls: vec![Call::default()],
        found: HashMap::new(),
        anchors: callers.iter().copied().chain([sample.ip]).collect(),
        ways: Vec::new(),
        to_do: BinaryHeap::new(),
    };
    let context = callers.iter().fold(0, |outside, &caller| walk.inside(outside, caller));
    walk.reach(sample.ip, context, Frame::of(sample));
    while let Some(Reverse((.., node))) = walk.to_do.pop() {
        let (context, frame) = walk.ways[node];
        walk.go_on(node, context, frame);
    }
    (!walk.flow.nodes.is_empty()).then_some(walk.flow)
}

struct Walk<'a> {
    memory: &'a mut dyn Memory,
    sample: &'a Sample,
    factory: InstructionInfoFactory,
    flow: Flow,
    /// By number; the first is none.
    calls: Vec<Call>,
    found: HashMap<(Context, u64), usize>,
    /// The sampled instruction and the return addresses around it.
    anchors: Vec<u64>,
    /// How each node was reached.
    ways: Vec<(Context, Frame)>,
    /// Nodes whose successors are to be found. Calls that contain the sample come before other calls, and of
    /// these the nodes nearest to an anchor come first. So a loop closes before the code behind its exits is
    /// examined.
    to_do: BinaryHeap<Reverse<(bool, u64, usize)>>,
}

impl Walk<'_> {
    /// The node of the instruction at `ip`, new or known; `None` if nothing can be decoded or there are too
    /// many.
    fn reach(&mut self, ip: u64, context: Context, frame: Frame) -> Option<usize> {
        if let Some(&node) = self.found.get(&(context, ip)) {
            return Some(node);
        }
        if self.flow.nodes.len() >= NODES_MAX {
            return None;
        }
        let instruction = self.decode(ip)?;
        let step = Step::of(instruction, &frame.known, &mut self.factory);
        let node = self.flow.nodes.len();
        self.flow.nodes.push(Node { step, falls_to: None, jumps_to: None });
        self.found.insert((context, ip), node);
        self.ways.push((context, frame));
        let distance = self.anchors.iter().map(|a| a.abs_diff(ip)).min();
        // The sample's own calls are the first known ones.
        let is_elsewhere = context >= self.anchors.len();
        self.to_do.push(Reverse((is_elsewhere, distance.unwrap_or(0), node)));
        Some(node)
    }

    /// The context of a call that returns to `returns_to`, new or known.
    fn inside(&mut self, outside: Context, returns_to: u64) -> Context {
        let is_this = |c: &Call| c.depth > 0 && (c.returns_to, c.outside) == (returns_to, outside);
        self.calls.iter().position(is_this).unwrap_or_else(|| {
            let depth = self.calls[outside].depth + 1;
            self.calls.push(Call { returns_to, outside, depth });
            self.calls.len() - 1
        })
    }

    fn decode(&mut self, ip: u64) -> Option<Instruction> {
        let mut bytes = [0; 15];
        let had = self.memory.read(ip, &mut bytes);
        let instruction = Decoder::with_ip(64, &bytes[..had], ip, DecoderOptions::NONE).decode();
        (!instruction.is_invalid()).then_some(instruction)
    }

    /// Finds what follows `node`.
    fn go_on(&mut self, node: usize, context: Context, before: Frame) {
        let instruction = self.flow.nodes[node].step.instruction;
        if self.flow.nodes[node].step.effect == Effect::Progress {
            return;
        }
        let memory = &mut *self.memory;
        let after = before.after(&self.flow.nodes[node].step, self.sample, |at| memory.pointer(at));
        let beyond = instruction.next_ip();
        match instruction.flow_control() {
            _ if instruction.mnemonic() == Mnemonic::Syscall => {
                self.flow.nodes[node].falls_to = self.reach(beyond, context, after);
            }
            FlowControl::Next => {
                self.flow.nodes[node].falls_to = self.reach(beyond, context, after);
            }
            FlowControl::ConditionalBranch => {
                let target = instruction.near_branch_target();
                self.flow.nodes[node].falls_to = self.reach(beyond, context, after);
                self.flow.nodes[node].jumps_to = self.reach(target, context, after);
            }
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => {
                if let Some(target) = self.target(&instruction, &before) {
                    self.flow.nodes[node].jumps_to = self.reach(target, context, after);
                }
            }
            FlowControl::Call | FlowControl::IndirectCall if self.calls[context].depth < DEPTH_MAX => {
                if let Some(target) = self.target(&instruction, &before) {
                    let inside = self.inside(context, beyond);
                    self.flow.nodes[node].jumps_to = self.reach(target, inside, after);
                }
            }
            FlowControl::Return => self.go_back(node, context, before, after),
            _ => {}
        }
    }

    fn go_back(&mut self, node: usize, context: Context, before: Frame, after: Frame) {
        if context != 0 {
            let Call { returns_to, outside, .. } = self.calls[context];
            self.flow.nodes[node].jumps_to = self.reach(returns_to, outside, after);
        } else if let (None, Some(sp)) = (self.flow.outer_return, before.known.sp) {
            let slot = match before.found_by {
                FoundBy::Stack => ReturnSlot::AboveStackPointer(sp.wrapping_sub(self.sample.sp())),
                FoundBy::Frame => ReturnSlot::AboveFramePointer(sp.wrapping_sub(self.sample.bp())),
                FoundBy::SavedFrame => ReturnSlot::At(sp),
            };
            self.flow.outer_return = Some((node, slot));
        }
    }

    /// The target of a jump or call, if it can be known: directly, or through a pointer in a fixed place.
    fn target(&mut self, instruction: &Instruction, before: &Frame) -> Option<u64> {
        match instruction.op0_kind() {
            OpKind::NearBranch64 => Some(instruction.near_branch_target()),
            OpKind::Memory if instruction.is_ip_rel_memory_operand() => {
                self.memory.pointer(instruction.ip_rel_memory_address())
            }
            OpKind::Register => before.known.values[usize::from(number(instruction.op0_register())?)],
            _ => None,
        }
    }
}
