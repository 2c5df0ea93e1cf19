//! One client of the control API, from its connection to its end.
//!
//! A client has two seconds for the head of its request, ten for all with its answer, and is one of
//! a few. One that asks for a stream stays, and is counted as a stream from then on; it is closed
//! when it has not taken anything for as long. Long answers are made and sent
//! [`idle_executor`](super::idle_executor), in portions.

use super::admission::{Guest, Stay};
use super::idle_executor::{Helps, IdleExecutor};
use axum::Router;
use axum::body::Body;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_io_timeout::TimeoutStream;

/// Most of a request's head that is read; longer ones are refused by hyper. It is also what is
/// gathered for a client that does not take its answer.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// A client that has not sent the head of its request by then is closed.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// A client that has not sent its request and taken its answer by then is closed.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);

/// Most that is sent at once. The kernel is not to be left in the middle of it, some 10 µs.
const PORTION_BYTES: usize = 32 * 1024;

/// Serves one client.
pub(super) async fn converse(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    (api, aside): (Router, Arc<IdleExecutor>),
    (guest, stay): (Guest, Stay),
) {
    tokio::select! {
        biased;
        () = serve(stream, api, &aside, guest) => {}
        () = stay.over() => tracing::debug!("a silent control client was closed for another one"),
    }
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    api: Router,
    aside: &IdleExecutor,
    guest: Guest,
) {
    let api = TowerToHyperService::new(api);
    let told = guest.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        told.speaks();
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(told.clone());
        api.call(request)
    });
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(CLIENT_TIMEOUT));
    let stream = Portions { stream: Box::pin(stream), is_next: false };
    let mut served = Box::pin(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .keep_alive(false)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service),
    );
    let mut all = std::pin::pin!(async {
        let here = poll_fn(|cx| match served.as_mut().poll(cx) {
            Poll::Pending if guest.is_aside() => Poll::Ready(None),
            polled => polled.map(Some),
        });
        match here.await {
            Some(ended) => Some(ended),
            None => {
                let helps = if guest.stays() { Helps::Once } else { Helps::ToTheEnd };
                aside.carried_out(served, helps).await
            }
        }
    });
    let ended = match tokio::time::timeout(CLIENT_TIMEOUT, &mut all).await {
        Err(_) if guest.stays() => Ok(all.await),
        ended => ended,
    };
    match ended {
        Ok(Some(Ok(()))) => {}
        Ok(Some(Err(error))) => tracing::debug!(%error, "a control client broke off"),
        Ok(None) => tracing::error!("an answer to a control client failed and was cut off"),
        Err(_) => tracing::debug!("a control client took too long and was closed"),
    }
}

/// A stream that is written a portion at a time: after each, others may go on.
struct Portions<S> {
    stream: S,
    is_next: bool,
}

impl<S: AsyncWrite + Unpin> Portions<S> {
    fn portion(
        &mut self,
        cx: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if std::mem::take(&mut self.is_next) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let written = ready!(write(Pin::new(&mut self.stream), cx))?;
        self.is_next = written > PORTION_BYTES / 2;
        Poll::Ready(Ok(written))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Portions<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let data = &data[..data.len().min(PORTION_BYTES)];
        self.portion(cx, |stream, cx| stream.poll_write(cx, data))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut room = PORTION_BYTES;
        let fits = |part: &&IoSlice<'_>| {
            let rest = room.checked_sub(part.len());
            room = rest.unwrap_or(room);
            rest.is_some()
        };
        match parts.iter().take_while(fits).count() {
            0 => self.poll_write(cx, parts.first().map_or(&[], |first| first)),
            count => self.portion(cx, |stream, cx| stream.poll_write_vectored(cx, &parts[..count])),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Portions<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, into)
    }
}

#[cfg(test)]
mod tests {
    use super::super::admission::{Admission, CLIENTS_MAX, SILENT_MAX, in_turn};
    use super::*;
    use axum::Extension;
    use axum::middleware::from_fn;
    use axum::routing::get;
    use futures_util::stream::unfold;
    use std::convert::Infallible;
    use std::sync::Arc;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::task::JoinHandle;
    use tokio::time::{Instant, sleep};

