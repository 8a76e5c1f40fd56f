//! SQL of the codes of devices that are to be bound. Not for binding a device.

use std::time::Duration;

use hearken_base::Secret;
use hearken_ports::store::{
    Activation, CodeRequest, MAX_CODES, MAX_CODES_PER_ADDRESS, StoreErrorKind,
};
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::error::SqlError;
use super::{SqlStore, StoreTransaction, text, time};

/// Attempts to find a free code. At most 5,000 of a million codes are in use.
const ATTEMPTS: usize = 20;

fn activation(row: &AnyRow) -> Result<Activation, SqlError> {
    Ok(Activation {
        code: row.try_get("code")?,
        challenge: row.try_get("challenge")?,
        expires: time(row.try_get("expires_ms")?)?,
    })
}

/// Returns six random digits, all equally likely.
fn random_code() -> Result<String, SqlError> {
    let random = getrandom::u64()
        .map_err(|e| SqlError::because(StoreErrorKind::Unavailable, e.to_string()))?;
    Ok(format!("{:06}", random % 1_000_000))
}

/// Consumes a code that a user entered, and all other codes of its device. Returns the device and
/// its client. `None` if no device has this code.
pub(super) async fn enter(
    work: &mut StoreTransaction,
    code: &str,
    now: Timestamp,
) -> Result<Option<(String, String)>, SqlError> {
    let entered = sqlx::query(
        "UPDATE activations SET code = NULL WHERE code = $1 AND expires_ms > $2 \
         RETURNING device_id, client_id",
    )
    .bind(text(code))
    .bind(now.as_millisecond())
    .fetch_optional(&mut **work)
    .await?;
    let Some(entered) = entered else { return Ok(None) };
    let id: String = entered.try_get("device_id")?;
    sqlx::query("UPDATE activations SET code = NULL WHERE device_id = $1")
        .bind(&id)
        .execute(&mut **work)
        .await?;
    Ok(Some((id, entered.try_get("client_id")?)))
}

/// Deletes codes beyond the share of this code's address, and the oldest one of the address with
/// the most codes if there are too many in total. This code is never deleted.
async fn drop_surplus(
    work: &mut StoreTransaction,
    code: &str,
    address: &str,
) -> Result<(), SqlError> {
    sqlx::query(
        "DELETE FROM activations WHERE code IN (SELECT code FROM activations \
         WHERE code IS NOT NULL AND code <> $1 AND address = $2 \
         ORDER BY expires_ms DESC, code LIMIT $3 OFFSET $4)",
    )
    .bind(code)
    .bind(address)
    .bind(i64::from(MAX_CODES))
    .bind(i64::from(MAX_CODES_PER_ADDRESS) - 1)
    .execute(&mut **work)
    .await?;
    sqlx::query(
        "DELETE FROM activations WHERE code IN (SELECT code FROM activations \
         WHERE code IS NOT NULL AND code <> $1 AND address = \
           (SELECT address FROM activations WHERE code IS NOT NULL AND code <> $1 \
           GROUP BY address ORDER BY COUNT(*) DESC, MIN(expires_ms), address LIMIT 1) \
         AND (SELECT COUNT(*) FROM activations WHERE code IS NOT NULL) > $2 \
         ORDER BY expires_ms, code LIMIT 1)",
    )
    .bind(code)
    .bind(i64::from(MAX_CODES))
    .execute(&mut **work)
    .await?;
    Ok(())
}

impl SqlStore {
    /// Returns the code of this device and client; creates one if there is none.
    pub(super) async fn code_of(
        &self,
        request: CodeRequest<'_>,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Activation, SqlError> {
        sqlx::query("DELETE FROM activations WHERE expires_ms <= $1")
            .bind(now.as_millisecond())
            .execute(self.writer().await?.pool)
            .await?;
        for _ in 0..ATTEMPTS {
            match self.give_code(request, lifetime, now).await {
                Err(error) if error.is_taken() => {}
                given => return given,
            }
        }
        Err(SqlError::new(StoreErrorKind::Full))
    }

    /// Fails with a unique violation if the new code is in use.
    async fn give_code(
        &self,
        request: CodeRequest<'_>,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Activation, SqlError> {
        let code = random_code()?;
        let address = text(request.address);
        let lifetime = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
        let mut work = self.begin().await?;
        let row = sqlx::query(
            "INSERT INTO activations (device_id, client_id, code, challenge, expires_ms, address) \
             VALUES ($1, $2, $3, $4, $5, $6) \
             ON CONFLICT (device_id, client_id) DO UPDATE SET \
             code = COALESCE(activations.code, excluded.code), \
             expires_ms = CASE WHEN activations.code IS NULL THEN excluded.expires_ms \
             ELSE activations.expires_ms END \
             RETURNING code, challenge, expires_ms",
        )
        .bind(text(request.device_id.as_str()))
        .bind(text(request.client_id.expose()))
        .bind(&code)
        .bind(uuid::Uuid::new_v4().simple().to_string())
        .bind(now.as_millisecond().saturating_add(lifetime))
        .bind(&address)
        .fetch_one(&mut *work)
        .await?;
        let given = activation(&row)?;
        if given.code.as_ref() == Some(&code) {
            drop_surplus(&mut work, &code, &address).await?;
        }
        work.commit().await?;
        Ok(given)
    }

    pub(super) async fn waiting_code(
        &self,
        id: &DeviceId,
        client_id: &Secret,
        now: Timestamp,
    ) -> Result<Option<Activation>, SqlError> {
        let row = sqlx::query(
            "SELECT code, challenge, expires_ms FROM activations \
             WHERE device_id = $1 AND client_id = $2 AND expires_ms > $3",
        )
        .bind(text(id.as_str()))
        .bind(text(client_id.expose()))
        .bind(now.as_millisecond())
        .fetch_optional(self.pool().await?)
        .await?;
        row.as_ref().map(activation).transpose()
    }

    pub(super) async fn has_code_of_others(
        &self,
        id: &DeviceId,
        client_id: &Secret,
        now: Timestamp,
    ) -> Result<bool, SqlError> {
        let sql = "SELECT COUNT(*) FROM activations WHERE device_id = $1 AND client_id <> $2 \
                   AND code IS NOT NULL AND expires_ms > $3";
        let others: i64 = sqlx::query_scalar(sql)
            .bind(text(id.as_str()))
            .bind(text(client_id.expose()))
            .bind(now.as_millisecond())
            .fetch_one(self.pool().await?)
            .await?;
        Ok(others > 0)
    }
}
