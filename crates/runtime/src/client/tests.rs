//! What is read of kubeconfigs.

use std::env::VarError;
use std::process::Command;

use kube::config::InClusterError;
use serde_json::json;

use super::*;
use crate::shutdown::chain;

/// A kubeconfig whose clusters say this.
fn mk_kubeconfig(cluster: &str) -> String {
    let other = r#"{"name":"other","cluster":{"server":"https://192.0.2.2","proxy-url":"http://192.0.2.9"}}"#;
    let plugin = r#"{"exec":{"apiVersion":"client.authentication.k8s.io/v1","command":"plugin","provideClusterInfo":true}}"#;
    format!(
        r#"{{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{{"name":"c","context":{{"cluster":"k","user":"u"}}}}],
        "clusters":[{other},{{"name":"k","cluster":{{"server":"https://192.0.2.1"{cluster}}}}}],"users":[{{"name":"u","user":{plugin}}}]}}"#
    )
}

/// The configuration of such a one.
fn configure(cluster: &str) -> Result<Config, Error> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    std::fs::write(&file, mk_kubeconfig(cluster)).unwrap();
    let args = KubeArgs {
        kubeconfig: Some(file),
        ..KubeArgs::default()
    };
    config(&args, "test")
}

#[test]
fn a_proxy_is_refused_by_the_name_of_its_field_and_without_its_password() {
    let refused = configure(r#","proxy-url":"http://me:secret@192.0.2.8:3128""#).unwrap_err();
    let message =
        "invalid value '192.0.2.8:3128' for 'proxy-url' of the cluster 'k' in the kubeconfig: API servers are reached directly";
    assert_eq!(refused.to_string(), message);
    let config = configure(r#","proxy-url":"""#).unwrap();
    assert_eq!(config.cluster_url, "https://192.0.2.1");
}

/// The variables are set in a process of its own: this very test. What is no URL, or no list of hosts, is nobody's business either.
#[test]
fn a_proxy_of_the_environment_is_not_gone_through() {
    const NAME: &str = "client::tests::a_proxy_of_the_environment_is_not_gone_through";
    if std::env::var("HTTPS_PROXY").is_err() {
        let tests = std::env::current_exe().expect("a test has a path");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("kubeconfig");
        std::fs::write(&file, mk_kubeconfig("")).unwrap();
        for (proxy, besides) in [
            ("http://192.0.2.8:3128", ""),
            ("no URL", ""),
            ("http://192.0.2.8:3128", "no host,"),
        ] {
            let mut command = Command::new(&tests);
            command
                .args(["--exact", NAME])
                .env("HTTPS_PROXY", proxy)
                .env("NO_PROXY", besides)
                .env("KUBECONFIG", &file);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
            assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        }
        return;
    }
    for config in [configure(""), config(&KubeArgs::default(), "test")] {
        let config = config.unwrap();
        assert_eq!((config.cluster_url.host(), config.proxy_url), (Some("192.0.2.1"), None));
        let told = config.auth_info.exec.unwrap().cluster.unwrap();
        assert_eq!((told.server.as_deref(), told.proxy_url), (Some("https://192.0.2.1"), None));
    }
}

/// What must not be shown: a kubeconfig and what a plugin says are full of such.
const SECRET: &str = "s3cr3t";

/// An error as it is logged and as it is printed.
fn shown(error: &Error) -> String {
    let shown = chain(error);
    assert!(!format!("{shown} {error:?}").contains(SECRET), "{shown} {error:?}");
    shown
}

#[test]
fn a_kubeconfig_that_cannot_be_read_is_told_by_its_place_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    for (text, place) in [
        (
            format!("users:\n- name: u\n  user:\n    token: {SECRET}\n   broken: [\n"),
            "line 5, column 4",
        ),
        (format!("apiVersion: v1\nusers: {SECRET}\n"), "line 2, column 8"),
        (format!("users:\n- name: u\n  user: [{SECRET}]\n"), "line 3, column 9"),
    ] {
        std::fs::write(&file, text).unwrap();
        let args = KubeArgs {
            kubeconfig: Some(file.clone()),
            ..KubeArgs::default()
        };
        let refused = shown(&config(&args, "test").unwrap_err());
        let message = format!(
            "invalid value '{}' for '--kubeconfig': failed to parse kubeconfig YAML at {place}",
            file.display()
        );
        assert_eq!(refused, message);
    }
}

#[test]
fn a_plugin_that_fails_is_told_by_its_name_alone() {
    let fail = |command: &str, script: &str| {
        let mut config = Config::new("http://192.0.2.1".parse().unwrap());
        let mut exec = json!({"command": command, "args": ["-c", script], "interactiveMode": "Never"});
        exec["installHint"] = "Get it:\n\n\tbrew install plugin\u{1b}\n".into();
        exec["env"] = json!([{"name": "TOKEN", "value": SECRET}]);
        config.auth_info.exec = Some(serde_json::from_value(exec).unwrap());
        shown(&transport(&config, None, Wall::UNIX_EPOCH, Patience::START).unwrap_err())
    };
    let (begin, none) = (
        "what the kubeconfig or the service account says cannot be used; see '--kubeconfig'",
        SECRET,
    );
    for (command, script, flaw) in [
        (
            "sh",
            format!("echo {SECRET}; echo {SECRET} >&2; exit 3"),
            "the credential plugin 'sh' failed: exit status: 3",
        ),
        (
            "sh",
            format!("echo 'status: {SECRET}'"),
            "what the credential plugin 'sh' answers is no ExecCredential at line 1, column 9",
        ),
        (
            "sh",
            format!("echo 'status: {{token: t, expirationTimestamp: {SECRET}}}'"),
            "the credential plugin 'sh' answers a time of expiry that is none",
        ),
        (
            "sh",
            format!("echo 'status: {{token: \"\", clientCertificateData: {SECRET}}}'"),
            "the credential plugin 'sh' answers neither a token nor a certificate with its key",
        ),
        ("sh", "echo '{}'".to_owned(), "the credential plugin 'sh' answers no status"),
        (
            "sh",
            format!(r#"printf %s 'status: {{token: "{SECRET}\n"}}'"#),
            "the token has a character that none can have, such as the end of a line",
        ),
        (
            "/no/plugin",
            none.to_owned(),
            "the credential plugin '/no/plugin' cannot be run: No such file or directory (os error 2); Get it: brew install plugin",
        ),
    ] {
        assert_eq!(fail(command, &script), format!("{begin}: {flaw}"));
    }
}

/// kube panics on one.
#[test]
fn a_token_that_cannot_be_sent_is_a_flaw() {
    let mut config = Config::new("http://192.0.2.1".parse().unwrap());
    config.auth_info.token = Some(format!("{SECRET}\n").into());
    let refused = shown(&transport(&config, None, Wall::UNIX_EPOCH, Patience::START).unwrap_err());
    assert!(
        refused.ends_with(": the token has a character that none can have, such as the end of a line"),
        "{refused}"
    );
}

/// As a plugin of another program than a shell would find it.
#[test]
fn a_plugin_is_told_of_the_cluster_and_of_whether_anybody_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("told");
    let mut config = configure("").unwrap();
    let plugin = config.auth_info.exec.as_mut().unwrap();
    let script = r#"printf %s "$KUBERNETES_EXEC_INFO" > "$0"; echo "status: {token: $TOKEN}""#;
    plugin.command = Some("sh".to_owned());
    plugin.args = Some(["-c", script, file.to_str().unwrap()].map(str::to_owned).to_vec());
    plugin.env = serde_json::from_value(json!([{"name": "TOKEN", "value": "t"}])).unwrap();
    plugin.interactive_mode = Some(kube::config::ExecInteractiveMode::Never);
    let (asked, ends) = plugin::ask(&config, Patience::START).unwrap();
    assert_eq!(ends, None);
    assert!(asked.auth_info.token.is_some() && asked.auth_info.exec.is_none());
    let told: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let spec = json!({"interactive": false, "cluster": {"server": "https://192.0.2.1"}});
    let wanted = json!({"kind": "ExecCredential", "apiVersion": "client.authentication.k8s.io/v1", "spec": spec});
    assert_eq!(told, wanted);
    // A token that the kubeconfig has goes before it.
    config.auth_info.token = Some("t".to_owned().into());
    assert!(plugin::ask(&config, Patience::START).unwrap().0.auth_info.exec.is_some());
}

/// Whether it writes nothing, or does not end.
#[test]
fn a_plugin_that_does_not_answer_is_ended_unless_somebody_may_have_to_log_in() {
    let directory = tempfile::tempdir().unwrap();
    let never = directory.path().join("never");
    assert!(Command::new("mkfifo").arg(&never).status().unwrap().success());
    let mk = |mode: &str, script: &str| {
        let mut config = configure("").unwrap();
        let exec = json!({"command": "sh", "args": ["-c", script, never], "interactiveMode": mode});
        config.auth_info.exec = Some(serde_json::from_value(exec).unwrap());
        config
    };
    let [start, again] = [Patience::Start(Duration::ZERO), Patience::Again(Duration::ZERO)];
    for (mode, script, patience) in [
        ("Never", r#"cat "$0"; true"#, start),
        ("Never", r#"cat "$0"; true"#, again),
        ("Never", r#"exec cat "$0" >&2"#, again),
        ("Always", r#"exec cat "$0""#, again),
    ] {
        let refused = plugin::ask(&mk(mode, script), patience).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the credential plugin 'sh' was ended, as it did not answer within 0 s",
            "{mode}: {script}"
        );
    }
    let answer = mk("Always", "echo 'status: {token: t}'");
    assert!(plugin::ask(&answer, start).is_ok());
}

#[test]
fn who_finds_no_configuration_is_told_why_of_both_places_and_once() {
    let neither = Neither {
        kubeconfig: KubeconfigError::ReadConfig(std::io::ErrorKind::NotFound.into(), "/no/config".into()).into(),
        pod: InClusterError::ReadEnvironmentVariable(VarError::NotPresent).into(),
    };
    let begin = "no --kubeconfig, and neither a default kubeconfig nor what a pod has can be used";
    let pod = "KUBERNETES_SERVICE_HOST is not set, so this is none";
    let message = format!("{begin}: kubeconfig: cannot read '/no/config': entity not found; pod: {pod}");
    assert_eq!(chain(&Error::Infer(neither)), message);
}

#[test]
fn a_server_is_another_one_if_it_is_shown_as_another_one() {
    let mk = |url: &str, name: Option<&str>| {
        let mut config = Config::new(url.parse().unwrap());
        config.tls_server_name = name.map(str::to_owned);
        config
    };
    for (first, same) in [
        ("https://me:secret@192.0.2.1:6443", "https://192.0.2.1:6443/"),
        ("https://192.0.2.1", "https://me@192.0.2.1:443"),
        ("http://192.0.2.1:80/k/", "http://192.0.2.1/k"),
        ("https://[2001:db8::1]:443/", "https://[2001:DB8::1]"),
    ] {
        Server::of(&mk(first, None)).require(&mk(same, None)).unwrap();
    }
    let first = Server::of(&mk("https://me:secret@192.0.2.1:6443/", Some("a")));
    for (now, name, is) in [
        ("https://192.0.2.1:443", Some("a"), "https://192.0.2.1 as a"),
        ("http://me:secret@192.0.2.1:6443", Some("a"), "http://192.0.2.1:6443 as a"),
        (
            "https://me:secret@192.0.2.1:6443/k/",
            Some("a"),
            "https://192.0.2.1:6443/k as a",
        ),
        ("https://me:secret@192.0.2.1:6443", None, "https://192.0.2.1:6443"),
        ("https://[2001:db8::1]:6443", Some("a"), "https://[2001:db8::1]:6443 as a"),
    ] {
        let moved = first.require(&mk(now, name)).unwrap_err().to_string();
        let was = "the API server was 'https://192.0.2.1:6443 as a' at the start";
        assert_eq!(moved, format!("{was}, and is '{is}' by now; a restart is needed to go there"));
    }
}