    const PIECE: &str = "a piece of some length";

    /// Answers with a piece every four seconds, for 40 s.
    async fn pieces(stays: bool, guest: Guest, size: usize) -> Body {
        if stays {
            guest.stay();
        }
        Body::from_stream(unfold(0, move |count| async move {
            sleep(Duration::from_secs(4)).await;
            (count < 10).then(|| (Ok::<_, Infallible>(PIECE.repeat(size)), count + 1))
        }))
    }

    async fn begin(path: &str) -> (DuplexStream, JoinHandle<()>, Arc<Admission>) {
        let api = Router::new()
            .route("/stay", get(|Extension(guest): Extension<Guest>| pieces(true, guest, 1)))
            .route("/big", get(|Extension(guest): Extension<Guest>| pieces(true, guest, 9_999)))
            .route("/go", get(|Extension(guest): Extension<Guest>| pieces(false, guest, 1)))
            .layer(from_fn(in_turn));
        let hall = Admission::new();
        let (mut ours, theirs) = duplex(8_000);
        let serving =
            tokio::spawn(converse(theirs, (api, IdleExecutor::start()), hall.enter(None)));
        let asked = format!("GET {path} HTTP/1.0\r\n\r\n");
        ours.write_all(asked.as_bytes()).await.expect("sent");
        (ours, serving, hall)
    }

    async fn answer(mut ours: DuplexStream) -> String {
        let mut answer = String::new();
        ours.read_to_string(&mut answer).await.expect("text");
        answer
    }

    #[tokio::test(start_paused = true)]
    async fn ten_seconds_are_for_all_but_streams() {
        let (ours, _, hall) = begin("/go").await;
        let text = answer(ours).await;
        assert_eq!(text.matches(PIECE).count(), 2, "{text}");
        assert_eq!(hall.free_count(), CLIENTS_MAX);

        let (mut ours, _, hall) = begin("/stay").await;
        ours.read_u8().await.expect("an answer");
        assert_eq!(hall.free_count(), CLIENTS_MAX, "it is not one of the few");
        assert_eq!(answer(ours).await.matches(PIECE).count(), 10);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_not_read_is_closed() {
        let began = Instant::now();
        let (ours, serving, _) = begin("/big").await;
        serving.await.expect("ended well");
        // The first piece does not fit, and ten seconds later it is over.
        assert_eq!(began.elapsed().as_secs(), 14);
        drop(ours);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_says_nothing_is_closed() {
        let began = Instant::now();
        let (_ours, theirs) = duplex(8_000);
        converse(theirs, (Router::new(), IdleExecutor::start()), Admission::new().enter(None))
            .await;
        assert_eq!(began.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn the_silent_go_for_each_other_and_for_nobody_else() {
        let began = Instant::now();
        let hall = Admission::new();
        let enter = || {
            let (ours, theirs) = duplex(8_000);
            (
                ours,
                tokio::spawn(converse(
                    theirs,
                    (Router::new(), IdleExecutor::start()),
                    hall.enter(None),
                )),
            )
        };
        // It begins to speak, and goes on speaking.
        let api = Router::new()
            .route("/go", get(|Extension(guest): Extension<Guest>| pieces(false, guest, 1)));
        let (mut speaks, theirs) = duplex(8_000);
        let speaking =
            tokio::spawn(converse(theirs, (api, IdleExecutor::start()), hall.enter(None)));
        speaks.write_all(b"GET /go HTTP/1.0\r\n\r\n").await.expect("sent");
        speaks.read_u8().await.expect("an answer");
        let mut silent: Vec<_> = (0..SILENT_MAX).map(|_| enter()).collect();
        let one_more = enter();
        let (_ours, first) = silent.remove(0);
        first.await.expect("ended well");
        assert_eq!(began.elapsed().as_secs(), 0, "not by its time");
        assert!(silent.iter().all(|(_, serving)| !serving.is_finished()));
        assert!(!one_more.1.is_finished() && !speaking.is_finished());
        // By their time they all go.
        for (_ours, serving) in silent {
            serving.await.expect("ended well");
        }
        assert_eq!(began.elapsed().as_secs(), 2);
        assert!(!speaking.is_finished());
    }
}
