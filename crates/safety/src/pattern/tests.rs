//! Patterns in texts: what they match, what they hide, and what is refused. Not for the rules.

use proptest::prelude::*;

use super::*;

fn matches(pattern: &str, text: &str) -> bool {
    let splitter = Splitter::read(include_str!("../../data/script.toml")).unwrap();
    let mut vocabulary = Vocabulary::default();
    let sets = HashMap::from([("who".to_owned(), "he|my (dad|old mum)".to_owned())]);
    let mut compiler = Compiler { splitter: &splitter, vocabulary: &mut vocabulary, sets: &sets };
    let pattern = compiler.pattern(pattern).unwrap();
    pattern.is_in(&Text::new(&splitter.words(text), &vocabulary))
}

#[test]
fn a_pattern_matches_whole_words_in_their_order() {
    for (pattern, text, expected) in [
        ("gas", "I smell gas!", true),
        ("gas", "gasoline", false),
        ("smell *2 gas", "smell the natural gas", true),
        ("smell *1 gas", "smell the natural gas", false),
        ("<who> is (not )?breathing", "My old mum's breathing", false),
        ("<who> (is|s) (not)? breathing", "My old mum's not breathing", true),
        ("he is not", "he isn’t", true),
        ("^ gas $", "Well. Gas.", true),
        ("^ gas", "the gas", false),
        ("smell *3 gas", "a smell. Of gas", false),
        ("着火了?", "厨房着火", true),
        ("着*2火", "着大大火", true),
        ("着*2火", "着大大大火", false),
    ] {
        assert_eq!(matches(pattern, text), expected, "{pattern} in {text}");
    }
}

#[test]
fn the_shortest_match_from_each_place_is_found() {
    for (pattern, text, expected) in [
        ("gas", "gas, no gas", vec![(0, 1), (2, 3)]),
        ("(he|she) *3 down", "he or she fell down, he sat down", vec![(0, 5), (2, 5), (5, 8)]),
        ("(a)? b", "a b", vec![(0, 2), (1, 2)]),
        ("down *2 he", "fell down. he", vec![]),
        ("down *2 he", "fell down, he", vec![(1, 3)]),
        ("^ he", "down she, he", vec![(2, 3)]),
        ("着火", "家，着火了。着火", vec![(1, 3), (5, 7)]),
    ] {
        let splitter = Splitter::read(include_str!("../../data/script.toml")).unwrap();
        let mut vocabulary = Vocabulary::default();
        let sets = HashMap::new();
        let mut compiler =
            Compiler { splitter: &splitter, vocabulary: &mut vocabulary, sets: &sets };
        let compiled = compiler.pattern(pattern).unwrap();
        let text = Text::new(&splitter.words(text), &vocabulary);
        let found = compiled.matches(&text);
        let found: Vec<(usize, usize)> = found.iter().map(|one| (one.start, one.end)).collect();
        assert_eq!(found, expected, "{pattern}");
    }
}

#[test]
fn a_text_has_sentences_and_clauses() {
    let splitter = Splitter::read(include_str!("../../data/script.toml")).unwrap();
    let mut vocabulary = Vocabulary::default();
    let sets = HashMap::new();
    let mut compiler = Compiler { splitter: &splitter, vocabulary: &mut vocabulary, sets: &sets };
    let idiom = compiler.pattern("a b").unwrap();
    let word = compiler.pattern("b").unwrap();
    let text = Text::new(&splitter.words("a, b. a b, 1,000 b,"), &vocabulary);
    let sentences: Vec<Range<usize>> = text.sentences().collect();
    // The break of a sentence is before the words of the next one.
    assert_eq!(sentences, [0..2, 2..8]);
    assert_eq!([0, 1, 4, 5, 7].map(|place| text.clause(place)), [0..1, 1..2, 2..5, 5..8, 5..8]);
    assert!(text.has_pause(&(0..2)) && !text.has_pause(&(3..5)));
    let mut hidden = text.clone();
    hidden.hide_in_clauses(&idiom);
    assert_eq!(word.matches(&hidden), [1..2, 7..8], "only the idiom inside a clause");
    let mut rest = text.clone();
    rest.leave_out(&sentences[1]);
    assert_eq!(word.matches(&rest).as_slice(), std::slice::from_ref(&(1..2)));
    assert_eq!(word.matches(&text.only(&sentences[1])), [4..5, 7..8]);
}

