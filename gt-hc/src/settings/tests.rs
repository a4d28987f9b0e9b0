use std::{ffi::OsString, os::unix::ffi::OsStringExt as _};

use super::*;

fn read(variables: &[(&str, &str)]) -> Result<Settings, SettingError> {
    let variable = |name: &str| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(*value))
    };
    Settings::read(&Given::new([], &variable))
}

/// Exercises an empty environment so that the runbook's numbers hold.
#[test]
fn defaults_are_the_runbooks() {
    let settings = read(&[]).unwrap();
    assert_eq!(settings.drain_timeout, Duration::from_secs(120));
    assert_eq!(settings.lb_buffer, Duration::from_secs(10));
    assert_eq!(settings.poll_interval, Duration::from_secs(2));
    assert_eq!(settings.listen.to_string(), "0.0.0.0:18180");
    assert_eq!(settings.envoy_admin.to_string(), "127.0.0.1:15000");
}

/// Exercises a flag and a variable for one setting so that the flag wins, and is named when it is wrong.
#[test]
fn a_flag_goes_before_a_variable() {
    let variable = |name: &str| (name == "LB_BUFFER").then(|| OsString::from("7"));
    let flag = |value: &str| [(Name::LbBuffer, Some(value.to_owned()))];
    let given = Given::new(flag("3"), &variable);
    assert_eq!(lb_buffer(&given).unwrap(), Duration::from_secs(3));
    assert_eq!(given.value(Name::LbBuffer).unwrap().1, Source::Flag("--lb-buffer"));
    assert_eq!(lb_buffer(&Given::new([], &variable)).unwrap(), Duration::from_secs(7));

    let error = lb_buffer(&Given::new(flag("x"), &variable)).unwrap_err();
    assert_eq!((error.name, error.value.as_str()), ("--lb-buffer", "x"));
}

/// Exercises each wrong value so that the error names variable, value, cause and remedy.
#[test]
fn errors_in_words() {
    for (variables, expected) in [
        (
            vec![("DRAIN_TIMEOUT", "2 minutes")],
            r#"DRAIN_TIMEOUT="2 minutes" is not a number of seconds: write seconds, such as 120 or 2.5, or a number with ms, s, m or h; unset it to use "120""#,
        ),
        (
            vec![("DRAIN_TIMEOUT", "0")],
            r#"DRAIN_TIMEOUT="0" leaves no time for a request to end: use the runbook's ceil(p99 x 1.2), see `gt-hc check --p99`; unset it to use "120""#,
        ),
        (
            vec![("LB_BUFFER", "")],
            r#"LB_BUFFER="" is empty: write seconds, such as 120 or 2.5, or a number with ms, s, m or h; unset it to use "10""#,
        ),
        (
            vec![("POLL_INTERVAL", "0.01")],
            r#"POLL_INTERVAL="0.01" is below 0.05 s: write 0.05 or more; the runbook uses 2; unset it to use "2""#,
        ),
        (
            vec![("POLL_INTERVAL", "10"), ("DRAIN_TIMEOUT", "5")],
            r#"POLL_INTERVAL="10" is more than DRAIN_TIMEOUT, 5 s: make it a small part of DRAIN_TIMEOUT; the runbook uses 2 and 120; unset it to use "2""#,
        ),
        (
            vec![("GT_HC_ENVOY_ADMIN", "localhost:15000")],
            r#"GT_HC_ENVOY_ADMIN="localhost:15000" is no IP address with a port: write ADDRESS:PORT, such as 127.0.0.1:15000 or [::1]:15000; names are not looked up; unset it to use "127.0.0.1:15000""#,
        ),
        (
            vec![("GT_HC_LISTEN", "10.0.0.7:18180")],
            r#"GT_HC_LISTEN="10.0.0.7:18180" would shut out `gt-hc drain`, which comes by the loopback device: listen on all addresses, 0.0.0.0:PORT or [::]:PORT: what changes the state is accepted from inside the pod only; unset it to use "0.0.0.0:18180""#,
        ),
    ] {
        assert_eq!(read(&variables).unwrap_err().to_string(), expected);
    }
}

/// Exercises a variable with bytes that are no text so that it is told, and not taken for unset.
#[test]
fn a_variable_that_is_no_text() {
    let variable = |name: &str| (name == "DRAIN_TIMEOUT").then(|| OsString::from_vec(vec![b'1', 0xff]));
    let error = Settings::read(&Given::new([], &variable)).unwrap_err();
    assert_eq!((error.name, error.cause.as_str()), ("DRAIN_TIMEOUT", "is not UTF-8"));
}

/// Exercises the addresses a server can listen on so that the pod's own commands reach each.
#[test]
fn commands_come_by_loopback() {
    for (listen, expected) in [
        ("0.0.0.0:18180", "127.0.0.1:18180"),
        ("[::]:9", "[::1]:9"),
        ("127.0.0.1:9", "127.0.0.1:9"),
        ("[::1]:9", "[::1]:9"),
    ] {
        let variable = |name: &str| (name == "GT_HC_LISTEN").then(|| OsString::from(listen));
        assert_eq!(server(&Given::new([], &variable)).unwrap().to_string(), expected);
    }
}
