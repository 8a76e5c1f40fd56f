//! Time of judging a sentence: `cargo bench -p hearken-safety --bench judge`. With warm caches, and
//! after other work has replaced what the caches had, as between the turns of a busy server. Not for
//! what the sentences mean.
#![allow(clippy::print_stdout, reason = "a tool for people")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use hearken_safety::{Region, Safety};

const SENTENCES: [(&str, &str); 4] = [
    ("ordinary", "what is the weather like in the city where my sister lives"),
    ("ordinary", "明天早上七点叫我起床，然后放点音乐"),
    ("danger", "my little brother has swallowed a button battery"),
    ("danger", "我爸突然晕倒了，没有呼吸"),
];
/// Size of what is read between two sentences, in bytes: more than the caches of most processors.
const OTHER_DATA: usize = 32 << 20;
/// Distance between two reads, in bytes: a cache line.
const LINE: usize = 64;
const WARM_RUNS: usize = 10_000;
const COLD_RUNS: usize = 200;

/// Returns the median time of judging a text; `before` runs before each judgement, outside of it.
fn median(safety: &Safety, text: &str, runs: usize, before: impl Fn()) -> Duration {
    let timed = |_| {
        before();
        let begun = Instant::now();
        black_box(safety.judge(black_box(text)));
        begun.elapsed()
    };
    let mut took: Vec<Duration> = (0..runs).map(timed).collect();
    took.sort_unstable();
    took[runs / 2]
}

fn main() {
    Safety::prepare();
    let safety = Safety::new(Region::default());
    let other: Vec<u8> = vec![1; OTHER_DATA];
    let replace_caches = || {
        let sum: u64 = black_box(&other).iter().step_by(LINE).map(|byte| u64::from(*byte)).sum();
        black_box(sum);
    };
    println!("median in microseconds: with warm caches, with cold ones");
    for (kind, text) in SENTENCES {
        let warm = median(&safety, text, WARM_RUNS, || ());
        let cold = median(&safety, text, COLD_RUNS, replace_caches);
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        println!("{kind:<9} {:>8.1} {:>8.1}  {text}", us(warm), us(cold));
    }
}
