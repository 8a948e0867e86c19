use std::sync::atomic::Ordering;
use std::time::Duration;

use etcd_client::CompactionOptions;
use tokio::time::sleep;

use crate::follower::{Follower, settings};
use crate::proxy::{Proxy, Wire};
use crate::server::{Server, free_port, put};

const VALUE: &str = r#"{"host":"192.0.2.1"}"#;
const BACK_MAX: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_cut_connection_is_made_anew_and_followed_where_it_was() {
    let server = Server::start().await;
    let proxy = Proxy::to(server.endpoint()).await;
    let mut client = server.client().await;
    put(&mut client, "/skydns/example/cedar/a", VALUE).await;
    let follower = Follower::of(&proxy.endpoint);
    follower.synced().await;
    proxy.set(Wire::Cut);
    follower.until("the loss", |view| view.zones[0].lost.is_some()).await;
    put(&mut client, "/skydns/example/cedar/b", VALUE).await;
    client.delete("/skydns/example/cedar/a", None).await.unwrap();
    sleep(Duration::from_secs(2)).await;
    assert!(follower.has("/skydns/example/cedar/a"));
    assert!(!follower.status.connected());
    assert!(follower.status.last_error().is_some());
    proxy.set(Wire::Open);
    let back = follower
        .until("the change", |view| view.has("/skydns/example/cedar/b"))
        .await;
    assert!(back < BACK_MAX, "{back:?}");
    follower
        .until("the deletion", |view| !view.has("/skydns/example/cedar/a"))
        .await;
    assert_eq!(follower.status.resyncs(), 0);
    assert!(follower.status.connected() && follower.view().zones[0].lost.is_none());
}

#[tokio::test]
async fn compaction_while_away_leads_to_a_full_read() {
    let server = Server::start().await;
    let proxy = Proxy::to(server.endpoint()).await;
    let mut client = server.client().await;
    for key in ["a", "b", "c"] {
        put(&mut client, &format!("/skydns/example/cedar/{key}"), VALUE).await;
    }
    let follower = Follower::of(&proxy.endpoint);
    follower.synced().await;
    proxy.set(Wire::Cut);
    follower.until("the loss", |view| view.zones[0].lost.is_some()).await;
    let deleted = client.delete("/skydns/example/cedar/a", None).await.unwrap();
    let revision = deleted.header().unwrap().revision();
    // Compaction just at a deletion loses it for who watches from there: old versions of etcd do not say so.
    let options = CompactionOptions::new().with_physical();
    client.compact(revision, Some(options)).await.unwrap();
    proxy.set(Wire::Open);
    follower
        .until("the deletion", |view| !view.has("/skydns/example/cedar/a"))
        .await;
    assert_eq!(follower.status.resyncs(), 1);
    put(&mut client, "/skydns/example/cedar/d", VALUE).await;
    follower
        .until("a change", |view| view.has("/skydns/example/cedar/d"))
        .await;
    assert_eq!((follower.view().zones[0].keys.len(), follower.status.keys()), (3, 3));
}

#[tokio::test]
async fn a_frozen_etcd_changes_nothing_and_is_followed_on() {
    let server = Server::start().await;
    let mut client = server.client().await;
    put(&mut client, "/skydns/example/cedar/a", VALUE).await;
    let follower = Follower::of(&server.endpoint());
    follower.synced().await;
    server.signal("STOP");
    follower.until("the loss", |view| view.zones[0].lost.is_some()).await;
    assert!(follower.has("/skydns/example/cedar/a"));
    server.signal("CONT");
    put(&mut server.client().await, "/skydns/example/cedar/b", VALUE).await;
    let back = follower
        .until("the change", |view| view.has("/skydns/example/cedar/b"))
        .await;
    assert!(back < BACK_MAX, "{back:?}");
}

