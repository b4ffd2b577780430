//! Parts of a verified run: the benchmarks that a tool measured in it, and the failed tests, as facts and in
//! words.

use crate::words::{between, name, share, wrap};
use corun_predict::spans::{Cause, Judged, Unsure};
use corun_predict::Ruling;
use corun_results::annotate::Property;
use corun_results::output::{human_s, Measured, Spread, TestVerdict, Tested};
use corun_results::when::By;
use corun_results::{Annotated, NotPlaced, Span};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// An iteration of a benchmark.
#[derive(Clone, Debug)]
pub struct Iteration {
    /// How long an operation took, in seconds.
    pub seconds: f64,
    /// The verdict on it.
    pub verdict: Ruling,
    /// Its total duration and the lost share of it, 0..1; `None` if unknown.
    pub lost: Option<(f64, f64)>,
    /// Who took most of that.
    pub culprit: Option<String>,
}

/// The iterations of a benchmark.
#[derive(Clone, Debug)]
pub struct Benchmark {
    /// Its name.
    pub name: String,
    /// How many iterations its tool measures in a run.
    pub wanted: usize,
    /// In their order, of all tries.
    pub iterations: Vec<Iteration>,
}

impl Benchmark {
    /// Appends the iterations of the last try to those of earlier ones. Several with one name are
    /// distinguished by their order.
    pub fn pool(mut earlier: Vec<Benchmark>, last: &[Benchmark]) -> Vec<Benchmark> {
        for (n, benchmark) in last.iter().enumerate() {
            let alike = last[..n].iter().filter(|other| other.name == benchmark.name).count();
            match earlier.iter_mut().filter(|known| known.name == benchmark.name).nth(alike) {
                Some(known) => {
                    known.wanted = benchmark.wanted;
                    known.iterations.extend(benchmark.iterations.iter().cloned());
                }
                None => earlier.push(benchmark.clone()),
            }
        }
        earlier
    }
}

/// The text about a benchmark; `None` if it has no iterations.
pub fn measured(benchmark: &Benchmark) -> Option<Measured> {
    let Benchmark { name, wanted, iterations } = benchmark;
    let is = |verdict| iterations.iter().filter(move |i| i.verdict == verdict);
    let (length, lost) = iterations
        .iter()
        .filter_map(|i| i.lost)
        .fold((0.0, 0.0), |(length, lost), (ns, share)| (length + ns, lost + ns * share));
    let most = is(Ruling::Disturbed).max_by(|a, b| {
        let lost = |i: &Iteration| i.lost.map_or(0.0, |(ns, share)| ns * share);
        lost(a).total_cmp(&lost(b))
    });
    Some(Measured {
        name: name.clone(),
        wanted: *wanted,
        raw: Spread::of(iterations.iter().map(|i| i.seconds))?,
        cleaned: Spread::of(is(Ruling::Clean).map(|i| i.seconds)),
        disturbed: is(Ruling::Disturbed).count(),
        unclear: is(Ruling::Unclear).count(),
        disturbance: (length > 0.0).then(|| lost / length),
        culprit: most.and_then(|i| i.culprit.clone()),
    })
}

/// The text about parts of the run, in lines.
pub(crate) fn lines(benchmarks: &[Measured], failed: &[Tested], left_out: u64) -> String {
    /// Most of each sort.
    const MOST: usize = 10;
    let tests = failed.iter().map(|t| format!("{}: {}: {}", name(&t.name, 60), t.verdict.name(), t.why));
    let mut out = String::new();
    let benchmarks = benchmarks.iter().map(line);
    for (said, count) in [
        (benchmarks.clone().take(MOST).collect::<Vec<_>>(), benchmarks.len() as u64),
        (tests.clone().take(MOST).collect(), failed.len() as u64 + left_out),
    ] {
        for (n, l) in said.iter().flat_map(|said| wrap(said, 96).into_iter().enumerate()) {
            let _ = writeln!(out, "{}{l}", if n == 0 { "  " } else { "    " });
        }
        if count > said.len() as u64 {
            let _ = writeln!(out, "  and {} more", count - said.len() as u64);
        }
    }
    out
}

