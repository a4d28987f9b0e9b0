//! Brings up the loopback device of the calling thread's network namespace (netdevice(7)).
#![expect(unsafe_code, reason = "nix has no SIOCSIFFLAGS; two ioctls on a socket made here")]

use std::{io, os::fd::AsRawFd as _};

use nix::{
    libc::{IFF_UP, SIOCGIFFLAGS, SIOCSIFFLAGS, c_short, ifreq, ioctl},
    sys::socket::{AddressFamily, SockFlag, SockType, socket},
};

/// Sets IFF_UP on `lo`. Needs CAP_NET_ADMIN in the namespace's user namespace.
pub fn up() -> io::Result<()> {
    let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
    // SAFETY: ifreq is plain C data for which zero bytes are valid.
    let mut request: ifreq = unsafe { std::mem::zeroed() };
    for (target, byte) in request.ifr_name.iter_mut().zip(b"lo\0") {
        *target = byte.cast_signed();
    }
    // SAFETY: the descriptor is open, the request is a whole ifreq with a terminated name.
    if unsafe { ioctl(socket.as_raw_fd(), SIOCGIFFLAGS, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let up = c_short::try_from(IFF_UP).map_err(io::Error::other)?;
    // SAFETY: SIOCGIFFLAGS filled this member of the union.
    unsafe { request.ifr_ifru.ifru_flags |= up };
    // SAFETY: as above.
    if unsafe { ioctl(socket.as_raw_fd(), SIOCSIFFLAGS, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
