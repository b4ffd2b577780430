//! What keeps a program from running that is no neighbour, beside neighbours: budgets, nested or not, whoever made them, and being
//! stopped. The truth is what the same program takes without the neighbour. `verify`, `predict` and `profile` are asked for the same run:
//! where it is replayed all of them say the truth, and where it is not they say between which bounds it is.
//!
//! Both the run and the truth are played millisecond by millisecond, on one CPU that the program cannot leave.

use crate::facts::{observation, Did, Facts, MS, SUBJECT, WINDOW_MS};
use corun_model::run_log::{CpuMask, Event, For, Left, RunLog, Waker, What};
use corun_model::{CpuId, TaskId};
use corun_predict::{Judge, Label, Options, Predictor, Replayer, Verdict, MAX_DISTURBANCE};

const TASK: TaskId = TaskId(1);
/// The neighbour and the program have the CPU in turns of so many milliseconds.
const TURN: u64 = 3;

/// So many milliseconds of every period, which begins at that millisecond of it.
#[derive(Clone, Copy)]
struct Quota {
    ms: u64,
    period: u64,
    at: u64,
}

const fn quota(ms: u64, period: u64) -> Quota {
    Quota { ms, period, at: 37 }
}

/// What keeps the program from running.
#[derive(Clone, Copy)]
enum Kept {
    Free,
    /// Quotas of the cgroup that it is in and of that above, from that millisecond on; whether it was moved there then.
    Quotas(&'static [Quota], u64, bool),
    /// A budget of the real-time or deadline class, which goes before a neighbour.
    RealTime(Quota),
    /// Stopped by a signal, or frozen, from 40 to 70 of every 100 ms.
    Stopped,
}

use Kept::{Free, Quotas, RealTime, Stopped};

impl Kept {
    fn quotas(self, now: u64) -> Vec<Quota> {
        match self {
            Quotas(all, from, _) if now >= from => all.to_vec(),
            RealTime(budget) => vec![budget],
            _ => Vec::new(),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Neighbour {
    None,
    OnItsCpu,
    Elsewhere,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Runs,
    Robbed,
    Throttled,
    Stopped,
}

/// What the program is in each millisecond until it has computed for so long.
fn play(kept: Kept, neighbour: Neighbour, work: u64) -> Vec<State> {
    let (mut states, mut done, mut contended) = (Vec::new(), 0, 0);
    let mut used = [0; 2];
    while done < work {
        let now = states.len() as u64;
        let quotas = kept.quotas(now);
        for (quota, used) in quotas.iter().zip(&mut used) {
            if now % quota.period == quota.at % quota.period {
                *used = 0;
            }
        }
        let is_stopped = matches!(kept, Stopped) && (40..70).contains(&(now % 100));
        let is_throttled = quotas.iter().zip(used).any(|(quota, used)| used >= quota.ms);
        let has_rival = neighbour == Neighbour::OnItsCpu && !matches!(kept, RealTime(_));
        states.push(match () {
            () if is_stopped => State::Stopped,
            () if is_throttled => State::Throttled,
            () if has_rival && {
                contended += 1;
                contended
            } / TURN
                % 2
                == 1 =>
            {
                State::Robbed
            }
            () => {
                used.iter_mut().take(quotas.len()).for_each(|used| *used += 1);
                done += 1;
                State::Runs
            }
        });
    }
    states
}

/// What the probe writes down of it.
fn log(states: &[State], kept: Kept) -> RunLog {
    let mut log = RunLog { cpus: CpuMask::first(2), end_ns: states.len() as u64 * MS, ..RunLog::default() };
    let mut at = |ms: usize, what| log.events.push(Event { t_ns: ms as u64 * MS, task: TASK, what });
    let budgets = |ms: usize| {
        let told: Vec<Quota> = if matches!(kept, Quotas(..)) { kept.quotas(ms as u64) } else { Vec::new() };
        let last = told.len().saturating_sub(1);
        let tell = |(n, quota): (usize, &Quota)| What::Budget {
            quota_ns: quota.ms * MS,
            period_ns: quota.period * MS,
            filled_ns: Some(quota.at % quota.period * MS),
            more: n < last,
        };
        let none = What::Budget { quota_ns: 0, period_ns: 0, filled_ns: None, more: false };
        if told.is_empty() {
            vec![none]
        } else {
            told.iter().enumerate().map(tell).collect::<Vec<_>>()
        }
    };
    at(0, What::Born { parent: TaskId(9), process: 1 });
    budgets(0).into_iter().for_each(|what| at(0, what));
    let mut before = None;
    for (ms, &state) in states.iter().enumerate() {
        if matches!(kept, Quotas(_, from, true) if from == ms as u64 && ms > 0) {
            budgets(ms).into_iter().for_each(|what| at(ms, what));
        }
        if before == Some(state) {
            continue;
        }
        match (before, state) {
            (Some(State::Runs), State::Stopped) => at(ms, What::Leaves(Left::Waits(For::Other))),
            (Some(State::Runs), _) => at(ms, What::Leaves(Left::Preempted)),
            (Some(State::Stopped), _) => at(ms, What::Woken(Waker::Task(TaskId(9)))),
            _ => {}
        }
        if state == State::Runs {
            if before == Some(State::Throttled) {
                budgets(ms).into_iter().for_each(|what| at(ms, what));
            }
            at(ms, What::Runs { cpu: CpuId(0), may: CpuMask(1) });
        }
        before = Some(state);
    }
    at(states.len(), What::Leaves(Left::Ended));
    log
}

/// Its ledgers, window by window.
fn windows(states: &[State], kept: Kept, neighbour: Neighbour) -> Vec<Facts> {
    let of = |(n, states): (usize, &[State])| {
        let in_state = |state| states.iter().filter(|s| **s == state).count() as u64;
        let did = Did {
            process: 1,
            cpus: vec![0],
            computed: in_state(State::Runs),
            stolen: in_state(State::Robbed),
            throttled: in_state(State::Throttled),
            stopped: in_state(State::Stopped),
            lived: states.len() as u64,
            ..Did::default()
        };
        let tightest =
            kept.quotas((n as u64 + 1) * WINDOW_MS).into_iter().filter(|_| matches!(kept, Quotas(..)));
        let share = |quota: Quota| quota.ms as f64 / quota.period as f64;
        Facts {
            neighbour: match neighbour {
                Neighbour::None => [0, 0],
                Neighbour::OnItsCpu => [did.lived - did.computed, 0],
                Neighbour::Elsewhere => [0, did.lived],
            },
            quota: tightest.map(share).reduce(f64::min),
            tasks: vec![did],
            ..Facts::default()
        }
    };
    states.chunks(WINDOW_MS as usize).enumerate().map(of).collect()
}

/// What a verb says was lost: at least, most likely, at most.
type Said = [f64; 3];

fn said(verdict: &Verdict) -> Said {
    let [least, most] = verdict.disturbance_range;
    [least, verdict.disturbance, most]
}

/// What the verbs say of a run: where it is replayed, and where it is not.
fn verbs(states: &[State], kept: Kept, neighbour: Neighbour) -> [(&'static str, Said); 4] {
    let wall_ns = states.len() as u64 * MS;
    let mut replayer = Replayer::new(Some(0));
    replayer.push(&log(states, kept));
    let evidence = replayer.evidence(true, true);
    assert_eq!(replayer.failed(), None);
    let mut judges = [(); 2].map(|()| Judge::new(SUBJECT, MAX_DISTURBANCE));
    let mut predictors = [(); 2].map(|()| Predictor::new(SUBJECT, Options::default()));
    for (at, facts) in windows(states, kept, neighbour).iter().enumerate() {
        let mut seen = observation(at as u64, facts);
        // The last window ends with the run.
        seen.end_ns = seen.end_ns.min(seen.start_ns + facts.tasks[0].lived * MS);
        judges.iter_mut().for_each(|judge| judge.push(&seen));
        predictors.iter_mut().for_each(|predictor| {
            let _ = predictor.push(&seen, Label::Shared);
        });
    }
    if let Some(evidence) = evidence {
        judges[0].push_evidence(evidence);
        predictors[0].push_evidence(evidence);
    }
    let judged = judges.map(|judge| said(&judge.verdict(Some(wall_ns))));
    let predicted = predictors.map(|predictor| {
        let told = predictor.so_far().unwrap();
        [told.interval[0], told.slowdown, told.interval[1]].map(|slowdown| 1.0 - 1.0 / slowdown)
    });
    [
        ("verify, profile", judged[0]),
        ("predict", predicted[0]),
        ("verify, profile by sums", judged[1]),
        ("predict by sums", predicted[1]),
    ]
}

const HALF: &[Quota] = &[quota(50, 100)];
const QUARTER_IN_HALF: &[Quota] = &[quota(25, 100), quota(50, 100)];
const HALF_IN_QUARTER: &[Quota] = &[quota(10, 20), quota(25, 100)];

const TABLE: &[(&str, Kept)] = &[
    ("no budget", Free),
    ("a quota from the beginning", Quotas(HALF, 0, false)),
    ("a quota that the command makes", Quotas(HALF, 300, true)),
    ("a quarter in a half", Quotas(QUARTER_IN_HALF, 0, false)),
    ("a half in a quarter", Quotas(HALF_IN_QUARTER, 0, false)),
    ("a half in a quarter, made by the command", Quotas(HALF_IN_QUARTER, 300, true)),
    ("a real-time group's runtime", RealTime(quota(20, 100))),
    ("a deadline's runtime", RealTime(quota(5, 10))),
    ("signals, or a freezer", Stopped),
];

/// A turn of the neighbour's at the end, and what a replay may be off.
const OFF: f64 = 0.015;

#[test]
fn what_a_program_lost_beside_its_own_budget_is_the_same_in_every_verb_and_true() {
    let mut wrong = Vec::new();
    for (name, kept) in TABLE {
        for neighbour in [Neighbour::None, Neighbour::OnItsCpu, Neighbour::Elsewhere] {
            let states = play(*kept, neighbour, 1_000);
            let alone = play(*kept, Neighbour::None, 1_000).len() as f64;
            let truth = 1.0 - alone / states.len() as f64;
            let beside = ["alone", "beside a loop on its CPU", "beside a loop elsewhere"][neighbour as usize];
            for (n, (verb, [least, likely, most])) in verbs(&states, *kept, neighbour).into_iter().enumerate()
            {
                let what =
                    format!("{name}, {beside}: {verb} {least:.3} {likely:.3} {most:.3}, truth {truth:.3}");
                println!("{what}");
                let holds = least <= truth + OFF && truth <= most + OFF;
                // Who is stopped at a time and who is stopped when it has got so far look alike. So do a budget that comes at a time and
                // one that the program makes when it has got so far. Beside a neighbour that is another run alone, and the
                // answer may be wrong by as much.
                let is_open = matches!(kept, Stopped | Quotas(_, 1.., _)) && neighbour == Neighbour::OnItsCpu;
                let is_right = n > 0 || (likely - truth).abs() < OFF;
                if !is_open && (!holds || !is_right) {
                    wrong.push(what);
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
