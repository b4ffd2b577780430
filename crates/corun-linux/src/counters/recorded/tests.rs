//! Recordings, written and read back, and files that are not recordings.

use super::*;
use corun_model::counter_source::FromHost;
use corun_model::ledger::{Ledger, Parts};
use corun_model::observation::{TaskObservation, TenantObservation};
use corun_model::{TenantId, TenantKind};

fn observation(start_ns: u64, counters: Option<Counters>) -> Observation {
    let ledger = Ledger::new(Parts { compute_ns: 60, block_ns: 40, ..Parts::default() }, 100).unwrap();
    let account = Account { ledger, counters, ..Account::default() };
    let tenant = corun_model::Tenant {
        id: TenantId(3),
        kind: TenantKind::Command,
        key: "command:x".into(),
        name: "x".into(),
    };
    Observation {
        start_ns,
        end_ns: start_ns + 100,
        tenants: vec![tenant],
        tasks: vec![TaskObservation {
            id: TaskId(7),
            name: "x".into(),
            tenant: TenantId(3),
            born_ns: 5,
            alive: true,
            last_cpu: None,
            account: account.clone().into(),
        }],
        by_tenant: vec![TenantObservation { id: TenantId(3), tasks: 1, account }],
        ..Observation::default()
    }
}

fn recorded(windows: &[Observation]) -> Vec<u8> {
    let mut recorder = Recorder::new(FromHost, "a machine", Vec::new()).unwrap();
    for window in windows {
        recorder.read(&mut window.clone());
    }
    recorder.finish().unwrap().1
}

#[test]
fn recorded_counters_come_back_to_the_same_observations() {
    let counters = Counters { cycles: Some(u64::MAX), llc_misses: Some(0), ..Counters::default() };
    let made = [observation(100, Some(counters)), observation(200, None)];
    let file = recorded(&made);
    let mut recording = Recording::read_from(file.as_slice()).unwrap();
    assert_eq!((recording.machine(), recording.windows()), ("a machine", 2));
    for expected in made {
        let mut stripped = expected.clone();
        stripped.tasks[0].set_counters(None);
        stripped.by_tenant[0].account.counters = None;
        recording.read(&mut stripped);
        assert_eq!(stripped, expected, "zero is not absent, and absent is not zero");
    }
}

#[test]
fn a_window_that_was_not_recorded_is_reported_as_missing() {
    let file = recorded(&[observation(100, Some(Counters::default()))]);
    let mut recording = Recording::read_from(file.as_slice()).unwrap();
    let mut other = observation(150, None);
    recording.read(&mut other);
    assert_eq!(other.tasks[0].account.counters, None);
    assert_eq!(other.unavailable[0].why, Why::NoSuchWindow);
}

#[test]
fn a_reused_task_number_does_not_get_its_predecessors_counters() {
    let file = recorded(&[observation(100, Some(Counters { cycles: Some(1), ..Counters::default() }))]);
    let mut recording = Recording::read_from(file.as_slice()).unwrap();
    let mut other = observation(100, None);
    other.tasks[0].born_ns = 120;
    recording.read(&mut other);
    assert_eq!(other.tasks[0].account.counters, None);
    assert!(other.by_tenant[0].account.counters.is_some());
}

#[test]
fn a_file_that_is_no_recording_is_refused_with_the_line() {
    let refused = |text: &str| Recording::read_from(text.as_bytes()).unwrap_err().to_string();
    let header = format!("{{\"schema\":\"{SCHEMA}\",\"machine\":\"m\"}}\n");
    for none in ["", "\n", "{}", "{\"schema\":\"corun.counters/2\",\"machine\":\"m\"}"] {
        assert!(refused(none).starts_with("line 1 is not the beginning of a recording"), "{none}");
    }
    assert!(refused(&format!("{header}{{\"start_ns\":1}}")).starts_with("line 2 is not a window"));
    let window =
        "{\"start_ns\":1,\"end_ns\":2,\"tasks\":[{\"id\":1,\"born_ns\":1,\"counters\":{\"ipc\":1}}],\
                  \"tenants\":[],\"unavailable\":[]}";
    assert_eq!(refused(&format!("{header}{window}")), "line 2: there is no counter `ipc`");
}

#[test]
fn a_full_disk_is_reported_at_the_end() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut recorder = Recorder::new(FromHost, "m", Full(100)).unwrap();
    recorder.read(&mut observation(100, Some(Counters::default())));
    let failed = recorder.finish().map(|_| ()).unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::StorageFull);
}
