//! The first bytes that a peer sent, from the packet the application is reading.
//!
//! Bytes in the packet's linear part are read as they are. Bytes in pages need the page's address, which on
//! x86-64 is `page_offset_base + (page - vmemmap_base) / sizeof(struct page) * 4096`
//! (arch/x86/include/asm/page_64.h, include/asm-generic/memory_model.h); elsewhere the protocol stays unknown.

use gt_common::connection::{Protocol, recognize};

use crate::{
    layout::{offset, page_offset_base, vmemmap_base},
    mem::{Mem, Probed},
};

/// What is spoken, by the bytes at the head of the receive queue.
#[inline(always)]
pub(crate) fn protocol(sk: *const u8) -> Protocol {
    match first(sk) {
        Some(bytes) => recognize(bytes.to_ne_bytes()),
        None => Protocol::Unknown,
    }
}

#[inline(always)]
fn first(sk: *const u8) -> Option<u32> {
    let queue = sk.wrapping_add(offset!(sk_receive_queue) as usize);
    let skb = Probed::read::<*const u8>(queue, 0)?;
    // An empty queue points to itself.
    if skb == queue || skb.is_null() {
        return None;
    }
    let length = Probed::read::<u32>(skb, offset!(skb_len))?;
    let paged = Probed::read::<u32>(skb, offset!(skb_data_len))?;
    if length < 4 {
        return None;
    }
    if length.wrapping_sub(paged) >= 4 {
        let data = Probed::read::<*const u8>(skb, offset!(skb_data))?;
        return Probed::read::<u32>(data, 0);
    }
    if length != paged {
        return None;
    }
    let head = Probed::read::<*const u8>(skb, offset!(skb_head))?;
    let end = Probed::read::<u32>(skb, offset!(skb_end))?;
    let fragment = head.wrapping_add(end as usize).wrapping_add(offset!(shinfo_frags) as usize);
    let page = Probed::read::<u64>(fragment, 0)?;
    let start = Probed::read::<u32>(fragment, 12)?;
    Probed::read::<u32>(bytes_of(page)?, start)
}

#[inline(always)]
fn bytes_of(page: u64) -> Option<*const u8> {
    const PAGE_SHIFT: u32 = 12;

    let page_size = u64::from(offset!(page_size));
    // Bit 0 marks memory of a device (net_iov, 6.9+), which has no address.
    if page_offset_base() == 0 || vmemmap_base() == 0 || page_size == 0 || page & 1 == 1 {
        return None;
    }
    let base = Probed::read::<u64>(page_offset_base() as *const u8, 0)?;
    let map = Probed::read::<u64>(vmemmap_base() as *const u8, 0)?;
    let number = page.wrapping_sub(map) / page_size;
    Some(base.wrapping_add(number << PAGE_SHIFT) as *const u8)
}
