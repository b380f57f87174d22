//! TLS over other transports. The certificates are made by each test.

mod deadline;
mod direction;
mod files;
mod process;
mod refused;
mod wire;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use selvedge_cluster::net::{Credentials, PeerNames, Tcp, Tls, Transport};

/// An authority that signs certificates.
pub(crate) struct Lab(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in the format PEM.
pub(crate) struct Signed {
    pub(crate) chain: String,
    pub(crate) key: String,
}

impl Lab {
    pub(crate) fn new() -> Self {
        let mut lab = CertificateParams::new([]).unwrap();
        lab.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Lab(CertifiedIssuer::self_signed(lab, KeyPair::generate().unwrap()).unwrap())
    }

    /// A certificate for the loopback interface, changed so.
    pub(crate) fn sign(&self, change: impl FnOnce(&mut CertificateParams)) -> Signed {
        let key = KeyPair::generate().unwrap();
        let mut certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
        change(&mut certificate);
        Signed {
            chain: certificate.signed_by(&key, &self.0).unwrap().pem(),
            key: key.serialize_pem(),
        }
    }

    pub(crate) fn pem(&self) -> String {
        self.0.pem()
    }

    /// The credentials of a process that shows this certificate and believes this authority.
    pub(crate) fn credentials(&self, signed: &Signed) -> Credentials {
        let Signed { chain, key } = signed;
        Credentials::parse(chain.as_bytes(), key.as_bytes(), self.pem().as_bytes()).unwrap()
    }

    /// A transport for a process with a certificate of its own.
    pub(crate) fn transport(&self, inner: impl Transport + 'static, names: PeerNames) -> Tls {
        Tls::over(inner, &self.credentials(&self.sign(|_| ())), names).unwrap()
    }
}

/// TLS over TCP, as a process uses it.
pub(crate) fn tls() -> Tls {
    Lab::new().transport(Tcp::loopback(), PeerNames::Dialed)
}