#[tokio::test]
async fn a_silent_connection_is_noticed_within_seconds() {
    let server = Server::start().await;
    let proxy = Proxy::to(server.endpoint()).await;
    let mut client = server.client().await;
    let follower = Follower::of(&proxy.endpoint);
    follower.synced().await;
    proxy.set(Wire::Silent);
    let noticed = follower.until("the loss", |view| view.zones[0].lost.is_some()).await;
    assert!(noticed < Duration::from_secs(10), "{noticed:?}");
    put(&mut client, "/skydns/example/cedar/a", VALUE).await;
    proxy.set(Wire::Open);
    let back = follower
        .until("the change", |view| view.has("/skydns/example/cedar/a"))
        .await;
    assert!(back < BACK_MAX, "{back:?}");
    assert_eq!(follower.status.resyncs(), 0);
}

#[tokio::test]
async fn killed_and_restarted_with_its_data() {
    let mut server = Server::start().await;
    put(&mut server.client().await, "/skydns/example/cedar/a", VALUE).await;
    let follower = Follower::of(&server.endpoint());
    follower.synced().await;
    server.kill();
    follower.until("the loss", |view| view.zones[0].lost.is_some()).await;
    server.restart().await;
    put(&mut server.client().await, "/skydns/example/cedar/b", VALUE).await;
    let back = follower
        .until("the change", |view| view.has("/skydns/example/cedar/b"))
        .await;
    assert!(back < BACK_MAX, "{back:?}");
    assert_eq!(follower.status.resyncs(), 0);
    // The reason is said once, not at each attempt.
    let log = follower.view().log.join("\n");
    assert!(log.matches("Connection refused").count() <= 2, "{log}");
}

#[tokio::test]
async fn another_cluster_in_its_place_is_read_in_full() {
    let mut server = Server::start().await;
    let mut client = server.client().await;
    for n in 0..20 {
        put(&mut client, &format!("/skydns/example/cedar/{n}"), VALUE).await;
    }
    let follower = Follower::of(&server.endpoint());
    follower.synced().await;
    server.kill();
    server.restart_empty().await;
    put(&mut server.client().await, "/skydns/example/cedar/new", VALUE).await;
    follower
        .until("the other data", |view| view.has("/skydns/example/cedar/new"))
        .await;
    let keys = follower.view().zones[0].keys.len();
    assert_eq!((keys, follower.status.resyncs(), follower.status.revision()), (1, 1, 2));
}

#[tokio::test]
async fn an_etcd_that_comes_late_is_found() {
    let port = free_port();
    let endpoint = format!("127.0.0.1:{port}");
    let follower = Follower::of(&endpoint);
    follower.until("the reason", |view| view.zones[0].lost.is_some()).await;
    let lost = follower.view().zones[0].lost.clone().unwrap();
    assert!(
        lost.contains(&endpoint) && lost.contains("Connection refused"),
        "{lost}"
    );
    assert!(follower.view().zones[0].synced.is_none());
}

#[tokio::test]
async fn dead_endpoints_are_passed_by_wherever_they_stand() {
    let server = Server::start().await;
    let mut client = server.client().await;
    put(&mut client, "/skydns/example/cedar/a", VALUE).await;
    let refused = format!("127.0.0.1:{}", free_port());
    let silent = Proxy::to(server.endpoint()).await;
    silent.set(Wire::Silent);
    let (one, two) = (Proxy::to(server.endpoint()).await, Proxy::to(server.endpoint()).await);
    let endpoints = [
        refused.as_str(),
        one.endpoint.as_str(),
        silent.endpoint.as_str(),
        two.endpoint.as_str(),
    ];
    let follower = Follower::start(settings(&endpoints, &["cedar.example."]));
    follower.synced().await;
    for turn in 0..2 {
        let (used, other) = if one.accepted.load(Ordering::Relaxed) > two.accepted.load(Ordering::Relaxed) {
            (&one, &two)
        } else {
            (&two, &one)
        };
        let before = other.accepted.load(Ordering::Relaxed);
        used.set(Wire::Cut);
        follower.until("the loss", |view| view.zones[0].lost.is_some()).await;
        put(&mut client, &format!("/skydns/example/cedar/{turn}"), VALUE).await;
        follower
            .until("the change", |view| view.has(&format!("/skydns/example/cedar/{turn}")))
            .await;
        assert!(other.accepted.load(Ordering::Relaxed) > before);
        used.set(Wire::Open);
        // So that the counts say again which one is in use.
        used.accepted.store(0, Ordering::Relaxed);
    }
    assert_eq!(follower.status.resyncs(), 0);
}
