// How the processes of one machine find each other, with nothing but what each of them knows: the
// user, the job, its secret, their group, and their number in it.
//
// The first that comes listens on an abstract Unix socket, whose name is a proof of these; the
// others connect. Both ends check that the other is a process of the same user and holds the
// secret, the one that connects first. The one that listens (the host) refuses a process that does
// not fit and goes on waiting: a process of another job must not end this one. When all have come,
// it hands what all share to one after the other, and tells all to begin when the last one has it.
// From then on nobody can be found under the name.
//
// One after the other: Linux bounds how many descriptors of a user wait in packets that nobody has
// read, for all processes of the user together. So there is also a retry while there are too many.
//
// A line becomes readable when a process ends, however it ends. It is a pidfd of that process,
// which children that it has forked do not keep alive; where the kernel has none, the reading end
// of a pipe that the process holds open.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/base/time.h"
#include "src/local/heap.h"
#include "src/local/shared_memory.h"
#include "src/local/unique_fd.h"

namespace byteps::local {

struct MeetingOptions {
  std::string job;
  std::string secret;
  // What tells groups of one job on one machine apart, and jobs that have the same name and secret;
  // a phrase, for errors say it.
  std::string group;
  uint32_t rank = 0;
  uint32_t size = 1;
  // Of the memory that they will share; what all must agree on besides, for the error's text.
  size_t memory_bytes = 0;
  std::string terms;
  // Asked again and again while it waits; `false` breaks off with kShutdown. Null: nothing does.
  std::function<bool()> go_on;
  // Told again and again who is missing, on the process that collects the others. Null: nobody.
  std::function<void(const std::string&)> on_waiting;
  Duration tell_every = seconds(5);
  // Told whom this process has refused, and why, on the process that collects the others.
  std::function<void(const std::string&)> on_refused;
};

struct Meeting {
  SharedMemory memory;
  // By rank; the own one is empty.
  std::vector<UniqueFd> lines;
  // To be held while this process takes part: the pipe, or nothing.
  UniqueFd own_line;
  // Where this rank's shared tensors lie; shared with these tensors. And the others' heaps by rank;
  // the own one is empty.
  std::shared_ptr<Heap> heap;
  std::vector<UniqueFd> heaps;
};

// Blocks until all have come, or says on each who is missing (kDeadlineExceeded), or who has ended
// (kPeerLost), at most a second after the deadline. A process that does not fit hears why
// (kMismatch), and the others go on without it. kRefused: a process that is none of the job's holds
// the place where the job meets. kExhausted: which limit of the system is too low. No thread, file
// or socket is left after an error.
Result<Meeting> Meet(const MeetingOptions& options, Time deadline);

// The name under which they meet; for tests.
std::string MeetingName(const MeetingOptions& options);

}  // namespace byteps::local
