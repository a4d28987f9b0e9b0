//! A picture before it is drawn: what is where, in units of a view box. Looks are CSS classes.

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    pub width: f64,
    pub height: f64,
    /// What it is, and what it shows in words, for those who do not see it.
    pub title: String,
    pub description: String,
    /// In the order of drawing.
    pub items: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    Rect {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
        class: &'static str,
        tip: Option<String>,
    },
    Line {
        from: Point,
        to: Point,
        class: &'static str,
    },
    /// A line through points, open.
    Polyline {
        points: Vec<Point>,
        class: &'static str,
    },
    Mark {
        at: Point,
        shape: Shape,
        class: &'static str,
        tip: String,
    },
    /// `at`: its baseline's beginning, or end.
    Text {
        at: Point,
        anchor: Anchor,
        class: &'static str,
        text: String,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
}

/// Which end of a text is where it is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    Start,
    End,
}

/// Marks are told apart by their shapes; colours only help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Cross,
    Question,
    Ring,
    Triangle,
    /// An RST that came in, one that went out.
    ArrowDown,
    ArrowUp,
    Bar,
    /// The heads of an interval's line.
    HeadLeft,
    HeadRight,
}

/// Half the width and height of a mark.
pub const MARK: f64 = 4.5;

impl Shape {
    /// Its strokes around a point: lines through points.
    #[must_use]
    pub fn strokes(self, Point { x, y }: Point) -> Vec<Vec<Point>> {
        let line = |points: &[(f64, f64)]| -> Vec<Point> {
            points.iter().map(|(dx, dy)| Point { x: x + dx * MARK, y: y + dy * MARK }).collect()
        };
        match self {
            Self::Cross => vec![line(&[(-0.9, -0.9), (0.9, 0.9)]), line(&[(-0.9, 0.9), (0.9, -0.9)])],
            Self::Question => vec![
                line(&[(-0.6, -0.5), (-0.4, -0.9), (0.4, -0.9), (0.6, -0.4), (0.0, 0.1), (0.0, 0.4)]),
                line(&[(0.0, 0.75), (0.0, 1.0)]),
            ],
            Self::Ring => {
                let corner = |eighth: u8| {
                    let angle = f64::from(eighth) * std::f64::consts::FRAC_PI_4;
                    (0.8 * angle.cos(), 0.8 * angle.sin())
                };
                vec![line(&(0..=8).map(corner).collect::<Vec<_>>())]
            }
            Self::Triangle => vec![line(&[(0.0, -0.9), (0.9, 0.8), (-0.9, 0.8), (0.0, -0.9)])],
            Self::ArrowDown => {
                vec![line(&[(0.0, -1.0), (0.0, 1.0)]), line(&[(-0.6, 0.2), (0.0, 1.0), (0.6, 0.2)])]
            }
            Self::ArrowUp => {
                vec![line(&[(0.0, 1.0), (0.0, -1.0)]), line(&[(-0.6, -0.2), (0.0, -1.0), (0.6, -0.2)])]
            }
            Self::Bar => vec![line(&[(0.0, -1.0), (0.0, 1.0)])],
            Self::HeadLeft => vec![line(&[(0.9, -0.8), (0.0, 0.0), (0.9, 0.8)])],
            Self::HeadRight => vec![line(&[(-0.9, -0.8), (0.0, 0.0), (-0.9, 0.8)])],
        }
    }
}
