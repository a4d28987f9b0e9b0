//! `{"stats": [{"name": .., "value": ..}, {"histograms": ..}]}`.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::Value;

use super::{Malformed, Stat};

#[derive(Deserialize)]
struct Document<'a> {
    #[serde(borrow)]
    stats: Vec<Row<'a>>,
}

/// Counters and gauges have a name and a number, text stats a name and a text, histograms neither.
#[derive(Deserialize)]
struct Row<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    value: Option<Value>,
}

pub(super) fn read(body: &str, mut row: impl FnMut(Stat, &str, u64)) -> Result<(), Malformed> {
    let document: Document<'_> = serde_json::from_str(body)
        .map_err(|error| Malformed::new(format!("it is no such JSON ({error})")))?;
    for Row { name, value } in document.stats {
        let Some(name) = name else { continue };
        if let Some((stat, scope)) = Stat::of_name(&name) {
            let value = value.unwrap_or_default();
            row(stat, scope, value.as_u64().ok_or_else(|| Malformed::value(&name, &value.to_string()))?);
        }
    }
    Ok(())
}
