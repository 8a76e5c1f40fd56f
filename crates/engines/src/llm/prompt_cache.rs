//! Prompts that a model has read, stored in files, so that it need not read them again after a
//! restart. Each prompt has two files in a folder: the state of the model, and a description with
//! the tokens. Not for the content of a state, nor for deciding which prompts are worth storing.
//!
//! - A state is read only if its length and hash are the recorded ones, and the same model wrote
//!   it. A state during whose loading the process ended is not tried again.
//! - The folder is limited in files and bytes; the least recently used prompts are removed.

use std::fs::{self, File, FileTimes};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use hearken_base::private_files;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Maximum number of stored prompts.
const MOST_PROMPTS: usize = 16;
/// Maximum size of all states together, in bytes.
const MOST_BYTES: u64 = 512 << 20;
/// File extensions: the state, its description, and either of them while it is written.
const STATE: &str = "state";
const DESCRIPTION: &str = "json";
const DRAFT: &str = "draft";

/// Description of a stored prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Description {
    /// Identity of the model that produced the state, which no other model can use.
    model: String,
    tokens: Vec<i32>,
    bytes: u64,
    sha256: String,
}

#[derive(Debug)]
struct Entry {
    name: String,
    description: Description,
    used: SystemTime,
}

/// Stored prompts of one folder.
#[derive(Debug)]
pub struct PromptCache {
    folder: PathBuf,
    model: String,
    entries: Vec<Entry>,
}

impl PromptCache {
    /// Opens the folder, which is created for its owner only. `model` names the model and
    /// everything else that a state depends on. Removes the remains of incomplete writes.
    ///
    /// # Errors
    /// The folder cannot be created or read.
    pub fn open(folder: &Path, model: &str) -> io::Result<Self> {
        private_files::create_folder(folder)?;
        let mut entries = Vec::new();
        for file in fs::read_dir(folder)? {
            let file = file?.path();
            match file.extension().and_then(|end| end.to_str()) {
                Some(DESCRIPTION) => match read(&file) {
                    Ok(entry) if file.with_extension(STATE).exists() => entries.push(entry),
                    _ => [&file, &file.with_extension(STATE)].into_iter().for_each(|f| remove(f)),
                },
                Some(STATE) if file.with_extension(DESCRIPTION).exists() => {}
                Some(STATE | DRAFT) => remove(&file),
                _ => {}
            }
        }
        Ok(Self { folder: folder.to_owned(), model: model.to_owned(), entries })
    }

    /// Returns the length of the longest prefix, in tokens, that a stored prompt shares with this
    /// one, and the name of that prompt.
    pub fn longest(&self, prompt: &[i32]) -> Option<(usize, String)> {
        let ours = self.entries.iter().filter(|entry| entry.description.model == self.model);
        let common = ours.map(|entry| (common(&entry.description.tokens, prompt), &entry.name));
        let (most, name) = common.max_by_key(|(common, _)| *common)?;
        (most > 0).then(|| (most, name.clone()))
    }

    /// Returns the file with the state of this name, and its tokens, if it is unchanged.
    /// [`PromptCache::loaded`] or [`PromptCache::remove`] must follow. If neither does, because the
    /// process has ended, the next start removes the prompt.
    ///
    /// # Errors
    /// The file cannot be read, or was changed.
    pub fn state(&mut self, name: &str) -> io::Result<(PathBuf, Vec<i32>)> {
        let wrong = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        let file = self.file(name, STATE);
        let Some(entry) = self.entries.iter().find(|entry| entry.name == name) else {
            return Err(wrong("there is no such prompt"));
        };
        let (bytes, sha256) = measured(&file)?;
        if bytes != entry.description.bytes || sha256 != entry.description.sha256 {
            return Err(wrong("the file was changed"));
        }
        fs::rename(self.file(name, DESCRIPTION), self.file(name, DRAFT))?;
        Ok((file, entry.description.tokens.clone()))
    }

