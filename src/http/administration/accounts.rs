//! REST API of accounts: the current user, and the other users who may log in. Not for logging in.

use actix_web::{HttpResponse, web};
use hearken_proto::fault::Fault;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::admin::rights::Right;
use crate::admin::sessions::{Account, AccountError};
use crate::http::admin_access::Admin;
use crate::http::administration::password::checked;
use crate::http::extract::{AdminSession, JsonBody, Operator};
use crate::http::fault::{Faults, Refusal, RouteResult, refusal, store_failed};

/// Path of one account.
pub(crate) const ONE: &str = "/api/accounts/{name}";

/// The current user.
#[derive(Serialize, ToSchema)]
struct Asking {
    /// Name; `admin` also for the admin token.
    name: String,
    /// Right of the user.
    right: Right,
}

/// Account of a user.
#[derive(Serialize, ToSchema)]
struct AccountShown {
    /// Name, in lower case.
    name: String,
    /// Right of the user.
    right: Right,
    /// Creation time.
    #[schema(value_type = String, format = DateTime)]
    created: Timestamp,
}

impl From<Account> for AccountShown {
    fn from(Account { name, right, created, .. }: Account) -> Self {
        Self { name, right, created }
    }
}

/// All accounts except the administrator's.
#[derive(Serialize, ToSchema)]
struct AccountsShown {
    /// Accounts, sorted by name.
    accounts: Vec<AccountShown>,
}

/// New account.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAccount {
    /// Name, 1 to 40 characters: letters and digits without accents, `.`, `_`, `-`; stored in lower case.
    name: String,
    /// Right of the user.
    right: Right,
    /// Password, 8 to 128 characters, without spaces at its ends.
    password: String,
}

/// Changes to an account; omitted fields stay as they are.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AccountChange {
    /// New right.
    right: Option<Right>,
    /// New password, 8 to 128 characters, without spaces at its ends; ends the sessions of the account.
    password: Option<String>,
}

fn refusal_of(error: &AccountError) -> Refusal {
    let fault = match error {
        AccountError::Name => Fault::BadRequest,
        AccountError::Taken | AccountError::TooMany | AccountError::Changed => Fault::Conflict,
        AccountError::Unknown => Fault::NotFound,
        AccountError::Store(error) => return store_failed(error),
    };
    refusal(fault, &error.to_string())
}

/// Returns the name and the right of the current user.
#[utoipa::path(get, path = "/api/account", tag = "accounts",
    responses((status = 200, body = Asking), Faults))]
pub(crate) async fn asking(operator: Operator) -> HttpResponse {
    let right = operator.0.as_ref().map_or(Right::Administrator, |who| who.right);
    let name = operator.name().to_owned();
    HttpResponse::Ok().json(Asking { name, right })
}

/// Lists the accounts.
#[utoipa::path(get, path = "/api/accounts", tag = "accounts",
    responses((status = 200, body = AccountsShown), Faults))]
pub(crate) async fn list(_: AdminSession, admin: web::Data<Admin>) -> RouteResult {
    let accounts = admin.admin_sessions.accounts().await.map_err(|error| store_failed(&error))?;
    let accounts = accounts.into_iter().map(AccountShown::from).collect();
    Ok(HttpResponse::Ok().json(AccountsShown { accounts }))
}

/// Adds an account.
#[utoipa::path(post, path = "/api/accounts", tag = "accounts", request_body = NewAccount,
    responses((status = 201, body = AccountShown), Faults))]
pub(crate) async fn add(
    session: AdminSession,
    body: JsonBody<NewAccount>,
    admin: web::Data<Admin>,
) -> RouteResult {
    let NewAccount { name, right, password } = body.0;
    checked(&password)?;
    let by = &session.0.who;
    let now = Timestamp::now();
    let added = admin.admin_sessions.add_account(&name, right, &password, by, now).await;
    let account = added.map_err(|error| refusal_of(&error))?;
    Ok(HttpResponse::Created().json(AccountShown::from(account)))
}

/// Changes the right or the password of an account.
#[utoipa::path(patch, path = "/api/accounts/{name}", tag = "accounts",
    params(("name" = String, Path,)), request_body = AccountChange,
    responses((status = 200, body = AccountShown), Faults))]
pub(crate) async fn change(
    session: AdminSession,
    name: web::Path<String>,
    body: JsonBody<AccountChange>,
    admin: web::Data<Admin>,
) -> RouteResult {
    let AccountChange { right, password } = body.0;
    password.as_deref().map(checked).transpose()?;
    let by = &session.0.who;
    let password = password.as_deref();
    let sessions = &admin.admin_sessions;
    let changed = sessions.change_account(&name, right, password, by, Timestamp::now()).await;
    let account = changed.map_err(|error| refusal_of(&error))?;
    Ok(HttpResponse::Ok().json(AccountShown::from(account)))
}

/// Deletes an account and ends its sessions.
#[utoipa::path(delete, path = "/api/accounts/{name}", tag = "accounts",
    params(("name" = String, Path,)), responses((status = 204), Faults))]
pub(crate) async fn delete(
    session: AdminSession,
    name: web::Path<String>,
    admin: web::Data<Admin>,
) -> RouteResult {
    let deleted = admin.admin_sessions.delete_account(&name, &session.0.who, Timestamp::now());
    deleted.await.map_err(|error| refusal_of(&error))?;
    Ok(HttpResponse::NoContent().finish())
}
