//! The thread of one connection: reads requests, serves what needs no disk, submits the rest.

use super::clients::Clients;
use super::connection::{Connection, Data};
use super::receive::{End, Waits, receive_payload};
use super::reply::Ticket;
use super::start_tls::start_tls;
use super::view::View;
use crate::answer::{Progress, SEND_FILE_BYTES};
use crate::buffer::Buffer;
use crate::clock;
use crate::device::Device;
use crate::device::pieces::{PIECE_BYTES, Parts, pieces};
use crate::groups::GroupError;
use crate::held::{Held, IN_PLACE_BYTES};
use crate::io::may_submit_from_here;
use crate::io::target::Target;
use crate::job::Job;
use crate::limits::{DRAIN_TIMEOUT, HANDSHAKE_TIMEOUT, PAYLOAD_BYTES_S_MIN, STUCK_CLIENT};
use crate::spin::{Look, Spin};
use iopace_core::request::{Cover, Extent, GroupId, Op, Space, TaskId};
use iopace_core::time::{Instant, Nanos};
use iopace_core::units::Bytes;
use iopace_nbd::{BlockStatus, Command, Error as NbdError, Event, Replies, Request, Server};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// What a connection's thread works with once an export is open.
struct Opened {
    device: Arc<dyn Device>,
    replies: Replies,
    /// The target of this client's flushes, so that it is told of errors that others know.
    flushed: Option<Target>,
}

/// One connection.
pub(super) struct Session {
    clients: Arc<Clients>,
    connection: Arc<Connection>,
    server: Server,
    opened: Option<Opened>,
    /// Requests parsed and not submitted yet.
    batch: Vec<Job>,
    /// Room for small reads from the page cache.
    scratch: Buffer,
    spin: Spin,
    waits: Waits,
    /// The group that the client named last, as in `disk@/vms/web`.
    named: Cell<Option<String>>,
}

/// Bytes that are there already; the end or error that waits there is left to the waiting call.
fn look(connection: &Connection, space: &mut [u8]) -> Look<usize> {
    match connection.receive(space, RecvFlags::DONTWAIT) {
        Ok(count) if count > 0 => Look::Found(count),
        Err(Errno::AGAIN | Errno::INTR) => Look::Nothing,
        _ => Look::Ended,
    }
}

impl Session {
    pub(super) fn new(clients: Arc<Clients>, connection: Arc<Connection>) -> Session {
        let server = Server::new(clients.server_config());
        let (batch, scratch, spin) = (Vec::new(), Buffer::default(), Spin::default());
        let (opened, waits, named) = (None, Waits::Handshake, Cell::default());
        Session { clients, connection, server, opened, batch, scratch, spin, waits, named }
    }

    /// Serves the client until it goes; its requests in flight are waited for, those that take long
    /// after the connection is closed.
    pub(super) fn run(mut self) {
        may_submit_from_here();
        let end = self.serve();
        self.submit_batch();
        if let End::Refused(why) = &end {
            tracing::info!(connection = self.connection.number(), "closed: {why}");
        }
        let left = self.connection.wait_until_idle(DRAIN_TIMEOUT);
        if left > 0 {
            tracing::warn!(
                connection = self.connection.number(),
                left,
                "closed with open requests"
            );
        }
        self.connection.say_end();
        self.connection.close();
        // A limit may hold them up for long. Until they are done its export is in use: the file
        // would be closed, and another program's, while they are still to be written.
        while self.connection.wait_until_idle(DRAIN_TIMEOUT) > 0 {}
    }

    fn serve(&mut self) -> End {
        let limit = Nanos(u64::try_from(HANDSHAKE_TIMEOUT.as_nanos()).expect("seconds"));
        let deadline = clock::now() + limit;
        loop {
            let view = View::new(&self.clients, &self.connection, &self.named);
            let event = self.server.poll(&view);
            let going_on = match event {
                Event::NeedInput => self.receive(deadline),
                Event::Send => self.send_handshake(),
                Event::StartTls => self.encrypt(deadline),
                Event::Opened(opened) => self.open(opened),
                Event::Request(request) => self.request(request),
                Event::Write(request) => self.write(request),
                Event::Reject { cookie, error } => self.reject(cookie, error),
                Event::Close(reason) => {
                    self.send_handshake().ok();
                    Err(if reason.is_orderly() {
                        End::Closed
                    } else {
                        End::Refused(reason.to_string())
                    })
                }
            };
            if let Err(end) = going_on {
                return end;
            }
        }
    }

