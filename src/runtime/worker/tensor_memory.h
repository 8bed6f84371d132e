// Memory that an engine has for tensors. If the ranks share memory, the other ranks read a tensor
// where it lies, and nobody copies it before the sum. Thread-safe; outlives the engine.
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
  // Returns memory that is shared, if there is enough; else memory of the process. kExhausted:
  // there is no memory of either kind.
  virtual Result<Taken> Take(size_t bytes) = 0;
  // Takes memory back. Ignores memory that this object has not given. REQUIRES: no operation uses
  // the memory.
  virtual void Give(std::byte* data) = 0;
  // Notes that the engine has ended. Memory that is taken stays valid; Take gives no more.
  virtual void Close() = 0;
};

// Returns TensorMemory that gives memory of the process only.
std::shared_ptr<TensorMemory> MakePlainMemory();

}  // namespace byteps::runtime
