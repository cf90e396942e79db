//! The public part of sealed bytes: see src/contribution.rs.

/// Magic, version, purpose, generation and nonce; empty for an empty contribution.
pub fn head(sealed: &[u8]) -> &[u8] {
    &sealed[..sealed.len().min(37)]
}

/// The nonce, which no two messages with one key may share.
pub fn nonce(sealed: &[u8]) -> &[u8] {
    &head(sealed)[13..]
}
