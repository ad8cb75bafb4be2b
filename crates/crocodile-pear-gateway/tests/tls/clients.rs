//! Clients that show a certificate.

use std::sync::Arc;

use rcgen::{CertificateRevocationListParams, KeyIdMethod, RevokedCertParams, SanType, SerialNumber, date_time_ymd};

use crate::stage::authority::{Authority, Identity};
use crate::stage::secure::{ALL_VERSIONS, Folder, Scene, connect, get, showing, trusting};

const ENDPOINTS: &str = "
upstreams: { echo: 'http://127.0.0.1:9' }
endpoints:
  GET /who: { pipeline: [{ respond: { body: '$client.certificate' } }] }
";

fn listen(more: &str) -> String {
    let tls = format!("{{ certificate: own.pem, key: own.key, client_ca: clients.pem{more} }}");
    format!("listen: {{ address: '127.0.0.1:0', tls: {tls} }}{ENDPOINTS}")
}

struct Clients {
    servers: Authority,
    authority: Authority,
    folder: Folder,
}

impl Clients {
    fn new(name: &str) -> Self {
        let (servers, authority, folder) = (Authority::new(), Authority::new(), Folder::new(name));
        folder.identity("own", &servers.sign(&["gateway.test"]));
        folder.write("clients.pem", authority.pem());
        Clients { servers, authority, folder }
    }

    /// The answer of a client that shows this; with TLS 1.3 it learns only then that it was refused.
    fn ask(
        &self,
        scene: &Scene,
        version: &'static rustls::SupportedProtocolVersion,
        shows: Option<&Identity>,
    ) -> std::io::Result<String> {
        let client = match shows {
            Some(identity) => showing(&self.servers, &[version], identity),
            None => trusting(&self.servers, &[version]),
        };
        get(&mut connect(scene.gateway.address, &Arc::new(client), "gateway.test", b"")?, "/who")
    }
}

#[test]
fn what_a_client_has_shown_is_known_to_expressions() {
    let clients = Clients::new("shown");
    let shop = clients.authority.sign_with(&["shop.test", "10.0.0.7"], |params| {
        params.serial_number = Some(SerialNumber::from(vec![0x0a, 0xff]));
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "Shop, Inc");
    });
    let scene = clients.folder.start(&listen(", client_certificate: optional"));
    for version in ALL_VERSIONS {
        let answer = clients.ask(&scene, version, Some(&shop)).unwrap();
        let digest = ring::digest::digest(&ring::digest::SHA256, shop.certificate.der());
        let fingerprint: String = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
        for part in [
            r#""names":["shop.test"],"emails":[],"uris":[],"addresses":["10.0.0.7"],"serial":"0aff","#,
            r#"O=Shop\\, Inc"#,
            r#""issuer":"CN=authority "#,
            &format!(r#""fingerprint":"{fingerprint}""#),
        ] {
            assert!(answer.contains(part), "{part} in {answer}");
        }
        assert!(clients.ask(&scene, version, None).unwrap().ends_with("\r\n\r\nnull"));
        let stranger = Authority::new().sign(&["shop.test"]);
        assert!(clients.ask(&scene, version, Some(&stranger)).is_err());
        let expired = |params: &mut rcgen::CertificateParams| params.not_after = date_time_ymd(2020, 1, 1);
        let expired = clients.authority.sign_with(&["shop.test"], expired);
        assert!(clients.ask(&scene, version, Some(&expired)).is_err());
    }
}

