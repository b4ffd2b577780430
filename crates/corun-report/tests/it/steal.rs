//! Stolen time is the same in a profile's parts, a prediction's window and a verdict, for the same
//! observation, for a command and for a virtual machine.

use crate::example::meta;
use corun_model::culprit::Share;
use corun_model::ledger::{Ledger, Parts};
use corun_model::machine::CpuId;
use corun_model::observation::{Account, CpuTime, TaskObservation, TenantObservation};
use corun_model::{Culprits, Observation, TaskId, Tenant, TenantId, TenantKind};
use corun_predict::useful_work::Window;
use corun_report::answer::Lost;
use corun_report::{ProfileReport, Subject};

const WINDOW_NS: u64 = 1_000;
const UNATTRIBUTED_NS: u64 = 5;

/// A window of one task of the first tenant that waited for each of these tenants for the given time.
fn waited(kind: TenantKind, key: &str, for_whom: &[(TenantKind, &str, u64)]) -> Observation {
    let kinds = std::iter::once((kind, key, 20)).chain(for_whom.iter().copied());
    let tenants: Vec<(Tenant, u64)> = kinds
        .enumerate()
        .map(|(id, (kind, key, ns))| {
            (Tenant { id: TenantId(id as u32), kind, key: key.into(), name: key.into() }, ns)
        })
        .collect();
    let shares = tenants.iter().map(|(t, ns)| Share { tenant: t.id, steal_ns: *ns });
    let steal_ns = UNATTRIBUTED_NS + tenants.iter().map(|t| t.1).sum::<u64>();
    let parts = Parts { compute_ns: WINDOW_NS - steal_ns, steal_ns, ..Parts::default() };
    let account = Account {
        ledger: Ledger::new(parts, WINDOW_NS).unwrap(),
        culprits: Culprits::new(shares, UNATTRIBUTED_NS, steal_ns).unwrap(),
        ..Account::default()
    };
    let cpu =
        |cpu| CpuTime { cpu: CpuId(cpu), idle_ns: 0, busy_ns: WINDOW_NS, unknown_ns: 0, host_steal_ns: None };
    let task = TaskObservation {
        id: TaskId(7),
        name: "worker".into(),
        tenant: TenantId(0),
        born_ns: 0,
        alive: true,
        last_cpu: None,
        account: account.clone().into(),
    };
    Observation {
        end_ns: WINDOW_NS,
        tenants: tenants.into_iter().map(|t| t.0).collect(),
        tasks: vec![task],
        by_tenant: vec![TenantObservation { id: TenantId(0), tasks: 1, account }],
        cpus: (0..4).map(cpu).collect(),
        ..Observation::default()
    }
}

#[test]
fn profile_and_predict_find_the_same_stolen_time_also_for_a_virtual_machine_with_io_threads() {
    use TenantKind::{Command, Container, Idle, Kernel, Others, Vm, VmIo, Watcher};
    let neighbours = [
        (Command, "pgid:9", 40),
        (Container, "container:db", 30),
        (VmIo, "vm-io:web", 60),
        (VmIo, "vm-io:db", 70),
        (Kernel, "kernel", 11),
        (Watcher, "watcher", 12),
        (Idle, "idle", 13),
        (Others, "others", 80),
    ];
    for (kind, key, stolen_ns, own_ns) in
        [(Command, "pgid:1", 40 + 30 + 60 + 70 + 80, 20), (Vm, "vm:web", 40 + 30 + 70 + 80, 20 + 60)]
    {
        let seen = waited(kind, key, &neighbours);
        seen.check().unwrap();
        let subject = TenantId(0);
        let report = ProfileReport::new(&meta(), &seen, Subject::Tenant(subject), &[]);
        let profile = Lost::of(&report.subject.account);
        let facts =
            (profile.stolen_ns(), profile.own_ns, profile.kernel_ns, profile.watcher_ns, profile.idle_ns);
        assert_eq!(facts, (stolen_ns, own_ns, 11, 12, 13), "{key}");
        let window = Window::of(&seen, subject);
        let predict_ns: f64 = window.tasks.values().map(|s| s.stolen_ns).sum();
        assert_eq!(predict_ns, (profile.stolen_ns() + profile.unattributed_ns) as f64, "{key}");
        let by_culprit: f64 = window.culprits.values().sum();
        assert_eq!(by_culprit, predict_ns, "{key}: a verdict names who did it");
        // A report that is read back, as from a file, gives the same.
        let again: ProfileReport = serde_json::from_str(&corun_report::json::compact(&report)).unwrap();
        assert_eq!(Lost::of(&again.subject.account), profile, "{key}");
    }
}
