//! The option haggling before an export is opened.

use crate::export::{ExportInfo, Exports};
use crate::replies::BASE_ALLOCATION_ID;
use crate::server::CloseReason;
use crate::{MAX_REQUEST_LEN, wire};

/// Longest name of an export or a meta context, in bytes (the protocol's own bound).
const NAME_LEN_MAX: usize = 4096;

/// The one meta context that we know.
const BASE_ALLOCATION: &str = "base:allocation";

/// What was agreed on so far.
#[derive(Debug, Default)]
pub(crate) struct Negotiated {
    pub(crate) no_zeroes: bool,
    pub(crate) structured: bool,
    /// The export for which `base:allocation` was asked last.
    context_for: Option<String>,
    /// Whether the opened export has it.
    pub(crate) block_status: bool,
}

impl Negotiated {
    pub(crate) fn has_context(&self, export: &str) -> bool {
        self.context_for.as_deref() == Some(export)
    }
}

/// How it goes on.
pub(crate) enum Verdict {
    GoOn,
    Open(ExportInfo),
    Close(CloseReason),
}

/// Appends a reply to an option.
pub(crate) fn reply(output: &mut Vec<u8>, option: u32, kind: u32, data: &[u8]) {
    output.extend_from_slice(&wire::REPLY_MAGIC.to_be_bytes());
    output.extend_from_slice(&option.to_be_bytes());
    output.extend_from_slice(&kind.to_be_bytes());
    let len = u32::try_from(data.len()).expect("replies are short");
    output.extend_from_slice(&len.to_be_bytes());
    output.extend_from_slice(data);
}

/// Answers one option.
pub(crate) fn answer(
    output: &mut Vec<u8>,
    negotiated: &mut Negotiated,
    exports: &dyn Exports,
    option: u32,
    data: &[u8],
) -> Verdict {
    match option {
        wire::OPT_EXPORT_NAME => return export_name(output, negotiated, exports, data),
        wire::OPT_ABORT => {
            reply(output, option, wire::REP_ACK, &[]);
            return Verdict::Close(CloseReason::Aborted);
        }
        wire::OPT_LIST => list(output, exports, data),
        wire::OPT_INFO | wire::OPT_GO => {
            if let Some(export) = info(output, negotiated, exports, option, data)
                && option == wire::OPT_GO
            {
                return Verdict::Open(export);
            }
        }
        wire::OPT_STRUCTURED_REPLY if data.is_empty() => {
            negotiated.structured = true;
            reply(output, option, wire::REP_ACK, &[]);
        }
        wire::OPT_LIST_META_CONTEXT | wire::OPT_SET_META_CONTEXT => {
            meta_context(output, negotiated, exports, option, data);
        }
        wire::OPT_STRUCTURED_REPLY | wire::OPT_STARTTLS | wire::OPT_EXTENDED_HEADERS
            if !data.is_empty() =>
        {
            reply(output, option, wire::REP_ERR_INVALID, b"this option carries no data");
        }
        _ => reply(output, option, wire::REP_ERR_UNSUP, b"this server does not know the option"),
    }
    Verdict::GoOn
}

fn name(bytes: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(bytes).ok()?;
    (name.len() <= NAME_LEN_MAX && !name.contains('\0')).then_some(name)
}

/// The old way to open an export: no error can be answered, only the connection closed.
fn export_name(
    output: &mut Vec<u8>,
    negotiated: &Negotiated,
    exports: &dyn Exports,
    data: &[u8],
) -> Verdict {
    let Some(export) = name(data).and_then(|name| exports.find(name)) else {
        return Verdict::Close(CloseReason::UnknownExport);
    };
    output.extend_from_slice(&export.size_bytes.to_be_bytes());
    output.extend_from_slice(&export.flags(negotiated.structured).to_be_bytes());
    if !negotiated.no_zeroes {
        output.extend_from_slice(&[0; 124]);
    }
    Verdict::Open(export)
}

fn list(output: &mut Vec<u8>, exports: &dyn Exports, data: &[u8]) {
    if !data.is_empty() {
        return reply(output, wire::OPT_LIST, wire::REP_ERR_INVALID, b"LIST carries no data");
    }
    for export in exports.list() {
        let mut entry = Vec::new();
        entry.extend_from_slice(&(export.name.len() as u32).to_be_bytes());
        entry.extend_from_slice(export.name.as_bytes());
        entry.extend_from_slice(export.description.as_bytes());
        reply(output, wire::OPT_LIST, wire::REP_SERVER, &entry);
    }
    reply(output, wire::OPT_LIST, wire::REP_ACK, &[]);
}

