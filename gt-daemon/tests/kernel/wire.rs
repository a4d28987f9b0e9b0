//! tcpdump on the pod's interface: the independent witness of what was on the wire.

use std::{thread, time::Duration};

use anyhow::Result;
use xtask::{
    sandbox::{Netns, eventually},
    stage::wire,
};

use crate::scene::{DEVICE, POD_V4, POD_V6};

/// RSTs by IPv4 and, where pcap filters know no `tcp[..]`, by IPv6 without extension headers.
const RESETS: &str = "tcp[tcpflags] & tcp-rst != 0 or (ip6 proto 6 and ip6[53] & 4 != 0)";

/// A capture of RSTs on the pod's interface.
pub struct Capture(wire::Capture);

/// RSTs captured, as the pod sees their direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resets {
    pub sent: u64,
    pub received: u64,
}

impl Resets {
    fn of(lines: &[String]) -> Self {
        let sent = lines.iter().filter(|line| from_pod(line)).count() as u64;
        Self { sent, received: lines.len() as u64 - sent }
    }
}

impl Capture {
    /// Starts tcpdump and waits until it captures.
    pub fn start(pod: &Netns) -> Result<Self> {
        wire::Capture::start(pod, DEVICE, RESETS, None).map(Self)
    }

    /// Waits until so many were captured, ends the capture, and tells what there was in the end.
    pub fn finish(self, expected: Resets) -> Result<Resets> {
        let captured = || Resets::of(&self.0.lines());
        let _compared_by_the_caller =
            eventually("the capture", Duration::from_secs(5), || (captured() == expected).then_some(()));
        // One more than expected would come right after.
        thread::sleep(Duration::from_millis(100));
        Ok(Resets::of(&self.0.finish()?))
    }
}

/// `.. IP 10.78.0.2.80 > 10.78.0.1.9: Flags [R], ..`
fn from_pod(line: &str) -> bool {
    let source = line.split(" > ").next().unwrap_or_default();
    source.contains(&format!(" {POD_V4}.")) || source.contains(&format!(" {POD_V6}."))
}
