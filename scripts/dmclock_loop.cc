// The cost of dmClock's queue per request, as a reference beside ours: adds and pulls requests of
// clients of equal weight, one of each there at any time (32 at least).
// dmclock_loop CLIENTS REQUESTS prints the nanoseconds per request. Built and run by
// policy_cost.sh against a checkout of https://github.com/ceph/dmclock.
#include "dmclock_server.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace dmc = crimson::dmclock;

struct Request {
  unsigned long number;
};

int main(int argc, char **argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: dmclock_loop CLIENTS REQUESTS\n");
    return 2;
  }
  const unsigned long clients = strtoul(argv[1], nullptr, 10);
  const unsigned long requests = strtoul(argv[2], nullptr, 10);
  const unsigned long outstanding = clients > 32 ? clients : 32;
  // No reservation, weight 1, no limit.
  const dmc::ClientInfo info(0, 1, 0);
  const auto info_of = [&](const unsigned long &) { return &info; };
  // Clients are never idle here; the times are those after which they would be forgotten.
  const auto idle = std::chrono::minutes(10);
  dmc::PullPriorityQueue<unsigned long, Request> queue(info_of, idle, idle, idle,
                                                       dmc::AtLimit::Wait);
  unsigned long submitted = 0, finished = 0;
  double now = 1e6;
  const auto begin = std::chrono::steady_clock::now();
  while (finished < requests) {
    now += 1e-6;
    for (; submitted < requests && submitted - finished < outstanding; submitted++)
      queue.add_request_time(Request{submitted}, submitted % clients, dmc::ReqParams(1, 1), now, 1);
    if (!queue.pull_request(now).is_retn()) {
      fprintf(stderr, "dmclock_loop: nothing to pull\n");
      return 1;
    }
    finished++;
  }
  const std::chrono::nanoseconds took = std::chrono::steady_clock::now() - begin;
  printf("%ld\n", static_cast<long>(took.count() / requests));
}
