//! `gt-daemon timeline` as a program: exit codes, output and files.

#[cfg(test)]
mod program {
    use std::{
        path::{Path, PathBuf},
        process::{Command, Output},
    };

    fn run(arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_gt-daemon")).arg("timeline").args(arguments).output().unwrap()
    }

    fn testdata(run: &str) -> String {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/timeline").join(run);
        path.to_str().unwrap().to_owned()
    }

    fn text(bytes: &[u8]) -> String {
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    /// Exercises each way to end, so that a script can tell a verdict from a mistake.
    #[test]
    fn exit_codes() {
        let code = |arguments: &[&str]| run(arguments).status.code();
        assert_eq!(code(&[&testdata("I1_impr_h1_sleep")]), Some(0));
        assert_eq!(code(&[&testdata("A2_h1_sleep_x6")]), Some(2));
        assert_eq!(code(&[&testdata("M2_client_abort")]), Some(3));
        assert_eq!(code(&[&testdata("record")]), Some(0));
        // The worst of several.
        assert_eq!(code(&[&testdata("three_pods")]), Some(2));
        for wrong in [&["/nowhere"][..], &[], &[&testdata(""), "--offset", "lb=1"], &["--nonsense"]] {
            assert_eq!(code(wrong), Some(1), "{wrong:?}");
        }
        let nowhere = run(&["/nowhere"]);
        assert!(text(&nowhere.stderr).contains("gt-daemon: cannot read /nowhere: "), "{nowhere:?}");
    }

    /// Exercises words and JSON, so that the verdict and its reasons stand first, and notes on files are apart.
    #[test]
    fn output() {
        let words = run(&[&testdata("B_h1_stream")]);
        let told = text(&words.stdout);
        assert!(
            told.starts_with(
                "drain: broken, began 2026-11-30T07:12:02.092456Z\n  the load balancer cut 1 request"
            ),
            "{told}"
        );
        assert!(told.contains("lb_down_to_first_rst      not known"), "{told}");
        let json = run(&["--json", &testdata("three_pods")]);
        let lines: Vec<serde_json::Value> =
            text(&json.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line["verdict"] == "broken" && line["evidence"]["cuts"] == 2));
        let killed = run(&[&testdata("H1_kill_h1")]);
        assert!(text(&killed.stderr).contains("stats_after.txt: is empty"));
    }

    /// Exercises what is written, so that it is judged again as it was, once more over what is there, and of several drains in a
    /// directory each.
    #[test]
    fn files() {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out");
        for _ in 0..2 {
            let written = run(&["-o", out.to_str().unwrap(), &testdata("A2_h1_sleep_x6")]);
            assert_eq!(written.status.code(), Some(2));
        }
        let again = run(&["--json", out.to_str().unwrap()]);
        let first = run(&["--json", &testdata("A2_h1_sleep_x6")]);
        assert_eq!((text(&again.stdout), again.status.code()), (text(&first.stdout), Some(2)));
        let names = |dir: &Path| -> Vec<PathBuf> {
            let mut names: Vec<_> = dir.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&out), [out.join("intervals.json"), out.join("timeline.jsonl")]);
        let several = dir.path().join("several");
        run(&["-o", several.to_str().unwrap(), &testdata("three_pods")]);
        assert_eq!(names(&several).len(), 3);
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let unwritten = run(&["-o", file.to_str().unwrap(), &testdata("A2_h1_sleep_x6")]);
        assert_eq!(unwritten.status.code(), Some(1));
        assert!(text(&unwritten.stderr).contains("give -o a directory"));
    }
}
