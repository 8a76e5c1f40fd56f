//! Sample rate conversion of mono 16-bit audio, as a stream: state carries over between chunks, so
//! that their boundaries are not audible. Not for changing pitch or speed.

use rubato::audioadapter_buffers::direct::SequentialSlice;
use rubato::{Fft, FixedSync, Indexing, Resampler as _};

/// Input samples per step of the filter. Its delay is trimmed away, so this only determines when
/// the first output comes (after about 10 ms).
const CHUNK: usize = 256;

/// Error of a conversion that cannot be set up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot resample from {from_hz} Hz to {to_hz} Hz: {reason}")]
pub struct ResampleError {
    from_hz: u32,
    to_hz: u32,
    reason: String,
}

/// Resampler of one stream at a time.
pub struct Resampler {
    /// `None` if both rates are equal: samples pass through.
    filter: Option<Filter>,
}

struct Filter {
    fft: Fft<f32>,
    pending: Vec<f32>,
    output: Vec<f32>,
    /// Output samples still to be dropped: the filter's start-up delay.
    skip: usize,
    from_hz: u64,
    to_hz: u64,
    taken: u64,
    given: u64,
}

impl Resampler {
    /// Creates a resampler between two rates.
    ///
    /// # Errors
    /// Fails if a rate is 0, or if no filter fits the ratio.
    pub fn new(from_hz: u32, to_hz: u32) -> Result<Self, ResampleError> {
        if from_hz == to_hz && from_hz > 0 {
            return Ok(Self { filter: None });
        }
        let failed = |reason: String| ResampleError { from_hz, to_hz, reason };
        let fft = Fft::<f32>::new(from_hz as usize, to_hz as usize, CHUNK, 1, FixedSync::Input)
            .map_err(|e| failed(e.to_string()))?;
        let filter = Filter {
            pending: Vec::with_capacity(fft.input_frames_max() * 2),
            output: vec![0.0; fft.output_frames_max()],
            skip: fft.output_delay(),
            fft,
            from_hz: from_hz.into(),
            to_hz: to_hz.into(),
            taken: 0,
            given: 0,
        };
        Ok(Self { filter: Some(filter) })
    }

    /// Processes samples and appends the output that is ready to `out`.
    pub fn process(&mut self, samples: &[i16], out: &mut Vec<i16>) {
        let Some(filter) = &mut self.filter else {
            out.extend_from_slice(samples);
            return;
        };
        filter.taken += samples.len() as u64;
        filter.pending.extend(samples.iter().map(|s| f32::from(*s)));
        filter.drain(out);
    }

    /// Ends the stream: appends the samples that the filter still holds, so that the whole output
    /// lasts as long as the whole input. The resampler can then process another stream.
    pub fn finish(&mut self, out: &mut Vec<i16>) {
        let Some(filter) = &mut self.filter else { return };
        let wanted = filter.taken * filter.to_hz / filter.from_hz;
        while filter.given < wanted {
            let step = filter.fft.input_frames_next();
            let padded = filter.pending.len().max(1).next_multiple_of(step);
            filter.pending.resize(padded, 0.0);
            filter.drain(out);
        }
        let surplus = usize::try_from(filter.given - wanted).unwrap_or(0);
        out.truncate(out.len() - surplus.min(out.len()));
        self.reset();
    }

    /// Drops the samples that the filter still holds, because another stream starts.
    pub fn reset(&mut self) {
        let Some(filter) = &mut self.filter else { return };
        filter.pending.clear();
        filter.fft.reset();
        filter.skip = filter.fft.output_delay();
        (filter.taken, filter.given) = (0, 0);
    }
}

impl Filter {
    fn drain(&mut self, out: &mut Vec<i16>) {
        let mut from = 0;
        while self.pending.len() - from >= self.fft.input_frames_next() {
            let (read, written) = self.step(from);
            from += read;
            let skipped = self.skip.min(written);
            self.skip -= skipped;
            self.given += (written - skipped) as u64;
            out.extend(self.output[skipped..written].iter().map(|s| rounded(*s)));
        }
        self.pending.drain(..from);
    }

