//! Which modules a guest loads, and in which order.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

/// What the kernel tests need and a cloud kernel has as a module. IPv6, AF_PACKET and the BPF
/// subsystem are built into all of them.
pub(super) const WANTED: &[&str] = &[
    // Joins the namespaces of a test.
    "veth",
    // Socket lists of `ss`, the independent count of connections.
    "tcp_diag",
    // Delays that make a phase of a connection last.
    "sch_netem",
    // Root file systems of containers.
    "overlay",
];

/// The paths of `wanted` and of what they depend on, each after its own dependencies, from the text of
/// modules.dep. A module that stands in `builtin` needs no loading.
pub(super) fn load_order(wanted: &[&str], dep: &str, builtin: &str) -> Result<Vec<String>> {
    let known: BTreeMap<String, (&str, Vec<&str>)> = dep
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(path, dependencies)| (name(path), (path, dependencies.split_whitespace().collect())))
        .collect();
    let mut order = Vec::new();
    for module in wanted {
        if builtin.lines().any(|path| name(path) == *module) {
            continue;
        }
        visit(module, &known, &mut order)?;
    }
    Ok(order)
}

fn visit(module: &str, known: &BTreeMap<String, (&str, Vec<&str>)>, order: &mut Vec<String>) -> Result<()> {
    let (path, dependencies) = known.get(module).with_context(|| {
        format!("module {module} is neither in the kernel's package nor built in: adjust vm/modules.rs")
    })?;
    if order.iter().any(|loaded| loaded == path) {
        return Ok(());
    }
    for dependency in dependencies {
        visit(&name(dependency), known, order)?;
    }
    order.push((*path).to_owned());
    Ok(())
}

/// `kernel/net/sched/sch_netem.ko.xz` is `sch_netem`; file names may have hyphens where the kernel has none.
fn name(path: &str) -> String {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split(".ko").next().unwrap_or(file).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "kernel/net/ipv4/tcp_diag.ko: kernel/net/ipv4/inet_diag.ko\nkernel/net/ipv4/inet_diag.ko:\n\
                       kernel/drivers/net/veth.ko.xz:\n";

    /// Exercises a dependency and a built-in module so that insmod meets neither too early nor in vain.
    #[test]
    fn dependencies_come_first_and_builtins_are_left_out() {
        let order =
            load_order(&["tcp_diag", "inet_diag", "veth", "ipv6"], DEP, "kernel/net/ipv6/ipv6.ko\n").unwrap();
        assert_eq!(
            order,
            ["kernel/net/ipv4/inet_diag.ko", "kernel/net/ipv4/tcp_diag.ko", "kernel/drivers/net/veth.ko.xz"]
        );
    }

    /// Exercises a missing module so that the error names it.
    #[test]
    fn a_missing_module_is_named() {
        let error = load_order(&["dummy"], DEP, "").unwrap_err().to_string();
        assert!(error.contains("dummy"), "{error}");
    }
}
