//! The longest wait of a tenant lately, as an example: the exemplar of its histogram.
//!
//! A window does not have single waits. It has how many waits of each thread were about how long, and who had
//! the CPU for most of the thread's waits. So the example is a thread with its longest bucket, the window in
//! which that was, and its main culprit then. The ring knows more about that moment.

use corun_model::histogram::BUCKETS;
use corun_model::observation::{Account, TaskObservation};
use corun_model::{Histogram, TaskId, TenantId};
use std::sync::Arc;

/// For how long it is the longest lately: then the next wait takes its place, however short.
const LATELY_NS: u64 = 60_000_000_000;
/// Letters of all labels of an exemplar, with their names: the limit of OpenMetrics.
const MOST_LETTERS: usize = 128;

/// Such a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Longest {
    /// The thread.
    pub task: TaskId,
    /// Its name.
    pub thread: Arc<str>,
    /// The label of its main culprit in that window; `None` if most is unattributed.
    pub culprit: Option<Arc<str>>,
    /// When the window ended, on the host's clock.
    pub ended_ns: u64,
    /// The same in time of day.
    pub unix_ns: u64,
    /// The bucket of the wait.
    pub bucket: usize,
}

impl Longest {
    /// Whether a wait in this bucket, in a window that ended then, takes its place.
    pub fn gives_way(&self, bucket: usize, ended_ns: u64) -> bool {
        bucket >= self.bucket || self.ended_ns + LATELY_NS <= ended_ns
    }

    /// Its length: the middle of its bucket, or the lower edge of the last one, which has no upper edge.
    pub fn ns(&self) -> u64 {
        let lower_ns = Histogram::lower_ns(self.bucket);
        match self.bucket + 1 {
            BUCKETS.. => lower_ns,
            next => lower_ns.midpoint(Histogram::lower_ns(next)),
        }
    }

    /// Its labels. A culprit that is too long for them is left out.
    pub fn labels(&self) -> Vec<(&'static str, String)> {
        let mut labels = vec![("tid", self.task.0.to_string()), ("thread", self.thread.to_string())];
        labels.extend(self.culprit.iter().map(|who| ("culprit", who.to_string())));
        let letters = |(name, value): &(&str, String)| name.len() + value.chars().count();
        if labels.iter().map(letters).sum::<usize>() > MOST_LETTERS {
            labels.truncate(2);
        }
        labels
    }
}

/// The bucket of the longest waits of a task; `None` if it did not wait, or nobody knows for how long.
pub fn bucket_of(task: &TaskObservation) -> Option<usize> {
    task.account.waits.as_ref()?.counts.iter().rposition(|n| *n > 0)
}

/// The tenant that had the CPU for most of the waits; `None` if most is unattributed.
pub fn main_culprit(account: &Account) -> Option<TenantId> {
    let culprits = &account.culprits;
    let main = culprits.shares().iter().max_by_key(|share| share.steal_ns)?;
    (main.steal_ns > culprits.unattributed_ns()).then_some(main.tenant)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn longest(bucket: usize, culprit: &str) -> Longest {
        let culprit = Some(culprit.into());
        Longest {
            task: TaskId(4711),
            thread: "nginx".into(),
            culprit,
            ended_ns: 1_000,
            unix_ns: 9_000,
            bucket,
        }
    }

    #[test]
    fn its_length_is_in_its_bucket() {
        for bucket in 0..BUCKETS {
            assert_eq!(Histogram::bucket_of(longest(bucket, "a").ns()), bucket);
        }
    }

    #[test]
    fn a_longer_wait_takes_its_place_and_after_a_minute_any_does() {
        let known = longest(7, "a");
        assert!(known.gives_way(8, 1_001) && known.gives_way(7, 1_001) && !known.gives_way(6, 1_001));
        assert!(known.gives_way(0, 1_000 + LATELY_NS));
    }

    #[test]
    fn labels_have_as_many_letters_as_scrapers_take() {
        let letters = |culprit: &str| {
            let labels = longest(7, culprit).labels();
            let all: String = labels.iter().flat_map(|(name, value)| [name, value.as_str()]).collect();
            (labels.len(), all.chars().count())
        };
        assert_eq!(letters("batch.service"), (3, 3 + 4 + 6 + 5 + 7 + 13));
        assert_eq!(letters(&"λ".repeat(103)), (3, 128));
        assert_eq!(letters(&"λ".repeat(104)), (2, 3 + 4 + 6 + 5));
    }
}
