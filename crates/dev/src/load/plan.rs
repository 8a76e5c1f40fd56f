//! Plan of a load run: number of devices, their behaviour and the duration. Runs it and returns the
//! measurements. Not for the behaviour of each device, which is in [`super::scenario`].

use std::future::Future;
use std::time::Duration;

use anyhow::{Context as _, bail};
use hearken_audio::pcm;
use hearken_proto::device::ListenMode;
use hearken_virtual_device::endpoint_options::EndpointOptions;
use hearken_virtual_device::profile::Profile;
use hearken_virtual_device::socket::Endpoint;
use hearken_virtual_device::sound::{PACKET, Sound, UPLINK_RATE_HZ};
use hearken_virtual_device::toolbox::Toolbox;
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::scenario::{LoadScenario, run};
use super::{Figures, UsageReport, UsageSamples};

/// Lateness of this program's own timers, in ms at the 99th percentile, above which its results are
/// unreliable.
const OWN_LATENESS_MS: f64 = 5.0;
/// Loudness of background noise, as a fraction of full speech: below any voice.
const NOISE_LEVEL: f64 = 0.01;

/// Plan of a load run.
#[derive(Debug, Clone)]
pub struct LoadPlan {
    /// Speech of the users; silence after it is removed.
    pub speech: Sound,
    /// Length to which the speech is truncated or repeated.
    pub words: Option<Duration>,
    /// Device endpoint of the server; [`hearken_virtual_device::endpoint_options::LOCAL_URL`] if `None`.
    pub url: Option<String>,
    /// Bearer token of all devices. If `None`, each device requests its own from the OTA address.
    pub token: Option<String>,
    /// Number of devices, 1 or more.
    pub devices: usize,
    /// Number of devices that talk and wait for the end of the answer; if `None`, all without
    /// another role.
    pub talking: Option<usize>,
    /// Number of devices that talk and interrupt every answer.
    pub interrupting: usize,
    /// Number of devices with an open microphone while no user talks to them.
    pub listening: usize,
    /// Side that decides when a user has finished.
    pub mode: ListenMode,
    /// Time over which the devices connect, evenly.
    pub ramp: Duration,
    /// Duration of the run after the last device has connected.
    pub length: Duration,
    /// Mean pause from the end of an answer to the next speech.
    pub pause: Duration,
    /// Version of the binary framing: 1, 2 or 3.
    pub framing: u32,
    /// Number of the first device, from which its address is derived.
    pub first: u32,
    /// Number of tools that each device offers besides those of its firmware.
    pub tools: usize,
    /// Phrases of the server that mean that it is busy.
    pub busy_words: Vec<String>,
}

/// Result of a load run.
#[derive(Debug, Serialize)]
pub struct Measured {
    /// Measurements of the devices.
    pub figures: Figures,
    /// Usage of the server's process, once all devices had connected.
    pub server: Option<UsageReport>,
    /// Usage of this program, over the same time.
    pub load: Option<UsageReport>,
    /// True if this program was too busy to measure reliably.
    pub overloaded: bool,
}

impl LoadPlan {
    /// Returns the number of devices that talk and wait for the end of the answer.
    pub fn talkers(&self) -> usize {
        let others = self.interrupting + self.listening;
        self.talking.unwrap_or(self.devices.saturating_sub(others))
    }

    /// Runs the plan until its end or until `stop` resolves, whichever is first. `server_pid` is
    /// the server's process on this machine, whose CPU time and memory are measured. `progress`
    /// receives the current measurements every two seconds.
    ///
    /// Fails if the plan is inconsistent, the speech is empty, a device gets no address, or there
    /// is no such process.
    pub async fn measure(
        &self,
        server_pid: Option<u32>,
        stop: impl Future<Output = ()>,
        mut progress: impl FnMut(&Figures),
    ) -> anyhow::Result<Measured> {
        let scenario = self.scenario().await?;
        let mut server = server_pid.map(UsageSamples::begin).transpose()?;
        let mut own = UsageSamples::begin(std::process::id())?;
        let end = CancellationToken::new();
        let deadline = self.ramp + self.length;
        let stopping = end.clone().drop_guard();
        let mut look = |figures: &Figures| {
            let turns = figures.turns + figures.interrupted;
            server.iter_mut().chain([&mut own]).for_each(|course| course.sample(turns));
            progress(figures);
        };
        let running = run(scenario, end.clone(), &mut look);
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

    async fn scenario(&self) -> anyhow::Result<LoadScenario> {
        if self.devices == 0 {
            bail!("the number of devices must be 1 or more");
        }
        let talking = self.talkers();
        if talking + self.interrupting + self.listening > self.devices {
            bail!(
                "more devices talk, interrupt and listen than there are: raise the number of devices"
            );
        }
        let speech = self.words()?;
        let mut background_noise = speech.clone();
        for sample in &mut background_noise.samples {
            #[allow(clippy::cast_possible_truncation, reason = "smaller than it was")]
            let faint = (f64::from(*sample) * NOISE_LEVEL) as i16;
            *sample = faint;
        }
        let silence = vec![0; pcm::samples_in(PACKET, UPLINK_RATE_HZ)];
        let silence = Sound { samples: silence, rate_hz: UPLINK_RATE_HZ }.packets()?;
        Ok(LoadScenario {
            endpoints: self.endpoints().await?,
            talking,
            interrupting: self.interrupting,
            listening: self.listening,
            mode: self.mode,
            ramp: self.ramp,
            speech: speech.packets()?.into(),
            background_noise: background_noise.packets()?.into(),
            silence: silence.into_iter().next().context("cannot encode a packet of silence")?,
            pause: self.pause,
            busy_words: self.busy_words.clone().into(),
            profile: Profile::default(),
            toolbox: Toolbox { generated: self.tools, ..Toolbox::default() },
        })
    }

    /// Returns the speech, without the silence after it.
    fn words(&self) -> anyhow::Result<Sound> {
        let mut sound = self.speech.at_rate(UPLINK_RATE_HZ)?;
        sound.samples.truncate(pcm::samples_in(sound.speech_end(), UPLINK_RATE_HZ));
        if let Some(length) = self.words {
            let length = pcm::samples_in(length, UPLINK_RATE_HZ);
            sound.samples = sound.samples.iter().copied().cycle().take(length).collect();
        }
        if sound.samples.is_empty() {
            bail!("the speech is empty: use a file with sound, and a length above 0");
        }
        Ok(sound)
    }

    /// Returns one endpoint per device, each with a locally administered address.
    async fn endpoints(&self) -> anyhow::Result<Vec<Endpoint>> {
        let mut endpoints = Vec::with_capacity(self.devices);
        let devices = u32::try_from(self.devices).context("too many devices")?;
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
    /// Returns true if all of these devices were connected at the end, every turn was answered and
    /// no packet was lost; and, if users `talk`, there was at least one turn.
    pub fn is_successful(&self, devices: usize, talk: bool) -> bool {
        let Figures { errors, packets, turns, interrupted, connected, unanswered, .. } =
            &self.figures;
        errors.is_empty()
            && packets.lost.is_empty()
            && *unanswered == 0
            && *connected == devices
            && (turns + interrupted > 0 || !talk)
    }
}
