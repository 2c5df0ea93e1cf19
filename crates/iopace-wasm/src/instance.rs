//! One running instance of a module: its calls, each with its own fuel, and its desk.

use crate::desk::Desk;
use crate::limits::FUEL_PER_CALL;
use crate::sandbox::{self, Host};
use crate::text::printable;
use core::fmt;
use iopace_core::request::RequestId;
use iopace_core::sched::Load;
use iopace_core::time::{Instant as Time, Nanos};
use iopace_core::trace::Fault;
use wasmtime::{InstancePre, Memory, Store, Trap, TypedFunc, WasmParams, WasmResults};

/// A call that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    /// As the engine is told.
    pub(crate) fault: Fault,
    /// The call.
    pub(crate) call: &'static str,
    /// As people are told.
    pub(crate) why: String,
}

impl Failure {
    /// An answer that means nothing.
    pub(crate) fn answer(call: &'static str, why: impl fmt::Display) -> Failure {
        Failure { fault: Fault::Trapped, call, why: format!("it answered {why}") }
    }
}

/// The arguments of `iopace_join`.
type Join = (i64, u32, u32, u64, u32, u64);

/// An instance that was made, with its desk.
pub(crate) struct Instance {
    store: Store<Host>,
    memory: Memory,
    pop: TypedFunc<(i64, u32, u32), u32>,
    events: TypedFunc<u32, ()>,
    configure: TypedFunc<u32, ()>,
    counters: Option<TypedFunc<u32, ()>>,
    join: Option<TypedFunc<Join, u32>>,
    disk: Option<TypedFunc<u32, u32>>,
    dump: Option<TypedFunc<(), u64>>,
    wait_max: Option<TypedFunc<(u32, i64, i64, i64), i64>>,
    desk: Desk,
    /// Bytes of events in the desk.
    filled: usize,
}

/// An instance that has not been made.
pub(crate) struct Fresh {
    store: Store<Host>,
    instance: wasmtime::Instance,
    memory: Memory,
}

impl Fresh {
    /// A new instance; a start function has run.
    pub(crate) fn new(ready: &InstancePre<Host>, policy: &str) -> Result<Fresh, Failure> {
        const CALL: &str = "start";
        let mut store = sandbox::store(policy);
        sandbox::begin_call(&mut store, FUEL_PER_CALL);
        let instance = ready.instantiate(&mut store);
        let instance = instance.map_err(|error| failure(CALL, &error))?;
        let memory = instance.get_memory(&mut store, "memory");
        let memory = memory.ok_or_else(|| Failure::answer(CALL, "no memory"))?;
        Ok(Fresh { store, instance, memory })
    }

    /// `iopace_abi`.
    pub(crate) fn abi(&mut self) -> Result<i32, Failure> {
        let abi = self.export("iopace_abi")?;
        call(&mut self.store, "iopace_abi", &abi, ())
    }

    /// `iopace_describe`: the text, of at most so many bytes.
    pub(crate) fn describe(&mut self, most: usize) -> Result<Vec<u8>, Failure> {
        const CALL: &str = "iopace_describe";
        let describe = self.export(CALL)?;
        let place = call(&mut self.store, CALL, &describe, ())?;
        text(self.memory.data(&self.store), CALL, place, most).map(<[u8]>::to_vec)
    }

    /// `iopace_make`, then its parameters.
    pub(crate) fn make(
        mut self,
        seed: u64,
        head: Option<bool>,
        values: &[u64],
    ) -> Result<Instance, Failure> {
        const CALL: &str = "iopace_make";
        let make: TypedFunc<(u64, u32), u32> = self.export(CALL)?;
        let head = head.map_or(0, |has_head| 1 + u32::from(has_head));
        let address = call(&mut self.store, CALL, &make, (seed, head))?;
        let desk = Desk::read(self.memory.data(&self.store), address);
        let desk = desk.map_err(|why| Failure { fault: Fault::Trapped, call: CALL, why })?;
        let mut instance = Instance {
            pop: self.export("iopace_pop")?,
            events: self.export("iopace_events")?,
            configure: self.export("iopace_configure")?,
            counters: self.optional("iopace_counters"),
            join: self.optional("iopace_join"),
            disk: self.optional("iopace_disk"),
            dump: self.optional("iopace_dump"),
            wait_max: self.optional("iopace_wait_max"),
            store: self.store,
            memory: self.memory,
            desk,
            filled: 0,
        };
        instance.configure(values)?;
        Ok(instance)
    }

