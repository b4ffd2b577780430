//! A machine on which a loop takes CPU time from a web server, as a host would see it, and terminals to
//! display it.

use corun_model::culprit::Share;
use corun_model::ledger::BlockReasons;
use corun_model::observation::{Account, CpuTime, TaskObservation, TenantObservation};
use corun_model::{
    CpuId, Culprits, Histogram, Ledger, Observation, Parts, TaskId, Tenant, TenantId, TenantKind,
    Unavailable, What,
};
use corun_top::app::{App, Facts};
use corun_top::keys::Keys;
use corun_top::snapshot::Snapshot;
use corun_top::view::{draw, Capabilities};
use ratatui::backend::TestBackend;
use ratatui::Terminal;
use std::sync::Arc;

pub const SECOND: u64 = 1_000_000_000;
pub const MS: u64 = 1_000_000;
pub const PLAIN: Capabilities = Capabilities { colour: false, unicode: true };

/// A tenant of one task: its identity, its run and wait times, and its culprits.
pub struct Story<'a> {
    pub id: u32,
    pub kind: TenantKind,
    pub name: &'a str,
    pub ran_ms: u64,
    pub stolen_ms: &'a [(u32, u64)],
    pub throttled_ms: u64,
}

pub fn story<'a>(id: u32, name: &'a str, ran_ms: u64, stolen_ms: &'a [(u32, u64)]) -> Story<'a> {
    Story { id, kind: TenantKind::Command, name, ran_ms, stolen_ms, throttled_ms: 0 }
}

/// A host's observation of them in the `n`th second.
pub fn window(n: u64, stories: &[Story], knows_culprits: bool) -> Observation {
    let (start_ns, end_ns) = (n * SECOND, (n + 1) * SECOND);
    let mut seen = Observation { start_ns, end_ns, ..Observation::default() };
    for s in stories {
        let stolen_ns = s.stolen_ms.iter().map(|(_, ms)| ms * MS).sum::<u64>();
        let (ran_ns, throttled_ns) = (s.ran_ms * MS, s.throttled_ms * MS);
        let block_ns = SECOND - ran_ns - stolen_ns - throttled_ns;
        let parts =
            Parts { compute_ns: ran_ns, steal_ns: stolen_ns, throttled_ns, block_ns, ..Parts::default() };
        let shares = s.stolen_ms.iter().map(|&(id, ms)| Share { tenant: TenantId(id), steal_ns: ms * MS });
        let culprits = match knows_culprits {
            true => Culprits::new(shares, 0, stolen_ns).unwrap(),
            false => Culprits::unknown(stolen_ns),
        };
        let mut waits = Histogram::default();
        (0..stolen_ns / (4 * MS)).for_each(|_| waits.record(4 * MS));
        let account = Account {
            ledger: Ledger::new(parts, SECOND).unwrap(),
            block: knows_culprits.then_some(BlockReasons { poll_ns: block_ns, ..BlockReasons::default() }),
            culprits,
            waits: knows_culprits.then_some(waits),
            ..Account::default()
        };
        let (id, name) = (TenantId(s.id), s.name.to_owned());
        seen.tenants.push(Tenant { id, kind: s.kind, key: format!("pgid:{}", 4000 + s.id), name });
        seen.by_tenant.push(TenantObservation { id, tasks: 1, account: account.clone() });
        seen.tasks.push(TaskObservation {
            id: TaskId(4000 + s.id),
            name: s.name.into(),
            tenant: id,
            born_ns: start_ns,
            alive: true,
            last_cpu: Some(CpuId(s.id % 2)),
            account: account.into(),
        });
    }
    let ran_ns: u64 = stories.iter().map(|s| s.ran_ms * MS).sum();
    seen.cpus = (0..2)
        .map(|cpu| {
            let busy_ns = (ran_ns / 2).min(SECOND);
            CpuTime {
                cpu: CpuId(cpu),
                idle_ns: SECOND - busy_ns,
                busy_ns,
                unknown_ns: 0,
                host_steal_ns: None,
            }
        })
        .collect();
    if !knows_culprits {
        seen.unavailable.push(Unavailable::new(What::Culprits, corun_model::Why::SchedstatIsSilent));
    }
    seen
}

/// A web server that loses time to a loop and a build, a database that has used up its quota, and the kernel.
pub fn neighbours() -> [Story<'static>; 5] {
    [
        Story { kind: TenantKind::Unit, ..story(1, "nginx.service", 500, &[(2, 310), (3, 90), (4, 12)]) },
        story(2, "hog", 900, &[(1, 40)]),
        story(3, "make", 300, &[(3, 120)]),
        Story { kind: TenantKind::Kernel, ..story(4, "kernel", 12, &[(2, 3)]) },
        Story { throttled_ms: 250, ..story(5, "postgres", 100, &[]) },
    ]
}

pub fn facts() -> Facts {
    Facts { target: "everybody".into(), is_replay: false, missing: Vec::new() }
}

/// The state after this many windows.
pub fn app(windows: u64, seen: impl Fn(u64) -> Observation) -> App {
    let mut app = App::new(facts(), Keys::default());
    for n in 0..windows {
        app.on_snapshot(Arc::new(Snapshot::new(n, format!("14:03:{n:02}"), seen(n))));
    }
    app
}

/// A frame as lines, blanks at their ends left out.
pub fn frame(app: &App, columns: u16, rows: u16, caps: Capabilities) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(frame, app, caps)).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y: u16| {
        let mut text = String::new();
        let mut x = 0;
        while x < columns {
            let symbol = buffer[(x, y)].symbol();
            text.push_str(symbol);
            x += u16::try_from(corun_top::fit::width(symbol).max(1)).unwrap();
        }
        text.trim_end().to_owned()
    };
    (0..rows).map(line).collect()
}

/// The same as one text.
pub fn text(app: &App, columns: u16, rows: u16) -> String {
    frame(app, columns, rows, PLAIN).join("\n")
}
