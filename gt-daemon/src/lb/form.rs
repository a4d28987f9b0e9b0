//! Which form an answer has, told by its beginning. Pure.

use super::{csv, exporter, row::Row};

/// Why an answer tells nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    #[error("the answer was cut off; it is tried again")]
    Cut,
    #[error("the statistics cannot be read ({0}); it is tried again")]
    Csv(String),
    #[error("{0:?} is no metric; is this the path of HAProxy's exporter?")]
    Metric(String),
    #[error("the answer is a page for people: for CSV the address must end with ;csv")]
    Page,
    #[error("the answer is no text in UTF-8")]
    Encoding,
    #[error(
        "HAProxy does not take `show stat` here ({0}): the socket needs `level user` at least, and no master CLI"
    )]
    Refused(String),
    #[error("the answer tells of no server: is this HAProxy, and may this address see its backends?")]
    NoServer,
}

/// Reads a whole answer of any form. `by_socket`: HAProxy's command sockets end an answer with an empty line.
pub fn read(body: &[u8], by_socket: bool) -> Result<Vec<Row>, Malformed> {
    let text = std::str::from_utf8(body).map_err(|_| Malformed::Encoding)?;
    // A run of several processes answers the header after an empty line.
    let text = text.trim_start_matches('\n');
    let is_csv = text.starts_with("# pxname,") || text.starts_with("pxname,");
    let rows = match text {
        "" => return Err(Malformed::Cut),
        _ if is_csv && by_socket && !text.ends_with("\n\n") => return Err(Malformed::Cut),
        _ if is_csv => csv::read(text)?,
        _ if by_socket => {
            return Err(Malformed::Refused(
                text.lines().next().unwrap_or_default().chars().take(80).collect(),
            ));
        }
        _ if text.trim_start().starts_with('<') => return Err(Malformed::Page),
        _ => exporter::read(text)?,
    };
    if rows.is_empty() { Err(Malformed::NoServer) } else { Ok(rows) }
}

#[cfg(test)]
#[path = "form_tests.rs"]
mod tests;
