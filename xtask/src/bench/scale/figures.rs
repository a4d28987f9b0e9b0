//! The figures against the goals, for people and for machines. Pure.

use std::time::SystemTime;

use serde_json::{Value, json};

use super::process::{Kernel, Memory};
use crate::stage::{clock, scrape::Scrape};

/// With everything open.
const GOAL_RESIDENT_MB: f64 = 40.0;
const GOAL_MAPS_MB: f64 = 64.0;
const GOAL_SCRAPE_MS: f64 = 20.0;
/// While nothing happens, of one core.
const GOAL_IDLE_PERCENT: f64 = 0.2;

/// What was measured.
#[derive(Clone, Debug)]
pub(super) struct Results {
    pub(super) pods: u32,
    pub(super) sockets: u32,
    /// After the start, without pods.
    pub(super) before: Memory,
    /// With everything open, scraped.
    pub(super) open: Memory,
    pub(super) kernel: Kernel,
    pub(super) scraped: Scraped,
    pub(super) checks: Checks,
    pub(super) idle: Idle,
}

/// Scrapes one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scraped {
    pub(super) count: usize,
    /// From before the connecting to the last byte, milliseconds.
    pub(super) median: f64,
    pub(super) p99: f64,
    pub(super) bytes: usize,
    pub(super) series: usize,
}

/// Comparisons of the table with the sockets that are there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checks {
    /// Network namespaces that were compared.
    pub(super) count: f64,
    /// Milliseconds for one of them.
    pub(super) mean: f64,
}

/// Shares of a core while nothing happens, in percent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    pub(super) alone: f64,
    /// With a scrape every 15 s.
    pub(super) scraped: f64,
}

impl Scraped {
    /// `ms`: how long each took; `text`: the last of them. `None` without any.
    pub(super) fn of(mut ms: Vec<f64>, text: &str) -> Option<Self> {
        ms.sort_by(f64::total_cmp);
        let at = |percent: usize| ms.get((ms.len() * percent).div_ceil(100).max(1) - 1).copied();
        let series = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).count();
        Some(Self { count: ms.len(), median: at(50)?, p99: at(99)?, bytes: text.len(), series })
    }
}

impl Checks {
    /// `None` before the first.
    pub(super) fn of(scrape: &Scrape) -> Option<Self> {
        let value = |name| scrape.select(name, &[]).map(|sample| sample.value).next();
        let count = value("gt_table_check_seconds_count").filter(|count| *count > 0.0)?;
        Some(Self { count, mean: 1000.0 * value("gt_table_check_seconds_sum")? / count })
    }
}

#[expect(clippy::cast_precision_loss, reason = "2^53 bytes are petabytes")]
fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// A figure that has a goal: what it is, its unit, what was measured, and what it should not exceed.
type Judged = (&'static str, &'static str, f64, f64);

impl Results {
    fn judged(&self) -> [Judged; 4] {
        [
            ("resident memory of the daemon", "MB", mb(self.open.resident), GOAL_RESIDENT_MB),
            ("the kernel's maps", "MB", mb(self.kernel.all()), GOAL_MAPS_MB),
            ("a scrape, the median", "ms", self.scraped.median, GOAL_SCRAPE_MS),
            ("CPU while nothing happens", "% of a core", self.idle.alone, GOAL_IDLE_PERCENT),
        ]
    }

    /// The goals that are missed, in words.
    pub(super) fn missed(&self) -> Vec<String> {
        let missed = self.judged().into_iter().filter(|(.., is, goal)| is > goal);
        missed.map(|(what, unit, is, goal)| format!("{what}: {is:.2} {unit}, goal {goal} {unit}")).collect()
    }

    /// Milliseconds that comparing all of the table takes.
    fn whole_check(&self) -> f64 {
        self.checks.mean * f64::from(self.pods)
    }
}

