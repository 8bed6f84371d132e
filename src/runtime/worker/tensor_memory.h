// Memory that an engine has for tensors: where ranks share memory, the others read it where it
// lies, and nothing is copied before it is summed. Thread-safe; outlives the engine.
#pragma once

#include <memory>

#include "src/base/status.h"
#include "src/base/types.h"

namespace byteps::runtime {

class TensorMemory {
 public:
  struct Taken {
    ByteSpan bytes;          // all zero, aligned to 64 bytes; the caller's until Give
    bool is_shared = false;  // with other ranks
  };

  virtual ~TensorMemory() = default;
  // Where no memory can be shared, or none is left that could, it is the process' own. kExhausted:
  // there is none of that either.
  virtual Result<Taken> Take(size_t bytes) = 0;
  // Nothing happens for what was not taken here. REQUIRES: no operation uses it.
  virtual void Give(std::byte* data) = 0;
  // The engine has ended. What is taken stays valid; nothing more is.
  virtual void Close() = 0;
};

// The process' own memory.
std::shared_ptr<TensorMemory> MakePlainMemory();

}  // namespace byteps::runtime
