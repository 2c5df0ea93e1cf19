//! Numbers of the NBD protocol, under the protocol's names (doc/proto.md of the NBD project).

/// First eight bytes of the greeting, in ASCII.
pub const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
/// Next eight bytes of the greeting, and in front of every option, in ASCII.
pub const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
/// In front of every reply to an option.
pub const REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// In front of every request.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// In front of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// In front of every chunk of a structured reply.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Handshake flag, of the server and the client: options have replies.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1;
/// Handshake flag, of the server and the client: no 124 zeroes after EXPORT_NAME.
pub const FLAG_NO_ZEROES: u16 = 2;

/// Opens an export the old way, without an error reply.
pub const OPT_EXPORT_NAME: u32 = 1;
/// Ends the handshake.
pub const OPT_ABORT: u32 = 2;
/// Asks for the names of all exports.
pub const OPT_LIST: u32 = 3;
/// Asks for encryption.
pub const OPT_STARTTLS: u32 = 5;
/// Asks about an export.
pub const OPT_INFO: u32 = 6;
/// Opens an export.
pub const OPT_GO: u32 = 7;
/// Asks for structured replies.
pub const OPT_STRUCTURED_REPLY: u32 = 8;
/// Asks which meta contexts there are.
pub const OPT_LIST_META_CONTEXT: u32 = 9;
/// Selects meta contexts.
pub const OPT_SET_META_CONTEXT: u32 = 10;
/// Asks for 64-bit lengths.
pub const OPT_EXTENDED_HEADERS: u32 = 11;

/// Done.
pub const REP_ACK: u32 = 1;
/// An export, in answer to LIST.
pub const REP_SERVER: u32 = 2;
/// A piece of information, in answer to INFO and GO.
pub const REP_INFO: u32 = 3;
/// A meta context.
pub const REP_META_CONTEXT: u32 = 4;
/// Set in every kind of reply that is an error.
pub const REP_ERR: u32 = 1 << 31;
/// The option is unknown.
pub const REP_ERR_UNSUP: u32 = 0x8000_0001;
/// The option makes no sense.
pub const REP_ERR_INVALID: u32 = 0x8000_0003;
/// Only an encrypted connection may ask for that.
pub const REP_ERR_TLS_REQD: u32 = 0x8000_0005;
/// There is no such export.
pub const REP_ERR_UNKNOWN: u32 = 0x8000_0006;
/// The option is too long.
pub const REP_ERR_TOO_BIG: u32 = 0x8000_0009;

/// Size and transmission flags.
pub const INFO_EXPORT: u16 = 0;
/// The canonical name.
pub const INFO_NAME: u16 = 1;
/// Text for people.
pub const INFO_DESCRIPTION: u16 = 2;
/// Smallest, best and largest request.
pub const INFO_BLOCK_SIZE: u16 = 3;

/// Transmission flag: always set.
pub const HAS_FLAGS: u16 = 1;
/// Transmission flag: writes are refused.
pub const READ_ONLY: u16 = 1 << 1;
/// Transmission flag: FLUSH is known.
pub const SEND_FLUSH: u16 = 1 << 2;
/// Transmission flag: the command flag FUA is known.
pub const SEND_FUA: u16 = 1 << 3;
/// Transmission flag: the disk has a head that seeks.
pub const ROTATIONAL: u16 = 1 << 4;
/// Transmission flag: TRIM is known.
pub const SEND_TRIM: u16 = 1 << 5;
/// Transmission flag: WRITE_ZEROES is known.
pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
/// Transmission flag: the command flag DF is known.
pub const SEND_DF: u16 = 1 << 7;
/// Transmission flag: FLUSH covers all connections.
pub const CAN_MULTI_CONN: u16 = 1 << 8;
/// Transmission flag: CACHE is known.
pub const SEND_CACHE: u16 = 1 << 10;
/// Transmission flag: the command flag FAST_ZERO is known.
pub const SEND_FAST_ZERO: u16 = 1 << 11;

/// Read data.
pub const CMD_READ: u16 = 0;
/// Write the data that follows.
pub const CMD_WRITE: u16 = 1;
/// Orderly end, without a reply.
pub const CMD_DISC: u16 = 2;
/// Make finished writes durable.
pub const CMD_FLUSH: u16 = 3;
/// Data no longer needed.
pub const CMD_TRIM: u16 = 4;
/// Read ahead.
pub const CMD_CACHE: u16 = 5;
/// Make zero.
pub const CMD_WRITE_ZEROES: u16 = 6;
/// Ask for the meta contexts of a range.
pub const CMD_BLOCK_STATUS: u16 = 7;

/// Durable before it is answered.
pub const CMD_FLAG_FUA: u16 = 1;
/// WRITE_ZEROES: no hole, please.
pub const CMD_FLAG_NO_HOLE: u16 = 2;
/// READ: in one piece.
pub const CMD_FLAG_DF: u16 = 4;
/// BLOCK_STATUS: one piece is enough.
pub const CMD_FLAG_REQ_ONE: u16 = 8;
/// WRITE_ZEROES: fail if it would be slow.
pub const CMD_FLAG_FAST_ZERO: u16 = 16;

/// The chunk is the last of its reply.
pub const REPLY_FLAG_DONE: u16 = 1;
/// Chunk without content.
pub const REPLY_TYPE_NONE: u16 = 0;
/// Chunk: an offset, then data.
pub const REPLY_TYPE_OFFSET_DATA: u16 = 1;
/// Chunk: an offset and the length of a run of zeroes.
pub const REPLY_TYPE_OFFSET_HOLE: u16 = 2;
/// Chunk: a meta context, then lengths and flags.
pub const REPLY_TYPE_BLOCK_STATUS: u16 = 5;
/// Chunk: an error and a message.
pub const REPLY_TYPE_ERROR: u16 = 0x8001;
/// Chunk: an error, a message and an offset.
pub const REPLY_TYPE_ERROR_OFFSET: u16 = 0x8002;

/// `base:allocation`: nothing is allocated.
pub const STATE_HOLE: u32 = 1;
/// `base:allocation`: it reads as zeroes.
pub const STATE_ZERO: u32 = 2;

/// Length of a request header in bytes.
pub const REQUEST_LEN: usize = 28;
/// Length of an option header in bytes.
pub const OPTION_LEN: usize = 16;
