//! The only place that names aya: load the kernel programs, attach them, read their maps and events.
//!
//! Owns: everything of gt that lives in the kernel; dropping [`Probes`] detaches and unloads all of it.
//! Refuses: to decide which hook to use (that is [`kernel::plan`](crate::kernel::plan)).

pub mod adopt;
pub mod decode;
pub mod empty;
pub mod events;
mod facts;
pub mod maps;
mod places;
pub mod self_check;

use std::{
    collections::BTreeMap,
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
};

use aya::{
    Btf, Ebpf, EbpfLoader, VerifierLogLevel,
    programs::{BtfTracePoint, KProbe, ProgramError},
};
use aya_log::EbpfLogger;
use gt_common::{config::Config, layout::KernelLayout, places::places_for};
use nix::sys::resource::{RLIM_INFINITY, Resource, setrlimit};
use sha2::{Digest as _, Sha256};

use self::{events::Events, maps::Maps};
use crate::kernel::plan::{Backend, Hook, Question};

/// The object, the same bytes for every kernel.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/gt"));

/// SHA-256 of the embedded object, in hex.
#[must_use]
pub fn object_digest() -> String {
    Sha256::digest(OBJECT).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Why the kernel refused. Causes are kept as text: what aya tells in its chain of errors, without the whole
/// log of the verifier.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error("cannot load the kernel programs: {cause}; is this process root, with CAP_BPF and CAP_PERFMON?")]
    Object { cause: String },
    #[error("cannot read the kernel's types: {cause}; gt needs CONFIG_DEBUG_INFO_BTF")]
    Types { cause: String },
    #[error("the embedded object has no {what} named {name}: this build of gt is broken")]
    Missing { what: &'static str, name: &'static str },
    #[error("cannot use the kernel map {name}: {cause}; {}", remedy(.name))]
    Map { name: &'static str, cause: String },
    #[error(
        "the kernel does not accept program {program} for {target}: {cause}; please report this kernel's version{log}"
    )]
    Load { program: &'static str, target: &'static str, cause: String, log: String },
    #[error("cannot attach program {program} to {target}: {cause}; try --attach with the other backend")]
    Attach { program: &'static str, target: &'static str, cause: String },
}

/// An error with all its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

/// What helps when a map refuses.
fn remedy(map: &str) -> &'static str {
    match map {
        "CGROUP_OWNER" | "NETNS_OWNER" | "PORTS" | "PODS" | "COUNTERS" => "if it is full, raise --slots",
        "CONNECTIONS" => "if it is full, raise --connections",
        "PLACES" => "with less memory, lower --connections",
        _ => "please report this kernel's version",
    }
}

/// What is fixed at load.
#[derive(Clone, Copy, Debug)]
pub struct LoadOptions {
    pub layout: KernelLayout,
    pub config: Config,
    /// Owners that can be told apart.
    pub slots: u32,
    /// Connections of watched pods that can be open at a time.
    pub connections: u32,
    /// Forward the kernel side's debug messages.
    pub debug: bool,
}

/// The loaded programs.
pub struct Probes {
    ebpf: Ebpf,
    /// Of the kernel, tens of megabytes, until all that is wanted is attached.
    types: Option<Btf>,
    maps: Arc<Maps>,
    attached: BTreeMap<Question, Backend>,
    pass: u32,
}

