//! `hearken people` as a command line, on a server without a speaker model: stored people are
//! listed and deleted. Enrolment is tested with its routes.

use std::path::Path;

use hearken_ports::{Person, PersonId, PersonStore as _};
use hearken_store::{FILE_NAME, SqlStore};
use serde_json::Value;

use super::guarded;
use crate::support::app::{TestServer, Vendors};
use crate::support::command::hearken;

const ANN: &str = "01234567-89ab-4cde-8f01-23456789abcd";

/// A silent recording of one second.
fn wav(file: &Path) -> String {
    let sample_rate = 16_000;
    let sample_format = hound::SampleFormat::Int;
    let spec = hound::WavSpec { channels: 1, sample_rate, bits_per_sample: 16, sample_format };
    let mut writer = hound::WavWriter::create(file, spec).unwrap();
    (0..sample_rate).for_each(|_| writer.write_sample(0_i16).unwrap());
    writer.finalize().unwrap();
    file.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn people_are_listed_and_deleted_and_unusable_files_are_named() {
    let vendors = Vendors::start().await;
    let folder = tempfile::tempdir().unwrap();
    let server = TestServer::start(&vendors, |config| {
        guarded(config);
        config.server.data_dir = folder.path().to_owned();
    })
    .await;
    let url = server.http_url("");
    let run = async |args: &[&str]| {
        let args = [&["people", "--url", &url, "--admin-token", super::ADMIN], args].concat();
        let (code, out, err) = hearken(folder.path(), &args).await;
        (code, if code == Some(0) { out } else { err })
    };
    assert_eq!(run(&[]).await, (Some(0), "nobody yet\n".into()));
    let good = wav(&folder.path().join("good.wav"));
    let bad = folder.path().join("bad.mp3");
    std::fs::write(&bad, "ID3").unwrap();
    let bad = bad.to_str().unwrap();
    let enrolled = [good.as_str(), &good, &good];
    for (files, says) in [
        (&[good.as_str()][..], "give 3 to 10 recordings, of a sentence each"),
        (&[&good, &good, "none.wav"], "cannot read none.wav: No such file"),
        (&[&good, bad, &good], "bad.mp3: it is not a WAV file"),
        (&enrolled, "good.wav, 2: "),
        (&enrolled, "set `speakers.model` and restart the server"),
    ] {
        let (code, told) = run(&[&["enrol", "Ann"], files].concat()).await;
        assert_eq!(code, Some(2), "{told}");
        assert!(told.contains(says), "{says}: {told}");
    }
    let ann = Person {
        id: PersonId(ANN.into()),
        role_id: String::new(),
        name: "小安".into(),
        voices: vec![vec![1.0]; 3],
        facts: vec!["likes tea".into()],
        exchanges: Vec::new(),
    };
    let store = SqlStore::file(&folder.path().join(FILE_NAME)).unwrap();
    store.add_person(&ann).await.unwrap();
    let (_, list) = run(&["list"]).await;
    let lines: Vec<Vec<&str>> = list.lines().map(|l| l.split_whitespace().collect()).collect();
    let wanted = [vec!["PERSON", "RECORDINGS", "FACTS", "NAME"], vec![ANN, "3", "1", "小安"]];
    assert_eq!(lines, wanted);
    let (_, json) = run(&["list", "--json"]).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["facts"][0], "likes tea");
    let forgot = format!("forgot what was remembered of {ANN}\n");
    assert_eq!(run(&["forget", ANN]).await, (Some(0), forgot));
    assert_eq!(run(&["delete", ANN]).await, (Some(0), format!("deleted {ANN}\n")));
    let (code, told) = run(&["delete", ANN]).await;
    assert!(code == Some(2) && told.contains("no such person"), "{told}");
    assert_eq!(store.people().await.unwrap(), []);
    store.shut().await;
    server.stop().await;
}
