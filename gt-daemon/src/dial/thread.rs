//! The thread that goes into pods' network namespaces to make sockets there (setns(2), network_namespaces(7)).
//!
//! It never blocks on a pod: making a socket takes microseconds. When it cannot return it ends, so that no socket
//! is ever made in the namespace of the pod before.

use std::{
    fs::File,
    io,
    net::TcpStream,
    os::{fd::AsFd as _, unix::fs::MetadataExt as _},
    sync::Arc,
};

use nix::{
    sched::{CloneFlags, setns},
    sys::socket::{AddressFamily, SockFlag, SockType, socket},
};
use tokio::sync::{mpsc, oneshot};

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// One wish for a socket: not connected yet, non-blocking.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) netns: Arc<File>,
    pub(super) family: Family,
    pub(super) reply: oneshot::Sender<Result<TcpStream, Refusal>>,
}

/// Why there is no socket.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The namespace may not be entered.
    Denied,
    Io(io::Error),
}

/// How the thread changes its namespace.
pub(super) trait Travel {
    fn enter(&mut self, netns: &File) -> io::Result<()>;
    /// Back to where the thread began.
    fn return_home(&mut self) -> io::Result<()>;
}

/// By setns(2). A namespace that is the thread's own is not entered, which needs no capability.
#[derive(Debug)]
pub(super) struct BySetns {
    home: Arc<File>,
    away: bool,
}

impl BySetns {
    /// `home` is the namespace of the thread this is for.
    pub(super) fn new(home: Arc<File>) -> Self {
        Self { home, away: false }
    }
}

impl Travel for BySetns {
    fn enter(&mut self, netns: &File) -> io::Result<()> {
        let (there, here) = (netns.metadata()?, self.home.metadata()?);
        if (there.dev(), there.ino()) == (here.dev(), here.ino()) {
            return Ok(());
        }
        setns(netns.as_fd(), CloneFlags::CLONE_NEWNET)?;
        self.away = true;
        Ok(())
    }

    fn return_home(&mut self) -> io::Result<()> {
        if self.away {
            setns(self.home.as_fd(), CloneFlags::CLONE_NEWNET)?;
            self.away = false;
        }
        Ok(())
    }
}

/// Makes sockets until nobody can wish for one, or until the way home is lost.
pub(super) fn serve(mut jobs: mpsc::Receiver<Job>, mut travel: impl Travel) {
    while let Some(Job { netns, family, reply }) = jobs.blocking_recv() {
        let made = travel.enter(&netns).map_err(refusal).and_then(|()| make(family).map_err(Refusal::Io));
        drop(netns);
        let home = travel.return_home();
        // Whoever asked may have lost patience.
        let _gone = reply.send(made);
        if let Err(error) = home {
            tracing::error!(%error, "the thread that makes sockets in pods cannot return to its own network \
                                     namespace and ends; another takes its place");
            return;
        }
    }
}

fn refusal(error: io::Error) -> Refusal {
    match error.kind() {
        io::ErrorKind::PermissionDenied => Refusal::Denied,
        _ => Refusal::Io(error),
    }
}

fn make(family: Family) -> io::Result<TcpStream> {
    let family = match family {
        Family::V4 => AddressFamily::Inet,
        Family::V6 => AddressFamily::Inet6,
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socket(family, SockType::Stream, flags, None)?.into())
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// A thread that gets lost on its way home from the n-th pod.
    struct Lost(u32);

    impl Travel for Lost {
        fn enter(&mut self, _netns: &File) -> io::Result<()> {
            Ok(())
        }

        fn return_home(&mut self) -> io::Result<()> {
            self.0 -= 1;
            if self.0 == 0 { Err(io::Error::other("lost")) } else { Ok(()) }
        }
    }

    fn job() -> (Job, oneshot::Receiver<Result<TcpStream, Refusal>>) {
        let (reply, answer) = oneshot::channel();
        let netns = Arc::new(File::open("/proc/self/ns/net").unwrap());
        (Job { netns, family: Family::V4, reply }, answer)
    }

    /// Exercises a thread that cannot return, so that it serves nobody after that.
    #[test]
    fn a_lost_thread_ends() {
        let (wishes, jobs) = mpsc::channel(8);
        let mut answers = Vec::new();
        for _ in 0..3 {
            let (job, answer) = job();
            wishes.blocking_send(job).unwrap();
            answers.push(answer);
        }
        thread::spawn(move || serve(jobs, Lost(2))).join().unwrap();
        let answered: Vec<_> = answers.into_iter().map(oneshot::Receiver::blocking_recv).collect();
        assert!(matches!(answered[..], [Ok(Ok(_)), Ok(Ok(_)), Err(_)]), "{answered:?}");
        assert!(wishes.is_closed());
    }

    /// Exercises the thread's own namespace, so that it needs no capability there.
    #[test]
    fn at_home_nothing_is_entered() {
        let home = Arc::new(File::open("/proc/self/ns/net").unwrap());
        let mut travel = BySetns::new(Arc::clone(&home));
        travel.enter(&home).unwrap();
        assert!(!travel.away);
        travel.return_home().unwrap();
    }

    /// Exercises a file that is no namespace, so that it is an error and no socket.
    #[test]
    fn no_namespace() {
        let home = Arc::new(File::open("/proc/self/ns/net").unwrap());
        let mut travel = BySetns::new(home);
        assert!(travel.enter(&File::open("/dev/null").unwrap()).is_err());
        assert!(!travel.away);
    }
}
