//! `forward` and `proxy` become stanzas of the engine. Equal ones are the same over reloads, with what is known of their
//! upstreams.

use std::cell::LazyCell;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use nodens_engine::forward::{self as engine, Checking, Stanza, Transport, Upstream};
use nodens_sources::tls::Tls;
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::ServerName;

use crate::carried::Carried;
use crate::certificates::system_roots;
use crate::corefile::Span;
use crate::corefile::settings::{Attempts, Forward, Policy, Proxy, UpstreamPlace, UpstreamTransport};

/// Connections whose keys are kept for the next one.
const SESSIONS_MAX: usize = 256;

/// All that decides what a stanza does, without where it stands.
#[derive(Clone, PartialEq)]
pub struct StanzaKey {
    forward: Forward,
    /// What its files hold.
    tls: Option<Tls>,
    proxy: Option<ProxyKey>,
}

/// What `proxy` says beside.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ProxyKey {
    fail_timeout: std::time::Duration,
}

/// Keys are not shown.
impl fmt::Debug for StanzaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StanzaKey")
            .field("forward", &self.forward)
            .finish_non_exhaustive()
    }
}

impl StanzaKey {
    /// Of a `forward`; `tls` is what its files hold.
    pub fn of_forward(forward: &Forward, tls: Option<Tls>) -> Self {
        let mut forward = forward.clone();
        forward.span = Span::NOWHERE;
        forward.tls = None;
        for upstream in &mut forward.to {
            upstream.span = Span::NOWHERE;
        }
        Self {
            forward,
            tls,
            proxy: None,
        }
    }

    /// Of a `proxy`.
    pub fn of_proxy(proxy: &Proxy) -> Self {
        Self {
            proxy: Some(ProxyKey {
                fail_timeout: proxy.fail_timeout,
            }),
            ..Self::of_forward(&proxy.forward, None)
        }
    }

    /// Such a stanza, which has asked nothing yet.
    pub fn stanza(&self) -> Stanza {
        Stanza::new(self.settings())
    }

    fn settings(&self) -> engine::Settings {
        let Self { forward, proxy, .. } = self;
        // The authorities are read only where somebody is to be trusted.
        let config = LazyCell::new(|| self.client_config());
        let upstreams: Box<[_]> = forward
            .to
            .iter()
            .filter_map(|to| match to.place {
                UpstreamPlace::Address(address) => Some((to, address)),
                // `compile` has put its addresses there.
                UpstreamPlace::Host { .. } => None,
            })
            .map(|(to, address)| {
                let own_name = to.server_name.as_ref().or(forward.tls_server_name.as_ref());
                Arc::new(Upstream::new(
                    address,
                    match to.transport {
                        UpstreamTransport::Tls => Transport::Tls {
                            config: Arc::clone(&config),
                            name: server_name(own_name, address),
                        },
                        UpstreamTransport::Dns => Transport::Plain,
                    },
                ))
            })
            .collect();
        let checking = match proxy {
            Some(ProxyKey { fail_timeout }) => Checking::Failures {
                fails_max: forward.max_fails,
                timeout: *fail_timeout,
            },
            None if forward.max_fails == 0 => Checking::Never,
            None => Checking::Probes {
                fails_max: forward.max_fails,
                interval: forward.probe.every,
                domain: forward.probe.name.clone(),
                recursion: forward.probe.recursion,
            },
        };
        engine::Settings {
            from: forward.from.clone(),
            except: forward.except.as_slice().into(),
            attempts_max: match forward.attempts {
                Attempts::TwiceEach => Some(2 * upstreams.len() as u32),
                Attempts::Of(attempts) => Some(attempts),
                Attempts::Unlimited => None,
            },
            upstreams,
            policy: match forward.policy {
                Policy::Random => engine::Policy::Random,
                Policy::RoundRobin => engine::Policy::RoundRobin,
                Policy::Sequential => engine::Policy::Sequential,
                Policy::LeastConnections => engine::Policy::LeastConn,
            },
            force_tcp: forward.force_tcp,
            prefer_udp: forward.prefer_udp,
            expire: forward.expire,
            max_age: forward.max_age,
            idle_max: forward.idle_max.map(|max| usize::try_from(max).unwrap_or(usize::MAX)),
            read_timeout: forward.read_timeout,
            checking,
            concurrent_max: forward
                .concurrent_max
                .map(|max| usize::try_from(max).unwrap_or(usize::MAX)),
            failover: forward.failover.as_slice().into(),
            next: forward.next.as_slice().into(),
            next_on_nodata: forward.next_on_nodata,
            failfast: forward.failfast,
            source_address: forward.source,
        }
    }

    /// How connections to `tls://` upstreams are secured. Keys for the next connection are kept in it.
    fn client_config(&self) -> Arc<ClientConfig> {
        let roots = self.tls.as_ref().and_then(Tls::roots).unwrap_or_else(system_roots);
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("the provider has what these versions need")
            .with_root_certificates(roots);
        let own = self.tls.as_ref().and_then(Tls::certified_key);
        let mut config = match own {
            Some(own) => config.with_client_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(own))),
            None => config.with_no_client_auth(),
        };
        config.resumption = Resumption::in_memory_sessions(SESSIONS_MAX);
        Arc::new(config)
    }
}

/// What a certificate must name: what is written, else the address.
fn server_name(written: Option<&String>, address: SocketAddr) -> ServerName<'static> {
    written
        .and_then(|name| ServerName::try_from(name.clone()).ok())
        .unwrap_or_else(|| ServerName::IpAddress(address.ip().into()))
}

/// The stanzas of a configuration, and what is known of them from the one before.
pub type Stanzas = Carried<StanzaKey, Arc<Stanza>>;
