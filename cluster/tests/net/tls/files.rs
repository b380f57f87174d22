//! Certificates and keys in files.

use std::fs;
use std::path::PathBuf;

use selvedge_cluster::net::{Credentials, CredentialsError, PeerNames, Tcp, Tls};

use super::{Lab, Signed};

/// A directory with the files of a process, which is removed in the end.
pub(super) struct Files(PathBuf);

impl Files {
    pub(super) fn new(name: &str, lab: &Lab, signed: &Signed) -> Self {
        let path = std::env::temp_dir().join(format!("selvedge-tls-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        let files = Files(path);
        for (name, content) in [
            ("chain", &signed.chain),
            ("key", &signed.key),
            ("authority", &lab.pem()),
        ] {
            fs::write(files.path(name), content).unwrap();
        }
        files.permit(0o600);
        files
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Changes the permissions of the key.
    #[cfg(unix)]
    fn permit(&self, mode: u32) {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(self.path("key"), fs::Permissions::from_mode(mode)).unwrap();
    }

    #[cfg(not(unix))]
    fn permit(&self, _: u32) {}

    fn read(&self) -> Result<Credentials, CredentialsError> {
        Credentials::read(self.path("chain"), self.path("key"), self.path("authority"))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
#[cfg(unix)]
fn a_key_that_others_may_read_is_refused_and_certificates_may_be_read_by_all() {
    let lab = Lab::new();
    let files = Files::new("shared", &lab, &lab.sign(|_| ()));
    for mode in [0o640, 0o604, 0o644, 0o620] {
        files.permit(mode);
        let error = files.read().unwrap_err();
        assert!(
            matches!(error, CredentialsError::Exposed { mode: found, .. } if found == mode),
            "{error}"
        );
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
    for mode in [0o600, 0o400] {
        files.permit(mode);
        files.read().unwrap();
    }
}

#[test]
fn files_that_are_no_credentials_are_refused_by_name() {
    let lab = Lab::new();
    let (signed, other) = (lab.sign(|_| ()), lab.sign(|_| ()));
    let files = Files::new("wrong", &lab, &signed);
    let refused = |name: &str, content: &str| {
        let before = fs::read(files.path(name)).unwrap();
        fs::write(files.path(name), content).unwrap();
        let error = files.read().unwrap_err();
        fs::write(files.path(name), before).unwrap();
        error
    };
    let error = refused("key", &other.key);
    assert!(matches!(error, CredentialsError::Mismatch), "{error}");
    for name in ["chain", "authority"] {
        let error = refused(name, &signed.key);
        assert!(
            matches!(&error, CredentialsError::NoCertificate { place } if place.contains(name)),
            "{error}"
        );
    }
    let error = refused("key", &signed.chain);
    assert!(matches!(error, CredentialsError::NoKey { .. }), "{error}");
    let torn = signed.key.split_at(60).0;
    for (name, content) in [("key", torn.to_owned()), ("chain", "-".repeat((1 << 20) + 1))] {
        let error = refused(name, &content);
        assert!(
            matches!(&error, CredentialsError::Malformed { place } if place.contains(name)),
            "{error}"
        );
    }
    let error = Credentials::read(files.path("chain"), files.path("key"), files.path("none")).unwrap_err();
    assert!(matches!(error, CredentialsError::Unreadable { .. }), "{error}");
    let error = Credentials::read(files.path("chain"), &files.0, files.path("authority")).unwrap_err();
    assert!(matches!(error, CredentialsError::NotAFile { .. }), "{error}");
    files.read().unwrap();
}

#[test]
fn no_byte_of_a_key_is_shown() {
    let lab = Lab::new();
    let signed = lab.sign(|_| ());
    let credentials = lab.credentials(&signed);
    let transport = Tls::over(Tcp::loopback(), &credentials, PeerNames::Any).unwrap();
    assert_eq!(
        format!("{credentials:?} {transport:?}"),
        "Credentials { certificates: 1, authorities: 1, .. } Tls { name: \"tls over tcp\", names: Any, .. }"
    );
    // A line of the key that is damaged.
    let line = signed.key.lines().nth(1).unwrap();
    let damaged = signed.key.replacen(line, &format!("{line}!"), 1);
    let error =
        Credentials::parse(signed.chain.as_bytes(), damaged.as_bytes(), lab.pem().as_bytes()).unwrap_err();
    assert!(!format!("{error} {error:?}").contains(&line[..8]), "{error}");
}
