//! Two ways to read kernel memory.
//!
//! A kprobe has raw addresses and must use `bpf_probe_read_kernel`. A BTF tracepoint has typed pointers: the
//! verifier knows the struct and allows a plain load at a constant offset, which spares the helper call.

use core::mem::MaybeUninit;

use aya_ebpf::helpers::{bpf_probe_read_kernel, generated};

/// A way to read a field of type `T` at `offset` from a kernel struct.
pub(crate) trait Mem {
    /// Whether a read is a plain load, cheaper than a look-up in a hash.
    const CHEAP: bool;

    /// `None` when the read failed. Safe to call: the verifier refuses a program in which `base` is not what
    /// this way of reading needs.
    fn read<T: Copy>(base: *const u8, offset: u32) -> Option<T>;

    /// What cannot be read is zero. Without a branch, see [`get`].
    fn get<T: Copy>(base: *const u8, offset: u32) -> T;

    /// The socket as a `struct tcp_sock`, which is longer than the `struct sock` of a tracepoint's argument;
    /// null for one that is only a `sock_common`.
    fn tcp(sk: *const u8) -> *const u8;
}

/// Reads through the helper; a bad address fails the read, nothing else.
pub(crate) struct Probed;

impl Mem for Probed {
    const CHEAP: bool = false;

    #[inline(always)]
    fn read<T: Copy>(base: *const u8, offset: u32) -> Option<T> {
        unsafe { bpf_probe_read_kernel(base.add(offset as usize).cast::<T>()) }.ok()
    }

    #[inline(always)]
    fn get<T: Copy>(base: *const u8, offset: u32) -> T {
        get(base, offset)
    }

    #[inline(always)]
    fn tcp(sk: *const u8) -> *const u8 {
        sk
    }
}

/// Reads through a typed pointer; a bad address reads as zero (the kernel's exception table).
pub(crate) struct Typed;

impl Mem for Typed {
    const CHEAP: bool = true;

    #[inline(always)]
    fn read<T: Copy>(base: *const u8, offset: u32) -> Option<T> {
        Some(Self::get(base, offset))
    }

    #[inline(always)]
    fn get<T: Copy>(base: *const u8, offset: u32) -> T {
        unsafe { core::ptr::read_volatile(base.add(offset as usize).cast::<T>()) }
    }

    #[inline(always)]
    fn tcp(sk: *const u8) -> *const u8 {
        unsafe { generated::bpf_skc_to_tcp_sock(sk.cast_mut().cast()) }.cast_const().cast()
    }
}

/// Reads through the helper without looking whether that worked: what cannot be read is zero, as the helper
/// leaves it (`bpf_probe_read_kernel_common`). Without a branch: each one doubles what an older verifier has
/// to walk.
#[inline(always)]
pub(crate) fn get<T: Copy>(base: *const u8, offset: u32) -> T {
    let mut value = MaybeUninit::<T>::uninit();
    unsafe {
        generated::bpf_probe_read_kernel(
            value.as_mut_ptr().cast(),
            size_of::<T>() as u32,
            base.add(offset as usize).cast(),
        );
        value.assume_init()
    }
}

/// Zero, unknown to the compiler: it would gather stores of a plain zero into a call of `memset`, a loop over
/// bytes that an older verifier walks once for every path.
#[inline(always)]
pub(crate) fn zero() -> u32 {
    let zero: u64;
    unsafe { core::arch::asm!("{0} = 0", out(reg) zero) };
    zero as u32
}

/// An address as a number. The verifier allows no arithmetic on a typed pointer but addition; what it was negated to
/// is a number to every kernel's (`check_alu_op`, kernel/bpf/verifier.c).
#[inline(always)]
pub(crate) fn number(address: *const u8) -> u64 {
    let negated: u64;
    unsafe { core::arch::asm!("{0} = -{0}", inlateout(reg) address => negated) };
    negated.wrapping_neg()
}
