//! State of a model's folder: the record of verified files, which is written last, the quick check,
//! and the thorough check. Not for creating the folder.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::catalogue::{Model, ModelFile};
use super::error::ModelError;
use super::hash;

const FILE_NAME: &str = ".stamp";

/// Record of the files in a model's folder, written when all of them were present.
#[derive(Debug, Serialize, Deserialize)]
struct VerifiedFiles {
    /// Digest of the catalogue entry.
    entry: String,
    /// Name, length and sha256 of each file at that time.
    files: Vec<StampedFile>,
}

#[derive(Debug, Serialize, Deserialize)]
struct StampedFile {
    path: String,
    bytes: u64,
    sha256: String,
}

/// Result of a thorough check of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileState {
    /// The hash matches the catalogue.
    Good,
    /// The file does not exist.
    Missing,
    /// The file has changed.
    Changed {
        /// Expected sha256, in hex.
        expected: String,
        /// Actual sha256, in hex.
        actual: String,
    },
}

/// Result for one file of one model.
#[derive(Debug, Clone)]
pub struct FileReport {
    /// Name of the model.
    pub model: String,
    /// Name of the file inside the model's folder.
    pub file: String,
    /// Result of the check.
    pub state: FileState,
}

/// Returns the folder of a model.
pub fn folder(root: &Path, model: &Model) -> PathBuf {
    root.join(&model.name)
}

fn read(folder: &Path) -> Option<VerifiedFiles> {
    let text = std::fs::read_to_string(folder.join(FILE_NAME)).ok()?;
    serde_json::from_str(&text).ok()
}

/// Returns true if the model is complete and up to date. Checks names and lengths only.
pub fn is_ready(root: &Path, model: &Model) -> bool {
    let folder = folder(root, model);
    read(&folder).is_some_and(|stamp| {
        stamp.entry == model.digest()
            && stamp.files.iter().all(|file| {
                std::fs::metadata(folder.join(&file.path))
                    .is_ok_and(|metadata| metadata.len() == file.bytes)
            })
    })
}

/// Hashes every file in `folder`, which is or becomes the finished model, and writes the record.
/// Returns the total length in bytes.
pub(super) async fn write(folder: &Path, model: &Model) -> Result<u64, ModelError> {
    let mut files = Vec::new();
    for file in model.files() {
        let path = folder.join(&file.path);
        let what = format!("model {}: {}", model.name, file.path);
        hash::check(&path, &what, &file.sha256).await?;
        let bytes = std::fs::metadata(&path).map_err(ModelError::at(&path))?.len();
        files.push(StampedFile { path: file.path, bytes, sha256: file.sha256 });
    }
    let total = files.iter().map(|file| file.bytes).sum();
    let stamp = VerifiedFiles { entry: model.digest(), files };
    let text =
        serde_json::to_string_pretty(&stamp).map_err(|e| ModelError::Catalogue(e.to_string()))?;
    let path = folder.join(FILE_NAME);
    let fresh = folder.join(".stamp.new");
    std::fs::write(&fresh, text).map_err(ModelError::at(&fresh))?;
    std::fs::rename(&fresh, &path).map_err(ModelError::at(&path))?;
    Ok(total)
}

/// Returns true if a folder without a record contains every byte nevertheless. Only reads.
pub(super) async fn is_complete(root: &Path, model: &Model) -> Result<bool, ModelError> {
    if !folder(root, model).is_dir() {
        return Ok(false);
    }
    let reports = inspect(root, model).await?;
    Ok(reports.iter().all(|report| report.state == FileState::Good))
}

/// Hashes every file of a model and returns a report for each.
///
/// # Errors
/// [`ModelError::Io`] when a file exists but cannot be read.
pub async fn inspect(root: &Path, model: &Model) -> Result<Vec<FileReport>, ModelError> {
    let folder = folder(root, model);
    let mut reports = Vec::new();
    for file in model.files() {
        let state = state(&folder, &file).await?;
        reports.push(FileReport { model: model.name.clone(), file: file.path, state });
    }
    Ok(reports)
}

async fn state(folder: &Path, file: &ModelFile) -> Result<FileState, ModelError> {
    let path = folder.join(&file.path);
    if !path.is_file() {
        return Ok(FileState::Missing);
    }
    let actual = hash::of_file(&path).await?;
    Ok(match file.sha256.clone() {
        expected if expected != actual => FileState::Changed { expected, actual },
        _ => FileState::Good,
    })
}
