//! The three intervals, each on a line between its two instants. A negative one points to the left: the order was the
//! wrong one.

use super::{
    super::{
        scene::{Anchor, Shape},
        text::length,
    },
    canvas::{Canvas, LINE, MARGIN, extent},
};
use crate::drain::{
    fact::{Fact, Timed},
    intervals::{Instants, instants},
};

/// An interval in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interval {
    /// Its name in `intervals.json`.
    pub name: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// Its ends, UTC microseconds.
    pub ends: Option<(i64, i64)>,
    /// Why it is not known, or what its sign says.
    pub remark: Option<&'static str>,
}

impl Interval {
    /// Its length with its sign.
    #[must_use]
    pub fn value(&self) -> String {
        self.ends.map_or("not known".to_owned(), |(from, to)| length(to.saturating_sub(from)))
    }
}

/// The three of a drain.
#[must_use]
pub fn intervals(facts: &[Timed]) -> [Interval; 3] {
    let Instants { begun, active_zero, lb_down, first_rst } = instants(facts);
    let is_predicted =
        facts.iter().any(|timed| matches!(timed.fact, Fact::HaproxyBackendDown { predicted: true, .. }));
    let no_zero = "requests were in flight to the end of what is known, or their number is not known";
    let no_down = if is_predicted {
        "the load balancer's DOWN was predicted, and nobody saw it"
    } else {
        "nobody saw the load balancer's DOWN"
    };
    let no_rst = "no RST came after the end of a user's connection";
    let missing = |from: Option<i64>, no_from, to: Option<i64>, no_to| match (from, to) {
        (Some(_), Some(_)) => None,
        (None, _) => Some(no_from),
        (_, None) => Some(no_to),
    };
    let early = |from: Option<i64>, to: Option<i64>, remark| {
        from.zip(to).filter(|(from, to)| to < from).map(|_| remark)
    };
    [
        Interval {
            name: "drain_to_active_zero",
            meaning: "from the drain's beginning until nothing was in flight any more",
            ends: begun.zip(active_zero),
            remark: missing(begun, "no drain began", active_zero, no_zero),
        },
        Interval {
            name: "active_zero_to_lb_down",
            meaning: "from there until the load balancer took the pod for down",
            ends: active_zero.zip(lb_down),
            remark: missing(active_zero, no_zero, lb_down, no_down).or(early(
                active_zero,
                lb_down,
                "negative: the load balancer was first",
            )),
        },
        Interval {
            name: "lb_down_to_first_rst",
            meaning: "from there until the first RST of a user's connection",
            ends: lb_down.zip(first_rst),
            remark: missing(lb_down, no_down, first_rst, no_rst).or(early(
                lb_down,
                first_rst,
                "negative: the RST was first",
            )),
        },
    ]
}

/// Draws a line for each.
pub fn rows(canvas: &mut Canvas, facts: &[Timed]) {
    for interval in intervals(facts) {
        let is_negative = interval.ends.is_some_and(|(from, to)| to < from);
        let class = match interval.ends {
            None => "span quiet",
            Some(_) if is_negative => "span negative",
            Some(_) => "span",
        };
        told(canvas, &interval, class);
        let Some((from, to)) = interval.ends else { continue };
        line(canvas, from, to, is_negative);
    }
}

/// Its name, length and remark, on a line of its own each where there is no room for both.
fn told(canvas: &mut Canvas, interval: &Interval, class: &'static str) {
    let text = format!("{} {}", interval.name, interval.value());
    let Some(remark) = interval.remark else { return canvas.heading(&text, class) };
    let both = format!("{text} ({remark})");
    if extent(&both) < canvas.width - 2.0 * MARGIN {
        return canvas.heading(&both, class);
    }
    canvas.heading(&text, class);
    canvas.heading(&format!("({remark})"), class);
}

fn line(canvas: &mut Canvas, from: i64, to: i64, is_negative: bool) {
    let y = canvas.y + 4.0;
    let (start, end) = (canvas.scale.x(from), canvas.scale.x(to));
    let class = if is_negative { "span-line negative" } else { "span-line" };
    let tip = format!(
        "{} of {}",
        if is_negative { "negative interval" } else { "interval" },
        length(to.saturating_sub(from))
    );
    canvas.line((start, y), (end, y), class);
    canvas.line((start, y - 4.0), (start, y + 4.0), class);
    let has_end = canvas.scale.has(to);
    if has_end {
        canvas.mark(end, y, if is_negative { Shape::HeadLeft } else { Shape::HeadRight }, class, tip);
    } else {
        // It goes on beyond the picture.
        let (x, anchor, arrow) = if to > from {
            (canvas.scale.right - MARGIN, Anchor::End, "…→")
        } else {
            (MARGIN, Anchor::Start, "←…")
        };
        canvas.text(x, y - LINE / 2.0, anchor, "tick", arrow);
    }
    canvas.y += 10.0;
}
