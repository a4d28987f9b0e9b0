//! How gt's own connections inside a pod are told from the pod's.

/// The loopback address from which the daemon dials ports inside a pod's namespace: 127.0.0.0/8 with "gt" in ASCII.
/// All of 127.0.0.0/8 is local to every host (RFC 1122, 3.2.1.3), and nobody else has a reason to use this one.
/// IPv6 has a single loopback address, so there is no such one of it.
pub const OWN_ADDRESS: [u8; 4] = [127, b'g', b't', 1];

/// [`OWN_ADDRESS`] as the kernel keeps it, in network order.
pub const OWN_IN_NETWORK_ORDER: u32 = u32::from_ne_bytes(OWN_ADDRESS);
