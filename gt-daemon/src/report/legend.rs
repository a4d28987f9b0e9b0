//! What each mark and box of a picture means.

use maud::{Markup, html};

use super::{
    scene::{Item, Point, Scene, Shape},
    svg::svg,
};

/// A sample's size, in units of its view box.
const SIZE: (f64, f64) = (26.0, 14.0);

/// All of them.
#[must_use]
pub fn legend() -> Markup {
    let boxes = [
        ("unknown", "hatched: not known"),
        ("band turning", "between two looks at the load balancer"),
        ("band predicted", "predicted, seen by nobody"),
        ("band crowd", "several, too short to be told apart here"),
    ];
    let lines = [
        ("line solid", "downstream, or active connections"),
        ("line dashed", "upstream, or closing connections"),
    ];
    let marks = [
        (Shape::Cross, "mark cut", "cut with a request in flight"),
        (Shape::Question, "mark perhaps", "perhaps cut"),
        (Shape::Triangle, "mark aborted", "given up by its client"),
        (Shape::Ring, "mark ended", "ended with nothing in flight"),
        (Shape::ArrowDown, "mark rst", "RST received"),
        (Shape::ArrowUp, "mark rst", "RST sent"),
    ];
    let (width, height) = SIZE;
    let middle = Point { x: width / 2.0, y: height / 2.0 };
    let rect =
        |class| Item::Rect { x: 1.0, y: 1.0, width: width - 2.0, height: height - 2.0, class, tip: None };
    let line = |class| {
        let at = |x| Point { x, y: middle.y };
        Item::Polyline { points: vec![at(1.0), at(width - 1.0)], class }
    };
    let mark = |shape, class| Item::Mark { at: middle, shape, class, tip: String::new() };
    html! {
        ul class="legend" {
            @for (class, words) in lines { (entry(line(class), words)) }
            @for (shape, class, words) in marks { (entry(mark(shape, class), words)) }
            @for (class, words) in boxes { (entry(rect(class), words)) }
            li { "×n: so many at one place" }
        }
    }
}

fn entry(item: Item, words: &str) -> Markup {
    let (width, height) = SIZE;
    let title = words.to_owned();
    let scene = Scene { width, height, title, description: String::new(), items: vec![item] };
    html! { li { (svg(&scene, "sample")) (words) } }
}