    fn step(&mut self, from: usize) -> (usize, usize) {
        let frames = self.pending.len() - from;
        let room = self.output.len();
        let input = SequentialSlice::new(&self.pending[from..], 1, frames)
            .expect("the slice has exactly this many frames of one channel");
        let mut output = SequentialSlice::new_mut(&mut self.output, 1, room)
            .expect("the buffer has exactly this many frames of one channel");
        self.fft
            .process_into_buffer(&input, &mut output, None::<&Indexing>)
            .expect("input has input_frames_next() frames and output has output_frames_max()")
    }
}

/// Rounds to the nearest sample. Not by `f32::round`, which is a function call for each sample on a
/// plain x86-64.
fn rounded(sample: f32) -> i16 {
    #[allow(clippy::cast_possible_truncation, reason = "beyond its range a cast gives its ends")]
    let whole = (sample + 0.5_f32.copysign(sample)) as i16;
    whole
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pcm;

    fn convert(samples: &[i16], from_hz: u32, to_hz: u32, chunk: usize) -> Vec<i16> {
        let mut resampler = Resampler::new(from_hz, to_hz).unwrap();
        let mut out = Vec::new();
        for part in samples.chunks(chunk) {
            resampler.process(part, &mut out);
        }
        resampler.finish(&mut out);
        out
    }

    #[test]
    fn a_tone_keeps_its_length_loudness_and_pitch() {
        for (from, to) in [(22_050, 24_000), (16_000, 24_000), (48_000, 16_000), (24_000, 8_000)] {
            let tone = pcm::tone(440.0, from as usize, from);
            let out = convert(&tone, from, to, 1_000);
            assert_eq!(out.len(), to as usize, "{from} -> {to}");
            let loudness = pcm::rms(&out) / pcm::rms(&tone);
            assert!((0.97..1.03).contains(&loudness), "{from} -> {to}: {loudness}");
            let crossings = out.windows(2).filter(|w| w[0] < 0 && w[1] >= 0).count();
            assert!((436..=444).contains(&crossings), "{from} -> {to}: {crossings} Hz");
        }
    }

    #[test]
    fn a_resampler_serves_one_stream_after_another() {
        let tone = pcm::tone(440.0, 5_000, 22_050);
        let mut resampler = Resampler::new(22_050, 24_000).unwrap();
        let mut run = || {
            let mut out = Vec::new();
            resampler.process(&tone, &mut out);
            resampler.finish(&mut out);
            out
        };
        let first = run();
        assert_eq!(run(), first);
        resampler.process(&tone[..999], &mut Vec::new());
        resampler.reset();
        let mut run = || {
            let mut out = Vec::new();
            resampler.process(&tone, &mut out);
            resampler.finish(&mut out);
            out
        };
        assert_eq!(run(), first, "after an interrupted stream");
    }

    #[test]
    fn samples_are_rounded_and_stay_in_range() {
        let given = [0.0, 0.49, -0.49, 0.5, -0.5, 1.51, -1.51, 40_000.0, -40_000.0];
        assert_eq!(given.map(rounded), [0, 0, 0, 1, -1, 2, -2, i16::MAX, i16::MIN]);
    }

    #[test]
    fn impossible_rates_are_refused() {
        assert!(Resampler::new(0, 16_000).is_err());
        assert!(Resampler::new(16_000, 0).is_err());
        assert!(Resampler::new(0, 0).is_err());
    }

    proptest! {
        #[test]
        fn chunk_sizes_do_not_change_the_output(length in 1usize..6_000, chunk in 1usize..2_000) {
            let tone = pcm::tone(300.0, length, 22_050);
            let whole = convert(&tone, 22_050, 24_000, length);
            prop_assert_eq!(convert(&tone, 22_050, 24_000, chunk), whole);
        }
    }
}
