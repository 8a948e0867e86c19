use std::time::{Duration, Instant};

use nodens_sources::etcd::{LeaseId, LeaseState};

use crate::follower::Follower;
use crate::server::{Server, put, put_leased};

const VALUE: &str = r#"{"host":"192.0.2.1"}"#;

#[tokio::test]
async fn a_lease_is_asked_once_and_forgotten_with_its_keys() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let lease = client.lease_grant(100, None).await.unwrap().id();
    put_leased(&mut client, "/skydns/example/cedar/a", VALUE, lease).await;
    let follower = Follower::of(&server.endpoint());
    follower
        .until("the lease", |view| view.leases.contains_key(&LeaseId(lease)))
        .await;
    assert_eq!(
        follower.view().zones[0].keys["/skydns/example/cedar/a"].lease,
        Some(LeaseId(lease))
    );
    let state = follower.view().leases[&LeaseId(lease)];
    let part = state.part(Instant::now(), 30, 86_400).unwrap();
    assert!((90..=100).contains(&part), "{part}");
    assert_eq!(state.part(Instant::now() + Duration::from_secs(50), 30, 40), Some(40));

    let asked = follower.status.requests();
    for n in 0..20 {
        put_leased(&mut client, &format!("/skydns/example/cedar/b{n}"), VALUE, lease).await;
    }
    follower
        .until("the other keys", |view| view.zones[0].keys.len() == 21)
        .await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(follower.status.requests(), asked);

    // To no lease, to another one, and away.
    put(&mut client, "/skydns/example/cedar/a", VALUE).await;
    follower
        .until("the key without lease", |view| {
            view.zones[0].keys["/skydns/example/cedar/a"].lease.is_none()
        })
        .await;
    let other = client.lease_grant(1_000, None).await.unwrap().id();
    put_leased(&mut client, "/skydns/example/cedar/a", VALUE, other).await;
    follower
        .until("the other lease", |view| view.leases.contains_key(&LeaseId(other)))
        .await;
    client.lease_revoke(lease).await.unwrap();
    follower
        .until("the lease to go", |view| !view.leases.contains_key(&LeaseId(lease)))
        .await;
    assert_eq!(follower.view().zones[0].keys.len(), 1);
    assert_eq!(follower.status.keys(), 1);
}

#[tokio::test]
async fn expiry_removes_the_key_and_a_short_lease_counts_as_the_minimum() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let lease = client.lease_grant(2, None).await.unwrap().id();
    let follower = Follower::of(&server.endpoint());
    follower.synced().await;
    put_leased(&mut client, "/skydns/example/cedar/a", VALUE, lease).await;
    follower
        .until("the key", |view| view.has("/skydns/example/cedar/a"))
        .await;
    follower
        .until("its end", |view| !view.has("/skydns/example/cedar/a"))
        .await;
    assert!(follower.view().leases.is_empty());
}

#[tokio::test]
async fn a_revoked_lease_leaves_nothing_behind_and_many_are_paced() {
    let server = Server::start().await;
    let mut client = server.client().await;
    let follower = Follower::of(&server.endpoint());
    follower.synced().await;
    let start = Instant::now();
    let mut leases = Vec::new();
    for n in 0..60 {
        let lease = client.lease_grant(500, None).await.unwrap().id();
        put_leased(&mut client, &format!("/skydns/example/cedar/{n}"), VALUE, lease).await;
        leases.push(lease);
    }
    follower.until("all leases", |view| view.leases.len() == 60).await;
    assert!(start.elapsed() >= Duration::from_millis(590), "{:?}", start.elapsed());
    assert!(
        follower
            .view()
            .leases
            .values()
            .all(|state| matches!(state, LeaseState::Until(_)))
    );
    for lease in leases {
        client.lease_revoke(lease).await.unwrap();
    }
    follower
        .until("all to go", |view| {
            view.zones[0].keys.is_empty() && view.leases.is_empty()
        })
        .await;
}
