//! The join: what the kernel saw end, what hc told the load balancer, and what the proxy counted, put together into cuts.
//! Pure and synchronous; time is an argument.
//!
//! [`torn`] is a teardown as the kernel judged it, [`proxy`] finds the proxy's word on it, [`cause`] who is to blame,
//! [`pod`] keeps one pod's teardowns until both are known, [`counted`] counts what was judged, [`lost`] finds cuts whose
//! events never came.
//!
//! Owns: which proof goes before which. Refuses: to take a word back that was counted, and to call anything proved that a
//! source could not see.

pub mod cause;
pub mod counted;
pub mod judged;
mod lost;
pub mod pod;
pub mod proxy;
pub mod torn;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use gt_common::{
    connection::{CutKey, Evidence, HcState, How, Lane},
    owner::Slot,
};

use self::{
    cause::{Cause, cause},
    counted::{Counted, CutLabels, Knows, ResetLabels},
    judged::{Judged, LateReset, hc_label},
    lost::Lost,
    pod::{Pod, Reset},
    torn::{Direction, Ending, Id, Proof, Torn},
};
use crate::{
    clock::Moment,
    envoy::reader::Report,
    hc::{observation::HcObservation, states::States},
    lb::{follow::Said, history::Held},
    pods::owners::Name,
    probes::decode::{Observed, What},
};

/// What can be joined for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    pub uid: Arc<str>,
    /// All slots of the pod, with their names; `pod_slot` is that of the pod as a whole.
    pub slots: Vec<(Slot, Name)>,
    pub pod_slot: Slot,
    pub has_hc: bool,
    pub has_envoy: bool,
    /// Whether its deletion was asked for, or it is gone.
    pub ends: bool,
}

/// All pods' joins.
#[derive(Debug)]
pub struct Joins {
    /// Jiffies in a second.
    hz: u32,
    pods: BTreeMap<Arc<str>, Pod>,
    slots: HashMap<Slot, (Arc<str>, Name)>,
    counted: Counted,
    lost: Lost,
    /// RSTs since [`Self::late_resets`] was called.
    late: Vec<LateReset>,
    /// Until when all events of the kernel are here.
    until_ns: u64,
    /// When the kernel's counts were looked at last, and before that.
    looked_ns: [u64; 2],
}

impl Joins {
    /// Nothing is known yet; `hz`: jiffies in a second.
    #[must_use]
    pub fn new(hz: u32) -> Self {
        Self {
            hz,
            pods: BTreeMap::new(),
            slots: HashMap::new(),
            counted: Counted::default(),
            lost: Lost::default(),
            late: Vec::new(),
            until_ns: 0,
            looked_ns: [0; 2],
        }
    }

    /// The pods that are watched now. Counts live as long as a pod of their name does.
    pub fn pods(&mut self, joined: &[Joined]) {
        let mut slots = HashMap::new();
        let mut names = BTreeMap::new();
        for pod in joined {
            let whole = pod.slots.iter().find(|(slot, _)| *slot == pod.pod_slot).or(pod.slots.first());
            let Some((_, whole)) = whole else { continue };
            let known = self
                .pods
                .entry(Arc::clone(&pod.uid))
                .or_insert_with(|| Pod::new(Arc::clone(&pod.uid), whole.clone(), self.hz));
            (known.has_hc, known.has_envoy, known.ends) = (pod.has_hc, pod.has_envoy, pod.ends);
            for (slot, name) in &pod.slots {
                slots.insert(*slot, (Arc::clone(&pod.uid), name.clone()));
                let knows: &mut Knows = names.entry(name.clone()).or_default();
                knows.hc |= pod.has_hc;
                knows.envoy |= pod.has_envoy;
                knows.pod |= name == whole;
            }
        }
        self.pods.retain(|uid, _| joined.iter().any(|pod| pod.uid == *uid));
        for slot in self.slots.keys() {
            let owner =
                |slots: &HashMap<Slot, (Arc<str>, Name)>| slots.get(slot).map(|(uid, _)| Arc::clone(uid));
            if owner(&self.slots) != owner(&slots) {
                self.lost.forget(*slot);
            }
        }
        self.slots = slots;
        self.counted.keep(&names);
    }

    /// An event of the kernel. Returns the pod whose hc and proxy should be asked at once, if that would help.
    pub fn event(&mut self, event: &Observed) -> Option<Arc<str>> {
        let (uid, name) = self.slots.get(&event.slot)?;
        let pod = self.pods.get_mut(uid)?;
        if let Some(torn) = Torn::of(event) {
            self.lost.torn(&torn);
            return pod.torn(torn).then(|| Arc::clone(uid));
        }
        let direction = match event.what {
            What::RstSent(_) => Direction::Sent,
            What::RstReceived(_) => Direction::Received,
            What::Teardown(_) | What::NoRstReceived | What::State(..) => return None,
        };
        let known = event.connection.filter(|known| known.how != How::None && event.lane == Lane::Data)?;
        let id = Id::of(event)?;
        let reset = pod.reset(id, direction, known.rst_counted);
        let in_flight = matches!(reset, Reset::OfCut(_));
        if known.rst_counted && reset.is_first() {
            self.lost.reset(event, direction);
        }
        if in_flight || reset == Reset::OfPast {
            let uid = Arc::clone(uid);
            self.late.push(LateReset { uid, id, direction, in_flight, at_ns: event.time_ns });
        }
        if let Reset::OfCut(labels) = reset {
            self.counted.reset(name, labels);
        }
        None
    }

