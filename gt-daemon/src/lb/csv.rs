//! HAProxy's statistics as CSV (management guide, 9.1): by the names of their columns. Pure.

use csv::{ReaderBuilder, StringRecord};

use super::{
    form::Malformed,
    row::{Row, address},
};

/// What each server's row has in `type`.
const SERVER: &str = "2";

/// Reads a whole answer, beginning with its header. One row of another length, or a last line without an end, and nothing of it
/// is taken: it was cut off, or is something else.
pub(super) fn read(text: &str) -> Result<Vec<Row>, Malformed> {
    if !text.ends_with('\n') {
        return Err(Malformed::Cut);
    }
    let text = text.trim_start_matches("# ");
    let mut reader = ReaderBuilder::new().from_reader(text.as_bytes());
    let header = reader.headers().map_err(|error| Malformed::Csv(error.to_string()))?.clone();
    let columns = Columns::of(&header)?;
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| Malformed::Csv(error.to_string()))?;
        rows.extend(columns.row(&record));
    }
    Ok(rows)
}

/// Where what is read stands.
#[derive(Debug)]
struct Columns {
    backend: usize,
    server: usize,
    status: usize,
    kind: Option<usize>,
    address: Option<usize>,
    since: Option<usize>,
    downtime: Option<usize>,
    downs: Option<usize>,
}

impl Columns {
    fn of(header: &StringRecord) -> Result<Self, Malformed> {
        let column = |name: &'static str| {
            let mut places =
                header.iter().enumerate().filter(|(_, column)| *column == name).map(|(at, _)| at);
            match (places.next(), places.next()) {
                (place, None) => Ok(place),
                (_, Some(_)) => Err(Malformed::Csv(format!("two columns {name}"))),
            }
        };
        let needed = |name| column(name)?.ok_or_else(|| Malformed::Csv(format!("no column {name}")));
        Ok(Self {
            backend: needed("pxname")?,
            server: needed("svname")?,
            status: needed("status")?,
            kind: column("type")?,
            address: column("addr")?,
            since: column("lastchg")?,
            downtime: column("downtime")?,
            downs: column("chkdown")?,
        })
    }

    /// `None` for a row that is no server's.
    fn row(&self, record: &StringRecord) -> Option<Row> {
        let optional = |place: Option<usize>| record.get(place?);
        let (backend, server) = (record.get(self.backend)?, record.get(self.server)?);
        let is_server = match optional(self.kind) {
            Some(kind) => kind == SERVER,
            None => !matches!(server, "FRONTEND" | "BACKEND"),
        };
        is_server.then(|| Row {
            address: optional(self.address).and_then(address),
            since_s: optional(self.since).and_then(|text| text.parse().ok()),
            downtime_s: optional(self.downtime).and_then(|text| text.parse().ok()),
            downs: optional(self.downs).and_then(|text| text.parse().ok()),
            ..Row::new(backend, server, record.get(self.status).unwrap_or_default())
        })
    }
}
