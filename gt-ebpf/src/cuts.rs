//! Counts of cuts and of RSTs during a request in flight. Rare, so one shared hash instead of per-CPU sets.

use aya_ebpf::{macros::map, maps::HashMap};
use gt_common::connection::{Connection, CutKey, Evidence, How, RST_COUNTED};

use crate::{atomic::increment, counters::lost};

#[map]
static CUTS: HashMap<CutKey, u64> = HashMap::with_max_entries(16_384, 0);

#[inline(always)]
fn count(key: &CutKey) {
    const BPF_NOEXIST: u64 = 1;

    for _ in 0..2 {
        if let Some(counter) = CUTS.get_ptr_mut(key) {
            increment(unsafe { &mut *counter });
            return;
        }
        if CUTS.insert(key, 1, BPF_NOEXIST).is_ok() {
            return;
        }
        // Another CPU was faster, or the map is full: the second look tells.
    }
    lost(|losses| &mut losses.cuts_full);
}

/// Counts the judged end of a connection, if it was a cut.
#[inline(always)]
pub(crate) fn teardown(connection: &Connection) {
    if connection.evidence != Evidence::None as u8 {
        count(&CutKey {
            slot: connection.slot(),
            how: connection.how,
            rst: 0,
            evidence: connection.evidence,
            hc: connection.hc,
        });
    }
}

/// Counts an RST of a connection that was cut, once a connection.
#[inline(always)]
pub(crate) fn reset(connection: &mut Connection, received: bool) {
    if connection.evidence == Evidence::None as u8
        || connection.how == How::None as u8
        || connection.flags & RST_COUNTED != 0
    {
        return;
    }
    connection.flags |= RST_COUNTED;
    count(&CutKey {
        slot: connection.slot(),
        how: 0,
        rst: if received { 2 } else { 1 },
        evidence: connection.evidence,
        hc: connection.hc,
    });
}
