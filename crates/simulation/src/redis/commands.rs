//! The data of Redis, and the commands and scripts that read and change it. Not for connections and
//! subscribers.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::wire::Reply;

/// All data of Redis.
#[derive(Default)]
pub(super) struct Data {
    entries: BTreeMap<String, Entry>,
    /// Scripts by their hash.
    scripts: BTreeMap<String, Script>,
}

/// Id of a stream's entry: milliseconds since 1970, and a number within them.
type Id = (u64, u64);

struct Entry {
    value: Value,
    expires: Option<Instant>,
}

enum Value {
    Text(String),
    /// Ids and fields of a stream's entries.
    Stream(Vec<(Id, String, String)>),
}

/// The scripts of session locks.
#[derive(Clone, Copy)]
enum Script {
    Take,
    Renew,
    Free,
}

impl Script {
    /// Identifies a script by its text.
    fn of(code: &str) -> Option<Self> {
        let has = |word: &str| code.contains(word);
        match (has("'NX'"), has("KEYS[2]"), has("'PEXPIRE'"), has("'DEL'")) {
            (true, true, false, false) => Some(Self::Take),
            (true, false, true, false) => Some(Self::Renew),
            (false, false, false, true) => Some(Self::Free),
            _ => None,
        }
    }
}

impl Data {
    /// Names of the keys that contain this word.
    pub(super) fn keys_with(&mut self, word: &str) -> Vec<String> {
        self.expire(Instant::now());
        self.entries.keys().filter(|key| key.contains(word)).cloned().collect()
    }

    fn expire(&mut self, now: Instant) {
        self.entries.retain(|_, entry| entry.expires.is_none_or(|expires| expires > now));
    }

    fn text(&self, key: &str) -> Option<&str> {
        match &self.entries.get(key)?.value {
            Value::Text(text) => Some(text),
            Value::Stream(_) => None,
        }
    }

    fn set(&mut self, key: &str, text: &str, expires: Option<Instant>) {
        let value = Value::Text(text.to_owned());
        self.entries.insert(key.to_owned(), Entry { value, expires });
    }

    /// Executes a command.
    pub(super) fn carry_out(&mut self, name: &str, arguments: &[&str], now: Instant) -> Reply {
        self.expire(now);
        match (name, arguments) {
            ("PING", _) => Reply::Status("PONG"),
            ("CLIENT", _) => Reply::Status("OK"),
            ("SCRIPT", [_, code]) => {
                let hash = sha1_smol::Sha1::from(code).digest().to_string();
                let script = Script::of(code).expect("the scripts of locks are known");
                let loaded = Reply::bulk(&hash);
                self.scripts.insert(hash, script);
                loaded
            }
            ("EVALSHA", [hash, keys, rest @ ..]) => match self.scripts.get(*hash) {
                None => Reply::Error("NOSCRIPT No matching script."),
                Some(script) => {
                    let script = *script;
                    let keys = keys.parse().unwrap_or_default();
                    let (keys, arguments) = rest.split_at(keys);
                    self.run(script, keys, arguments, now)
                }
            },
            ("PEXPIRE", [key, ms]) => Reply::Int(self.renew(key, ms, now)),
            ("DEL", keys) => {
                let removed = keys.iter().filter(|key| self.entries.remove(**key).is_some());
                Reply::Int(i64::try_from(removed.count()).unwrap_or(i64::MAX))
            }
            ("XADD", [key, .., field, text]) => self.add(key, field, text),
            ("SET", [key, _, "NX"]) if self.text(key).is_some() => Reply::Bulk(None),
            ("SET", [key, text, "NX"]) => {
                self.set(key, text, None);
                Reply::Status("OK")
            }
            ("TIME", _) => {
                let now = Timestamp::now().as_microsecond();
                let parts = [now / 1_000_000, now % 1_000_000];
                Reply::Array(parts.map(|part| Reply::bulk(&part.to_string())).to_vec())
            }
            ("GET", [key]) => Reply::Bulk(self.text(key).map(str::to_owned)),
            ("XREVRANGE", [key, to, _, _, most]) => {
                self.backwards(key, to, most.parse().unwrap_or_default())
            }
            ("XRANGE", [key, from, _, rest @ ..]) => {
                let most = rest.get(1).and_then(|most| most.parse().ok());
                self.range(key, from, most.unwrap_or(usize::MAX))
            }
            _ => Reply::Error("ERR unknown command"),
        }
    }

