use proptest::prelude::*;

use super::*;

fn rows(form: Form, body: &str) -> Result<Vec<(Stat, String, u64)>, Malformed> {
    let mut rows = Vec::new();
    form.read(body.as_bytes(), |stat, scope, value| rows.push((stat, scope.to_owned(), value)))?;
    Ok(rows)
}

fn expected() -> Vec<(Stat, String, u64)> {
    vec![
        (Stat::UpstreamRqActive, "outbound|80||app".to_owned(), 2),
        (Stat::DownstreamRqActive, "in".to_owned(), 0),
        (Stat::ServerUptime, String::new(), 15),
    ]
}

/// Exercises the same rows in all forms, with rows of other stats between.
#[test]
fn all_forms() {
    let text = "cluster.outbound|80||app.upstream_rq_active: 2\nversion: \"1: 2\"\nhttp.in.downstream_rq_active: 0\n\
                http.in.downstream_rq_time: P0(nan,1.0) P25(nan,1.025)\nserver.uptime: 15\n";
    assert_eq!(rows(Form::Text, text), Ok(expected()));
    let json = r#"{"stats":[{"name":"cluster.outbound|80||app.upstream_rq_active","value":2},{"name":"version","value":"a"},
        {"name":"http.in.downstream_rq_active","value":0},{"name":"server.uptime","value":15},
        {"histograms":{"supported_quantiles":[0,25],"computed_quantiles":[{"name":"x","values":[{"cumulative":1}]}]}}]}"#;
    assert_eq!(rows(Form::Json, json), Ok(expected()));
    let prometheus = "# TYPE envoy_cluster_upstream_rq_active gauge\n\
        envoy_cluster_upstream_rq_active{envoy_cluster_name=\"outbound|80||app\"} 2\n\
        app_requests{path=\"/\"} 1.5e3\n\
        envoy_http_downstream_rq_active{other=\"a,}\\\"\",http_conn_manager_prefix=\"in\"} 0 1764486765000\n\
        envoy_server_uptime{} 1.5e1\n";
    assert_eq!(rows(Form::Prometheus, prometheus), Ok(expected()));
    for (form, empty) in [(Form::Text, ""), (Form::Json, r#"{"stats":[]}"#), (Form::Prometheus, "")] {
        assert_eq!(rows(form, empty), Ok(Vec::new()));
    }
}

/// Exercises scopes split between name and label, as tags of Envoy, of Istio and none at all leave them.
#[test]
fn scopes_of_prometheus() {
    let scope = |line: &str| rows(Form::Prometheus, line).unwrap().pop().unwrap().1;
    assert_eq!(
        scope("envoy_http_outbound_0_0_0_0_8080__downstream_rq_active{} 1\n"),
        "outbound_0_0_0_0_8080"
    );
    assert_eq!(
        scope(
            "envoy_http_0_0_0_8080__downstream_rq_active{envoy_http_conn_manager_prefix=\"outbound_0\"} 1\n"
        ),
        "outbound_0_0_0_0_8080"
    );
    assert_eq!(scope("envoy_http_downstream_rq_active{http_conn_manager_prefix=\"admin\"} 1\n"), "admin");
    assert_eq!(scope("envoy_http_downstream_rq_active 1\n"), "");
    let worker = scope("envoy_http_downstream_rq_active{envoy_worker_id=\"3\"} 1\n");
    assert!(crate::envoy::scope::Ignored::default().listener(&worker));
}

/// Exercises what is no answer of Envoy's, so that none of it counts as an empty list or a zero.
#[test]
fn garbage() {
    for (form, body) in [
        (Form::Text, "<html>502</html>\n"),
        (Form::Text, "upstream connect error"),
        (Form::Text, "http.in.downstream_rq_active: 0\nhttp.in.downstr"),
        (Form::Text, "http.in.downstream_rq_active: 0"),
        (Form::Text, "http.in.downstream_rq_active: -1\n"),
        (Form::Text, "http.in.downstream_rq_active: \n"),
        (Form::Text, "http.in.downstream_rq_active: 18446744073709551616\n"),
        (Form::Json, r#"{"stats":[{"name":"http.in.downstream_rq_active","value":0}"#),
        (Form::Json, r#"{"stats":[{"name":"http.in.downstream_rq_active","value":-1}]}"#),
        (Form::Json, r#"{"stats":[{"name":"http.in.downstream_rq_active","value":"0"}]}"#),
        (Form::Json, r#"{"stats":[{"name":"http.in.downstream_rq_active"}]}"#),
        (Form::Json, r#"{"error":"not here"}"#),
        (Form::Json, ""),
        (Form::Prometheus, "<html>\n"),
        (Form::Prometheus, "envoy_http_downstream_rq_active{} \n"),
        (Form::Prometheus, "envoy_http_downstream_rq_active{a=\"b} 1\n"),
        (Form::Prometheus, "envoy_http_downstream_rq_active{} NaN\n"),
        (Form::Prometheus, "envoy_http_downstream_rq_active{} 1.5\n"),
        (Form::Prometheus, "envoy_http_downstream_rq_active{} 1\nenvoy_http_downstre"),
        (Form::Prometheus, "http.in.downstream_rq_active: 0\n"),
    ] {
        assert!(rows(form, body).is_err(), "{form:?} {body}");
    }
    assert!(Form::Text.read(&[0xff, 0xfe, b'\n'], |_, _, _| ()).is_err());
    let long = format!("{}\n", "é".repeat(500));
    assert!(rows(Form::Text, &long).unwrap_err().to_string().len() < 400);
}

proptest! {
    /// Exercises any bytes, so that none panics.
    #[test]
    fn any_bytes(body in prop::collection::vec(any::<u8>(), 0..300)) {
        for form in [Form::Text, Form::Json, Form::Prometheus] {
            let _whatever = form.read(&body, |_, _, _| ());
        }
    }

    /// Exercises any text of the right shape, so that none panics and none is made up.
    #[test]
    fn any_lines(lines in prop::collection::vec("(envoy_|http\\.)?[a-z_.{}=\", ]{0,30}[: ]{0,2}[0-9.e]{0,6}", 0..8)) {
        let body = lines.join("\n") + "\n";
        for form in [Form::Text, Form::Prometheus] {
            let _whatever = form.read(body.as_bytes(), |_, _, _| ());
        }
    }

    /// Exercises each cut of a whole answer, so that what is left is an error or fewer whole rows, never
    /// other numbers.
    #[test]
    fn cut_anywhere(at in 0_usize..200) {
        let whole = "http.in.downstream_rq_active: 12\nhttp.in.downstream_cx_active: 345\n";
        let all = rows(Form::Text, whole).unwrap();
        if let Ok(left) = rows(Form::Text, whole.get(..at).unwrap_or(whole)) {
            prop_assert!(all.starts_with(&left));
        }
    }
}
