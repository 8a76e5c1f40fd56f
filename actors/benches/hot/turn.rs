//! A complete turn of a device on scripted ports, in virtual time: the total cost of all actors,
//! from the first packet of the question to the end of the answer. Not for the duration of a turn.

use std::time::Duration;

use divan::Bencher;
use hearken_actors::settings::PipelineSettings;
use hearken_actors::testkit::TestPipeline;
use hearken_audio::sound;

#[divan::bench(sample_count = 20, sample_size = 1)]
fn of_1_s_asked_and_900_ms_answered(bencher: Bencher) {
    let system = actix::System::new();
    let mut pipeline = system.block_on(async {
        tokio::time::pause();
        let mut pipeline = TestPipeline::connect(PipelineSettings::default());
        pipeline.greet(1).await;
        pipeline
    });
    let question = [sound::voice(1_000), sound::silence(900)].concat();
    bencher.bench_local(|| {
        system.block_on(async {
            pipeline.forget();
            pipeline.text(r#"{"type":"listen","state":"start","mode":"auto"}"#);
            pipeline.stream(question.clone()).await;
            pipeline.until("tts/stop").await;
        });
    });
    system.block_on(async {
        pipeline.pass(Duration::from_secs(1)).await;
        pipeline.hang_up().await;
    });
}
