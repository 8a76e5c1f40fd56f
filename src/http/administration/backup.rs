//! A backup of the whole store, as a file to download. Not for restoring one: see `hearken store restore`.

use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;

use actix_files::NamedFile;
use actix_web::http::header::{ContentDisposition, DispositionParam, DispositionType};
use actix_web::web;
use hearken_base::{Secret, private_files};
use hearken_ports::store::{AuditEntry, SettingsStore};
use hearken_proto::fault::Fault;
use hearken_store::{BackupError, SqlStore};
use jiff::Timestamp;
use serde_json::json;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::extract::AdminSession;
use crate::http::fault::{Faults, Refusal, refusal, store_failed};

/// Creates backups, one at a time.
pub struct Backups {
    url: Secret,
    folder: PathBuf,
    audit: Arc<dyn SettingsStore>,
    free: Arc<Semaphore>,
}

impl Backups {
    /// Creates it with `store.url`, the data folder, in which backups are written temporarily, and
    /// the store of the audit log.
    pub fn new(url: Secret, folder: PathBuf, audit: Arc<dyn SettingsStore>) -> Self {
        Self { url, folder, audit, free: Arc::new(Semaphore::new(1)) }
    }
}

/// Writes a backup to an unlinked file.
async fn written(
    url: Secret,
    folder: PathBuf,
    now: Timestamp,
    free: OwnedSemaphorePermit,
) -> Result<std::fs::File, BackupError> {
    let runtime = Handle::current();
    let work = move || {
        let _free = free;
        let path = folder.join(format!("backup.{}.part", uuid::Uuid::new_v4()));
        let new = private_files::create_new(&path).map_err(BackupError::Write)?;
        let file = std::fs::File::open(&path);
        std::fs::remove_file(&path).map_err(BackupError::Write)?;
        let file = file.map_err(BackupError::Write)?;
        let mut out = BufWriter::new(&new);
        // Uses its own connections: a large table takes longer than a request may.
        let store = SqlStore::patient(url.expose(), &folder)?;
        let made = runtime.block_on(async {
            let made = store.back_up(&mut out, now, &mut |_, _| {}).await;
            store.shut().await;
            made
        });
        made?;
        drop(out);
        Ok(file)
    };
    let failed = |error: tokio::task::JoinError| BackupError::Write(std::io::Error::other(error));
    tokio::task::spawn_blocking(work).await.map_err(failed)?
}

/// Returns a backup of the whole store; it contains secrets.
#[utoipa::path(get, path = "/api/admin/backup", tag = "administrator",
    responses((status = 200, body = String, content_type = "application/x-ndjson"), Faults))]
pub(crate) async fn download(
    session: AdminSession,
    backups: web::Data<Backups>,
) -> Result<NamedFile, Refusal> {
    let Ok(free) = Arc::clone(&backups.free).try_acquire_owned() else {
        return Err(refusal(Fault::Conflict, "another backup is being made: try again later"));
    };
    let now = Timestamp::now();
    let entry = AuditEntry {
        number: 0,
        at: now,
        who: session.0.who,
        what: "backup downloaded".into(),
        details: json!(null),
    };
    backups.audit.note(&entry).await.map_err(|error| store_failed(&error))?;
    let file = written(backups.url.clone(), backups.folder.clone(), now, free).await;
    let file = file.map_err(|error| match error {
        BackupError::Store(error) => store_failed(&error),
        error => {
            tracing::warn!(%error, "cannot make a backup");
            refusal(Fault::Unavailable, "the backup cannot be written to the data folder")
        }
    })?;
    named(file, now).map_err(|error| {
        tracing::warn!(%error, "cannot send a backup");
        refusal(Fault::Internal, "the backup cannot be read")
    })
}

fn named(file: std::fs::File, now: Timestamp) -> std::io::Result<NamedFile> {
    let name = format!("hearken-{}.backup", now.strftime("%Y-%m-%d"));
    let place = ContentDisposition {
        disposition: DispositionType::Attachment,
        parameters: vec![DispositionParam::Filename(name.clone())],
    };
    let kind = "application/x-ndjson".parse().map_err(std::io::Error::other)?;
    let file = NamedFile::from_file(file, name)?;
    Ok(file.set_content_disposition(place).set_content_type(kind).use_etag(false))
}
