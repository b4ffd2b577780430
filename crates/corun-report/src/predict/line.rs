//! A prediction in one line, and in a few.

use super::{kept, Covers, PredictReport};
use crate::outside::Outside;
use crate::unseen::unseen;
use crate::words::{count, name, percent, share, wrap, MOSTLY};
use corun_model::duration::human_ns;
use corun_model::{Unavailable, What};
use corun_predict::estimate::Method;
use corun_predict::spinning::Spinning;
use std::fmt::Write;

/// A smaller part of the slowdown is not mentioned, nor is its culprit.
const SMALL: f64 = 0.005;
/// A slowdown this close to 1 counts as none, if its interval contains 1.
const ALIKE: f64 = 0.02;
/// If the interval of an apparent zero slowdown reaches further above 1, the text says so.
const WIDE: f64 = 0.1;
/// If more than this part of the time on a CPU was judged, that counts as all of it.
const MOST_JUDGED: f64 = 0.98;
/// An interval this many per cent wide says nothing.
const UNTOLD: f64 = 90.0;
/// A culprit with less gets no line.
pub(super) const LEAST: f64 = 0.001;
/// A culprit with at least this share is the main one.
const MAIN: f64 = 0.5;
/// The longest name in the line, and the longest if there is little room.
const NAME: usize = 32;
const SHORT_NAME: usize = 12;

/// The whole answer in one line, without a newline: `1.93× slower than alone (1.86-2.01): steal 0.61, …`.
pub fn line(report: &PredictReport) -> String {
    Pieces::of(report, NAME).map_or_else(|why| why, |pieces| pieces.joined())
}

/// The same in a number of columns, for a line that is rewritten all the time. The smallest parts are dropped
/// first, then the earlier or later values; the slowdown and the culprit stay.
pub fn live(report: &PredictReport, columns: usize) -> String {
    let fitting = |text: String| if text.chars().count() <= columns { Ok(text) } else { Err(text) };
    let mut pieces = match Pieces::of(report, NAME) {
        Ok(pieces) => pieces,
        Err(why) => return fitting(why).unwrap_or_else(|why| cut(&why, columns)),
    };
    loop {
        let Err(long) = fitting(pieces.joined()) else { return pieces.joined() };
        let least = (0..pieces.parts.len()).min_by(|a, b| pieces.parts[*a].0.total_cmp(&pieces.parts[*b].0));
        if let Some(least) = least {
            pieces.parts.remove(least);
        } else if pieces.drop_a_remark().is_none() {
            let short = Pieces::of(report, SHORT_NAME).map_or_else(|why| why, |p| p.without_parts());
            return fitting(short).unwrap_or_else(|_| cut(&long, columns));
        }
    }
}

