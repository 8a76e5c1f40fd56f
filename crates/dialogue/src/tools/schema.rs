//! Compiled schema of a tool for checking arguments, with limits on the cost of an untrusted
//! schema. Not for handling wrong arguments.

mod limits;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use hearken_base::fair_queue::FairQueue;
use hearken_ports::ToolError;
use jsonschema::{PatternOptions, ValidationError, Validator};
use serde_json::{Map, Value};

/// Maximum number of reported mistakes.
const MAX_MISTAKES: usize = 3;
/// Maximum length of a mistake's description, in characters: it may quote a whole argument or
/// schema.
const MAX_MISTAKE_CHARS: usize = 300;
/// Maximum size of a compiled pattern, in bytes of memory.
const MAX_COMPILED_BYTES: usize = 64 * 1024;
/// Maximum number of backtracking steps of a pattern.
const MAX_BACKTRACKS: usize = 10_000;

/// Maximum time for the schemas of one request.
const MAX_WORK: Duration = Duration::from_millis(500);
/// Maximum wait for the work on other clients' schemas.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Work on untrusted schemas is serialised: it takes at most one core.
static WORKING: LazyLock<FairQueue> = LazyLock::new(FairQueue::default);

/// Compiled JSON Schema of a tool's arguments. Compiling costs far more than a check.
pub struct Schema(Option<Validator>);

impl Schema {
    /// Compiles the schema that a tool's own server declares. An invalid schema, or one that
    /// exceeds a limit, accepts everything, except no arguments at all if it requires some: the tool
    /// may do its own checks.
    pub fn of_server_tool(parameters: &Value) -> Self {
        let compiled = compile(parameters);
        if let Err(error) = &compiled {
            tracing::debug!(%error, "cannot use the schema of a tool");
        }
        Self(compiled.ok())
    }

    /// Compiles the schema of an object.
    ///
    /// # Errors
    /// Returns the reason if the value is not the schema of an object, or exceeds a limit.
    pub fn of_object(parameters: &Value) -> Result<Self, String> {
        if parameters["type"] != "object" {
            return Err("`parameters` must be a JSON Schema of type object".into());
        }
        let compiled = compile(parameters)?;
        limits::check_work(parameters, &Value::Object(Map::new())).map_err(
            |_| "`parameters` is too complex: even empty arguments take too long to check",
        )?;
        Ok(Self(Some(compiled)))
    }

    /// Checks arguments against the schema, which was compiled from these `parameters`.
    ///
    /// # Errors
    /// [`ToolError::Arguments`] with some of the mistakes, or if the check would take too long.
    pub fn check(
        &self,
        parameters: &Value,
        arguments: &Map<String, Value>,
    ) -> Result<(), ToolError> {
        let Some(validator) = &self.0 else { return check_any(parameters, arguments) };
        let arguments = Value::Object(arguments.clone());
        limits::check_work(parameters, &arguments).map_err(ToolError::Arguments)?;
        if validator.is_valid(&arguments) {
            return Ok(());
        }
        let mistakes: Vec<String> =
            validator.iter_errors(&arguments).take(MAX_MISTAKES).map(|m| told(&m, ": ")).collect();
        Err(ToolError::Arguments(mistakes.join("; ")))
    }
}

/// Checks arguments against a schema that cannot be compiled. A model that has written none may not
/// have come to them: the call is made only if the tool requires none.
fn check_any(parameters: &Value, arguments: &Map<String, Value>) -> Result<(), ToolError> {
    let required = parameters["required"].as_array().and_then(|names| names.first());
    match required.filter(|_| arguments.is_empty()) {
        Some(name) => {
            let told = format!("{name} is a required property");
            Err(ToolError::Arguments(told.chars().take(MAX_MISTAKE_CHARS).collect()))
        }
        None => Ok(()),
    }
}

/// Compiles a schema within the limits.
fn compile(schema: &Value) -> Result<Validator, String> {
    limits::check_size(schema).map_err(|limit| format!("`parameters` is too complex: {limit}"))?;
    let patterns = PatternOptions::fancy_regex()
        .size_limit(MAX_COMPILED_BYTES)
        .dfa_size_limit(MAX_COMPILED_BYTES)
        .backtrack_limit(MAX_BACKTRACKS);
    let compiled = jsonschema::options().with_pattern_options(patterns).build(schema);
    compiled.map_err(|error| format!("`parameters` is not a JSON Schema: {}", told(&error, " ")))
}

/// Describes a mistake in few words, after its place.
fn told(mistake: &ValidationError<'_>, separator: &str) -> String {
    let told = match mistake.instance_path().to_string() {
        whole if whole.is_empty() => mistake.to_string(),
        path => format!("{path}{separator}{mistake}"),
    };
    told.chars().take(MAX_MISTAKE_CHARS).collect()
}

/// Work on an untrusted schema was not started: that of other clients takes too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the server is busy with the schemas of others")]
pub struct Busy;

/// Runs work on untrusted schemas of this address off the worker threads. The work receives the
/// deadline after which it must refuse the rest. Addresses take turns.
///
/// # Errors
/// [`Busy`] if the work of others takes longer than 5 s, or too many requests of this address are
/// queued.
pub async fn off_worker<T: Send + 'static>(
    address: &str,
    work: impl FnOnce(Instant) -> T + Send + 'static,
) -> Result<T, Busy> {
    let place = tokio::time::timeout(MAX_WAIT, WORKING.take(address)).await.map_err(|_| Busy)?;
    let place = place.map_err(|_| Busy)?;
    // The place is held to the end of the work, even if the caller no longer waits for it.
    let work = move || {
        let _place = place;
        work(Instant::now() + MAX_WORK)
    };
    tokio::task::spawn_blocking(work).await.map_err(|_| Busy)
}
