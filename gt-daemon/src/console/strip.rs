//! One pod over a window of time, column by column: what the chart draws. Pure.

use super::model::{
    marks::Mark,
    pod::{Lb, Pod},
    steps::Steps,
};
use crate::drain::fact::Hc;

/// What is counted over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Requests in flight at the proxy.
    Requests,
    /// Open connections of users, where no proxy is asked.
    Connections,
}

/// A slice of time. The outer `None`: not told of, since nothing had been heard yet, or it is still to come; the inner one:
/// unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// The most at a time.
    pub count: Option<Option<u64>>,
    /// What held at the slice's end, as the next two.
    pub hc: Option<Option<Hc>>,
    pub told: Option<Option<u16>>,
    pub lb: Option<Option<Lb>>,
    /// The weightiest end of a connection.
    pub end: Option<Mark>,
    pub rst: bool,
}

/// A window of time in columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strip {
    pub quantity: Quantity,
    pub columns: Vec<Column>,
}

impl Strip {
    /// Of a pod from one instant to another, known up to `now`; all UTC microseconds.
    #[must_use]
    pub fn of(pod: &Pod, (from, to): (i64, i64), now: i64, columns: u16) -> Self {
        let quantity = if pod.in_flight.is_empty() && !pod.connections.is_empty() {
            Quantity::Connections
        } else {
            Quantity::Requests
        };
        let counts = match quantity {
            Quantity::Requests => &pod.in_flight,
            Quantity::Connections => &pod.connections,
        };
        let column = |place: u16| {
            let (start, end) = (border((from, to), columns, place), border((from, to), columns, place + 1));
            if start > now || start >= end {
                return Column::default();
            }
            // The newest word belongs to the column that has now in it, and the window's end to its last one.
            let end = if place + 1 == columns { end.saturating_add(1) } else { end };
            let (end, last) = if end > now { (now.saturating_add(1), now) } else { (end, end - 1) };
            Column {
                count: most(counts, start, end),
                hc: pod.hc.at(last),
                told: pod.told.at(last),
                lb: pod.lb.at(last),
                end: pod.marks.weightiest(start, end),
                rst: pod.marks.any_rst(start, end),
            }
        };
        Self { quantity, columns: (0..columns).map(column).collect() }
    }

    /// The most at a time over all columns, where any is known.
    #[must_use]
    pub fn most(&self) -> Option<u64> {
        self.columns.iter().filter_map(|column| column.count.flatten()).max()
    }
}

/// Where a column begins.
#[must_use]
pub fn border((from, to): (i64, i64), columns: u16, place: u16) -> i64 {
    let length = i128::from(to) - i128::from(from);
    let offset = length * i128::from(place) / i128::from(columns.max(1));
    i64::try_from(i128::from(from) + offset).unwrap_or(to)
}

/// The most that was at a time; unknown when nothing but that is known of the slice.
fn most(steps: &Steps<Option<u64>>, from: i64, to: i64) -> Option<Option<u64>> {
    steps.at(from).into_iter().chain(steps.between(from, to).map(|(_, count)| count)).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises slices before the first word, with a short peak, with an unknown count, and after now, so that each is told
    /// apart.
    #[test]
    fn columns() {
        let mut pod = Pod::default();
        for (ts, count) in [(100, Some(1)), (150, Some(9)), (160, Some(2)), (300, None), (400, Some(0))] {
            pod.in_flight.set(ts, count);
        }
        pod.hc.set(250, Some(Hc::Closing));
        pod.marks.rst(350);
        let strip = Strip::of(&pod, (0, 600), 420, 6);
        assert_eq!(Strip::of(&pod, (0, 150), 150, 3).most(), Some(9), "the last instant is shown");
        let counts: Vec<_> = strip.columns.iter().map(|column| column.count).collect();
        assert_eq!(counts, [None, Some(Some(9)), Some(Some(2)), Some(None), Some(Some(0)), None]);
        assert_eq!((strip.most(), strip.quantity), (Some(9), Quantity::Requests));
        let hc: Vec<_> = strip.columns.iter().map(|column| column.hc.flatten().is_some()).collect();
        assert_eq!(hc, [false, false, true, true, true, false]);
        assert_eq!(strip.columns.iter().position(|column| column.rst), Some(3));
    }

    /// Exercises windows without length, beyond the ends of time and of no columns.
    #[test]
    fn odd_windows() {
        let pod = Pod::default();
        for window in [(0, 0), (5, 1), (i64::MIN, i64::MAX)] {
            for columns in [0, 1, 7, 500] {
                assert_eq!(Strip::of(&pod, window, i64::MAX, columns).columns.len(), usize::from(columns));
            }
        }
    }
}
