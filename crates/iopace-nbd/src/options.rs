//! The option haggling before an export is opened. Each option is answered as the protocol's
//! section "Option types" says; what it leaves open is noted beside the code.

use crate::close::CloseReason;
use crate::export::{ExportInfo, Exports};
use crate::replies::BASE_ALLOCATION_ID;
use crate::tls_mode::TlsMode;
use crate::wire;

/// Longest name of an export in bytes (the protocol's own bound for strings).
const NAME_LEN_MAX: usize = 4096;

/// The one meta context that we know.
const BASE_ALLOCATION: &str = "base:allocation";

/// What was agreed on so far.
#[derive(Debug, Default)]
pub(crate) struct Negotiated {
    pub(crate) no_zeroes: bool,
    pub(crate) structured: bool,
    /// Whether encryption is offered or required.
    pub(crate) tls: TlsMode,
    /// Whether the connection is encrypted.
    pub(crate) is_encrypted: bool,
    /// The export for which `base:allocation` was selected last.
    context_for: Option<u64>,
}

impl Negotiated {
    /// Nothing yet.
    pub(crate) fn new(tls: TlsMode) -> Negotiated {
        Negotiated { tls, ..Negotiated::default() }
    }

    /// The connection is encrypted from now on. Whatever was agreed on before may have been said by
    /// somebody else, on the way (CVE-2021-3716): it is forgotten. The client's flags are never
    /// sent again, so they stay; all they decide is the length of one answer.
    pub(crate) fn encrypted(&mut self) {
        let Negotiated { no_zeroes, tls, .. } = *self;
        *self = Negotiated { no_zeroes, tls, is_encrypted: true, ..Negotiated::default() };
    }

    /// Whether an option has to wait for encryption.
    fn refuses(&self, option: u32) -> bool {
        let is_plain = self.tls == TlsMode::Require && !self.is_encrypted;
        is_plain && !matches!(option, wire::OPT_STARTTLS | wire::OPT_ABORT)
    }

    /// Whether `base:allocation` was selected, and for this export.
    pub(crate) fn has_context(&self, export: &ExportInfo) -> bool {
        self.context_for == Some(export.id)
    }
}

/// How it goes on.
pub(crate) enum Verdict {
    GoOn,
    StartTls,
    Open(ExportInfo),
    Close(CloseReason),
}

