// Memory that the processes of one machine share, by a descriptor that is handed over a socket: it
// has no name that could collide or stay behind, needs no room in /dev/shm, and is gone with the
// last process that has it.
//
// Its size cannot change any more, so that no process can make another one fault. Thread-compatible
// as a value; what the bytes mean, and who may touch them when, is the users' business.
#pragma once

#include <cstddef>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/local/unique_fd.h"

namespace byteps::local {

enum class Access : uint8_t { kReadWrite, kReadOnly };

class SharedMemory {
 public:
  // Fresh memory, all zero, of which this process may write. `others`: what a process may do that
  // gets the descriptor; kReadOnly holds against a process that tries. Pages are taken from the
  // machine when they are first touched.
  static Result<SharedMemory> Create(size_t bytes, Access others);

  // Memory of another process. kProtocol if its size is not `bytes`, or could change.
  static Result<SharedMemory> Map(UniqueFd fd, size_t bytes, Access access);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory other) noexcept;
  ~SharedMemory();

  // Aligned to a page. REQUIRES: nobody writes into what is mapped kReadOnly: that is a fault.
  ByteSpan bytes() const { return bytes_; }
  // To be handed to another process; borrowed.
  int fd() const { return fd_.get(); }

 private:
  SharedMemory(UniqueFd fd, ByteSpan bytes) : fd_(std::move(fd)), bytes_(bytes) {}
  static Result<SharedMemory> MapWhole(UniqueFd fd, size_t bytes, Access access);

  UniqueFd fd_;
  ByteSpan bytes_;
};

}  // namespace byteps::local
