//! What is read of kubeconfigs.

use std::process::Command;

use super::*;

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

/// The variables are set in a process of its own: this very test. What is no URL is nobody's business either.
#[test]
fn a_proxy_of_the_environment_is_not_gone_through() {
    const NAME: &str = "client::tests::a_proxy_of_the_environment_is_not_gone_through";
    if std::env::var("HTTPS_PROXY").is_err() {
        let tests = std::env::current_exe().expect("a test has a path");
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("kubeconfig");
        std::fs::write(&file, mk_kubeconfig("")).unwrap();
        for proxy in ["http://192.0.2.8:3128", "no URL"] {
            let mut command = Command::new(&tests);
            command
                .args(["--exact", NAME])
                .env("HTTPS_PROXY", proxy)
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

#[test]
fn a_server_is_another_one_if_its_url_or_its_name_is() {
    let mk = |url: &str, name: Option<&str>| {
        let mut config = Config::new(url.parse().unwrap());
        config.tls_server_name = name.map(str::to_owned);
        config
    };
    let first = Server::of(&mk("https://me:secret@192.0.2.1:6443", Some("a")));
    assert!(first.require(&mk("https://me:secret@192.0.2.1:6443/", Some("a"))).is_ok());
    for (now, name, is) in [
        ("https://192.0.2.1", Some("a"), "https://192.0.2.1 as a"),
        ("http://me:secret@192.0.2.1:6443", Some("a"), "http://192.0.2.1:6443 as a"),
        (
            "https://me:secret@192.0.2.1:6443/k/",
            Some("a"),
            "https://192.0.2.1:6443/k as a",
        ),
        ("https://me:secret@192.0.2.1:6443", None, "https://192.0.2.1:6443"),
    ] {
        let moved = first.require(&mk(now, name)).unwrap_err().to_string();
        let was = "the API server was 'https://192.0.2.1:6443 as a' at the start";
        assert_eq!(moved, format!("{was}, and is '{is}' by now; a restart is needed to go there"));
    }
}
