//! An authority in memory, and what it gives to each process.

use std::fmt;
use std::io::{self, Read};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

use super::{Credentials, CredentialsError};
use crate::handshake::wipe;

/// An authority for the processes of one runtime. The process that has made it signs a certificate for each of the others, and
/// none of them signs any. The key of the authority lives in the memory of that process alone, so whatever it has signed is of this
/// cluster: [`PeerNames::Any`](super::PeerNames::Any) is sound.
pub struct Issuer(CertifiedIssuer<'static, KeyPair>);

impl Issuer {
    /// Makes an authority.
    ///
    /// # Errors
    /// [`CredentialsError::Unusable`]: the system gives no random numbers.
    pub fn new() -> Result<Self, CredentialsError> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let names = &mut authority.distinguished_name;
        names.push(DnType::CommonName, "selvedge runtime");
        let key = KeyPair::generate().map_err(CredentialsError::unusable)?;
        let issuer = CertifiedIssuer::self_signed(authority, key);
        issuer.map(Issuer).map_err(CredentialsError::unusable)
    }

    /// Makes a key for a process, and signs its certificate.
    ///
    /// # Errors
    /// [`CredentialsError::Unusable`].
    pub fn issue(&self) -> Result<CredentialTexts, CredentialsError> {
        let key = KeyPair::generate().map_err(CredentialsError::unusable)?;
        let mut process = CertificateParams::default();
        let names = &mut process.distinguished_name;
        names.push(DnType::CommonName, "selvedge process");
        let signed = process.signed_by(&key, &self.0);
        Ok(CredentialTexts {
            chain: signed.map_err(CredentialsError::unusable)?.pem().into_bytes(),
            key: SecretText(key.serialize_pem().into_bytes()),
            authority: self.0.pem().into_bytes(),
        })
    }
}

impl fmt::Debug for Issuer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Issuer(..)")
    }
}

/// The bytes of one text at most.
const TEXT_BYTES_MAX: usize = 64 << 10;
/// The bytes of the line in front of the texts at most.
const LINE_BYTES_MAX: u64 = 64;

/// Credentials on their way to a process: three texts in the format PEM, which is how its standard input brings them. The
/// key cannot be printed, and its memory is overwritten when it is dropped.
pub struct CredentialTexts {
    chain: Vec<u8>,
    key: SecretText,
    authority: Vec<u8>,
}

/// A text whose memory is overwritten when it is dropped.
pub struct SecretText(Vec<u8>);

impl CredentialTexts {
    /// The credentials.
    ///
    /// # Errors
    /// A [`CredentialsError`] that is not about files.
    pub fn credentials(&self) -> Result<Credentials, CredentialsError> {
        Credentials::parse(&self.chain, &self.key.0, &self.authority)
    }

    /// The texts as bytes: a line with their three lengths, and then the texts.
    pub fn to_bytes(&self) -> SecretText {
        let texts = [&self.chain, &self.key.0, &self.authority];
        let line = format!("{} {} {}\n", texts[0].len(), texts[1].len(), texts[2].len());
        // The memory never grows, which would leave a copy behind.
        let bytes = line.len() + texts.iter().map(|text| text.len()).sum::<usize>();
        let mut all = Vec::with_capacity(bytes);
        all.extend(line.bytes());
        texts.iter().for_each(|text| all.extend(text.iter()));
        SecretText(all)
    }

    /// Reads what [`to_bytes`](Self::to_bytes) has written, and no byte more.
    ///
    /// # Errors
    /// The input ends before the texts do, or has other bytes.
    pub fn read(input: &mut dyn Read) -> io::Result<Self> {
        let mut line = Vec::new();
        let mut byte = [0];
        while line.len() as u64 <= LINE_BYTES_MAX {
            input.read_exact(&mut byte)?;
            let [read] = byte;
            if read == b'\n' {
                break;
            }
            line.push(read);
        }
        let damaged = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "no credentials come behind the cookie",
            )
        };
        let line = String::from_utf8(line).map_err(|_| damaged())?;
        let lengths: Vec<usize> = line.split(' ').filter_map(|length| length.parse().ok()).collect();
        let [chain, key, authority] = lengths[..] else {
            return Err(damaged());
        };
        if [chain, key, authority]
            .iter()
            .any(|length| *length > TEXT_BYTES_MAX)
        {
            return Err(damaged());
        }
        let mut text = |length| {
            let mut text = SecretText(vec![0; length]);
            input.read_exact(&mut text.0).map(|()| text)
        };
        let (mut chain, key, mut authority) = (text(chain)?, text(key)?, text(authority)?);
        Ok(CredentialTexts {
            chain: std::mem::take(&mut chain.0),
            key,
            authority: std::mem::take(&mut authority.0),
        })
    }
}

impl fmt::Debug for CredentialTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CredentialTexts(..)")
    }
}

impl AsRef<[u8]> for SecretText {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SecretText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretText(..)")
    }
}

impl Drop for SecretText {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_read_as_they_were_written_and_nothing_behind_them_is_taken() {
        let texts = Issuer::new().unwrap().issue().unwrap();
        let written = [texts.to_bytes().as_ref(), b"behind"].concat();
        let mut input = written.as_slice();
        let read = CredentialTexts::read(&mut input).unwrap();
        assert_eq!(input, b"behind");
        assert_eq!(read.to_bytes().as_ref(), texts.to_bytes().as_ref());
        read.credentials().unwrap();
    }

    #[test]
    fn bytes_that_are_no_credentials_are_refused() {
        let texts = Issuer::new().unwrap().issue().unwrap();
        let written = texts.to_bytes();
        let cut = &written.as_ref()[..written.as_ref().len() - 1];
        let far_too_long = format!("1 2 {}\n", TEXT_BYTES_MAX + 1);
        let endless = [b'1'; 1000];
        for bytes in [
            &b""[..],
            b"1 2\n",
            b"1 2 x\n",
            far_too_long.as_bytes(),
            &endless,
            cut,
        ] {
            assert!(CredentialTexts::read(&mut &bytes[..]).is_err());
        }
    }
}