#[test]
fn a_certificate_authenticates_its_client() {
    let clients = Clients::new("authenticates");
    let shop = clients.authority.sign(&["a.shop.test"]);
    let digest = ring::digest::digest(&ring::digest::SHA256, shop.certificate.der());
    let fingerprint: String = digest.as_ref().iter().map(|byte| format!("{byte:02X}:")).collect();
    let (client, tls) = ("{ pipeline: [{ respond: { body: '$claims.names' } }] }", "client_certificate: optional");
    let config = format!(
        "listen: {{ address: '127.0.0.1:0', tls: {{ certificate: own.pem, key: own.key, client_ca: clients.pem, {tls} }} }}
endpoints:
  GET /any: {{ authenticate: [certificate: {{}}], {rest}
  GET /name: {{ authenticate: [certificate: {{ names: ['*.shop.test'] }}], {rest}
  GET /other: {{ authenticate: [certificate: {{ names: [shop.test], subjects: [CN=x] }}], {rest}
  GET /print: {{ authenticate: [certificate: {{ fingerprints: ['{print}'] }}], {rest}
",
        rest = &client[2..],
        print = fingerprint.trim_end_matches(':'),
    );
    let scene = clients.folder.start(&config);
    let session = Arc::new(showing(&clients.servers, ALL_VERSIONS, &shop));
    let ask = |path| get(&mut connect(scene.gateway.address, &session, "gateway.test", b"").unwrap(), path).unwrap();
    for path in ["/any", "/name", "/print"] {
        assert!(ask(path).ends_with(r#"["a.shop.test"]"#), "{path}");
    }
    let refused = ask("/other");
    assert!(refused.starts_with("HTTP/1.1 403 Forbidden"), "{refused}");
    assert!(refused.contains("not one of those that may call"), "{refused}");
    let session = Arc::new(trusting(&clients.servers, ALL_VERSIONS));
    let none = get(&mut connect(scene.gateway.address, &session, "gateway.test", b"").unwrap(), "/any").unwrap();
    assert!(none.starts_with("HTTP/1.1 403 Forbidden") && none.contains("must show a certificate"), "{none}");
}

#[test]
fn without_a_certificate_there_is_no_connection_where_one_is_required() {
    let clients = Clients::new("required");
    let shop = clients.authority.sign(&["shop.test"]);
    let config = ["admin: 127.0.0.1:0\n", &listen("")].concat();
    let scene = clients.folder.start(&config);
    for version in ALL_VERSIONS {
        assert!(clients.ask(&scene, version, Some(&shop)).unwrap().starts_with("HTTP/1.1 200 OK"));
        assert!(clients.ask(&scene, version, None).is_err());
    }
    let address = scene.gateway.address;
    let failed = "crocodile_pear_tls_handshakes_failed_total";
    scene.until_metrics(&[format!("{failed}{{listener=\"{address}\",reason=\"certificate-missing\"}} 2")]);
}

#[test]
fn a_certificate_that_was_revoked_is_refused_and_its_sessions_too() {
    let clients = Clients::new("revoked");
    let shop = clients.authority.sign_with(&["shop.test"], |params| params.serial_number = Some(7.into()));
    let other = clients.authority.sign(&["other.test"]);
    let list = |revoked: &[u64]| {
        let revoked = revoked.iter().map(|serial| RevokedCertParams {
            serial_number: (*serial).into(),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        });
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(2090, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        clients.authority.revoke(params)
    };
    clients.folder.write("crl.pem", list(&[]));
    let scene = clients.folder.start(&listen(", crl: crl.pem"));
    let session = Arc::new(showing(&clients.servers, ALL_VERSIONS, &shop));
    let ask = || get(&mut connect(scene.gateway.address, &session, "gateway.test", b"")?, "/who");
    assert!(ask().unwrap().starts_with("HTTP/1.1 200 OK"));
    assert!(ask().unwrap().starts_with("HTTP/1.1 200 OK"));
    clients.folder.write("crl.pem", list(&[7]));
    scene.gateway.logged("*INFO*new certificates are used from now on*").unwrap();
    assert!(ask().is_err());
    for version in ALL_VERSIONS {
        assert!(clients.ask(&scene, version, Some(&shop)).is_err());
        assert!(clients.ask(&scene, version, Some(&other)).unwrap().starts_with("HTTP/1.1 200 OK"));
    }
}

#[test]
fn a_revocation_list_that_is_overdue_is_told_and_may_be_refused() {
    let clients = Clients::new("overdue");
    let shop = clients.authority.sign(&["shop.test"]);
    let list = CertificateRevocationListParams {
        this_update: date_time_ymd(2024, 1, 1),
        next_update: date_time_ymd(2024, 2, 1),
        crl_number: 1.into(),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    clients.folder.write("crl.pem", clients.authority.revoke(list));
    let scene = clients.folder.start(&format!("admin: 127.0.0.1:0\n{}", listen(", crl: crl.pem")));
    scene.gateway.logged("*warning: `crl.pem`: a certificate revocation list is overdue since 2024-02-01*").unwrap();
    assert!(clients.ask(&scene, ALL_VERSIONS[0], Some(&shop)).unwrap().starts_with("HTTP/1.1 200 OK"));
    let name = "crocodile_pear_tls_crl_next_update_timestamp_seconds";
    scene.until_metrics(&[format!("{name}{{listener=\"{}\"}} 1706745600", scene.gateway.address)]);
    let scene = clients.folder.start(&listen(", crl: crl.pem, crl_overdue: refuse"));
    for version in ALL_VERSIONS {
        assert!(clients.ask(&scene, version, Some(&shop)).is_err());
    }
}

/// A mail address `x@a.shop.test` is no host below `shop.test`.
#[test]
fn a_name_of_one_kind_is_no_name_of_another() {
    let clients = Clients::new("kinds");
    let rest = "{ pipeline: [{ respond: { body: '$claims.emails + $claims.uris' } }] }";
    let endpoint = |path: &str, list: &str| {
        format!("  GET /{path}: {{ authenticate: [certificate: {{ {list} }}], {}\n", &rest[2..])
    };
    let config = [
        "listen: { address: '127.0.0.1:0', tls: { certificate: own.pem, key: own.key, client_ca: clients.pem } }\nendpoints:\n",
        &endpoint("names", "names: ['*.shop.test', shop.test]"),
        &endpoint("emails", "emails: ['x@a.shop.test']"),
        &endpoint("uris", "uris: ['spiffe://shop.test/a']"),
        &endpoint("addresses", "addresses: [10.0.0.0/8]"),
        &endpoint("subjects", "subjects: [CN=shop.test]"),
    ]
    .concat();
    let scene = clients.folder.start(&config);
    let kind = |text: &str| text.try_into().unwrap();
    let (host, mail): (fn(_) -> _, fn(_) -> _) = (SanType::DnsName, SanType::Rfc822Name);
    let san = |names: Vec<SanType>| {
        clients.authority.sign_with(&[], |params| {
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.subject_alt_names = names;
        })
    };
    let named = clients.authority.sign_with(&[], |params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, "shop.test");
    });
    for (identity, wanted) in [
        (san(vec![host(kind("a.shop.test"))]), "names"),
        (san(vec![mail(kind("x@a.shop.test"))]), "emails"),
        (san(vec![mail(kind("a.shop.test"))]), ""),
        (san(vec![SanType::URI(kind("spiffe://shop.test/a"))]), "uris"),
        (san(vec![SanType::URI(kind("x://y@a.shop.test"))]), ""),
        (san(vec![SanType::URI(kind("shop.test"))]), ""),
        (san(vec![SanType::IpAddress([10, 0, 0, 7].into())]), "addresses"),
        (named, "subjects"),
    ] {
        let session = Arc::new(showing(&clients.servers, ALL_VERSIONS, &identity));
        let admits = |path: &&str| {
            let mut stream = connect(scene.gateway.address, &session, "gateway.test", b"").unwrap();
            get(&mut stream, &format!("/{path}")).unwrap().starts_with("HTTP/1.1 200 OK")
        };
        let admitted: Vec<&str> =
            ["names", "emails", "uris", "addresses", "subjects"].into_iter().filter(admits).collect();
        assert_eq!(admitted.join(" "), wanted);
    }
}
