//! Clients that disconnect while one of three instances answers their message, and repeat the
//! request at another. Behaviour of a single instance is tested in `chat::cutting`.

use hearken_test_support::places::{Place, on};
use hearken_test_support::redis::there_is;

use super::instances::Instances;
use crate::chat::cutting::{PAUSE, Servers, vendors};
use crate::support::slow_worlds::SlowWorlds;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_leaves_gets_its_answer_at_another_instance() {
    if !there_is("clients that leave and repeat their request at another instance") {
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
