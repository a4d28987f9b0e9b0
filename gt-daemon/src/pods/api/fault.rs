//! What ended a watch: in words for an SRE, and as what to do next.

use std::{error::Error, fmt::Write as _, time::Duration};

use kube::{core::Status, runtime::watcher};

use super::store::Scope;

/// A server's message may be a whole page of HTML.
const LONGEST_TEXT: usize = 300;

/// Why a watch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// What the server knew of the past is gone (410): list anew. Nobody's fault.
    Expired,
    /// The server does not stream lists: ask for an ordinary one.
    NoStreaming,
    /// A fault, and how long the server asked to wait.
    Fault { text: String, pause: Option<Duration> },
}

/// Sorts an error of the watcher. `server` is the API server's address, `streaming` whether a streaming list
/// was asked for.
#[must_use]
pub fn end(error: &watcher::Error, server: &str, scope: &Scope, streaming: bool) -> End {
    use watcher::Error as E;
    match error {
        E::InitialListFailed(kube::Error::Api(status))
        | E::WatchFailed(kube::Error::Api(status))
        | E::WatchError(status) => by_status(status, server, scope),
        E::WatchStartFailed(kube::Error::Api(status)) => {
            // Before 1.27 the server refuses the parameters, later the feature: both as invalid.
            if streaming && matches!(status.code, 400 | 422) {
                return End::NoStreaming;
            }
            by_status(status, server, scope)
        }
        E::InitialListFailed(error) | E::WatchStartFailed(error) | E::WatchFailed(error) => {
            End::Fault { text: by_error(error, server), pause: None }
        }
        E::NoResourceVersion => {
            let text =
                format!("{server} answers without a resourceVersion: is this a Kubernetes API server?");
            End::Fault { text, pause: None }
        }
    }
}

fn by_status(status: &Status, server: &str, scope: &Scope) -> End {
    let code = status.code;
    let said = if status.message.is_empty() { &status.reason } else { &status.message };
    let said = shortened(said);
    let text = match code {
        410 => return End::Expired,
        401 => format!(
            "{server} does not accept gt's credentials (401: {said}); check the service account's token, or the \
             user in the kubeconfig"
        ),
        403 => format!(
            "{server} forbids gt to read pods (403: {said}); gt needs the verbs list and watch on pods{}: see \
             deploy/base/rbac.yaml",
            match scope {
                Some(namespace) => format!(" in namespace {namespace}"),
                None => " of all namespaces".to_owned(),
            }
        ),
        429 => format!("{server} is asked too much, by all its clients together (429: {said}); gt waits"),
        // kube takes any object that is no event for a status without a code.
        0 => format!("an answer of {server} cannot be read: it holds something that is no event"),
        404 => format!("{server} knows no pods (404: {said}): is this a Kubernetes API server?"),
        _ => format!("{server} failed ({code}: {said}); see its log"),
    };
    let asked =
        status.details.as_ref().map(|details| details.retry_after_seconds).filter(|seconds| *seconds > 0);
    End::Fault { text, pause: asked.map(|seconds| Duration::from_secs(u64::from(seconds))) }
}

fn by_error(error: &kube::Error, server: &str) -> String {
    match error {
        kube::Error::SerdeError(cause) => {
            format!("an answer of {server} cannot be read: {}", shortened(&cause.to_string()))
        }
        kube::Error::Auth(cause) => {
            format!("gt has no credentials for {server}: {}", shortened(&chain(cause)))
        }
        kube::Error::Service(cause) if cause.is::<tower::timeout::error::Elapsed>() => {
            format!("{server} does not answer: check the network between this node and it")
        }
        kube::Error::Service(cause) => {
            format!(
                "cannot reach {server}: {}; check its address and the network",
                shortened(&chain(cause.as_ref()))
            )
        }
        other => format!("the answer of {server} broke off: {}", shortened(&chain(other))),
    }
}

/// An error and all that caused it, without what is said twice.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            // Writing to a String does not fail.
            let _always = write!(text, ": {more}");
        }
        cause = error.source();
    }
    text
}

/// One line of a text, not too long.
fn shortened(text: &str) -> String {
    let mut line: String =
        text.trim().chars().take(LONGEST_TEXT).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.trim().chars().nth(LONGEST_TEXT).is_some() {
        line.push_str("..");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(code: u16, message: &str) -> Box<Status> {
        Box::new(Status::failure(message, "Reason").with_code(code))
    }

    fn text(end: End) -> String {
        match end {
            End::Fault { text, .. } => text,
            other => panic!("{other:?} is no fault"),
        }
    }

    /// Exercises the server's refusals, so that each names the server, what it said and what to do.
    #[test]
    fn refusals() {
        let edge = Some("edge".to_owned());
        for (code, scope, expected) in [
            (401, &None, "service account's token"),
            (403, &None, "list and watch on pods of all namespaces: see deploy/base/rbac.yaml"),
            (403, &edge, "list and watch on pods in namespace edge"),
            (404, &None, "is this a Kubernetes API server?"),
            (429, &None, "gt waits"),
            (500, &None, "see its log"),
        ] {
            for error in [
                watcher::Error::InitialListFailed(kube::Error::Api(api(code, "so it said"))),
                watcher::Error::WatchStartFailed(kube::Error::Api(api(code, "so it said"))),
                watcher::Error::WatchError(api(code, "so it said")),
            ] {
                let text = text(end(&error, "https://10.0.0.1", scope, true));
                for part in ["https://10.0.0.1", "so it said", expected] {
                    assert!(text.contains(part), "{text}");
                }
            }
        }
    }

    /// Exercises what is no fault: a past that is gone, by status and by event, and a server of before 1.27.
    #[test]
    fn no_faults() {
        let start = |code| watcher::Error::WatchStartFailed(kube::Error::Api(api(code, "x")));
        assert_eq!(end(&start(410), "s", &None, false), End::Expired);
        assert_eq!(end(&watcher::Error::WatchError(api(410, "x")), "s", &None, false), End::Expired);
        assert_eq!(end(&start(422), "s", &None, true), End::NoStreaming);
        assert_eq!(end(&start(400), "s", &None, true), End::NoStreaming);
        assert!(matches!(end(&start(422), "s", &None, false), End::Fault { .. }));
    }

    /// Exercises a page of HTML as the message, so that the log stays readable.
    #[test]
    fn long_messages() {
        let page = format!("<html>\n{}</html>", "x".repeat(100_000));
        let error = watcher::Error::InitialListFailed(kube::Error::Api(api(502, &page)));
        let text = text(end(&error, "s", &None, false));
        assert!(text.len() < 500 && !text.contains('\n'), "{} bytes", text.len());
    }
}
