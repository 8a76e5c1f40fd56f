//! Sessions over an in-memory store: tokens, how they end, and the passwords that open them.

use hearken_store::SqlStore;

use super::*;
use crate::admin::password::PasswordState;

const PASSWORD: &str = "the password of the tests";

fn admin_sessions(store: &Arc<SqlStore>, secret: &str) -> AdminSessions {
    with_password(store, secret, PASSWORD)
}

/// Lifetimes of tokens.
const ACCESS: Duration = Duration::from_secs(900);
const REFRESH: Duration = Duration::from_secs(86_400);

fn with_password(store: &Arc<SqlStore>, secret: &str, password: &str) -> AdminSessions {
    let password = Secret::new(password);
    let passwords = Passwords::new(password, Secret::default(), Arc::clone(store) as _);
    AdminSessions::new(&Secret::new(secret), passwords, ACCESS, REFRESH, Arc::clone(store) as _)
}

/// Sessions of a server without a configured password.
fn with_token(store: &Arc<SqlStore>, token: &str) -> AdminSessions {
    let store = Arc::clone(store);
    let passwords = Passwords::new(Secret::default(), Secret::new(token), Arc::clone(&store) as _);
    AdminSessions::new(&Secret::new("s"), passwords, ACCESS, REFRESH, store)
}

#[tokio::test]
async fn a_chosen_password_takes_the_place_of_the_admin_token() {
    let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
    let one = with_token(&store, "token");
    let other = with_token(&store, "token");
    let first = one.log_in(USERNAME, "token", "x", at(0)).await.unwrap();
    assert_eq!(one.passwords().credential().await.unwrap().state(), PasswordState::None);
    let chosen = one.choose_first("a good password", "x", at(1)).await.unwrap();
    assert!(other.verify(&chosen.access_token, at(2)).await.is_ok(), "at every instance");
    let over = other.verify(&first.access_token, at(2)).await;
    assert!(matches!(over, Err(LoginError::Over)), "{over:?}");
    let again = other.choose_first("of another client", "x", at(3)).await;
    assert!(matches!(again, Err(LoginError::HasPassword)), "{again:?}");
    for wrong in ["token", "", "a good passworD", &"x".repeat(1_000)] {
        let told = other.log_in(USERNAME, wrong, "x", at(4)).await;
        assert!(matches!(told, Err(LoginError::Wrong)), "{wrong}");
    }
    let second = other.log_in(USERNAME, "a good password", "x", at(5)).await.unwrap();
    let told = other.change_password(USERNAME, "token", "another password", "x", at(6)).await;
    assert!(matches!(told, Err(LoginError::Wrong)), "{told:?}");
    let third =
        other.change_password(USERNAME, "a good password", "another password", "x", at(7)).await;
    assert!(one.verify(&third.unwrap().access_token, at(8)).await.is_ok());
    let over = one.verify(&second.access_token, at(8)).await;
    assert!(matches!(over, Err(LoginError::Over)), "{over:?}");
    assert!(one.log_in(USERNAME, "a good password", "x", at(9)).await.is_err());
    let stored = serde_json::to_string(&store.settings().await.unwrap()).unwrap();
    assert!(stored.contains("$argon2id$") && !stored.contains("another password"), "{stored}");
    // The configured password takes precedence.
    let configured = with_password(&store, "s", PASSWORD);
    assert!(configured.log_in(USERNAME, "another password", "x", at(10)).await.is_err());
    assert!(configured.log_in(USERNAME, PASSWORD, "x", at(10)).await.is_ok());
    let told =
        configured.change_password(USERNAME, PASSWORD, "a third password", "x", at(11)).await;
    assert!(matches!(told, Err(LoginError::Configured)), "{told:?}");
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + second).unwrap()
}

#[tokio::test]
async fn tokens_are_valid_for_their_lifetime_and_purpose_only() {
    let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
    let admin_sessions = admin_sessions(&store, "one secret");
    for (name, password) in [("admin", "wrong"), ("root", PASSWORD), ("", "")] {
        let told = admin_sessions.log_in(name, password, "x", at(0)).await;
        assert!(matches!(told, Err(LoginError::Wrong)), "{name}");
    }
    let pair = admin_sessions.log_in(USERNAME, PASSWORD, "x", at(0)).await.unwrap();
    assert_eq!((pair.token_type.as_str(), pair.expires_in), ("bearer", 900));
    assert_eq!(admin_sessions.verify(&pair.access_token, at(899)).await.unwrap().who, "admin");
    assert!(matches!(
        admin_sessions.verify(&pair.access_token, at(900)).await,
        Err(LoginError::Expired)
    ));
    assert!(matches!(
        admin_sessions.verify(&pair.refresh_token, at(0)).await,
        Err(LoginError::Token)
    ));
    let other = sessions_of_another(&store);
    assert!(matches!(other.verify(&pair.access_token, at(0)).await, Err(LoginError::Token)));
    // An unsigned token (algorithm `none`) must be refused.
    let bare = "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhZG1pbiJ9.";
    for token in ["", "x", "a.b.c", bare, &format!("{}x", pair.access_token)] {
        assert!(
            matches!(admin_sessions.verify(token, at(0)).await, Err(LoginError::Token)),
            "{token}"
        );
    }
}

