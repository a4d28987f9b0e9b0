//! What the daemon's metrics say of a pod at one moment.

use std::{collections::BTreeMap, fmt};

use super::{
    envoy,
    scrape::{Sample, Scrape},
};

/// The labels that tell one kind of event from another; those a daemon does not set are left out.
const RST_LABELS: [&str; 5] = ["container", "role", "class", "direction", "reason"];
const CUT_LABELS: [&str; 4] = ["how", "cause", "hc_state", "evidence"];
const CUT_RST_LABELS: [&str; 3] = ["direction", "hc_state", "evidence"];

/// A set of labels in their order of telling, such as `direction=received reason=reset`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind(Vec<(String, String)>);

impl Kind {
    /// Builds a kind from labels and their values.
    pub fn new(labels: &[(&str, &str)]) -> Self {
        Self(labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }

    fn of(sample: &Sample, labels: &[&str]) -> Self {
        let set: Vec<_> = labels
            .iter()
            .map(|key| (*key, sample.label(key)))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        Self::new(&set)
    }

    /// A label's value, empty when absent.
    pub fn label(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    /// Whether this is about the connections the LB opened to the gateway: as far as the labels tell.
    fn at_stake(&self) -> bool {
        matches!(self.label("container"), envoy::CONTAINER | "")
            && matches!(self.label("role"), "inbound" | "")
            && matches!(self.label("class"), "data" | "")
    }

    /// An RST on a connection the LB opened to the gateway.
    pub fn is_gateway_rst(&self, direction: &str) -> bool {
        self.at_stake() && self.label("direction") == direction
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (key, value)) in self.0.iter().enumerate() {
            write!(f, "{}{key}={value}", if index == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

/// Sums by the values of a label.
#[must_use]
pub fn by(counts: &[(Kind, f64)], label: &str) -> BTreeMap<String, f64> {
    let mut sums = BTreeMap::new();
    for (kind, count) in counts {
        *sums.entry(kind.label(label).to_owned()).or_default() += count;
    }
    sums
}

/// One reading. `None` is a metric the daemon does not have, which is not zero.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Whether the labels tell the gateway's connections from the pod's others. On a host with cgroup v1
    /// they need not, and all numbers are the whole pod's.
    pub told_apart: bool,
    pub opened: Option<f64>,
    pub closed: Option<f64>,
    pub rsts: Option<BTreeMap<Kind, f64>>,
    pub cuts: Option<BTreeMap<Kind, f64>>,
    /// Cut connections on which an RST was sent or received.
    pub cut_rsts: Option<BTreeMap<Kind, f64>>,
}

impl Counts {
    /// Takes the numbers of the pod of this name from a scrape.
    #[must_use]
    pub fn of(scrape: &Scrape, pod: &str) -> Self {
        let told_apart = scrape
            .select("gt_connections_opened_total", &[("pod", pod)])
            .any(|sample| sample.label("container") == envoy::CONTAINER || !sample.label("role").is_empty());
        let kinds = |family: &str, labels: &[&str]| {
            scrape.declares(family).then(|| by_kind(scrape, pod, &format!("{family}_total"), labels))
        };
        Self {
            told_apart,
            opened: at_stake(scrape, pod, "gt_connections_opened_total"),
            closed: at_stake(scrape, pod, "gt_connections_closed_total"),
            rsts: kinds("gt_rst", &RST_LABELS),
            cuts: kinds("gt_inflight_cuts", &CUT_LABELS),
            cut_rsts: kinds("gt_rst_during_inflight", &CUT_RST_LABELS),
        }
    }

    /// Of a daemon that has seen nothing yet.
    #[must_use]
    pub fn nothing() -> Self {
        let none = || Some(BTreeMap::new());
        Self {
            opened: Some(0.0),
            closed: Some(0.0),
            rsts: none(),
            cuts: none(),
            cut_rsts: none(),
            ..Self::default()
        }
    }

    /// How many connections of the gateway were closed since `before`; `None` where that is not counted.
    pub fn closed_since(&self, before: &Self) -> Option<f64> {
        Some(self.closed? - before.closed?)
    }

    /// The RSTs that are new since `before`.
    pub fn rsts_since(&self, before: &Self) -> Option<Vec<(Kind, f64)>> {
        growth(before.rsts.as_ref(), self.rsts.as_ref())
    }

    /// The cuts that are new since `before`.
    pub fn cuts_since(&self, before: &Self) -> Option<Vec<(Kind, f64)>> {
        growth(before.cuts.as_ref(), self.cuts.as_ref())
    }

    /// The cut connections with an RST that are new since `before`.
    #[must_use]
    pub fn cut_rsts_since(&self, before: &Self) -> Option<Vec<(Kind, f64)>> {
        growth(before.cut_rsts.as_ref(), self.cut_rsts.as_ref())
    }

    /// All RSTs on the gateway's connections to the LB.
    pub fn gateway_rsts(&self, direction: &str) -> Option<f64> {
        let counts = self.rsts.as_ref()?.iter().filter(|(kind, _)| kind.is_gateway_rst(direction));
        Some(counts.fold(0.0, |sum, (_, count)| sum + count))
    }
}

fn at_stake(scrape: &Scrape, pod: &str, name: &str) -> Option<f64> {
    scrape
        .select(name, &[("pod", pod)])
        .filter(|sample| Kind::of(sample, &RST_LABELS).at_stake())
        .map(|sample| sample.value)
        .reduce(|sum, value| sum + value)
}

fn by_kind(scrape: &Scrape, pod: &str, name: &str, labels: &[&str]) -> BTreeMap<Kind, f64> {
    let mut counts = BTreeMap::new();
    for sample in scrape.select(name, &[("pod", pod)]) {
        *counts.entry(Kind::of(sample, labels)).or_default() += sample.value;
    }
    counts
}

/// What is more than before, by kind; `None` where one of the readings does not have the metric.
fn growth(
    before: Option<&BTreeMap<Kind, f64>>,
    after: Option<&BTreeMap<Kind, f64>>,
) -> Option<Vec<(Kind, f64)>> {
    let (before, after) = (before?, after?);
    let more = |(kind, count): (&Kind, &f64)| {
        let more = count - before.get(kind).copied().unwrap_or_default();
        (more != 0.0).then(|| (kind.clone(), more))
    };
    Some(after.iter().filter_map(more).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(text: &str) -> Counts {
        Counts::of(&Scrape::parse(text).unwrap(), "POD")
    }

    /// Exercises a daemon that sets no role and one that does, so that both are summed over what is at
    /// stake only.
    #[test]
    fn sums_what_is_at_stake() {
        let plain = counts(
            "gt_connections_opened_total{pod=\"POD\",container=\"istio-proxy\"} 7\n\
             gt_connections_opened_total{pod=\"POD\",container=\"hc\"} 90\n\
             gt_connections_opened_total{pod=\"other\",container=\"istio-proxy\"} 90\n# EOF\n",
        );
        assert_eq!((plain.opened, plain.closed, plain.cuts), (Some(7.0), None, None));
        let whole = counts("gt_connections_opened_total{pod=\"POD\",container=\"\"} 7\n# EOF\n");
        assert_eq!((plain.told_apart, whole.told_apart, whole.opened), (true, false, Some(7.0)));
        let fine = counts(
            "gt_connections_closed_total{pod=\"POD\",container=\"istio-proxy\",role=\"inbound\",class=\"data\"} 3\n\
             gt_connections_closed_total{pod=\"POD\",container=\"istio-proxy\",role=\"inbound\",class=\"admin\"} 90\n\
             gt_connections_closed_total{pod=\"POD\",container=\"istio-proxy\",role=\"loopback\"} 90\n# EOF\n",
        );
        assert_eq!(fine.closed, Some(3.0));
    }

    /// Exercises labels added later and series that appear late, so that growth is told per kind.
    #[test]
    fn growth_is_told_by_kind() {
        let before = counts(
            "# TYPE gt_inflight_cuts counter\n# TYPE gt_rst counter\n\
             gt_rst_total{pod=\"POD\",direction=\"sent\",reason=\"reply\",new=\"a\"} 1\n# EOF\n",
        );
        let after = counts(
            "# TYPE gt_inflight_cuts counter\n# TYPE gt_rst counter\n\
             gt_inflight_cuts_total{pod=\"POD\",how=\"fin_received\",cause=\"lb_flush\"} 1\n\
             gt_rst_total{pod=\"POD\",direction=\"sent\",reason=\"reply\",new=\"a\"} 1\n\
             gt_rst_total{pod=\"POD\",direction=\"received\",reason=\"reset\",new=\"a\"} 1\n\
             gt_rst_total{pod=\"POD\",direction=\"received\",reason=\"reset\",new=\"b\"} 1\n# EOF\n",
        );
        let rsts = after.rsts_since(&before).unwrap();
        assert_eq!(rsts, [(Kind::new(&[("direction", "received"), ("reason", "reset")]), 2.0)]);
        let cuts = after.cuts_since(&before).unwrap();
        assert_eq!(cuts.len(), 1);
        assert_eq!(cuts[0].0.to_string(), "how=fin_received cause=lb_flush");
        assert_eq!(before.cuts_since(&before), Some(Vec::new()));
        assert_eq!((after.gateway_rsts("received"), after.gateway_rsts("sent")), (Some(2.0), Some(1.0)));
        let none = Counts::default();
        assert_eq!((none.cuts_since(&none), none.gateway_rsts("sent")), (None, None));
    }
}
