//! Programs that do nothing: `cargo xtask bench hooks` puts one beside each of gt's, on the same hook, and
//! tells what gt's cost more. The daemon never loads them.

use aya_ebpf::{
    macros::{btf_tracepoint, kprobe},
    programs::{BtfTracePointContext, ProbeContext},
};

/// For any tracepoint; which one is said at load.
#[btf_tracepoint]
fn empty_btf(_ctx: BtfTracePointContext) -> i32 {
    0
}

/// For any function; which one is said when it is attached.
#[kprobe]
fn empty_kprobe(_ctx: ProbeContext) -> u32 {
    0
}
