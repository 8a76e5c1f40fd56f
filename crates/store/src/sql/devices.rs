//! SQL of devices, codes and keys. Not for decisions about them.

use std::time::Duration;

use async_trait::async_trait;
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::{SqlStore, in_time, text, time, unusable};
use crate::{
    Activation, Device, DevicePage, DeviceReport, DeviceStore, MAX_CODES, MAX_STRANGERS,
    StoreError, StoreErrorKind,
};

/// Attempts to find a free code. Of a million codes at most 5,000 are in use.
const CODE_ATTEMPTS: usize = 20;

/// Names of all columns of a device. A prepared statement with `*` would return rows of unexpected
/// length after another connection or server changed the table.
macro_rules! columns {
    () => {
        "device_id, client_id, name, board, chip, serial_number, firmware_version, \
         first_seen_ms, last_seen_ms, bound, agent, tools_off, system_prompt"
    };
}
pub(super) use columns;

impl SqlStore {
    /// Runs a statement that sets one text (`$2`) of a device (`$1`) and returns its columns; none
    /// if there is no such device.
    pub(super) async fn changed(
        &self,
        sql: &'static str,
        id: &DeviceId,
        value: &str,
    ) -> Result<Option<Device>, StoreError> {
        in_time(async {
            let update = sqlx::query(sql).bind(text(id.as_str())).bind(text(value));
            let row = update.fetch_optional(self.writer().await?.pool).await?;
            row.as_ref().map(device).transpose()
        })
        .await
    }
}

pub(super) fn device(row: &AnyRow) -> Result<Device, StoreError> {
    let off: String = row.try_get("tools_off")?;
    let tools_off = serde_json::from_str(&off).map_err(unusable)?;
    Ok(Device {
        device_id: DeviceId::new(row.try_get::<String, _>("device_id")?),
        client_id: row.try_get("client_id")?,
        name: row.try_get("name")?,
        board: row.try_get("board")?,
        chip: row.try_get("chip")?,
        serial_number: row.try_get("serial_number")?,
        firmware_version: row.try_get("firmware_version")?,
        first_seen: time(row.try_get("first_seen_ms")?)?,
        last_seen: time(row.try_get("last_seen_ms")?)?,
        bound: row.try_get::<i64, _>("bound")? != 0,
        agent: row.try_get("agent")?,
        tools_off,
        system_prompt: row.try_get("system_prompt")?,
    })
}

fn activation(row: &AnyRow) -> Result<Activation, StoreError> {
    Ok(Activation {
        code: row.try_get("code")?,
        challenge: row.try_get("challenge")?,
        expires: time(row.try_get("expires_ms")?)?,
    })
}

/// Returns six random digits, all equally likely.
fn random_code() -> Result<String, StoreError> {
    let random = getrandom::u64()
        .map_err(|e| StoreError::because(StoreErrorKind::Unavailable, e.to_string()))?;
    Ok(format!("{:06}", random % 1_000_000))
}

#[async_trait]
impl DeviceStore for SqlStore {
    async fn report(&self, report: &DeviceReport, now: Timestamp) -> Result<Device, StoreError> {
        in_time(async {
            let row = sqlx::query(concat!(
                "INSERT INTO devices (device_id, client_id, board, chip, serial_number, \
                 firmware_version, first_seen_ms, last_seen_ms) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $7) \
                 ON CONFLICT (device_id) DO UPDATE SET client_id = excluded.client_id, \
                 board = COALESCE(NULLIF(excluded.board, ''), devices.board), \
                 chip = COALESCE(NULLIF(excluded.chip, ''), devices.chip), \
                 serial_number = COALESCE(NULLIF(excluded.serial_number, ''), devices.serial_number), \
                 firmware_version = \
                   COALESCE(NULLIF(excluded.firmware_version, ''), devices.firmware_version), \
                 last_seen_ms = excluded.last_seen_ms \
                 WHERE devices.bound = 0 OR devices.client_id = excluded.client_id \
                 RETURNING ",
                columns!()
            ))
            .bind(text(report.device_id.as_str()))
            .bind(text(&report.client_id))
            .bind(text(&report.board))
            .bind(text(&report.chip))
            .bind(text(&report.serial_number))
            .bind(text(&report.firmware_version))
            .bind(now.as_millisecond())
            .fetch_optional(self.writer().await?.pool)
            .await?;
            let Some(row) = row else {
                // The device is bound to another client: this one changes nothing.
                return self.device(&report.device_id).await?.ok_or_else(|| {
                    StoreError::because(StoreErrorKind::Unavailable, "the device was forgotten")
                });
            };
            let known = device(&row)?;
            if known.first_seen == known.last_seen {
                self.make_room().await?;
            }
            Ok(known)
        })
        .await
    }

