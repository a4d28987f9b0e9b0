//! The readers of one pod: started, and started anew when what they read, or the way to it, changes.

use std::{path::PathBuf, sync::Arc};

use tokio::sync::mpsc;

use super::wanted::{Wanted, Way};
use crate::{
    dial::{Address, Dialler, Target},
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
    /// For all of them, where the namespace may not be entered; it may become known later than that.
    address: Address,
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
        self.address.set(followed.pod.addresses.first().copied());
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
            Way::Inside(netns) => {
                Some(Target { pod, netns: Some(Arc::clone(netns)), address: self.address.clone() })
            }
            Way::Outside(address) => Some(Target { pod, netns: None, address: Some(*address).into() }),
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

#[cfg(test)]
mod tests {
    use std::{fs::File, net::TcpListener, time::Duration};

    use tokio::time::timeout;

    use super::*;
    use crate::{hc::names::Names, observe::wanted::Hc, pods::Pod, poll::Intervals};

    /// Exercises a pod whose address becomes known after its namespace, so that its readers go on as they are, and one
    /// that gets another namespace, so that they begin anew. Nobody listens, and once asked is asked no more here.
    #[tokio::test]
    async fn an_address_changes_nothing() {
        let (hc_said, mut said) = mpsc::channel(8);
        let seldom = Duration::from_secs(3600);
        let makings = Makings {
            dialler: Dialler::new().unwrap(),
            follower: Follower::start(Names::default(), hc_said.clone()).unwrap(),
            hc: hc::Settings {
                intervals: Intervals { slow: seldom, fast: seldom },
                ..hc::Settings::default()
            },
            envoy: envoy::Settings::default(),
            hc_said,
            envoy_said: mpsc::channel(1).0,
        };
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let wanted = Wanted { hc: Some(Hc { port, log: None }), envoy: None };
        let netns = || Some(Arc::new(File::open("/proc/self/ns/net").unwrap()));
        let followed = |netns: &Option<Arc<File>>, addresses: &[&str]| {
            let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
            let pod = Arc::new(Pod { addresses, ..Pod::default() });
            let netns = netns.clone();
            Followed { uid: "u".into(), slot: 1, pod, netns, host_network: false, gone: false }
        };
        let mut readers = Readers::default();
        let (first, second) = (netns(), netns());
        readers.follow(&followed(&first, &[]), &wanted, &makings);
        let address = readers.target(&followed(&first, &[])).unwrap().address;
        timeout(Duration::from_secs(10), said.recv()).await.unwrap().unwrap();
        readers.follow(&followed(&first, &["10.0.0.7"]), &wanted, &makings);
        assert!(timeout(Duration::from_millis(300), said.recv()).await.is_err(), "they began anew");
        assert_eq!(
            address.get(),
            Some("10.0.0.7".parse().unwrap()),
            "for when the namespace may not be entered"
        );
        readers.follow(&followed(&second, &["10.0.0.7"]), &wanted, &makings);
        timeout(Duration::from_secs(10), said.recv()).await.unwrap().unwrap();
    }
}
