//! The built-in tools of a whole server, listed and called over its REST API. Their results are
//! tested in `crates/tool-sources/tests`.

use hearken_test_support::vendors::{read_request, respond};
use hearken_tool_sources::BuiltinSettings;
use serde_json::json;
use tokio::net::TcpListener;

use super::{called, listed};
use crate::support::app::{TestServer, Vendors};

/// A location service that places every address in Shanghai, in the format of ip-api.com; stops
/// with the test.
async fn location_service() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/json/", listener.local_addr().unwrap());
    let place = json!({
        "status": "success", "country": "China", "regionName": "Shanghai", "city": "Shanghai",
        "lat": 31.22, "lon": 121.46, "timezone": "Asia/Shanghai",
    });
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            if read_request(&mut stream).await.is_some() {
                respond(&mut stream, 200, "", place.to_string().as_bytes()).await;
            }
        }
    });
    url
}

#[tokio::test]
async fn built_in_tools_are_listed_and_called_over_rest() {
    let vendors = Vendors::start().await;
    let location_url = location_service().await;
    let settings = BuiltinSettings { location_url, timeout_ms: 5_000, ..Default::default() };
    let server = TestServer::start(&vendors, |config| config.tools.builtin = settings).await;
    let sources = listed(&server).await;
    let names: Vec<&str> =
        sources[0]["tools"].as_array().unwrap().iter().filter_map(|t| t["name"].as_str()).collect();
    assert_eq!((&sources[0]["name"], &sources[0]["kind"]), (&json!("builtin"), &json!("builtin")));
    assert_eq!(names, ["get_weather", "get_current_time", "get_location"]);
    let (status, text) = called(&server, "builtin", "get_location", json!({})).await;
    assert!(status == 200 && text.contains("Shanghai"), "{text}");
    let (status, _) = called(&server, "builtin", "dance", json!({})).await;
    assert_eq!(status, 404);
}
