/*
 * A policy in C: the newest request first, but none is passed over by more than `passed_max`.
 *
 * The newest one is served from memory that is still warm and is missed least when it is late; by
 * itself that starves the oldest. So after `passed_max` requests in a row that went before the
 * oldest, the oldest goes.
 *
 *      push ──►[ newest ... oldest ]
 *                  │           └──► every passed_max + 1 requests
 *                  └──► otherwise
 */
#include "iopace_policy.h"

/* Requests that can be queued at a time: the engine has no more slots. */
#define SLOTS 32768
#define NONE UINT32_MAX

static struct iopace_desk desk;
static _Alignas(8) uint8_t events[8192];
static _Alignas(8) struct iopace_id answers[1];
static _Alignas(8) uint64_t values[IOPACE_VALUES];

/* A list through the slots, the newest first. */
static struct {
    uint64_t sequence;
    uint32_t newer, older;
} queue[SLOTS];
static uint32_t newest = NONE, oldest = NONE;

static uint64_t passed_max, passed, relieved;

static const char description[] =
    "{\"name\": \"lifo-example\", \"version\": \"0.1.0\","
    " \"summary\": \"the newest request first, the oldest after a bounded number of others\","
    " \"parameters\": [{\"name\": \"passed_max\", \"unit\": \"requests\", \"min\": 1,"
    " \"default\": 8, \"max\": 1024, \"doc\": \"requests in a row that go before the oldest\"}],"
    " \"counters\": [{\"name\": \"relieved\", \"doc\": \"times that the oldest went first\"}],"
    " \"learns\": false, \"run_ahead\": false, \"divides\": false}";

uint32_t iopace_abi(void) {
    return IOPACE_ABI;
}

uint64_t iopace_describe(void) {
    return iopace_text(description, sizeof description - 1);
}

uint32_t iopace_make(uint64_t seed, uint32_t head) {
    (void)seed, (void)head;
    desk.events = (uint32_t)(uintptr_t)events;
    desk.events_bytes = sizeof events;
    desk.answers = (uint32_t)(uintptr_t)answers;
    desk.answers_room = sizeof answers / sizeof answers[0];
    desk.values = (uint32_t)(uintptr_t)values;
    return (uint32_t)(uintptr_t)&desk;
}

static void push(const struct iopace_event *event) {
    uint32_t slot = event->slot;
    if (slot >= SLOTS)
        __builtin_trap(); /* fifo takes over: better than to lose it */
    queue[slot].sequence = event->sequence;
    queue[slot].older = newest;
    queue[slot].newer = NONE;
    if (newest == NONE)
        oldest = slot;
    else
        queue[newest].newer = slot;
    newest = slot;
}

static void take(uint32_t slot) {
    uint32_t newer = queue[slot].newer, older = queue[slot].older;
    if (newer == NONE)
        newest = older;
    else
        queue[newer].older = older;
    if (older == NONE)
        oldest = newer;
    else
        queue[older].newer = newer;
}

void iopace_events(uint32_t bytes) {
    for (uint32_t at = 0; at < bytes;) {
        const struct iopace_event *event = (const struct iopace_event *)(events + at);
        switch (event->kind) {
        case IOPACE_PUSH:
            push(event);
            /* fall through */
        case IOPACE_FLUSH:
            at += sizeof(struct iopace_request);
            break;
        case IOPACE_GROUP:
            at += sizeof(struct iopace_group);
            break;
        default:
            at += sizeof(struct iopace_event);
        }
    }
}

uint32_t iopace_pop(int64_t now, uint32_t bytes, uint32_t room) {
    (void)now, (void)room;
    iopace_events(bytes);
    if (newest == NONE)
        return IOPACE_EMPTY;
    bool is_due = passed >= passed_max && oldest != newest;
    uint32_t slot = is_due ? oldest : newest;
    passed = slot == oldest ? 0 : passed + 1;
    relieved += is_due;
    take(slot);
    answers[0].slot = slot;
    answers[0].sequence = queue[slot].sequence;
    return IOPACE_NEXT(1);
}

void iopace_configure(uint32_t bytes) {
    iopace_events(bytes);
    passed_max = values[0];
}

void iopace_counters(uint32_t bytes) {
    iopace_events(bytes);
    values[0] = relieved;
}

/* A request is the oldest when all older ones have gone, of which there were at most `requests`,
 * each after passed_max others; in a closed loop as many flushes come on top. */
uint64_t iopace_wait_max(uint32_t load, uint64_t clients, uint64_t requests, uint64_t service) {
    (void)clients;
    return service * (requests * (passed_max + 1) + (load == 0 ? requests : 0));
}