/// A benchmark in a line.
fn line(measured: &Measured) -> String {
    let Measured { raw, cleaned, disturbed, unclear, .. } = measured;
    let clean = match cleaned {
        Some(clean) if clean.count == raw.count => "nobody disturbed any".to_owned(),
        Some(clean) => format!("{} of the {} that nobody disturbed", human_s(clean.mean_s), clean.count),
        None => "none of them is clean for certain".to_owned(),
    };
    let by =
        measured.culprit.as_deref().map_or(String::new(), |who| format!(", mostly by `{}`", name(who, 40)));
    let some = |n: &usize, what: String| if *n > 0 { format!("; {what}") } else { String::new() };
    format!(
        "{}: {} on average of {}; {clean}{}{}",
        name(&measured.name, 60),
        human_s(raw.mean_s),
        raw.count,
        some(disturbed, format!("{disturbed} disturbed{by}")),
        some(unclear, format!("of {unclear} nobody can tell")),
    )
}

/// The text about a JUnit file of a past run, in lines.
pub fn annotated(tests: &Path, copy: &Path, count: &Annotated, failed: &[Tested]) -> String {
    let mut verdicts: BTreeMap<&str, usize> = BTreeMap::new();
    failed.iter().for_each(|t| *verdicts.entry(t.verdict.name()).or_default() += 1);
    let verdicts: Vec<String> = verdicts.iter().map(|(verdict, n)| format!("{n} {verdict}")).collect();
    let left_out = count.failed.saturating_sub(failed.len() as u64);
    let of_failed = match (count.failed, &*verdicts) {
        (0, _) => "none failed".to_owned(),
        (n, []) => format!("{n} failed"),
        (n, said) if left_out > 0 => {
            format!("{n} failed (of the first {}: {})", failed.len(), said.join(", "))
        }
        (n, said) => format!("{n} failed ({})", said.join(", ")),
    };
    let cases = match count.cases {
        1 => "1 test".to_owned(),
        n => format!("{n} tests"),
    };
    let sentence = format!("{}: {cases}, {of_failed}; wrote {}", tests.display(), copy.display());
    let mut out: String = wrap(&sentence, 100).into_iter().map(|line| line + "\n").collect();
    out.push_str(&lines(&[], failed, left_out));
    out
}

/// The text about a test case: its own properties, and a verdict if it failed.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseVerdict {
    /// The properties for its file.
    pub properties: Vec<Property>,
    /// The verdict.
    pub tested: Option<Tested>,
}

/// Whether the time of a test case is known well enough to give it times of its own: those of a longer
/// stretch do not belong to it.
pub fn is_close(span: &Span) -> bool {
    span.latest_ns - span.earliest_ns <= span.length_ns
}

/// The text about a test case. `judged` with its span, if that is known; `culprit` is the name of the main
/// one.
pub fn case_verdict(
    case: &str,
    has_failed: bool,
    judged: Result<(&Judged, &Span), NotPlaced>,
    culprit: Option<&str>,
) -> CaseVerdict {
    let mut properties: Vec<Property> = Vec::new();
    let seconds = |ns: f64| format!("{:.6}", ns / 1e9);
    if let Ok((judged, span)) = judged {
        if judged.unsure != Some(Unsure::Unwatched) && is_close(span) {
            properties.push(("corun.stolen_s", seconds(judged.stolen_ns)));
            properties.push(("corun.waited_s", seconds(judged.waited_ns)));
            properties.push(("corun.throttled_s", seconds(judged.throttled_ns)));
            let by = match span.by {
                By::Stamp => "its time",
                By::Order => "its order",
            };
            properties.push(("corun.placed_by", by.to_owned()));
            properties.push(("corun.placed_within_s", seconds((span.latest_ns - span.earliest_ns) as f64)));
        }
    }
    let tested = has_failed.then(|| {
        let (verdict, why) = match judged {
            Ok((judged, _)) => (verdict(judged.cause), why(judged, culprit)),
            Err(nowhere) => (TestVerdict::CannotTell, not_placed(nowhere).to_owned()),
        };
        properties.push(("corun.verdict", verdict.name().to_owned()));
        properties.push(("corun.why", why.clone()));
        let starved_by =
            culprit.filter(|_| matches!(judged, Ok((judged, _)) if judged.cause == Cause::Starved));
        properties.extend(starved_by.map(|who| ("corun.culprit", who.to_owned())));
        Tested { name: case.to_owned(), verdict, why }
    });
    CaseVerdict { properties, tested }
}

