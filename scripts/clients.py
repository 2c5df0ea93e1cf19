"""NBD clients of clients.sh that need libnbd's Python binding.

protocol URI        what the protocol offers, command by command
write URI LOG       writes numbered blocks until the server goes, logging each acknowledged one
compare URI LOG     every block of the log is there
"""

import errno
import struct
import sys

import nbd

BLOCK = 4096


def connect(uri):
    handle = nbd.NBD()
    handle.add_meta_context(nbd.CONTEXT_BASE_ALLOCATION)
    handle.connect_uri(uri)
    return handle


def refused(code, call, *arguments):
    try:
        call(*arguments)
    except nbd.Error as error:
        assert error.errnum == code, error
        return
    raise AssertionError("it was not refused")


def done(error):
    assert error.value == 0, error
    return 1


def drain(h):
    while h.aio_in_flight() > 0:
        h.poll(-1)


def protocol(uri):
    h = connect(uri)
    size = h.get_size()
    assert h.get_structured_replies_negotiated()
    h.set_strict_mode(0)
    # Data, FUA, zeroes with and without a hole, trim, cache.
    h.pwrite(b"\x11" * 65536, 0, nbd.CMD_FLAG_FUA)
    h.zero(4096, 4096)
    h.zero(4096, 12288, nbd.CMD_FLAG_NO_HOLE)
    back = h.pread(65536, 0, nbd.CMD_FLAG_DF)
    assert back[:4096] == b"\x11" * 4096 and back[4096:8192] == bytes(4096)
    assert back[12288:16384] == bytes(4096) and back[16384:] == b"\x11" * 49152
    h.cache(65536, 0)
    h.flush()
    h.trim(1 << 20, 4 << 20)
    # Block status covers what was asked for, with the trimmed part as a hole where there are holes.
    seen = []
    h.block_status(8 << 20, 0, lambda context, offset, entries, error: seen.extend(entries))
    assert sum(seen[0::2]) >= 8 << 20 or len(seen) > 2, seen
    # The largest request.
    largest = bytes(range(256)) * (64 * 4096)
    h.pwrite(largest, 0)
    assert h.pread(64 << 20, 0) == largest
    # What cannot be.
    refused(errno.EINVAL, h.pread, 4096, size)
    refused(errno.ENOSPC, h.pwrite, b"x" * 4096, size - 512)
    refused(errno.EINVAL, h.pread, 0, 0)
    # Pipelined.
    buffers = [nbd.Buffer(BLOCK) for _ in range(128)]
    for i in range(128):
        data = nbd.Buffer.from_bytearray(bytearray(struct.pack(">Q", i) * 512))
        h.aio_pwrite(data, i * BLOCK, done)
    drain(h)
    for i in range(128):
        h.aio_pread(buffers[i], i * BLOCK, done)
    drain(h)
    for i in range(128):
        assert buffers[i].to_bytearray() == struct.pack(">Q", i) * 512, i
    # A flush on one connection covers the writes of another.
    other = connect(uri)
    other.pwrite(b"\x22" * BLOCK, 0)
    h.flush()
    assert h.pread(BLOCK, 0) == b"\x22" * BLOCK
    other.shutdown()
    h.shutdown()


def content(number):
    return struct.pack(">Q", number) * (BLOCK // 8)


def write(uri, path):
    h = connect(uri)
    blocks = h.get_size() // BLOCK
    with open(path, "w") as log:
        for number in range(1, 1 << 40):
            block = number * 7919 % blocks
            try:
                h.pwrite(content(number), block * BLOCK)
            except nbd.Error:
                return
            log.write(f"{block} {number}\n")


def compare(uri, path):
    last = {}
    with open(path) as log:
        for line in log:
            block, number = line.split()
            last[int(block)] = int(number)
    assert len(last) > 100, f"only {len(last)} blocks were written"
    h = connect(uri)
    newest = max(last.values())
    for block, number in last.items():
        back = h.pread(BLOCK, block * BLOCK)
        # One write more may have arrived that nobody acknowledged.
        assert bytes(back) in (content(number), content(newest + 1)), block
    print(f"{len(last)} blocks compared")
    h.shutdown()


{"protocol": protocol, "write": write, "compare": compare}[sys.argv[1]](*sys.argv[2:])
