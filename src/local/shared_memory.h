// Memory that the processes of one machine share, by a descriptor that one hands to the others over
// a socket. It has no name that could collide or stay behind, needs no room in /dev/shm, and is
// gone with the last process that has it.
//
// Its size cannot change, so that no process can make another one fault. Thread-compatible as a
// value. The users decide what the bytes mean, and who may touch them when.
#pragma once

#include <cstddef>

#include "src/base/status.h"
#include "src/base/types.h"
#include "src/local/unique_fd.h"

namespace byteps::local {

enum class Access : uint8_t { kReadWrite, kReadOnly };

class SharedMemory {
 public:
  // Creates memory that is all zero and that this process may write. `others`: the access of a
  // process that gets the descriptor; kReadOnly holds even against a process that tries to write.
  // The machine gives a page when it is first touched.
  static Result<SharedMemory> Create(size_t bytes, Access others);

  // Maps memory of another process. kProtocol: its size is not `bytes`, or could change.
  static Result<SharedMemory> Map(UniqueFd fd, size_t bytes, Access access);

  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory other) noexcept;
  ~SharedMemory();

  // Returns the bytes, aligned to a page. REQUIRES: nobody writes into memory that is mapped
  // kReadOnly, which would fault.
  ByteSpan bytes() const { return bytes_; }
  // Returns the descriptor, to be handed to another process. This object owns it.
  int fd() const { return fd_.get(); }

 private:
  SharedMemory(UniqueFd fd, ByteSpan bytes) : fd_(std::move(fd)), bytes_(bytes) {}
  static Result<SharedMemory> MapWhole(UniqueFd fd, size_t bytes, Access access);

  UniqueFd fd_;
  ByteSpan bytes_;
};

}  // namespace byteps::local
