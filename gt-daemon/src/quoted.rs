//! Quoted values in text: of Prometheus' lines, and of logs. Pure.

/// A value up to its closing quote, and what follows; `None` when it is cut off. `escaped`: what a character after a
/// backslash stands for.
#[must_use]
pub fn quoted(text: &str, escaped: impl Fn(char) -> char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (index, '"') => return Some((value, text.get(index + 1..)?)),
            (_, '\\') => value.push(escaped(chars.next()?.1)),
            (_, other) => value.push(other),
        }
    }
}
