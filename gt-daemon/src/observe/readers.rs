//! The readers of one pod: started, and started anew when what they read, or the way to it, changes.

use std::{path::PathBuf, sync::Arc};

use tokio::sync::mpsc;

use super::wanted::{Wanted, Way};
use crate::{
    dial::{Dialler, Target},
    envoy::reader::{self as envoy, Endpoint, Report},
    hc::{log::follower::Follower, observation::HcObservation, reader as hc},
    pods::owners::Followed,
    poll::{Pace, Remote},
};

/// What all readers are made with.
#[derive(Debug)]
pub(super) struct Makings {
    pub(super) dialler: Dialler,
    pub(super) follower: Follower,
    pub(super) hc: hc::Settings,
    pub(super) envoy: envoy::Settings,
    pub(super) hc_said: mpsc::Sender<HcObservation>,
    pub(super) envoy_said: mpsc::Sender<Report>,
}

/// The readers of one pod. Dropped, they let go of its network namespace.
#[derive(Debug, Default)]
pub(super) struct Readers {
    way: Way,
    hc: Option<(u16, hc::Reader)>,
    envoy: Option<(Vec<Endpoint>, envoy::Reader)>,
    log: Option<PathBuf>,
    pace: Pace,
}

impl Readers {
    /// Brings them in step with the pod.
    pub(super) fn follow(&mut self, followed: &Followed, wanted: &Wanted, makings: &Makings) {
        let way = Way::to(followed);
        if way != self.way {
            (self.hc, self.envoy) = (None, None);
            self.way = way;
        }
        self.follow_log(followed, wanted, &makings.follower);
        let port = wanted.hc.as_ref().map(|hc| hc.port);
        self.hc.take_if(|(known, _)| Some(*known) != port);
        self.envoy.take_if(|(known, _)| Some(&*known) != wanted.envoy.as_ref());
        let Some(target) = self.target(followed) else { return };
        if let (None, Some(port)) = (&self.hc, port) {
            let settings = hc::Settings { port, ..makings.hc.clone() };
            let (uid, dialler) = (Arc::clone(&followed.uid), makings.dialler.clone());
            let reader = hc::Reader::start(uid, target.clone(), dialler, settings, makings.hc_said.clone());
            reader.remote().pace(self.pace);
            self.hc = Some((port, reader));
        }
        if let (None, Some(endpoints)) = (&self.envoy, &wanted.envoy) {
            let settings = envoy::Settings { endpoints: endpoints.clone(), ..makings.envoy.clone() };
            let (uid, dialler) = (Arc::clone(&followed.uid), makings.dialler.clone());
            let reader = envoy::Reader::start(uid, target, dialler, settings, makings.envoy_said.clone());
            reader.remote().pace(self.pace);
            self.envoy = Some((endpoints.clone(), reader));
        }
    }

    /// The log needs no way in, and has its last lines when the pod is gone.
    fn follow_log(&mut self, followed: &Followed, wanted: &Wanted, follower: &Follower) {
        let is_over = followed.gone && self.way == Way::Closed;
        let log = wanted.hc.as_ref().and_then(|hc| hc.log.as_ref()).filter(|_| !is_over);
        if log == self.log.as_ref() {
            return;
        }
        match log {
            Some(directory) => follower.follow(Arc::clone(&followed.uid), directory.clone()),
            None => follower.forget(&followed.uid),
        }
        self.log = log.cloned();
    }

    fn target(&self, followed: &Followed) -> Option<Target> {
        let pod: Arc<str> = format!("{}/{}", followed.pod.namespace, followed.pod.name).into();
        match &self.way {
            Way::Inside { netns, address } => {
                Some(Target { pod, netns: Some(Arc::clone(netns)), address: *address })
            }
            Way::Outside(address) => Some(Target { pod, netns: None, address: Some(*address) }),
            Way::Closed | Way::Nowhere(_) => None,
        }
    }

    /// How often they ask from now on.
    pub(super) fn pace(&mut self, pace: Pace) {
        if pace != self.pace {
            self.pace = pace;
            self.remotes().for_each(|remote| remote.pace(pace));
        }
    }

    /// They ask at once.
    pub(super) fn alarm(&self) {
        self.remotes().for_each(Remote::alarm);
    }

    /// Envoy is asked at once.
    pub(super) fn alarm_envoy(&self) {
        self.envoy.iter().for_each(|(_, reader)| reader.remote().alarm());
    }

    fn remotes(&self) -> impl Iterator<Item = &Remote> {
        let hc = self.hc.iter().map(|(_, reader)| reader.remote());
        hc.chain(self.envoy.iter().map(|(_, reader)| reader.remote()))
    }

    /// Why the pod cannot be asked anything, if so.
    pub(super) fn obstacle(&self) -> Option<&'static str> {
        match self.way {
            Way::Nowhere(reason) => Some(reason),
            _ => None,
        }
    }

    pub(super) fn asks_hc(&self) -> bool {
        self.hc.is_some()
    }

    pub(super) fn reads_log(&self) -> bool {
        self.log.is_some()
    }

    pub(super) fn asks_envoy(&self) -> bool {
        self.envoy.is_some()
    }
}
