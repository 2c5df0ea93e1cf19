//! The name of a client, as its certificate says it.

use crate::printable::is_commanding;
use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::asn1::{Ia5StringRef, PrintableStringRef, Utf8StringRef};
use x509_cert::der::oid::ObjectIdentifier;
use x509_cert::der::{Any, Decode};

/// `id-at-commonName` of X.520.
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Longest name in bytes: that of a group. X.520 has 64 characters.
const LEN_MAX: usize = 255;

/// The common name of a certificate. `None` if it has none or several, or one that is no text for
/// people: empty, too long, or with characters that command a terminal.
pub(crate) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let parts = certificate.tbs_certificate.subject.0.iter().flat_map(|part| part.0.iter());
    let mut names = parts.filter(|part| part.oid == COMMON_NAME);
    let (Some(name), None) = (names.next(), names.next()) else { return None };
    let name = text(&name.value)?;
    let is_legal = (1..=LEN_MAX).contains(&name.len()) && !name.contains(is_commanding);
    is_legal.then_some(name)
}

fn text(value: &Any) -> Option<String> {
    let utf8 = value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str().to_owned());
    let printable =
        || value.decode_as::<PrintableStringRef<'_>>().map(|text| text.as_str().to_owned());
    let ia5 = || value.decode_as::<Ia5StringRef<'_>>().map(|text| text.as_str().to_owned());
    utf8.or_else(|_| printable()).or_else(|_| ia5()).ok()
}