    /// Nothing is left to parse: submits and sends what was gathered, then waits for the client.
    fn receive(&mut self, deadline: Instant) -> Result<(), End> {
        if !self.batch.is_empty() {
            self.connection.may_wait_here();
        }
        self.submit_batch();
        self.connection.send_and_wait();
        let open_count = self.connection.wait_for_room().ok_or(End::Closed)?;
        if self.server.in_handshake() {
            let left = clock::until(deadline).unwrap_or_default();
            if left.is_zero() {
                return Err(End::Refused("the handshake took too long".into()));
            }
            self.waits.handshake(&self.connection, left);
        }
        let space = self.server.recv_space();
        // A client that still waits for us may well have nothing more to ask.
        let connection = &self.connection;
        let early = (open_count == 0).then(|| self.spin.wait(|| look(connection, space)));
        let count = match early.flatten() {
            Some(count) => count,
            None => {
                let begin = clock::now();
                let count = self.waits.receive(&self.connection, space)?;
                self.spin.slept(clock::now().since(begin));
                count
            }
        };
        if let Some(opened) = &self.opened {
            self.server.grow_to(opened.device.size_bytes());
        }
        self.server.received(count);
        Ok(())
    }

    fn send_handshake(&mut self) -> Result<(), End> {
        let output = self.server.take_output();
        self.connection.append_raw(&output);
        self.connection.send();
        Ok(())
    }

    /// The client was told that it may encrypt, and does so.
    fn encrypt(&mut self, deadline: Instant) -> Result<(), End> {
        let config = self.clients.tls().ok_or(End::Closed)?;
        start_tls(&self.connection, config, self.waits, deadline)?;
        self.server.tls_started();
        Ok(())
    }

    fn open(&mut self, opened: iopace_nbd::Opened) -> Result<(), End> {
        self.waits.requests(&self.connection);
        let device = self.clients.device(opened.export);
        let device = device.ok_or_else(|| End::Refused(GroupError::ExportGone.to_string()))?;
        let (name, number) = (&device.info().name, self.connection.number());
        let named = self.named.take();
        let named = named.or_else(|| self.clients.group_of(self.connection.certificate()?));
        let joined = self.clients.join(&self.connection, opened.export, named.as_deref());
        joined.map_err(|error| End::Refused(error.to_string()))?;
        // From now on it keeps its size; until now it could be made smaller.
        if device.size_bytes() < opened.size_bytes {
            return Err(End::Refused("the export was made smaller just now".into()));
        }
        tracing::debug!(connection = number, device = %name, group = named, "opened");
        let flushed = device.flushed_by_client();
        self.opened = Some(Opened { device, replies: opened.replies, flushed });
        self.send_handshake()
    }

    fn opened(&self) -> &Opened {
        self.opened.as_ref().expect("requests come after an export was opened")
    }

    /// Counts a request in; when there is no room, what was gathered goes first.
    fn admit(&mut self, held: impl Into<Held>) -> Result<(), End> {
        let held = held.into();
        if self.connection.try_open(held) {
            return Ok(());
        }
        self.submit_batch();
        self.connection.send();
        if self.connection.open(held) { Ok(()) } else { Err(End::Closed) }
    }

    fn ticket(&self, request: &Request, held: Held) -> Ticket {
        let is_read = request.command == Command::Read;
        let connection = Arc::clone(&self.connection);
        Ticket::new(connection, request.cookie, self.opened().replies, held, is_read)
    }

    fn push(&mut self, op: Op, extent: Extent, request: &Request, buffer: Buffer, held: Held) {
        self.push_with(op, extent, request, buffer, self.ticket(request, held));
    }

    fn push_with(
        &mut self,
        op: Op,
        extent: Extent,
        request: &Request,
        buffer: Buffer,
        ticket: Ticket,
    ) {
        let task = TaskId(self.connection.number());
        let group = match self.batch.first() {
            Some(first) => first.group,
            None => self.connection.payer.begin(),
        };
        let (fua, progress) = (request.fua, Progress::default());
        let (space, cover) = (Space::DISK, Cover::All);
        let target = self.opened().flushed.as_ref().filter(|_| op == Op::Flush).cloned();
        let ticket = Box::new(ticket);
        let job =
            Job { task, group, op, extent, space, cover, fua, buffer, target, progress, ticket };
        self.batch.push(job);
    }

    /// Who pays for the next request: one group for all that is submitted together, as they have
    /// arrived by then.
    fn payer(&self) -> GroupId {
        self.batch.first().map_or_else(|| self.connection.payer.group(), |first| first.group)
    }

    fn request(&mut self, request: Request) -> Result<(), End> {
        let extent = Extent::new(Bytes(request.offset), Bytes(u64::from(request.len)))
            .expect("the protocol checked it against the device's size");
        let op = match request.command {
            Command::Read => return self.read(request, extent),
            Command::BlockStatus => return self.block_status(request, extent),
            Command::Flush => Op::Flush,
            Command::Trim => Op::Trim,
            Command::WriteZeroes => Op::WriteZeroes,
            Command::Cache => Op::Cache,
            Command::Write | Command::Disconnect => unreachable!("these have their own events"),
        };
        // A trim counts as no bytes, however long it is.
        if matches!(op, Op::Flush | Op::Trim) || extent.len().get() <= PIECE_BYTES {
            self.admit(Held::without_data())?;
            let extent = if op == Op::Flush { Extent::EMPTY } else { extent };
            self.push(op, extent, &request, Buffer::default(), Held::without_data());
            return Ok(());
        }
        // Each piece counts as a request, so that a client has no more in the device's table. With
        // FUA each is durable before it is done: they end in any order.
        let pieces = pieces(extent);
        let whole = Parts::new(pieces.len());
        for piece in pieces {
            self.admit(Held::without_data())?;
            let mut ticket = self.ticket(&request, Held::without_data());
            ticket.part_of(&whole);
            self.push_with(op, piece, &request, Buffer::default(), ticket);
        }
        Ok(())
    }

