// Lets the processes of one machine find each other, although each knows only the user, the job,
// its secret, their group, and its own number in the group.
//
// The first process listens on an abstract Unix socket, whose name is a proof of these facts; the
// others (guests) connect. Both ends check that the other end is a process of the same user and
// holds the secret; the guest proves it first. The process that listens (the host) refuses a
// process that does not fit and goes on waiting, because a process of another job must not end this
// one. When all have come, the host hands the shared things to one guest after the other, and tells
// all to begin when the last one has them. From then on nobody listens under the name.
//
// The host serves one guest after the other because Linux limits the descriptors in packets that
// nobody has read, for all processes of a user together. So a sender also tries again while there
// are too many.
//
// A life descriptor becomes readable when its process ends, however it ends. It is a pidfd of the
// process, which forked children do not keep alive. If the kernel has no pidfd, it is the reading
// end of a pipe that the process holds open.
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
  // Tells groups of one job on one machine apart, and jobs that have the same name and secret. A
  // phrase, because errors quote it.
  std::string group;
  uint32_t rank = 0;
  uint32_t size = 1;
  // The size of the memory that they will share, and the other terms on which all must agree, as
  // the error's text.
  size_t memory_bytes = 0;
  std::string terms;
  // The wait calls it again and again; `false` breaks off with kShutdown. Null: nothing breaks off.
  std::function<bool()> go_on;
  // The host calls it again and again with the missing ranks. Null: the host tells nobody.
  std::function<void(const std::string&)> on_waiting;
  Duration tell_every = seconds(5);
  // The host calls it with each process that it has refused, and the reason.
  std::function<void(const std::string&)> on_refused;
};

struct Meeting {
  SharedMemory memory;
  // The life descriptors by rank; this rank's is empty.
  std::vector<UniqueFd> life_fds;
  // The process must hold it while it takes part: the pipe, or nothing.
  UniqueFd own_life_fd;
  // The heap of this rank's shared tensors, which these tensors share, and the heaps of the others
  // by rank; this rank's is empty.
  std::shared_ptr<Heap> heap;
  std::vector<UniqueFd> heaps;
};

// Blocks until all have come, at most until a second after the deadline. Errors, on each process:
// kDeadlineExceeded names the missing ranks, kPeerLost the ranks that have ended. kMismatch: this
// process does not fit, and the others go on without it. kRefused: a process that does not belong
// to the job holds the place where the job meets. kExhausted names the limit of the system that is
// too low. No thread, file or socket is left after an error.
Result<Meeting> Meet(const MeetingOptions& options, Time deadline);

// Returns the number of the process of a life descriptor, for people; 0: not known.
uint32_t ProcessOf(const UniqueFd& life_fd);

// Returns the name under which the processes meet; for tests.
std::string MeetingName(const MeetingOptions& options);

}  // namespace byteps::local
