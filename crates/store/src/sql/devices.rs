//! SQL of devices and keys. Not for decisions about them. Codes and revocations have their own
//! modules.

use std::time::Duration;

use async_trait::async_trait;
use hearken_base::Secret;
use hearken_ports::store::{
    Activation, ClientRule, CodeRequest, Device, DevicePage, DeviceReport, DeviceStore,
    MAX_STRANGERS, StoreError, StoreErrorKind, TokenHolder,
};
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::codes::enter;
use super::error::SqlError;
use super::revocations::revoke;
use super::{SqlStore, in_time, text, time, unusable};

/// Names of all columns of a device. A prepared statement with `*` would return rows of unexpected
/// length after another connection or server changed the table.
macro_rules! columns {
    () => {
        "device_id, client_id, name, board, chip, serial_number, firmware_version, \
         first_seen_ms, last_seen_ms, bound, agent, tools_off, system_prompt, role_id"
    };
}
pub(super) use columns;

/// Values of the column `bound`: 0 is not bound, 1 is bound. 2 is a device that was stored before
/// devices from outside the private networks had to be bound (migration 16).
const BOUND: i64 = 1;
const NEEDS_REVIEW: i64 = 2;

/// Condition that selects devices without binding, name or settings.
macro_rules! strangers {
    () => {
        "bound = 0 AND name = '' AND tools_off = '[]' AND agent = 'default' \
         AND system_prompt = '' AND role_id = ''"
    };
}