fn verdict(cause: Cause) -> TestVerdict {
    match cause {
        Cause::Starved => TestVerdict::Starved,
        Cause::Throttled => TestVerdict::Throttled,
        Cause::NotStarved => TestVerdict::NotStarved,
        Cause::CannotTell(_) => TestVerdict::CannotTell,
    }
}

fn why(judged: &Judged, culprit: Option<&str>) -> String {
    let [least, likely, most] = judged.lost;
    let lost = || format!("{} of its time was lost to others", between(least, likely));
    let by = culprit.map_or(String::new(), |who| format!(", mostly to `{}`", name(who, 40)));
    let throttled = || format!("its quota stopped its tasks for {}", human_s(judged.throttled_ns / 1e9));
    match judged.cause {
        Cause::Starved => lost() + &by,
        Cause::Throttled => throttled(),
        Cause::NotStarved => format!("at most {} % of its time was lost to others", share(most)),
        Cause::CannotTell(unsure) => match unsure {
            Unsure::Unwatched => "corun did not watch all of it".to_owned(),
            Unsure::Place => format!(
                "up to {} % of its time was lost to others{by}, but the file does not say well enough when it ran",
                share(most)
            ),
            Unsure::Part => format!(
                "up to {} % of its time was taken by others{by}, but how much of that held it up is not known",
                share(most)
            ),
            Unsure::Spare => format!(
                "up to {} % of its time was lost to others{by}, which may have come out of its sleep",
                share(most)
            ),
            Unsure::Little => format!("up to {} % of its time was lost to others{by}: not nothing, but little", share(most)),
            Unsure::Siblings => format!(
                "its tasks waited {} for CPUs, mostly for the command's own tasks: run fewer at a time",
                human_s(judged.waited_ns / 1e9)
            ),
            Unsure::Held => "somebody stopped or froze it".to_owned(),
            Unsure::Hypervisor => "the hypervisor took CPUs, and nobody can tell what that cost".to_owned(),
        },
    }
}

