//! Replay of a recording to a server in real time, as a device would send it: its options and its
//! run. Not for the actions of the person, which are in [`super::script`], nor for judging the
//! result, which is in [`super::session`].

use std::future::IntoFuture;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hearken_proto::device::{AudioParams, ListenMode};

use super::boot::BootError;
use super::endpoint_options::EndpointOptions;
use super::firmware::Fact;
use super::profile::Profile;
use super::read_back::read_back;
use super::recording::Recording;
use super::report::Report;
use super::script::{Script, TimeLimits};
use super::session::{ReadBack, Session};
use super::socket::{Device, SocketError};
use super::sound;
use super::text_similarity::agreement;
use super::toolbox::Toolbox;

/// Reason why a replay could not run. The answer of the server is in the [`Session`].
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The speed is not a number above 0.
    #[error("the speed is {0}: it must be a number above 0")]
    Speed(f64),
    /// The boot sequence at the OTA address failed.
    #[error("cannot boot: {0}")]
    Boot(#[from] BootError),
    /// The device cannot connect.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The device connected, but received no hello.
    #[error("{url} sent no hello: is it a xiaozhi device endpoint?")]
    NoHello {
        /// Address to which the device connected.
        url: String,
    },
    /// The reply's audio cannot be decoded or transcribed.
    #[error("{0:#}")]
    Reply(anyhow::Error),
}

impl Recording {
    /// Returns a replay to the device endpoint at this `ws://` or `wss://` address, which runs when
    /// it is awaited; see [`Replay`] for its options.
    pub fn replay(&self, url: impl Into<String>) -> Replay {
        let options = EndpointOptions { url: Some(url.into()), ..EndpointOptions::default() };
        self.replay_to(options)
    }

    /// Returns a replay to the endpoint of these options.
    pub fn replay_to(&self, endpoint: EndpointOptions) -> Replay {
        Replay::new(self.clone(), endpoint)
    }
}

/// Replay with its options; nothing is sent before it is awaited.
///
/// ```no_run
/// # async fn replay() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use hearken_virtual_device::{Recording, profile::Profile};
///
/// let session = Recording::load("session.jsonl")?
///     .replay("wss://example.com/xiaozhi/v1/")
///     .token("secret")
///     .header("x-tenant", "kitchen")
///     .profile(Profile::named("2.2.2").ok_or("no such firmware")?)
///     .answer_within(Duration::from_secs(20))
///     .await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is sent before a replay is awaited"]
#[derive(Debug, Clone)]
pub struct Replay {
    recording: Recording,
    endpoint: EndpointOptions,
    mode: Option<ListenMode>,
    profile: Option<Profile>,
    framing: Option<u32>,
    toolbox: Toolbox,
    headers: Vec<(String, String)>,
    speed: f64,
    limits: TimeLimits,
    recogniser: Option<String>,
}

impl Replay {
    pub(super) fn new(recording: Recording, endpoint: EndpointOptions) -> Self {
        Self {
            recording,
            endpoint,
            mode: None,
            profile: None,
            framing: None,
            toolbox: Toolbox::default(),
            headers: Vec::new(),
            speed: 1.0,
            limits: TimeLimits::default(),
            recogniser: None,
        }
    }

    /// Boots at this OTA address first, as firmware does, and uses the token from there.
    pub fn ota(mut self, url: impl Into<String>) -> Self {
        self.endpoint.ota = Some(url.into());
        self
    }

    /// Sends this bearer token, and requests none from an OTA address.
    pub fn token(mut self, token: impl Into<String>) -> Self {
        self.endpoint.token = Some(token.into());
        self
    }

    /// Connects with this `Device-Id` (a MAC address, lower case with colons) instead of the
    /// recording's.
    pub fn device_id(mut self, id: impl Into<String>) -> Self {
        self.endpoint.device_id = Some(id.into());
        self
    }

    /// Connects with this `Client-Id` (a UUID) instead of the recording's.
    pub fn client_id(mut self, id: impl Into<String>) -> Self {
        self.endpoint.client_id = Some(id.into());
        self
    }

    /// Sends this header in the WebSocket handshake. It replaces that of firmware with the same
    /// name.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Uses this firmware instead of the recording's.
    pub fn profile(mut self, profile: Profile) -> Self {
        self.profile = Some(profile);
        self
    }

