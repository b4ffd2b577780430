//! The rendered Helm chart and other manifests, compared with the types of Kubernetes' API
//! (`packaging/helm/check`, in Go, like both of them).

use crate::printed::text;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// The checker, built once; or why its modules are not available.
fn checker() -> Result<PathBuf, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    BUILT.get_or_init(build).clone()
}

fn build() -> Result<PathBuf, String> {
    let go = |arguments: &[&str]| {
        let mut go = Command::new("go");
        go.args(arguments).current_dir(tree().join("packaging/helm/check")).output()
    };
    let listed = go(&["list", "-deps", "."]).map_err(|e| format!("go: {e} (Debian: golang-go)"))?;
    if !listed.status.success() {
        return Err(text(&listed.stderr).lines().next_back().unwrap_or_default().to_owned());
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("helm-check");
    let built = go(&["build", "-o", file.to_str().unwrap(), "."]).unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    Ok(file)
}

fn copied(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap().map(Result::unwrap) {
        match entry.file_type().unwrap().is_dir() {
            true => copied(&entry.path(), &to.join(entry.file_name())),
            false => drop(std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

#[test]
fn kubernetes_accepts_every_manifest_of_the_chart_and_a_wrong_one_is_noticed() {
    let checker = match checker() {
        Ok(checker) => checker,
        Err(why) => return println!("skipped: the checker of the chart cannot be built: {why}"),
    };
    let chart = tree().join("packaging/helm/corun-agent");
    let check = |chart: &Path, sets: &[&str]| -> Output {
        Command::new(&checker).arg(chart).args(sets).output().unwrap()
    };
    let sets = [
        "",
        "podMonitor.enabled=true",
        "config.ring.enabled=false",
        "seccompProfile.type=Unconfined",
        "config.otlp.enabled=true,config.otlp.url=http://collector:4318",
        "priorityClassName=system-node-critical,nodeSelector.disk=ssd,port=9000,image.tag=1",
    ];
    let output = check(&chart, &sets);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let is_whole = |line: &&str| line.contains("] apps/v1 DaemonSet, ") && line.ends_with("v1 ConfigMap");
    assert_eq!(said.lines().filter(is_whole).count(), sets.len(), "{said}");
    assert_eq!(said.matches("/v1 PodMonitor").count(), 1, "{said}");
    for (file, right, wrong, named) in [
        ("daemonset.yaml", "hostPID:", "hostPid:", "hostPid"),
        ("daemonset.yaml", "periodSeconds: 30", "periodSeconds: often", "periodSeconds"),
        ("daemonset.yaml", "readOnlyRootFilesystem:", "readOnlyRootFileSystem:", "readOnlyRootFileSystem"),
        ("daemonset.yaml", "mountPath: /etc/corun", "mountpath: /etc/corun", "mountpath"),
        ("daemonset.yaml", "hostPID: true", "hostPID: true\n      hostPID: true", "hostPID"),
        ("config.yaml", "kind: ConfigMap", "kind: ConfigMaps", "ConfigMaps"),
        ("podmonitor.yaml", "podMetricsEndpoints:", "podMetricEndpoints:", "podMetricEndpoints"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        copied(&chart, folder.path());
        let path = folder.path().join("templates").join(file);
        let template = std::fs::read_to_string(&path).unwrap();
        assert!(template.contains(right), "{file} has no {right}");
        std::fs::write(&path, template.replacen(right, wrong, 1)).unwrap();
        let output = check(folder.path(), &["podMonitor.enabled=true"]);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(named), "{wrong}: {said}");
    }
}

#[test]
fn kubernetes_accepts_the_job_that_makes_a_study_and_a_wrong_one_is_noticed() {
    let checker = match checker() {
        Ok(checker) => checker,
        Err(why) => return println!("skipped: the checker of manifests cannot be built: {why}"),
    };
    let job = tree().join("packaging/kubernetes/study.yaml");
    let check = |file: &Path| Command::new(&checker).arg(file).output().unwrap();
    let output = check(&job);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "[] batch/v1 Job\n");
    let folder = tempfile::tempdir().unwrap();
    let wrong = folder.path().join("wrong.yaml");
    let manifest = std::fs::read_to_string(&job).unwrap();
    std::fs::write(&wrong, manifest.replace("completionMode:", "completionmode:")).unwrap();
    let output = check(&wrong);
    assert!(!output.status.success() && text(&output.stderr).contains("completionmode"));
}