impl Probes {
    /// Loads the object and makes its maps; attaches nothing yet.
    pub fn load(options: &LoadOptions) -> Result<(Self, Events), ProbeError> {
        // Before 5.11 maps count against this limit; where it cannot be raised, loading tells.
        let _told_by_the_load = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY);
        let types = types()?;
        let places = places_for(options.connections);
        let place_mask = places - 1;
        let log_level = if options.debug { u8::MAX } else { 0 };
        let mut ebpf = EbpfLoader::new()
            .btf(Some(&types))
            .override_global("LAYOUT", &options.layout, true)
            .override_global("CONFIG", &options.config, true)
            .override_global("PLACE_MASK", &place_mask, true)
            .override_global(aya_log::LEVEL, &log_level, false)
            .map_max_entries("COUNTERS", options.slots)
            .map_max_entries("CGROUP_OWNER", options.slots.saturating_mul(4))
            .map_max_entries("NETNS_OWNER", options.slots)
            .map_max_entries("PODS", options.slots)
            .map_max_entries("PORTS", options.slots.saturating_mul(16))
            .map_max_entries("PLACES", places)
            .map_max_entries("CONNECTIONS", options.connections)
            .verifier_log_level(VerifierLogLevel::DEBUG | VerifierLogLevel::STATS)
            .load(OBJECT)
            .map_err(|error| ProbeError::Object { cause: chain(&error) })?;
        let maps = Arc::new(Maps::take(&mut ebpf, options.slots)?);
        let events = Events::take(&mut ebpf)?;
        Ok((Self { ebpf, types: Some(types), maps, attached: BTreeMap::new(), pass: 0 }, events))
    }

    /// The programs' maps.
    #[must_use]
    pub fn maps(&self) -> Arc<Maps> {
        Arc::clone(&self.maps)
    }

    /// The kernel side's debug messages, which go to the log.
    pub fn messages(&mut self) -> Result<EbpfLogger<&'static dyn log::Log>, aya_log::Error> {
        EbpfLogger::init(&mut self.ebpf)
    }

    /// Handles of the attached programs, to ask the kernel how they fare.
    pub fn attached_programs(&self) -> Result<Vec<OwnedFd>, ProbeError> {
        let mut files = Vec::new();
        for (question, backend) in &self.attached {
            let tracepoint = [question.tracepoint()];
            let hooks: &[Hook] = match backend {
                Backend::Kprobe => question.kprobes(),
                Backend::Btf => &tracepoint,
            };
            for hook in hooks {
                let Some(program) = self.ebpf.program(hook.program) else { continue };
                // One that is not loaded (IPv6) has no descriptor.
                if let Ok(fd) = program.fd()
                    && let Ok(file) = fd.as_fd().try_clone_to_owned()
                {
                    files.push(file);
                }
            }
        }
        Ok(files)
    }

    /// Which backend answers each question now.
    #[must_use]
    pub fn attached(&self) -> &BTreeMap<Question, Backend> {
        &self.attached
    }

    /// Attaches all hooks of a question, or none of them.
    pub fn attach(&mut self, question: Question, backend: Backend, hooks: &[Hook]) -> Result<(), ProbeError> {
        self.detach(question);
        for hook in hooks {
            let attached = match backend {
                Backend::Kprobe => self.attach_kprobe(*hook),
                Backend::Btf => self.attach_tracepoint(*hook),
            };
            if let Err(error) = attached {
                for hook in hooks {
                    self.unload(hook.program);
                }
                return Err(error);
            }
        }
        self.attached.insert(question, backend);
        Ok(())
    }

    /// Detaches and unloads a question's hooks; nothing happens where there are none.
    pub fn detach(&mut self, question: Question) {
        if self.attached.remove(&question).is_some() {
            for hook in question.kprobes() {
                self.unload(hook.program);
            }
            self.unload(question.tracepoint().program);
        }
    }

    fn unload(&mut self, program: &'static str) {
        // A program that was not loaded cannot be unloaded: that is the state wanted.
        match self.ebpf.program_mut(program) {
            Some(aya::programs::Program::KProbe(program)) => drop(program.unload()),
            Some(aya::programs::Program::BtfTracePoint(program)) => drop(program.unload()),
            _ => {}
        }
    }

    fn attach_kprobe(&mut self, hook: Hook) -> Result<(), ProbeError> {
        let program: &mut KProbe = self
            .ebpf
            .program_mut(hook.program)
            .and_then(|program| program.try_into().ok())
            .ok_or(ProbeError::Missing { what: "program", name: hook.program })?;
        program.load().map_err(|error| refused(hook, &error))?;
        program.attach(hook.target, 0).map(drop).map_err(|source| ProbeError::Attach {
            program: hook.program,
            target: hook.target,
            cause: chain(&source),
        })
    }

    /// Whatever is wanted is attached: lets go of the kernel's types. They are read again should a program follow.
    pub fn forget_types(&mut self) {
        self.types = None;
    }

    fn attach_tracepoint(&mut self, hook: Hook) -> Result<(), ProbeError> {
        let program: &mut BtfTracePoint = self
            .ebpf
            .program_mut(hook.program)
            .and_then(|program| program.try_into().ok())
            .ok_or(ProbeError::Missing { what: "program", name: hook.program })?;
        program.load(hook.target, kept(&mut self.types)?).map_err(|error| refused(hook, &error))?;
        program.attach().map(drop).map_err(|source| ProbeError::Attach {
            program: hook.program,
            target: hook.target,
            cause: chain(&source),
        })
    }
}

fn types() -> Result<Btf, ProbeError> {
    Btf::from_sys_fs().map_err(|error| ProbeError::Types { cause: chain(&error) })
}

/// The types that are there, or read again.
fn kept(known: &mut Option<Btf>) -> Result<&Btf, ProbeError> {
    Ok(match known {
        Some(known) => known,
        none => none.insert(types()?),
    })
}

/// The verifier's log is the cause of a refusal; its last lines say which access it refused.
fn refused(hook: Hook, error: &ProgramError) -> ProbeError {
    let (cause, log) = match error {
        ProgramError::LoadError { io_error, verifier_log } => {
            let text = verifier_log.to_string();
            let lines: Vec<_> = text.lines().collect();
            let tail = lines.get(lines.len().saturating_sub(20)..).unwrap_or_default().join("\n");
            (io_error.to_string(), format!("\nthe verifier's last words:\n{tail}"))
        }
        other => (chain(other), String::new()),
    };
    ProbeError::Load { program: hook.program, target: hook.target, cause, log }
}
