//! What every request passes: its turn, its time, its answer's code.

use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use futures_util::future::BoxFuture;
use http::{Request, Response};
use tokio::sync::Semaphore;
use tokio::time::sleep;
use tower::{Layer, Service};

use super::limits::Bucket;
use super::{Limits, Status};

/// The limits of one source, the same for all clients that it makes.
#[derive(Clone)]
pub(super) struct Turns {
    bucket: Option<Arc<Mutex<Bucket>>>,
    inflight: Option<Arc<Semaphore>>,
}

impl Turns {
    pub(super) fn new(limits: &Limits) -> Self {
        let most = |most: u32| usize::try_from(most).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Self {
            bucket: Bucket::new(limits).map(|bucket| Arc::new(Mutex::new(bucket))),
            inflight: limits.inflight.map(|inflight| Arc::new(Semaphore::new(most(inflight)))),
        }
    }
}

/// Makes [`Meter`]s.
pub(super) struct MeterLayer {
    pub(super) turns: Turns,
    pub(super) status: Arc<Status>,
    pub(super) host: Arc<str>,
}

/// A client that keeps to the limits and counts.
pub(super) struct Meter<S> {
    inner: S,
    turns: Turns,
    status: Arc<Status>,
    host: Arc<str>,
}

impl<S> Layer<S> for MeterLayer {
    type Service = Meter<S>;

    fn layer(&self, inner: S) -> Meter<S> {
        Meter {
            inner,
            turns: self.turns.clone(),
            status: Arc::clone(&self.status),
            host: Arc::clone(&self.host),
        }
    }
}

impl<S, A, B> Service<Request<A>> for Meter<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: Send,
    B: Send,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        // Nothing is sent before it is polled.
        let answer = self.inner.call(request);
        let (turns, status, host) = (self.turns.clone(), Arc::clone(&self.status), Arc::clone(&self.host));
        Box::pin(async move {
            let came = Instant::now();
            if let Some(bucket) = &turns.bucket {
                let wait = bucket.lock().unwrap_or_else(PoisonError::into_inner).take(came);
                sleep(wait).await;
            }
            // It is never closed; a request that is dropped gives its place back.
            let _place = match &turns.inflight {
                Some(inflight) => inflight.acquire().await.ok(),
                None => None,
            };
            let sent = Instant::now();
            let answer = answer.await;
            let took = sent.elapsed();
            match &answer {
                Ok(response) => status.count_request(&host, response.status().as_str(), sent - came, took),
                Err(_) => status.count_request(&host, "<error>", sent - came, took),
            }
            answer
        })
    }
}
