#include "src/runtime/worker/tensor_memory.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <unordered_map>

#include "src/base/thread_annotations.h"

namespace byteps::runtime {
namespace {

constexpr size_t kAlignment = 64;

struct Free {
  void operator()(std::byte* bytes) const { std::free(bytes); }
};
using Owned = std::unique_ptr<std::byte, Free>;

class PlainMemory final : public TensorMemory {
 public:
  Result<Taken> Take(size_t bytes) override {
    const size_t whole =
        bytes > SIZE_MAX - kAlignment ? 0 : (bytes / kAlignment + 1) * kAlignment;  // not 0
    Owned owned(whole == 0 ? nullptr
                           : static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole)));
    if (owned == nullptr) {
      return Status(StatusCode::kExhausted,
                    "no memory for a tensor of " + std::to_string(bytes) + " bytes");
    }
    std::memset(owned.get(), 0, whole);
    std::byte* data = owned.get();
    MutexLock lock(mutex_);
    taken_[data] = std::move(owned);
    return Taken{{data, bytes}, false};
  }

  void Give(std::byte* data) override {
    Owned given;  // freed outside the lock
    MutexLock lock(mutex_);
    auto found = taken_.find(data);
    if (found == taken_.end()) return;
    given = std::move(found->second);
    taken_.erase(found);
  }

  void Close() override {}

 private:
  Mutex mutex_;
  std::unordered_map<std::byte*, Owned> taken_ BYTEPS_GUARDED_BY(mutex_);
};

}  // namespace

std::shared_ptr<TensorMemory> MakePlainMemory() { return std::make_shared<PlainMemory>(); }

}  // namespace byteps::runtime
