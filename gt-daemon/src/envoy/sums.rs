//! The rows of one answer, added up per stat.

use std::collections::HashMap;

use super::{
    form::{Form, Malformed},
    scope::Ignored,
    stat::{Group, Stat},
};

/// What an answer said of one cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cluster {
    /// Whether it had a row for the requests in flight.
    pub(super) active: bool,
    /// Whether its stats are made, where Envoy makes them with the first request; `None` where it does not.
    pub(super) initialized: Option<bool>,
}

/// Sums over the scopes that count.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    totals: [Option<u64>; Stat::ALL.len()],
    pub(super) clusters: HashMap<Box<str>, Cluster>,
    /// Each counter that is not zero, to see when one begins anew.
    pub(super) counters: HashMap<(Stat, Box<str>), u64>,
}

impl Sums {
    /// Reads a whole answer.
    pub fn read(form: Form, body: &[u8], ignored: &Ignored) -> Result<Self, Malformed> {
        let mut sums = Self::default();
        form.read(body, |stat, scope, value| sums.add(stat, scope, value, ignored))?;
        Ok(sums)
    }

    fn add(&mut self, stat: Stat, scope: &str, value: u64, ignored: &Ignored) {
        match stat.group() {
            Group::Http if ignored.listener(scope) => return,
            Group::Cluster if ignored.cluster(scope) => return,
            Group::Http | Group::Cluster | Group::Server | Group::ListenerManager => {}
        }
        match stat {
            Stat::UpstreamRqActive => self.clusters.entry(scope.into()).or_default().active = true,
            Stat::ClusterInitialized => {
                self.clusters.entry(scope.into()).or_default().initialized = Some(value > 0);
            }
            _ => {}
        }
        if stat.kind() == super::stat::Kind::Counter && value > 0 {
            self.counters.insert((stat, scope.into()), value);
        }
        let total = &mut self.totals[stat as usize];
        *total = Some(total.unwrap_or(0).saturating_add(value));
    }

    /// The sum of a stat; `None` when no row told it.
    #[must_use]
    pub fn get(&self, stat: Stat) -> Option<u64> {
        self.totals[stat as usize]
    }

    pub(super) fn set(&mut self, stat: Stat, value: Option<u64>) {
        self.totals[stat as usize] = value;
    }
}

#[cfg(test)]
#[path = "sums_tests.rs"]
mod tests;
