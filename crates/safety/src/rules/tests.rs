//! That a text is judged by the patterns whose words it has as it is by all. Not for what the rules mean.

use proptest::prelude::*;

use super::*;
use crate::DATA;

/// All sentences that the rules are tested with; some lines are names of topics.
const SENTENCES: [&str; 4] = [
    include_str!("../../tests/safety/dangerous_en.txt"),
    include_str!("../../tests/safety/dangerous_zh.txt"),
    include_str!("../../tests/safety/harmless_en.txt"),
    include_str!("../../tests/safety/harmless_zh.txt"),
];

/// Returns what these words are about, and whether they go on with a danger.
fn judged<'a>(rules: &'a Rules, words: &[String]) -> (Option<Finding<'a>>, bool) {
    (rules.judge(words), rules.goes_on(words))
}

/// Returns the same by all patterns, without their index.
fn by_all<'a>(rules: &'a Rules, words: &[String]) -> (Option<Finding<'a>>, bool) {
    let all = rules.patterns.all();
    let found = rules.finding(&Text::new(words, &rules.patterns), &all);
    let unbroken: Vec<String> = words.iter().filter(|word| *word != PAUSE).cloned().collect();
    let goes_on = all.has(&rules.further, &Text::new(&unbroken, &rules.patterns));
    (found, goes_on)
}

fn clauses() -> Vec<&'static str> {
    let marks = [',', '.', '!', '?', ';', '，', '。', '！', '？', '；', '、'];
    let sentences = SENTENCES.into_iter().flat_map(str::lines);
    sentences.flat_map(|sentence| sentence.split(marks)).filter(|part| !part.is_empty()).collect()
}

#[test]
fn each_sentence_is_judged_as_by_all_patterns() {
    for rules in [&DATA.en, &DATA.zh] {
        let mut found = 0;
        for sentence in SENTENCES.into_iter().flat_map(str::lines) {
            let words = DATA.splitter.words(sentence);
            let judged = judged(rules, &words);
            found += usize::from(judged.0.is_some());
            assert_eq!(judged, by_all(rules, &words), "{sentence}");
        }
        assert!(found >= 400, "only {found} dangers");
    }
}

#[test]
fn few_patterns_are_tried_for_a_sentence() {
    for (rules, sentences) in [(&DATA.en, SENTENCES[2]), (&DATA.zh, SENTENCES[3])] {
        let patterns = &rules.patterns;
        let mut tried = 0;
        let mut count = 0;
        for sentence in sentences.lines() {
            let text = Text::new(&DATA.splitter.words(sentence), patterns);
            tried += patterns.candidates(&text).count();
            count += 1;
        }
        let all = patterns.all().count();
        assert!(tried * 50 < all * count, "{} of {all}", tried / count);
    }
}

proptest! {
    #[test]
    fn clauses_in_any_order_are_judged_as_by_all_patterns(
        which in proptest::collection::vec(any::<prop::sample::Index>(), 1..9),
        mark in prop::sample::select(vec![" ", ", ", ". ", "，", "。", "? "]),
    ) {
        let clauses = clauses();
        let chosen: Vec<&str> = which.iter().map(|one| *one.get(&clauses)).collect();
        let text = chosen.join(mark);
        let words = DATA.splitter.words(&text);
        for rules in [&DATA.en, &DATA.zh] {
            prop_assert_eq!(judged(rules, &words), by_all(rules, &words), "{}", text);
        }
    }
}