    fn read(&mut self, request: Request, extent: Extent) -> Result<(), End> {
        let len = request.len as usize;
        let held = Held::with_data(len, false);
        self.admit(held)?;
        let header = |replies: Replies, head: &mut Vec<u8>| {
            replies.read(head, request.cookie, request.offset, request.len);
        };
        let Opened { device, replies, .. } = self.opened();
        let (device, replies) = (Arc::clone(device), *replies);
        if len >= SEND_FILE_BYTES {
            if let Some(file) = device.cached_file(self.payer(), extent) {
                self.submit_batch();
                let data = Data::File(file, request.offset, len as u64);
                self.connection.answer_and_wait(held, data, |head| header(replies, head));
                return Ok(());
            }
        } else if len >= IN_PLACE_BYTES {
            let mut data = Buffer::new(len);
            if device.read_cached(self.payer(), extent, data.as_mut_slice()) {
                self.connection.answer(held, data, |head| {
                    header(replies, head);
                    true
                });
                return Ok(());
            }
        } else {
            let group = self.payer();
            if self.scratch.is_empty() {
                self.scratch.resize(IN_PLACE_BYTES);
            }
            let data = &mut self.scratch.as_mut_slice()[..len];
            if device.read_cached(group, extent, data) {
                self.connection.answer(held, Buffer::default(), |out| {
                    header(replies, out);
                    out.extend_from_slice(data);
                    false
                });
                return Ok(());
            }
        }
        self.push(Op::Read, extent, &request, Buffer::default(), held);
        Ok(())
    }

    /// Takes the payload straight into the buffer that the disk will be written from.
    fn write(&mut self, request: Request) -> Result<(), End> {
        let len = request.len as usize;
        let is_paced = !self.opened().device.info().direct && !request.fua;
        let held = Held::with_data(len, is_paced);
        self.admit(held)?;
        let mut buffer = Buffer::new(len);
        let mut have = self.server.payload_buffered(buffer.as_mut_slice());
        if have < len {
            self.submit_batch();
            self.connection.send();
            self.waits.data(&self.connection);
        }
        let due = STUCK_CLIENT + Duration::from_secs(len as u64 / PAYLOAD_BYTES_S_MIN);
        let due = clock::now() + Nanos(u64::try_from(due.as_nanos()).expect("minutes"));
        while have < len {
            match receive_payload(&self.connection, &mut buffer.as_mut_slice()[have..], due) {
                Ok(count) => {
                    self.server.payload_received(count);
                    have += count;
                }
                Err(end) => {
                    self.connection.forget(held);
                    return Err(end);
                }
            }
        }
        let extent = Extent::new(Bytes(request.offset), Bytes(u64::from(request.len)))
            .expect("the protocol checked it against the device's size");
        self.push(Op::Write, extent, &request, buffer, held);
        Ok(())
    }

    fn block_status(&mut self, request: Request, extent: Extent) -> Result<(), End> {
        self.admit(Held::without_data())?;
        let Opened { device, replies, .. } = self.opened();
        let (replies, allocation) = (*replies, device.allocation(extent));
        self.connection.answer(Held::without_data(), Buffer::default(), |head| {
            match allocation {
                Ok(pieces) => {
                    let pieces = pieces.iter().map(|piece| BlockStatus {
                        len: u32::try_from(piece.len_bytes).unwrap_or(u32::MAX),
                        is_hole: piece.is_hole,
                    });
                    let most = if request.req_one { 1 } else { usize::MAX };
                    let pieces: Vec<BlockStatus> = pieces.take(most).collect();
                    replies.block_status(head, request.cookie, &pieces);
                }
                Err(error) => replies.error(head, request.cookie, NbdError::from_io(&error)),
            }
            false
        });
        Ok(())
    }

    fn reject(&mut self, cookie: u64, error: NbdError) -> Result<(), End> {
        self.admit(Held::without_data())?;
        let replies = self.opened().replies;
        self.connection.answer(Held::without_data(), Buffer::default(), |head| {
            replies.error(head, cookie, error);
            false
        });
        Ok(())
    }

    fn submit_batch(&mut self) {
        if !self.batch.is_empty() {
            let device = &self.opened.as_ref().expect("requests come after open").device;
            device.submit(&mut self.batch);
            self.connection.payer.end();
        }
    }
}

#[cfg(test)]
mod tests;
