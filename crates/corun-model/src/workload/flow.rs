//! The path of items through the stages of a pipeline.
//!
//! Without `[[program.stage]]` the stages are a chain: the first makes items, and each passes them to the next. With it, stages have
//! names and say which stages they feed, so a flow may fan out and in:
//!
//! ```toml
//! [[program.stage]]
//! name  = "chunk"
//! feeds = ["compress", "write"]    # each item goes to one of them
//!
//! [[program.stage]]
//! name  = "compress"
//! feeds = ["write"]
//!
//! [[program.stage]]
//! name  = "write"                  # feeds nobody: its items are done
//! ```
//!
//! A stage that no stage feeds makes items. If a stage feeds several, chance decides for each item. It
//! depends only on seed, stage and item, so the item takes the same path on the live and on the modelled
//! machine. Each fed stage has one queue, which all stages that feed it share. A flow has no cycle, so it
//! cannot clog: the last stages always accept items.
//!
//! Limits: items are never copied or joined, and all branches are equally likely.

use super::bad_key::BadKey;
use super::draw::bits;
use super::program::{Parallel, Stage, Sync};

/// The flow of a program's items. Empty if it is not a pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    feeds: Vec<Vec<u32>>,
    /// For each stage, the number of its queue. `None` if it makes items.
    queues: Vec<Option<usize>>,
    threads: u32,
    seed: u64,
}

/// Separates the draws for branches from those for grains, whose lanes are stages too.
const BRANCHES: u64 = 1 << 32;

impl Flow {
    /// The flow of a program.
    ///
    /// # Errors
    /// The wrong key and one sentence: there are no stages or more than threads, or a stage is unknown, named twice, unconnected, or
    /// part of a cycle.
    pub fn of(p: &Parallel) -> Result<Flow, BadKey> {
        let described = p.stage.len() as u32;
        let stages = if described > 0 { described } else { p.stages };
        let feeds = match p.sync {
            Sync::Pipeline if stages == 0 => {
                return Err(BadKey::is("stages", 0, "; a pipeline needs at least 1"));
            }
            Sync::Pipeline if p.threads < stages => {
                let what = format!("{stages} stages need at least as many threads, there are {}", p.threads);
                return Err(BadKey::new("stages", what));
            }
            Sync::Pipeline if described == 0 => chain(stages),
            Sync::Pipeline if ![stages, Parallel::default().stages].contains(&p.stages) => {
                let rest = format!(", but {stages} are described; leave it out");
                return Err(BadKey::is("stages", p.stages, rest));
            }
            Sync::Pipeline => graph(&p.stage)?,
            _ if described > 0 => {
                return Err(BadKey::new("sync", "only a pipeline has stages; give sync = \"pipeline\""));
            }
            _ => Vec::new(),
        };
        let mut fed = vec![false; feeds.len()];
        feeds.iter().flatten().for_each(|&s| fed[s as usize] = true);
        let mut number = 0..;
        let queues = fed.into_iter().map(|is_fed| is_fed.then(|| number.next()).flatten()).collect();
        Ok(Flow { feeds, queues, threads: p.threads, seed: p.seed })
    }

    /// The number of stages.
    pub fn stages(&self) -> u32 {
        self.feeds.len() as u32
    }

    /// The stage of a thread. Threads are assigned to stages in turn.
    pub fn stage_of(&self, thread: u32) -> u32 {
        thread % self.stages().max(1)
    }

    /// The stages that `stage` feeds.
    pub fn feeds(&self, stage: u32) -> &[u32] {
        &self.feeds[stage as usize]
    }

    /// The stage that an item goes to from `stage`. `None` if it is done.
    pub fn next(&self, stage: u32, item: u64) -> Option<u32> {
        match self.feeds(stage) {
            [] => None,
            [only] => Some(*only),
            several => {
                let draw = u128::from(bits(self.seed, BRANCHES + u64::from(stage), item));
                Some(several[((draw * several.len() as u128) >> 64) as usize])
            }
        }
    }

