//! Two hosts on one machine: a pod and its peer, each in a namespace of its own, joined by a veth pair.

use std::{
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, Result};
use xtask::sandbox::{End, Netns, eventually, veth};

use crate::daemon::{self, Shared, WatchedPod};

/// The addresses a test talks by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
    /// IPv4 on the wire, an IPv6 socket in the pod.
    Mapped,
}

impl Family {
    pub const ALL: [Self; 3] = [Self::V4, Self::V6, Self::Mapped];

    pub fn name(self) -> &'static str {
        match self {
            Self::V4 => "v4",
            Self::V6 => "v6",
            Self::Mapped => "mapped",
        }
    }
}

pub const POD_V4: &str = "10.78.0.2";
pub const PEER_V4: &str = "10.78.0.1";
pub const POD_V6: &str = "fd78::2";
pub const PEER_V6: &str = "fd78::1";
pub const DEVICE: &str = "pod0";

/// The two namespaces, and the pod as the daemon watches it.
pub struct Scene {
    pub watched: WatchedPod,
    pub pod: Netns,
    pub peer: Netns,
    pub family: Family,
}

impl Scene {
    pub fn new(daemon: &Arc<Shared>, family: Family) -> Result<Self> {
        Self::with(daemon, family, "")
    }

    /// As [`new`](Self::new), with further lines for the pod in the pods file.
    pub fn with(daemon: &Arc<Shared>, family: Family, lines: &str) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("gt-test-{}-{number}", std::process::id());
        let pod = Netns::create(&format!("{name}-pod"))?;
        let peer = Netns::create(&format!("{name}-peer"))?;
        let pod_addresses = [format!("{POD_V4}/24"), format!("{POD_V6}/64")];
        let peer_addresses = [format!("{PEER_V4}/24"), format!("{PEER_V6}/64")];
        veth(
            &End { netns: &pod, device: DEVICE, addresses: &[&pod_addresses[0], &pod_addresses[1]] },
            &End { netns: &peer, device: "peer0", addresses: &[&peer_addresses[0], &peer_addresses[1]] },
        )?;
        // Where nothing is recognized, an SRE declares what the pod speaks.
        let is_told = lines.contains("protocol") || daemon::recognizes();
        let declared = if is_told { "" } else { "protocol = \"http1\"" };
        let entry = format!("netns = \"{}\"\n{lines}\n{declared}\n", pod.path().display());
        let watched = daemon.watch(&name, &entry)?;
        Ok(Self { watched, pod, peer, family })
    }

    /// The pod's address as the peer dials it.
    pub fn pod_address(&self) -> Result<IpAddr> {
        Ok(if self.family == Family::V6 { POD_V6 } else { POD_V4 }.parse()?)
    }

    /// The peer's address as the pod dials it.
    pub fn peer_address(&self) -> Result<IpAddr> {
        Ok(match self.family {
            Family::V4 => PEER_V4.parse()?,
            Family::V6 => PEER_V6.parse()?,
            Family::Mapped => format!("::ffff:{PEER_V4}").parse()?,
        })
    }

    /// Whether a socket of the pod waits for the acknowledgement of its FIN.
    pub fn has_fin_wait_1(&self) -> Result<bool> {
        Ok(Row::all(&self.pod)?.iter().any(|row| row.state == FIN_WAIT1))
    }

    /// Waits until the pod's socket of a connection is as `wanted` says; `None` is a socket that is gone.
    pub fn await_row(&self, ends: Ends, wanted: impl Fn(Option<&Row>) -> bool) -> Result<()> {
        await_row(&self.pod, ends, wanted)
    }

    /// A listener in the pod, on all its addresses of the family.
    pub fn listen_in_pod(&self) -> Result<TcpListener> {
        self.listen_in_pod_on(0)
    }

    /// As [`listen_in_pod`](Self::listen_in_pod), on a given port.
    pub fn listen_in_pod_on(&self, port: u16) -> Result<TcpListener> {
        let any: IpAddr = if self.family == Family::V4 { "0.0.0.0" } else { "::" }.parse()?;
        self.pod.enter(|| TcpListener::bind(SocketAddr::new(any, port)))?.context("listen in the pod")
    }

    /// A listener at the peer.
    pub fn listen_at_peer(&self) -> Result<TcpListener> {
        self.peer.enter(|| TcpListener::bind("[::]:0"))?.context("listen at the peer")
    }

    /// The peer dials the pod.
    pub fn dial_pod(&self, port: u16) -> Result<std::io::Result<TcpStream>> {
        let target = SocketAddr::new(self.pod_address()?, port);
        self.peer.enter(|| TcpStream::connect_timeout(&target, Duration::from_secs(5)))
    }

    /// The pod dials the peer.
    pub fn dial_peer(&self, port: u16) -> Result<std::io::Result<TcpStream>> {
        let target = SocketAddr::new(self.peer_address()?, port);
        self.pod.enter(|| TcpStream::connect_timeout(&target, Duration::from_secs(5)))
    }
}

/// States as /proc/net/tcp shows them (include/net/tcp_states.h).
pub const ESTABLISHED: u8 = 1;
pub const FIN_WAIT1: u8 = 4;
pub const CLOSE_WAIT: u8 = 8;

/// The ports of a connection: the pod's, the other end's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    pub local: u16,
    pub remote: u16,
}

impl Ends {
    pub fn of(stream: &TcpStream) -> Result<Self> {
        Ok(Self { local: stream.local_addr()?.port(), remote: stream.peer_addr()?.port() })
    }
}

/// A line of /proc/net/tcp or tcp6: what the kernel itself says of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub ends: Ends,
    pub state: u8,
    /// Bytes written and not acknowledged.
    pub unacked: u32,
    /// Bytes received and not read.
    pub unread: u32,
}

impl Row {
    /// All TCP sockets of a namespace.
    pub fn all(netns: &Netns) -> Result<Vec<Self>> {
        let tables = netns.enter(|| {
            ["tcp", "tcp6"].map(|table| std::fs::read_to_string(format!("/proc/thread-self/net/{table}")))
        })?;
        let mut rows = Vec::new();
        for table in tables {
            // Without IPv6 there is no tcp6.
            rows.extend(table.unwrap_or_default().lines().skip(1).filter_map(Self::parse));
        }
        Ok(rows)
    }

    /// `sl local:port remote:port state tx_queue:rx_queue ..`, all hexadecimal.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace().skip(1);
        let mut port = || u16::from_str_radix(words.next()?.rsplit_once(':')?.1, 16).ok();
        let ends = Ends { local: port()?, remote: port()? };
        let state = u8::from_str_radix(words.next()?, 16).ok()?;
        let (tx, rx) = words.next()?.split_once(':')?;
        let queue = |text| u32::from_str_radix(text, 16).ok();
        Some(Self { ends, state, unacked: queue(tx)?, unread: queue(rx)? })
    }
}

/// Waits until a socket of a namespace is as `wanted` says; `None` is a socket that is gone.
pub fn await_row(netns: &Netns, ends: Ends, wanted: impl Fn(Option<&Row>) -> bool) -> Result<()> {
    let mut last = None;
    let reached = eventually("the socket's state", Duration::from_secs(10), || {
        last = Row::all(netns).ok()?.into_iter().find(|row| row.ends == ends);
        wanted(last.as_ref()).then_some(())
    });
    reached.with_context(|| format!("the socket of {ends:?} is {last:?}"))
}