    /// Records that the state of this name was read successfully.
    ///
    /// # Errors
    /// Its description cannot be written; after the next start, the prompt is missing.
    pub fn loaded(&mut self, name: &str) -> io::Result<()> {
        let now = SystemTime::now();
        self.entries.iter_mut().filter(|entry| entry.name == name).for_each(|e| e.used = now);
        let description = self.file(name, DESCRIPTION);
        fs::rename(self.file(name, DRAFT), &description)?;
        // The next start derives the order of use from this time.
        let times = FileTimes::new().set_modified(now);
        File::options().write(true).open(description)?.set_times(times)
    }

    /// Stores a prompt; `save` writes its state to the given file. Does nothing if the prompt is
    /// already stored. Returns true if it was stored.
    ///
    /// # Errors
    /// It cannot be written; then no part of it remains.
    pub fn keep(
        &mut self,
        tokens: &[i32],
        save: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<bool> {
        let name = name(&self.model, tokens);
        if self.entries.iter().any(|entry| entry.name == name) {
            return Ok(false);
        }
        let draft = self.file(&name, DRAFT);
        let written = self.write(&name, &draft, tokens, save);
        if written.is_err() {
            self.remove(&name);
        }
        self.entries.push(written?);
        self.drop_surplus();
        Ok(true)
    }

    fn write(
        &self,
        name: &str,
        draft: &Path,
        tokens: &[i32],
        save: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<Entry> {
        remove(draft);
        // Readable by its owner only, regardless of the writer's defaults.
        private_files::create_new(draft)?;
        save(draft)?;
        let (bytes, sha256) = measured(draft)?;
        fs::rename(draft, self.file(name, STATE))?;
        let model = self.model.clone();
        let tokens = tokens.to_vec();
        let description = Description { model, tokens, bytes, sha256 };
        private_files::create_new(draft)?.write_all(&serde_json::to_vec(&description)?)?;
        fs::rename(draft, self.file(name, DESCRIPTION))?;
        Ok(Entry { name: name.to_owned(), description, used: SystemTime::now() })
    }

    /// Removes a prompt.
    pub fn remove(&mut self, name: &str) {
        self.entries.retain(|entry| entry.name != name);
        [DESCRIPTION, DRAFT, STATE].iter().for_each(|end| remove(&self.file(name, end)));
    }

    /// Removes the least recently used prompts, until the rest is within the limits.
    fn drop_surplus(&mut self) {
        loop {
            let bytes: u64 = self.entries.iter().map(|entry| entry.description.bytes).sum();
            let fits = self.entries.len() <= MOST_PROMPTS && bytes <= MOST_BYTES;
            let oldest = self.entries.iter().min_by_key(|entry| entry.used);
            let Some(name) = oldest.filter(|_| !fits).map(|entry| entry.name.clone()) else {
                return;
            };
            self.remove(&name);
        }
    }

    fn file(&self, name: &str, end: &str) -> PathBuf {
        self.folder.join(name).with_extension(end)
    }
}

/// Returns the length of the common prefix.
pub fn common<T: PartialEq>(a: &[T], b: &[T]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Returns a name that is unique to this prompt of this model.
fn name(model: &str, tokens: &[i32]) -> String {
    let mut hash = Sha256::new();
    hash.update(model);
    for token in tokens {
        hash.update(token.to_le_bytes());
    }
    hex(&hash.finalize()[..16])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the length and the hash of a file.
fn measured(file: &Path) -> io::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let bytes = io::copy(&mut File::open(file)?, &mut hash)?;
    Ok((bytes, hex(&hash.finalize())))
}

fn read(file: &Path) -> io::Result<Entry> {
    let description: Description = serde_json::from_slice(&fs::read(file)?)?;
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Entry { name, description, used: fs::metadata(file)?.modified()? })
}

/// Removes a file, if it is there.
fn remove(file: &Path) {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(%error, file = %file.display(), "cannot remove a stored prompt");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        let mut names: Vec<_> =
            entries.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
        names.sort_unstable();
        names
    }

    fn keep(cache: &mut PromptCache, tokens: &[i32], state: &[u8]) -> bool {
        cache.keep(tokens, |file| fs::write(file, state)).unwrap()
    }

    #[test]
    fn a_prompt_is_found_again_by_its_beginning_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let mut cache = PromptCache::open(folder.path(), "m").unwrap();
        assert_eq!(cache.longest(&[1, 2, 3]), None);
        assert!(keep(&mut cache, &[1, 2, 3, 4], b"four"));
        assert!(keep(&mut cache, &[1, 2, 9], b"nine"));
        assert!(!keep(&mut cache, &[1, 2, 9], b"again"), "it is already stored");
        for file in fs::read_dir(folder.path()).unwrap() {
            let mode = file.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "for its owner only");
        }
        let mut cache = PromptCache::open(folder.path(), "m").unwrap();
        let (common, name) = cache.longest(&[1, 2, 3, 7, 7]).unwrap();
        assert_eq!(common, 3);
        let (file, tokens) = cache.state(&name).unwrap();
        assert_eq!((fs::read(file).unwrap(), tokens), (b"four".to_vec(), vec![1, 2, 3, 4]));
        cache.loaded(&name).unwrap();
        assert_eq!(cache.longest(&[5, 1, 2]), None, "only a prefix counts");
        let other = PromptCache::open(folder.path(), "another").unwrap();
        assert_eq!(other.longest(&[1, 2, 3]), None, "the prompt of another model");
    }

    #[test]
    fn changed_files_are_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let mut cache = PromptCache::open(folder.path(), "m").unwrap();
        for wrong in [&b"five"[..], b"", b"fourfour"] {
            keep(&mut cache, &[1, 2], b"four");
            let (_, name) = cache.longest(&[1, 2]).unwrap();
            fs::write(folder.path().join(&name).with_extension(STATE), wrong).unwrap();
            assert!(cache.state(&name).is_err(), "{wrong:?}");
            cache.remove(&name);
            assert_eq!(cache.longest(&[1, 2]), None);
        }
        assert_eq!(names(folder.path()), [""; 0]);
        cache.state("../secret").unwrap_err();
    }

    #[test]
    fn a_state_that_ended_the_process_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut cache = PromptCache::open(folder.path(), "m").unwrap();
        keep(&mut cache, &[1, 2], b"state");
        let (_, name) = cache.longest(&[1, 2]).unwrap();
        cache.state(&name).unwrap();
        let cache = PromptCache::open(folder.path(), "m").unwrap();
        assert_eq!((cache.longest(&[1, 2]), names(folder.path())), (None, Vec::new()));
    }

    #[test]
    fn an_incomplete_write_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut cache = PromptCache::open(folder.path(), "m").unwrap();
        let failed = cache.keep(&[1], |file| {
            fs::write(file, "half")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!((cache.longest(&[1]), names(folder.path())), (None, Vec::new()));
        for left in ["a.draft", "b.state", "c.json"] {
            fs::write(folder.path().join(left), "{}").unwrap();
        }
        fs::write(folder.path().join("d.txt"), "not ours").unwrap();
        keep(&mut cache, &[1], b"one");
        let cache = PromptCache::open(folder.path(), "m").unwrap();
        assert_eq!(cache.longest(&[1]).map(|(common, _)| common), Some(1));
        assert_eq!(names(folder.path()).len(), 3, "the prompt, and a foreign file");
    }

    #[test]
    fn the_least_recently_used_prompts_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let mut cache = PromptCache::open(folder.path(), "m").unwrap();
        let prompt = |n: usize| [i32::try_from(n).unwrap(), 0];
        for n in 0..MOST_PROMPTS {
            keep(&mut cache, &prompt(n), b"state");
        }
        let (_, first) = cache.longest(&prompt(0)).unwrap();
        cache.state(&first).unwrap();
        cache.loaded(&first).unwrap();
        let mut cache = PromptCache::open(folder.path(), "m").unwrap();
        for n in 0..5 {
            keep(&mut cache, &prompt(MOST_PROMPTS + n), b"state");
        }
        assert!(cache.longest(&prompt(0)).is_some(), "it was used");
        assert!(cache.longest(&prompt(MOST_PROMPTS + 4)).is_some(), "it is the newest");
        assert_eq!(names(folder.path()).len(), 2 * MOST_PROMPTS);
    }
}
