//! A Redis in memory: the commands that the server uses, over byte streams without a network. The
//! link of each instance can be cut or silenced. Not for other programs.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use commands::Data;
use hearken_cluster::{OpenStream, RedisStream};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep};
use wire::{Reply, command};

mod commands;
mod wire;

/// Capacity of a stream in one direction, in bytes.
const STREAM: usize = 64 << 10;

/// State of the link between an instance and Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// It works.
    Up,
    /// Connections end, and no new ones can be opened.
    Cut,
    /// Connections stay open, but nothing arrives.
    Silent,
}

/// Occasional faults while faults last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mischief {
    /// Per thousand: responses that are lost with their connection, although the command was executed.
    pub(crate) lost_answers: u32,
    /// Per thousand: messages to subscribers that are sent twice.
    pub(crate) doubled: u32,
}

/// The server.
#[derive(Clone)]
pub(crate) struct Redis(Arc<Inner>);

struct Inner {
    data: Mutex<Data>,
    mischief: Mutex<Mischief>,
    dice: Mutex<fastrand::Rng>,
    /// Number of restarts: earlier connections end.
    era: watch::Sender<u64>,
    subscribers: Mutex<BTreeMap<u64, Subscriber>>,
}

struct Subscriber {
    channels: Vec<String>,
    out: mpsc::UnboundedSender<Reply>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no panic while it is locked")
}

impl Redis {
    pub(crate) fn new(dice: fastrand::Rng) -> Self {
        Self(Arc::new(Inner {
            data: Mutex::default(),
            mischief: Mutex::default(),
            dice: Mutex::new(dice),
            era: watch::Sender::new(0),
            subscribers: Mutex::default(),
        }))
    }

    /// Sets the faults from now on.
    pub(crate) fn set_mischief(&self, mischief: Mischief) {
        *locked(&self.0.mischief) = mischief;
    }

    /// Restarts Redis, with its data or without.
    pub(crate) fn restart(&self, forgets: bool) {
        if forgets {
            *locked(&self.0.data) = Data::default();
        }
        self.0.era.send_modify(|era| *era += 1);
    }

    /// Names of the held locks.
    pub(crate) fn held_locks(&self) -> Vec<String> {
        locked(&self.0.data).keys_with(":lock:")
    }

    /// Returns a function that opens the streams of an instance over this link.
    pub(crate) fn streams(&self, link: watch::Receiver<Link>) -> OpenStream {
        let redis = self.clone();
        Arc::new(move || {
            let redis = redis.clone();
            let link = link.clone();
            Box::pin(async move {
                if *link.borrow() == Link::Cut {
                    return Err(io::ErrorKind::ConnectionRefused.into());
                }
                let (near, far) = tokio::io::duplex(STREAM);
                tokio::spawn(redis.serve(far, link));
                Ok(Box::pin(near) as RedisStream)
            })
        })
    }

    fn throws(&self, of: impl Fn(&Mischief) -> u32) -> bool {
        let often = of(&locked(&self.0.mischief));
        locked(&self.0.dice).u32(0..1_000) < often
    }

    fn pause(&self) -> Duration {
        Duration::from_micros(locked(&self.0.dice).u64(50..2_000))
    }

    /// Serves one connection until it ends, its link is cut, or Redis restarts.
    async fn serve(self, stream: DuplexStream, mut link: watch::Receiver<Link>) {
        static CONNECTIONS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = CONNECTIONS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut era = self.0.era.subscribe();
        let (reader, writer) = tokio::io::split(stream);
        let (out, replies) = mpsc::unbounded_channel();
        let mut cut = link.clone();
        let work = async {
            tokio::select! {
                biased;
                () = self.read(reader, link.clone(), number, out) => {}
                () = write(writer, replies, &mut link) => {}
            }
        };
        tokio::select! {
            biased;
            _ = cut.wait_for(|link| *link == Link::Cut) => {}
            _ = era.changed() => {}
            () = work => {}
        }
        locked(&self.0.subscribers).remove(&number);
    }

    /// Executes commands in order.
    async fn read(
        &self,
        mut reader: ReadHalf<DuplexStream>,
        mut link: watch::Receiver<Link>,
        number: u64,
        out: mpsc::UnboundedSender<Reply>,
    ) {
        let mut bytes = Vec::new();
        let mut part = vec![0; 4_096];
        loop {
            while let Some((words, used)) = command(&bytes) {
                bytes.drain(..used);
                sleep(self.pause()).await;
                if link.wait_for(|link| *link != Link::Silent).await.is_err() {
                    return;
                }
                let reply = self.carry_out(&words, number, &out);
                if self.throws(|mischief| mischief.lost_answers) || out.send(reply).is_err() {
                    return;
                }
            }
            match reader.read(&mut part).await {
                Ok(read) if read > 0 => bytes.extend_from_slice(&part[..read]),
                _ => return,
            }
        }
    }

    fn carry_out(
        &self,
        words: &[String],
        number: u64,
        out: &mpsc::UnboundedSender<Reply>,
    ) -> Reply {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let name = words.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
        match (name.as_str(), &words[1..]) {
            ("PING", _) if locked(&self.0.subscribers).contains_key(&number) => {
                Reply::Array(vec![Reply::bulk("pong"), Reply::bulk("")])
            }
            ("SUBSCRIBE", [channel]) => {
                let mut all = locked(&self.0.subscribers);
                let subscriber = all
                    .entry(number)
                    .or_insert_with(|| Subscriber { channels: Vec::new(), out: out.clone() });
                subscriber.channels.push((*channel).to_owned());
                let many = i64::try_from(subscriber.channels.len()).unwrap_or(i64::MAX);
                Reply::Array(vec![Reply::bulk("subscribe"), Reply::bulk(channel), Reply::Int(many)])
            }
            ("PUBLISH", [channel, text]) => Reply::Int(self.publish(channel, text)),
            (name, arguments) => locked(&self.0.data).carry_out(name, arguments, Instant::now()),
        }
    }

    fn publish(&self, channel: &str, text: &str) -> i64 {
        let mut reached = 0;
        for subscriber in locked(&self.0.subscribers).values() {
            if !subscriber.channels.iter().any(|subscribed| subscribed == channel) {
                continue;
            }
            let words = ["message", channel, text];
            let message = || Reply::Array(words.map(Reply::bulk).to_vec());
            reached += 1;
            // A subscriber that has just disconnected is not reached.
            subscriber.out.send(message()).unwrap_or_default();
            if self.throws(|mischief| mischief.doubled) {
                subscriber.out.send(message()).unwrap_or_default();
            }
        }
        reached
    }
}

/// Writes replies while the link works.
async fn write(
    mut writer: WriteHalf<DuplexStream>,
    mut replies: mpsc::UnboundedReceiver<Reply>,
    link: &mut watch::Receiver<Link>,
) {
    while let Some(reply) = replies.recv().await {
        if link.wait_for(|link| *link != Link::Silent).await.is_err()
            || writer.write_all(&reply.bytes()).await.is_err()
        {
            return;
        }
    }
}