    /// Uses the device in this mode instead of the recording's. In manual mode the person releases
    /// the button after the last word.
    pub fn mode(mut self, mode: ListenMode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// Uses this version of the binary framing (1, 2 or 3) instead of the recording's.
    pub fn framing(mut self, version: u32) -> Self {
        self.framing = Some(version);
        self
    }

    /// Sets the tools of the device. It answers calls by itself: recorded answers are not sent.
    pub fn tools(mut self, toolbox: Toolbox) -> Self {
        self.toolbox = toolbox;
        self
    }

    /// Sends the speech this many times as fast as recorded; the reply is played at its own pace.
    pub fn speed(mut self, times: f64) -> Self {
        self.speed = times;
        self
    }

    /// Sets the time limit for the start of an answer; 180 s by default.
    pub fn answer_within(mut self, limit: Duration) -> Self {
        self.limits.answer = limit;
        self
    }

    /// Sets the time limit for the end of an answer, from the end of its question; 300 s by default.
    pub fn reply_within(mut self, limit: Duration) -> Self {
        self.limits.reply = limit;
        self
    }

    /// Transcribes the reply's audio with the recognition service at this address (`ws://`,
    /// ListenAI protocol), so that `readback` can be checked.
    pub fn read_back(mut self, url: impl Into<String>) -> Self {
        self.recogniser = Some(url.into());
        self
    }

    /// Runs the replay, and waits for the end of the answer. Equal to awaiting the replay.
    ///
    /// # Errors
    /// Fails if the device cannot boot or connect, the server sends no hello, or the reply cannot
    /// be decoded or transcribed.
    pub async fn run(self) -> Result<Session, ReplayError> {
        if !(self.speed.is_finite() && self.speed > 0.0) {
            return Err(ReplayError::Speed(self.speed));
        }
        let header = self.recording.header().clone();
        let script = self.script();
        let mut options = self.endpoint;
        options.device_id = options.device_id.or(header.device_id);
        options.client_id = options.client_id.or(header.client_id);
        let endpoint = options.resolve(script.framing, script.profile.name).await?;
        let url = endpoint.url.clone();
        let firmware = script.firmware().with_tools(self.toolbox);
        let mut device = Device::new(endpoint, firmware).with_headers(self.headers);
        script.perform(&mut device, self.speed).await?;
        let report = device.into_report();
        if report.facts().any(|(_, fact)| *fact == Fact::HelloMissing) {
            return Err(ReplayError::NoHello { url });
        }
        let rate_hz = downlink(&report).sample_rate;
        let heard = sound::heard(&report, rate_hz).map_err(ReplayError::Reply)?;
        let read = match &self.recogniser {
            Some(recogniser) if !heard.samples.is_empty() => {
                // The text is judged by the sent audio: late packets are reported in `gaps_ms`.
                let sent = sound::sent(&report, rate_hz).map_err(ReplayError::Reply)?;
                let text = read_back(recogniser, &sent).await.map_err(ReplayError::Reply)?;
                Some(ReadBack { agreement: agreement(&report.reply(), &text), text })
            }
            _ => None,
        };
        let name = self.recording.name().to_owned();
        Ok(Session::new(name, url, header.expect.unwrap_or_default(), report, heard, read))
    }

    /// Returns the script of the person, with the options applied.
    fn script(&self) -> Script {
        let mut script = Script::new(self.recording.session(), self.mode);
        script.framing = self.framing.unwrap_or(script.framing);
        script.profile = self.profile.clone().unwrap_or(script.profile);
        script.limits = self.limits;
        script
    }
}

impl IntoFuture for Replay {
    type Output = Result<Session, ReplayError>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// Returns the format of the downlink audio in the last hello.
fn downlink(report: &Report) -> AudioParams {
    let hello = report.facts().filter_map(|(_, fact)| match fact {
        Fact::Hello(audio) => Some(audio.clone()),
        _ => None,
    });
    hello.last().unwrap_or_else(|| AudioParams::opus(24_000, 60))
}

#[cfg(test)]
mod tests {
    use futures_util::{SinkExt as _, StreamExt as _};
    use tokio::net::TcpListener;
    use tokio::task::JoinHandle;
    use tokio_tungstenite::accept_async;
    use tokio_tungstenite::tungstenite::Message;

    use super::*;
    use crate::expectations::Expectations;
    use crate::sound::Sound;

    const HELLO: &str = r#"{"type":"hello","transport":"websocket"}"#;
    const LIMIT: Duration = Duration::from_millis(200);

    /// Starts a server that sends these messages and then only receives. Returns its URL, and a
    /// handle with the number of received messages.
    async fn server(says: &'static [&'static str]) -> (String, JoinHandle<usize>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("ws://{}/", listener.local_addr().unwrap());
        let task = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut socket = accept_async(stream).await.unwrap();
            for text in says {
                socket.send(Message::text(*text)).await.unwrap();
            }
            let mut sent = 0;
            while let Some(Ok(_)) = socket.next().await {
                sent += 1;
            }
            sent
        });
        (url, task)
    }

    fn recording() -> Recording {
        let samples = hearken_audio::pcm::tone(300.0, 4_800, 16_000);
        Recording::of_speech(&Sound { samples, rate_hz: 16_000 }).unwrap()
    }

    #[tokio::test]
    async fn waits_end_at_their_limits() {
        let begins = &[HELLO, r#"{"type":"tts","state":"start"}"#];
        // While the server speaks, the microphone is closed.
        for (says, answer, reply, least) in
            [(&begins[..1], LIMIT, LIMIT * 1_000, 5), (&begins[..], LIMIT * 1_000, LIMIT, 1)]
        {
            let (url, server) = server(says).await;
            let replay = recording().replay(url).token("t").answer_within(answer);
            let replay = replay.reply_within(reply);
            let session = tokio::time::timeout(LIMIT * 50, replay.run()).await;
            let session = session.expect("the limit is kept").unwrap();
            let unmet = session.expect(Expectations::new()).expect_err("there is no answer");
            assert!(unmet.to_string().contains("1 of 1 expectations"), "{unmet}");
            let sent = server.await.unwrap();
            assert!(sent >= least, "{sent} messages came");
        }
    }

    #[tokio::test]
    async fn a_replay_that_cannot_run_reports_the_reason() {
        let replay = recording().replay("ws://127.0.0.1:1/").token("t");
        let told = replay.clone().speed(0.0).await.unwrap_err();
        assert!(matches!(told, ReplayError::Speed(_)), "{told}");
        let told = replay.clone().header("no header", "x").await.unwrap_err();
        assert!(matches!(&told, ReplayError::Socket(SocketError::Address { .. })), "{told}");
        let told = replay.await.unwrap_err().to_string();
        assert!(told.starts_with("no server at ws://127.0.0.1:1/"), "{told}");
    }
}
