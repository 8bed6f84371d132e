// A job that goes on when it loses members, for tests.
#pragma once

#include <cstdint>
#include <vector>

#include "src/protocol/control/control_for_test.h"

namespace byteps::protocol {

// Three workers (10, 11, 12), two servers (20, 21); one worker is enough to go on.
class FailureTest : public ControlTest {
 protected:
  FailureTest() {
    options.worker_machines = 3;
    options.server_count = 2;
    options.min_workers = 1;
  }

  void Suspect(ConnectionId from, Role role, uint32_t index, wire::Suspicion why,
               uint64_t incarnation = 0) {
    Say(from, wire::Suspect{role, index, incarnation, why, "said so"});
  }

  static std::vector<uint64_t> Workers(const wire::View& view) {
    std::vector<uint64_t> slots;
    for (const wire::WorkerInfo& one : view.workers) slots.push_back(one.slot);
    return slots;
  }

  template <typename T>
  static bool Is(const wire::Message& message) {
    return std::holds_alternative<T>(message);
  }

  void ReconnectAll(const std::vector<ConnectionId>& ids) {
    for (ConnectionId id : ids) Reconnect(id, id + 100);
  }
};

}  // namespace byteps::protocol