    fn export<P: WasmParams, R: WasmResults>(
        &mut self,
        name: &'static str,
    ) -> Result<TypedFunc<P, R>, Failure> {
        let function = self.instance.get_typed_func(&mut self.store, name);
        function.map_err(|error| failure(name, &error))
    }

    fn optional<P: WasmParams, R: WasmResults>(&mut self, name: &str) -> Option<TypedFunc<P, R>> {
        self.instance.get_typed_func(&mut self.store, name).ok()
    }
}

impl Instance {
    /// How many answers a call may give.
    pub(crate) fn room(&self) -> usize {
        self.desk.answers_count
    }

    /// Whether requests can join others.
    pub(crate) fn joins(&self) -> bool {
        self.join.is_some()
    }

    /// Puts an event into the desk; if it is full, those that lie there are delivered first.
    #[inline]
    pub(crate) fn tell<const N: usize>(&mut self, event: &[u8; N]) -> Result<(), Failure> {
        if self.filled + N > self.desk.event_bytes {
            self.deliver()?;
        }
        let at = self.desk.events + self.filled;
        self.memory.data_mut(&mut self.store)[at..at + N].copy_from_slice(event);
        self.filled += N;
        Ok(())
    }

    /// Events alone.
    #[inline(never)]
    fn deliver(&mut self) -> Result<(), Failure> {
        let bytes = self.take_filled();
        call(&mut self.store, "iopace_events", &self.events, bytes)
    }

    /// The bytes of events that the next call is given.
    #[inline]
    fn take_filled(&mut self) -> u32 {
        core::mem::take(&mut self.filled) as u32
    }

    /// `iopace_pop`.
    #[inline]
    pub(crate) fn pop(&mut self, now: i64, room: usize) -> Result<u32, Failure> {
        let bytes = self.take_filled();
        call(&mut self.store, "iopace_pop", &self.pop, (now, bytes, room as u32))
    }

    /// The answer at the index, after [`Instance::pop`].
    #[inline]
    pub(crate) fn answer(&self, index: usize) -> RequestId {
        self.desk.answer(self.memory.data(&self.store), index)
    }

    /// The instant before which nothing goes, after [`Instance::pop`], in ns.
    pub(crate) fn instant(&self) -> i64 {
        self.desk.instant(self.memory.data(&self.store))
    }

