//! Ends connections whose client does not read, or never says anything.
//!
//! A watch holds no events, but its connection holds buffers and a slot. The real server closes a watch whose client falls behind; here
//! the log does that to clients that read slowly, and this to those that read nothing: what was to be sent waits for so long, then the
//! connection is gone, and the client lists again.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A connection that fails once a write has waited for this long, or the first byte.
#[derive(Debug)]
pub struct Patience<S> {
    inner: S,
    limit: Duration,
    has_spoken: bool,
    /// Set while the first byte is waited for.
    silence: Option<Pin<Box<Sleep>>>,
    /// Set while a write waits.
    stall: Option<Pin<Box<Sleep>>>,
}

// === impl Patience ===

impl<S> Patience<S> {
    /// Wraps a connection.
    pub fn new(inner: S, limit: Duration) -> Self {
        Self {
            inner,
            limit,
            has_spoken: false,
            silence: None,
            stall: None,
        }
    }

    /// Passes on what a write came to, unless it waited too long.
    fn judge<T>(&mut self, polled: Poll<io::Result<T>>, context: &mut Context<'_>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.stall = None;
            return polled;
        }
        wait(&mut self.stall, self.limit, "the client does not read", context)
    }
}

fn wait<T>(
    timer: &mut Option<Pin<Box<Sleep>>>,
    limit: Duration,
    problem: &'static str,
    context: &mut Context<'_>,
) -> Poll<io::Result<T>> {
    let timer = timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
    match timer.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, problem))),
        Poll::Pending => Poll::Pending,
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patience<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let polled = Pin::new(&mut this.inner).poll_read(context, buffer);
        if this.has_spoken {
            return polled;
        }
        if polled.is_ready() {
            this.has_spoken = true;
            this.silence = None;
            return polled;
        }
        wait(&mut this.silence, this.limit, "the client says nothing", context)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patience<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(context, bytes);
        self.judge(polled, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(context, slices);
        self.judge(polled, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(context);
        self.judge(polled, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(context);
        self.judge(polled, context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_write_fails_only_when_nothing_was_read_for_long() {
        let (mut client, server) = tokio::io::duplex(8);
        let mut server = Patience::new(server, Duration::from_secs(30));
        let writing = tokio::spawn(async move { server.write_all(&[0; 40]).await });
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(29)).await;
            client.read_exact(&mut [0; 8]).await.unwrap();
        }
        let stalled = tokio::time::Instant::now();
        let error = writing.await.unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(stalled.elapsed().as_secs(), 30);
    }
    #[tokio::test(start_paused = true)]
    async fn a_client_that_says_nothing_is_let_go_and_one_that_paused_is_not() {
        let (_silent, server) = tokio::io::duplex(8);
        let error = Patience::new(server, Duration::from_secs(30)).read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let (mut client, server) = tokio::io::duplex(8);
        let mut server = Patience::new(server, Duration::from_secs(30));
        client.write_u8(1).await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), 1);
        let late = tokio::spawn(async move { server.read_u8().await });
        tokio::time::sleep(Duration::from_secs(3600)).await;
        client.write_u8(2).await.unwrap();
        assert_eq!(late.await.unwrap().unwrap(), 2);
    }
}
