//! Names of pods as people write them: partial ones are completed when that is possible in one way only. Pure.

use crate::api::ask::PodName;

/// Names that are told to somebody who wrote none of them.
const CLOSE: usize = 6;

/// A pod that is there: its namespace and its name.
pub type Known = (String, String);

/// Completes `[NS/]NAME`: the name itself, else the one that begins so, else the one that has it in it. `place` says where it
/// was looked for. An error names the pods that come close.
pub fn complete(asked: &str, known: &[Known], place: &str) -> Result<PodName, String> {
    let (namespace, name) = match asked.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, asked),
    };
    let is_there = |(of, _): &&Known| namespace.is_none_or(|wanted| wanted == of);
    let named = |fits: &dyn Fn(&str) -> bool| -> Vec<&Known> {
        known.iter().filter(is_there).filter(|(_, pod)| fits(pod)).collect()
    };
    if name.is_empty() {
        return Err(format!("{asked:?} is no name of a pod; write NAME or NAMESPACE/NAME"));
    }
    if !named(&|pod| pod == name).is_empty() {
        return Ok(PodName { namespace: namespace.map(str::to_owned), name: name.to_owned() });
    }
    for fitting in [named(&|pod| pod.starts_with(name)), named(&|pod| pod.contains(name))] {
        match fitting.as_slice() {
            [] => {}
            [(namespace, name)] => {
                return Ok(PodName { namespace: Some(namespace.clone()), name: name.clone() });
            }
            several => {
                let names = list(several.iter().copied());
                return Err(format!(
                    "{asked:?} may be several pods {place}: {names}; write more of the name"
                ));
            }
        }
    }
    Err(format!("there is no pod {asked:?} {place}{}", instead(namespace, name, known)))
}

fn instead(namespace: Option<&str>, name: &str, known: &[Known]) -> String {
    let mut close: Vec<_> = known
        .iter()
        .map(|pod| {
            let elsewhere = namespace.is_some_and(|namespace| namespace != pod.0);
            (strsim::jaro_winkler(name, &pod.1) - if elsewhere { 0.1 } else { 0.0 }, pod)
        })
        .collect();
    close.sort_by(|(one, first), (other, second)| other.total_cmp(one).then_with(|| first.cmp(second)));
    if close.is_empty() {
        return ": there are no pods at all".to_owned();
    }
    let most = close.len().min(CLOSE);
    let more = if close.len() > most { format!(" and {} more", close.len() - most) } else { String::new() };
    format!("; there are {}{more}", list(close.iter().take(most).map(|(_, pod)| *pod)))
}

fn list<'a>(pods: impl Iterator<Item = &'a Known>) -> String {
    let names: Vec<_> = pods.map(|(namespace, pod)| format!("{namespace}/{pod}")).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<Known> {
        [("edge", "igw-6d8f-x2kqp"), ("edge", "igw-6d8f-zz9tt"), ("lb", "igw-6d8f-x2kqp"), ("lb", "egress-1")]
            .map(|(namespace, pod)| (namespace.to_owned(), pod.to_owned()))
            .to_vec()
    }

    fn completed(asked: &str) -> Result<String, String> {
        complete(asked, &known(), "here").map(|name| name.to_string())
    }

    /// Exercises whole and partial names, so that only what is meant for sure is taken.
    #[test]
    fn completion() {
        assert_eq!(completed("igw-6d8f-x2kqp"), Ok("igw-6d8f-x2kqp".to_owned()));
        assert_eq!(completed("edge/igw-6d8f-x2kqp"), Ok("edge/igw-6d8f-x2kqp".to_owned()));
        assert_eq!(completed("eg"), Ok("lb/egress-1".to_owned()));
        assert_eq!(completed("zz9"), Ok("edge/igw-6d8f-zz9tt".to_owned()));
        assert_eq!(completed("lb/igw-"), Ok("lb/igw-6d8f-x2kqp".to_owned()));
        let several = completed("edge/igw").unwrap_err();
        assert!(several.contains("several") && several.contains("edge/igw-6d8f-zz9tt"), "{several}");
    }

    /// Exercises names that nothing has, so that the closest ones are told first.
    #[test]
    fn close_names() {
        let unknown = completed("edge/igw-6d8f-x2kqq").unwrap_err();
        assert!(unknown.contains("there are edge/igw-6d8f-x2kqp, "), "{unknown}");
        assert!(complete("a", &[], "here").unwrap_err().contains("no pods at all"));
        let many: Vec<_> = (0..9).map(|number| ("n".to_owned(), format!("pod-{number}"))).collect();
        assert!(complete("x", &many, "here").unwrap_err().ends_with("and 3 more"));
        assert!(completed("edge/").unwrap_err().contains("no name"));
    }
}
