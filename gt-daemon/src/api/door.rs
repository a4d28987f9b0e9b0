//! Where clients come in: a socket in the file system, and a port of this machine's own loopback device.
//!
//! `kubectl port-forward`, and so gt's own client, dials the loopback device of the daemon's network namespace. Neither is
//! ever on the pod network: who may reach them is decided by the file's mode, and by the cluster's rights.

use std::{
    fs,
    io::{self, ErrorKind},
    net::{Ipv4Addr, SocketAddr},
    os::unix::{
        fs::{DirBuilderExt as _, FileTypeExt as _, MetadataExt as _, PermissionsExt as _},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    str::FromStr,
};

use tokio::net::{TcpListener, UnixListener};

/// Where the daemon's socket is by default.
pub const SOCKET: &str = "/run/gt/gt.sock";

/// The port by default.
pub const PORT: u16 = 9465;

/// The port on the loopback device, if there is to be one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    Off,
    At(SocketAddr),
}

impl FromStr for Local {
    type Err = String;

    /// `off`, a port, or a loopback address with a port.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let help =
            "write off, a port, or an address of the loopback device with a port, such as 127.0.0.1:9465";
        if text == "off" {
            return Ok(Self::Off);
        }
        let address = match text.parse::<u16>() {
            Ok(port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
            Err(_) => text.parse().map_err(|_| format!("{text:?} is no address; {help}"))?,
        };
        if !address.ip().is_loopback() {
            return Err(format!(
                "{address} can be reached from other machines, which is not allowed; {help}"
            ));
        }
        Ok(Self::At(address))
    }
}

/// Why a door cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    #[error(
        "another gt-daemon listens on {0} already: stop that one, or give this one another --socket (and --local)"
    )]
    Taken(PathBuf),
    #[error("{0} is there and is no socket: remove it, or choose another path with --socket")]
    NoSocket(PathBuf),
    #[error(
        "cannot make the socket {path}: {cause}; let gt write to that directory, choose another path with --socket, or \
         none with --socket ''"
    )]
    Socket { path: PathBuf, cause: io::Error },
    #[error("cannot listen on {address}: {cause}; {remedy}")]
    Local { address: SocketAddr, cause: io::Error, remedy: &'static str },
}

/// A socket of the daemon's, removed with it.
#[derive(Debug)]
pub struct Socket {
    pub listener: UnixListener,
    pub file: SocketFile,
}

/// The file of a socket: removed when dropped, unless another one is there by then.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    id: Option<(u64, u64)>,
}

impl SocketFile {
    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.id.is_some() && id(&self.path) == self.id {
            // A file that cannot be removed is taken for what it is by the next daemon.
            let _left = fs::remove_file(&self.path);
        }
    }
}

/// Makes the socket, for root alone. One that a dead daemon has left is replaced, one with a living one behind it is not.
pub fn socket(path: &Path) -> Result<Socket, DoorError> {
    let failed = |cause| DoorError::Socket { path: path.to_owned(), cause };
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory).map_err(failed)?;
    }
    make_way(path)?;
    let listener = bind(path).map_err(|cause| match cause.kind() {
        // Somebody was quicker.
        ErrorKind::AlreadyExists => DoorError::Taken(path.to_owned()),
        _ => failed(cause),
    })?;
    Ok(Socket { listener, file: SocketFile { path: path.to_owned(), id: id(path) } })
}

/// Made in a directory of its own: others may not connect in the moment before its mode is set either.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let private = path.with_file_name(format!(".gt-{}", std::process::id()));
    let made = fs::DirBuilder::new().mode(0o700).create(&private);
    if made.as_ref().is_err_and(|error| error.kind() != ErrorKind::AlreadyExists) {
        made?;
    }
    let inner = private.join("s");
    // Of a process with the same number that was killed just here.
    let _nothing_is_left = fs::remove_file(&inner);
    let bound = UnixListener::bind(&inner).and_then(|listener| {
        fs::set_permissions(&inner, fs::Permissions::from_mode(0o600))?;
        fs::hard_link(&inner, path)?;
        Ok(listener)
    });
    let removed = fs::remove_file(&inner).and_then(|()| fs::remove_dir(&private));
    let listener = bound?;
    removed.map(|()| listener)
}

/// Removes what a dead daemon has left.
fn make_way(path: &Path) -> Result<(), DoorError> {
    let failed = |cause| DoorError::Socket { path: path.to_owned(), cause };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(failed(cause)),
        Ok(found) if !found.file_type().is_socket() => return Err(DoorError::NoSocket(path.to_owned())),
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        // Nobody has it open any more.
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(failed),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(cause) => Err(failed(cause)),
        Ok(_) => Err(DoorError::Taken(path.to_owned())),
    }
}

fn id(path: &Path) -> Option<(u64, u64)> {
    fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Takes the port on the loopback device.
pub async fn local(address: SocketAddr) -> Result<TcpListener, DoorError> {
    TcpListener::bind(address).await.map_err(|cause| {
        let remedy = match cause.kind() {
            ErrorKind::AddrInUse => {
                "another process has it, perhaps another gt-daemon: stop that one, choose another port with --local, or \
                 none with --local off"
            }
            _ => "choose another port with --local, or none with --local off",
        };
        DoorError::Local { address, cause, remedy }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises what may be written, so that no port is ever opened on the network.
    #[test]
    fn local_addresses() {
        let at = |text: &str| Ok(Local::At(text.parse().unwrap()));
        assert_eq!("off".parse(), Ok(Local::Off));
        assert_eq!("9465".parse(), at("127.0.0.1:9465"));
        assert_eq!("127.0.0.1:9465".parse(), at("127.0.0.1:9465"));
        assert_eq!("[::1]:1".parse(), at("[::1]:1"));
        for wrong in ["0.0.0.0:9465", "[::]:9465", "10.0.0.1:9465", "on", "", "localhost:9465", "70000"] {
            assert!(wrong.parse::<Local>().unwrap_err().contains("127.0.0.1:9465"), "{wrong}");
        }
    }

    /// Exercises a path where a living daemon listens, where a dead one did, and where something else is, so that only what
    /// nobody uses is replaced.
    #[tokio::test]
    async fn who_is_there_already() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("new").join("gt.sock");
        let first = socket(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(dir.path().join("new")).unwrap().count(), 1);
        let message = socket(&path).unwrap_err().to_string();
        assert!(message.contains("another gt-daemon listens on"), "{message}");
        let Socket { listener, file } = first;
        std::mem::forget(file);
        drop(listener);
        let second = socket(&path).unwrap();
        drop(second);
        assert!(!path.exists(), "a daemon that ends takes its socket along");
        fs::write(&path, "not ours").unwrap();
        assert!(matches!(socket(&path), Err(DoorError::NoSocket(_))));
        assert_eq!(fs::read(&path).unwrap(), b"not ours");
        let beneath = socket(&path.join("gt.sock")).unwrap_err().to_string();
        assert!(beneath.contains("--socket"), "{beneath}");
    }

    /// Exercises a socket that another daemon has replaced, so that the first one does not take it away.
    #[tokio::test]
    async fn the_next_ones_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gt.sock");
        let first = socket(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let _second = socket(&path).unwrap();
        drop(first);
        assert!(path.exists());
    }
}
