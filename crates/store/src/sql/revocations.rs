//! SQL of revoked tokens of devices. Not for the tokens themselves.

use hearken_base::Secret;
use hearken_ports::store::{MAX_REVOCATIONS, TokenHolder};
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;
use sqlx::Row as _;

use super::error::SqlError;
use super::{SqlStore, StoreTransaction, text, time};

/// Revokes all tokens of a device issued up to this time.
pub(super) async fn revoke(
    work: &mut StoreTransaction,
    device_id: &str,
    now: Timestamp,
) -> Result<(), SqlError> {
    sqlx::query(
        "INSERT INTO revocations (device_id, until_ms) VALUES ($1, $2) \
         ON CONFLICT (device_id) DO UPDATE SET until_ms = excluded.until_ms",
    )
    .bind(device_id)
    .bind(now.as_millisecond())
    .execute(&mut **work)
    .await?;
    sqlx::query(
        "DELETE FROM revocations WHERE until_ms < (SELECT until_ms FROM revocations \
         ORDER BY until_ms DESC LIMIT 1 OFFSET $1)",
    )
    .bind(i64::from(MAX_REVOCATIONS) - 1)
    .execute(&mut **work)
    .await?;
    Ok(())
}

impl SqlStore {
    pub(super) async fn revocations_after(
        &self,
        after: Timestamp,
    ) -> Result<Vec<(DeviceId, Timestamp)>, SqlError> {
        let sql = "SELECT device_id, until_ms FROM revocations WHERE until_ms > $1";
        let rows: Vec<(String, i64)> =
            sqlx::query_as(sql).bind(after.as_millisecond()).fetch_all(self.pool().await?).await?;
        rows.into_iter().map(|(id, until)| Ok((DeviceId::new(id), time(until)?))).collect()
    }

    pub(super) async fn holder_of_tokens(&self, id: &DeviceId) -> Result<TokenHolder, SqlError> {
        let row = sqlx::query(
            "SELECT (SELECT client_id FROM devices WHERE device_id = $1) AS client_id, \
             (SELECT until_ms FROM revocations WHERE device_id = $1) AS until_ms",
        )
        .bind(text(id.as_str()))
        .fetch_one(self.pool().await?)
        .await?;
        let until: Option<i64> = row.try_get("until_ms")?;
        let client: Option<String> = row.try_get("client_id")?;
        Ok(TokenHolder {
            client_id: client.filter(|client| !client.is_empty()).map(Secret::new),
            revoked_until: until.map(time).transpose()?,
        })
    }
}
