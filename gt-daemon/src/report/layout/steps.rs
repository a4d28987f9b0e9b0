//! Rows of numbers over time: two stepped lines, one drawn through and one dashed. Where a number is not known there is
//! no line, and the row is hatched.

use super::{
    super::{
        scene::{Anchor, Item, Point},
        series::flight::Numbers,
        text::clock,
    },
    canvas::{Canvas, extent},
};

/// Draws a row of some height, with the highest number in its title.
pub fn row(canvas: &mut Canvas, title: &str, height: f64, solid: &Numbers, dashed: &Numbers) {
    let most = solid.iter().chain(dashed).filter_map(|one| one.what).max();
    let told = most.map_or("unknown".to_owned(), |most| format!("{most} at most"));
    canvas.heading(&format!("{title}: {told}"), "row");
    let top = canvas.y;
    let bottom = top + height;
    let (left, right) = (canvas.scale.left, canvas.scale.right);
    canvas.rect((left, right), (top, height), "field", None);
    unknown(canvas, (top, height), solid);
    let peak = most.unwrap_or(0).max(1);
    let y = |number: u64| {
        #[expect(clippy::cast_precision_loss, reason = "a place on a page needs a few digits")]
        let share = number as f64 / peak as f64;
        bottom - 2.0 - share * (height - 6.0)
    };
    line(canvas, solid, "line solid", y);
    // On top, where both are the same: the first shows between its dashes.
    line(canvas, dashed, "line dashed", y);
    canvas.y = bottom + 2.0;
}

fn unknown(canvas: &mut Canvas, (top, height): (f64, f64), numbers: &Numbers) {
    let mut until = f64::MIN;
    for one in numbers.iter().filter(|one| one.what.is_none()) {
        let (from, to) = (canvas.scale.x(one.from), canvas.scale.x(one.to));
        // Those that nobody could tell apart are one.
        if to < until {
            continue;
        }
        until = to.max(from + 1.0);
        let tip = format!("unknown: {} to {}", clock(one.from), clock(one.to));
        canvas.rect((from, to), (top, height), "unknown", Some(tip));
        if to - from > extent("unknown") + 8.0 {
            canvas.text(from + 4.0, top + height / 2.0 - 7.0, Anchor::Start, "label quiet", "unknown");
        }
    }
}

fn line(canvas: &mut Canvas, numbers: &Numbers, class: &'static str, y: impl Fn(u64) -> f64) {
    let mut points: Vec<Point> = Vec::new();
    for one in numbers {
        match one.what {
            Some(number) => {
                let y = y(number);
                points.push(Point { x: canvas.scale.x(one.from), y });
                points.push(Point { x: canvas.scale.x(one.to), y });
            }
            None => draw(canvas, &std::mem::take(&mut points), class),
        }
    }
    draw(canvas, &points, class);
}

fn draw(canvas: &mut Canvas, points: &[Point], class: &'static str) {
    if !points.is_empty() {
        canvas.items.push(Item::Polyline { points: thinned(points), class });
    }
}

/// Of the points in one column the first, the lowest, the highest and the last: the line looks the same.
fn thinned(points: &[Point]) -> Vec<Point> {
    let column = |point: &Point| (point.x * 2.0).floor();
    let mut thin = Vec::new();
    for same in points.chunk_by(|one, next| column(one) == column(next)) {
        let low = same.iter().enumerate().min_by(|one, other| one.1.y.total_cmp(&other.1.y));
        let high = same.iter().enumerate().max_by(|one, other| one.1.y.total_cmp(&other.1.y));
        let mut kept = vec![0, same.len() - 1];
        kept.extend(low.into_iter().chain(high).map(|(number, _)| number));
        kept.sort_unstable();
        kept.dedup();
        thin.extend(kept.into_iter().filter_map(|number| same.get(number).copied()));
    }
    thin
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises a line of many points, so that its ends and peaks stay, and its points are few.
    #[test]
    fn thin_lines() {
        let point =
            |number: u32| Point { x: f64::from(number) / 100.0, y: f64::from(number * 7_919 % 1_000) };
        let points: Vec<Point> = (0..100_000).map(point).collect();
        let thin = thinned(&points);
        assert!(thin.len() <= 2_000 * 4, "{}", thin.len());
        assert_eq!((thin.first(), thin.last()), (points.first(), points.last()));
        let peak = |points: &[Point]| points.iter().map(|point| point.y).fold(0.0, f64::max);
        assert!((peak(&points) - peak(&thin)).abs() < f64::EPSILON);
        assert!(thin.is_sorted_by(|one, next| one.x <= next.x));
        let few = vec![Point { x: 1.0, y: 1.0 }, Point { x: 9.0, y: 1.0 }];
        assert_eq!(thinned(&few), few);
    }
}
