//! Reads OpenMetrics text: as much as questions about counters need.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail};

/// One line of an exposition that carries a value.
#[derive(Debug, PartialEq)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

impl Sample {
    /// A label's value; empty when it is absent, which OpenMetrics holds to be the same.
    pub fn label(&self, name: &str) -> &str {
        self.labels.get(name).map_or("", String::as_str)
    }
}

/// One reading of `/metrics`.
#[derive(Debug, Default, PartialEq)]
pub struct Scrape {
    samples: Vec<Sample>,
    families: BTreeSet<String>,
}

impl Scrape {
    /// Reads a whole exposition. One that was cut off (no `# EOF`) is refused, since a missing series
    /// would look like one that does not exist.
    pub fn parse(text: &str) -> Result<Self> {
        if text.trim_end().lines().next_back() != Some("# EOF") {
            bail!("the metrics end without `# EOF`: the answer was cut off, or it is not OpenMetrics");
        }
        let families = text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .map(str::to_owned)
            .collect();
        let samples = text
            .lines()
            .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
            .map(|line| sample(line).with_context(|| format!("not an OpenMetrics sample: {line:?}")))
            .collect::<Result<_>>()?;
        Ok(Self { samples, families })
    }

    /// The samples of one name that have all of `labels`.
    pub fn select<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |sample| {
            sample.name == name && labels.iter().all(|(key, value)| sample.label(key) == *value)
        })
    }

    /// Whether a metric family is declared; it may have no series yet, which is not the same as absent.
    pub fn declares(&self, family: &str) -> bool {
        self.families.contains(family)
    }
}

fn sample(line: &str) -> Option<Sample> {
    let end = line.find(['{', ' '])?;
    let (name, rest) = line.split_at(end);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inside) => labels(inside)?,
        None => (BTreeMap::new(), rest),
    };
    // What may follow the value, a time stamp and an exemplar, is not asked for.
    let value = rest.split_ascii_whitespace().next()?.parse().ok()?;
    Some(Sample { name: name.to_owned(), labels, value })
}

/// Reads `key="value",..}` and gives the labels and what follows them.
fn labels(text: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    let mut rest = text;
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (key, after) = rest.split_once("=\"")?;
        let (value, after) = quoted(after)?;
        labels.insert(key.trim().to_owned(), value);
        rest = after.strip_prefix(',').unwrap_or(after);
    }
}

/// Reads up to the closing quote, undoing the escapes `\\`, `\"` and `\n`.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    loop {
        match characters.next()? {
            (at, '"') => return Some((value, text.get(at + 1..)?)),
            (_, '\\') => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            (_, other) => value.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP gt_rst RSTs as tcpdump counts them.\n\
        # TYPE gt_rst counter\n\
        gt_rst_total{namespace=\"ns\",pod=\"a\",direction=\"sent\",reason=\"no_socket\"} 3\n\
        gt_rst_total{namespace=\"ns\",pod=\"a\",direction=\"received\",reason=\"\"} 4 1780211556.5 # {trace=\"x\"} 1\n\
        gt_rst_total{namespace=\"ns\",pod=\"b\",direction=\"sent\"} 1e1\n\
        # TYPE gt_poll_seconds histogram\n\
        gt_poll_seconds_bucket{le=\"+Inf\"} 0\n\
        gt_up 1\n\
        gt_odd{text=\"a \\\"b\\\", {c} \\\\ \\n\",} NaN\n\
        # EOF\n";

    fn sum(scrape: &Scrape, name: &str, labels: &[(&str, &str)]) -> f64 {
        scrape.select(name, labels).map(|sample| sample.value).sum()
    }

    /// Exercises labels asked for and left open so that a sum holds exactly the series meant.
    #[test]
    fn selects_and_sums() {
        let scrape = Scrape::parse(TEXT).unwrap();
        assert_eq!(sum(&scrape, "gt_rst_total", &[("pod", "a")]), 7.0);
        assert_eq!(sum(&scrape, "gt_rst_total", &[("pod", "a"), ("direction", "sent")]), 3.0);
        assert_eq!(sum(&scrape, "gt_rst_total", &[]), 17.0);
        assert_eq!(sum(&scrape, "gt_up", &[]), 1.0);
        assert_eq!(scrape.select("gt_rst_total", &[("pod", "b"), ("reason", "")]).count(), 1);
        assert_eq!(scrape.select("gt_rst", &[]).count(), 0);
        assert!(scrape.declares("gt_rst") && scrape.declares("gt_poll_seconds"));
        assert!(!scrape.declares("gt_inflight_cuts"));
    }

    /// Exercises escapes, braces and commas inside a value so that a label never swallows the next one.
    #[test]
    fn undoes_escapes() {
        let scrape = Scrape::parse(TEXT).unwrap();
        let odd = scrape.select("gt_odd", &[]).next().unwrap();
        assert_eq!(odd.label("text"), "a \"b\", {c} \\ \n");
        assert!(odd.value.is_nan());
    }

    /// Exercises cut-off and malformed texts so that neither is read as "no such series".
    #[test]
    fn refuses_what_it_cannot_read() {
        for wrong in [
            "",
            "gt_up 1\n",
            "gt_up\n# EOF\n",
            "gt_up{a=\"b} 1\n# EOF\n",
            "gt_up{a} 1\n# EOF\n",
            "gt_up x\n# EOF\n",
        ] {
            assert!(Scrape::parse(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(Scrape::parse("# EOF").unwrap(), Scrape::default());
    }
}
