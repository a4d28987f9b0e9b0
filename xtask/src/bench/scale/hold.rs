//! A process that opens connections inside namespaces and holds them: one process may have too few files for all.

use std::{
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::PathBuf,
};

use anyhow::{Context as _, Result, ensure};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use crate::sandbox;

/// What is to be held.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Connections in each namespace, both ends of each
    #[arg(long)]
    pub(super) connections: u32,
    /// Files of the network namespaces
    #[arg(required = true)]
    pub(super) namespaces: Vec<PathBuf>,
}

/// Opens all, prints one line, and holds them until the end of its input.
pub fn run(options: &Options) -> Result<()> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).context("cannot read the limit of open files")?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).context("cannot raise the limit of open files")?;
    let mut held = Vec::new();
    for namespace in &options.namespaces {
        held.push(sandbox::enter(namespace, || open(options.connections))??);
    }
    println!("open");
    io::stdout().flush().context("nobody waits for these connections any more")?;
    io::stdin().read_to_end(&mut Vec::new()).context("cannot wait for the end")?;
    Ok(())
}

/// Both ends on the loopback device of the thread's namespace.
fn open(connections: u32) -> Result<Vec<TcpStream>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen in a namespace")?;
    let address = listener.local_addr().context("cannot read the address of a listening socket")?;
    let mut held = Vec::new();
    for number in 0..connections {
        let client = TcpStream::connect(address).with_context(|| {
            format!(
                "connection {number} cannot be opened: is the limit of open files (RLIMIT_NOFILE) reached?"
            )
        })?;
        let (server, from) = listener.accept().with_context(|| {
            format!(
                "connection {number} is not accepted: is the limit of open files (RLIMIT_NOFILE) reached?"
            )
        })?;
        ensure!(client.local_addr().is_ok_and(|own| own == from), "a stranger connects to {address}");
        held.extend([client, server]);
    }
    Ok(held)
}
