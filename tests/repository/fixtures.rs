//! The fixtures: recorded sessions are complete, with origin and licence; papers answer their
//! questions. Not for the replay of sessions.

use hearken_proto::recording::{Content, Recording};

use super::root;

#[test]
fn every_fixture_is_a_complete_session_with_origin_and_licence() {
    let readme = std::fs::read_to_string(root().join("fixtures/README.md")).unwrap();
    let mut human = Vec::new();
    for entry in std::fs::read_dir(root().join("fixtures/audio")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let recording = Recording::parse(&std::fs::read_to_string(&path).unwrap())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let header = &recording.header;
        for field in [&header.title, &header.language, &header.speaker, &header.licence] {
            assert!(field.as_ref().is_some_and(|f| !f.is_empty()), "{name}");
        }
        assert!(header.origin.is_some() && header.speech_end_s.is_some(), "{name}");
        let expect = header.expect.as_ref().unwrap();
        assert!(expect.transcript.is_some() && expect.max_error.is_some(), "{name}");
        let kinds: Vec<_> = recording
            .frames
            .iter()
            .filter_map(|f| match &f.content {
                Content::Up(json) => Some(json["type"].as_str().unwrap().to_owned()),
                _ => None,
            })
            .collect();
        // Automatic answers of the device's MCP server may be among the user's actions.
        let done: Vec<_> = kinds.iter().filter(|kind| *kind != "mcp").collect();
        assert_eq!(done[..2], ["hello", "listen"], "{name}");
        assert!(readme.contains(&format!("`{name}`")), "{name} is not in fixtures/README.md");
        if header.notes.is_none() {
            human.push((header.language.clone().unwrap(), header.speaker.clone().unwrap()));
        }
    }
    assert!(human.len() >= 6, "{human:?}");
    for language in ["zh", "en"] {
        let mut speakers: Vec<_> = human.iter().filter(|(l, _)| l == language).collect();
        speakers.sort();
        speakers.dedup();
        assert!(speakers.len() >= 2, "{language}: {speakers:?}");
    }
}

/// The passages, counts and sizes of the corpus `fixtures/papers`.
#[test]
fn the_papers_answer_their_questions() {
    let check = root().join("fixtures/papers/check.py");
    let run = std::process::Command::new("python3").arg("-B").arg(check).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stdout));
}
