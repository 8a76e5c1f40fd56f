//! SQL of tool servers, and of the tool settings of devices. Not for other data of devices.

use async_trait::async_trait;
use hearken_base::Secret;
use hearken_ports::store::{Device, KeptPin, KeptServer, StoreError, ToolStore};
use hearken_proto::ids::DeviceId;
use sqlx::Row as _;

use super::devices::{columns, device};
use super::{SqlStore, in_time, text, unusable};

#[async_trait]
impl ToolStore for SqlStore {
    async fn tool_servers(&self) -> Result<Vec<KeptServer>, StoreError> {
        in_time(async {
            let rows =
                sqlx::query("SELECT name, settings, enabled FROM tool_servers ORDER BY name")
                    .fetch_all(self.pool().await?)
                    .await?;
            let server = |row: &sqlx::any::AnyRow| {
                let settings: Option<String> = row.try_get("settings")?;
                Ok(KeptServer {
                    name: row.try_get("name")?,
                    settings: settings.map(Secret::new),
                    enabled: row.try_get::<i64, _>("enabled")? != 0,
                })
            };
            rows.iter().map(server).collect()
        })
        .await
    }

    async fn add_tool_server(&self, server: &KeptServer) -> Result<bool, StoreError> {
        in_time(async {
            let added = sqlx::query(
                "INSERT INTO tool_servers (name, settings, enabled) VALUES ($1, $2, $3) \
                 ON CONFLICT (name) DO UPDATE SET \
                 settings = excluded.settings, enabled = excluded.enabled \
                 WHERE tool_servers.settings IS NULL",
            )
            .bind(text(&server.name))
            .bind(server.settings.as_ref().map(|s| text(s.expose())))
            .bind(i64::from(server.enabled))
            .execute(self.writer().await?.pool)
            .await?;
            Ok(added.rows_affected() > 0)
        })
        .await
    }

    async fn switch_tool_server(&self, name: &str, enabled: bool) -> Result<bool, StoreError> {
        in_time(async {
            let sql = "UPDATE tool_servers SET enabled = $2 \
                       WHERE name = $1 AND settings IS NOT NULL";
            let switched = sqlx::query(sql)
                .bind(text(name))
                .bind(i64::from(enabled))
                .execute(self.writer().await?.pool)
                .await?;
            Ok(switched.rows_affected() > 0)
        })
        .await
    }

    async fn switch_configured_server(&self, name: &str, enabled: bool) -> Result<(), StoreError> {
        in_time(async {
            sqlx::query(
                "INSERT INTO tool_servers (name, settings, enabled) VALUES ($1, NULL, $2) \
                 ON CONFLICT (name) DO UPDATE SET settings = NULL, enabled = excluded.enabled",
            )
            .bind(text(name))
            .bind(i64::from(enabled))
            .execute(self.writer().await?.pool)
            .await?;
            Ok(())
        })
        .await
    }

    async fn forget_tool_server(&self, name: &str) -> Result<bool, StoreError> {
        in_time(async {
            let gone = sqlx::query("DELETE FROM tool_servers WHERE name = $1")
                .bind(text(name))
                .execute(self.writer().await?.pool)
                .await?;
            Ok(gone.rows_affected() > 0)
        })
        .await
    }

    async fn tool_pins(&self) -> Result<Vec<KeptPin>, StoreError> {
        in_time(async {
            let sql =
                "SELECT agent, source, tool, hash FROM tool_pins ORDER BY agent, source, tool";
            let rows = sqlx::query(sql).fetch_all(self.pool().await?).await?;
            let pin = |row: &sqlx::any::AnyRow| {
                Ok(KeptPin {
                    agent: row.try_get("agent")?,
                    source: row.try_get("source")?,
                    tool: row.try_get("tool")?,
                    hash: row.try_get("hash")?,
                })
            };
            rows.iter().map(pin).collect()
        })
        .await
    }

    async fn add_tool_pins(&self, pins: &[KeptPin]) -> Result<(), StoreError> {
        let sql = "INSERT INTO tool_pins (agent, source, tool, hash) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (agent, source, tool) DO NOTHING";
        self.write_pins(sql, pins).await
    }

    async fn set_tool_pins(&self, pins: &[KeptPin]) -> Result<(), StoreError> {
        let sql = "INSERT INTO tool_pins (agent, source, tool, hash) VALUES ($1, $2, $3, $4) \
                   ON CONFLICT (agent, source, tool) DO UPDATE SET hash = excluded.hash";
        self.write_pins(sql, pins).await
    }

    async fn forget_tool_pins(&self, server: &str) -> Result<(), StoreError> {
        in_time(async {
            sqlx::query("DELETE FROM tool_pins WHERE agent = '' AND source = $1")
                .bind(text(server))
                .execute(self.writer().await?.pool)
                .await?;
            Ok(())
        })
        .await
    }

    async fn set_tools_off(
        &self,
        id: &DeviceId,
        off: &[String],
    ) -> Result<Option<Device>, StoreError> {
        let off = serde_json::to_string(off).map_err(unusable)?;
        let sql = concat!(
            "UPDATE devices SET tools_off = $2 WHERE device_id = $1 RETURNING ",
            columns!()
        );
        self.changed(sql, id, &off).await
    }

    async fn set_agent(&self, id: &DeviceId, agent: &str) -> Result<Option<Device>, StoreError> {
        let sql =
            concat!("UPDATE devices SET agent = $2 WHERE device_id = $1 RETURNING ", columns!());
        self.changed(sql, id, agent).await
    }

    async fn set_system_prompt(
        &self,
        id: &DeviceId,
        prompt: &str,
    ) -> Result<Option<Device>, StoreError> {
        let sql = concat!(
            "UPDATE devices SET system_prompt = $2 WHERE device_id = $1 RETURNING ",
            columns!()
        );
        self.changed(sql, id, prompt).await
    }

    async fn devices_with_overrides(&self) -> Result<Vec<Device>, StoreError> {
        in_time(async {
            let rows = sqlx::query(concat!(
                "SELECT ",
                columns!(),
                " FROM devices WHERE tools_off <> '[]' OR agent <> 'default' \
                 OR system_prompt <> '' OR role_id <> '' ORDER BY device_id"
            ))
            .fetch_all(self.pool().await?)
            .await?;
            rows.iter().map(device).collect()
        })
        .await
    }
}

impl SqlStore {
    /// Executes a statement for each of these pins, for all of them or none.
    async fn write_pins(&self, sql: &'static str, pins: &[KeptPin]) -> Result<(), StoreError> {
        if pins.is_empty() {
            return Ok(());
        }
        in_time(async {
            let mut work = self.begin().await?;
            for KeptPin { agent, source, tool, hash } in pins {
                let statement = sqlx::query(sql).bind(text(agent)).bind(text(source));
                statement.bind(text(tool)).bind(text(hash)).execute(&mut *work).await?;
            }
            work.commit().await
        })
        .await
    }
}
