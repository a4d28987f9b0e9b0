//! Does every hook see what it should? The daemon makes connections on loopback, in a network namespace of
//! its own, and compares what the kernel programs counted with what it did.

use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::fs::MetadataExt as _,
    thread,
    time::{Duration, Instant},
};

use gt_common::{
    connection::{CLOSED, Connection, READ},
    counters::{LaneCounters, RstReceived, RstSent},
    owner::{Owner, SELF_CHECK},
};
use nix::{
    libc::linger,
    sched::{CloneFlags, unshare},
    sys::socket::{setsockopt, sockopt::Linger},
};

use super::{ProbeError, maps::Maps};
use crate::kernel::plan::Question;

/// How long the kernel may take to finish what the daemon started; on loopback it is microseconds.
const PATIENCE: Duration = Duration::from_secs(2);

/// A hook that did not see its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    pub question: Question,
    /// The kernel function or event that should have told.
    pub part: &'static str,
    pub expected: u64,
    pub seen: u64,
}

/// Why the check could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SelfCheckError {
    #[error(
        "cannot make the self-check's network namespace: {0}; it needs CAP_SYS_ADMIN, and CAP_NET_ADMIN for \
         its loopback device"
    )]
    Namespace(std::io::Error),
    #[error("cannot {what} for the self-check on loopback: {cause}")]
    Socket { what: &'static str, cause: std::io::Error },
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error("the self-check's thread died: this is a fault in gt, please report it")]
    Died,
}

/// What the running hooks are able to see.
#[derive(Clone, Copy, Debug)]
pub struct Expectation {
    /// RSTs that answer segments without a socket.
    pub no_socket: bool,
    pub ipv6: bool,
}

/// Runs the check on a thread of its own; takes some milliseconds when all is well.
pub fn self_check(maps: &Maps, expectation: Expectation) -> Result<Vec<Missed>, SelfCheckError> {
    thread::scope(|scope| {
        scope.spawn(|| in_own_namespace(maps, expectation)).join().unwrap_or(Err(SelfCheckError::Died))
    })
}

fn in_own_namespace(maps: &Maps, expectation: Expectation) -> Result<Vec<Missed>, SelfCheckError> {
    unshare(CloneFlags::CLONE_NEWNET).map_err(|error| SelfCheckError::Namespace(error.into()))?;
    crate::kernel::loopback::up().map_err(SelfCheckError::Namespace)?;
    let inode = std::fs::metadata("/proc/thread-self/ns/net").map_err(SelfCheckError::Namespace)?.ino();
    let inode = u32::try_from(inode)
        .map_err(|_| SelfCheckError::Namespace(std::io::Error::other("inode number out of range")))?;
    maps.own_namespace(inode, Owner { slot: SELF_CHECK, pod: SELF_CHECK })?;
    let result = converse(maps, expectation);
    maps.disown_namespace(inode, SELF_CHECK)?;
    result
}

fn converse(maps: &Maps, expectation: Expectation) -> Result<Vec<Missed>, SelfCheckError> {
    let mut missed = check(maps, IpAddr::V4(Ipv4Addr::LOCALHOST), expectation)?;
    // IPv6 may be built in and switched off (net.ipv6.conf.all.disable_ipv6).
    if expectation.ipv6 && TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        for miss in check(maps, IpAddr::V6(Ipv6Addr::LOCALHOST), expectation)? {
            if !missed.iter().any(|known| known.part == miss.part) {
                missed.push(miss);
            }
        }
    }
    Ok(missed)
}

