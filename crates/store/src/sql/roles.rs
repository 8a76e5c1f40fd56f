//! SQL of roles. Not for their effects.

use async_trait::async_trait;
use hearken_base::names::are_same;
use hearken_ports::role::RoleSettings;
use hearken_ports::store::{
    Device, MAX_ROLE_VERSIONS, MAX_ROLES, Role, RoleOutcome, RoleStore, StoreError,
};
use hearken_proto::ids::DeviceId;
use jiff::Timestamp;
use sqlx::Row as _;
use sqlx::any::AnyRow;

use super::devices::columns;
use super::error::SqlError;
use super::{SqlStore, StoreTransaction, in_time, text, time, unusable};

/// Names of all columns of a role, and of a version of a role.
macro_rules! role_columns {
    () => {
        "role_id, name, version, settings, updated_ms"
    };
}

fn role(row: &AnyRow) -> Result<Role, SqlError> {
    Ok(Role {
        role_id: row.try_get("role_id")?,
        name: row.try_get("name")?,
        version: row.try_get("version")?,
        updated: time(row.try_get("updated_ms")?)?,
        settings: serde_json::from_str(row.try_get("settings")?).map_err(unusable)?,
    })
}

/// Returns settings in their stored form. JSON escapes NUL, so every database can store it.
fn stored(settings: &RoleSettings) -> Result<String, SqlError> {
    serde_json::to_string(settings).map_err(unusable)
}

#[async_trait]
impl RoleStore for SqlStore {
    async fn roles(&self) -> Result<Vec<Role>, StoreError> {
        in_time(async {
            let sql = concat!("SELECT ", role_columns!(), " FROM roles ORDER BY name");
            let rows = sqlx::query(sql).fetch_all(self.pool().await?).await?;
            rows.iter().map(role).collect()
        })
        .await
    }

    async fn add_role(&self, role: &Role) -> Result<RoleOutcome, StoreError> {
        in_time(async {
            let mut work = self.begin_alone(["roles"].into_iter()).await?;
            let count: i64 =
                sqlx::query_scalar("SELECT COUNT(*) FROM roles").fetch_one(&mut *work).await?;
            let outcome = if is_taken(&mut work, &role.role_id, &role.name).await? {
                RoleOutcome::NameTaken
            } else if count >= i64::from(MAX_ROLES) {
                RoleOutcome::TooMany
            } else {
                let updated = time(role.updated.as_millisecond())?;
                let first = Role { version: 1, name: text(&role.name), updated, ..role.clone() };
                insert(&mut work, &first).await?;
                RoleOutcome::Done(Box::new(first))
            };
            work.commit().await?;
            Ok(outcome)
        })
        .await
    }

    async fn change_role(
        &self,
        role_id: &str,
        version: i64,
        name: &str,
        settings: &RoleSettings,
        now: Timestamp,
    ) -> Result<RoleOutcome, StoreError> {
        in_time(async {
            let mut work = self.begin_alone(["roles"].into_iter()).await?;
            let sql = concat!("SELECT ", role_columns!(), " FROM roles WHERE role_id = $1");
            let row = sqlx::query(sql).bind(text(role_id)).fetch_optional(&mut *work).await?;
            let Some(before) = row.as_ref().map(self::role).transpose()? else {
                work.rollback().await?;
                return Ok(RoleOutcome::Unknown);
            };
            let outcome = if before.version != version {
                RoleOutcome::Overtaken
            } else if before.name != name && is_taken(&mut work, role_id, name).await? {
                RoleOutcome::NameTaken
            } else if before.name == name && before.settings == *settings {
                RoleOutcome::Done(Box::new(before))
            } else {
                let name = text(name);
                let settings = settings.clone();
                let version = before.version + 1;
                let updated = time(now.as_millisecond())?;
                let next = Role { name, settings, version, updated, ..before };
                update(&mut work, &next).await?;
                RoleOutcome::Done(Box::new(next))
            };
            work.commit().await?;
            Ok(outcome)
        })
        .await
    }

    async fn delete_role(&self, role_id: &str) -> Result<bool, StoreError> {
        in_time(async {
            // Its devices and people keep its id: without a role, they would have the tools that it
            // withheld from them.
            let mut work = self.begin().await?;
            let sql = "DELETE FROM roles WHERE role_id = $1";
            let gone = sqlx::query(sql).bind(text(role_id)).execute(&mut *work).await?;
            work.commit().await?;
            Ok(gone.rows_affected() > 0)
        })
        .await
    }

    async fn role_versions(&self, role_id: &str) -> Result<Vec<Role>, StoreError> {
        in_time(async {
            let rows = sqlx::query(concat!(
                "SELECT ",
                role_columns!(),
                " FROM role_versions WHERE role_id = $1 ORDER BY version DESC"
            ))
            .bind(text(role_id))
            .fetch_all(self.pool().await?)
            .await?;
            rows.iter().map(role).collect()
        })
        .await
    }

    async fn set_role(&self, id: &DeviceId, role_id: &str) -> Result<Option<Device>, StoreError> {
        let sql =
            concat!("UPDATE devices SET role_id = $2 WHERE device_id = $1 RETURNING ", columns!());
        self.changed(sql, id, role_id).await
    }
}

/// Returns true if another role has this name, or one that looks the same.
async fn is_taken(
    work: &mut StoreTransaction,
    role_id: &str,
    name: &str,
) -> Result<bool, SqlError> {
    let sql = "SELECT name FROM roles WHERE role_id <> $1";
    let others: Vec<String> =
        sqlx::query_scalar(sql).bind(text(role_id)).fetch_all(&mut **work).await?;
    Ok(others.iter().any(|other| are_same(other, name)))
}

async fn insert(work: &mut StoreTransaction, role: &Role) -> Result<(), SqlError> {
    let sql = "INSERT INTO roles (role_id, name, version, settings, updated_ms) \
               VALUES ($1, $2, $3, $4, $5)";
    write(work, sql, role).await?;
    keep_version(work, role).await
}

async fn update(work: &mut StoreTransaction, role: &Role) -> Result<(), SqlError> {
    let sql = "UPDATE roles SET name = $2, version = $3, settings = $4, updated_ms = $5 \
               WHERE role_id = $1";
    write(work, sql, role).await?;
    keep_version(work, role).await?;
    sqlx::query("DELETE FROM role_versions WHERE role_id = $1 AND version <= $2")
        .bind(text(&role.role_id))
        .bind(role.version - i64::from(MAX_ROLE_VERSIONS))
        .execute(&mut **work)
        .await?;
    Ok(())
}

async fn keep_version(work: &mut StoreTransaction, role: &Role) -> Result<(), SqlError> {
    let sql = "INSERT INTO role_versions (role_id, name, version, settings, updated_ms) \
               VALUES ($1, $2, $3, $4, $5)";
    write(work, sql, role).await
}

/// Executes a statement with all columns of a role.
async fn write(
    work: &mut StoreTransaction,
    sql: &'static str,
    role: &Role,
) -> Result<(), SqlError> {
    sqlx::query(sql)
        .bind(text(&role.role_id))
        .bind(text(&role.name))
        .bind(role.version)
        .bind(stored(&role.settings)?)
        .bind(role.updated.as_millisecond())
        .execute(&mut **work)
        .await?;
    Ok(())
}
