//! An NBD server in memory that fails in the ways that it is told to.

use iopace_nbd::{Command, Event, ExportInfo, Replies, Request, Server, ServerConfig};
use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;

/// The end of a connection. The number counts the requests that are answered before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It ends without an answer to one more request, which is carried out.
    Cut(usize),
    /// The same, and all that was not flushed is lost with the server.
    Restart(usize),
    /// It ends after so many bytes of one more answer.
    CutIn(usize, usize),
    /// Rubbish comes in the place of an answer.
    Rubbish(usize),
    /// An answer to what was not asked.
    Stranger(usize),
    /// An answer that the server goes away.
    GoesAway(usize),
}

impl Fate {
    fn answered_count(self) -> usize {
        match self {
            Fate::Cut(count)
            | Fate::Restart(count)
            | Fate::CutIn(count, _)
            | Fate::Rubbish(count)
            | Fate::Stranger(count)
            | Fate::GoesAway(count) => count,
        }
    }
}

/// The content: what is durable, and what is read.
struct Content {
    stable: Vec<u8>,
    volatile: Vec<u8>,
}

pub struct Array {
    address: SocketAddr,
    export: Mutex<ExportInfo>,
    content: Mutex<Content>,
    /// One for each connection; those behind them live.
    pub fates: Mutex<VecDeque<Fate>>,
    /// Connections are taken and ended at once.
    pub is_gone: AtomicBool,
    pub connections_count: AtomicU64,
    /// Length of the longest read or write.
    pub longest: AtomicU64,
    /// The connection that lives.
    live: Mutex<Option<TcpStream>>,
}

impl Array {
    /// A server of an export named `volume`.
    pub fn start(size_bytes: usize, change: impl FnOnce(&mut ExportInfo)) -> Arc<Array> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut export = ExportInfo {
            can_flush: true,
            can_fua: true,
            can_trim: true,
            can_write_zeroes: true,
            ..ExportInfo::new(1, "volume", size_bytes as u64)
        };
        change(&mut export);
        let zeroes = vec![0; size_bytes];
        let array = Arc::new(Array {
            address: listener.local_addr().expect("bound"),
            export: Mutex::new(export),
            content: Mutex::new(Content { stable: zeroes.clone(), volatile: zeroes }),
            fates: Mutex::default(),
            is_gone: AtomicBool::new(false),
            connections_count: AtomicU64::new(0),
            longest: AtomicU64::new(0),
            live: Mutex::default(),
        });
        let accepting = Arc::clone(&array);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if !accepting.is_gone.load(Relaxed) {
                    let array = Arc::clone(&accepting);
                    thread::spawn(move || array.serve(stream));
                }
            }
        });
        array
    }

    pub fn uri(&self) -> String {
        format!("nbd://{}/volume", self.address)
    }

    /// The export is told so to who connects from now on.
    pub fn set_size(&self, size_bytes: u64) {
        self.export.lock().expect("no test panics with it").size_bytes = size_bytes;
    }

    /// Ends the connection that lives.
    pub fn cut(&self) {
        if let Some(stream) = &*self.live.lock().expect("no test panics with it") {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// What would be there after a loss of power.
    pub fn stable(&self) -> Vec<u8> {
        self.content().stable.clone()
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().expect("no test panics with it")
    }

    fn serve(&self, stream: TcpStream) {
        let fate = self.fates.lock().expect("no test panics with it").pop_front();
        self.connections_count.fetch_add(1, Relaxed);
        let own = stream.try_clone().expect("a descriptor");
        *self.live.lock().expect("no test panics with it") = Some(own);
        let export = self.export.lock().expect("no test panics with it").clone();
        let server = Server::new(ServerConfig::default());
        let mut session =
            Session { array: self, stream, server, replies: Replies::default(), answered: 0, fate };
        // It ends when it ends.
        let _ = session.run(&export);
    }
}

struct Session<'a> {
    array: &'a Array,
    stream: TcpStream,
    server: Server,
    replies: Replies,
    answered: usize,
    fate: Option<Fate>,
}

