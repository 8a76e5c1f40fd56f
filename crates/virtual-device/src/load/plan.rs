//! A run of load as people plan it: how many devices, what they say and do, for how long; made into
//! a crowd, run and measured. Not for what each device does, which is in [`super::fleet`].

use std::future::Future;
use std::time::Duration;

use anyhow::{Context as _, bail};
use hearken_actors::audio::pcm;
use hearken_proto::device::ListenMode;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::fleet::{Crowd, run};
use super::{Course, Figures, Used};
use crate::endpoint_options::EndpointOptions;
use crate::profile::Profile;
use crate::socket::Endpoint;
use crate::sound::{PACKET, Sound, UPLINK_RATE_HZ};
use crate::toolbox::Toolbox;

/// Where this program wakes up this late, once in a hundred times, it measures itself.
const OWN_LATENESS_MS: f64 = 5.0;
/// Loudness of what those hear to whom nobody speaks, of full speech: below any voice.
const MURMUR: f64 = 0.01;

/// Many devices at a server.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// What people say; silence after it is left out.
    pub speech: Sound,
    /// What they say is cut, or repeated, to this length.
    pub words: Option<Duration>,
    /// The server's device endpoint; none is [`crate::endpoint_options::LOCAL_URL`].
    pub url: Option<String>,
    /// Bearer token of all devices; none lets each ask the OTA address for its own.
    pub token: Option<String>,
    /// Devices that connect, 1 or more.
    pub devices: usize,
    /// How many talk and hear the answer out; none is all that do nothing else.
    pub talking: Option<usize>,
    /// How many talk and interrupt every answer.
    pub interrupting: usize,
    /// How many have their microphone open where nobody speaks to them.
    pub listening: usize,
    /// Who decides when a person has finished.
    pub mode: ListenMode,
    /// The devices come evenly over this time.
    pub ramp: Duration,
    /// How long the run goes on after the last has come.
    pub length: Duration,
    /// From an answer's end to the next words, in the mean.
    pub pause: Duration,
    /// Version of the binary framing: 1, 2 or 3.
    pub framing: u32,
    /// Number of the first device, of which its address is made.
    pub first: u32,
    /// Tools that each device offers beside those of its firmware.
    pub tools: usize,
    /// What the server says where it is busy.
    pub busy_words: Vec<String>,
}

/// What a run showed.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// What the devices saw.
    pub figures: Figures,
    /// The server's process, once all devices had come.
    pub server: Option<Used>,
    /// This program, over the same time.
    pub load: Option<Used>,
    /// This program was too busy to measure well.
    pub overloaded: bool,
}

impl LoadPlan {
    /// How many devices talk and hear the answer out.
    pub fn talkers(&self) -> usize {
        let others = self.interrupting + self.listening;
        self.talking.unwrap_or(self.devices.saturating_sub(others))
    }

    /// Runs the plan until its end or until `stop` comes, whichever is first. `server_pid` is the
    /// server's process on this machine, whose CPU time and memory are measured; `progress` sees the
    /// figures every two seconds.
    ///
    /// # Errors
    /// The plan contradicts itself, nothing is said, a device gets no address, or there is no such
    /// process.
    pub async fn measure(
        &self,
        server_pid: Option<u32>,
        stop: impl Future<Output = ()>,
        mut progress: impl FnMut(&Figures),
    ) -> anyhow::Result<Measured> {
        let crowd = self.crowd().await?;
        let mut server = server_pid.map(Course::begin).transpose()?;
        let mut own = Course::begin(std::process::id())?;
        let end = CancellationToken::new();
        let deadline = self.ramp + self.length;
        let stopping = end.clone().drop_guard();
        let mut look = |figures: &Figures| {
            let turns = figures.turns + figures.interrupted;
            server.iter_mut().chain([&mut own]).for_each(|course| course.look(turns));
            progress(figures);
        };
        let running = run(crowd, end.clone(), &mut look);
        let timer = async {
            tokio::select! {
                () = tokio::time::sleep(deadline) => {}
                () = stop => {}
            }
            drop(stopping);
        };
        let (figures, ()) = tokio::join!(running, timer);
        let overloaded = figures.own_lateness.ms(0.99).is_some_and(|ms| ms > OWN_LATENESS_MS);
        let server = server.and_then(|course| course.used(self.ramp, self.devices));
        Ok(Measured { figures, server, load: own.used(self.ramp, self.devices), overloaded })
    }

