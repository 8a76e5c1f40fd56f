//! SQL of the tokens of tool clients: who created them, and which are revoked. Not for the tokens
//! themselves, which are not stored.

use async_trait::async_trait;
use hearken_ports::store::{MAX_TOOL_TOKENS, StoreError, ToolToken, ToolTokenStore};
use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::error::SqlError;
use super::{SqlStore, in_time, text, time};

fn token(row: &AnyRow) -> Result<ToolToken, SqlError> {
    let at = |name: &str| -> Result<Option<Timestamp>, SqlError> {
        row.try_get::<Option<i64>, _>(name)?.map(time).transpose()
    };
    Ok(ToolToken {
        serial: row.try_get("serial")?,
        agent: row.try_get("agent")?,
        name: row.try_get("name")?,
        made: at("made_ms")?,
        made_by: row.try_get("made_by")?,
        revoked: at("revoked_ms")?,
    })
}

#[async_trait]
impl ToolTokenStore for SqlStore {
    async fn tool_tokens(&self) -> Result<Vec<ToolToken>, StoreError> {
        in_time(async {
            let sql = "SELECT serial, agent, name, made_ms, made_by, revoked_ms FROM tool_tokens \
                       ORDER BY COALESCE(made_ms, 0) DESC, serial";
            let rows = sqlx::query(sql).fetch_all(self.pool().await?).await?;
            rows.iter().map(token).collect()
        })
        .await
    }

    async fn revoked_tool_tokens(&self) -> Result<Vec<String>, StoreError> {
        in_time(async {
            let sql = "SELECT serial FROM tool_tokens WHERE revoked_ms IS NOT NULL";
            Ok(sqlx::query_scalar(sql).fetch_all(self.pool().await?).await?)
        })
        .await
    }

    async fn add_tool_token(&self, token: &ToolToken) -> Result<bool, StoreError> {
        in_time(async {
            let added = sqlx::query(
                "INSERT INTO tool_tokens (serial, agent, name, made_ms, made_by, revoked_ms) \
                 SELECT $1, $2, $3, $4, $5, NULL \
                 WHERE (SELECT COUNT(*) FROM tool_tokens) < $6",
            )
            .bind(text(&token.serial))
            .bind(text(&token.agent))
            .bind(text(&token.name))
            .bind(token.made.map(Timestamp::as_millisecond))
            .bind(text(&token.made_by))
            .bind(i64::from(MAX_TOOL_TOKENS))
            .execute(self.writer().await?.pool)
            .await?;
            Ok(added.rows_affected() > 0)
        })
        .await
    }

    async fn revoke_tool_token(&self, serial: &str, now: Timestamp) -> Result<bool, StoreError> {
        in_time(async {
            let revoked = sqlx::query(
                "INSERT INTO tool_tokens (serial, agent, name, made_ms, made_by, revoked_ms) \
                 SELECT $1, '', '', NULL, '', $2 \
                 WHERE (SELECT COUNT(*) FROM tool_tokens) < $3 \
                 OR EXISTS (SELECT 1 FROM tool_tokens WHERE serial = $1) \
                 ON CONFLICT (serial) DO UPDATE SET \
                 revoked_ms = COALESCE(tool_tokens.revoked_ms, excluded.revoked_ms)",
            )
            .bind(text(serial))
            .bind(now.as_millisecond())
            .bind(i64::from(MAX_TOOL_TOKENS))
            .execute(self.writer().await?.pool)
            .await?;
            Ok(revoked.rows_affected() > 0)
        })
        .await
    }
}
