//! A backup of the whole store, as a file to download. Not for restoring one: see `hearken store restore`.

use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::Arc;

use actix_web::http::header::{ContentDisposition, DispositionParam, DispositionType};
use actix_web::{HttpRequest, HttpResponse, web};
use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use futures_util::stream::unfold;
use hearken_base::{Secret, private_files};
use hearken_ports::store::{AuditEntry, SettingsStore};
use hearken_proto::fault::Fault;
use hearken_store::{BackupError, SqlStore};
use jiff::Timestamp;
use serde_json::json;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::extract::AdminSession;
use crate::http::fault::{Faults, RouteResult, refusal, store_failed};
use crate::http::lasting_access::LastingAccess;

/// Size of the pieces in which a backup is read, in bytes.
const PIECE_BYTES: usize = 64 << 10;

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
    request: HttpRequest,
    backups: web::Data<Backups>,
) -> RouteResult {
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
    let access = LastingAccess::of::<AdminSession>(&request);
    let response = response_with(File::from_std(file), now, access).await;
    response.map_err(|error| {
        tracing::warn!(%error, "cannot send a backup");
        refusal(Fault::Internal, "the backup cannot be read")
    })
}

/// Returns the whole file. Each request makes another backup: ranges of several responses would be
/// put together to a file that is none of them.
async fn response_with(
    file: File,
    now: Timestamp,
    access: LastingAccess,
) -> std::io::Result<HttpResponse> {
    let length = file.metadata().await?.len();
    let name = format!("hearken-{}.backup", now.strftime("%Y-%m-%d"));
    let place = ContentDisposition {
        disposition: DispositionType::Attachment,
        parameters: vec![DispositionParam::Filename(name)],
    };
    let mut response = HttpResponse::Ok();
    response.content_type("application/x-ndjson").insert_header(place);
    Ok(access.sized(response, length, pieces(file)))
}

/// Reads a file to its end. An error breaks the connection, so that the client does not treat the
/// file as complete.
fn pieces(file: File) -> impl Stream<Item = std::io::Result<Bytes>> {
    unfold(Some(file), |file| async move {
        let mut file = file?;
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        match file.read_buf(&mut piece).await {
            Ok(read) => (read > 0).then(|| (Ok(piece.freeze()), Some(file))),
            Err(error) => {
                tracing::warn!(%error, "cannot read a backup to its end");
                Some((Err(error), None))
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use actix_web::body::{BodySize, MessageBody as _, to_bytes};
    use actix_web::http::header::{ACCEPT_RANGES, CONTENT_DISPOSITION};

    use super::*;

    #[tokio::test]
    async fn a_file_of_any_size_is_sent_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        for size in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES + 7] {
            let content: Vec<u8> = (0..=u8::MAX).cycle().take(size).collect();
            std::fs::write(&path, &content).unwrap();
            let file = File::open(&path).await.unwrap();
            let access = LastingAccess::unending();
            let response = response_with(file, Timestamp::UNIX_EPOCH, access).await.unwrap();
            assert_eq!(response.status(), 200);
            let headers = response.headers();
            assert_eq!(response.body().size(), BodySize::Sized(size as u64));
            assert_eq!(
                headers.get(CONTENT_DISPOSITION).unwrap(),
                "attachment; filename=\"hearken-1970-01-01.backup\""
            );
            assert!(!headers.contains_key(ACCEPT_RANGES));
            assert!(to_bytes(response.into_body()).await.unwrap() == content, "{size}");
        }
    }
}
