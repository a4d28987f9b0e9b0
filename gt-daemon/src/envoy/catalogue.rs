//! Which stats an Envoy keeps: learned once by asking for all, so that what a later answer leaves out is known to
//! be untouched (zero) or never kept (unknown).

use std::collections::HashSet;

use super::{
    query::Kinds,
    stat::{Group, Stat},
    sums::{Cluster, Sums},
};

/// What was learned of one process.
#[derive(Clone, Debug, Default)]
pub(super) struct Catalogue {
    kept: HashSet<Stat>,
    /// Clusters whose stats were made and had a row for the requests in flight, where Envoy makes stats late.
    made: HashSet<Box<str>>,
    /// Envoy makes clusters' stats late, and no cluster had a request yet: all their stats are zero.
    untouched: bool,
}

impl Catalogue {
    /// Takes in an answer that left nothing out, and settles what its missing rows mean.
    pub(super) fn learn(&mut self, kinds: Kinds, sums: &mut Sums) {
        self.kept.retain(|stat| !kinds.contains(stat.kind()));
        self.kept.extend(Stat::ALL.into_iter().filter(|stat| sums.get(*stat).is_some()));
        if kinds.contains(Stat::ClusterInitialized.kind()) {
            let late: Vec<_> =
                sums.clusters.iter().filter(|(_, cluster)| cluster.initialized.is_some()).collect();
            self.untouched =
                !late.is_empty() && late.iter().all(|(_, cluster)| cluster.initialized == Some(false));
            self.made =
                late.iter().filter(|(_, cluster)| cluster.active).map(|(name, _)| (*name).clone()).collect();
        }
        self.settle(kinds, sums);
    }

    /// Fills in zeros for what an answer with `usedonly` left out. `false` when it shows that more has to be
    /// learned; what is not known then is absent.
    pub(super) fn complete(&mut self, kinds: Kinds, sums: &mut Sums) -> bool {
        let touched = sums.clusters.values().any(|cluster| cluster.initialized == Some(true));
        let news = self.untouched && touched;
        self.untouched &= !touched;
        for stat in
            Stat::ALL.into_iter().filter(|stat| kinds.contains(stat.kind()) && self.kept.contains(stat))
        {
            sums.set(stat, Some(sums.get(stat).unwrap_or(0)));
        }
        self.settle(kinds, sums) && !news
    }

    /// What Envoy's late stats mean for the sums over clusters. `false` when a cluster's count is kept out.
    fn settle(&self, kinds: Kinds, sums: &mut Sums) -> bool {
        if self.untouched {
            let clusters = Stat::ALL.into_iter().filter(|stat| stat.group() == Group::Cluster);
            for stat in clusters.filter(|stat| kinds.contains(stat.kind())) {
                sums.set(stat, Some(sums.get(stat).unwrap_or(0)));
            }
        }
        let kept_out = |name: &str, cluster: &Cluster| {
            cluster.initialized == Some(true) && !cluster.active && !self.made.contains(name)
        };
        let whole = !sums.clusters.iter().any(|(name, cluster)| kept_out(name, cluster));
        if !whole {
            sums.set(Stat::UpstreamRqActive, None);
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envoy::{form::Form, scope::Ignored};

    fn sums(body: &str) -> Sums {
        Sums::read(Form::Text, body.as_bytes(), &Ignored::default()).unwrap()
    }

    fn learned(body: &str) -> (Catalogue, Sums) {
        let (mut catalogue, mut sums) = (Catalogue::default(), sums(body));
        catalogue.learn(Kinds::Both, &mut sums);
        (catalogue, sums)
    }

    fn completed(catalogue: &mut Catalogue, body: &str) -> (Sums, bool) {
        let mut sums = sums(body);
        let whole = catalogue.complete(Kinds::Both, &mut sums);
        (sums, whole)
    }

    /// Exercises stats that are kept and untouched, so that they are zero, while others stay unknown.
    #[test]
    fn untouched_is_zero_and_never_kept_is_unknown() {
        let (mut catalogue, _) =
            learned("http.in.downstream_rq_active: 0\nhttp.in.downstream_rq_rx_reset: 0\n");
        let (sums, whole) = completed(&mut catalogue, "");
        assert!(whole);
        assert_eq!(sums.get(Stat::DownstreamRqActive), Some(0));
        assert_eq!(sums.get(Stat::DownstreamRqRxReset), Some(0));
        assert_eq!(sums.get(Stat::UpstreamRqActive), None);
        assert_eq!(sums.get(Stat::ServerLive), None);
    }

    /// Exercises an answer about one kind, so that it says nothing of the other.
    #[test]
    fn kinds_are_separate() {
        let (mut catalogue, _) =
            learned("http.in.downstream_rq_active: 0\nhttp.in.downstream_rq_rx_reset: 0\n");
        let mut gauges = sums("");
        catalogue.complete(Kinds::Gauges, &mut gauges);
        assert_eq!(
            (gauges.get(Stat::DownstreamRqActive), gauges.get(Stat::DownstreamRqRxReset)),
            (Some(0), None)
        );
        catalogue.learn(Kinds::Gauges, &mut sums(""));
        let mut counters = sums("");
        catalogue.complete(Kinds::Counters, &mut counters);
        assert_eq!(counters.get(Stat::DownstreamRqRxReset), Some(0));
    }

    /// Exercises clusters whose stats are made late, so that no request so far is a zero and a stat that is
    /// kept out is none.
    #[test]
    fn late_stats() {
        let idle =
            "cluster.a;.ClusterTrafficStats.initialized: 0\ncluster.b;.ClusterTrafficStats.initialized: 0\n";
        let (mut catalogue, first) = learned(idle);
        assert_eq!(first.get(Stat::UpstreamRqActive), Some(0));
        assert_eq!(first.get(Stat::UpstreamRqRxReset), Some(0));
        let touched = "cluster.a;.ClusterTrafficStats.initialized: 1\n";
        let (kept_out, whole) = completed(&mut catalogue, touched);
        assert_eq!((kept_out.get(Stat::UpstreamRqActive), whole), (None, false));
        assert_eq!(kept_out.get(Stat::UpstreamRqRxReset), None);
        let (told, whole) =
            completed(&mut catalogue, &format!("{touched}cluster.a;.upstream_rq_active: 3\n"));
        assert_eq!((told.get(Stat::UpstreamRqActive), whole), (Some(3), true));
    }

    /// Exercises a late cluster whose gauge exists untouched, so that learning again settles it.
    #[test]
    fn a_late_gauge_that_nobody_touched() {
        let touched = "cluster.a;.ClusterTrafficStats.initialized: 1\n";
        let (mut catalogue, sums) = learned(&format!("{touched}cluster.a;.upstream_rq_active: 0\n"));
        assert_eq!(sums.get(Stat::UpstreamRqActive), Some(0));
        let (later, whole) = completed(&mut catalogue, touched);
        assert_eq!((later.get(Stat::UpstreamRqActive), whole), (Some(0), true));
    }

    /// Exercises a learned answer with a cluster whose count is kept out, so that the sum is unknown.
    #[test]
    fn kept_out_when_learning() {
        let (_, sums) = learned(
            "cluster.a;.ClusterTrafficStats.initialized: 1\ncluster.b;.ClusterTrafficStats.initialized: 1\n\
             cluster.b;.upstream_rq_active: 2\n",
        );
        assert_eq!(sums.get(Stat::UpstreamRqActive), None);
    }
}