    /// All events up to this instant (`CLOCK_MONOTONIC`, nanoseconds) have been given to [`Self::event`].
    pub fn drained(&mut self, until_ns: u64) {
        self.until_ns = self.until_ns.max(until_ns);
    }

    /// Something was lost that may have been a connection's end.
    pub fn doubt(&mut self, now: Moment) {
        self.pods.values_mut().for_each(|pod| pod.doubt(now.monotonic_ns));
    }

    /// hc said something; whether that is a change, and the proxy should be asked at once: what it counted before is told
    /// apart from what it counts after.
    pub fn hc(&mut self, said: &HcObservation) -> bool {
        self.pods.get_mut(&said.uid).is_some_and(|pod| pod.hc(&said.observation))
    }

    /// An LB said something of a pod.
    pub fn lb(&mut self, uid: &str, said: &[Said]) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.lb(said);
        }
    }

    /// Its drain is over, and nobody asks the LB any more: what it said grows old.
    pub fn lb_is_over(&mut self, uid: &str) {
        if let Some(pod) = self.pods.get_mut(uid) {
            pod.lb_is_over();
        }
    }

    /// UTC was set: what hc and LBs said before is by another clock, and cuts bear no state until hc has spoken again.
    pub fn clock_was_set(&mut self) {
        self.pods.values_mut().for_each(Pod::clock_was_set);
    }

    /// Somebody looked at a proxy.
    /// `users`: how many connections of users the kernel knows just now, established and closing.
    pub fn envoy(&mut self, report: &Report, users: Option<(u64, u64)>) {
        let Some(pod) = self.pods.get_mut(&report.uid) else { return };
        match &report.outcome {
            Ok(sample) => {
                pod.answered(sample, report.at);
                pod.connected(sample, users);
            }
            Err(_) => pod.failed(report.at),
        }
    }

    /// Judges what can be judged by now, and counts it.
    pub fn tick(&mut self, now: Moment) -> Vec<Judged> {
        let mut judged = Vec::new();
        for pod in self.pods.values_mut() {
            judged.append(&mut pod.advance(now, self.until_ns));
        }
        for one in &mut judged {
            if let Some(torn) = &one.torn {
                if let Some((_, name)) = self.slots.get(&torn.slot) {
                    one.name.clone_from(name);
                }
                if torn.known.how == How::Pending {
                    let how = if one.ending == Ending::RstSent { How::RstSent } else { How::Timeout };
                    self.lost.settled(torn, how);
                }
            }
            if let Some(labels) = one.labels() {
                self.counted.cut(&one.name, labels, one.count);
            }
            if let Some(labels) = one.reset_labels() {
                self.counted.reset(&one.name, labels);
            }
        }
        judged
    }

    /// RSTs of connections that had been judged, since this was called last.
    pub fn late_resets(&mut self) -> Vec<LateReset> {
        std::mem::take(&mut self.late)
    }

    /// The pods whose hc and proxy should be asked again.
    #[must_use]
    pub fn wants(&self, now: Moment) -> Vec<Arc<str>> {
        let wanting = self.pods.iter().filter(|(_, pod)| pod.wants(now.monotonic_ns));
        wanting.map(|(uid, _)| Arc::clone(uid)).collect()
    }

    /// The kernel's own counts, to be given now and then: what has no event is counted by what the kernel knew. Returns those
    /// cuts; the instant of each is the earliest at which it may have happened.
    pub fn kernel_cuts(&mut self, counts: &[(CutKey, u64)], now: Moment) -> Vec<Judged> {
        let ours: Vec<_> =
            counts.iter().filter(|(key, _)| self.slots.contains_key(&key.slot)).copied().collect();
        // What is found missing now was counted by the last look, and not by the one before.
        let [last, before] = self.looked_ns;
        self.looked_ns = [now.monotonic_ns, last];
        let lost = self.lost.compare(&ours);
        lost.into_iter().filter_map(|(key, count)| self.count_lost(key, count, before)).collect()
    }

    fn count_lost(&mut self, key: CutKey, count: u64, at_ns: u64) -> Option<Judged> {
        let (uid, name) = self.slots.get(&key.slot)?;
        let pod = self.pods.get_mut(uid)?;
        let state = HcState::ALL.into_iter().find(|state| *state as u8 == key.hc).unwrap_or(HcState::Unknown);
        let states = States::only(state);
        let hc = hc_label(pod.has_hc, states);
        let evidence = if key.evidence == Evidence::Socket as u8 { Proof::Socket } else { Proof::Possible };
        if key.rst != 0 {
            let direction = if key.rst == 1 { Direction::Sent } else { Direction::Received };
            for _ in 0..count {
                self.counted.reset(name, ResetLabels { direction, hc, proof: evidence });
            }
            return None;
        }
        let how = How::ENDS.into_iter().find(|how| *how as u8 == key.how);
        let ending = how.and_then(Ending::of).unwrap_or(Ending::Unseen);
        let cause =
            if ending.is_remote() { cause(ending, false, states, Held::Untold) } else { Cause::Unknown };
        let count = pod.lost(count);
        if count == 0 {
            return None;
        }
        let cut = CutLabels { ending, cause, hc, proof: evidence };
        self.counted.cut(name, cut, count);
        Some(Judged::without_event(uid, name, at_ns, cut, count))
    }

    /// What has been counted.
    #[must_use]
    pub fn counted(&self) -> &Counted {
        &self.counted
    }

    /// What is known of a pod.
    #[must_use]
    pub fn pod(&self, uid: &str) -> Option<&Pod> {
        self.pods.get(uid)
    }
}

#[cfg(test)]
mod tests;
