//! Iterations that are processes: narrows the possible time of each, using the lives of processes.
//!
//! A tool that starts a process for each iteration reads its clock before it makes the process and after it has noticed its end. So the
//! process lived within the iteration, and for nearly as long. Iterations follow each other, and so do their processes. Among all
//! assignments of processes to iterations, each iteration has a first and a last possible process. It was one of these or one between
//! them. Warm-ups and other processes of similar length allow several assignments, and so wider bounds.
//!
//! If there is no assignment, these were other processes, and nothing is narrowed.

use crate::when::Span;

/// The life of a process, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Life {
    /// When it began.
    pub begin_ns: i64,
    /// When it ended.
    pub end_ns: i64,
}

/// The clock of files is compared with that of processes once. During a run the clocks may drift apart by this.
const DRIFT_NS: i64 = 1_000_000;
/// How much longer than its process an iteration may take: to make it, and for the tool to get a CPU after its end.
const AROUND_NS: i64 = 5_000_000;
/// The same as a share of the iteration, since on contended CPUs the tool has to wait for one too.
const AROUND: f64 = 0.2;

/// Whether this process may belong to the iteration.
fn fits(life: &Life, span: &Span) -> bool {
    let lived_ns = life.end_ns - life.begin_ns;
    let around_ns = AROUND_NS + (span.length_ns as f64 * AROUND) as i64;
    let most_ns = span.length_ns + DRIFT_NS;
    (most_ns - DRIFT_NS - around_ns..=most_ns).contains(&lived_ns)
        && life.begin_ns >= span.earliest_ns - DRIFT_NS
        && life.begin_ns <= span.latest_ns + around_ns + DRIFT_NS
}

/// Narrows the possible times of iterations. Both lists are in order of time.
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

/// The first possible process of each iteration, if those before it have their first possible ones.
fn forward(spans: &[Span], lives: &[Life]) -> Option<Vec<Life>> {
    let (mut at, mut free_ns) = (0, i64::MIN);
    let next = |span: &Span| {
        let found = (at..lives.len()).find(|&n| lives[n].begin_ns >= free_ns && fits(&lives[n], span))?;
        (at, free_ns) = (found + 1, lives[found].end_ns);
        Some(lives[found])
    };
    spans.iter().map(next).collect()
}

/// The last possible process of each iteration, in the same way.
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
        // Short shells, a longer warm-up, and two iterations, one of which took twice as long.
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
    fn if_an_iteration_was_no_process_nothing_is_narrowed() {
        assert_eq!(narrowed(&[50, 50], &[(10, 60)]), [(0, 1_000); 2], "too few");
        assert_eq!(narrowed(&[500], &[(10, 60)]), [(0, 1_000)], "another length");
        assert_eq!(narrowed(&[50, 50], &[(10, 60), (30, 80)]), [(0, 1_000); 2], "at a time");
        assert_eq!(narrowed(&[50], &[]), [(0, 1_000)]);
    }
}
