//! A line's fields: logfmt or JSON, in any order, with what loggers add.

use std::borrow::Cow;

use serde_json::Value;

use crate::quoted::quoted;

/// Fields looked at in one line, and how deep a message within a message is read.
const MOST_FIELDS: usize = 64;
const DEEPEST: u8 = 2;

/// Fields whose text may hold fields itself. Others may hold what a peer sent, which must not pass for hc's words.
const MESSAGES: [&str; 3] = ["log", "message", "msg"];

/// Key and value of each field; a word without `=` has an empty key.
pub(crate) type Fields = Vec<(String, String)>;

/// All fields of a line, those of objects and messages within it too, outer ones first.
pub(crate) fn of(text: &[u8]) -> Fields {
    let text = String::from_utf8_lossy(text);
    let text = without_colours(&text);
    let mut fields = Vec::new();
    collect(text.trim(), 0, &mut fields);
    fields
}

fn collect(text: &str, depth: u8, fields: &mut Fields) {
    if let Some(Ok(Value::Object(object))) = text.starts_with('{').then(|| serde_json::from_str(text)) {
        from_object(&object, depth, fields);
    } else {
        from_logfmt(text, depth, fields);
    }
}

fn from_object(object: &serde_json::Map<String, Value>, depth: u8, fields: &mut Fields) {
    let mut inner = Vec::new();
    for (key, value) in object {
        if fields.len() >= MOST_FIELDS {
            return;
        }
        match value {
            Value::String(text) => {
                fields.push((key.to_ascii_lowercase(), text.clone()));
                inner.push((key.to_ascii_lowercase(), text));
            }
            Value::Number(_) | Value::Bool(_) => fields.push((key.to_ascii_lowercase(), value.to_string())),
            // Loggers put an event's own fields into an object: `fields`, `attributes`, `data`.
            Value::Object(object) if depth < DEEPEST => from_object(object, depth + 1, fields),
            Value::Null | Value::Array(_) | Value::Object(_) => {}
        }
    }
    for (key, text) in inner {
        nested(&key, text, depth, fields);
    }
}

fn from_logfmt(text: &str, depth: u8, fields: &mut Fields) {
    let mut rest = text;
    let mut quoted_values = Vec::new();
    while fields.len() < MOST_FIELDS {
        rest = rest.trim_start();
        if rest.is_empty() {
            break;
        }
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (key, after) = rest.split_at(end);
        let Some(after) = after.strip_prefix('=') else {
            fields.push((String::new(), key.to_owned()));
            rest = after;
            continue;
        };
        if let Some(inside) = after.strip_prefix('"') {
            let Some((value, after)) = quoted(inside, escaped) else { break };
            quoted_values.push((key.to_ascii_lowercase(), value.clone()));
            fields.push((key.to_ascii_lowercase(), value));
            rest = after;
        } else {
            let end = after.find(char::is_whitespace).unwrap_or(after.len());
            let (value, after) = after.split_at(end);
            fields.push((key.to_ascii_lowercase(), value.to_owned()));
            rest = after;
        }
    }
    for (key, text) in quoted_values {
        nested(&key, &text, depth, fields);
    }
}

/// A message that holds fields itself: `msg="event=transition from=.."`.
fn nested(key: &str, text: &str, depth: u8, fields: &mut Fields) {
    if depth < DEEPEST && MESSAGES.contains(&key) && text.contains(['=', '{']) {
        collect(text.trim(), depth + 1, fields);
    }
}

/// What is escaped in a value.
fn escaped(letter: char) -> char {
    match letter {
        'n' => '\n',
        't' => '\t',
        other => other,
    }
}

/// Takes out ANSI escape sequences (ECMA-48: `ESC [ .. final byte`).
fn without_colours(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            plain.push(c);
        } else if chars.as_str().starts_with('[') {
            chars.next();
            let _final_byte = chars.find(|c| ('\u{40}'..='\u{7e}').contains(c));
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> String {
        of(text.as_bytes()).iter().map(|(key, value)| format!("[{key}:{value}]")).collect()
    }

    /// Exercises logfmt with quotes, escapes and words around, so that each value is what was meant.
    #[test]
    fn logfmt() {
        assert_eq!(shown("INFO a=1  B=\"x \\\"y\\\" =z\" c= d"), "[:INFO][a:1][b:x \"y\" =z][c:][:d]");
        assert_eq!(shown("msg=\"b=1\" a=\"b=2\""), "[msg:b=1][a:b=2][b:1]");
        assert_eq!(shown("a=\"cut off"), "");
        assert_eq!(shown("\u{1b}[32mINFO\u{1b}[0m a=\u{1b}[1;31m1\u{1b}[0m"), "[:INFO][a:1]");
        assert_eq!(shown("a=1\u{1b}"), "[a:1]");
        assert_eq!(shown(""), "");
    }

    /// Exercises JSON with objects and messages inside, so that an event's fields are found where loggers put them.
    #[test]
    fn json() {
        assert_eq!(shown(r#"{"Event":"x","n":3,"fields":{"to":"Y"},"list":[1]}"#), "[event:x][to:Y][n:3]");
        assert_eq!(shown(r#"{"msg":"a=1 b=2"}"#), "[msg:a=1 b=2][a:1][b:2]");
        assert_eq!(shown(r#"msg="{\"a\":\"1\"}""#), "[msg:{\"a\":\"1\"}][a:1]");
        assert_eq!(shown(r#"{"a":"b=1"}"#), "[a:b=1]");
        assert_eq!(shown(r#"{"cut":"#), "[:{\"cut\":]");
    }

    proptest! {
        /// Exercises any bytes, so that none panics and memory is bounded.
        #[test]
        fn any_bytes(text in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(of(&text).len() <= MOST_FIELDS);
        }

        /// Exercises deep nesting, so that depth is bounded.
        #[test]
        fn deep(depth in 1_usize..60) {
            let json = format!("{}{}", "{\"a\":".repeat(depth), "1".to_owned() + &"}".repeat(depth));
            prop_assert!(of(json.as_bytes()).len() <= 1);
        }
    }
}