    /// `iopace_join`; false where it is not exported.
    pub(crate) fn join(
        &mut self,
        now: i64,
        id: RequestId,
        lead: RequestId,
    ) -> Result<bool, Failure> {
        const CALL: &str = "iopace_join";
        let bytes = if self.join.is_some() { self.take_filled() } else { 0 };
        let Some(join) = &self.join else { return Ok(false) };
        let (slot, sequence) = (id.slot(), id.sequence());
        let names = (now, bytes, slot, sequence, lead.slot(), lead.sequence());
        match call(&mut self.store, CALL, join, names)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Failure::answer(CALL, other)),
        }
    }

    /// `iopace_configure` with these values.
    pub(crate) fn configure(&mut self, values: &[u64]) -> Result<(), Failure> {
        let bytes = self.take_filled();
        self.desk.set_values(self.memory.data_mut(&mut self.store), values);
        call(&mut self.store, "iopace_configure", &self.configure, bytes)
    }

    /// `iopace_counters`: so many of them.
    pub(crate) fn counters(&mut self, count: usize) -> Result<Vec<u64>, Failure> {
        if count == 0 || self.counters.is_none() {
            return Ok(Vec::new());
        }
        let bytes = self.take_filled();
        if let Some(counters) = &self.counters {
            call(&mut self.store, "iopace_counters", counters, bytes)?;
        }
        let memory = self.memory.data(&self.store);
        Ok((0..count).map(|index| self.desk.value(memory, index)).collect())
    }

    /// `iopace_disk`: its word and the cost of a seek; nothing where it is not exported.
    pub(crate) fn disk(&mut self) -> Result<Option<(u32, Nanos)>, Failure> {
        if self.disk.is_none() {
            return Ok(None);
        }
        let bytes = self.take_filled();
        let Some(disk) = &self.disk else { return Ok(None) };
        let word = call(&mut self.store, "iopace_disk", disk, bytes)?;
        let seek = Nanos(self.desk.value(self.memory.data(&self.store), 0));
        Ok(Some((word, seek)))
    }

    /// `iopace_dump`: its state as text, of at most so many bytes.
    pub(crate) fn dump(&mut self, most: usize) -> Result<Option<String>, Failure> {
        const CALL: &str = "iopace_dump";
        let Some(dump) = &self.dump else { return Ok(None) };
        let place = call(&mut self.store, CALL, dump, ())?;
        let bytes = text(self.memory.data(&self.store), CALL, place, most)?;
        Ok(Some(printable(&String::from_utf8_lossy(bytes), most)))
    }

    /// `iopace_wait_max` beside that load; zero where it is not exported.
    pub(crate) fn wait_max(&mut self, kind: u32, load: &Load) -> Result<Nanos, Failure> {
        const CALL: &str = "iopace_wait_max";
        let Some(wait_max) = &self.wait_max else { return Ok(Nanos::ZERO) };
        let Load { clients_count, requests, service } = *load;
        let [clients, requests, service] =
            [clients_count, requests, service.0].map(crate::desk::nanos);
        let nanos = call(&mut self.store, CALL, wait_max, (kind, clients, requests, service))?;
        u64::try_from(nanos).map(Nanos).map_err(|_| Failure::answer(CALL, nanos))
    }
}

/// The time as the contract has it.
#[inline]
pub(crate) fn time(now: Time) -> i64 {
    crate::desk::nanos(now.0)
}

/// One call, with all of its fuel.
#[inline]
fn call<P: WasmParams, R: WasmResults>(
    store: &mut Store<Host>,
    name: &'static str,
    function: &TypedFunc<P, R>,
    arguments: P,
) -> Result<R, Failure> {
    sandbox::begin_call(store, FUEL_PER_CALL);
    function.call(store, arguments).map_err(|error| failure(name, &error))
}

/// The error of a call, as the engine and people are told of it.
#[cold]
fn failure(call: &'static str, error: &wasmtime::Error) -> Failure {
    let fault = match error.downcast_ref() {
        Some(Trap::OutOfFuel) => Fault::Endless,
        _ => Fault::Trapped,
    };
    let why = match fault {
        Fault::Endless => format!("it used up its {FUEL_PER_CALL} units of fuel"),
        _ => printable(&error.root_cause().to_string(), 200),
    };
    Failure { fault, call, why }
}

/// A text of the module: its address in the upper, its length in the lower half.
fn text<'a>(
    memory: &'a [u8],
    call: &'static str,
    place: u64,
    most: usize,
) -> Result<&'a [u8], Failure> {
    let (at, length) = ((place >> 32) as usize, place as u32 as usize);
    if length > most {
        return Err(Failure::answer(call, format_args!("{length} bytes, more than {most}")));
    }
    let bytes = memory.get(at..at + length);
    bytes
        .ok_or_else(|| Failure::answer(call, format_args!("a text at {at:#x}, outside its memory")))
}