/// The first columns of a text, with a sign that there was more.
fn cut(text: &str, columns: usize) -> String {
    text.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

/// What the line is made of.
struct Pieces {
    how: String,
    parts: Vec<(f64, String)>,
    who: Option<String>,
    held: Option<String>,
    tail: Option<String>,
    outside: Option<String>,
}

impl Pieces {
    /// Those of a report, with at most this many characters of each name; or why there are none.
    fn of(report: &PredictReport, longest: usize) -> Result<Pieces, String> {
        let (Some(slowdown), Some([low, high])) = (report.slowdown, report.interval) else {
            let yet = if report.covers == Covers::Present { " yet" } else { "" };
            let why = report.cannot_tell.as_deref().unwrap_or("nothing was seen");
            return Err(format!("cannot tell{yet}: {why}"));
        };
        if ![slowdown, low, high].iter().all(|x| x.is_finite()) {
            return Err("cannot tell: the estimated time alone is not a number".to_owned());
        }
        let PredictReport { outside, servers, elapsed_ns, .. } = report;
        let outside =
            Outside { share: *outside, servers: servers.as_deref(), wall_ns: *elapsed_ns }.said(MOSTLY);
        // The delay of the awaited events is unknown.
        let is_open = report.may_have_spun == Some(true) || outside.is_some();
        let how = if is_open && low > 1.0 {
            format!("at least {slowdown:.2}× slower than alone")
        } else if (slowdown - 1.0).abs() < ALIKE && low <= 1.0 && 1.0 <= high {
            match high > 1.0 + WIDE {
                _ if is_open => "as fast as alone, or slower by an unknown amount".to_owned(),
                true => format!("as fast as alone, or up to {high:.2}× slower"),
                false => "as fast as alone".to_owned(),
            }
        } else if slowdown < 1.0 {
            format!("{slowdown:.2}× the time alone")
        } else {
            format!("{slowdown:.2}× slower than alone")
        };
        let parts = report.parts.unwrap_or_default();
        let named = [
            ("steal", Some(parts.steal)),
            ("waiting for siblings", Some(parts.sync)),
            ("memory", parts.memory),
            ("other", Some(parts.other)),
        ];
        let by_others = parts.steal + parts.sync;
        let culprit = report.culprits.first().filter(|c| c.share * by_others >= SMALL);
        let who = culprit.map(|c| {
            let mostly = if c.share >= MAIN { "mainly from" } else { "most from" };
            match &c.tenant {
                Some(who) => format!("{mostly} `{}`", name(who, longest)),
                None => unnamed(report, mostly),
            }
        });
        let changed = report.phases.is_some_and(|n| n > 1);
        let tail = match (report.covers, report.now, report.so_far) {
            (Covers::Present, _, Some(x)) if changed => Some(format!("{x:.2}× so far")),
            (Covers::Run, Some(x), _) if changed => Some(format!("{x:.2}× in its last phase")),
            _ => None,
        };
        let parts = named
            .into_iter()
            .filter_map(|(what, part)| Some((what, part.filter(|p| *p >= SMALL)?)))
            .map(|(what, part)| (part, format!("{what} {part:.2}")))
            .collect();
        let how = match is_open {
            true => format!("{how} ({low:.2} or more)"),
            false => format!("{how} ({low:.2}-{high:.2})"),
        };
        Ok(Pieces { how, parts, who, held: kept::left_out(report), tail, outside })
    }

    fn joined(&self) -> String {
        let mut out = self.how.clone();
        for (n, (_, part)) in self.parts.iter().enumerate() {
            let _ = write!(out, "{} {part}", if n == 0 { ":" } else { "," });
        }
        for more in [&self.who, &self.held, &self.tail, &self.outside].into_iter().flatten() {
            let _ = write!(out, "; {more}");
        }
        out
    }

    /// Drops the least important part, if anything is left to drop.
    fn drop_a_remark(&mut self) -> Option<String> {
        self.outside.take().or_else(|| self.tail.take()).or_else(|| self.held.take())
    }

    fn without_parts(self) -> String {
        Pieces { parts: Vec::new(), held: None, tail: None, outside: None, ..self }.joined()
    }
}

/// Who took the time, if nobody can tell.
fn unnamed(report: &PredictReport, mostly: &str) -> String {
    let root_can = What::Ebpf { for_want_of_privilege: true };
    match report.source.as_str() {
        "schedstat" if report.unavailable.iter().any(|u| u.what == root_can) => {
            "who: only root can see".to_owned()
        }
        "schedstat" => "who: only eBPF can see".to_owned(),
        _ => format!("{mostly} an unknown tenant"),
    }
}

/// The last estimate for a terminal: the line, who took the time, the results of simpler predictors, and the
/// unknowns.
pub fn summary(report: &PredictReport) -> String {
    let mut out = format!(
        "corun predict: {}, {} on {}\n\n",
        name(&report.target, 60),
        human_ns(report.elapsed_ns),
        report.machine
    );
    for l in wrap(&line(report), 100) {
        let _ = writeln!(out, "{l}");
    }
    out.push('\n');
    let mut row = |what: &str, value: String| {
        let _ = writeln!(out, "  {what:<22}{value}");
    };
    if let Some(method) = report.method {
        row(
            "method",
            match method {
                Method::Dedicated => "dedicated windows against shared ones".into(),
                Method::Ledger if is_advised(report) => {
                    "its ledger alone; with `--dedicated` runs of ten seconds and more are predicted better"
                        .into()
                }
                Method::Ledger => "its ledger alone".into(),
                Method::Replay => "a replay of what it did, without its co-runners".into(),
            },
        );
    }
    if let Some(s) = &report.spinning {
        row("spinning", spun(s));
    }
    if let Some(w) = &report.dedicated_windows {
        let share = percent(w.parked_ns, report.elapsed_ns);
        let cost = format!(
            "{}, co-runners parked for {} ({share} % of the run), leaked {}",
            count(w.opened as u64, "window"),
            human_ns(w.parked_ns),
            human_ns(w.leaked_ns)
        );
        row("dedicated", if w.opened > 0 { cost } else { "no window, nobody was parked".into() });
    }
    if let Some(slowest) = report.slowest_task {
        row("its slowest task", format!("{slowest:.2}×, which counts if work was dealt out at the start"));
    }
    let is_any_named = report.culprits.iter().any(|c| c.tenant.is_some());
    for c in report.culprits.iter().take(5).filter(|c| is_any_named && c.share >= LEAST) {
        let who = c.tenant.as_deref().map_or("not known".to_owned(), |t| name(t, 40));
        row("taken by", format!("{:>5.1} %  {who} ({})", c.share * 100.0, human_ns(c.steal_ns)));
    }
    let b = &report.baselines;
    let simpler = [
        ("CPU share", b.cpu_share),
        ("run queue", b.runq_latency),
        ("CPI", b.cpi),
        ("MPKI", b.mpki),
        ("PACT'16", b.pact16),
    ];
    let said: Vec<String> =
        simpler.iter().filter_map(|(what, x)| Some(format!("{what} {:.2}×", (*x)?))).collect();
    if !said.is_empty() {
        row("simpler predictors", said.join(", "));
    }
    if let Some(cost) = report.counting_cost {
        row("counting cost", format!("{:.1} % of its time on a CPU", cost * 100.0));
    }
    // For windows that the user did not request, the row of the method contains it.
    let is_said = |u: &&Unavailable| u.what != What::DedicatedWindows || report.dedicated_windows.is_some();
    let missing: Vec<Unavailable> = report.unavailable.iter().filter(is_said).cloned().collect();
    for l in unseen(&missing, report.counters) {
        let _ = writeln!(out, "{l}");
    }
    out
}

/// Whether dedicated windows would help: the user did not request them, co-runners are visible (and so, as
/// root, can be parked), and something would become clearer. Their interval is narrower only after about six
/// of them.
fn is_advised(report: &PredictReport) -> bool {
    let is_disturbed = report.parts.is_some_and(|p| p.steal + p.sync >= ALIKE);
    report.parked_ns.is_none() && report.source == "ebpf" && is_disturbed
}

/// `63 % of its CPU time (61-65)`.
pub(super) fn spun(s: &Spinning) -> String {
    let [low, high] = s.interval.map(|share| 100.0 * share);
    if high - low > UNTOLD {
        return format!("too little to tell: {low:.0} to {high:.0} % of its CPU time");
    }
    // Below 10 %, a whole per cent is too coarse.
    let digits = usize::from(high < 10.0);
    let mut said = format!("{:.digits$} % of its CPU time ({low:.digits$}-{high:.digits$})", 100.0 * s.share);
    if s.judged < MOST_JUDGED {
        let _ = write!(said, ", as far as it was judged: {} %", share(s.judged));
    }
    said
}

#[cfg(test)]
mod tests {
    use super::super::example::{estimate, report, spinning};
    use super::super::{DedicatedWindows, Estimates, PredictMeta};
    use super::*;
    use corun_predict::estimate::{CannotTell, Estimate, Parts, Waited};

    #[test]
    fn the_line_gives_the_amount_the_reason_and_the_culprit() {
        assert_eq!(
            line(&report(Ok(estimate()))),
            "1.93× slower than alone (1.86-2.01): steal 0.61, waiting for siblings 0.27, memory 0.05; \
             mainly from `ffmpeg`"
        );
    }

    #[test]
    fn a_narrow_terminal_loses_the_least_parts_and_keeps_the_slowdown_and_the_culprit() {
        let mut report = report(Ok(Estimate { phases: 2, ..estimate() }));
        report.so_far = Some(1.4);
        let whole = line(&report);
        assert_eq!(live(&report, 200), whole);
        assert_eq!(live(&report, whole.chars().count()), whole);
        assert_eq!(
            live(&report, 80),
            "1.93× slower than alone (1.86-2.01); mainly from `ffmpeg`; 1.40× so far"
        );
        assert_eq!(live(&report, 62), "1.93× slower than alone (1.86-2.01); mainly from `ffmpeg`");
        report.culprits[0].tenant = Some("a-name-that-nobody-has-room-for".into());
        assert_eq!(live(&report, 68), "1.93× slower than alone (1.86-2.01); mainly from `a-name-that~`");
        let all = (10..100).map(|columns| live(&report, columns));
        assert!(all.zip(10..).all(|(text, columns)| text.chars().count() <= columns));
        assert!(live(&report, 30).ends_with('…'));
    }

    #[test]
    fn a_program_that_has_changed_has_a_present_and_an_overall_slowdown() {
        let mut report = report(Ok(Estimate { phases: 2, ..estimate() }));
        (report.now, report.so_far) = (Some(1.93), Some(1.4));
        assert!(line(&report).ends_with("`ffmpeg`; 1.40× so far"), "{}", line(&report));
        report.covers = Covers::Run;
        assert!(line(&report).ends_with("; 1.93× in its last phase"));
    }

    #[test]
    fn dedicated_windows_are_recommended_to_users_who_did_not_request_them_and_may_park() {
        let mut e = estimate();
        e.method = Method::Ledger;
        let report = report(Ok(e));
        assert!(summary(&report).contains("its ledger alone; with `--dedicated`"));
        let advises = |change: fn(&mut PredictReport)| {
            let mut changed = report.clone();
            change(&mut changed);
            summary(&changed).contains("`--dedicated`")
        };
        assert!(!advises(|r| r.parked_ns = Some(0)), "it was asked for");
        assert!(!advises(|r| r.source = "schedstat".into()), "nobody may be parked");
        assert!(!advises(|r| r.parts = Some(Parts::default())), "there is nothing to tell better");
    }

    /// An estimate of this slowdown, all of it steal by one tenant.
    fn stolen(slowdown: f64, interval: [f64; 2]) -> Estimate {
        let parts = Parts { steal: slowdown - 1.0, ..Parts::default() };
        Estimate { slowdown, interval, parts, ..estimate() }
    }

    #[test]
    fn a_program_with_almost_no_slowdown_is_as_fast_as_alone_and_nobody_is_to_blame() {
        let line = |slowdown, interval| line(&report(Ok(stolen(slowdown, interval))));
        assert_eq!(line(1.0, [1.0, 1.002]), "as fast as alone (1.00-1.00)");
        assert_eq!(line(1.003, [0.98, 1.03]), "as fast as alone (0.98-1.03)");
        assert_eq!(
            line(1.01, [0.98, 1.03]),
            "as fast as alone (0.98-1.03): steal 0.01; mainly from `ffmpeg`"
        );
        assert!(line(1.013, [1.01, 1.02]).starts_with("1.01× slower than alone"));
        assert!(line(1.05, [0.9, 1.2]).starts_with("1.05× slower than alone"));
    }

    #[test]
    fn a_program_that_takes_less_time_than_alone_is_not_reported_as_slower() {
        let found = line(&report(Ok(stolen(0.9, [0.85, 0.96]))));
        assert_eq!(found, "0.90× the time alone (0.85-0.96)");
    }

    #[test]
    fn if_nobody_can_be_named_the_line_says_what_would_help() {
        let mut e = estimate();
        (e.culprits[0].tenant, e.unavailable[0].what) = (None, What::Ebpf { for_want_of_privilege: false });
        let mut report = report(Ok(e));
        assert!(line(&report).ends_with("; mainly from an unknown tenant"));
        report.source = "schedstat".into();
        assert!(line(&report).ends_with("; who: only eBPF can see"), "{}", line(&report));
        report.unavailable[0].what = What::Ebpf { for_want_of_privilege: true };
        assert!(line(&report).ends_with("; who: only root can see"));
        assert!(!summary(&report).contains("taken by"));
    }

    #[test]
    fn unknowns_that_change_the_answer_are_listed_and_the_rest_is_counted() {
        let mut report = report(Ok(estimate()));
        let missing = |what: What| Unavailable::new(what, "why".to_owned().into());
        let all =
            [What::Memory, What::HardwareCounters, What::Events, What::HostSteal, What::DedicatedWindows];
        report.unavailable = all.map(missing).into();
        let marked = |r: &PredictReport| -> Vec<String> {
            summary(r).lines().filter(|l| l.starts_with('!')).map(str::to_owned).collect()
        };
        let [memory, more] = &marked(&report)[..] else { panic!("{:?}", marked(&report)) };
        assert!(memory == "! memory: why" && more.starts_with("! 2 more"), "{more}");
        (report.counters, report.dedicated_windows) = (true, Some(DedicatedWindows::default()));
        assert_eq!(marked(&report).len(), 4, "both were asked for");
    }

    #[test]
    fn the_spinning_share_has_its_interval_and_its_base() {
        let mut report = report(Ok(estimate()));
        assert!(!summary(&report).contains("spinning"));
        report.spinning = Some(spinning());
        assert!(summary(&report).contains("spinning              63 % of its CPU time (61-65)\n"));
        let short = Spinning { share: 0.0, interval: [0.0, 1.0], ..spinning() };
        assert_eq!(spun(&short), "too little to tell: 0 to 100 % of its CPU time");
        let rare = Spinning { share: 0.002, interval: [0.0, 0.0136], judged: 0.42, ..spinning() };
        assert_eq!(spun(&rare), "0.2 % of its CPU time (0.0-1.4), as far as it was judged: 42 %");
    }

    #[test]
    fn the_cost_of_dedicated_windows_is_reported() {
        let mut report = report(Ok(estimate()));
        assert!(!summary(&report).contains("parked"));
        report.elapsed_ns = 5_000_000_000;
        report.dedicated_windows = Some(DedicatedWindows {
            opened: 4,
            counted: 4,
            parked_ns: 250_000_000,
            ..DedicatedWindows::default()
        });
        let wanted =
            "dedicated             4 windows, co-runners parked for 250 ms (5.0 % of the run), leaked 0 s";
        assert!(summary(&report).contains(wanted), "{}", summary(&report));
    }

    #[test]
    fn if_nothing_can_be_said_the_line_says_why_and_to_wait_only_while_it_runs() {
        let mut report = report(Err(CannotTell::OnlyWaited(Waited::default())));
        assert_eq!(line(&report), "cannot tell yet: the program has not run yet; it only waited");
        report.covers = Covers::Run;
        assert_eq!(line(&report), "cannot tell: the program has not run yet; it only waited");
        let short = CannotTell::TooShort { least_ns: 500_000_000 };
        let estimates = Estimates { now: Err(short), so_far: Err(short), outside: None, servers: None };
        let of = |covers| PredictReport::new(&PredictMeta::default(), 1_400_000, &estimates, covers, &[]);
        assert_eq!(
            line(&of(Covers::Run)),
            "cannot tell: it ran for 1.40 ms, and at least 500 ms is needed; give it more work, or watch it for longer"
        );
        assert_eq!(
            line(&of(Covers::Present)),
            "cannot tell yet: it takes 500 ms of shared windows with the same behavior"
        );
    }

    #[test]
    fn a_tenants_name_cannot_control_the_terminal() {
        let mut e = estimate();
        e.culprits[0].tenant = Some("a\x1b[2J".into());
        e.unavailable[0].what = What::WindowsWithout("a\x1b[2J".into());
        assert!(!summary(&report(Ok(e))).contains('\x1b'));
    }
}
