//! A scene as SVG, in HTML. No id, no script, no style of its own: several may stand on one page.

use std::fmt::Write as _;

use maud::{Markup, html};

use super::scene::{Anchor, Item, Point, Scene};

/// Draws it; `class` is that of the whole.
#[must_use]
pub fn svg(scene: &Scene, class: &str) -> Markup {
    let view_box = format!("0 0 {:.0} {:.0}", scene.width, scene.height.ceil());
    html! {
        svg class=(class) viewBox=(view_box) role="img" aria-label=(scene.title)
            xmlns="http://www.w3.org/2000/svg" {
            title { (scene.title) }
            desc { (scene.description) }
            @for item in &scene.items { (draw(item)) }
        }
    }
}

fn draw(item: &Item) -> Markup {
    match item {
        Item::Rect { x, y, width, height, class, tip } => html! {
            rect class=(class) x=(digits(*x)) y=(digits(*y)) width=(digits(*width)) height=(digits(*height)) {
                @if let Some(tip) = tip { title { (tip) } }
            }
        },
        Item::Line { from, to, class } => html! {
            line class=(class) x1=(digits(from.x)) y1=(digits(from.y)) x2=(digits(to.x)) y2=(digits(to.y)) {}
        },
        Item::Polyline { points, class } => html! { polyline class=(class) points=(list(points)) {} },
        Item::Mark { at, shape, class, tip } => html! {
            path class=(class) d=(path(&shape.strokes(*at))) { title { (tip) } }
        },
        Item::Text { at, anchor, class, text } => {
            let anchor = match anchor {
                Anchor::Start => None,
                Anchor::End => Some("end"),
            };
            html! { text class=(class) x=(digits(at.x)) y=(digits(at.y)) text-anchor=[anchor] { (text) } }
        }
    }
}

/// Hundredths of a unit are finer than anybody sees.
fn digits(number: f64) -> String {
    let text = format!("{number:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn list(points: &[Point]) -> String {
    let mut text = String::new();
    for Point { x, y } in points {
        let gap = if text.is_empty() { "" } else { " " };
        // A string takes everything.
        let _taken = write!(text, "{gap}{},{}", digits(*x), digits(*y));
    }
    text
}

fn path(strokes: &[Vec<Point>]) -> String {
    strokes.iter().map(|points| format!("M{}", list(points))).collect::<Vec<_>>().join(" ")
}
