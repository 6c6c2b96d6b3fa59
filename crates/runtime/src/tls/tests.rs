//! What a change of the files does, and that nothing tells what they hold.

pub(crate) mod pki;

use pki::{Authority, Files, Pair, Wish};

use super::*;
use crate::args::TlsFlags;

const MANAGER: Wish<'_> = Wish {
    uris: &["spiffe://bailiff/taint-manager"],
    names: &[],
    is_expired: false,
};

struct Bench {
    authority: Authority,
    files: Files,
    tls: Tls,
    _dir: tempfile::TempDir,
}

fn paths(files: &Files) -> Paths {
    let [certificate, key, ca] = files.paths();
    Paths { certificate, key, ca }
}

fn mk_bench(wish: Wish<'_>) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new("ours");
    let files = Files::new(dir.path(), "own", &authority.sign(wish), &authority.pem());
    let tls = Tls::load(paths(&files), &Clock::system()).unwrap();
    Bench {
        authority,
        files,
        tls,
        _dir: dir,
    }
}

#[tokio::test]
async fn changed_files_are_used_and_a_changed_ca_ends_what_it_vouched_for() {
    let bench = mk_bench(MANAGER);
    let (before, trust) = (bench.tls.server(Clients::Known), bench.tls.trust());
    assert!(matches!(bench.tls.reload(), Reload::Unchanged));
    assert_eq!(bench.tls.trust_domain().as_deref(), Some("bailiff"));

    bench.files.write_pair(&bench.authority.sign(MANAGER));
    assert!(matches!(bench.tls.reload(), Reload::Swapped { is_trust_new: false }));
    assert!(
        !Arc::ptr_eq(&before, &bench.tls.server(Clients::Known)),
        "new handshakes use the new one"
    );
    assert!(!trust.is_cancelled(), "a renewal ends no connection");

    bench.files.write_ca(&(bench.authority.pem() + &Authority::new("next").pem()));
    assert!(matches!(bench.tls.reload(), Reload::Swapped { is_trust_new: true }));
    assert!(trust.is_cancelled());
    assert!(!bench.tls.trust().is_cancelled());
}

#[tokio::test]
async fn files_that_do_not_fit_together_are_not_used_and_said_once() {
    let bench = mk_bench(MANAGER);
    let registry = Metrics::new();
    bench.tls.register(&registry);
    let config = bench.tls.server(Clients::Known);
    let [certificate, key, ca] = bench.files.paths();
    let good: Vec<_> = [&certificate, &key, &ca].map(|path| std::fs::read(path).unwrap()).into();
    let other = bench.authority.sign(MANAGER);
    let half = &other.certificate.as_bytes()[..other.certificate.len() / 2];
    let cases: [(&std::path::Path, &[u8], &str); 6] = [
        (&certificate, other.certificate.as_bytes(), "the key of the certificate"),
        (&certificate, half, "--tls-cert-file"),
        (&certificate, b"", "--tls-cert-file"),
        (&key, b"-----BEGIN PRIVATE KEY-----\nSECRET", "--tls-private-key-file"),
        (&ca, b"nothing", "--tls-ca-file"),
        (&ca, other.key.as_bytes(), "--tls-ca-file"),
    ];
    for (path, content, said) in cases {
        std::fs::write(path, content).unwrap();
        let Reload::Kept(error) = bench.tls.reload() else {
            panic!("{said}: such files were taken");
        };
        let error = crate::shutdown::chain(&error);
        assert!(error.contains(said) && !error.contains("SECRET"), "{said}: {error}");
        assert!(matches!(bench.tls.reload(), Reload::Unchanged), "{said}: said once");
        let concern = bench.tls.concern().unwrap();
        assert!(
            concern.contains("changed files are not used") && concern.contains(said),
            "{concern}"
        );
        assert!(
            Arc::ptr_eq(&config, &bench.tls.server(Clients::Known)),
            "{said}: the old one stays"
        );
        for (path, content) in [&certificate, &key, &ca].iter().zip(&good) {
            std::fs::write(path, content).unwrap();
        }
        // Back to what is in use.
        assert!(matches!(bench.tls.reload(), Reload::Swapped { is_trust_new: false }));
        assert_eq!(bench.tls.concern(), None);
        bench.tls.lock().configs.known = config.clone();
    }
    std::fs::remove_file(&certificate).unwrap();
    assert!(matches!(bench.tls.reload(), Reload::Kept(Error::Read { .. })));
    assert!(matches!(bench.tls.reload(), Reload::Unchanged), "said once");
    let text = registry.encode();
    assert!(text.contains("bailiff_tls_reloads_total{result=\"refused\"} 7"), "{text}");
    assert!(text.contains("bailiff_tls_reloads_total{result=\"used\"} 6"), "{text}");
}

#[tokio::test]
async fn an_expired_certificate_is_a_note_and_its_end_a_metric() {
    let bench = mk_bench(Wish {
        is_expired: true,
        ..MANAGER
    });
    let registry = Metrics::new();
    bench.tls.register(&registry);
    let readiness = Readiness::new(&bench.tls.inner.clock);
    let stop = CancellationToken::new();
    stop.cancel();
    bench.tls.clone().watch(readiness.check("TLS files"), stop).await;
    let outcome = readiness.readiness().remove(0);
    assert_eq!(outcome.failure, None, "the process goes on");
    assert_eq!(
        outcome.note.as_deref(),
        Some("--tls-cert-file expired at 2021-01-01T00:00:00Z")
    );
    let text = registry.encode();
    assert!(
        text.contains("bailiff_tls_expiry_timestamp_seconds{file=\"certificate\"} 1609459200"),
        "{text}"
    );
    assert!(text.contains("bailiff_tls_expiry_timestamp_seconds{file=\"ca\"} "), "{text}");
}