    /// The number of a stage's queue. `None` if it makes items.
    pub fn queue(&self, stage: u32) -> Option<usize> {
        self.queues[stage as usize]
    }

    /// For each queue, the threads that put items into it.
    pub fn producers(&self) -> Vec<u32> {
        let mut producers = vec![0; self.queues.iter().flatten().count()];
        for stage in (0..self.threads).map(|t| self.stage_of(t)).filter(|&s| s < self.stages()) {
            self.feeds(stage).iter().filter_map(|&s| self.queue(s)).for_each(|q| producers[q] += 1);
        }
        producers
    }
}

/// Each stage feeds the next.
fn chain(stages: u32) -> Vec<Vec<u32>> {
    (1..=stages).map(|next| if next < stages { vec![next] } else { Vec::new() }).collect()
}

/// The stages by number, or the error in a stage.
fn graph(stages: &[Stage]) -> Result<Vec<Vec<u32>>, BadKey> {
    let name = |i: usize| stages[i].name.as_str();
    let wrong =
        |i: usize, what: String| Err(BadKey::named("name", name(i), format!("stage `{}` {what}", name(i))));
    let mut feeds = vec![Vec::new(); stages.len()];
    let mut connected = vec![stages.len() == 1; stages.len()];
    for (i, stage) in stages.iter().enumerate() {
        if stage.name.contains(char::is_control) {
            let what = format!("stage {} has a name that is not one line of text; give it another", i + 1);
            return Err(BadKey::new("name", what));
        }
        if stage.name.is_empty() || stages[..i].iter().any(|s| s.name == stage.name) {
            return wrong(i, "needs a name of its own; two stages have this one, or it is empty".into());
        }
        for fed in &stage.feeds {
            let Some(to) = stages.iter().position(|s| s.name == *fed) else {
                let known: Vec<&str> = (0..stages.len()).map(name).collect();
                let known = known.join(", ");
                return wrong(i, format!("feeds `{fed}`, which is no stage; name some of {known}"));
            };
            if to == i {
                return wrong(i, "feeds itself; let its items go on to another stage".into());
            }
            if feeds[i].contains(&(to as u32)) {
                return wrong(i, format!("feeds `{fed}` twice; name each stage once"));
            }
            feeds[i].push(to as u32);
            (connected[i], connected[to]) = (true, true);
        }
    }
    if let Some(i) = connected.iter().position(|c| !c) {
        let what = "neither feeds another nor is fed by one; give it `feeds`, or leave it out";
        return wrong(i, what.into());
    }
    match cycle(&feeds) {
        None => Ok(feeds),
        Some(round) => {
            let way: Vec<&str> = round.iter().map(|&i| name(i)).collect();
            let way = way.join(" feeds ");
            let what = "is a cycle, and no item would ever be done; break it";
            wrong(round[0], format!("gets its own items back: {way} {what}"))
        }
    }
}

