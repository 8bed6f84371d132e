// Messages about who is in the job: joins and refusals, views and the votes on them, sync points,
// suspicions, and the end of the job. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/wire/view.h"

namespace byteps::wire {

// The most further addresses of one server.
inline constexpr size_t kMoreAddressesMax = 15;

// A process asks to be a member. The message has everything that must be equal for all, so that the
// coordinator can name a difference.
struct Join {
  Role role = Role::kWorker;
  int32_t rank = -1;  // wanted rank or server index; -1: any
  uint64_t incarnation = 0;
  std::string host;        // host identity: processes with the same one share a network stack
  std::string address;     // where this process accepts connections ("host:port"); servers only
  uint32_t shards = 0;     // servers only
  uint32_t link_mbit = 0;  // 0: unknown; counts as fast as the others
  uint32_t process = 0;    // process number on its host, for messages
  uint32_t worker_count = 0;
  uint32_t server_count = 0;
  uint32_t piece_bytes_max = 0;
  std::string version;
  uint32_t local_rank = 0;
  uint32_t local_size = 1;
  std::string node;  // the host's name, for messages
  // Workers: a text that is the same for all processes of one contributor and for no others, and
  // the number of these processes. Empty: this process is a contributor by itself.
  std::string contributor;
  uint32_t contributor_size = 1;
  bool machines_sum = false;  // workers: those of a machine sum first, if they can
  // If set, it still meets the others of its contributor, and the coordinator admits none of them.
  bool meets = false;
  // Servers whose host has several interfaces: addresses of the other interfaces, in the same form.
  std::vector<std::string> more_addresses;
  // Workers: the number of workers of each machine, like MachineLayout::sizes; empty: not known.
  std::vector<uint32_t> local_sizes;
  bool takes_objects = false;  // workers: byteps_job_info has it
  // Workers: as in View.
  bool same_bits = false;
  uint32_t sum_group = 1;

  friend bool operator==(const Join&, const Join&) = default;
};

struct Refused {
  StatusCode code = StatusCode::kRefused;
  std::string text;
  friend bool operator==(const Refused&, const Refused&) = default;
};

// Names the missing processes, for people.
struct Waiting {
  std::string text;
  friend bool operator==(const Waiting&, const Waiting&) = default;
};

// A view comes into force in two steps (docs/membership.md). The coordinator asks all members of
// `present`, the view in force, to take `next` from no other coordinator.
struct Propose {
  uint64_t term = 0;  // the coordinator's; restarts raise it
  View present;
  View next;
  friend bool operator==(const Propose&, const Propose&) = default;
};
struct Promise {
  uint64_t term = 0;
  uint64_t epoch = 0;  // of the next view
  friend bool operator==(const Promise&, const Promise&) = default;
};
// Enough members have promised, so `view` is in force.
struct Commit {
  uint64_t term = 0;
  View view;
  friend bool operator==(const Commit&, const Commit&) = default;
};

// A coordinator that has been restarted asks members for a Report. A member that has a view already
// also reports unasked when it connects.
struct Query {
  uint64_t term = 0;
  friend bool operator==(const Query&, const Query&) = default;
};

struct Report {
  Join self;          // the same as when it joined
  uint64_t term = 0;  // the highest term that it has met
  View committed;
  uint64_t promised_term = 0;
  View promised;       // epoch 0: no view beyond `committed`
  uint32_t syncs = 0;  // sync points that it has passed in the generation in force
  friend bool operator==(const Report&, const Report&) = default;
};

// A worker has finished all its operations and lets new workers in here; no operation may be in
// flight. The answer is a view that begins a generation, or GoOn if nobody waits. `point` numbers
// the sync points of a generation from 1, to tell a lost answer from one that is not due yet.
struct Sync {
  uint32_t generation = 0;
  uint32_t point = 1;
  friend bool operator==(const Sync&, const Sync&) = default;
};
struct GoOn {
  uint32_t generation = 0;
  uint32_t point = 1;
  friend bool operator==(const GoOn&, const GoOn&) = default;
};

// A worker ends its membership in order. `clean`: it has no operation in flight.
struct Leave {
  bool clean = true;
  friend bool operator==(const Leave&, const Leave&) = default;
};

// Reasons to believe that a member is gone. Part of the wire format: never renumber.
enum class Suspicion : uint8_t {
  kClosed = 0,       // its connection broke
  kUnreachable = 1,  // the sender could not reach it again within the grace
  kNonsense = 2,     // it sent bytes that no correct member sends
  kGaveUp = 3,       // the sender means itself
  kExited = 4,       // the launcher saw the process end: it is proven dead
};
struct Suspect {
  Role role = Role::kServer;
  // The slot of a contributor, or the index of a server. A launcher knows no slots, so it gives the
  // rank of a worker. Nobody reads it in kGaveUp.
  uint32_t index = 0;
  uint64_t incarnation = 0;  // 0: the member that has the index
  Suspicion why = Suspicion::kClosed;
  std::string text;
  // The generation of the connection that was closed. A connection ends with its generation, so an
  // older one proves nothing. 0: the suspicion is about no connection.
  uint32_t generation = 0;
  friend bool operator==(const Suspect&, const Suspect&) = default;
};

// The job has ended for all members. The code is kOk if it ended in order, otherwise the reason.
struct JobOver {
  StatusCode code = StatusCode::kOk;
  std::string text;
  friend bool operator==(const JobOver&, const JobOver&) = default;
};

}  // namespace byteps::wire
