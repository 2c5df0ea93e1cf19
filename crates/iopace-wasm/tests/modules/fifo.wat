;; The oldest request first: the whole contract in a hundred lines. Tests change a word of it.
;;
;;      64  desk      4096  events (8192 bytes)    16384  answers (64)    20480  values
;;   24576  the description    65536  the queue: a ring of 32,768 names, 16 bytes each
(module
  (import "iopace" "log" (func $log (param i32 i32)))
  (memory (export "memory") 10)
  (global $head (mut i32) (i32.const 0))
  (global $tail (mut i32) (i32.const 0))
  (global $served (mut i64) (i64.const 0))
  (global $limit (mut i64) (i64.const 0))
  (data (i32.const 64) "\00\10\00\00\00\20\00\00\00\40\00\00\40\00\00\00\00\50\00\00")
  (data (i32.const 24576) "DESCRIPTION")
  (data (i32.const 32000) "the ring")

  ;; The place of a number in the ring.
  (func $at (param $number i32) (result i32)
    (i32.add (i32.const 65536)
      (i32.shl (i32.and (local.get $number) (i32.const 32767)) (i32.const 4))))

  ;; Takes the events.
  (func $take (param $bytes i32)
    (local $event i32) (local $end i32) (local $kind i32) (local $place i32)
    (local.set $event (i32.const 4096))
    (local.set $end (i32.add (i32.const 4096) (local.get $bytes)))
    (block $done
      (loop $next
        (br_if $done (i32.ge_u (local.get $event) (local.get $end)))
        (local.set $kind (i32.load8_u (local.get $event)))
        (if (i32.eq (local.get $kind) (i32.const 1))
          (then
            (local.set $place (call $at (global.get $tail)))
            (i32.store (local.get $place) (i32.load offset=4 (local.get $event)))
            (i64.store offset=8 (local.get $place) (i64.load offset=16 (local.get $event)))
            (global.set $tail (i32.add (global.get $tail) (i32.const 1)))))
        (local.set $event (i32.add (local.get $event) (call $length (local.get $kind))))
        (br $next))))

  ;; How long an event of a kind is.
  (func $length (param $kind i32) (result i32)
    (if (i32.or (i32.eq (local.get $kind) (i32.const 1)) (i32.eq (local.get $kind) (i32.const 3)))
      (then (return (i32.const 72))))
    (if (i32.eq (local.get $kind) (i32.const 5)) (then (return (i32.const 96))))
    (if (i32.gt_u (local.get $kind) (i32.const 6)) (then unreachable))
    (i32.const 24))

  (func (export "iopace_abi") (result i32) (i32.const 1))
  (func (export "iopace_describe") (result i64)
    (i64.or (i64.shl (i64.const 24576) (i64.const 32)) (i64.const LENGTH)))
  (func (export "iopace_make") (param $seed i64) (param $head i32) (result i32)
    (i32.const 64))
  (func (export "iopace_events") (param $bytes i32) (call $take (local.get $bytes)))
  (func (export "iopace_configure") (param $bytes i32)
    (call $take (local.get $bytes))
    (global.set $limit (i64.load (i32.const 20480))))
  (func (export "iopace_counters") (param $bytes i32)
    (call $take (local.get $bytes))
    ;; COUNTERS
    (i64.store (i32.const 20480) (global.get $served)))
  (func (export "iopace_dump") (result i64)
    ;; DUMP
    (i64.or (i64.shl (i64.const 32000) (i64.const 32)) (i64.const 8)))
  (func (export "iopace_wait_max") (param i32) (param $clients i64) (param $requests i64)
    (param $service i64) (result i64)
    (i64.mul (i64.const 2) (i64.mul (local.get $requests) (local.get $service))))
  ;; MORE
  (func (export "iopace_pop") (param $now i64) (param $bytes i32) (param $room i32) (result i32)
    (local $count i32) (local $place i32) (local $answer i32)
    (call $take (local.get $bytes))
    ;; POP
    (loop $next
      (if (i32.and (i32.lt_u (local.get $count) (local.get $room))
            (i32.ne (global.get $head) (global.get $tail)))
        (then
          (local.set $place (call $at (global.get $head)))
          (local.set $answer
            (i32.add (i32.const 16384) (i32.shl (local.get $count) (i32.const 4))))
          (i64.store (local.get $answer) (i64.load (local.get $place)))
          (i64.store offset=8 (local.get $answer) (i64.load offset=8 (local.get $place)))
          (global.set $head (i32.add (global.get $head) (i32.const 1)))
          (global.set $served (i64.add (global.get $served) (i64.const 1)))
          (local.set $count (i32.add (local.get $count) (i32.const 1)))
          (br $next))))
    (if (i32.eqz (local.get $count)) (then (return (i32.const 0))))
    (i32.or (i32.const 1) (i32.shl (local.get $count) (i32.const 16)))))
