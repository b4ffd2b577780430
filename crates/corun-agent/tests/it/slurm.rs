//! The sentence about a Slurm job, from invented metrics.

use corun_agent::http::{self, Counts, Response};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

fn sentence(metrics: &str, job: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("metrics");
    std::fs::write(&file, metrics).unwrap();
    sentence_from(file.to_str().unwrap(), job)
}

fn sentence_from(source: &str, job: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/slurm/corun-sentence");
    let output = Command::new(script).arg(job).env("CORUN_METRICS", source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

const METRICS: &str = r#"corun_tenant_seconds_total{tenant="slurm 47.batch",kind="slurm-step",category="compute"} 60
corun_tenant_seconds_total{tenant="slurm 47.batch",kind="slurm-step",category="block"} 1000
corun_tenant_seconds_total{tenant="slurm 47.0",kind="slurm-step",category="compute"} 30
corun_tenant_seconds_total{tenant="slurm 47.0",kind="slurm-step",category="steal"} 8
corun_tenant_seconds_total{tenant="slurm 47.0",kind="slurm-step",category="throttled"} 2
corun_tenant_seconds_total{tenant="slurm 470.0",kind="slurm-step",category="compute"} 500
corun_tenant_seconds_total{tenant="say \"x\"",kind="command",category="compute"} 1
corun_blame_seconds_total{victim="slurm 47.0",culprit="slurm 48.0"} 3
corun_blame_seconds_total{victim="slurm 47.0",culprit="slurm 48.batch"} 1
corun_blame_seconds_total{victim="slurm 47.0",culprit="slurm 47.batch"} 0.5
corun_blame_seconds_total{victim="slurm 47.0",culprit="self"} 0.5
corun_blame_seconds_total{victim="slurm 47.0",culprit="kernel"} 2.5
corun_blame_seconds_total{victim="slurm 47.0",culprit="say \"x\""} 0.25
corun_blame_dropped_seconds_total{victim="slurm 47.0"} 0.25
corun_sees_culprits 1
"#;

#[test]
fn it_sums_the_steps_of_a_job_and_names_the_two_main_culprits() {
    let said = sentence(METRICS, "47");
    let expected = "corun: lost 7.0 % of its CPU time to others: 4.0 % to job 48, 2.5 % to kernel, and 2.0 % throttled (100.0 s wanted)";
    assert_eq!(said, expected);
    assert_eq!(sentence(METRICS, "470"), "corun: lost 0.0 % of its CPU time to others (500.0 s wanted)");
}

#[test]
fn for_an_unseen_job_it_says_so_and_without_culprits_it_names_nobody() {
    assert!(sentence(METRICS, "4").starts_with("corun: nothing was seen of this job"));
    let blind = METRICS.replace("corun_sees_culprits 1", "corun_sees_culprits 0");
    assert_eq!(
        sentence(&blind, "47"),
        "corun: lost 7.0 % of its CPU time to others, and 2.0 % throttled (100.0 s wanted)"
    );
}

#[test]
fn it_asks_the_agent_by_itself_and_without_one_it_says_that_nothing_was_seen() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = |request: &http::Request| match (&*request.path, &*request.query) {
        ("/metrics", "now") => Response::text(http::OK, METRICS),
        _ => Response::text(http::NOT_FOUND, "no"),
    };
    http::serve(listener, Arc::new(Counts::default()), answer).unwrap();
    let whole = sentence(METRICS, "47");
    assert_eq!(sentence_from(&format!("http://{address}/metrics?now"), "47"), whole);
    let nothing = "corun: nothing was seen of this job";
    for elsewhere in
        [format!("http://{address}"), format!("http://{address}/"), "http://localhost:1/metrics".into()]
    {
        let said = sentence_from(&elsewhere, "47");
        assert!(said.starts_with(nothing), "{elsewhere}: {said}");
    }
}
