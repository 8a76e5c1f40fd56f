//! Sha256 of files, in lower-case hex, computed off the async threads. Not for the expected hashes.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use sha2::{Digest, Sha256};

use super::error::ModelError;

const CHUNK_BYTES: usize = 1 << 20;

/// Renders bytes as lower-case hex.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

/// Computes the sha256 of a file.
pub(super) async fn of_file(path: &Path) -> Result<String, ModelError> {
    let path = path.to_owned();
    tokio::task::spawn_blocking(move || read(&path))
        .await
        .map_err(|e| ModelError::lost("hashing a file", &e))?
}

fn read(path: &Path) -> Result<String, ModelError> {
    let mut file = File::open(path).map_err(ModelError::at(path))?;
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = file.read(&mut chunk).map_err(ModelError::at(path))?;
        if count == 0 {
            return Ok(hex(&hasher.finalize()));
        }
        hasher.update(&chunk[..count]);
    }
}

/// Checks a file against its sha256, and deletes the file if it differs.
pub(super) async fn check(path: &Path, what: &str, expected: &str) -> Result<(), ModelError> {
    let actual = of_file(path).await?;
    if actual == expected {
        return Ok(());
    }
    std::fs::remove_file(path).map_err(ModelError::at(path))?;
    Err(ModelError::Corrupt { what: what.to_owned(), expected: expected.to_owned(), actual })
}
