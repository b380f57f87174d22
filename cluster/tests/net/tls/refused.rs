//! Processes that are refused, and the errors on both sides.

use std::sync::Arc;

use rcgen::{ExtendedKeyUsagePurpose, date_time_ymd};
use selvedge_cluster::handshake::{HandshakeError, Identity, Role};
use selvedge_cluster::net::{
    Bridge, Link, LinkCause, LinkError, PeerNames, ReadHalf, Tcp, Tls, TlsError, Transport, WriteHalf, dial,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::join;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::{Lab, Signed};
use crate::support::{accept, at, first_arrival, identity, listener, refusal, run, stranger, welcome};

/// The causes of the listener and of the dialer, which are refused.
fn refused_as(listening: &dyn Transport, dialing: &dyn Transport, dialer: &Identity) -> [LinkCause; 2] {
    run(async {
        let mut listener = listener(listening).await;
        let to = at(listener.connect_at());
        let (there, here) = join!(refusal(&mut listener), dial(dialing, &to, dialer));
        assert_eq!(listener.strangers(), 0);
        [there.cause, here.unwrap_err().cause]
    })
}

fn refused(listening: &dyn Transport, dialing: &dyn Transport) -> [LinkCause; 2] {
    refused_as(listening, dialing, &identity(Role::Worker))
}

/// A process of this authority with this certificate.
fn process(lab: &Lab, signed: &Signed) -> Tls {
    Tls::over(Tcp::loopback(), &lab.credentials(signed), PeerNames::Dialed).unwrap()
}

fn is_refused_by(cause: &LinkCause, word: &str) -> bool {
    matches!(cause, LinkCause::Tls(TlsError::Refused { alert }) if alert == word)
}

#[test]
fn a_certificate_of_another_authority_is_refused_by_either_side() {
    let (ours, theirs) = (Lab::new(), Lab::new());
    let good = process(&ours, &ours.sign(|_| ()));
    // A process that believes this authority, and whose certificate another one has signed.
    let alien = process(&ours, &theirs.sign(|_| ()));
    // The alert is that of a wrong signature, since both authorities have one name.
    let [there, here] = refused(&good, &alien);
    assert_eq!(there, LinkCause::Tls(TlsError::UnknownIssuer));
    assert!(is_refused_by(&here, "DecryptError"), "{here}");
    let [there, here] = refused(&alien, &good);
    assert_eq!(here, LinkCause::Tls(TlsError::UnknownIssuer));
    assert!(is_refused_by(&there, "DecryptError"), "{there}");
}

#[test]
fn a_certificate_at_another_time_is_refused_by_either_side() {
    let lab = Lab::new();
    let good = process(&lab, &lab.sign(|_| ()));
    let expired = lab.sign(|certificate| certificate.not_after = date_time_ymd(2001, 1, 1));
    let early = lab.sign(|certificate| certificate.not_before = date_time_ymd(3001, 1, 1));
    for (signed, error) in [(expired, TlsError::Expired), (early, TlsError::NotYetValid)] {
        let bad = process(&lab, &signed);
        let [there, here] = refused(&good, &bad);
        assert_eq!(there, LinkCause::Tls(error.clone()));
        assert!(is_refused_by(&here, "CertificateExpired"), "{here}");
        let [there, here] = refused(&bad, &good);
        assert_eq!(here, LinkCause::Tls(error));
        assert!(is_refused_by(&there, "CertificateExpired"), "{there}");
    }
}

#[test]
fn a_certificate_for_one_side_alone_is_refused_on_the_other() {
    let lab = Lab::new();
    let good = process(&lab, &lab.sign(|_| ()));
    let of = |purpose| {
        let sign = |certificate: &mut rcgen::CertificateParams| {
            certificate.extended_key_usages = vec![purpose];
        };
        process(&lab, &lab.sign(sign))
    };
    let wrong = LinkCause::Tls(TlsError::WrongPurpose);
    assert_eq!(refused(&good, &of(ExtendedKeyUsagePurpose::ServerAuth))[0], wrong);
    assert_eq!(refused(&of(ExtendedKeyUsagePurpose::ClientAuth), &good)[1], wrong);
}

#[test]
fn a_dialer_without_a_certificate_is_refused() {
    let lab = Lab::new();
    let listening = process(&lab, &lab.sign(|_| ()));
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(lab.pem().as_bytes()).unwrap())
        .unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    run(async {
        let mut listener = listener(&listening).await;
        let stream = TcpStream::connect(listener.connect_at().to_owned());
        let dialer = async {
            let name = std::net::IpAddr::from([127, 0, 0, 1]).into();
            let stream = TlsConnector::from(Arc::new(config))
                .connect(name, stream.await.unwrap())
                .await;
            stream.unwrap().read(&mut [0]).await.unwrap_err().to_string()
        };
        let (there, here) = join!(refusal(&mut listener), dialer);
        assert_eq!(there.cause, LinkCause::Tls(TlsError::NoCertificate));
        assert!(here.contains("CertificateRequired"), "{here}");
    });
}

