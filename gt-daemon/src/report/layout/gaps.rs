//! A row for each source of which something was not seen.

use super::{
    super::{
        scene::Shape,
        text::{clock, length, plain},
        words,
    },
    canvas::Canvas,
};
use crate::drain::fact::{Fact, Source, Timed};

const HEIGHT: f64 = 12.0;

/// All sources, in the order of their rows.
const SOURCES: [Source; 6] =
    [Source::Kernel, Source::Hc, Source::Envoy, Source::Lb, Source::Pods, Source::Record];

/// Draws the rows.
pub fn rows(canvas: &mut Canvas, facts: &[Timed]) {
    for source in SOURCES {
        let gaps: Vec<(i64, i64, &str)> = facts.iter().filter_map(|timed| gap(timed, source)).collect();
        if !gaps.is_empty() {
            let title = format!("not seen, {}: {}", words::source(source), gaps.len());
            canvas.heading(&title, "row");
            row(canvas, &gaps);
        }
    }
}

fn gap(timed: &Timed, of: Source) -> Option<(i64, i64, &str)> {
    match &timed.fact {
        Fact::Gap { source, length_us, why } if *source == of => {
            Some((timed.ts.saturating_sub((*length_us).max(0)), timed.ts, why))
        }
        _ => None,
    }
}

fn row(canvas: &mut Canvas, gaps: &[(i64, i64, &str)]) {
    let (top, left, right) = (canvas.y, canvas.scale.left, canvas.scale.right);
    canvas.rect((left, right), (top, HEIGHT), "field", None);
    let mut until = f64::MIN;
    for (from, to, why) in gaps {
        if *to < canvas.scale.from || *from > canvas.scale.to {
            continue;
        }
        let (start, end) = (canvas.scale.x(*from), canvas.scale.x(*to));
        // What nobody could tell apart from the one before is told in the table.
        if end < until {
            continue;
        }
        let tip = format!("{}, {}: {}", clock(*to), length(to.saturating_sub(*from)), plain(why));
        canvas.rect((start, end), (top, HEIGHT), "unknown", Some(tip.clone()));
        if from == to {
            canvas.mark(end, top + HEIGHT / 2.0, Shape::Bar, "mark gap", tip);
        }
        until = end.max(start + 1.0) + 1.0;
    }
    canvas.y += HEIGHT + 2.0;
}
