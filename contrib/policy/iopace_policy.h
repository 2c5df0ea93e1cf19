/*
 * The interface between iopace and a policy, ABI version 1, for C (docs/policy-abi.md).
 *
 *   clang --target=wasm32 -nostdlib -O2 -Wl,--no-entry,--strip-all -o mine.wasm mine.c
 *
 * A policy includes this file once and defines the functions declared at its end; those said to be
 * optional may be left out. It has no C library: what it needs of one it brings itself. All numbers
 * are little-endian, as WebAssembly is.
 */
#ifndef IOPACE_POLICY_H
#define IOPACE_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IOPACE_ABI 1

/* Makes a function one that iopace calls. */
#define IOPACE_EXPORT(name) __attribute__((export_name(#name)))

/* The instant that does not come, in nanoseconds. */
#define IOPACE_NEVER INT64_MAX

/* The desk: iopace_make returns its address. Each place is aligned to 8. */
struct iopace_desk {
    uint32_t events;       /* address */
    uint32_t events_bytes; /* 4,096 to 65,536 */
    uint32_t answers;      /* address */
    uint32_t answers_room; /* 1 to 64 */
    uint32_t values;       /* address of 32 uint64_t */
};

#define IOPACE_VALUES 32

enum iopace_kind {
    IOPACE_PUSH = 1,      /* struct iopace_request */
    IOPACE_DONE = 2,      /* struct iopace_event */
    IOPACE_FLUSH = 3,     /* struct iopace_request */
    IOPACE_FLUSHED = 4,   /* struct iopace_event */
    IOPACE_GROUP = 5,     /* struct iopace_group */
    IOPACE_GROUP_GONE = 6 /* struct iopace_event */
};

enum iopace_flag {
    IOPACE_SYNC = 1,     /* a task waits for it */
    IOPACE_RESERVED = 2, /* a guarantee pays for it */
    IOPACE_OK = 4        /* it was carried out */
};

enum iopace_operation {
    IOPACE_OP_READ = 0,
    IOPACE_OP_WRITE = 1,
    IOPACE_OP_FLUSH = 2,
    IOPACE_OP_TRIM = 3,
    IOPACE_OP_WRITE_ZEROES = 4,
    IOPACE_OP_CACHE = 5
};

/* Each event begins with this. */
struct iopace_event {
    uint8_t kind;
    uint8_t flags;
    uint8_t operation;
    uint8_t zero;
    uint32_t slot; /* of the request; in events of groups the number of the group */
    int64_t when;
    uint64_t sequence;
};

struct iopace_request {
    struct iopace_event event;
    uint64_t task;
    uint32_t group;
    uint32_t space; /* 0: the disk itself */
    uint64_t offset;
    uint64_t length;
    int64_t arrived;
    uint64_t zero;
};

enum iopace_class { IOPACE_REAL_TIME = 1, IOPACE_BEST_EFFORT = 2, IOPACE_IDLE = 3 };

struct iopace_group {
    struct iopace_event event;
    uint32_t parent;
    uint32_t weight; /* 1 to 10,000 */
    uint32_t class_;
    uint32_t zero;
    /* Guaranteed, a second each; 0: none. */
    uint64_t bytes_read;
    uint64_t bytes_written;
    uint64_t reads;
    uint64_t writes;
    int64_t latency; /* the target in nanoseconds; 0: none */
    /* Guaranteed, a second each, in both directions together; 0: none. */
    uint64_t bytes;
    uint64_t requests;
};

/* The name of a request. Answers are such. */
struct iopace_id {
    uint32_t slot;
    uint32_t zero;
    uint64_t sequence;
};

_Static_assert(sizeof(struct iopace_desk) == 20, "the desk of the contract");
_Static_assert(sizeof(struct iopace_event) == 24, "the event of the contract");
_Static_assert(sizeof(struct iopace_request) == 72, "the request of the contract");
_Static_assert(sizeof(struct iopace_group) == 96, "the group of the contract");
_Static_assert(sizeof(struct iopace_id) == 16, "the answer of the contract");

enum iopace_reason { IOPACE_TURN = 0, IOPACE_ANTICIPATION = 1 };

/* The answers of iopace_pop. */
#define IOPACE_EMPTY 0
#define IOPACE_NEXT(count) (1 | (count) << 16)           /* so many in `answers` */
#define IOPACE_LAST(reason) (2 | (reason) << 8 | 1 << 16) /* one, and nothing else until an end */
#define IOPACE_AT(reason) (3 | (reason) << 8)             /* an int64_t in `answers` */

/* The answers of iopace_disk: some of these; the cost of a seek is in `values`. */
#define IOPACE_DISK_VIEW 1
#define IOPACE_DISK_HEAD_KNOWN 2
#define IOPACE_DISK_HAS_HEAD 4
#define IOPACE_DISK_LEARNED 8

/* A text: the answer of iopace_describe and iopace_dump. */
static inline uint64_t iopace_text(const char *text, size_t length) {
    return (uint64_t)(uintptr_t)text << 32 | length;
}

/* The one import: a line of log. */
__attribute__((import_module("iopace"), import_name("log"))) void iopace_log(const char *text,
                                                                            size_t length);

/* Required. */
IOPACE_EXPORT(iopace_abi) uint32_t iopace_abi(void);
IOPACE_EXPORT(iopace_describe) uint64_t iopace_describe(void);
IOPACE_EXPORT(iopace_make) uint32_t iopace_make(uint64_t seed, uint32_t head);
IOPACE_EXPORT(iopace_pop) uint32_t iopace_pop(int64_t now, uint32_t bytes, uint32_t room);
IOPACE_EXPORT(iopace_events) void iopace_events(uint32_t bytes);
IOPACE_EXPORT(iopace_configure) void iopace_configure(uint32_t bytes);
/* Required of one with counters. */
IOPACE_EXPORT(iopace_counters) void iopace_counters(uint32_t bytes);
/* Optional. */
IOPACE_EXPORT(iopace_join)
uint32_t iopace_join(int64_t now, uint32_t bytes, uint32_t slot, uint64_t sequence,
                     uint32_t lead_slot, uint64_t lead_sequence);
IOPACE_EXPORT(iopace_disk) uint32_t iopace_disk(uint32_t bytes);
IOPACE_EXPORT(iopace_dump) uint64_t iopace_dump(void);
IOPACE_EXPORT(iopace_wait_max)
uint64_t iopace_wait_max(uint32_t load, uint64_t clients, uint64_t requests, uint64_t service);

#endif
