//! Packages: the output of `make package` is installed, upgraded, removed and purged, and nothing of it
//! stays.
//!
//! The roots are folders, so nothing on this machine is touched, and no maintainer script contacts its
//! service manager. `CORUN_CHROOT=1` does the same with apt in a Debian that mmdebstrap downloads and
//! creates.

use assert_cmd::cargo::cargo_bin;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn done(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert!(status.success(), "{command:?}: {status}\n{text}{}", String::from_utf8_lossy(&stderr));
    text
}

/// Why nothing can be packaged here, if so.
fn lacks(tools: &[&str]) -> bool {
    // SAFETY: takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("skipped: files of a package belong to root");
        return true;
    }
    let missing = tools.iter().find(|tool| Command::new(tool).arg("--version").output().is_err());
    if let Some(tool) = missing {
        println!("skipped: {tool} is not there (Debian: {})", package_with(tool));
    }
    missing.is_some()
}

/// The Debian package that contains a tool.
fn package_with(tool: &str) -> &str {
    match tool {
        "dpkg-deb" => "dpkg",
        "dpkg-shlibdeps" => "dpkg-dev",
        "strip" => "binutils",
        "cc" => "gcc",
        "rpmbuild" => "rpm",
        tool => tool,
    }
}

/// Packages of a program and of the files built next to it, compressed quickly.
fn packages(kind: &str, program: &Path, folder: &Path, revision: u32) -> Vec<PathBuf> {
    let made = done(
        Command::new(tree().join("scripts/package"))
            .arg(kind)
            .arg(program)
            .arg(folder)
            .env("DPKG_DEB_COMPRESSOR_TYPE", "gzip")
            .env("DPKG_DEB_COMPRESSOR_LEVEL", "1")
            .env("DEBEMAIL", "corun@debian.org")
            .env("REVISION", revision.to_string()),
    );
    made.lines().map(PathBuf::from).collect()
}

/// The package of the tested corun.
fn package(kind: &str, folder: &Path) -> PathBuf {
    packages(kind, &cargo_bin("corun"), folder, 1).swap_remove(0)
}

/// The same, with those of the library for C, which cargo builds along with the tests of the whole workspace.
fn with_library(kind: &str, folder: &Path) -> Option<[PathBuf; 3]> {
    let (program, deps) = (folder.join("built/corun"), std::env::current_exe().unwrap());
    let deps = deps.parent().unwrap();
    let libraries = ["libcorun.so", "libcorun.a", "libcorun_preload.so"];
    if let Some(missing) = libraries.iter().find(|name| !deps.join(name).exists()) {
        println!("skipped: {missing} is not built");
        return None;
    }
    fs::create_dir(folder.join("built")).unwrap();
    fs::copy(cargo_bin("corun"), &program).unwrap();
    for name in libraries {
        fs::copy(deps.join(name), program.with_file_name(name)).unwrap();
    }
    let made = packages(kind, &program, folder, 1);
    Some(made.try_into().unwrap_or_else(|made| panic!("{made:?}")))
}

/// Whether a C program that only uses pkg-config can be built with the files below a root, and runs with
/// them.
fn is_built_with(root: &Path, libraries: &Path) {
    let configured = Command::new("pkg-config")
        .args(["--cflags", "--libs", "corun"])
        .env("PKG_CONFIG_LIBDIR", libraries.join("pkgconfig"))
        // Below a root, /usr does not belong to the system.
        .env("PKG_CONFIG_ALLOW_SYSTEM_CFLAGS", "1")
        .env("PKG_CONFIG_ALLOW_SYSTEM_LIBS", "1")
        .env("PKG_CONFIG_SYSROOT_DIR", root)
        .output();
    let Ok(Output { status, stdout, stderr }) = configured else {
        return println!("skipped: pkg-config is not there");
    };
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    let flags = String::from_utf8(stdout).unwrap();
    let (source, program) = (root.join("tmp.c"), root.join("tmp"));
    fs::write(
        &source,
        "#include <corun.h>\n#include <stdio.h>\nint main(void) { printf(\"%u\\n\", corun_abi() - CORUN_ABI); return 0; }\n",
    )
    .unwrap();
    let mut compiler = Command::new("cc");
    done(compiler.arg(&source).arg("-o").arg(&program).args(flags.split_whitespace()));
    let said = done(Command::new(&program).env("LD_LIBRARY_PATH", libraries));
    assert_eq!(said, "0\n", "header and library are of one version");
    fs::remove_file(source).unwrap();
    fs::remove_file(program).unwrap();
}

/// The same package, as a later version with another line in its configuration.
fn next(package: &Path, folder: &Path) -> PathBuf {
    let (content, next) = (folder.join("content"), folder.join("corun-next.deb"));
    done(Command::new("dpkg-deb").arg("-R").arg(package).arg(&content));
    let control = content.join("DEBIAN/control");
    let text = fs::read_to_string(&control).unwrap();
    let version = text.lines().find(|line| line.starts_with("Version: ")).unwrap();
    fs::write(&control, text.replace(version, "Version: 999-1")).unwrap();
    let config = content.join("etc/corun/agent.toml");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("# Another line.\n{text}")).unwrap();
    let mut built = Command::new("dpkg-deb");
    done(built.args(["--root-owner-group", "-Zgzip", "-z1", "-b"]).arg(&content).arg(&next));
    next
}

