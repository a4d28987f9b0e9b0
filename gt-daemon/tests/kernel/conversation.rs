//! Ways for two ends of a connection to part.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::fd::AsFd,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use nix::{
    libc::linger,
    sys::socket::{setsockopt, sockopt::Linger},
};

/// Closes with an RST instead of a FIN.
pub fn abort(stream: TcpStream) -> Result<()> {
    setsockopt(&stream.as_fd(), Linger, &linger { l_onoff: 1, l_linger: 0 })?;
    drop(stream);
    Ok(())
}

/// Accepts, at most a few seconds later.
pub fn accept(listener: &TcpListener) -> Result<TcpStream> {
    listener.set_nonblocking(true)?;
    let (stream, _) =
        xtask::sandbox::eventually("a connection", Duration::from_secs(5), || listener.accept().ok())?;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    Ok(stream)
}

/// One side says something, the other hears it.
pub fn exchange(from: &mut TcpStream, to: &mut TcpStream, what: &[u8]) -> Result<()> {
    from.write_all(what)?;
    let mut heard = vec![0; what.len()];
    to.set_read_timeout(Some(Duration::from_secs(5)))?;
    to.read_exact(&mut heard).context("the other end hears nothing")?;
    ensure!(heard == what, "heard something else");
    Ok(())
}

/// Waits until unread bytes have arrived.
pub fn arrived(stream: &TcpStream) -> Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    ensure!(stream.peek(&mut [0]).context("nothing arrives")? == 1, "the stream has ended");
    Ok(())
}

/// Waits until the other side has reset the connection.
pub fn is_reset(stream: &mut TcpStream) -> Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    match stream.read(&mut [0; 64]) {
        Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => Ok(()),
        other => anyhow::bail!("expected a reset, got {other:?}"),
    }
}

/// Waits until the other side has closed.
pub fn ended(stream: &TcpStream) -> Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    ensure!(stream.peek(&mut [0]).context("the other side does not close")? == 0, "more to read");
    Ok(())
}