/// INFO and GO: the export's data, then ACK; or an error, and the haggling goes on.
fn info(
    output: &mut Vec<u8>,
    negotiated: &Negotiated,
    exports: &dyn Exports,
    option: u32,
    data: &[u8],
) -> Option<ExportInfo> {
    let mut fields = Fields(data);
    let parsed = fields.string().zip(fields.u16()).and_then(|(wanted, count)| {
        let kinds: Option<Vec<u16>> = (0..count).map(|_| fields.u16()).collect();
        kinds.filter(|_| fields.0.is_empty()).map(|kinds| (wanted, kinds))
    });
    let Some((wanted, kinds)) = parsed else {
        reply(output, option, wire::REP_ERR_INVALID, b"lengths that do not fit the option");
        return None;
    };
    let Some(export) = name(wanted).and_then(|name| exports.find(name)) else {
        reply(output, option, wire::REP_ERR_UNKNOWN, b"there is no such export");
        return None;
    };
    let mut piece = |kind: u16, data: &[u8]| {
        let mut info = kind.to_be_bytes().to_vec();
        info.extend_from_slice(data);
        reply(output, option, wire::REP_INFO, &info);
    };
    let mut basics = export.size_bytes.to_be_bytes().to_vec();
    basics.extend_from_slice(&export.flags(negotiated.structured).to_be_bytes());
    piece(wire::INFO_EXPORT, &basics);
    if kinds.contains(&wire::INFO_NAME) {
        piece(wire::INFO_NAME, export.name.as_bytes());
    }
    if kinds.contains(&wire::INFO_DESCRIPTION) && !export.description.is_empty() {
        piece(wire::INFO_DESCRIPTION, export.description.as_bytes());
    }
    if kinds.contains(&wire::INFO_BLOCK_SIZE) {
        let max = export.block_max.min(MAX_REQUEST_LEN);
        let sizes = [export.block_min, export.block_preferred, max].map(u32::to_be_bytes);
        piece(wire::INFO_BLOCK_SIZE, &sizes.concat());
    }
    reply(output, option, wire::REP_ACK, &[]);
    Some(export)
}

/// LIST_META_CONTEXT and SET_META_CONTEXT. Namespaces that we do not know are ignored, as the
/// protocol asks for. A failed SET leaves nothing selected.
fn meta_context(
    output: &mut Vec<u8>,
    negotiated: &mut Negotiated,
    exports: &dyn Exports,
    option: u32,
    data: &[u8],
) {
    let sets = option == wire::OPT_SET_META_CONTEXT;
    if sets {
        negotiated.context_for = None;
        if !negotiated.structured {
            let why = b"structured replies must be negotiated first";
            return reply(output, option, wire::REP_ERR_INVALID, why);
        }
    }
    let mut fields = Fields(data);
    let parsed = fields.string().zip(fields.u32()).and_then(|(wanted, count)| {
        // Each query has at least its length field: no count can ask for more than is there.
        let fits = count as usize <= fields.0.len() / 4;
        let queries: Option<Vec<&[u8]>> =
            fits.then(|| (0..count).map(|_| fields.string()).collect()).flatten();
        queries.filter(|_| fields.0.is_empty()).map(|queries| (wanted, queries))
    });
    let Some((wanted, queries)) = parsed else {
        return reply(output, option, wire::REP_ERR_INVALID, b"lengths that do not fit the option");
    };
    let Some(export) = name(wanted).and_then(|name| exports.find(name)) else {
        return reply(output, option, wire::REP_ERR_UNKNOWN, b"there is no such export");
    };
    // "base:" asks what there is in that namespace; it selects nothing.
    let matches = |query: &&[u8]| {
        *query == BASE_ALLOCATION.as_bytes() || (!sets && *query == b"base:".as_slice())
    };
    if queries.iter().any(matches) || (!sets && queries.is_empty()) {
        let mut context = BASE_ALLOCATION_ID.to_be_bytes().to_vec();
        context.extend_from_slice(BASE_ALLOCATION.as_bytes());
        reply(output, option, wire::REP_META_CONTEXT, &context);
        if sets {
            negotiated.context_for = Some(export.name);
        }
    }
    reply(output, option, wire::REP_ACK, &[]);
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