    async fn crowd(&self) -> anyhow::Result<Crowd> {
        if self.devices == 0 {
            bail!("the number of devices must be 1 or more");
        }
        let talking = self.talkers();
        if talking + self.interrupting + self.listening > self.devices {
            bail!("those who talk, interrupt and listen are more than there are devices");
        }
        let speech = self.words()?;
        let mut murmur = speech.clone();
        for sample in &mut murmur.samples {
            #[allow(clippy::cast_possible_truncation, reason = "smaller than it was")]
            let faint = (f64::from(*sample) * MURMUR) as i16;
            *sample = faint;
        }
        let silence = vec![0; pcm::samples_in(PACKET, UPLINK_RATE_HZ)];
        let silence = Sound { samples: silence, rate_hz: UPLINK_RATE_HZ }.packets()?;
        Ok(Crowd {
            endpoints: self.endpoints().await?,
            talking,
            interrupting: self.interrupting,
            listening: self.listening,
            mode: self.mode,
            ramp: self.ramp,
            speech: speech.packets()?.into(),
            murmur: murmur.packets()?.into(),
            silence: silence.into_iter().next().context("no packet of silence")?,
            pause: self.pause,
            busy_words: self.busy_words.clone().into(),
            profile: Profile::default(),
            toolbox: Toolbox { generated: self.tools, ..Toolbox::default() },
        })
    }

    /// What is said, without the silence after it.
    fn words(&self) -> anyhow::Result<Sound> {
        let mut sound = self.speech.at_rate(UPLINK_RATE_HZ)?;
        sound.samples.truncate(pcm::samples_in(sound.speech_end(), UPLINK_RATE_HZ));
        if let Some(length) = self.words {
            let length = pcm::samples_in(length, UPLINK_RATE_HZ);
            sound.samples = sound.samples.iter().copied().cycle().take(length).collect();
        }
        if sound.samples.is_empty() {
            bail!("nothing is said: the speech holds no sound, or its length is 0");
        }
        Ok(sound)
    }

    /// One endpoint a device, each with an address that is nobody's.
    async fn endpoints(&self) -> anyhow::Result<Vec<Endpoint>> {
        let mut endpoints = Vec::with_capacity(self.devices);
        let devices = u32::try_from(self.devices).context("there are too many devices")?;
        for number in self.first..self.first.saturating_add(devices) {
            let [a, b, c, d] = number.to_be_bytes();
            let options = EndpointOptions {
                url: self.url.clone(),
                token: self.token.clone(),
                device_id: Some(format!("02:00:{a:02x}:{b:02x}:{c:02x}:{d:02x}")),
                client_id: Some(format!("00000000-0000-4000-8000-{number:012x}")),
                ota: None,
            };
            endpoints.push(options.resolve(self.framing, Profile::default().name).await?);
        }
        Ok(endpoints)
    }
}

impl Measured {
    /// Whether all of these devices were connected at the end, every turn was answered and no
    /// packet was lost; of a run in which people `talk`, at least one turn.
    pub fn went_well(&self, devices: usize, talk: bool) -> bool {
        let Figures { errors, packets, turns, interrupted, connected, unanswered, .. } =
            &self.figures;
        errors.is_empty()
            && packets.lost.is_empty()
            && *unanswered == 0
            && *connected == devices
            && (turns + interrupted > 0 || !talk)
    }
}
