//! Empty programs on gt's hooks, and the names of loaded programs: only `examples/empty_hooks.rs` asks for them,
//! which `cargo xtask bench hooks` starts.

use std::{collections::BTreeMap, os::fd::OwnedFd};

use anyhow::{Context as _, Result};
use aya::{
    Btf, Ebpf, EbpfLoader,
    programs::{BtfTracePoint, KProbe, loaded_programs},
    sys::{Stats, enable_stats},
};

use super::OBJECT;
use crate::kernel::plan::{Backend, Hook};

/// An empty program where one of gt's programs would be; detached on drop.
pub struct Empty {
    /// The hook of gt's program.
    pub hook: Hook,
    /// The kernel's number of the empty program.
    pub id: u32,
    _ebpf: Ebpf,
}

/// Attaches one empty program to the target of each hook.
pub fn load_empty(targets: &[(Backend, Hook)]) -> Result<Vec<Empty>> {
    let types = Btf::from_sys_fs().context("cannot read the kernel's types")?;
    targets
        .iter()
        .map(|(backend, hook)| {
            load(*backend, *hook, &types)
                .with_context(|| format!("cannot put an empty program on {}", hook.target))
        })
        .collect()
}

/// A program is loaded for one target and has one statistic, so each needs an object of its own.
fn load(backend: Backend, hook: Hook, types: &Btf) -> Result<Empty> {
    let mut ebpf = EbpfLoader::new()
        .btf(Some(types))
        .map_max_entries("PLACES", 1)
        .map_max_entries("CONNECTIONS", 1)
        .load(OBJECT)?;
    let name = match backend {
        Backend::Kprobe => "empty_kprobe",
        Backend::Btf => "empty_btf",
    };
    let program =
        ebpf.program_mut(name).with_context(|| format!("the embedded object has no program {name}"))?;
    let id = match backend {
        Backend::Kprobe => {
            let program: &mut KProbe = program.try_into()?;
            program.load()?;
            program.attach(hook.target, 0)?;
            program.info()?.id()
        }
        Backend::Btf => {
            let program: &mut BtfTracePoint = program.try_into()?;
            program.load(hook.target, types)?;
            program.attach()?;
            program.info()?.id()
        }
    };
    Ok(Empty { hook, id, _ebpf: ebpf })
}

/// Lets the kernel time every program for as long as the descriptor lives (5.8 and newer).
pub fn time_programs() -> Result<OwnedFd> {
    enable_stats(Stats::RunTime).context("cannot switch on the statistics of eBPF programs")
}

/// Names of all loaded programs by their numbers; the kernel keeps 15 characters.
pub fn names() -> Result<BTreeMap<u32, String>> {
    let mut names = BTreeMap::new();
    for program in loaded_programs() {
        // One that was unloaded between two calls is no fault.
        let Ok(program) = program else { continue };
        names.insert(program.id(), program.name_as_str().unwrap_or_default().to_owned());
    }
    Ok(names)
}
