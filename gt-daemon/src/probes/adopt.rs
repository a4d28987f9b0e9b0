//! Connections that are there already: one pass of the kernel's TCP iterator inside a network namespace.

use std::{fs::File, io::Read as _, os::fd::AsFd as _, thread};

use aya::programs::{Iter, ProgramError, iter::IterLink};
use nix::sched::{CloneFlags, setns};

use super::{ProbeError, Probes, chain, kept, refused};
use crate::kernel::plan::Hook;

/// Why a pass could not be made.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error("cannot enter the pod's network namespace: {0}; it needs CAP_SYS_ADMIN")]
    Enter(std::io::Error),
    #[error("cannot walk the namespace's sockets: {0}")]
    Walk(std::io::Error),
    #[error("the thread that walks a namespace's sockets died: this is a fault in gt, please report it")]
    Died,
}

const PROGRAM: &str = "iter_tcp";

impl Probes {
    /// Loads the iterator.
    pub fn load_iterator(&mut self) -> Result<(), ProbeError> {
        let Self { ebpf, types, .. } = self;
        let hook = Hook { program: PROGRAM, target: "iter/tcp", ipv6: false };
        iterator(ebpf)?.load("tcp", kept(types)?).map_err(|error| refused(hook, &error))
    }

    /// Walks the sockets of a namespace: those of watched pods that are not in the table come in, the others
    /// are marked as seen. Returns the number of the pass.
    pub fn adopt(&mut self, netns: &File) -> Result<u32, AdoptError> {
        self.pass = self.pass.wrapping_add(1).max(1);
        self.maps.set_pass(self.pass)?;
        let attach = |error: ProgramError| ProbeError::Attach {
            program: PROGRAM,
            target: "iter/tcp",
            cause: chain(&error),
        };
        let program = iterator(&mut self.ebpf)?;
        let id = program.attach().map_err(attach)?;
        let link = program.take_link(id).map_err(attach)?;
        walk(link, netns)?;
        Ok(self.pass)
    }
}

fn iterator(ebpf: &mut aya::Ebpf) -> Result<&mut Iter, ProbeError> {
    ebpf.program_mut(PROGRAM)
        .and_then(|program| program.try_into().ok())
        .ok_or(ProbeError::Missing { what: "program", name: PROGRAM })
}

/// The iterator sees the namespace of the thread that opens it.
fn walk(link: IterLink, netns: &File) -> Result<(), AdoptError> {
    let work = move || {
        setns(netns.as_fd(), CloneFlags::CLONE_NEWNET).map_err(|error| AdoptError::Enter(error.into()))?;
        let mut file = link.into_file().map_err(|error| AdoptError::Walk(std::io::Error::other(error)))?;
        // The program prints nothing; reading to the end is what makes it run.
        let mut nothing = Vec::new();
        file.read_to_end(&mut nothing).map(drop).map_err(AdoptError::Walk)
    };
    thread::scope(|scope| scope.spawn(work).join().unwrap_or(Err(AdoptError::Died)))
}