#[test]
fn a_wrong_pattern_is_refused() {
    let splitter = Splitter::read(include_str!("../../data/script.toml")).unwrap();
    let sets = HashMap::from([("loop".to_owned(), "<loop>".to_owned())]);
    for wrong in ["", "(a", "a)", "?", "a | ", "<none>", "<loop>", "* a", "a *x", "a *99", "()"] {
        let mut vocabulary = Vocabulary::default();
        let mut compiler =
            Compiler { splitter: &splitter, vocabulary: &mut vocabulary, sets: &sets };
        assert!(compiler.pattern(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn what_is_hidden_is_not_found() {
    let splitter = Splitter::read(include_str!("../../data/script.toml")).unwrap();
    let mut vocabulary = Vocabulary::default();
    let sets = HashMap::new();
    let mut compiler = Compiler { splitter: &splitter, vocabulary: &mut vocabulary, sets: &sets };
    let hidden = compiler.pattern("kill *1 lights").unwrap();
    let kill = compiler.pattern("kill").unwrap();
    let across = compiler.pattern("now *4 him").unwrap();
    let mut text = Text::new(&splitter.words("now kill the lights for him"), &vocabulary);
    assert!(kill.is_in(&text) && across.is_in(&text));
    text.hide(&hidden);
    assert!(!kill.is_in(&text) && !across.is_in(&text));
}
proptest! {
    #[test]
    fn what_is_hidden_is_the_longest_match_at_each_place(
        words in proptest::collection::vec(prop::sample::select(vec!["a", "b", "c", "."]), 0..40),
        written in prop::sample::select(vec![
            "a", "a *3 b", "(a)? (b)?", "^ a|b c $", "a (b|b c|c a)", "*2", "(a|a b|a b *4 c)",
        ]),
    ) {
        let splitter = Splitter::read(include_str!("../../data/script.toml")).unwrap();
        let mut vocabulary = Vocabulary::default();
        let sets = HashMap::new();
        let mut compiler =
            Compiler { splitter: &splitter, vocabulary: &mut vocabulary, sets: &sets };
        let pattern = compiler.pattern(written).unwrap();
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let text = Text::new(&words, &vocabulary);
        let mut hidden = Places::default();
        for place in 0..words.len() {
            let last = pattern.part.after(&Places::between(place, place + 1), &text).last();
            hidden = hidden.or(&Places::between(place, last.unwrap_or(place)));
        }
        let mut rest = text.clone();
        rest.hide(&pattern);
        prop_assert_eq!(rest.open, text.open.without(&hidden));
        let kept: Vec<_> = text.places.iter().map(|places| places.without(&hidden)).collect();
        prop_assert_eq!(rest.places, kept);
    }

    #[test]
    fn a_text_without_a_needed_word_has_no_match(
        words in proptest::collection::vec(prop::sample::select(vec!["a", "b", "c", "d", "."]), 0..8),
        written in prop::sample::select(vec![
            "a", "a *3 b", "(a)? b", "(a|b) (c)?", "^ a|b c $", "(a b|b c|c *2 a)", "(a|*2)", "*2 ((a|b) c)?",
            "(a)? *2 (b c|d (a|b))",
        ]),
    ) {
        let splitter = Splitter::read(include_str!("../../data/script.toml")).unwrap();
        let mut vocabulary = Vocabulary::default();
        let sets = HashMap::new();
        let mut compiler =
            Compiler { splitter: &splitter, vocabulary: &mut vocabulary, sets: &sets };
        let pattern = compiler.pattern(written).unwrap();
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let text = Text::new(&words, &vocabulary);
        let all = Places::between(0, words.len() + 1);
        prop_assert_eq!(pattern.after(&all, &text), pattern.part.after(&all, &text));
    }
}
