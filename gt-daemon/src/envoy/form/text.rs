//! `name: value`, a line each.

use super::{Malformed, Stat, refuse_cut, short};

pub(super) fn read(body: &str, mut row: impl FnMut(Stat, &str, u64)) -> Result<(), Malformed> {
    refuse_cut(body)?;
    for line in body.lines().filter(|line| !line.is_empty()) {
        // Names may hold colons, values of text stats may hold anything: a counter has the last `: `, and no more.
        let Some((name, value)) = line.rsplit_once(": ") else {
            return Err(Malformed::new(format!("{:?} is no stat", short(line))));
        };
        if let Some((stat, scope)) = Stat::of_name(name) {
            let value = value.trim().parse().map_err(|_| Malformed::value(name, value))?;
            row(stat, scope, value);
        }
    }
    Ok(())
}
