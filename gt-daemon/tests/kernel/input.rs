//! Wrong input and wrong environments: one message that names object, cause and remedy, and exit code 1 or 2.

use std::{
    fs,
    net::TcpListener,
    os::unix::process::CommandExt as _,
    process::{Command, Output},
};

use anyhow::{Result, ensure};

use crate::{
    Case, Skip,
    daemon::{binary, run},
};

pub fn cases(skip: Option<&String>) -> Vec<Case> {
    let skip: Skip = skip.cloned();
    let case = |name: &str, run: fn() -> Result<()>| Case::new(format!("input::{name}"), skip.clone(), run);
    let locked_down = skip.clone().or_else(|| {
        let is_locked = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
        (!is_locked.contains("[confidentiality]"))
            .then(|| "the kernel is not locked down: a guest is for it".to_owned())
    });
    vec![
        Case::new("input::locked_down", locked_down, locked_down_kernel),
        case("no_root", no_root),
        case("no_btf", no_btf),
        case("no_cgroups", no_cgroups),
        case("few_open_files", few_open_files),
        case("port_in_use", port_in_use),
        case("unreadable_pods_file", unreadable_pods_file),
        case("malformed_pods_file", malformed_pods_file),
        case("no_kubelet", no_kubelet),
        case("unknown_values", unknown_values),
        case("no_directory_for_records", no_directory_for_records),
    ]
}

fn daemon() -> Command {
    let mut command = Command::new(binary());
    command.args(run("static:/dev/null"));
    command
}

/// The message stands once on stderr, names all of `words`, and is no panic.
fn refused(output: &Output, code: i32, words: &[&str]) -> Result<()> {
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(code), "{}, not {code}: {message}", output.status);
    ensure!(!message.contains("panicked"), "{message}");
    for word in words {
        ensure!(message.contains(word), "no {word:?} in: {message}");
    }
    Ok(())
}

/// Lockdown in confidentiality mode.
fn locked_down_kernel() -> Result<()> {
    refused(&daemon().output()?, 1, &["lockdown", "confidentiality", "boot with lockdown=integrity or none"])
}

fn no_root() -> Result<()> {
    // The binary may lie where only root may look.
    let directory = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .tempdir()?;
    let copy = directory.path().join("gt-daemon");
    fs::copy(binary(), &copy)?;
    let output = Command::new(copy).args(run("static:/dev/null")).uid(65534).gid(65534).output()?;
    refused(&output, 1, &["CAP_BPF", "CAP_PERFMON", "root"])
}

/// A directory for records that cannot be made, since a file is in the way.
fn no_directory_for_records() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("file");
    fs::write(&file, "")?;
    let output = daemon().arg("--record").arg(file.join("records")).output()?;
    refused(&output, 1, &["file/records", "Not a directory", "--record"])
}

/// The kernel's types are hidden from the daemon by an empty file system over their directory.
fn no_btf() -> Result<()> {
    let output = Command::new("unshare")
        .args(["-m", "/bin/sh", "-c", "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" \"$@\""])
        .arg(binary())
        .args(run("static:/dev/null"))
        .output()?;
    refused(&output, 1, &["/sys/kernel/btf/vmlinux", "CONFIG_DEBUG_INFO_BTF"])
}

fn no_cgroups() -> Result<()> {
    refused(
        &daemon().args(["--cgroup-root", "/nonexistent"]).output()?,
        1,
        &["/nonexistent", "--cgroup-root"],
    )
}

/// A limit that would make anything fail, and nothing would say why.
fn few_open_files() -> Result<()> {
    let output = Command::new("/bin/sh")
        .args(["-c", "ulimit -n 40 && exec \"$0\" \"$@\""])
        .arg(binary())
        .args(run("static:/dev/null"))
        .output()?;
    refused(&output, 1, &["may open 40 files", "RLIMIT_NOFILE", "LimitNOFILE="])
}

fn port_in_use() -> Result<()> {
    let taken = TcpListener::bind("127.0.0.1:0")?;
    let address = taken.local_addr()?.to_string();
    let output = Command::new(binary())
        .args(["run", "--listen", &address, "--local", "off", "--socket", "", "--pods", "static:/dev/null"])
        .output()?;
    refused(&output, 1, &[&address, "--listen"])
}

fn unreadable_pods_file() -> Result<()> {
    let output = Command::new(binary()).args(run("static:/nonexistent/pods.toml")).output()?;
    refused(&output, 1, &["/nonexistent/pods.toml", "--pods"])
}

fn malformed_pods_file() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("pods.toml");
    fs::write(&file, "[[pod]]\nname = 7\n")?;
    let pods = format!("static:{}", file.display());
    let output = Command::new(binary()).args(run(&pods)).output()?;
    refused(&output, 1, &[&file.display().to_string(), "docs/pods-file.md"])
}

fn no_kubelet() -> Result<()> {
    let output = Command::new(binary()).args(run("kubelet:/nonexistent/pods")).output()?;
    refused(&output, 1, &["/nonexistent/pods", "--pods"])
}

fn unknown_values() -> Result<()> {
    for (flag, value) in [
        ("--attach", "fentry"),
        ("--pods", "etcd"),
        ("--listen", "nowhere"),
        ("--slots", "0"),
        ("--retain", "soon"),
        ("--log-format", "xml"),
        ("--log", "not=a=filter"),
        ("--log", "lnfo"),
        ("--health-ports", "80,http"),
        ("--stream-window", "long"),
        ("--no-such-flag", "x"),
    ] {
        let output = Command::new(binary()).args(["run", flag, value]).output()?;
        refused(&output, 2, &[flag])?;
    }
    Ok(())
}
