//! Energy of the bands of a spectrum, frame by frame. The choice of window and bands is up to the
//! caller.

use std::sync::Arc;

use realfft::num_complex::Complex32;
use realfft::{RealFftPlanner, RealToComplex};

/// One filter: its first bin, and the weights from there.
struct Band {
    first: usize,
    weights: Vec<f32>,
}

/// Computes energies; its buffers are reused.
pub struct BandEnergies {
    fft: Arc<dyn RealToComplex<f32>>,
    window: Vec<f32>,
    bands: Vec<Band>,
    frame: Vec<f32>,
    spectrum: Vec<Complex32>,
    scratch: Vec<Complex32>,
}

impl BandEnergies {
    /// Prepares a transform of this size, for frames of the window's length, padded with zeros, and
    /// for this many bands. `weight` returns the weight in a band (first argument) of a bin
    /// (second).
    pub fn new(
        size: usize,
        mut window: Vec<f32>,
        bands: usize,
        weight: impl Fn(usize, usize) -> f32,
    ) -> Self {
        let fft = RealFftPlanner::new().plan_fft_forward(size);
        window.truncate(size);
        let band = |band: usize| {
            let weight = |bin: &usize| weight(band, *bin);
            let counts: Vec<usize> = (0..=size / 2).filter(|bin| weight(bin) > 0.0).collect();
            let first = counts.first();
            let last = counts.last();
            let bins = first.zip(last).map_or(0..0, |(first, last)| *first..last + 1);
            Band { first: bins.start, weights: bins.map(|bin| weight(&bin)).collect() }
        };
        Self {
            window,
            bands: (0..bands).map(band).collect(),
            frame: fft.make_input_vec(),
            spectrum: fft.make_output_vec(),
            scratch: fft.make_scratch_vec(),
            fft,
        }
    }

    /// Computes the energies of one frame, one value per band.
    pub fn of(&mut self, samples: impl IntoIterator<Item = f32>, energies: &mut [f32]) {
        // The transform leaves other values in the buffer.
        self.frame[self.window.len()..].fill(0.0);
        let windowed =
            samples.into_iter().zip(&self.window).map(|(sample, weight)| sample * weight);
        for (place, sample) in self.frame.iter_mut().zip(windowed) {
            *place = sample;
        }
        // It fails only for buffers of another length.
        let done =
            self.fft.process_with_scratch(&mut self.frame, &mut self.spectrum, &mut self.scratch);
        debug_assert!(done.is_ok());
        for (energy, band) in energies.iter_mut().zip(&self.bands) {
            let bins = &self.spectrum[band.first..band.first + band.weights.len()];
            *energy = bins.iter().zip(&band.weights).map(|(b, w)| b.norm_sqr() * w).sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the energies of 16 samples, in bands of two bins each.
    fn energies(samples: Vec<f32>) -> [f32; 4] {
        let window = vec![1.0; samples.len()];
        let pair = |band: usize, bin: usize| if bin / 2 == band { 1.0 } else { 0.0 };
        let mut found = [0.0; 4];
        let mut bands = BandEnergies::new(16, window, 4, pair);
        // The previous frame must not affect the next.
        bands.of(vec![9.0; 16], &mut found);
        bands.of(samples, &mut found);
        found
    }

    #[test]
    fn a_tone_has_its_energy_in_its_band_only() {
        let tone =
            |bin: f32| (0..16).map(move |n| (bin * n as f32 * std::f32::consts::PI / 8.0).cos());
        for (bin, band) in [(1.0, 0), (2.0, 1), (5.0, 2), (7.0, 3)] {
            let found = energies(tone(bin).collect());
            for (n, energy) in found.iter().enumerate() {
                let expected = if n == band { 64.0 } else { 0.0 };
                assert!((energy - expected).abs() < 1e-3, "{bin}: {found:?}");
            }
        }
    }

    #[test]
    fn a_short_frame_is_padded_with_zeros() {
        let found = energies(vec![1.0]);
        assert_eq!(found, [2.0; 4]);
    }
}