#[test]
fn the_name_of_the_host_that_was_dialled_is_checked_unless_the_cluster_says_otherwise() {
    let lab = Lab::new();
    let elsewhere = lab.sign(|certificate| {
        certificate.subject_alt_names = vec![rcgen::SanType::DnsName("node3.lab".try_into().unwrap())];
    });
    let (listening, careful) = (process(&lab, &elsewhere), process(&lab, &lab.sign(|_| ())));
    let [there, here] = refused(&listening, &careful);
    let error = TlsError::WrongName {
        expected: "127.0.0.1".into(),
        presented: vec!["DnsName(\"node3.lab\")".into()],
    };
    assert_eq!(here, LinkCause::Tls(error));
    assert!(is_refused_by(&there, "BadCertificate"), "{there}");

    let any = lab.transport(Tcp::loopback(), PeerNames::Any);
    assert!(admitted(&listening, &any).is_ok());
    // A place that names no host can be dialled so alone.
    let (inner, signed) = (Bridge::new(1000), lab.sign(|_| ()));
    let of = |names| Tls::over(inner.clone(), &lab.credentials(&signed), names).unwrap();
    let link = admitted(&of(PeerNames::Any), &of(PeerNames::Any)).unwrap();
    assert_eq!(&*link.name, "tls over bridge to process 3 at 1");
    let error = admitted(&of(PeerNames::Any), &of(PeerNames::Dialed)).unwrap_err();
    let connect_at = "2".to_owned();
    assert_eq!(error.cause, LinkCause::Tls(TlsError::NoName { connect_at }));
    // Any name, but of this authority.
    let alien = Lab::new();
    let alien = process(&lab, &alien.sign(|_| ()));
    assert_eq!(refused(&alien, &any)[1], LinkCause::Tls(TlsError::UnknownIssuer));
}

/// The link that a dialer gets.
fn admitted(listening: &dyn Transport, dialing: &dyn Transport) -> Result<Link, LinkError> {
    run(async {
        let mut listener = listener(listening).await;
        let to = at(listener.connect_at());
        let worker = identity(Role::Worker);
        let admit = async {
            let _link = first_arrival(&mut listener)
                .await
                .welcome(&welcome())
                .await
                .unwrap();
            std::future::pending().await
        };
        tokio::select! {
            dialed = dial(dialing, &to, &worker) => dialed,
            never = admit => never,
        }
    })
}

/// A certificate does not stand in for the cookie.
#[test]
fn a_process_with_a_certificate_and_another_cookie_is_refused() {
    let lab = Lab::new();
    let transport = process(&lab, &lab.sign(|_| ()));
    let [there, here] = refused_as(&transport, &transport, &stranger());
    assert_eq!(there, LinkCause::Handshake(HandshakeError::WrongCookie));
    assert_eq!(here, LinkCause::HungUp);
}

/// What listener and dialer say of a link through a process that hands on what each says.
fn through(
    listening: &dyn Transport,
    middle: &dyn Transport,
    dialing: &dyn Transport,
) -> [Option<LinkCause>; 2] {
    run(async {
        let mut listener = listener(listening).await;
        let (behind, mut acceptor) = (at(listener.connect_at()), middle.listen().await.unwrap());
        let (to, worker) = (at(acceptor.connect_at()), identity(Role::Worker));
        let there = async {
            let arrival = listener.next().await?;
            arrival.welcome(&welcome()).await
        };
        let hand_on = async {
            let (here, there) = (
                accept(&mut *acceptor).await,
                middle.connect(&behind).await.unwrap(),
            );
            join!(pass(here.reader, there.writer), pass(there.reader, here.writer));
        };
        let cause = |result: Result<Link, LinkError>| result.err().map(|error| error.cause);
        // A link is closed as soon as it is made, which ends what hands it on.
        let there = async { cause(there.await) };
        let here = async { cause(dial(dialing, &to, &worker).await) };
        let (there, here, ()) = join!(there, here, hand_on);
        [there, here]
    })
}

async fn pass(mut from: ReadHalf, mut to: WriteHalf) {
    let _ = copy(&mut from, &mut to).await;
}

/// The process ends a session of TLS with each side, by certificates that both believe. The cookie is right.
#[test]
fn a_process_in_the_middle_is_refused_although_its_certificates_are_good() {
    let lab = Lab::new();
    let [listening, middle, dialing] = [(); 3].map(|()| process(&lab, &lab.sign(|_| ())));
    let wrong = LinkCause::Handshake(HandshakeError::WrongCookie);
    assert_eq!(
        through(&listening, &middle, &dialing),
        [Some(wrong), Some(LinkCause::HungUp)]
    );
    // One that does not look into the stream changes nothing, and without TLS nobody notices one that does.
    assert_eq!(through(&listening, &Tcp::loopback(), &dialing), [None, None]);
    assert_eq!(
        through(&Tcp::loopback(), &Tcp::loopback(), &Tcp::loopback()),
        [None, None]
    );
}

#[test]
fn plain_streams_and_tls_refuse_each_other_and_say_so() {
    let (secure, plain) = (super::tls(), Tcp::loopback());
    let [there, here] = refused(&secure, &plain);
    assert_eq!(
        (there, here),
        (LinkCause::Tls(TlsError::NotTls), LinkCause::SpeaksTls)
    );
    let [there, here] = refused(&plain, &secure);
    assert_eq!(
        (there, here),
        (LinkCause::SpeaksTls, LinkCause::Tls(TlsError::HungUp))
    );
}

/// What no process of selvedge would say.
#[test]
fn noise_is_no_tls() {
    let secure = super::tls();
    run(async {
        let mut listener = listener(&secure).await;
        let mut stream = TcpStream::connect(listener.connect_at()).await.unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(
            refusal(&mut listener).await.cause,
            LinkCause::Tls(TlsError::NotTls)
        );
    });
}