/// One close, one reset, one refusal.
fn check(maps: &Maps, address: IpAddr, expectation: Expectation) -> Result<Vec<Missed>, SelfCheckError> {
    let before = maps.counters(SELF_CHECK)?.total();
    let socket = |what| move |cause| SelfCheckError::Socket { what, cause };
    let listener = TcpListener::bind(SocketAddr::new(address, 0)).map_err(socket("listen"))?;
    let target = listener.local_addr().map_err(socket("listen"))?;

    let mut client = TcpStream::connect(target).map_err(socket("connect"))?;
    let (mut server, _) = listener.accept().map_err(socket("accept"))?;
    client.write_all(b"x").map_err(socket("write"))?;
    server.read_exact(&mut [0]).map_err(socket("read"))?;
    let reads = entries(maps)?.iter().filter(|connection| connection.flags & READ != 0).count() as u64;
    drop(client);
    server.set_read_timeout(Some(PATIENCE)).map_err(socket("read"))?;
    let _end_of_stream = server.read(&mut [0]).map_err(socket("read"))?;
    drop(server);

    let client = TcpStream::connect(target).map_err(socket("connect"))?;
    let (server, _) = listener.accept().map_err(socket("accept"))?;
    setsockopt(&client, Linger, &linger { l_onoff: 1, l_linger: 0 })
        .map_err(|error| SelfCheckError::Socket { what: "set SO_LINGER", cause: error.into() })?;
    drop(client);
    drop(listener);
    let refused = TcpStream::connect_timeout(&target, PATIENCE);
    debug_assert!(refused.is_err(), "nobody listens any more");

    let parts = parts(address, expectation);
    let deadline = Instant::now() + PATIENCE;
    let missed = loop {
        let after = maps.counters(SELF_CHECK)?.total();
        let mut missed: Vec<_> = parts
            .iter()
            .filter_map(|part| {
                let seen = (part.count)(&after) - (part.count)(&before);
                (seen < part.expected).then_some(Missed {
                    question: part.question,
                    part: part.name,
                    expected: part.expected,
                    seen,
                })
            })
            .collect();
        if reads < 1 {
            missed.push(Missed { question: Question::Read, part: "a read", expected: 1, seen: reads });
        }
        // One end of the second connection is still open: whatever else is in the table should be gone.
        let left_over =
            entries(maps)?.iter().filter(|connection| connection.flags & CLOSED != 0).count() as u64;
        if left_over > 1 {
            let part = "sockets that are gone (left in the table)";
            missed.push(Missed { question: Question::SocketEnd, part, expected: 0, seen: left_over });
        }
        if missed.is_empty() || Instant::now() > deadline {
            break missed;
        }
        thread::sleep(Duration::from_millis(1));
    };
    drop(server);
    Ok(missed)
}

/// The self-check's connections in the table.
fn entries(maps: &Maps) -> Result<Vec<Connection>, ProbeError> {
    let found = maps.connections(|connection| connection.slot() == SELF_CHECK)?;
    Ok(found.into_iter().map(|(_, connection)| connection).collect())
}

/// A count that a conversation must raise.
struct Part {
    question: Question,
    name: &'static str,
    expected: u64,
    count: fn(&LaneCounters) -> u64,
}

fn parts(address: IpAddr, expectation: Expectation) -> Vec<Part> {
    let mut parts = vec![
        // Both ends are in this namespace: two connections, each opened and closed at both ends.
        Part {
            question: Question::StateChange,
            name: "connections opened",
            expected: 4,
            count: |counters| counters.opened,
        },
        Part {
            question: Question::StateChange,
            name: "connections closed",
            expected: 4,
            count: |counters| counters.closed,
        },
        Part {
            question: Question::RstSent,
            name: "tcp_send_active_reset",
            expected: 1,
            count: |counters| counters.rst_sent[RstSent::Active as usize],
        },
        Part {
            question: Question::RstReceived,
            name: "tcp_reset of an established connection",
            expected: 1,
            count: |counters| counters.rst_received[RstReceived::Reset as usize],
        },
        Part {
            question: Question::RstReceived,
            name: "tcp_reset of a refused connection",
            expected: 1,
            count: |counters| counters.rst_received[RstReceived::Refused as usize],
        },
    ];
    if expectation.no_socket {
        parts.push(Part {
            question: Question::RstSent,
            name: if address.is_ipv4() { "tcp_v4_send_reset" } else { "tcp_v6_send_reset" },
            expected: 1,
            count: |counters| counters.rst_sent[RstSent::NoSocket as usize],
        });
    }
    parts
}
