//! A rectangle that is handed out row by row, and text put on it. Nothing here leaves the rectangle. Pure.

use ratatui::{buffer::Buffer, layout::Rect, text::Line, widgets::Widget as _};

/// What is left of a rectangle.
#[derive(Clone, Copy, Debug)]
pub struct Rows {
    left: Rect,
}

impl Rows {
    /// All of it.
    #[must_use]
    pub fn new(area: Rect) -> Self {
        Self { left: area }
    }

    /// How many rows are left.
    #[must_use]
    pub fn height(&self) -> u16 {
        self.left.height
    }

    /// Up to so many from the top.
    pub fn top(&mut self, rows: u16) -> Rect {
        let rows = rows.min(self.left.height);
        let taken = Rect { height: rows, ..self.left };
        self.left.y = self.left.y.saturating_add(rows);
        self.left.height -= rows;
        taken
    }

    /// Up to so many from the bottom.
    pub fn bottom(&mut self, rows: u16) -> Rect {
        let rows = rows.min(self.left.height);
        self.left.height -= rows;
        Rect { y: self.left.bottom(), height: rows, ..self.left }
    }

    /// A line at the top.
    pub fn line<'a>(&mut self, buffer: &mut Buffer, line: impl Into<Line<'a>>) {
        let area = self.top(1);
        put(buffer, area, line);
    }
}

/// A line at the top of a rectangle, cut where that ends.
pub fn put<'a>(buffer: &mut Buffer, area: Rect, line: impl Into<Line<'a>>) {
    let area = area.intersection(buffer.area);
    line.into().render(area, buffer);
}

/// A text at the left and one at the right of one row; the right one gives way when both find no room.
pub fn put_both<'a>(buffer: &mut Buffer, area: Rect, left: impl Into<Line<'a>>, right: impl Into<Line<'a>>) {
    let (left, right) = (left.into(), right.into());
    let room = usize::from(area.width);
    let needed = left.width() + 1 + right.width();
    if needed <= room {
        let width = u16::try_from(right.width()).unwrap_or(area.width);
        put(buffer, Rect { x: area.right().saturating_sub(width), width, ..area }, right);
    }
    put(buffer, area, left);
}

/// A text in so many columns. Of a longer one the end stays: that is what tells pods of one owner apart.
#[must_use]
pub fn fit(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return format!("{text:<width$}");
    }
    let end: String = text.chars().skip(length + 2 - width.max(2)).collect();
    format!("..{end}").chars().take(width).collect()
}

/// A text in lines of so many columns, broken between words.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let Some(line) = lines.last_mut() else { break };
        let used = line.chars().count();
        if used > 0 && used + 1 + word.chars().count() > width {
            lines.push(word.to_owned());
        } else {
            if used > 0 {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
