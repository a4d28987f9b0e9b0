//! Where to connect: inside the pod's namespace on its loopback, else at the pod's address.

use std::{
    fs::File,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
};

use gt_common::own::OWN_ADDRESS;
use nix::sys::socket::{setsockopt, sockopt};
use tokio::{
    net::{TcpSocket, TcpStream},
    sync::{mpsc, oneshot},
};

use super::{
    address::Address,
    error::{Cause, DialError},
    thread::{BySetns, Family, Job, Refusal, serve},
};

/// Wishes that wait for the thread at most; who comes later waits to be let in, within its own limit.
const QUEUE: usize = 64;

/// A pod, as far as reaching it goes.
#[derive(Clone, Debug)]
pub struct Target {
    /// `namespace/name`, for messages.
    pub pod: Arc<str>,
    /// Its network namespace, held open (`pods::netns::Netns::file`); `None` while it is not found.
    pub netns: Option<Arc<File>>,
    /// Its address, for when the namespace cannot be entered.
    pub address: Address,
}

/// Makes connections; cloned freely, all clones share one thread.
#[derive(Clone, Debug)]
pub struct Dialler {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    home: Arc<File>,
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
}

impl Dialler {
    /// For a process all of whose threads are in one network namespace. The thread starts with the first
    /// connection and ends with the last clone.
    pub fn new() -> io::Result<Self> {
        let home = Arc::new(File::open("/proc/thread-self/ns/net")?);
        Ok(Self { shared: Arc::new(Shared { home, jobs: Mutex::new(None) }) })
    }

    /// Connects to a port of a pod. Takes as long as the peer likes: put a limit around it.
    pub async fn connect(&self, target: &Target, port: u16) -> Result<TcpStream, DialError> {
        self.reach(target, port).await.map_err(|cause| DialError {
            pod: Arc::clone(&target.pod),
            port,
            cause,
        })
    }

    async fn reach(&self, target: &Target, port: u16) -> Result<TcpStream, Cause> {
        let Some(netns) = &target.netns else {
            let address = target.address.get().ok_or(Cause::Nowhere)?;
            return TcpStream::connect((address, port)).await.map_err(Cause::Io);
        };
        match self.inside(netns, Ipv4Addr::LOCALHOST.into(), port).await {
            // What listens on ::1 alone, as in a pod of an IPv6 cluster, refuses here.
            Err(Inside::Failed(error)) if is_refused(&error) => {
                self.inside(netns, Ipv6Addr::LOCALHOST.into(), port).await.map_err(|_| Cause::Refused)
            }
            Ok(stream) => Ok(stream),
            Err(Inside::Failed(error)) => Err(Cause::Io(error)),
            Err(Inside::ThreadEnded) => Err(Cause::ThreadEnded),
            Err(Inside::Denied) => {
                let address = target.address.get().ok_or(Cause::Denied)?;
                TcpStream::connect((address, port)).await.map_err(Cause::OutsideFailed)
            }
        }
    }

    async fn inside(&self, netns: &Arc<File>, address: IpAddr, port: u16) -> Result<TcpStream, Inside> {
        let family = if address.is_ipv4() { Family::V4 } else { Family::V6 };
        let socket = TcpSocket::from_std_stream(self.socket(netns, family).await?);
        if address.is_ipv4()
            && let Err(error) = be_known(&socket)
        {
            tracing::debug!(%error, "the connection is counted as the pod's");
        }
        socket.connect(SocketAddr::new(address, port)).await.map_err(Inside::Failed)
    }

    async fn socket(&self, netns: &Arc<File>, family: Family) -> Result<std::net::TcpStream, Inside> {
        // A thread that has ended lets go of the wishes that waited: they are repeated once.
        for _ in 0..2 {
            let (reply, answer) = oneshot::channel();
            let job = Job { netns: Arc::clone(netns), family, reply };
            if self.jobs().map_err(Inside::Failed)?.send(job).await.is_err() {
                continue;
            }
            match answer.await {
                Ok(Ok(socket)) => return Ok(socket),
                Ok(Err(Refusal::Denied)) => return Err(Inside::Denied),
                Ok(Err(Refusal::Io(error))) => return Err(Inside::Failed(error)),
                Err(_ended) => {}
            }
        }
        Err(Inside::ThreadEnded)
    }

    /// The way to the thread, which is started when there is none (any more).
    fn jobs(&self) -> io::Result<mpsc::Sender<Job>> {
        let mut current = self.shared.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(jobs) = current.as_ref().filter(|jobs| !jobs.is_closed()) {
            return Ok(jobs.clone());
        }
        let (sender, receiver) = mpsc::channel(QUEUE);
        let travel = BySetns::new(Arc::clone(&self.shared.home));
        std::thread::Builder::new().name("gt-dial".to_owned()).spawn(move || serve(receiver, travel))?;
        *current = Some(sender.clone());
        Ok(sender)
    }
}

/// Gives a socket the address by which the kernel programs know gt's own connections, and leave them out of all counts.
/// The port is chosen when it connects, so that only the four numbers together need be free.
fn be_known(socket: &TcpSocket) -> io::Result<()> {
    setsockopt(socket, sockopt::IpBindAddressNoPort, &true)?;
    socket.bind(SocketAddr::from((OWN_ADDRESS, 0)))
}

/// Why a connection inside the namespace was not made.
enum Inside {
    Denied,
    ThreadEnded,
    Failed(io::Error),
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn own_namespace(address: Option<IpAddr>) -> Target {
        let netns = Arc::new(File::open("/proc/self/ns/net").unwrap());
        Target { pod: "ns/pod".into(), netns: Some(netns), address: address.into() }
    }

    /// Exercises IPv4 and IPv6 loopback, so that a pod of either kind is reached, and by IPv4 from gt's own address.
    #[tokio::test]
    async fn both_families() {
        let dialler = Dialler::new().unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            let stream = dialler.connect(&own_namespace(None), port).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), listener.local_addr().unwrap());
            let expected: IpAddr =
                if address.starts_with('[') { Ipv6Addr::LOCALHOST.into() } else { OWN_ADDRESS.into() };
            assert_eq!(stream.local_addr().unwrap().ip(), expected);
        }
    }

    /// Exercises a port without a listener and a pod without a place, so that each is told as what it is.
    #[tokio::test]
    async fn nobody_there() {
        let dialler = Dialler::new().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let refused = dialler.connect(&own_namespace(None), port).await.unwrap_err();
        assert!(matches!(refused.cause, Cause::Refused), "{refused}");
        let nowhere = Target { pod: "ns/pod".into(), netns: None, address: Address::default() };
        let unknown = dialler.connect(&nowhere, port).await.unwrap_err();
        assert!(matches!(unknown.cause, Cause::Nowhere), "{unknown}");
    }

    /// Exercises a pod whose namespace is not known, so that its address is the way in as soon as it is known.
    #[tokio::test]
    async fn by_address() {
        let dialler = Dialler::new().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let target = Target { pod: "ns/pod".into(), netns: None, address: Address::default() };
        let unknown = dialler.connect(&target, port).await.unwrap_err();
        assert!(matches!(unknown.cause, Cause::Nowhere), "{unknown}");
        target.address.set(Some(Ipv4Addr::LOCALHOST.into()));
        dialler.connect(&target, port).await.unwrap();
    }
}