    fn renew(&mut self, key: &str, ms: &str, now: Instant) -> i64 {
        let Some(entry) = self.entries.get_mut(key) else { return 0 };
        entry.expires = Some(now + millis(ms));
        1
    }

    /// Runs a lock script: see `crates/cluster/src/locks.rs`.
    fn run(&mut self, script: Script, keys: &[&str], arguments: &[&str], now: Instant) -> Reply {
        let key = keys[0];
        let owner = arguments[0];
        let holder = self.text(key).map(str::to_owned);
        match script {
            Script::Take if holder.is_some() => Reply::Bulk(None),
            Script::Take => {
                self.set(key, owner, Some(now + millis(arguments[1])));
                let last: i64 = self.text(keys[1]).and_then(|n| n.parse().ok()).unwrap_or(0);
                let fence = (last + 1).max(arguments[2].parse().unwrap_or(0)).to_string();
                self.set(keys[1], &fence, None);
                Reply::bulk(&fence)
            }
            Script::Renew => match holder {
                None => {
                    self.set(key, owner, Some(now + millis(arguments[1])));
                    Reply::Int(1)
                }
                Some(holder) if holder == owner => Reply::Int(self.renew(key, arguments[1], now)),
                Some(_) => Reply::Int(0),
            },
            Script::Free if holder.as_deref() == Some(owner) => {
                self.entries.remove(key);
                Reply::Int(1)
            }
            Script::Free => Reply::Int(0),
        }
    }

    fn add(&mut self, key: &str, field: &str, text: &str) -> Reply {
        let now = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or_default();
        let entry = self
            .entries
            .entry(key.to_owned())
            .or_insert_with(|| Entry { value: Value::Stream(Vec::new()), expires: None });
        let Value::Stream(entries) = &mut entry.value else {
            return Reply::Error("WRONGTYPE Operation against a key holding the wrong kind");
        };
        let id = match entries.last() {
            Some(((ms, number), ..)) if *ms >= now => (*ms, number + 1),
            _ => (now, 0),
        };
        entries.push((id, field.to_owned(), text.to_owned()));
        Reply::bulk(&format!("{}-{}", id.0, id.1))
    }

    fn range(&self, key: &str, from: &str, most: usize) -> Reply {
        let Some(Entry { value: Value::Stream(entries), .. }) = self.entries.get(key) else {
            return Reply::Array(Vec::new());
        };
        let after = from.strip_prefix('(').and_then(parsed);
        let later = entries.iter().filter(|(id, ..)| after.is_none_or(|after| *id > after));
        let shown = later.take(most).map(|(id, field, text)| shown(id, field, text));
        Reply::Array(shown.collect())
    }

    fn backwards(&self, key: &str, to: &str, most: usize) -> Reply {
        let Some(Entry { value: Value::Stream(entries), .. }) = self.entries.get(key) else {
            return Reply::Array(Vec::new());
        };
        let before = to.strip_prefix('(').and_then(parsed);
        let earlier = entries.iter().rev().filter(|(id, ..)| before.is_none_or(|to| *id < to));
        let shown = earlier.take(most).map(|(id, field, text)| shown(id, field, text));
        Reply::Array(shown.collect())
    }
}

fn shown(id: &Id, field: &str, text: &str) -> Reply {
    let fields = vec![Reply::bulk(field), Reply::bulk(text)];
    Reply::Array(vec![Reply::bulk(&format!("{}-{}", id.0, id.1)), Reply::Array(fields)])
}

fn parsed(id: &str) -> Option<Id> {
    let (ms, number) = id.split_once('-')?;
    Some((ms.parse().ok()?, number.parse().ok()?))
}

fn millis(text: &str) -> Duration {
    Duration::from_millis(text.parse().unwrap_or(0))
}