fn not_placed(why: NotPlaced) -> &'static str {
    match why {
        NotPlaced::NoTime => "the file does not say how long it took",
        NotPlaced::OtherRun => "it ran outside the run that corun watched",
        NotPlaced::AtATime => "several tests ran at a time, and the file does not say when each began",
        NotPlaced::TooLong => "the file says of a test that it took longer than there was time",
        NotPlaced::Beside => {
            "several tests ran at a time, and what was taken is known only of all of them together"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span =
        Span { earliest_ns: 10, latest_ns: 500_000_010, length_ns: 1_000_000_000, by: By::Order };

    fn judged(cause: Cause) -> Judged {
        Judged {
            verdict: Ruling::Disturbed,
            unsure: None,
            cause,
            lost: [0.4, 0.5, 0.6],
            waited_ns: 7e8,
            stolen_ns: 5e8,
            throttled_ns: 0.0,
            culprit: None,
        }
    }

    fn of(properties: &[Property], name: &str) -> Option<String> {
        properties.iter().find(|p| p.0 == name).map(|p| p.1.clone())
    }

    #[test]
    fn a_failed_test_gets_a_verdict_and_a_passed_one_only_its_times() {
        let starved = judged(Cause::Starved);
        let failed = case_verdict("a.b", true, Ok((&starved, &SPAN)), Some("make"));
        let property = |name| of(&failed.properties, name);
        assert_eq!(property("corun.stolen_s").as_deref(), Some("0.500000"));
        assert_eq!(property("corun.throttled_s").as_deref(), Some("0.000000"));
        assert_eq!(property("corun.placed_within_s").as_deref(), Some("0.500000"));
        assert_eq!(property("corun.verdict").as_deref(), Some("starved"));
        assert_eq!(property("corun.culprit").as_deref(), Some("make"));
        let why = "between 40 and 50 % of its time was lost to others, mostly to `make`";
        assert_eq!(property("corun.why").as_deref(), Some(why));
        assert_eq!(failed.tested.map(|t| (t.name, t.verdict)), Some(("a.b".into(), TestVerdict::Starved)));
        let passed = case_verdict("a.b", false, Ok((&starved, &SPAN)), Some("make"));
        assert_eq!((of(&passed.properties, "corun.verdict"), passed.tested), (None, None));
        assert_eq!(of(&passed.properties, "corun.waited_s").as_deref(), Some("0.700000"));
    }

    #[test]
    fn unknown_values_are_left_out_and_not_written_as_zero() {
        let calm = judged(Cause::NotStarved);
        let apart = Span { latest_ns: 2_000_000_000, ..SPAN };
        let properties_of = |judged| case_verdict("a", true, judged, None).properties;
        assert_eq!(
            of(&properties_of(Ok((&calm, &apart))), "corun.stolen_s"),
            None,
            "nobody knows when it was"
        );
        let unwatched =
            Judged { unsure: Some(Unsure::Unwatched), ..judged(Cause::CannotTell(Unsure::Unwatched)) };
        let properties = properties_of(Ok((&unwatched, &SPAN)));
        assert_eq!(properties.iter().map(|p| p.0).collect::<Vec<_>>(), ["corun.verdict", "corun.why"]);
        for why in [NotPlaced::AtATime, NotPlaced::Beside] {
            let not_placed = properties_of(Err(why));
            assert_eq!(of(&not_placed, "corun.verdict").as_deref(), Some("cannot tell"));
            assert!(of(&not_placed, "corun.why").unwrap().starts_with("several tests ran at a time, and "));
            assert_eq!(of(&not_placed, "corun.stolen_s"), None, "of all of them together");
        }
    }

    #[test]
    fn a_culprit_is_named_only_if_it_is_blamed() {
        let throttled = case_verdict("a", true, Ok((&judged(Cause::Throttled), &SPAN)), Some("make"));
        assert_eq!(of(&throttled.properties, "corun.culprit"), None);
    }

    #[test]
    fn the_mean_without_disturbed_iterations_is_that_of_the_clean_ones() {
        let iteration = |seconds, verdict, lost: f64| Iteration {
            seconds,
            verdict,
            lost: Some((seconds * 1e9, lost)),
            culprit: (lost > 0.0).then(|| format!("{lost}")),
        };
        let all = [
            iteration(1.0, Ruling::Clean, 0.0),
            iteration(1.1, Ruling::Unclear, 0.05),
            iteration(2.0, Ruling::Disturbed, 0.5),
            iteration(4.0, Ruling::Disturbed, 0.75),
        ];
        let bench = |wanted, iterations: &[Iteration]| Benchmark {
            name: "bench".into(),
            wanted,
            iterations: iterations.to_vec(),
        };
        let found = measured(&bench(4, &all)).unwrap();
        assert_eq!(found.cleaned.map(|c| (c.count, c.mean_s)), Some((1, 1.0)));
        assert_eq!((found.raw.count, found.disturbed, found.unclear), (4, 2, 1));
        assert!((found.disturbance.unwrap() - 4.055 / 8.1).abs() < 1e-9);
        assert_eq!(found.culprit.as_deref(), Some("0.75"), "who took most");
        assert_eq!(measured(&bench(0, &[])), None);
        assert!(!found.is_complete(), "one clean of four");
        let pooled = Benchmark::pool(vec![bench(4, &all)], &[bench(2, &all[..1]), bench(3, &all)]);
        let sizes = pooled.iter().map(|b| (b.wanted, b.iterations.len()));
        assert_eq!(sizes.collect::<Vec<_>>(), [(2, 5), (3, 4)]);
        assert!(measured(&pooled[0]).is_some_and(|m| m.is_complete()), "a clean one of each try");
    }
}
