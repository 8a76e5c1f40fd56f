//! Text of a model on its way to the synthesiser, and the JSON of a device. Not for sound.

use divan::{Bencher, black_box};
use hearken_dialogue::Cleaner;
use hearken_dialogue::sentence::SentenceSplitter;
use hearken_dialogue::tools::names::Names;
use hearken_proto::device::{AudioParams, Downlink, ServerHello, Uplink};
use hearken_proto::ids::SessionId;

const ENGLISH: &str = "It is **five o'clock** in Berlin, and the sun is out. You could take a walk \
     in the park, don't you think? ";
const CHINESE: &str = "柏林现在是**五点钟**，太阳出来了。你可以去公园散散步，呼吸一下新鲜空气，\
     你觉得怎么样？如果你愿意，我可以先告诉你今天晚上的天气，再帮你看看附近有没有好吃的餐厅。今天是星期天，\
     所以人可能会比较多，";
const HELLO: &str = r#"{"type":"hello","version":1,"features":{"mcp":true},"transport":"websocket","audio_params":{"format":"opus","sample_rate":16000,"channels":1,"frame_duration":60}}"#;
const LISTEN: &str = r#"{"session_id":"0b8f9f0e","type":"listen","state":"start","mode":"auto"}"#;

/// Returns 100 characters in the pieces in which models write: words, or one or two Han characters.
fn deltas(language: &str) -> Vec<String> {
    let text = if language == "zh" { CHINESE } else { ENGLISH };
    let letters: Vec<char> = text.chars().cycle().take(100).collect();
    letters.chunks(if language == "zh" { 2 } else { 4 }).map(|c| c.iter().collect()).collect()
}

#[divan::bench(args = ["en", "zh"])]
fn cleaning_of_100_characters(bencher: Bencher, language: &str) {
    let deltas = deltas(language);
    let mut cleaner = Cleaner::default();
    bencher.bench_local(|| {
        let lengths = deltas.iter().map(|delta| cleaner.push(delta).len());
        lengths.sum::<usize>() + cleaner.finish().len()
    });
}

#[divan::bench(args = ["en", "zh"])]
fn splitting_of_100_characters(bencher: Bencher, language: &str) {
    let deltas = deltas(language);
    let mut splitter = SentenceSplitter::default();
    bencher.bench_local(|| {
        let sentences = deltas.iter().map(|delta| splitter.push(delta).len());
        sentences.sum::<usize>() + usize::from(splitter.finish().is_some())
    });
}

#[divan::bench(args = ["hello", "listen"])]
fn json_is_read(bencher: Bencher, kind: &str) {
    let text = if kind == "hello" { HELLO } else { LISTEN };
    bencher.bench_local(|| Uplink::decode(black_box(text)));
}

#[divan::bench(args = ["hello", "sentence_start"])]
fn json_is_written(bencher: Bencher, kind: &str) {
    let text = "It is five o'clock in Berlin, and the sun is out.".to_owned();
    let hello = ServerHello { audio_params: AudioParams::opus(24_000, 60), mcp: true };
    let message = match kind {
        "hello" => Downlink::Hello(hello),
        _ => Downlink::SentenceStart { text },
    };
    let session = SessionId::random();
    bencher.bench_local(|| message.encode(&session));
}

#[divan::bench(args = ["self.audio_speaker.set_volume", "查询天气"])]
fn a_tool_gets_its_name(bencher: Bencher, tool: &str) {
    bencher
        .with_inputs(Names::default)
        .bench_local_refs(|names| names.assign("device", black_box(tool)));
}

#[divan::bench]
fn a_tool_keeps_its_name(bencher: Bencher) {
    let mut names = Names::default();
    bencher.bench_local(|| names.assign("device", black_box("self.audio_speaker.set_volume")));
}
