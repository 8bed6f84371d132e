// The memory of a loop's buffers, for loops with RDMA: slabs that the devices of the loop may read
// and write. A buffer in a slab is sent and received without a copy.
//
// Before the loop uses a device, and when the limit is reached or the system refuses to register
// more, buffers come from the heap. The transport copies the bytes of such buffers. A fork's child
// does not see the slabs, so it cannot disturb what devices do in them.
//
// Belongs to the thread of its loop.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/buffer_source.h"
#include "src/base/status.h"

struct ibv_mr;

namespace byteps::transport {

class Device;

// SlabBudget: the limit of the memory in slabs, for all loops of a process together. Thread-safe.
class SlabBudget {
 public:
  explicit SlabBudget(size_t bytes_max) : bytes_max_(bytes_max) {}

  // Returns false if the limit does not allow so many bytes more.
  bool Take(size_t bytes);
  void Give(size_t bytes) { taken_ -= bytes; }
  size_t bytes_max() const { return bytes_max_; }
  size_t taken() const { return taken_; }

 private:
  const size_t bytes_max_;
  std::atomic<size_t> taken_ = 0;
};

class RegisteredMemory final : public BufferSource {
 public:
  static constexpr size_t kSlabBytes = size_t{2} << 20;

  // `budget` must outlive this object.
  explicit RegisteredMemory(SlabBudget& budget) : budget_(budget) {}
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;
  // REQUIRES: all memory was given back.
  ~RegisteredMemory() override;

  // From now on slabs are registered with this device, too. It must outlive this object, or the
  // call of Drop. kExhausted: the system registers nothing; the text says which limit to raise.
  Status Use(const Device& device);
  // Ends the registrations with this device. REQUIRES: no work request names this memory.
  void Drop(const Device& device);

  // Returns the key by which `device` reaches `bytes` at `memory`, if they lie in a slab that is
  // registered with the device.
  std::optional<uint32_t> KeyOf(const std::byte* memory, size_t bytes, const Device& device) const;

  std::byte* Make(size_t bytes) noexcept override;
  void Free(std::byte* memory, size_t bytes) noexcept override;

  size_t slab_bytes() const { return slab_bytes_; }

 private:
  struct Slab {
    std::byte* begin = nullptr;
    size_t bytes = 0;
    size_t used = 0;   // from the front; buffers that were given back are behind this mark
    size_t count = 0;  // buffers that are handed out
    std::map<const Device*, ibv_mr*> regions;
  };
  // The buffers of one size.
  struct Size {
    std::vector<std::byte*> returned;  // has room for all buffers of this size
    size_t count = 0;                  // all of them
  };

  std::byte* Carve(size_t bytes);
  Slab* AddSlab(size_t bytes);
  bool Register(Slab& slab, const Device& device);
  bool RegisterWithAll(Slab& slab) noexcept;
  void End(Slab& slab);
  Slab* SlabOf(const std::byte* memory) const;

  SlabBudget& budget_;
  std::vector<const Device*> devices_;
  std::map<const std::byte*, std::unique_ptr<Slab>> slabs_;  // by where they begin
  std::map<size_t, Size> sizes_;
  size_t slab_bytes_ = 0;
};

}  // namespace byteps::transport
