//! Iterations that are processes: where in a run each can have been, by when processes lived.
//!
//! A tool that starts a process for each iteration reads its clock before it makes the process and after it has heard of its end.
//! So the process lived within the iteration, and for nearly as long. Iterations follow each other, and so do their processes.
//! Of all ways to find a process for each iteration, the first and the last are taken for each: it was one of those
//! or one between them. Warm-ups and other processes of about the same length leave several ways, and so wider bounds.
//!
//! Where there is no such way, these were other processes, and nothing is narrowed.

use crate::when::Span;

/// How long a process lived, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    /// When it was made.
    pub begin_ns: i64,
    /// When it ended.
    pub end_ns: i64,
}

/// The clock that files are on is compared with that of processes once: they may drift apart by so much in a run.
const DRIFT_NS: i64 = 1_000_000;
/// What an iteration may take beyond its process: to make it, and for the tool to get a CPU again after its end.
const AROUND_NS: i64 = 5_000_000;
/// The same as a share of the iteration: where CPUs are contended the tool waits for one, too.
const AROUND: f64 = 0.2;

/// Whether an iteration can have been this process.
fn fits(life: &Life, span: &Span) -> bool {
    let lived_ns = life.end_ns - life.begin_ns;
    let around_ns = AROUND_NS + (span.length_ns as f64 * AROUND) as i64;
    let most_ns = span.length_ns + DRIFT_NS;
    (most_ns - DRIFT_NS - around_ns..=most_ns).contains(&lived_ns)
        && life.begin_ns >= span.earliest_ns - DRIFT_NS
        && life.begin_ns <= span.latest_ns + around_ns + DRIFT_NS
}

/// Narrows where iterations can have been. Both are in the order of time.
pub(crate) fn narrow(spans: &mut [Span], lives: &[Life]) {
    let Some(first) = forward(spans, lives) else { return };
    let Some(last) = backward(spans, lives) else { return };
    for (span, (first, last)) in spans.iter_mut().zip(first.into_iter().zip(last)) {
        let earliest_ns = (first.end_ns - span.length_ns).max(span.earliest_ns);
        let latest_ns = last.begin_ns.min(span.latest_ns);
        if earliest_ns <= latest_ns {
            (span.earliest_ns, span.latest_ns) = (earliest_ns, latest_ns);
        }
    }
}

/// The first process that each can have been, if those in front of it were the first that they can have been.
fn forward(spans: &[Span], lives: &[Life]) -> Option<Vec<Life>> {
    let (mut at, mut free_ns) = (0, i64::MIN);
    let next = |span: &Span| {
        let found = (at..lives.len()).find(|&n| lives[n].begin_ns >= free_ns && fits(&lives[n], span))?;
        (at, free_ns) = (found + 1, lives[found].end_ns);
        Some(lives[found])
    };
    spans.iter().map(next).collect()
}

/// The last process that each can have been, likewise.
fn backward(spans: &[Span], lives: &[Life]) -> Option<Vec<Life>> {
    let (mut until, mut free_ns) = (lives.len(), i64::MAX);
    let next = |span: &Span| {
        let found = (0..until).rev().find(|&n| lives[n].end_ns <= free_ns && fits(&lives[n], span))?;
        (until, free_ns) = (found, lives[found].begin_ns);
        Some(lives[found])
    };
    let mut found: Vec<Life> = spans.iter().rev().map(next).collect::<Option<_>>()?;
    found.reverse();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::when::By;

    const MS: i64 = 1_000_000;

    /// Iterations of these lengths, each somewhere in the first second.
    fn spans(lengths_ms: &[i64]) -> Vec<Span> {
        let span =
            |ms: &i64| Span { earliest_ns: 0, latest_ns: 1_000 * MS, length_ns: ms * MS, by: By::Order };
        lengths_ms.iter().map(span).collect()
    }

    fn lives(lives_ms: &[(i64, i64)]) -> Vec<Life> {
        lives_ms.iter().map(|&(from, until)| Life { begin_ns: from * MS, end_ns: until * MS }).collect()
    }

    fn narrowed(lengths_ms: &[i64], lives_ms: &[(i64, i64)]) -> Vec<(i64, i64)> {
        let mut spans = spans(lengths_ms);
        narrow(&mut spans, &lives(lives_ms));
        spans.iter().map(|s| (s.earliest_ns / MS, s.latest_ns / MS)).collect()
    }

    #[test]
    fn an_iteration_was_when_its_process_was() {
        // Shells that only start something, a warm-up that took longer, two iterations, one of which took twice as long.
        let processes = [(1, 3), (5, 6), (10, 130), (140, 189), (200, 300)];
        assert_eq!(narrowed(&[50, 101], &processes), [(139, 140), (199, 200)]);
    }

    #[test]
    fn a_warm_up_of_the_same_length_leaves_it_open_which_was_which() {
        let processes = [(10, 60), (70, 120), (130, 180)];
        assert_eq!(narrowed(&[51, 51], &processes), [(9, 70), (69, 130)]);
    }

    #[test]
    fn a_shell_and_what_it_starts_are_one_iteration() {
        let processes = [(10, 60), (11, 59), (70, 120), (71, 119)];
        assert_eq!(narrowed(&[51, 51], &processes), [(9, 11), (69, 71)]);
    }

    #[test]
    fn where_an_iteration_was_no_process_nothing_is_narrowed() {
        assert_eq!(narrowed(&[50, 50], &[(10, 60)]), [(0, 1_000); 2], "too few");
        assert_eq!(narrowed(&[500], &[(10, 60)]), [(0, 1_000)], "another length");
        assert_eq!(narrowed(&[50, 50], &[(10, 60), (30, 80)]), [(0, 1_000); 2], "at a time");
        assert_eq!(narrowed(&[50], &[]), [(0, 1_000)]);
    }
}
