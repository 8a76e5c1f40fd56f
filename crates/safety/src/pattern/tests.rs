//! Patterns in texts: what they match, what they hide, and what is refused. Not for the rules.

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;

static SPLITTER: LazyLock<Splitter> =
    LazyLock::new(|| Splitter::read(include_str!("../../data/script.toml")).unwrap());

impl Patterns {
    /// Returns all patterns, whatever a text has.
    pub(crate) fn all(&self) -> Candidates<'_> {
        Candidates { patterns: self, branches: (0..self.branches.len()).collect() }
    }

    fn text(&self, text: &str) -> Text {
        Text::new(&SPLITTER.words(text), self)
    }
}

impl Candidates<'_> {
    /// Returns the pattern of a list that has one.
    fn only(&self, list: &List) -> Pattern<'_> {
        self.of(list).next().unwrap()
    }

    /// Returns the number of branches.
    pub(crate) fn count(&self) -> usize {
        self.branches.len()
    }
}

/// Compiles these patterns, each as a list of its own.
fn compile<const N: usize>(written: [&str; N]) -> Result<(Patterns, [List; N]), String> {
    let sets = [("who", "he|my (dad|old mum)"), ("loop", "<loop>")];
    let sets = HashMap::from(sets.map(|(name, set)| (name.to_owned(), set.to_owned())));
    let mut compiler = Compiler::new(&SPLITTER, &sets);
    let lists = written.map(|written| compiler.list(&[written.to_owned()]));
    Ok((compiler.finish()?, lists))
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
        let (patterns, [list]) = compile([pattern]).unwrap();
        let words = patterns.text(text);
        let is_in = patterns.candidates(&words).has(&list, &words);
        assert_eq!(is_in, expected, "{pattern} in {text}");
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
        let (patterns, [list]) = compile([pattern]).unwrap();
        let text = patterns.text(text);
        let found = patterns.candidates(&text).matches(&list, &text);
        let found: Vec<(usize, usize)> = found.iter().map(|one| (one.start, one.end)).collect();
        assert_eq!(found, expected, "{pattern}");
    }
}

#[test]
fn a_text_has_sentences_and_clauses() {
    let (patterns, [idiom, word]) = compile(["a b", "b"]).unwrap();
    let text = patterns.text("a, b. a b, 1,000 b,");
    let candidates = patterns.candidates(&text);
    let word = candidates.only(&word);
    let sentences: Vec<Range<usize>> = text.sentences().collect();
    // The break of a sentence is before the words of the next one.
    assert_eq!(sentences, [0..2, 2..8]);
    assert_eq!([0, 1, 4, 5, 7].map(|place| text.clause(place)), [0..1, 1..2, 2..5, 5..8, 5..8]);
    assert!(text.has_pause(&(0..2)) && !text.has_pause(&(3..5)));
    let mut hidden = text.clone();
    hidden.hide_in_clauses(&candidates.only(&idiom));
    assert_eq!(word.matches(&hidden), [1..2, 7..8], "only the idiom inside a clause");
    let mut rest = text.clone();
    rest.leave_out(&sentences[1]);
    assert_eq!(word.matches(&rest).as_slice(), std::slice::from_ref(&(1..2)));
    assert_eq!(word.matches(&text.only(&sentences[1])), [4..5, 7..8]);
}

#[test]
fn a_wrong_pattern_is_refused() {
    for wrong in ["", "(a", "a)", "?", "a | ", "<none>", "<loop>", "* a", "a *x", "a *99", "()"] {
        assert!(compile([wrong]).is_err(), "{wrong}");
    }
}

#[test]
fn what_is_hidden_is_not_found() {
    let (patterns, lists) = compile(["kill *1 lights", "kill", "now *4 him"]).unwrap();
    let mut text = patterns.text("now kill the lights for him");
    let candidates = patterns.candidates(&text);
    let [hidden, kill, across] = lists.map(|list| candidates.only(&list));
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
        let (patterns, [list]) = compile([written]).unwrap();
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let text = Text::new(&words, &patterns);
        let all = patterns.all();
        let pattern = all.only(&list);
        let mut hidden = Places::default();
        for place in 0..words.len() {
            let last = pattern.after(&Places::between(place, place + 1), &text).last();
            hidden = hidden.or(&Places::between(place, last.unwrap_or(place)));
        }
        let mut rest = text.clone();
        rest.hide(&pattern);
        prop_assert_eq!(rest.open, text.open.without(&hidden));
        let kept: Vec<_> = text.places.iter().map(|places| places.without(&hidden)).collect();
        prop_assert_eq!(rest.places, kept);
    }

    #[test]
    fn only_candidates_match(
        words in proptest::collection::vec(prop::sample::select(vec!["a", "b", "c", "d", "e", "."]), 0..8),
        written in proptest::collection::vec(prop::sample::select(vec![
            "a", "a *3 b", "(a)? b", "(a|b) (c)?", "^ a|b c $", "(a b|b c|c *2 a)", "(a|*2)", "*2 ((a|b) c)?",
            "(a)? *2 (b c|d (a|b))", "(((a|b d)|c))|e",
        ]), 3),
    ) {
        let written: [&str; 3] = written.try_into().unwrap();
        let (patterns, lists) = compile(written).unwrap();
        let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
        let text = Text::new(&words, &patterns);
        let some = patterns.candidates(&text);
        let all = patterns.all();
        for list in &lists {
            prop_assert_eq!(some.matches(list, &text), all.matches(list, &text));
            prop_assert_eq!(all.of(list).count(), 1, "a pattern of many branches is one");
            let mut hidden = [text.clone(), text.clone()];
            some.of(list).for_each(|pattern| hidden[0].hide(&pattern));
            all.of(list).for_each(|pattern| hidden[1].hide(&pattern));
            let [of_some, of_all] = hidden;
            prop_assert_eq!(of_some.open, of_all.open);
        }
    }
}

#[test]
fn a_pattern_is_a_candidate_by_the_rarest_of_its_words() {
    let written = ["the cat", "the dog", "(the|a) *2 (cat|fish)", "the", "(x)? *2"];
    let (patterns, lists) = compile(written).unwrap();
    for (text, expected) in [
        ("the house", [false, false, false, true, true]),
        ("a cat", [true, false, true, false, true]),
        ("a fish", [false, false, true, false, true]),
        ("my dog", [false, true, false, false, true]),
        ("", [false, false, false, false, true]),
    ] {
        let candidates = patterns.candidates(&patterns.text(text));
        let found = lists.each_ref().map(|list| candidates.first(list).is_some());
        assert_eq!(found, expected, "{text}");
    }
}