impl Session<'_> {
    fn run(&mut self, export: &ExportInfo) -> std::io::Result<()> {
        loop {
            match self.server.poll(export) {
                Event::NeedInput => {
                    let got = self.stream.read(self.server.recv_space())?;
                    if got == 0 {
                        return Ok(());
                    }
                    self.server.received(got);
                }
                Event::Send => {
                    let output = self.server.take_output();
                    self.stream.write_all(&output)?;
                }
                Event::Opened(opened) => {
                    self.replies = opened.replies;
                    let output = self.server.take_output();
                    self.stream.write_all(&output)?;
                }
                Event::Write(request) => {
                    let mut data = vec![0; request.len as usize];
                    let have = self.server.payload_buffered(&mut data);
                    self.stream.read_exact(&mut data[have..])?;
                    self.server.payload_received(data.len() - have);
                    let reply = self.carry_out(&request, &data);
                    self.answer(&reply)?;
                }
                Event::Request(request) => {
                    let reply = self.carry_out(&request, &[]);
                    self.answer(&reply)?;
                }
                Event::Reject { cookie, error } => {
                    let mut reply = Vec::new();
                    self.replies.error(&mut reply, cookie, error);
                    self.answer(&reply)?;
                }
                Event::Close(_) | Event::StartTls => return Ok(()),
            }
        }
    }

    /// The reply to a request.
    fn carry_out(&self, request: &Request, data: &[u8]) -> Vec<u8> {
        let Request { cookie, command, offset, len, fua, .. } = *request;
        let mut reply = Vec::new();
        let mut content = self.array.content();
        let Content { stable, volatile } = &mut *content;
        let range = offset as usize..offset as usize + len as usize;
        match command {
            Command::Flush => stable.clone_from(volatile),
            Command::Write => volatile[range.clone()].copy_from_slice(data),
            Command::WriteZeroes => volatile[range.clone()].fill(0),
            Command::Read => {
                self.replies.read(&mut reply, cookie, offset, len);
                reply.extend_from_slice(&volatile[range.clone()]);
            }
            _ => {}
        }
        if fua {
            stable[range.clone()].copy_from_slice(&volatile[range]);
        }
        if matches!(command, Command::Read | Command::Write) {
            self.array.longest.fetch_max(u64::from(len), Relaxed);
        }
        if command != Command::Read {
            self.replies.done(&mut reply, cookie);
        }
        reply
    }

    /// Sends a reply, or lets the fate of the connection come true.
    fn answer(&mut self, reply: &[u8]) -> std::io::Result<()> {
        let Some(fate) = self.fate.filter(|fate| fate.answered_count() <= self.answered) else {
            self.answered += 1;
            return self.stream.write_all(reply);
        };
        let mut last = Vec::new();
        match fate {
            Fate::Cut(_) => {}
            Fate::Restart(_) => {
                let mut content = self.array.content();
                let stable = content.stable.clone();
                content.volatile = stable;
            }
            Fate::CutIn(_, len) => last.extend_from_slice(&reply[..len.min(reply.len() - 1)]),
            Fate::Rubbish(_) => last.resize(64, 0xe5),
            Fate::Stranger(_) => self.replies.done(&mut last, u64::MAX),
            Fate::GoesAway(_) => {
                // The cookie of a reply stands behind eight bytes of each kind.
                let cookie = u64::from_be_bytes(reply[8..16].try_into().expect("eight bytes"));
                self.replies.error(&mut last, cookie, iopace_nbd::Error::Shutdown);
            }
        }
        self.stream.write_all(&last)?;
        self.stream.shutdown(std::net::Shutdown::Both)?;
        Err(std::io::ErrorKind::ConnectionAborted.into())
    }
}