impl SqlStore {
    /// Runs a statement that sets one text (`$2`) of a device (`$1`) and returns its columns.
    /// `None` if there is no such device.
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

pub(super) fn device(row: &AnyRow) -> Result<Device, SqlError> {
    let bound: i64 = row.try_get("bound")?;
    let off: String = row.try_get("tools_off")?;
    let tools_off = serde_json::from_str(&off).map_err(unusable)?;
    Ok(Device {
        device_id: DeviceId::new(row.try_get::<String, _>("device_id")?),
        client_id: Secret::new(row.try_get::<String, _>("client_id")?),
        name: row.try_get("name")?,
        board: row.try_get("board")?,
        chip: row.try_get("chip")?,
        serial_number: row.try_get("serial_number")?,
        firmware_version: row.try_get("firmware_version")?,
        first_seen: time(row.try_get("first_seen_ms")?)?,
        last_seen: time(row.try_get("last_seen_ms")?)?,
        bound: bound == BOUND,
        needs_review: bound == NEEDS_REVIEW,
        agent: row.try_get("agent")?,
        tools_off,
        system_prompt: row.try_get("system_prompt")?,
        role_id: row.try_get("role_id")?,
    })
}

#[async_trait]
impl DeviceStore for SqlStore {
    async fn report(
        &self,
        report: &DeviceReport,
        rule: ClientRule,
        now: Timestamp,
    ) -> Result<Device, StoreError> {
        in_time(async {
            let row = sqlx::query(concat!(
                "INSERT INTO devices (device_id, client_id, board, chip, serial_number, \
                 firmware_version, first_seen_ms, last_seen_ms, address) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8) \
                 ON CONFLICT (device_id) DO UPDATE SET client_id = excluded.client_id, \
                 bound = CASE WHEN devices.client_id = excluded.client_id \
                   THEN devices.bound ELSE 0 END, \
                 board = COALESCE(NULLIF(excluded.board, ''), devices.board), \
                 chip = COALESCE(NULLIF(excluded.chip, ''), devices.chip), \
                 serial_number = COALESCE(NULLIF(excluded.serial_number, ''), devices.serial_number), \
                 firmware_version = \
                   COALESCE(NULLIF(excluded.firmware_version, ''), devices.firmware_version), \
                 last_seen_ms = excluded.last_seen_ms, address = excluded.address \
                 WHERE devices.client_id = excluded.client_id \
                 OR (devices.bound <> 1 AND devices.client_id = '') \
                 OR (devices.bound = 0 AND $9 = 1) \
                 RETURNING ",
                columns!()
            ))
            .bind(text(report.device_id.as_str()))
            .bind(text(report.client_id.expose()))
            .bind(text(&report.board))
            .bind(text(&report.chip))
            .bind(text(&report.serial_number))
            .bind(text(&report.firmware_version))
            .bind(now.as_millisecond())
            .bind(text(&report.address))
            .bind(i64::from(rule == ClientRule::Latest))
            .fetch_optional(self.writer().await?.pool)
            .await?;
            let Some(row) = row else {
                // The device belongs to another client: this report changes nothing.
                return self.device(&report.device_id).await?.ok_or_else(|| {
                    SqlError::because(StoreErrorKind::Unavailable, "the device was forgotten")
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

    async fn token_holder(&self, id: &DeviceId) -> Result<TokenHolder, StoreError> {
        in_time(self.holder_of_tokens(id)).await
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
        request: CodeRequest<'_>,
        lifetime: Duration,
        now: Timestamp,
    ) -> Result<Activation, StoreError> {
        in_time(self.code_of(request, lifetime, now)).await
    }

    async fn waiting(
        &self,
        id: &DeviceId,
        client_id: &Secret,
        now: Timestamp,
    ) -> Result<Option<Activation>, StoreError> {
        in_time(self.waiting_code(id, client_id, now)).await
    }

    async fn is_wanted_by_others(
        &self,
        id: &DeviceId,
        client_id: &Secret,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        in_time(self.has_code_of_others(id, client_id, now)).await
    }

    async fn bind(
        &self,
        code: &str,
        name: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<Device>, StoreError> {
        in_time(async {
            let mut work = self.begin().await?;
            let Some((id, client_id)) = enter(&mut work, code, now).await? else {
                work.rollback().await?;
                return Ok(None);
            };
            let before: Option<String> =
                sqlx::query_scalar("SELECT client_id FROM devices WHERE device_id = $1")
                    .bind(&id)
                    .fetch_optional(&mut *work)
                    .await?;
            if before.is_some_and(|before| !before.is_empty() && before != client_id) {
                revoke(&mut work, &id, now).await?;
            }
            let row = sqlx::query(concat!(
                "UPDATE devices SET bound = 1, client_id = $2, name = COALESCE($3, name) \
                 WHERE device_id = $1 RETURNING ",
                columns!()
            ))
            .bind(&id)
            .bind(client_id)
            .bind(name.map(text))
            .fetch_optional(&mut *work)
            .await?;
            work.commit().await?;
            row.as_ref().map(device).transpose()
        })
        .await
    }

    async fn confirm(
        &self,
        id: &DeviceId,
        client_id: &Secret,
        now: Timestamp,
    ) -> Result<Option<Device>, StoreError> {
        in_time(async {
            let row = sqlx::query(concat!(
                "INSERT INTO devices (device_id, client_id, board, chip, serial_number, \
                 firmware_version, first_seen_ms, last_seen_ms, address, bound) \
                 VALUES ($1, $2, '', '', '', '', $3, $3, '', 1) \
                 ON CONFLICT (device_id) DO UPDATE SET bound = 1, client_id = excluded.client_id \
                 WHERE devices.client_id = excluded.client_id OR devices.client_id = '' \
                 RETURNING ",
                columns!()
            ))
            .bind(text(id.as_str()))
            .bind(text(client_id.expose()))
            .bind(now.as_millisecond())
            .fetch_optional(self.writer().await?.pool)
            .await?;
            row.as_ref().map(device).transpose()
        })
        .await
    }

    async fn end_reviews(&self) -> Result<u64, StoreError> {
        in_time(async {
            let sql = "UPDATE devices SET bound = 0 WHERE bound = 2";
            let ended = sqlx::query(sql).execute(self.writer().await?.pool).await?;
            Ok(ended.rows_affected())
        })
        .await
    }

    async fn rename(&self, id: &DeviceId, name: &str) -> Result<Option<Device>, StoreError> {
        let sql =
            concat!("UPDATE devices SET name = $2 WHERE device_id = $1 RETURNING ", columns!());
        self.changed(sql, id, name).await
    }

    async fn revoke_tokens(&self, id: &DeviceId, now: Timestamp) -> Result<(), StoreError> {
        in_time(async {
            let mut work = self.begin().await?;
            revoke(&mut work, &text(id.as_str()), now).await?;
            work.commit().await
        })
        .await
    }

    async fn revoked_after(
        &self,
        after: Timestamp,
    ) -> Result<Vec<(DeviceId, Timestamp)>, StoreError> {
        in_time(self.revocations_after(after)).await
    }

    async fn forget(&self, id: &DeviceId, now: Timestamp) -> Result<bool, StoreError> {
        in_time(async {
            let id = text(id.as_str());
            let mut work = self.begin().await?;
            let gone = sqlx::query("DELETE FROM devices WHERE device_id = $1")
                .bind(&id)
                .execute(&mut *work)
                .await?;
            sqlx::query("DELETE FROM activations WHERE device_id = $1")
                .bind(&id)
                .execute(&mut *work)
                .await?;
            let known = gone.rows_affected() > 0;
            if known {
                revoke(&mut work, &id, now).await?;
            }
            work.commit().await?;
            Ok(known)
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
    /// Deletes devices without binding, name or settings beyond [`MAX_STRANGERS`]: those of the
    /// address with the most, unseen for longest first. A client that invents devices only removes
    /// its own.
    async fn make_room(&self) -> Result<(), SqlError> {
        let writer = self.writer().await?;
        let strangers: i64 =
            sqlx::query_scalar(concat!("SELECT COUNT(*) FROM devices WHERE ", strangers!()))
                .fetch_one(writer.pool)
                .await?;
        let surplus = strangers - i64::from(MAX_STRANGERS);
        if surplus <= 0 {
            return Ok(());
        }
        sqlx::query(concat!(
            "DELETE FROM devices WHERE device_id IN (SELECT device_id FROM devices WHERE ",
            strangers!(),
            " AND address = (SELECT address FROM devices WHERE ",
            strangers!(),
            " GROUP BY address ORDER BY COUNT(*) DESC, address LIMIT 1) \
             ORDER BY last_seen_ms, device_id LIMIT $1)"
        ))
        .bind(surplus)
        .execute(writer.pool)
        .await?;
        Ok(())
    }
}
