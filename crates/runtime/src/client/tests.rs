//! What is read of kubeconfigs.

use std::process::Command;

use super::*;

/// The configuration of a kubeconfig whose clusters say this.
async fn configure(cluster: &str) -> Result<Config, Error> {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("kubeconfig");
    let other = r#"{"name":"other","cluster":{"server":"https://192.0.2.2","proxy-url":"http://192.0.2.9"}}"#;
    let text = format!(
        r#"{{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{{"name":"c","context":{{"cluster":"k","user":"u"}}}}],
        "clusters":[{other},{{"name":"k","cluster":{{"server":"https://192.0.2.1"{cluster}}}}}],"users":[{{"name":"u","user":{{}}}}]}}"#
    );
    std::fs::write(&file, text).unwrap();
    let args = KubeArgs {
        kubeconfig: Some(file),
        ..KubeArgs::default()
    };
    config(&args, "test").await
}

#[tokio::test]
async fn a_proxy_is_refused_by_the_name_of_its_field_and_without_its_password() {
    let refused = configure(r#","proxy-url":"http://me:secret@192.0.2.8:3128""#)
        .await
        .unwrap_err();
    let message =
        "invalid value '192.0.2.8:3128' for 'proxy-url' of the cluster 'k' in the kubeconfig: API servers are reached directly";
    assert_eq!(refused.to_string(), message);
    let config = configure(r#","proxy-url":"""#).await.unwrap();
    assert_eq!(config.cluster_url, "https://192.0.2.1");
}

/// The variable is set in a process of its own: this very test.
#[tokio::test]
async fn a_proxy_of_the_environment_is_not_gone_through() {
    const NAME: &str = "client::tests::a_proxy_of_the_environment_is_not_gone_through";
    if std::env::var("HTTPS_PROXY").is_err() {
        let tests = std::env::current_exe().expect("a test has a path");
        let output = Command::new(tests)
            .args(["--exact", NAME])
            .env("HTTPS_PROXY", "http://192.0.2.8:3128")
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
        return;
    }
    let config = configure("").await.unwrap();
    assert_eq!(config.proxy_url, None);
    assert!(transport(&config, None).is_ok());
}