/// A cycle with its first stage at both ends, if there is one. Stages that feed no remaining stage are removed repeatedly. Each
/// remaining stage feeds a remaining one, so following them leads round.
fn cycle(feeds: &[Vec<u32>]) -> Option<Vec<usize>> {
    let mut ends = vec![false; feeds.len()];
    while let Some(i) = (0..feeds.len()).find(|&i| !ends[i] && feeds[i].iter().all(|&to| ends[to as usize])) {
        ends[i] = true;
    }
    let mut at = ends.iter().position(|e| !e)?;
    let mut way = Vec::new();
    while !way.contains(&at) {
        way.push(at);
        at = feeds[at].iter().map(|&to| to as usize).find(|&to| !ends[to])?;
    }
    let mut round = way.split_off(way.iter().position(|&i| i == at)?);
    let first = (0..round.len()).min_by_key(|&i| round[i])?;
    round.rotate_left(first);
    round.push(round[0]);
    Some(round)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipeline(stages: &[(&str, &[&str])], threads: u32) -> Parallel {
        let stage = |&(name, feeds): &(&str, &[&str])| Stage {
            name: name.into(),
            feeds: feeds.iter().map(ToString::to_string).collect(),
        };
        let stage = stages.iter().map(stage).collect();
        Parallel { sync: Sync::Pipeline, stage, threads, ..Parallel::default() }
    }

    fn refusal(stages: &[(&str, &[&str])]) -> String {
        Flow::of(&pipeline(stages, 9)).unwrap_err().what
    }

    #[test]
    fn without_named_stages_a_pipeline_is_a_chain() {
        let chain =
            Flow::of(&Parallel { sync: Sync::Pipeline, stages: 3, threads: 5, ..Parallel::default() });
        let named = Flow::of(&pipeline(&[("a", &["b"]), ("b", &["c"]), ("c", &[])], 5));
        assert_eq!(chain, named);
        let flow = chain.unwrap();
        assert_eq!((flow.queue(0), flow.queue(1), flow.queue(2)), (None, Some(0), Some(1)));
        assert_eq!(flow.producers(), [2, 2], "stages 0 and 1 have two threads, stage 2 has one");
        assert_eq!((flow.next(0, 7), flow.next(2, 7)), (Some(1), None));
    }

    #[test]
    fn a_flow_may_fan_out_and_in_and_branches_are_equally_likely() {
        let diamond: [(&str, &[&str]); 4] = [("a", &["b", "c"]), ("b", &["d"]), ("c", &["d"]), ("d", &[])];
        let flow = Flow::of(&pipeline(&diamond, 6)).unwrap();
        assert_eq!(
            flow.producers(),
            [2, 2, 3],
            "the queue before d is filled by b's two threads and c's one"
        );
        let to_b = (0..10_000).filter(|&item| flow.next(0, item) == Some(1)).count();
        assert!((4_800..5_200).contains(&to_b), "{to_b} of 10000 items took the first of two branches");
        assert!((0..100).all(|item| flow.next(0, item) == flow.next(0, item)));
    }

    #[test]
    fn two_consecutive_branchings_do_not_depend_on_each_other() {
        let stages: [(&str, &[&str]); 5] =
            [("a", &["b", "c"]), ("b", &["d", "e"]), ("c", &["d"]), ("d", &[]), ("e", &[])];
        let flow = Flow::of(&pipeline(&stages, 5)).unwrap();
        let through_b: Vec<u64> = (0..4_000).filter(|&item| flow.next(0, item) == Some(1)).collect();
        let to_e = through_b.iter().filter(|&&item| flow.next(1, item) == Some(4)).count();
        assert!((0.45..0.55).contains(&(to_e as f64 / through_b.len() as f64)), "{to_e}");
    }

    #[test]
    fn a_cycle_is_refused_and_listed_stage_by_stage() {
        let said = refusal(&[
            ("read", &["hash"]),
            ("hash", &["pack"]),
            ("pack", &["hash", "write"]),
            ("write", &[]),
        ]);
        assert!(
            said.starts_with("stage `hash` gets its own items back: hash feeds pack feeds hash is"),
            "{said}"
        );
        assert!(refusal(&[("a", &["b"]), ("b", &["a"])]).contains("a feeds b feeds a"));
        assert!(refusal(&[("a", &["a"])]).starts_with("stage `a` feeds itself"));
    }

    #[test]
    fn stages_that_are_unknown_unconnected_or_named_twice_are_refused() {
        assert!(refusal(&[("a", &["c"]), ("b", &[])]).contains("`c`, which is no stage; name some of a, b"));
        assert!(refusal(&[("a", &["b"]), ("b", &[]), ("c", &[])]).starts_with("stage `c` neither feeds"));
        assert!(refusal(&[("a", &["b"]), ("b", &[]), ("a", &["b"])]).starts_with("stage `a` needs a name"));
        assert!(refusal(&[("a", &["b", "b"]), ("b", &[])]).contains("feeds `b` twice"));
    }

    #[test]
    fn a_program_that_is_not_a_pipeline_has_no_flow() {
        assert_eq!(Flow::of(&Parallel::default()).unwrap().stages(), 0);
    }
}
