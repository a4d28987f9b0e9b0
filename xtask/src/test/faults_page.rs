//! Whether the tests that docs/faults.md names are there.

use std::fs;

use crate::cargo;

/// Exercises each link of the page into the sources, so that a test that is renamed or removed leaves no false promise behind.
#[test]
fn each_named_test_is_there() {
    let docs = cargo::root().join("docs");
    let page = fs::read_to_string(docs.join("faults.md")).unwrap();
    let mut named = 0;
    for link in page.split('[').skip(1) {
        let Some((name, rest)) = link.split_once("](") else { continue };
        let Some(path) = rest.split(')').next().filter(|path| path.ends_with(".rs")) else { continue };
        let source = fs::read_to_string(docs.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        // A function, or the name of a case, perhaps after that of its file and before that of its kind.
        let is_there =
            [format!("fn {name}("), format!("\"{name}\""), format!("::{name}\""), format!("::{name}_{{}}\"")]
                .iter()
                .any(|definition| source.contains(definition));
        assert!(is_there, "{path} has no test {name}");
        named += 1;
    }
    assert!(named > 60, "only {named} tests are named: is the page written in another way now?");
}
