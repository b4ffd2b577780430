//! Names of pods in their cluster: namespace and name, without asking an API server or a runtime.
//!
//! Method: a kubelet keeps the logs of a pod in a folder of its own, `/var/log/pods/NAMESPACE_NAME_UID`,
//! which exists before the pod's first process. The uid is that of the pod's cgroup; for a static pod both
//! have the hash of its manifest.
//!
//! Limits: if a kubelet keeps logs elsewhere (`podLogsDir`), names are unknown unless that folder is mounted
//! here.

use crate::root::Root;

/// Where a kubelet keeps the logs of pods.
const LOGS: &str = "/var/log/pods";

/// The folders of logs, as namespace, name and uid.
fn all(root: &Root) -> impl Iterator<Item = [String; 3]> {
    let is_label = |part: &&str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
    };
    let names = root.names(LOGS).unwrap_or_default();
    names.into_iter().filter_map(move |folder| {
        // No part contains an underscore: Kubernetes forbids them.
        let parts: Vec<&str> = folder.split('_').filter(is_label).collect();
        let parts: [&str; 3] = parts.try_into().ok()?;
        (parts.map(str::len).iter().sum::<usize>() + 2 == folder.len()).then(|| parts.map(str::to_owned))
    })
}

/// The name of the pod with a key (`pod:UID`): `NAMESPACE/NAME`.
pub fn name(root: &Root, key: &str) -> Option<String> {
    let wanted = key.strip_prefix("pod:")?;
    all(root).find(|[.., uid]| uid == wanted).map(|[namespace, name, _]| format!("{namespace}/{name}"))
}

/// The keys of pods with this name, as reports write it (`pod NAMESPACE/NAME`) or without `pod`. A replaced
/// pod may still have its logs.
pub fn keys(root: &Root, called: &str) -> Vec<String> {
    let called = called.strip_prefix("pod ").unwrap_or(called);
    let Some((namespace, name)) = called.split_once('/') else { return Vec::new() };
    let is_it = |[of, its, _]: &[String; 3]| of == namespace && its == name;
    all(root).filter(is_it).map(|[.., uid]| format!("pod:{uid}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "3f2a9c1e-1b2c-4d5e-8f90-a1b2c3d4e5f6";

    fn node(folders: &[&str]) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for name in folders {
            std::fs::create_dir_all(folder.path().join("var/log/pods").join(name)).unwrap();
        }
        let root = Root::new(folder.path());
        (folder, root)
    }

    #[test]
    fn the_folder_of_its_logs_gives_a_pods_name() {
        let of_static = "kube-system_kube-apiserver-node7_0123456789abcdef0123456789abcdef";
        let (_folder, root) =
            node(&[&format!("shop_web-0_{UID}"), of_static, "lost+found", "a_b", "a_b_c_d"]);
        let named = |uid: &str| name(&root, &format!("pod:{uid}"));
        assert_eq!(named(UID).as_deref(), Some("shop/web-0"));
        let of_static = named("0123456789abcdef0123456789abcdef");
        assert_eq!(of_static.as_deref(), Some("kube-system/kube-apiserver-node7"));
        assert_eq!(named("c"), None, "of four parts");
        assert_eq!(named("3f2a9c1e"), None, "a part of a uid is none");
        assert_eq!(name(&root, &format!("container:{UID}")), None);
        for called in ["shop/web-0", "pod shop/web-0"] {
            assert_eq!(keys(&root, called), [format!("pod:{UID}")]);
        }
        for called in ["web-0", "shop/web", "shop/", "/", ""] {
            assert_eq!(keys(&root, called), Vec::<String>::new(), "{called}");
        }
    }

    #[test]
    fn without_logs_of_a_kubelet_no_pod_has_a_name() {
        let (_folder, root) = node(&[]);
        assert_eq!((name(&root, &format!("pod:{UID}")), keys(&root, "a/b")), (None, Vec::new()));
        let (_folder, root) =
            node(&[&format!("shop_we b_{UID}"), &format!("_web_{UID}"), "shop_\u{1b}[0m_x"]);
        assert_eq!(name(&root, &format!("pod:{UID}")), None);
    }
}