    async fn seen(&self, id: &DeviceId, now: Timestamp) -> Result<Option<Device>, StoreError> {
        in_time(async {
            let row = sqlx::query(concat!(
                "UPDATE devices SET last_seen_ms = $2 WHERE device_id = $1 RETURNING ",
                columns!()
            ))
            .bind(text(id.as_str()))
            .bind(now.as_millisecond())
            .fetch_optional(self.writer().await?.pool)
            .await?;
            row.as_ref().map(device).transpose()
        })
        .await
    }

    async fn device(&self, id: &DeviceId) -> Result<Option<Device>, StoreError> {
        in_time(async {
            let row =
                sqlx::query(concat!("SELECT ", columns!(), " FROM devices WHERE device_id = $1"))
                    .bind(text(id.as_str()))
                    .fetch_optional(self.pool().await?)
                    .await?;
            row.as_ref().map(device).transpose()
        })
        .await
    }

    async fn devices(&self, after: &str, limit: u32) -> Result<DevicePage, StoreError> {
        in_time(async {
            let rows = sqlx::query(concat!(
                "SELECT ",
                columns!(),
                " FROM devices WHERE device_id > $1 ORDER BY device_id LIMIT $2"
            ))
            .bind(text(after))
            .bind(i64::from(limit) + 1)
            .fetch_all(self.pool().await?)
            .await?;
            let mut devices = rows.iter().map(device).collect::<Result<Vec<_>, _>>()?;
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let more = devices.len() > limit;
            devices.truncate(limit);
            Ok(DevicePage { devices, more })
        })
        .await
    }

