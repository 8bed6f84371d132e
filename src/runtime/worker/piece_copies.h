// The copies of one lane's pieces between one device and the host.
//
// The lane's thread calls everything. Copies end on threads of lines. A copy that was begun is
// never called off: it keeps its buffer until it ends, and the device's memory stays until
// CopyLine::WhenOver. So nobody waits for a copy of a piece that is abandoned, however long the
// device's driver takes, and this object must stay until all copies have ended (DeviceLines::Keep).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/ring_queue.h"
#include "src/device/device_lines.h"
#include "src/protocol/worker/lane/piece_path.h"

namespace byteps::runtime {

class PieceCopies {
 public:
  enum class Way : uint8_t { kDown, kUp };  // from the device, to the device

  // `who`: begins the text of an error, "rank 3 has no input for tensor".
  PieceCopies(device::DeviceLines& lines, protocol::ResumePiece resume, std::string who);

  // Begins a copy, and resumes the piece when it has ended. `buffer`: the host's side.
  void Begin(Way way, const protocol::PieceInHand& piece, const BufferRef& buffer, std::byte* to,
             const std::byte* from, size_t bytes);

  // Returns the pool for both sides' buffers, which is pinned memory if possible.
  BufferPool& pool() { return pool_; }
  // Lets go of buffers of copies that have ended, and of ordinary memory if there is better.
  void CleanUp();

 private:
  // Gives the pool pinned memory. Before there is none, the pool frees its unused buffers of other
  // sizes: tensors of a model have pieces of many sizes.
  class PoolMemory final : public BufferSource {
   public:
    PoolMemory(device::PieceMemory& memory, const BufferPool& pool)
        : memory_(memory), pool_(pool) {}
    std::byte* Make(size_t bytes) noexcept override;
    void Free(std::byte* memory, size_t bytes) noexcept override { memory_.Free(memory, bytes); }

   private:
    device::PieceMemory& memory_;
    const BufferPool& pool_;
  };
  struct Copy {
    PieceCopies* all = nullptr;
    Way way = Way::kDown;
    protocol::PieceTicket ticket;
    std::string name;  // of the tensor
    BufferRef buffer;  // the lane's thread has it
    std::atomic<bool> ended = false;
  };

  Copy& NewCopy(Way way);
  void LetGoOfEnded();
  // On the thread of a line.
  void OnEnd(Copy& copy, const Status& how) const;
  Status WhyFailed(const Copy& copy, const Status& how) const;

  device::DeviceLines& lines_;
  const protocol::ResumePiece resume_;
  const std::string who_;
  PoolMemory memory_;
  BufferPool pool_;
  std::vector<std::unique_ptr<Copy>> copies_;  // all that there are
  std::vector<Copy*> unused_;
  RingQueue<Copy*> under_way_[2];  // by way, as they were begun; perhaps ended
};

}  // namespace byteps::runtime