/// The section, without its heading.
pub(super) fn markdown(results: &Results) -> String {
    let Results { pods, sockets, before, open, kernel, scraped, checks, idle } = results;
    let goals: String = results
        .judged()
        .into_iter()
        .map(|(what, unit, is, goal)| {
            let missed = if is > goal { " **missed**" } else { "" };
            format!("| {what} | {is:.2} {unit}{missed} | {goal} {unit} |\n")
        })
        .collect();
    let memory = |when: &str, memory: &Memory| {
        let Memory { resident, anonymous, files, most } = memory;
        let [resident, anonymous, files, most] = [resident, anonymous, files, most].map(|bytes| mb(*bytes));
        format!("| {when} | {resident:.1} | {anonymous:.1} | {files:.1} | {most:.1} |\n")
    };
    let rows = memory("after the start, no pods", before) + &memory("all open, after scrapes", open);
    let largest: Vec<_> = kernel.maps.iter().take(3).map(|bytes| format!("{:.1}", mb(*bytes))).collect();
    format!(
        "{sockets} TCP sockets of {pods} pods are open: each pod is a network namespace with {} connections on its loopback device,
both ends of each in the pod. `--slots` and `--connections` are the defaults. Each pod's gauges were exactly the sockets that were
opened, before and after what follows.

| What | Measured | Goal |
|---|---|---|
{goals}
### Memory

In MB (10^6 bytes), as `/proc/PID/status` has it.

| When | Resident | Heap and stacks | Program and mapped maps | Most ever |
|---|---|---|---|---|
{rows}
The kernel's {} maps take {:.1} MB (`memlock` of their descriptors), the largest of them {} MB. The table of places and the
ring are mapped, so they are in the daemon's resident memory as well. The most was resident while the kernel's types were read.

### Scrapes

{} scrapes one after the other, from connecting to the last byte: median {:.1} ms, p99 {:.1} ms. An answer has {} bytes and {} series.

### Comparing the table with the sockets

One network namespace: {:.1} ms, mean of {:.0}; all {pods}: {:.0} ms. A walk over a namespace's sockets goes over all sockets of the
machine. While the kernel tells that nothing was missed, the daemon makes 0.1 % of a core of it.

### While nothing happens

Over {} s each, in percent of a core: {:.2} alone, {:.2} with a scrape every {} s.
",
        sockets / pods / 2,
        kernel.maps.len(),
        mb(kernel.all()),
        largest.join(", "),
        scraped.count,
        scraped.median,
        scraped.p99,
        scraped.bytes,
        scraped.series,
        checks.mean,
        checks.count,
        results.whole_check(),
        super::IDLE.as_secs(),
        idle.alone,
        idle.scraped,
        super::SCRAPE_EVERY.as_secs(),
    )
}

/// The same for machines.
pub(super) fn for_machines(results: &Results, machine: &Value) -> Value {
    let Results { pods, sockets, before, open, kernel, scraped, checks, idle } = results;
    let memory = |memory: &Memory| {
        json!({
            "resident": memory.resident, "anonymous": memory.anonymous, "files": memory.files, "most": memory.most,
        })
    };
    json!({
        "time": clock::utc(SystemTime::now()),
        "machine": machine,
        "pods": pods, "sockets": sockets,
        "bytes": { "start": memory(before), "open": memory(open), "maps": kernel.maps },
        "scrape": {
            "count": scraped.count, "median_ms": scraped.median, "p99_ms": scraped.p99,
            "bytes": scraped.bytes, "series": scraped.series,
        },
        "check": { "count": checks.count, "mean_ms": checks.mean, "all_ms": results.whole_check() },
        "idle_percent": { "alone": idle.alone, "scraped": idle.scraped },
        "missed": results.missed(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results() -> Results {
        let memory = |mb: u64| Memory {
            resident: mb * 1_000_000,
            anonymous: 5_000_000,
            files: 25_000_000,
            most: 95_000_000,
        };
        Results {
            pods: 250,
            sockets: 100_000,
            before: memory(30),
            open: memory(40),
            kernel: Kernel { maps: vec![15_000_000, 8_000_000] },
            scraped: Scraped { count: 50, median: 12.5, p99: 30.0, bytes: 2_000_000, series: 19_000 },
            checks: Checks { count: 4.0, mean: 10.0 },
            idle: Idle { alone: 0.15, scraped: 0.3 },
        }
    }

    /// Exercises goals that are just reached and ones that are missed, so that the table and the error say which.
    #[test]
    fn goals() {
        let good = results();
        assert!(good.missed().is_empty() && !markdown(&good).contains("**missed**"), "{}", markdown(&good));
        assert!(markdown(&good).contains("mean of 4; all 250: 2500 ms"), "{}", markdown(&good));
        let open = Memory { resident: 40_100_000, ..good.open };
        let idle = Idle { alone: 0.21, ..good.idle };
        let bad = Results { open, idle, ..good };
        assert_eq!(
            bad.missed(),
            [
                "resident memory of the daemon: 40.10 MB, goal 40 MB",
                "CPU while nothing happens: 0.21 % of a core, goal 0.2 % of a core"
            ]
        );
        assert_eq!(markdown(&bad).matches("**missed**").count(), 2);
        assert_eq!(for_machines(&bad, &json!({}))["missed"].as_array().map(Vec::len), Some(2));
    }

    /// Exercises the middle and the end of scrapes, and what counts as a series.
    #[test]
    fn scrapes() {
        let ms = (1..=50).rev().map(f64::from).collect();
        let scraped = Scraped::of(ms, "# HELP a b\na{} 1\na_b 2\n\n# EOF\n").unwrap();
        assert_eq!((scraped.median, scraped.p99, scraped.series), (25.0, 50.0, 2));
        assert!(Scraped::of(vec![], "").is_none());
    }

    /// Exercises a daemon that has compared nothing yet, which is not one that takes no time.
    #[test]
    fn no_checks() {
        let checks = |count: u32| {
            let text =
                format!("gt_table_check_seconds_sum 0.5\ngt_table_check_seconds_count {count}\n# EOF\n");
            Checks::of(&Scrape::parse(&text).unwrap())
        };
        assert!(checks(0).is_none());
        assert_eq!(checks(50).map(|checks| checks.mean), Some(10.0));
    }
}
