//! Where the entry of a connection lies: in the place that its socket's address leads to, or in a hash.

use crate::connection::Connection;

/// A place for one connection; one line of a CPU's cache.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Who claims it; whoever reads 1 after adding 1 has it. See `places.rs` of the kernel programs.
    pub claims: u64,
    /// Kernel address of the socket that has it; 0 while nobody has, or while it is being filled or given back;
    /// [`retired`] while user space takes it back.
    pub socket: u64,
    /// Meaningful while `socket` is an address.
    pub connection: Connection,
    /// How many connections whose place this would be are in the hash.
    pub displaced: u64,
}

const _: () = {
    assert!(size_of::<Place>() == 64);
    assert!(core::mem::offset_of!(Place, socket) == 8);
    assert!(core::mem::offset_of!(Place, connection) == 16);
    assert!(core::mem::offset_of!(Place, displaced) == 56);
};
crate::pod!(Place);

/// The most connections that can be asked for, and so the most places.
pub const MAX_CONNECTIONS: u32 = 1 << 24;

/// How many places there are for so many connections: a power of two, at least 1.
#[must_use]
pub const fn places_for(connections: u32) -> u32 {
    let connections = if connections > MAX_CONNECTIONS { MAX_CONNECTIONS } else { connections };
    connections.next_power_of_two()
}

/// Number of the place of a socket; `mask` is the number of places less one.
///
/// Sockets begin at a line of the cache, so the lowest bits tell nothing. The rest is mixed by the golden ratio, of
/// whose product the upper bits are the best (Knuth, The Art of Computer Programming, 6.4).
#[inline(always)]
#[must_use]
pub const fn place_of(socket: u64, mask: u32) -> u32 {
    ((socket >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u32 & mask
}

/// The mark of a place that user space takes back from a socket: no socket has an odd address.
#[must_use]
pub const fn retired(socket: u64) -> u64 {
    socket | 1
}

/// Whether a place's `socket` is the address of one.
#[must_use]
pub const fn is_taken(socket: u64) -> bool {
    socket != 0 && socket & 1 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises sizes that are no powers of two, so that there is never less room than was asked for.
    #[test]
    fn enough_places() {
        for (connections, places) in [(0, 1), (1, 1), (3, 4), (4, 4), (100_000, 131_072), (131_072, 131_072)]
        {
            assert_eq!(places_for(connections), places);
        }
        assert_eq!(places_for(u32::MAX), MAX_CONNECTIONS);
    }

    /// Exercises sockets as a slab has them, one behind the other, so that they do not share places more than chance
    /// would have it: of as many sockets as places, about 37 in 100 find theirs taken.
    #[test]
    fn sockets_are_spread() {
        const PLACES: u32 = 4096;
        for size in [2304, 2432, 2624, 2688] {
            let mut taken = [false; PLACES as usize];
            for number in 0..u64::from(PLACES) {
                // Slabs of 32 KB, as the kernel makes them for objects of this size.
                let (slab, object) = (number / (32_768 / size), number % (32_768 / size));
                let place = place_of(0xffff_8881_0000_0000 + slab * 32_768 + object * size, PLACES - 1);
                taken[place as usize] = true;
            }
            let taken = taken.into_iter().filter(|taken| *taken).count();
            assert!(taken > 2400, "{size}: {taken} places for {PLACES} sockets");
        }
    }

    /// Exercises the marks, so that none is taken for a socket.
    #[test]
    fn marks() {
        let socket = 0xffff_8881_0000_0040;
        assert!(is_taken(socket) && !is_taken(retired(socket)) && !is_taken(0));
    }
}
