// Messages in which workers tell of their work: accounts of operations, for people, and the rates
// of their links. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/base/types.h"
#include "src/wire/names.h"

namespace byteps::wire {

// The stage of a use of a name on one rank. Part of the wire format: never renumber.
enum class UseStage : uint8_t {
  kNotBegun = 0,
  kDeclares = 1,   // the coordinator has not answered the declaration yet
  kPrepares = 2,   // sizes, pieces, copies
  kExchanges = 3,  // its pieces go out, or it waits for answers
  kEnded = 4,
  kJoined = 5,       // the rank has joined and takes no part
  kAwaitsInput = 6,  // not begun: the user has, and the memory of a device has no input yet
};
inline constexpr UseStage kLastUseStage = UseStage::kAwaitsInput;
const char* TextFor(UseStage stage);

struct UseState {
  NamedUse use;
  TensorId tensor = UINT32_MAX;  // UINT32_MAX: no number yet
  UseStage stage = UseStage::kNotBegun;
  uint32_t age_ms = 0;   // since it began
  uint32_t left_ms = 0;  // until it passes its limit, at least 1; 0: no limit, or not known
  friend bool operator==(const UseState&, const UseState&) = default;
};
// The time from the begin to the end of an operation that has ended well on one rank. All ranks
// come to the end at about the same time, so the rank that took the least time came last.
struct Took {
  TensorId tensor = 0;
  uint64_t round = 0;
  uint32_t us = 0;
  friend bool operator==(const Took&, const Took&) = default;
};
// A copy between the host and a device that has been under way for long.
struct SlowCopy {
  std::string tensor;
  std::string device;      // "cuda:1"
  bool to_device = false;  // else from it
  uint32_t age_ms = 0;
  friend bool operator==(const SlowCopy&, const SlowCopy&) = default;
};
// Shows the work of a worker to people. One decision rests on it: when a join ends at its limit.
struct Account {
  uint64_t ended = 0;  // operations of this session, those that failed included
  uint64_t failed = 0;
  uint64_t bytes = 0;          // which it gave to operations that ended well
  uint32_t open = 0;           // operations
  uint32_t idle_ms = 0;        // no operation has been open for so long
  std::vector<UseState> uses;  // the oldest open ones, and uses that it was asked about
  std::vector<ProcessSetRanks> process_sets;  // sets of `uses`, without 0: all ranks
  std::vector<Took> took;                     // since the last account
  uint64_t waited_us = 0;        // in this time somebody in the process has waited for an operation
  std::vector<SlowCopy> copies;  // the oldest of each direction of a device
  friend bool operator==(const Account&, const Account&) = default;
};
inline constexpr size_t kUsesInAccountMax = 16;
inline constexpr size_t kTookInAccountMax = 256;
inline constexpr size_t kCopiesInAccountMax = 32;
// The connections of a server that go over the same medium.
struct Way {
  std::string over;             // "rdma mlx5_0" (transport::Connection::Medium)
  uint32_t connections = 0;     // all of them
  std::vector<uint32_t> slots;  // of their workers, ascending
  friend bool operator==(const Way&, const Way&) = default;
};
inline constexpr size_t kWaysMax = 16;
// Shows the work of a server to people.
struct ServerAccount {
  uint64_t received = 0;  // bytes of contributions that came in
  uint64_t sent = 0;      // bytes of answers
  uint64_t cpu_us = 0;    // processor time of the process
  std::vector<Way> ways;  // of connections for data, by name
  friend bool operator==(const ServerAccount&, const ServerAccount&) = default;
};
// Tells why a rank's use waits that passes its limit soon, or has passed it.
struct UseNote {
  NamedUse use;
  std::string others;     // the ranks that have not begun it, and what the first of them does
  uint32_t quiet_ms = 0;  // none of these ranks has ended an operation for so long
  friend bool operator==(const UseNote&, const UseNote&) = default;
};
// The sender lives. Workers and servers give an account of themselves; the coordinator asks about
// uses.
struct Alive {
  std::optional<Account> account;
  std::vector<NamedUse> asked;
  std::vector<UseNote> notes;
  std::optional<ServerAccount> server;
  friend bool operator==(const Alive&, const Alive&) = default;
};

// The exchange of a worker with a shard while the worker's credit was used up, so that the links
// set the pace and not the program: the bytes of answered pieces, the time in which any piece was
// between push and answer at this shard, and the time of the measurement.
struct ShardRate {
  ShardId shard = 0;
  uint64_t bytes = 0;
  uint64_t busy_us = 0;
  uint64_t active_us = 0;
  friend bool operator==(const ShardRate&, const ShardRate&) = default;
};
// The measurements of a worker in the view of this epoch.
struct Rates {
  uint64_t epoch = 0;
  std::vector<ShardRate> shards;
  // The bytes and the time of the bursts that have ended (plan/exchange_meter.h).
  uint64_t burst_bytes = 0;
  uint64_t burst_us = 0;
  friend bool operator==(const Rates&, const Rates&) = default;
};

}  // namespace byteps::wire
