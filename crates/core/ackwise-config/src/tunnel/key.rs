//! Keys as text, in the form that `wg` prints and reads: base64 of 32 bytes.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Writes a 32-byte key as base64 with padding: 44 characters.
#[must_use]
pub fn key_to_base64(key: &[u8; 32]) -> String {
    STANDARD.encode(key)
}

/// Reads a key that was written as base64. Returns `None` if the text is not the canonical
/// base64 of exactly 32 bytes.
#[must_use]
pub fn key_from_base64(text: &str) -> Option<[u8; 32]> {
    STANDARD.decode(text).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_as_wireguard_writes_them() {
        // Alice's key pair in RFC 7748 §6.1, as `wg` prints the public key.
        let public = [
            0x85, 0x20, 0xf0, 0x09, 0x89, 0x30, 0xa7, 0x54, 0x74, 0x8b, 0x7d, 0xdc, 0xb4, 0x3e,
            0xf7, 0x5a, 0x0d, 0xbf, 0x3a, 0x0d, 0x26, 0x38, 0x1a, 0xf4, 0xeb, 0xa4, 0xa9, 0x8e,
            0xaa, 0x9b, 0x4e, 0x6a,
        ];
        let text = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
        assert_eq!(key_to_base64(&public), text);
        assert_eq!(key_from_base64(text), Some(public));
    }

    #[test]
    fn text_that_is_not_canonical_base64_of_32_bytes_is_refused() {
        let key = key_to_base64(&[0xa5; 32]);
        for text in [
            "",
            &key[..40],
            key.trim_end_matches('='),
            &format!("{key}\n"),
            &format!("AAAA{key}"),
            // The two bits after the last byte are not zero.
            "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB=",
            &"0".repeat(64),
        ] {
            assert_eq!(key_from_base64(text), None, "{text:?}");
        }
    }
}
