// The parts of a simulated job, and the ends of its operations.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/network.h"
#include "src/protocol/control/views/coordinator_mistakes_for_test.h"
#include "src/protocol/control/views/membership_mistakes_for_test.h"
#include "src/protocol/shard/shard_mistakes_for_test.h"
#include "src/protocol/worker/worker_mistakes_for_test.h"
#include "src/protocol/worker/worker_options.h"

namespace byteps::sim {

inline constexpr uint32_t kNobody = UINT32_MAX;
// The version that all processes of a job announce.
inline constexpr const char* kVersion = "simulated";

// Moments of the protocol, for which faults can wait.
enum class Moment : uint8_t {
  kBegin,           // of the job
  kPushArrived,     // at a shard
  kVerdictArrived,  // the same
  kResyncArrived,
  kAbortArrived,
  kAnswerArrived,  // at a worker, which has not acknowledged it
  kStableArrived,  // the same: news of it
  kHandedOver,     // an operation of the worker has ended
  kProposed,       // to this worker or server
  kApplied,        // this worker or server has a newer view
  kReported,       // this member reports to a coordinator that was restarted
};
inline constexpr int kMomentCount = 11;

struct ServerPlace {
  HostId host = 0;
  uint32_t shards = 1;
};

// Deliberate mistakes, for tests; at most one is set.
struct Mistakes {
  protocol::ShardMistake shard = protocol::ShardMistake::kNone;
  protocol::WorkerMistake worker = protocol::WorkerMistake::kNone;
  protocol::CoordinatorMistake coordinator = protocol::CoordinatorMistake::kNone;
  protocol::MembershipMistake membership = protocol::MembershipMistake::kNone;
};

struct ClusterOptions {
  NetworkOptions network;
  std::vector<double> host_links;  // bytes per second
  std::vector<HostId> worker_hosts;
  std::vector<ServerPlace> servers;
  HostId coordinator_host = 0;
  uint32_t piece_bytes_max = 32768;
  uint64_t credit_bytes = 0;  // 0: as measured
  uint32_t lanes = 1;         // of each worker
  Duration round_trip{};      // as connections tell it to workers; zero: they do not know it
  // The number of processes of each worker's contributor; one for workers that the list does not
  // have.
  std::vector<uint32_t> processes;
  // The time between the processes of a contributor when they come, reach sync points and leave.
  Duration process_gap = Duration::zero();
  // The most by which the mail between a worker's front and lanes is late.
  Duration mail_delay_max = Duration::zero();
  // 0: nobody judges members by their silence.
  Duration heartbeat = Duration::zero();
  uint32_t min_workers = 0;                    // 0: all; losing one ends the job
  bool strict = false;                         // two coordinators may live at once
  uint64_t rounds_begin = 0;                   // rounds count from after this
  uint32_t late_workers = 0;                   // the last of worker_hosts: they come later
  Duration restart_pause = milliseconds(100);  // of a server that was left behind
  // The ranks of process sets 1, 2, ... that every worker has.
  std::vector<std::vector<uint32_t>> process_sets;
  Duration overdue_after = protocol::WorkerOptions().overdue_after;
  uint64_t idle_operations = 0;  // a worker lets a tensor go after so many others; 0: as a real one
  Mistakes mistakes;
  protocol::Arithmetic* arithmetic = nullptr;
};

// The end of one worker's operation; `completions` must be 1 for every accepted operation.
struct Completion {
  int completions = 0;
  protocol::Outcome outcome;
  Time at{};
};

}  // namespace byteps::sim
