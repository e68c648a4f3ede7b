//! Pool: connections to a server that many requests share.
//!
//! Limits      `PoolLimits`: `connect_within` for a connection with its handshake; idle connections, and how long they
//!             are kept.

use crate::{
    Stream, TlsConnector,
    connect::{host, is_https, secure},
};
use futures_util::future::BoxFuture;
use hyper::{
    Uri,
    body::Body,
    rt::{Read, ReadBufCursor, Write},
};
use hyper_util::{
    client::legacy::{
        Client,
        connect::{Connected, Connection, HttpConnector},
    },
    rt::{TokioExecutor, TokioIo, TokioTimer},
};
use std::{
    error::Error,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::timeout;

/// Bounds of a pool.
#[derive(Clone, Copy, Debug)]
pub struct PoolLimits {
    /// For a connection with its handshake.
    pub connect_within: Duration,
    /// Idle connections per host.
    pub idle_connections_max: usize,
    /// Idle connections are closed after this time.
    pub idle_max: Duration,
}

/// A client whose requests share connections.
///
/// # Panics
/// Later, outside a tokio runtime.
pub fn pool<B>(tls: Option<TlsConnector>, limits: PoolLimits) -> Client<Connect, B>
where
    B: Body<Data: Send> + Send,
{
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    Client::builder(TokioExecutor::new())
        .pool_max_idle_per_host(limits.idle_connections_max)
        .pool_idle_timeout(limits.idle_max)
        .pool_timer(TokioTimer::new())
        .build(Connect { tcp, tls, within: limits.connect_within })
}

/// Connects to the host of a URL, with TLS for `https`.
#[derive(Clone)]
pub struct Connect {
    tcp: HttpConnector,
    tls: Option<TlsConnector>,
    within: Duration,
}

impl tower::Service<Uri> for Connect {
    type Response = Pooled;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = BoxFuture<'static, Result<Pooled, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        tower::Service::poll_ready(&mut self.tcp, context).map_err(Into::into)
    }

    fn call(&mut self, url: Uri) -> Self::Future {
        let (is_https, host, tls, within) = (is_https(&url), host(&url).to_owned(), self.tls.clone(), self.within);
        let stream = tower::Service::call(&mut self.tcp, url);
        Box::pin(async move {
            let connecting = async move {
                let stream = stream.await?.into_inner();
                if !is_https {
                    return Ok::<_, Self::Error>(Pooled(TokioIo::new(Box::new(stream))));
                }
                let tls = tls.ok_or("https:// without certificates to trust")?;
                Ok(Pooled(TokioIo::new(secure(&host, stream, &tls).await?)))
            };
            match timeout(within, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        })
    }
}

/// A connection, with or without TLS.
pub struct Pooled(TokioIo<Box<dyn Stream>>);

impl Connection for Pooled {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Read for Pooled {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for Pooled {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
