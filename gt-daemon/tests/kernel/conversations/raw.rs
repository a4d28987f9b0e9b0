//! System calls that std does not offer.
#![expect(unsafe_code, reason = "system calls of libc")]

use std::{
    ffi::c_int,
    io::{self, Read as _, Seek as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
};

use anyhow::{Context as _, Result, ensure};
use nix::{
    libc,
    sys::socket::{self, SockaddrStorage, setsockopt, sockopt},
};

fn done(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Keeps what is written until the socket is closed.
pub fn cork(stream: &TcpStream) -> Result<()> {
    setsockopt(stream, sockopt::TcpCork, &true).map_err(Into::into)
}

/// Writes from a file, without a copy in between.
pub fn sendfile(to: &TcpStream, what: &[u8]) -> Result<()> {
    let mut file = tempfile::tempfile()?;
    file.write_all(what)?;
    file.rewind()?;
    // SAFETY: both descriptors are open, and the offset is the file's own.
    let sent = unsafe { libc::sendfile(to.as_raw_fd(), file.as_raw_fd(), std::ptr::null_mut(), what.len()) };
    ensure!(done(sent)? == what.len(), "sendfile wrote less");
    Ok(())
}

fn splice(from: c_int, to: c_int, length: usize) -> Result<()> {
    let (null, flags) = (std::ptr::null_mut(), 0);
    // SAFETY: both descriptors are open, and neither has an offset.
    let moved = unsafe { libc::splice(from, null, to, null, length, flags) };
    ensure!(done(moved)? == length, "splice moved less");
    Ok(())
}

/// Writes from a pipe.
pub fn splice_out(to: &TcpStream, what: &[u8]) -> Result<()> {
    let (reader, mut writer) = io::pipe()?;
    writer.write_all(what)?;
    splice(reader.as_raw_fd(), to.as_raw_fd(), what.len())
}

/// Reads into a pipe.
pub fn splice_in(from: &TcpStream, length: usize) -> Result<()> {
    let (mut reader, writer) = io::pipe()?;
    splice(from.as_raw_fd(), writer.as_raw_fd(), length)?;
    reader.read_exact(&mut vec![0; length]).map_err(Into::into)
}

/// A write whose bytes cannot be read.
pub fn write_from_nowhere(to: &TcpStream) -> io::Result<usize> {
    let nowhere = std::ptr::without_provenance(8);
    // SAFETY: the kernel answers EFAULT, and touches nothing.
    done(unsafe { libc::send(to.as_raw_fd(), nowhere, 100, libc::MSG_NOSIGNAL) })
}

/// `connect` to nobody: the socket is as new.
pub fn disconnect(stream: &TcpStream) -> Result<()> {
    let nobody = libc::sockaddr { sa_family: 0, sa_data: [0; 14] };
    let length = libc::socklen_t::try_from(size_of_val(&nobody))?;
    // SAFETY: the address is as long as said.
    let result = unsafe { libc::connect(stream.as_raw_fd(), &raw const nobody, length) };
    done(result as isize).context("cannot disconnect").map(drop)
}

/// Connects a socket that has been connected before.
pub fn connect_again(stream: &TcpStream, to: SocketAddr) -> Result<()> {
    socket::connect(stream.as_raw_fd(), &SockaddrStorage::from(to)).map_err(Into::into)
}

/// A socket that connects with its first write, by TCP Fast Open. To be called in the dialler's namespace.
pub fn fast_open(to: SocketAddr, what: &[u8]) -> Result<TcpStream> {
    let family = if to.is_ipv4() { socket::AddressFamily::Inet } else { socket::AddressFamily::Inet6 };
    let fd = socket::socket(family, socket::SockType::Stream, socket::SockFlag::SOCK_CLOEXEC, None)?;
    setsockopt(&fd, sockopt::TcpFastOpenConnect, &true)?;
    socket::connect(fd.as_raw_fd(), &SockaddrStorage::from(to))?;
    let mut stream = TcpStream::from(fd);
    stream.write_all(what)?;
    Ok(stream)
}

/// A listener of multipath TCP; `None` where the kernel has none.
pub fn listen_multipath(on: SocketAddr) -> Result<Option<TcpListener>> {
    let family = if on.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    // SAFETY: no memory is passed.
    let fd = unsafe { libc::socket(family, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, libc::IPPROTO_MPTCP) };
    if fd < 0 {
        return Ok(None);
    }
    // SAFETY: nobody else has this descriptor.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    socket::bind(fd.as_raw_fd(), &SockaddrStorage::from(on))?;
    socket::listen(&fd, socket::Backlog::new(16)?)?;
    Ok(Some(TcpListener::from(fd)))
}

/// Whether the server took the data of the first segment (`tcpi_options`, `TCPI_OPT_SYN_DATA`).
pub fn was_fast_open(stream: &TcpStream) -> Result<bool> {
    const TCPI_OPT_SYN_DATA: u8 = 32;

    let mut info = [0_u8; 8];
    let mut length = libc::socklen_t::try_from(info.len())?;
    // SAFETY: the buffer is as long as said.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    done(result as isize)?;
    Ok(info[5] & TCPI_OPT_SYN_DATA != 0)
}
