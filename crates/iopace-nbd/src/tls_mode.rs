//! Whether a server encrypts.

/// Whether clients may, or must, encrypt the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// There is no encryption.
    #[default]
    Off,
    /// Clients may ask for it.
    Allow,
    /// Without it, nothing can be asked for but encryption.
    Require,
}
