//! Space that the recordings of one folder take, and the deletion of the oldest ones beyond a limit.
//! Not for writing recordings, nor for deleting those of a device.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use super::EXTENSION;

/// Size of a block of the disk, in bytes: each file takes whole blocks.
const BLOCK_BYTES: u64 = 4_096;
/// Divisor of the limit: this part of it is freed at a time, so that the folder is rarely read.
const FREED_PART: u64 = 10;
/// Length of the time in a file's name, such as `20260131T235959Z`.
const TIME_BYTES: usize = 16;

/// Space of the recordings of one folder, in bytes.
pub(super) struct Space {
    limit: u64,
    used: u64,
}

struct Stored {
    path: PathBuf,
    bytes: u64,
}

impl Space {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, used: 0 }
    }

    /// Returns true if the recordings take more than the limit.
    pub(super) fn is_exceeded(&self) -> bool {
        self.used > self.limit
    }

    /// Counts bytes that were added to a file which had `before`.
    pub(super) fn add(&mut self, before: u64, added: u64) {
        self.used += on_disk(before + added) - on_disk(before);
    }

    /// Counts the recordings in the folder.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn count(&mut self, folder: &Path) -> io::Result<()> {
        self.stored(folder).map(drop)
    }

    /// Counts the recordings in the folder, and deletes the oldest ones beyond the limit, except
    /// those in progress. Returns true if the rest is within the limit.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn free(
        &mut self,
        folder: &Path,
        in_progress: &HashSet<PathBuf>,
    ) -> io::Result<bool> {
        let mut stored = self.stored(folder)?;
        if !self.is_exceeded() {
            return Ok(true);
        }
        // The names start with the time.
        stored.sort_by(|a, b| a.path.file_name().cmp(&b.path.file_name()));
        let wanted = self.limit - self.limit / FREED_PART;
        let mut deleted = 0_u32;
        for Stored { path, bytes } in stored {
            if self.used <= wanted {
                break;
            }
            if in_progress.contains(&path) {
                continue;
            }
            match std::fs::remove_file(&path) {
                Ok(()) => {
                    self.used -= bytes;
                    deleted += 1;
                }
                Err(error) => {
                    tracing::error!(file = %path.display(), %error, "cannot delete a recording");
                }
            }
        }
        if deleted > 0 {
            tracing::info!(deleted, "deleted the oldest recordings (`server.max_recordings_mib`)");
        }
        Ok(!self.is_exceeded())
    }

    /// Returns the recordings in the folder, and counts them.
    fn stored(&mut self, folder: &Path) -> io::Result<Vec<Stored>> {
        let mut stored = Vec::new();
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            if !entry.file_name().to_str().is_some_and(is_recording) {
                continue;
            }
            // Without metadata, the file was deleted in the meantime.
            if let Ok(metadata) = entry.metadata()
                && metadata.is_file()
            {
                stored.push(Stored { path: entry.path(), bytes: on_disk(metadata.len()) });
            }
        }
        self.used = stored.iter().map(|stored| stored.bytes).sum();
        Ok(stored)
    }
}

/// Returns the space that a file of this size takes.
fn on_disk(bytes: u64) -> u64 {
    bytes.div_ceil(BLOCK_BYTES) * BLOCK_BYTES
}

/// Returns true if a file has the name of a recording. The folder may contain other files, which
/// must not be deleted.
fn is_recording(name: &str) -> bool {
    let stem = name.strip_suffix(EXTENSION).unwrap_or_default();
    let parts: Vec<&str> = stem.split('-').collect();
    let [time, device, id] = parts[..] else { return false };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let is_time = |text: &str| {
        let day_and_time = text.strip_suffix('Z').and_then(|text| text.split_once('T'));
        text.len() == TIME_BYTES
            && day_and_time
                .is_some_and(|(day, time)| day.len() == 8 && is_number(day) && is_number(time))
    };
    let is_device = !device.is_empty() && device.bytes().all(|b| b.is_ascii_alphanumeric());
    (is_time(time) || time == "unknown") && is_device && is_number(id)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::file_name;
    use super::*;

    #[test]
    fn only_files_with_the_name_of_a_recording_count() {
        for device in [None, Some("02:00:00:00:00:0a"), Some("../.."), Some("客厅"), Some("a-b")]
        {
            assert!(is_recording(&file_name(device, 7)), "{device:?}");
        }
        for name in [
            "",
            ".jsonl",
            "notes.jsonl",
            "zh_what_is_this.jsonl",
            "20260131T235959Z-a-1.json",
            "20260131T235959Z-a.jsonl",
            "20260131T235959Z-a-b-1.jsonl",
            "20260131T235959Z--1.jsonl",
            "20260131T235959Z-a-.jsonl",
            "20260131T235959Z-a-x.jsonl",
            "20260131T23595Z-a-1.jsonl",
            "2026013T2359590Z-a-1.jsonl",
            "客客客客客客-a-1.jsonl",
        ] {
            assert!(!is_recording(name), "{name}");
        }
    }

    /// Names in a folder, sorted.
    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_oldest_recordings_are_deleted_and_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let recording = |hour: u32| format!("20260131T{hour:02}0000Z-a-1.jsonl");
        for hour in 0..20 {
            // Each takes a block, however small it is.
            fs::write(folder.path().join(recording(hour)), "x").unwrap();
        }
        let other = "00-of-the-owner.jsonl".to_owned();
        fs::write(folder.path().join(&other), vec![0; 1 << 20]).unwrap();
        let in_progress: HashSet<PathBuf> = [folder.path().join(recording(1))].into();
        let mut space = Space::new(20 * BLOCK_BYTES);
        assert!(space.free(folder.path(), &in_progress).unwrap());
        assert_eq!(names(folder.path()).len(), 21, "all are within the limit");
        let mut space = Space::new(10 * BLOCK_BYTES);
        assert!(space.free(folder.path(), &in_progress).unwrap());
        let mut left: Vec<String> = [1].into_iter().chain(12..20).map(recording).collect();
        left.insert(0, other.clone());
        assert_eq!(names(folder.path()), left, "a tenth of the limit is free");
        let mut space = Space::new(0);
        assert!(!space.free(folder.path(), &in_progress).unwrap());
        assert_eq!(names(folder.path()), [other, recording(1)]);
    }
}
