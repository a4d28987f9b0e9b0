//! The demo's service behind Envoy (`cargo xtask demo-app`): it answers at once, or after a while.

use std::{thread, time::Duration};

use anyhow::Result;

use super::serve::{Request, Response, serve};

/// The longest answer time that may be asked for.
const LONGEST: u64 = 3600;

/// Where to listen.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Address and port to listen on.
    #[arg(long, default_value = "127.0.0.1:9000")]
    listen: String,
}

/// Answers `GET /` and `GET /sleep?seconds=N` until killed.
pub fn run(options: &Options) -> Result<()> {
    serve(&options.listen, answer)
}

fn answer(request: &Request) -> Response {
    match (request.method.as_str(), request.path.as_str()) {
        ("GET", "/") => Response::new(200, "hello\n"),
        ("GET", "/sleep") => match seconds(&request.query) {
            Some(seconds) => {
                thread::sleep(Duration::from_secs(seconds));
                Response::new(200, format!("slept {seconds} s\n"))
            }
            None => Response::new(400, format!("ask for /sleep?seconds=N, N at most {LONGEST}\n")),
        },
        _ => Response::new(404, "ask for / or /sleep?seconds=N\n"),
    }
}

fn seconds(query: &str) -> Option<u64> {
    let value = query.split('&').find_map(|pair| pair.strip_prefix("seconds="))?;
    value.parse().ok().filter(|seconds| *seconds <= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exercises odd queries so that a typing error is answered and never slept on.
    #[test]
    fn seconds_of_a_query() {
        assert_eq!(seconds("seconds=8"), Some(8));
        assert_eq!(seconds("a=b&seconds=0"), Some(0));
        for wrong in ["", "seconds", "seconds=", "seconds=-1", "seconds=3601", "second=8"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