#[tokio::test]
async fn a_login_over_the_limit_ends_the_oldest_session_of_its_name() {
    let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
    let sessions = with_token(&store, "a token of the tests");
    let mut pairs = Vec::new();
    for second in 0..i64::try_from(MOST_SESSIONS).unwrap() + 2 {
        let pair = sessions.log_in(USERNAME, "a token of the tests", "x", at(second)).await;
        pairs.push(pair.unwrap());
    }
    let now = at(100);
    for (n, pair) in pairs.iter().enumerate() {
        assert_eq!(sessions.verify(&pair.access_token, now).await.is_ok(), n >= 2, "{n}");
    }
    assert_eq!(store.settings().await.unwrap().len(), MOST_SESSIONS);
}

fn sessions_of_another(store: &Arc<SqlStore>) -> AdminSessions {
    admin_sessions(store, "another secret")
}

#[tokio::test]
async fn a_refresh_token_is_single_use_and_reuse_ends_the_session() {
    let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
    let first = admin_sessions(&store, "s");
    let second = admin_sessions(&store, "s");
    let pair = first.log_in(USERNAME, PASSWORD, "x", at(0)).await.unwrap();
    // A second instance of the server.
    let next = second.refresh(&pair.refresh_token, "x", at(5)).await.unwrap();
    assert!(first.verify(&next.access_token, at(6)).await.is_ok());
    let again = first.refresh(&pair.refresh_token, "x", at(7)).await;
    assert!(matches!(again, Err(LoginError::Over)));
    let stolen = first.refresh(&next.refresh_token, "x", at(8)).await;
    assert!(matches!(stolen, Err(LoginError::Over)), "the session is over for both");
    let pair = first.log_in(USERNAME, PASSWORD, "x", at(9)).await.unwrap();
    let administrator = first.verify(&pair.access_token, at(9)).await.unwrap();
    first.log_out(&administrator, "x", at(10)).await.unwrap();
    let out = first.refresh(&pair.refresh_token, "x", at(11)).await;
    assert!(matches!(out, Err(LoginError::Over)));
    let late = first.log_in(USERNAME, PASSWORD, "x", at(0)).await.unwrap();
    let late = first.refresh(&late.refresh_token, "x", at(86_400)).await;
    assert!(matches!(late, Err(LoginError::Expired)));
    first.log_in(USERNAME, PASSWORD, "x", at(90_000)).await.unwrap();
    let stored = store.settings().await.unwrap().len();
    assert_eq!(stored, 2, "ended sessions are deleted, expired ones only refused");
}

/// A board whose clock is wrong at startup, which no steady clock shows, and set later.
#[tokio::test]
async fn a_login_while_the_clock_is_ahead_ends_no_other_session() {
    const YEAR: i64 = 365 * 86_400;
    let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
    let sessions = admin_sessions(&store, "s");
    let before = sessions.log_in(USERNAME, PASSWORD, "x", at(0)).await.unwrap();
    let ahead = sessions.log_in(USERNAME, PASSWORD, "x", at(YEAR)).await.unwrap();
    let refused = sessions.refresh(&before.refresh_token, "x", at(YEAR)).await;
    assert!(matches!(refused, Err(LoginError::Expired)), "{refused:?}");
    for pair in [&before, &ahead] {
        assert!(sessions.verify(&pair.access_token, at(10)).await.is_ok());
        assert!(sessions.refresh(&pair.refresh_token, "x", at(20)).await.is_ok());
    }
}

#[tokio::test]
async fn tokens_end_with_their_session_and_with_the_password() {
    let store = Arc::new(SqlStore::at("sqlite::memory:").unwrap());
    let one = admin_sessions(&store, "s");
    let other = admin_sessions(&store, "s");
    let pair = one.log_in(USERNAME, PASSWORD, "x", at(0)).await.unwrap();
    let administrator = other.verify(&pair.access_token, at(1)).await.unwrap();
    other.log_out(&administrator, "x", at(2)).await.unwrap();
    let over = one.verify(&pair.access_token, at(3)).await;
    assert!(matches!(over, Err(LoginError::Over)), "at once, at every instance: {over:?}");
    let pair = one.log_in(USERNAME, PASSWORD, "x", at(4)).await.unwrap();
    let changed = with_password(&store, "s", "another password of the tests");
    let over = changed.verify(&pair.access_token, at(5)).await;
    assert!(matches!(over, Err(LoginError::Over)), "{over:?}");
    let over = changed.refresh(&pair.refresh_token, "x", at(6)).await;
    assert!(matches!(over, Err(LoginError::Over)), "{over:?}");
    changed.log_in(USERNAME, "another password of the tests", "x", at(7)).await.unwrap();
    assert_eq!(store.settings().await.unwrap().len(), 1, "stale sessions are deleted");
    assert!(one.verify(&pair.access_token, at(8)).await.is_err(), "of the former password");
    store.shut().await;
    let failed = changed.verify(&pair.access_token, at(9)).await;
    assert!(matches!(failed, Err(LoginError::Store(_))), "{failed:?}");
}
