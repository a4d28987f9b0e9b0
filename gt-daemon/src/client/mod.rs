//! The client of a daemon: reaches it, asks it, and hands on what it streams.
//!
//! [`connect`] gives the [`Messages`] of all daemons that have the wanted pods, each followed by a task of its own
//! ([`follow`]), which comes back to a daemon that went away. A [`door`] leads to one daemon: by its socket, by an address, or
//! through the API of a [`cluster`]. [`call`] is one question, [`events`] what a stream is made of, [`names`] completes names.
//!
//! Owns: the ways to a daemon, and coming back to one that went away. Refuses: to show anything.

mod call;
pub mod cluster;
pub mod door;
mod events;
mod fault;
mod follow;
pub mod messages;
pub mod names;

use std::{path::PathBuf, sync::Arc};

pub use fault::Fault;
pub use messages::Messages;

use self::{
    cluster::{Cluster, ClusterOptions},
    door::Door,
};
use crate::{
    api::{
        ask::Ask,
        message::PodStatus,
        routes::{Listed, Whole},
    },
    pods::label_selector::LabelSelector,
};

/// How daemons are reached.
#[derive(Clone, Debug)]
pub enum Way {
    /// One of them.
    One(Door),
    /// Those of a cluster.
    Cluster(Arc<Cluster>),
}

/// What the command line says of the way.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub socket: Option<PathBuf>,
    pub url: Option<String>,
    /// Whether a kubeconfig or a context was named.
    pub by_cluster: bool,
    pub cluster: ClusterOptions,
    /// The socket that is taken when nothing is said and it is there.
    pub usual_socket: PathBuf,
    /// Whether there is a kubeconfig where one usually is.
    pub has_kubeconfig: bool,
}

/// Which pods are to be followed.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// `[NAMESPACE/]NAME`, whole or partial; none: all.
    pub pods: Vec<String>,
    pub labels: LabelSelector,
}

impl Way {
    /// What is said goes before what is found: an address, a socket, a cluster; else this node's daemon if there is one, else
    /// the cluster of the usual kubeconfig.
    pub async fn open(choice: Choice) -> Result<Self, Fault> {
        if let Some(url) = &choice.url {
            return Door::of_url(url).map(Self::One);
        }
        if let Some(socket) = choice.socket {
            return Ok(Self::One(Door::Socket(socket)));
        }
        if !choice.by_cluster && choice.usual_socket.exists() {
            return Ok(Self::One(Door::Socket(choice.usual_socket)));
        }
        if choice.by_cluster || choice.has_kubeconfig {
            let cluster = Cluster::open(choice.cluster).await?;
            return Ok(Self::Cluster(Arc::new(cluster)));
        }
        Err(Fault::Nowhere(choice.usual_socket))
    }

    /// The daemons that have the wanted pods, and what to ask each for.
    async fn daemons(&self, wanted: &Wanted) -> Result<Vec<(Door, Ask)>, Fault> {
        match self {
            Self::One(door) => Ok(vec![(door.clone(), ask(door, wanted).await?)]),
            Self::Cluster(cluster) => {
                let nodes = cluster.find(wanted).await?;
                let door = |node| Door::Node { cluster: Arc::clone(cluster), node };
                Ok(nodes.into_iter().map(|(node, ask)| (door(node), ask)).collect())
            }
        }
    }

    /// The last drains of all daemons, the oldest first.
    pub async fn drains(&self) -> Result<Vec<Listed>, Fault> {
        let mut drains: Vec<Listed> = Vec::new();
        for (door, _) in self.daemons(&Wanted::default()).await? {
            drains.extend(call::document::<Vec<Listed>>(&door, "/v1/drains").await?);
        }
        drains.sort_by(|one, other| one.id.cmp(&other.id));
        Ok(drains)
    }

    /// One of the last drains with all its facts, by its id or a part of it that only one has: its pod's name, as a rule.
    pub async fn drain(&self, id: &str) -> Result<Whole, Fault> {
        let mut found = Vec::new();
        for (door, _) in self.daemons(&Wanted::default()).await? {
            let listed: Vec<Listed> = call::document(&door, "/v1/drains").await?;
            let alike = listed.into_iter().filter(|listed| listed.id.contains(id));
            found.extend(alike.map(|listed| (door.clone(), listed.id)));
        }
        if found.iter().any(|(_, known)| known == id) {
            found.retain(|(_, known)| known == id);
        }
        match found.as_slice() {
            [(door, id)] => call::document(door, &format!("/v1/drains/{id}")).await,
            [] => Err(Fault::Unknown(format!(
                "no daemon has a drain {id:?} in memory: `gt-daemon drains` lists those there are"
            ))),
            several => {
                let ids: Vec<_> = several.iter().map(|(_, id)| id.as_str()).collect();
                Err(Fault::Unknown(format!("there are several drains {id:?}: {}", ids.join(", "))))
            }
        }
    }
}

/// What to ask one daemon for: it knows its pods' names.
async fn ask(door: &Door, wanted: &Wanted) -> Result<Ask, Fault> {
    let mut ask = Ask { labels: wanted.labels.clone(), ..Ask::default() };
    if !wanted.pods.is_empty() {
        let pods: Vec<PodStatus> = call::document(door, "/v1/pods").await?;
        let known: Vec<_> = pods.into_iter().map(|pod| (pod.namespace, pod.pod)).collect();
        for asked in &wanted.pods {
            ask.pods.push(names::complete(asked, &known, "watched here").map_err(Fault::Unknown)?);
        }
    }
    Ok(ask)
}

/// Follows the wanted pods, for as long as the messages are taken. Each daemon begins with a
/// [`Message::Hello`](crate::api::message::Message::Hello). Must run inside a tokio runtime; an error when a daemon cannot be
/// asked or a name is none.
pub async fn connect(way: &Way, wanted: &Wanted) -> Result<Messages, Fault> {
    let (teller, messages) = Messages::channel();
    for (door, ask) in way.daemons(wanted).await? {
        let stream = follow::open(&door, &ask).await?;
        tokio::spawn(follow::follow(door, ask, stream, teller.clone()));
    }
    Ok(messages)
}

#[cfg(test)]
mod stand_in;
#[cfg(test)]
mod tests;
