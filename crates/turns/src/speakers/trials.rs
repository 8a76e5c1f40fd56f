//! Trials of speaker verification: the similarity of two voices, and whether they belong to one
//! person. Computing embeddings is elsewhere.

/// Results of trials. A trial is accepted if the similarity is at least the threshold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trials {
    /// Similarities of two voices of one person.
    pub same: Vec<f32>,
    /// Similarities of voices of different persons.
    pub different: Vec<f32>,
}

/// Error rates at a threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// Share of accepted trials of different persons.
    pub false_accepts: f64,
    /// Share of rejected trials of the same person.
    pub false_rejects: f64,
}

impl Trials {
    /// Adds a trial.
    pub fn add(&mut self, same: bool, alike: f32) {
        if same { &mut self.same } else { &mut self.different }.push(alike);
    }

    /// Adds the results of others.
    pub fn extend(&mut self, others: &Self) {
        self.same.extend_from_slice(&others.same);
        self.different.extend_from_slice(&others.different);
    }

    /// Returns the error rates at this threshold; `None` without trials of both kinds.
    pub fn errors_at(&self, threshold: f32) -> Option<Errors> {
        if self.same.is_empty() || self.different.is_empty() {
            return None;
        }
        let accepted = |alike: &[f32]| alike.iter().filter(|a| **a >= threshold).count() as f64;
        Some(Errors {
            false_accepts: accepted(&self.different) / self.different.len() as f64,
            false_rejects: 1.0 - accepted(&self.same) / self.same.len() as f64,
        })
    }

    /// Returns the equal error rate, at which false accepts and false rejects are equal, and its
    /// threshold; `None` without trials of both kinds.
    pub fn equal_error_rate(&self) -> Option<(f64, f32)> {
        let mut same = self.same.clone();
        let mut different = self.different.clone();
        same.sort_by(f32::total_cmp);
        different.sort_by(f32::total_cmp);
        let below = |sorted: &[f32], threshold: f32| sorted.partition_point(|a| *a < threshold);
        let errors = |threshold: &f32| {
            let rejected = below(&same, *threshold) as f64 / same.len() as f64;
            (rejected, 1.0 - below(&different, *threshold) as f64 / different.len() as f64)
        };
        if different.is_empty() {
            return None;
        }
        // Rejects increase with the threshold and accepts decrease: the first with more rejects is
        // next to equal.
        let after = same.partition_point(|threshold| errors(threshold).0 < errors(threshold).1);
        let near = same.get(after.saturating_sub(1)..same.len().min(after + 1))?;
        let apart = |threshold: &&f32| {
            let (rejected, accepted) = errors(threshold);
            (rejected - accepted).abs()
        };
        let threshold = near.iter().min_by(|a, b| apart(a).total_cmp(&apart(b)))?;
        let (rejected, accepted) = errors(threshold);
        Some((rejected.midpoint(accepted), *threshold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trials(same: &[f32], different: &[f32]) -> Trials {
        Trials { same: same.to_vec(), different: different.to_vec() }
    }

    #[test]
    fn voices_that_are_far_apart_have_no_errors() {
        let (rate, threshold) = trials(&[0.9, 0.7], &[0.1, 0.2, 0.3]).equal_error_rate().unwrap();
        assert_eq!((rate, threshold), (0.0, 0.7));
    }

    #[test]
    fn overlapping_trials_have_the_rate_at_which_both_errors_are_equal() {
        let mixed = trials(&[0.9, 0.8, 0.35, 0.7], &[0.1, 0.2, 0.4, 0.05]);
        let (rate, threshold) = mixed.equal_error_rate().unwrap();
        assert!((rate - 0.125).abs() < 1e-9 || (rate - 0.25).abs() < 1e-9, "{rate} at {threshold}");
        let errors = mixed.errors_at(0.4).unwrap();
        assert_eq!((errors.false_accepts, errors.false_rejects), (0.25, 0.25));
        let errors = mixed.errors_at(0.41).unwrap();
        assert_eq!((errors.false_accepts, errors.false_rejects), (0.0, 0.25));
    }

    #[test]
    fn identical_similarities_have_an_equal_error_rate_of_one_half() {
        let (rate, _) = trials(&[0.5; 4], &[0.5; 9]).equal_error_rate().unwrap();
        assert!((rate - 0.5).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn the_rate_requires_trials_of_both_kinds() {
        for empty in [trials(&[], &[0.1]), trials(&[0.1], &[])] {
            assert!(empty.equal_error_rate().is_none() && empty.errors_at(0.5).is_none());
        }
    }
}
