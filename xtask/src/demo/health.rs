//! The demo's health sidecar (`cargo xtask demo-health`), in the place of hc: what the LB reads, and a
//! switch that turns it to 503 at once, whatever is in flight ("current mode").

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use anyhow::Result;

use crate::stage::{
    clock,
    serve::{Request, Response, serve},
};

/// Where to listen.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Address and port to listen on.
    #[arg(long, default_value = "0.0.0.0:18180")]
    listen: String,
}

/// Answers `GET /health_check.html` and `POST /flip` until killed; writes hc's log lines to stdout.
pub fn run(options: &Options) -> Result<()> {
    let closing = Arc::new(AtomicBool::new(false));
    serve(&options.listen, move |request| answer(request, &closing))
}

fn answer(request: &Request, closing: &AtomicBool) -> Response {
    match (request.method.as_str(), request.path.as_str()) {
        ("GET" | "HEAD", "/health_check.html") => {
            let response = if closing.load(Ordering::SeqCst) {
                Response::new(503, "closing\n")
            } else {
                Response::new(200, "ok\n")
            };
            log(&format!("event=health_check path=/health_check.html code={}", response.status));
            response
        }
        // The kubelet's question: the container is alive and ready, whatever the LB is told.
        ("GET", "/health" | "/live") => Response::new(200, "ok\n"),
        ("POST", "/flip") if !request.from_loopback => Response::new(403, "only from inside the pod\n"),
        ("POST", "/flip") => {
            let was_closing = closing.fetch_xor(true, Ordering::SeqCst);
            let (from, to) = if was_closing { ("CLOSING", "OPEN") } else { ("OPEN", "CLOSING") };
            log(&format!("event=transition from={from} to={to}"));
            Response::new(200, format!("{to}\n"))
        }
        _ => Response::new(404, "ask for /health_check.html\n"),
    }
}

fn log(what: &str) {
    println!("{} level=info {what}", clock::utc(SystemTime::now()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(method: &str, path: &str, from_loopback: bool, closing: &AtomicBool) -> u16 {
        let request =
            Request { method: method.to_owned(), path: path.to_owned(), query: String::new(), from_loopback };
        answer(&request, closing).status
    }

    /// Exercises the switch so that only the pod itself can take the pod out of the LB.
    #[test]
    fn flips_from_inside_only() {
        let closing = AtomicBool::new(false);
        assert_eq!(ask("GET", "/health_check.html", false, &closing), 200);
        assert_eq!(ask("POST", "/flip", false, &closing), 403);
        assert_eq!(ask("GET", "/health_check.html", false, &closing), 200);
        assert_eq!(ask("POST", "/flip", true, &closing), 200);
        assert_eq!(ask("GET", "/health_check.html", false, &closing), 503);
        assert_eq!(ask("GET", "/health", false, &closing), 200);
        assert_eq!(ask("POST", "/flip", true, &closing), 200);
        assert_eq!(ask("GET", "/health_check.html", false, &closing), 200);
    }
}