    async fn activation(
        &self,
        id: &DeviceId,
        client_id: &str,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Activation, StoreError> {
        in_time(async {
            sqlx::query("DELETE FROM activations WHERE expires_ms <= $1")
                .bind(now.as_millisecond())
                .execute(self.writer().await?.pool)
                .await?;
            for _ in 0..CODE_ATTEMPTS {
                match self.give_code(id, client_id, lifetime, now).await {
                    Err(error) if error.is_taken() => {}
                    Err(error) => return Err(error),
                    Ok(Some(row)) => return activation(&row),
                    Ok(None) => break,
                }
            }
            Err(StoreError::new(StoreErrorKind::Full))
        })
        .await
    }

    async fn waiting(
        &self,
        id: &DeviceId,
        client_id: &str,
        now: Timestamp,
    ) -> Result<Option<Activation>, StoreError> {
        in_time(async {
            let row = sqlx::query(
                "SELECT code, challenge, expires_ms FROM activations \
                 WHERE device_id = $1 AND client_id = $2 AND expires_ms > $3",
            )
            .bind(text(id.as_str()))
            .bind(text(client_id))
            .bind(now.as_millisecond())
            .fetch_optional(self.pool().await?)
            .await?;
            row.as_ref().map(activation).transpose()
        })
        .await
    }

    async fn bind(
        &self,
        code: &str,
        name: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Device>, StoreError> {
        in_time(async {
            let mut work = self.begin().await?;
            let entered = sqlx::query(
                "UPDATE activations SET code = NULL WHERE code = $1 AND expires_ms > $2 \
                 RETURNING device_id, client_id",
            )
            .bind(text(code))
            .bind(now.as_millisecond())
            .fetch_optional(&mut *work)
            .await?;
            let Some(entered) = entered else {
                work.rollback().await?;
                return Ok(None);
            };
            let id: String = entered.try_get("device_id")?;
            let row = sqlx::query(concat!(
                "UPDATE devices SET bound = 1, client_id = $2, name = COALESCE($3, name) \
                 WHERE device_id = $1 RETURNING ",
                columns!()
            ))
            .bind(&id)
            .bind(entered.try_get::<String, _>("client_id")?)
            .bind(name.map(text))
            .fetch_optional(&mut *work)
            .await?;
            sqlx::query("UPDATE activations SET code = NULL WHERE device_id = $1")
                .bind(&id)
                .execute(&mut *work)
                .await?;
            work.commit().await?;
            row.as_ref().map(device).transpose()
        })
        .await
    }

    async fn rename(&self, id: &DeviceId, name: &str) -> Result<Option<Device>, StoreError> {
        let sql =
            concat!("UPDATE devices SET name = $2 WHERE device_id = $1 RETURNING ", columns!());
        self.changed(sql, id, name).await
    }

    async fn forget(&self, id: &DeviceId) -> Result<bool, StoreError> {
        in_time(async {
            let mut work = self.begin().await?;
            let gone = sqlx::query("DELETE FROM devices WHERE device_id = $1")
                .bind(text(id.as_str()))
                .execute(&mut *work)
                .await?;
            sqlx::query("DELETE FROM activations WHERE device_id = $1")
                .bind(text(id.as_str()))
                .execute(&mut *work)
                .await?;
            work.commit().await?;
            Ok(gone.rows_affected() > 0)
        })
        .await
    }

    async fn provision(&self, serial_number: &str, key: &[u8]) -> Result<(), StoreError> {
        in_time(async {
            sqlx::query(
                "INSERT INTO provisioning (serial_number, hmac_key) VALUES ($1, $2) \
                 ON CONFLICT (serial_number) DO UPDATE SET hmac_key = excluded.hmac_key",
            )
            .bind(text(serial_number))
            .bind(key)
            .execute(self.writer().await?.pool)
            .await?;
            Ok(())
        })
        .await
    }

    async fn unprovision(&self, serial_number: &str) -> Result<bool, StoreError> {
        in_time(async {
            let gone = sqlx::query("DELETE FROM provisioning WHERE serial_number = $1")
                .bind(text(serial_number))
                .execute(self.writer().await?.pool)
                .await?;
            Ok(gone.rows_affected() > 0)
        })
        .await
    }

    async fn key(&self, serial_number: &str) -> Result<Option<Vec<u8>>, StoreError> {
        in_time(async {
            let row = sqlx::query("SELECT hmac_key FROM provisioning WHERE serial_number = $1")
                .bind(text(serial_number))
                .fetch_optional(self.pool().await?)
                .await?;
            Ok(row.map(|row| row.try_get("hmac_key")).transpose()?)
        })
        .await
    }

    async fn close(&self) {
        self.shut().await;
    }

    async fn check_usable(&self) -> Result<(), StoreError> {
        in_time(self.begin_and_read()).await
    }
}

impl SqlStore {
    /// Returns the code of this device and client, if it has one, else a new one; none if too many
    /// codes wait. Fails with a unique violation if the new code is in use.
    async fn give_code(
        &self,
        id: &DeviceId,
        client_id: &str,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Option<AnyRow>, StoreError> {
        let code = random_code()?;
        let lifetime = i64::try_from(lifetime.as_millis()).unwrap_or(i64::MAX);
        Ok(sqlx::query(
            "INSERT INTO activations (device_id, client_id, code, challenge, expires_ms) \
             SELECT $1, $2, $3, $4, $5 \
             WHERE (SELECT COUNT(*) FROM activations WHERE code IS NOT NULL) < $6 \
             OR EXISTS (SELECT 1 FROM activations WHERE device_id = $1 AND client_id = $2) \
             ON CONFLICT (device_id, client_id) DO UPDATE SET \
             code = COALESCE(activations.code, excluded.code), \
             expires_ms = CASE WHEN activations.code IS NULL THEN excluded.expires_ms \
             ELSE activations.expires_ms END \
             RETURNING code, challenge, expires_ms",
        )
        .bind(text(id.as_str()))
        .bind(text(client_id))
        .bind(code)
        .bind(uuid::Uuid::new_v4().simple().to_string())
        .bind(now.as_millisecond().saturating_add(lifetime))
        .bind(i64::from(MAX_CODES))
        .fetch_optional(self.writer().await?.pool)
        .await?)
    }

    /// Deletes devices that nobody bound, named or configured, beyond [`MAX_STRANGERS`]: those not
    /// seen for the longest time.
    async fn make_room(&self) -> Result<(), StoreError> {
        sqlx::query(
            "DELETE FROM devices WHERE device_id IN (SELECT device_id FROM devices \
             WHERE bound = 0 AND name = '' AND tools_off = '[]' AND agent = 'default' \
             AND system_prompt = '' ORDER BY last_seen_ms DESC LIMIT $2 OFFSET $1)",
        )
        .bind(i64::from(MAX_STRANGERS))
        .bind(i64::MAX)
        .execute(self.writer().await?.pool)
        .await?;
        Ok(())
    }
}
