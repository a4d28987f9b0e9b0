//! What every page is in: no network, no script, one style sheet, and a policy that allows nothing else.

use std::sync::LazyLock;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

const STYLE: &str = include_str!("style.css");

/// What a browser may do with a page: use its own style sheet. Also for a header of the response.
pub static POLICY: LazyLock<String> = LazyLock::new(|| {
    let digest = BASE64_STANDARD.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )
});

/// A whole page; `refresh`: after how many seconds it is asked for again.
#[must_use]
pub fn document(title: &str, refresh: Option<u16>, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(*POLICY);
                @if let Some(seconds) = refresh { meta http-equiv="refresh" content=(seconds); }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (title) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                // Patterns cannot be drawn from a picture that is not shown: they stand in one of their own.
                svg class="defs" aria-hidden="true" xmlns="http://www.w3.org/2000/svg" {
                    defs {
                        pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)" {
                            line class="hatching" x1="0" y1="0" x2="0" y2="6" {}
                        }
                    }
                }
                (body)
            }
        }
    };
    page.into_string()
}