#[tokio::test]
async fn nothing_shows_the_key() {
    let bench = mk_bench(MANAGER);
    let [certificate, key, ca] = bench.files.paths();
    let pem = std::fs::read_to_string(&key).unwrap();
    let secrets: Vec<&str> = pem.lines().filter(|line| !line.starts_with("-----")).collect();
    let flags = TlsFlags {
        tls_cert_file: Some(certificate),
        tls_private_key_file: Some(key),
        tls_ca_file: Some(ca),
    };
    let bytes = Bytes::read(&paths(&bench.files)).unwrap();
    let material = Material::parse(&paths(&bench.files), &bytes).unwrap();
    let state = bench.tls.lock();
    let shown = [
        format!("{:?}", bench.tls),
        format!("{flags:#?}"),
        format!("{bytes:?} {material:?}"),
        format!("{:?} {:?} {:?}", state.configs.known, state.configs.any, state.configs.client),
    ];
    for text in shown {
        assert!(!secrets.iter().any(|secret| text.contains(secret)), "{text}");
        // As bytes in decimal, which is how a list of them would be shown.
        assert!(
            !text.contains(&format!("{:?}", &pem.as_bytes()[40..60]).replace(['[', ']'], "")),
            "{text}"
        );
    }
}

#[tokio::test]
async fn who_a_certificate_is_of_is_its_one_uri_name() {
    let authority = Authority::new("ours");
    let der = |pair: &Pair| {
        use tokio_rustls::rustls::pki_types::pem::PemObject as _;
        tokio_rustls::rustls::pki_types::CertificateDer::from_pem_slice(pair.certificate.as_bytes()).unwrap()
    };
    let cases: [(&[&str], Option<&str>, &str); 5] = [
        (&["spiffe://bailiff/operator"], None, "operator"),
        (&["spiffe://bailiff/operator"], Some("bailiff"), "operator"),
        (&["spiffe://bailiff/operator"], Some("other"), "another trust domain"),
        (
            &["spiffe://bailiff/operator", "spiffe://bailiff/viewer"],
            None,
            "more than one",
        ),
        (&[], None, "no URI name"),
    ];
    for (uris, domain, wanted) in cases {
        let pair = authority.sign(Wish { uris, ..Wish::default() });
        let found = match Standing::of(Some(&[der(&pair)]), domain) {
            Standing::Known(identity) => identity.role,
            Standing::Nameless(reason) => reason,
            other => panic!("{other:?}"),
        };
        assert!(found.contains(wanted), "{uris:?}: {found}");
    }
    assert_eq!(Standing::of(None, None), Standing::Stranger);
}

#[tokio::test]
async fn only_https_goes_over_tls() {
    let bench = mk_bench(MANAGER);
    for (url, wanted) in [
        ("https://collector:4317", true),
        ("https://collector", true),
        ("https://10.0.0.7:4317/path", true),
        ("https://[::1]:4317", true),
        ("http://collector:4317", false),
        ("no url", false),
    ] {
        assert_eq!(Connector::of_url(&bench.tls, url).is_some(), wanted, "{url}");
    }
}

#[tokio::test]
async fn the_admin_port_answers_probes_without_a_certificate_and_everybody_else_with_one() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::pki_types::ServerName;
    use tokio_rustls::rustls::{RootCertStore, crypto::ring};

    let bench = mk_bench(Wish {
        names: &["manager"],
        ..MANAGER
    });
    let bound = crate::admin::bind(([127, 0, 0, 1], 0).into()).await.unwrap();
    let address = bound.address();
    let router = crate::admin::router(Readiness::new(&bench.tls.inner.clock), Metrics::new());
    let (tls, stop) = (bench.tls.clone(), CancellationToken::new());
    let serving = tokio::spawn({
        let stop = stop.clone();
        async move { bound.serve(router, Some(tls), &crate::port::Metrics::default(), stop).await }
    });

    let mut known = (*bench.tls.client()).clone();
    known.alpn_protocols = vec![b"http/1.1".to_vec()];
    let mut roots = RootCertStore::empty();
    let bytes = Bytes::read(&paths(&bench.files)).unwrap();
    for authority in Material::parse(&paths(&bench.files), &bytes).unwrap().authorities {
        roots.add(authority).unwrap();
    }
    let stranger = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    for (config, path, wanted) in [
        (&stranger, "/livez", "HTTP/1.1 200"),
        (&stranger, "/readyz", "HTTP/1.1 200"),
        (&stranger, "/metrics", "HTTP/1.1 403"),
        (&known, "/metrics", "HTTP/1.1 200"),
    ] {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let connector = TlsConnector::from(Arc::new(config.clone()));
        let mut stream = connector
            .connect(ServerName::try_from("manager").unwrap(), stream)
            .await
            .unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: manager\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer);
        assert!(answer.starts_with(wanted), "{path}: {answer}");
    }
    stop.cancel();
    serving.await.unwrap();
}
