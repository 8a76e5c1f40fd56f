//! Signature of login tokens: HMAC-SHA256 for the crate `jsonwebtoken`, from the same crates as
//! every other signature in this project. Not for the content of tokens.

use hmac::{Hmac, Mac as _};
use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{self, Signer, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, EncodingKey};
use sha2::Sha256;

/// Crypto provider that supports HS256 only: a token with another algorithm is refused.
// The built-in providers of `jsonwebtoken` bring a second TLS library, or RSA and curves with an
// open advisory. Decision 0052.
static HS256: CryptoProvider = CryptoProvider {
    signer_factory: |algorithm, key| Ok(Box::new(signing(*algorithm, key)?)),
    verifier_factory: |algorithm, key| Ok(Box::new(checking(*algorithm, key)?)),
    key_utils: KeyUtils::new_unimplemented(),
};

/// Installs the signature for the whole process. Further calls have no effect.
pub(super) fn choose_provider() {
    // Fails only if a provider is already installed.
    HS256.install_default().ok();
}

/// Signature with one key.
struct Hs256(Hmac<Sha256>);

fn signing(algorithm: Algorithm, key: &EncodingKey) -> Result<Hs256> {
    Hs256::new(algorithm, key.family(), key.as_bytes())
}

fn checking(algorithm: Algorithm, key: &DecodingKey) -> Result<Hs256> {
    Hs256::new(algorithm, key.family(), key.try_get_as_bytes()?)
}

impl Hs256 {
    fn new(algorithm: Algorithm, family: AlgorithmFamily, key: &[u8]) -> Result<Self> {
        if (algorithm, family) != (Algorithm::HS256, AlgorithmFamily::Hmac) {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        let mac = Hmac::new_from_slice(key);
        Ok(Self(mac.map_err(|_| ErrorKind::InvalidKeyFormat)?))
    }
}

impl Signer<Vec<u8>> for Hs256 {
    fn try_sign(&self, message: &[u8]) -> std::result::Result<Vec<u8>, signature::Error> {
        Ok(self.0.clone().chain_update(message).finalize().into_bytes().to_vec())
    }
}

impl Verifier<Vec<u8>> for Hs256 {
    /// Compares in constant time.
    fn verify(
        &self,
        message: &[u8],
        signature: &Vec<u8>,
    ) -> std::result::Result<(), signature::Error> {
        let expected = self.0.clone().chain_update(message);
        expected.verify_slice(signature).map_err(signature::Error::from_source)
    }
}

impl JwtSigner for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

impl JwtVerifier for Hs256 {
    fn algorithm(&self) -> Algorithm {
        Algorithm::HS256
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use jsonwebtoken::{Header, Validation, decode, encode};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_signature_is_that_of_rfc_7515() {
        choose_provider();
        // Appendix A.1 of RFC 7515: key, token and its claims.
        let key = "AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow";
        let token = "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let mut rules = Validation::new(Algorithm::HS256);
        rules.validate_exp = false;
        let key = EncodingKey::from_secret(&URL_SAFE_NO_PAD.decode(key).unwrap());
        let checking = DecodingKey::from_secret(key.as_bytes());
        let claims = decode::<Value>(token, &checking, &rules).unwrap().claims;
        assert_eq!(claims["iss"], "joe");
        let forged = token.replace("dBjft", "dBjfs");
        assert!(decode::<Value>(&forged, &checking, &rules).is_err());
        let signed = encode(&Header::new(Algorithm::HS256), &json!({"exp": 1}), &key).unwrap();
        assert!(decode::<Value>(&signed, &checking, &rules).is_ok());
        assert!(encode(&Header::new(Algorithm::HS384), &json!({}), &key).is_err());
    }
}