/// Files and folders below a root, without the package database.
fn below(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![root.to_owned()];
    while let Some(folder) = pending.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            if name.starts_with("var/lib/dpkg") || name.starts_with("var/lib/rpm") {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                pending.push(path);
            }
            found.push(name);
        }
    }
    found
}

fn is_whole(root: &Path) {
    let corun = root.join("usr/bin/corun");
    assert!(done(Command::new(&corun).arg("--version")).starts_with("corun "));
    let config = root.join("etc/corun/agent.toml");
    let printed = done(Command::new(&corun).args(["agent", "--print-config", "--config"]).arg(config));
    assert!(printed.contains("folder = \"/var/lib/corun/ring\""), "{printed}");
    let unit = fs::read_to_string(root.join("usr/lib/systemd/system/corun-agent.service")).unwrap();
    let start = unit.lines().find_map(|line| line.strip_prefix("ExecStart=/")).unwrap();
    assert!(start
        .split(' ')
        .filter(|w| w.contains('/'))
        .all(|path| root.join(path.trim_start_matches('/')).exists()));
    for file in ["usr/share/man/man1/corun-agent.1.gz", "usr/share/bash-completion/completions/corun"] {
        assert!(root.join(file).exists(), "{file}");
    }
}

#[test]
fn a_package_for_debian_is_installed_upgraded_removed_and_purged_and_leaves_nothing() {
    if lacks(&["dpkg", "dpkg-deb", "dpkg-shlibdeps", "strip"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let first = package("deb", folder.path());
    let second = next(&first, folder.path());
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("var/lib/dpkg/info")).unwrap();
    fs::create_dir_all(root.join("var/lib/dpkg/updates")).unwrap();
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let dpkg = |args: &[&str]| {
        let mut command = Command::new("dpkg");
        command.arg(format!("--root={}", root.display()));
        command.args(["--force-script-chrootless", "--force-depends", "--force-confold"]);
        done(command.args(args))
    };
    dpkg(&["-i", first.to_str().unwrap()]);
    is_whole(&root);
    let config = root.join("etc/corun/agent.toml");
    let own = fs::read_to_string(&config).unwrap().replace("window = \"1s\"", "window = \"2s\"");
    fs::write(&config, &own).unwrap();
    let kept = root.join("var/lib/private/corun/ring/segment-000000000001");
    fs::create_dir_all(kept.parent().unwrap()).unwrap();
    fs::write(&kept, "").unwrap();
    dpkg(&["-i", second.to_str().unwrap()]);
    is_whole(&root);
    assert_eq!(fs::read_to_string(&config).unwrap(), own, "what its owner wrote stays");
    dpkg(&["-r", "corun"]);
    assert!(!root.join("usr/bin/corun").exists() && config.exists() && kept.exists());
    dpkg(&["-P", "corun"]);
    nothing_is_left(&root);
    let files = below(&root).into_iter().filter(|name| root.join(name).is_file());
    assert_eq!(files.collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn debians_own_checker_finds_nothing_in_the_package() {
    if lacks(&["dpkg-deb", "dpkg-shlibdeps", "strip", "lintian"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let package = package("deb", folder.path());
    let said =
        done(Command::new("lintian").args(["--allow-root", "--fail-on", "error,warning"]).arg(package));
    assert_eq!(said.trim(), "");
}

#[test]
fn the_library_has_its_own_packages_for_debian_which_build_and_run_a_program() {
    if lacks(&["dpkg", "dpkg-deb", "dpkg-shlibdeps", "strip", "cc"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some([_, loaded, built]) = with_library("deb", folder.path()) else { return };
    let root = folder.path().join("root");
    fs::create_dir_all(root.join("var/lib/dpkg/info")).unwrap();
    fs::create_dir_all(root.join("var/lib/dpkg/updates")).unwrap();
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    let dpkg = |args: &[&str]| {
        let mut command = Command::new("dpkg");
        command.arg(format!("--root={}", root.display()));
        command.args(["--force-script-chrootless", "--force-depends"]);
        done(command.args(args))
    };
    dpkg(&["-i", loaded.to_str().unwrap(), built.to_str().unwrap()]);
    let triplet = done(Command::new("dpkg-architecture").arg("-qDEB_HOST_MULTIARCH"));
    is_built_with(&root, &root.join("usr/lib").join(triplet.trim()));
    dpkg(&["-P", "libcorun-dev", "libcorun1"]);
    nothing_is_left(&root);
    if lacks(&["lintian"]) {
        return;
    }
    let said = done(
        Command::new("lintian").args(["--allow-root", "--fail-on", "error,warning"]).args([loaded, built]),
    );
    assert_eq!(said.trim(), "");
}

/// Runs rpm on a new, empty system of its own.
fn rpm_in(root: &Path) -> impl Fn(&[&str]) -> String + '_ {
    fs::create_dir(root).unwrap();
    let rpm = move |args: &[&str]| {
        let mut command = Command::new("rpm");
        command.arg("--root").arg(root).args(["--define", "_dbpath /var/lib/rpm"]);
        done(command.args(args))
    };
    rpm(&["--initdb"]);
    rpm
}

fn nothing_is_left(root: &Path) {
    let left: Vec<String> = below(root).into_iter().filter(|name| name.contains("corun")).collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn the_library_has_its_own_packages_for_rpm_which_build_and_run_a_program() {
    if lacks(&["rpm", "rpmbuild", "strip", "cc"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(packages) = with_library("rpm", folder.path()) else { return };
    let root = folder.path().join("root");
    let rpm = rpm_in(&root);
    for package in &packages {
        rpm(&["-i", "--nodeps", "--noscripts", package.to_str().unwrap()]);
    }
    is_whole(&root);
    let libraries = ["usr/lib64", "usr/lib"].map(|folder| root.join(folder));
    let libraries = libraries.iter().find(|folder| folder.join("libcorun.so").exists()).unwrap();
    is_built_with(&root, libraries);
    rpm(&["-e", "--noscripts", "libcorun-devel", "libcorun", "corun"]);
    nothing_is_left(&root);
}

#[test]
fn in_a_separate_debian_apt_installs_upgrades_and_purges_it() {
    if std::env::var_os("CORUN_CHROOT").is_none() {
        return println!("skipped: CORUN_CHROOT is not set, and a Debian would be downloaded");
    }
    if lacks(&["dpkg-deb", "dpkg-shlibdeps", "strip", "mmdebstrap"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let first = package("deb", folder.path());
    let second = next(&first, folder.path());
    let script = "set -e
        apt-get install -y -q ./a.deb
        corun --version
        corun doctor >/dev/null
        corun agent --config /etc/corun/agent.toml --print-config
        apt-get install -y -q ./b.deb
        dpkg-query -W corun
        apt-get remove -y -q corun
        test -e /etc/corun/agent.toml
        test ! -e /usr/bin/corun
        apt-get purge -y -q corun
        test ! -e /etc/corun
        test -z \"$(find / -xdev -name '*corun*' -not -path '/proc/*' -not -path '/var/log/*')\"
        echo purged";
    // It has this machine's own release, since the program was linked with its libraries. The dependencies of
    // the package are there beforehand.
    let release = fs::read_to_string("/etc/os-release").unwrap();
    let Some(suite) = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")) else {
        return println!("skipped: this is no Debian");
    };
    let depends = done(Command::new("dpkg-deb").arg("-f").arg(&first).arg("Depends"));
    let names: Vec<&str> = depends.split(',').filter_map(|of| of.split_whitespace().next()).collect();
    let run = |hook: String| format!("--customize-hook={hook}");
    let said = done(
        Command::new("mmdebstrap")
            .args(["--variant=apt", "--mode=root", "--quiet"])
            .arg(run(format!("cp {} \"$1/a.deb\" && cp {} \"$1/b.deb\"", first.display(), second.display())))
            .arg(run(format!("chroot \"$1\" sh -c '{}' >&2", script.replace('\'', "'\\''"))))
            .arg(format!("--include={}", names.join(",")))
            .args([suite.trim_matches('"'), "/dev/null"]),
    );
    println!("{said}");
}

#[test]
fn a_package_for_rpm_is_installed_upgraded_and_removed_and_leaves_its_owners_files() {
    if lacks(&["rpm", "rpmbuild", "strip"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let [first, second] =
        [1, 2].map(|revision| packages("rpm", &cargo_bin("corun"), folder.path(), revision).swap_remove(0));
    let root = folder.path().join("root");
    let rpm = rpm_in(&root);
    // Its scripts would need a shell in there.
    rpm(&["-i", "--nodeps", "--noscripts", first.to_str().unwrap()]);
    is_whole(&root);
    let config = root.join("etc/corun/agent.toml");
    let own = fs::read_to_string(&config).unwrap().replace("window = \"1s\"", "window = \"2s\"");
    fs::write(&config, &own).unwrap();
    rpm(&["-U", "--nodeps", "--noscripts", second.to_str().unwrap()]);
    is_whole(&root);
    assert_eq!(rpm(&["-q", "--queryformat", "%{RELEASE}\n", "corun"]), "2\n");
    assert_eq!(fs::read_to_string(&config).unwrap(), own, "what its owner wrote stays");
    rpm(&["-e", "--noscripts", "corun"]);
    let saved = config.with_extension("toml.rpmsave");
    assert_eq!(fs::read_to_string(&saved).unwrap(), own, "what its owner wrote is put aside");
    fs::remove_file(saved).unwrap();
    fs::remove_dir(config.parent().unwrap()).unwrap();
    nothing_is_left(&root);
}