/// Why an option is refused: the kind of the reply, and text for people.
type Refusal = (u32, &'static str);

const DOES_NOT_FIT: Refusal = (wire::REP_ERR_INVALID, "lengths that do not fit the option");
const CARRIES_NO_DATA: Refusal = (wire::REP_ERR_INVALID, "this option carries no data");
const NEEDS_STRUCTURED: Refusal =
    (wire::REP_ERR_INVALID, "structured replies must be negotiated first");
const NOT_A_NAME: Refusal = (wire::REP_ERR_INVALID, "a name must be UTF-8 without NUL");
const NAME_TOO_LONG: Refusal = (wire::REP_ERR_TOO_BIG, "a name has at most 4096 bytes");
const OPTION_TOO_LONG: Refusal = (wire::REP_ERR_TOO_BIG, "the option is too long");
const NO_SUCH_EXPORT: Refusal = (wire::REP_ERR_UNKNOWN, "there is no such export");
const ENCRYPTED_ALREADY: Refusal = (wire::REP_ERR_INVALID, "the connection is encrypted already");
const NEEDS_TLS: Refusal = (wire::REP_ERR_TLS_REQD, "this server wants TLS first (STARTTLS)");
const UNSUPPORTED: Refusal = (wire::REP_ERR_UNSUP, "this server does not know the option");

/// Appends a reply to an option.
fn reply(output: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    output.extend_from_slice(&wire::REPLY_MAGIC.to_be_bytes());
    output.extend_from_slice(&option.to_be_bytes());
    output.extend_from_slice(&kind.to_be_bytes());
    let len = u32::try_from(data.len()).expect("replies are short");
    output.extend_from_slice(&len.to_be_bytes());
    output.extend_from_slice(data);
}

fn finish(output: &mut Vec<u8>, option: u32, result: Result<(), Refusal>) -> Verdict {
    match result {
        Ok(()) => reply(output, option, wire::REP_ACK, &[]),
        Err((kind, why)) => reply(output, option, kind, why.as_bytes()),
    }
    Verdict::GoOn
}

/// Answers one option.
pub(crate) fn answer(
    output: &mut Vec<u8>,
    negotiated: &mut Negotiated,
    exports: &dyn Exports,
    option: u32,
    data: &[u8],
) -> Verdict {
    let result = match option {
        wire::OPT_EXPORT_NAME if negotiated.refuses(option) => {
            return Verdict::Close(CloseReason::TlsRequired);
        }
        _ if negotiated.refuses(option) => Err(NEEDS_TLS),
        wire::OPT_EXPORT_NAME => return export_name(output, negotiated, exports, data),
        wire::OPT_ABORT => return abort(output),
        wire::OPT_LIST | wire::OPT_STARTTLS | wire::OPT_STRUCTURED_REPLY if !data.is_empty() => {
            Err(CARRIES_NO_DATA)
        }
        wire::OPT_LIST => {
            list(output, negotiated, exports);
            Ok(())
        }
        wire::OPT_INFO | wire::OPT_GO => match info(output, negotiated, exports, option, data) {
            Ok(export) if option == wire::OPT_GO => {
                reply(output, option, wire::REP_ACK, &[]);
                return Verdict::Open(export);
            }
            result => result.map(drop),
        },
        wire::OPT_STRUCTURED_REPLY => {
            negotiated.structured = true;
            Ok(())
        }
        wire::OPT_LIST_META_CONTEXT => list_contexts(output, negotiated, exports, data),
        wire::OPT_SET_META_CONTEXT => set_contexts(output, negotiated, exports, data),
        wire::OPT_STARTTLS if negotiated.is_encrypted => Err(ENCRYPTED_ALREADY),
        wire::OPT_STARTTLS if negotiated.tls != TlsMode::Off => {
            reply(output, option, wire::REP_ACK, &[]);
            return Verdict::StartTls;
        }
        // STARTTLS that is not offered too: bytes that a client sends right behind it stay what
        // they are, plain options, because nothing was upgraded.
        _ => Err(UNSUPPORTED),
    };
    finish(output, option, result)
}

/// Answers an option whose data was too long to be looked at.
pub(crate) fn answer_unread(
    output: &mut Vec<u8>,
    negotiated: &mut Negotiated,
    option: u32,
) -> Verdict {
    let refusal = match option {
        wire::OPT_EXPORT_NAME if negotiated.refuses(option) => {
            return Verdict::Close(CloseReason::TlsRequired);
        }
        _ if negotiated.refuses(option) => NEEDS_TLS,
        wire::OPT_ABORT => return abort(output),
        wire::OPT_EXPORT_NAME => return Verdict::Close(CloseReason::UnknownExport),
        wire::OPT_SET_META_CONTEXT => {
            negotiated.context_for = None;
            OPTION_TOO_LONG
        }
        wire::OPT_INFO | wire::OPT_GO | wire::OPT_LIST_META_CONTEXT => OPTION_TOO_LONG,
        wire::OPT_LIST | wire::OPT_STARTTLS | wire::OPT_STRUCTURED_REPLY => CARRIES_NO_DATA,
        _ => UNSUPPORTED,
    };
    finish(output, option, Err(refusal))
}

/// Data with ABORT is ignored, as the protocol asks for.
fn abort(output: &mut Vec<u8>) -> Verdict {
    reply(output, wire::OPT_ABORT, wire::REP_ACK, &[]);
    Verdict::Close(CloseReason::Aborted)
}

fn find(
    negotiated: &Negotiated,
    exports: &dyn Exports,
    name: &[u8],
) -> Result<ExportInfo, Refusal> {
    if name.len() > NAME_LEN_MAX {
        return Err(NAME_TOO_LONG);
    }
    let name = std::str::from_utf8(name).map_err(|_| NOT_A_NAME)?;
    if name.contains('\0') {
        return Err(NOT_A_NAME);
    }
    let export = exports.find(name).ok_or(NO_SUCH_EXPORT)?;
    if export.needs_tls && !negotiated.is_encrypted { Err(NEEDS_TLS) } else { Ok(export) }
}

/// The old way to open an export: no error can be answered, only the connection closed.
fn export_name(
    output: &mut Vec<u8>,
    negotiated: &Negotiated,
    exports: &dyn Exports,
    data: &[u8],
) -> Verdict {
    let Ok(export) = find(negotiated, exports, data) else {
        return Verdict::Close(CloseReason::UnknownExport);
    };
    output.extend_from_slice(&export.size_bytes.to_be_bytes());
    output.extend_from_slice(&export.flags(negotiated.structured).to_be_bytes());
    if !negotiated.no_zeroes {
        output.extend_from_slice(&[0; 124]);
    }
    Verdict::Open(export)
}

fn list(output: &mut Vec<u8>, negotiated: &Negotiated, exports: &dyn Exports) {
    let is_shown = |export: &ExportInfo| negotiated.is_encrypted || !export.needs_tls;
    for export in exports.list().into_iter().filter(is_shown) {
        let name_len = u32::try_from(export.name.len()).expect("names are short");
        let mut entry = name_len.to_be_bytes().to_vec();
        entry.extend_from_slice(export.name.as_bytes());
        entry.extend_from_slice(export.description.as_bytes());
        reply(output, wire::OPT_LIST, wire::REP_SERVER, &entry);
    }
}

/// INFO and GO: what there is to say about an export, each piece once however often it was asked.
fn info(
    output: &mut Vec<u8>,
    negotiated: &Negotiated,
    exports: &dyn Exports,
    option: u32,
    data: &[u8],
) -> Result<ExportInfo, Refusal> {
    let mut fields = Fields(data);
    let name = fields.string().ok_or(DOES_NOT_FIT)?;
    let count = fields.u16().ok_or(DOES_NOT_FIT)?;
    if fields.0.len() != 2 * usize::from(count) {
        return Err(DOES_NOT_FIT);
    }
    let export = find(negotiated, exports, name)?;
    let kinds = fields.0.as_chunks::<2>().0;
    let asked = |kind: u16| kinds.contains(&kind.to_be_bytes());
    let mut piece = |kind: u16, data: &[u8]| {
        let info = [&kind.to_be_bytes(), data].concat();
        reply(output, option, wire::REP_INFO, &info);
    };
    let mut basics = export.size_bytes.to_be_bytes().to_vec();
    basics.extend_from_slice(&export.flags(negotiated.structured).to_be_bytes());
    piece(wire::INFO_EXPORT, &basics);
    if asked(wire::INFO_NAME) {
        piece(wire::INFO_NAME, export.name.as_bytes());
    }
    if asked(wire::INFO_DESCRIPTION) && !export.description.is_empty() {
        piece(wire::INFO_DESCRIPTION, export.description.as_bytes());
    }
    if asked(wire::INFO_BLOCK_SIZE) {
        piece(wire::INFO_BLOCK_SIZE, &export.block_sizes().map(u32::to_be_bytes).concat());
    }
    Ok(export)
}

/// LIST_META_CONTEXT: no query asks for all there is, `base:` for all in that namespace. The
/// protocol leaves it to the server to insist on structured replies here; it is of no use without.
fn list_contexts(
    output: &mut Vec<u8>,
    negotiated: &Negotiated,
    exports: &dyn Exports,
    data: &[u8],
) -> Result<(), Refusal> {
    let (_, queries) = contexts(negotiated, exports, data)?;
    let asks = |query: &&[u8]| *query == b"base:" || *query == BASE_ALLOCATION.as_bytes();
    if queries.is_empty() || queries.iter().any(asks) {
        context(output, wire::OPT_LIST_META_CONTEXT, 0);
    }
    Ok(())
}

/// SET_META_CONTEXT: replaces what was selected before, even when it fails. `base:` alone selects
/// nothing, as the protocol says.
fn set_contexts(
    output: &mut Vec<u8>,
    negotiated: &mut Negotiated,
    exports: &dyn Exports,
    data: &[u8],
) -> Result<(), Refusal> {
    negotiated.context_for = None;
    let (export, queries) = contexts(negotiated, exports, data)?;
    if queries.contains(&BASE_ALLOCATION.as_bytes()) {
        context(output, wire::OPT_SET_META_CONTEXT, BASE_ALLOCATION_ID);
        negotiated.context_for = Some(export.id);
    }
    Ok(())
}

fn context(output: &mut Vec<u8>, option: u32, id: u32) {
    let data = [&id.to_be_bytes(), BASE_ALLOCATION.as_bytes()].concat();
    reply(output, option, wire::REP_META_CONTEXT, &data);
}

/// The export and the queries of either. Queries in namespaces that we do not know are nobody's
/// error.
fn contexts<'a>(
    negotiated: &Negotiated,
    exports: &dyn Exports,
    data: &'a [u8],
) -> Result<(ExportInfo, Vec<&'a [u8]>), Refusal> {
    if !negotiated.structured {
        return Err(NEEDS_STRUCTURED);
    }
    let mut fields = Fields(data);
    let name = fields.string().ok_or(DOES_NOT_FIT)?;
    let count = fields.u32().ok_or(DOES_NOT_FIT)? as usize;
    // Each query has at least its length field: no count can ask for more than is there.
    if count > fields.0.len() / 4 {
        return Err(DOES_NOT_FIT);
    }
    let queries: Option<Vec<&[u8]>> = (0..count).map(|_| fields.string()).collect();
    let queries = queries.filter(|_| fields.0.is_empty()).ok_or(DOES_NOT_FIT)?;
    Ok((find(negotiated, exports, name)?, queries))
}

/// Reads fields off the front, as long as they are there.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn u16(&mut self) -> Option<u16> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u16::from_be_bytes(*head))
    }

    fn u32(&mut self) -> Option<u32> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*head))
    }

    /// A string with its length in front.
    fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()? as usize;
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }
}
