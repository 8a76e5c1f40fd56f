//! Clients that leave while their message is answered by one of three instances, and ask another
//! again. Not for what holds of one instance as well, which is in `chat::cutting`.

use hearken_test_support::places::{Place, on};
use hearken_test_support::redis::there_is;

use super::instances::Instances;
use crate::chat::cutting::{PAUSE, Servers, vendors};
use crate::support::slow_worlds::SlowWorlds;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_leaves_one_instance_gets_the_one_answer_at_another() {
    if !there_is("clients that leave one instance and ask another again") {
        return;
    }
    on(Place::postgres().await, |place| async move {
        let worlds = SlowWorlds::start(PAUSE).await;
        let state = [("HEARKEN__STATE__URL", worlds.url.clone())];
        let cluster = Instances::with(vendors().await, &place.url, &state).await;
        let all = cluster.all.iter().map(|instance| format!("127.0.0.1:{}", instance.port));
        let servers = Servers::new(all.collect(), &worlds, &cluster.vendors);
        servers.leave_at_every_moment().await;
        servers.leave_at_every_step().await;
    })
    .await;
}
