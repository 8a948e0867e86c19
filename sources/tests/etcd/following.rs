use nodens_sources::etcd::step::PAGE_KEYS;
use nodens_sources::etcd::{Host, Service};

use crate::follower::{Follower, settings};
use crate::server::{Server, put, put_all};

const VALUE: &str = r#"{"host":"192.0.2.1"}"#;

#[tokio::test]
async fn pages_are_loaded_then_changes_followed() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let total = PAGE_KEYS + 501;
    for batch in 0..PAGE_KEYS / 100 + 5 {
        put_all(
            &mut client,
            (0..100).map(|n| format!("/skydns/example/cedar/{batch:02}{n:02}")),
            VALUE,
        )
        .await;
    }
    put(&mut client, "/skydns/example/cedar", VALUE).await;
    for outside in [
        "/skydns/example/cedar-x/a",
        "/skydns/example/cedar1",
        "/skydns/example/ceda",
        "/skydns/example",
    ] {
        put(&mut client, outside, VALUE).await;
    }
    let follower = Follower::of(&server.endpoint());
    follower.synced().await;
    {
        let view = follower.view();
        let zone = &view.zones[0];
        // The own key of the zone, then two pages below it.
        assert_eq!((zone.keys.len() as i64, zone.pages), (total, 3));
        let service: &Service = zone.keys["/skydns/example/cedar/0000"].value.as_ref().unwrap();
        assert_eq!(service.host, Host::V4([192, 0, 2, 1].into()));
        assert_eq!(follower.status.keys(), total);
        assert_eq!(follower.status.revision(), zone.synced.unwrap());
        assert!(follower.status.connected());
        assert_eq!(follower.status.last_error(), None);
        assert!(view.log[0].starts_with("Info connected to etcd 3.") && view.log[0].contains(&server.endpoint()));
    }

    put(&mut client, "/skydns/example/cedar/new", r#"{"host":"far.test"}"#).await;
    follower
        .until("the new key", |view| view.has("/skydns/example/cedar/new"))
        .await;
    put(&mut client, "/skydns/example/cedar/new", "no json").await;
    follower
        .until("the bad value", |view| {
            view.zones[0].keys["/skydns/example/cedar/new"].value.is_err()
        })
        .await;
    client.delete("/skydns/example/cedar/new", None).await.unwrap();
    follower
        .until("the deletion", |view| !view.has("/skydns/example/cedar/new"))
        .await;
    put(&mut client, "/skydns/example/cedar-x/b", VALUE).await;

    let keys = (0..50)
        .map(|n| format!("/skydns/example/cedar/t{n}"))
        .chain(["/skydns/example/cedar".to_owned()]);
    let revision = put_all(&mut client, keys, VALUE).await;
    follower
        .until("the transaction", |view| view.has("/skydns/example/cedar/t49"))
        .await;
    let view = follower.view();
    assert_eq!(view.zones[0].events.last(), Some(&(revision, 51)));
    assert_eq!(view.zones[0].events.len(), 4);
    drop(view);
    assert_eq!(
        (follower.status.keys(), follower.status.revision()),
        (total + 50, revision)
    );
    assert_eq!(follower.status.resyncs(), 0);
}

#[tokio::test]
async fn pages_that_are_too_large_are_read_in_parts() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let value = format!(r#"{{"text":"{}"}}"#, "x".repeat(1_200_000));
    for n in 0..20 {
        put(&mut client, &format!("/skydns/example/cedar/{n}"), &value).await;
    }
    let follower = Follower::of(&server.endpoint());
    follower.synced().await;
    assert_eq!(follower.view().zones[0].keys.len(), 20);
    assert!(follower.view().zones[0].pages > 2);
}

#[tokio::test]
async fn zones_are_followed_each_for_itself() {
    let server = Server::start().await;
    let mut client = server.client().await;
    put(&mut client, "/skydns/example/cedar/a", VALUE).await;
    put(
        &mut client,
        "/skydns/arpa/in-addr/192/0/2/1",
        r#"{"host":"a.cedar.example"}"#,
    )
    .await;
    let zones = ["cedar.example.", "2.0.192.in-addr.arpa.", "."];
    let follower = Follower::start(settings(&[&server.endpoint()], &zones));
    follower.synced().await;
    put(&mut client, "/skydns/arpa/in-addr/192/0/2/2", VALUE).await;
    put(&mut client, "/skydns", VALUE).await;
    follower
        .until("both changes", |view| {
            view.zones[2].keys.len() == 4 && view.zones[1].keys.len() == 2
        })
        .await;
    assert_eq!(follower.view().zones[0].keys.len(), 1);
}

#[tokio::test]
async fn cancelling_ends_it_and_so_does_a_consumer_that_is_gone() {
    let server = Server::start().await;
    let mut follower = Follower::of(&server.endpoint());
    follower.synced().await;
    follower.cancel.cancel();
    (&mut follower.task).await.unwrap();
    assert!(!follower.status.connected());

    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    drop(receiver);
    let settings = settings(&[&server.endpoint()], &["cedar.example."]);
    let cancel = tokio_util::sync::CancellationToken::new();
    nodens_sources::etcd::run(
        settings,
        sender,
        Default::default(),
        std::sync::Arc::new(|_, _| {}),
        cancel,
    )
    .await;
}
