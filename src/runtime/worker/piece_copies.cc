#include "src/runtime/worker/piece_copies.h"

#include <new>
#include <utility>

namespace byteps::runtime {

using protocol::StageVerdict;

PieceCopies::PieceCopies(device::DeviceLines& lines, protocol::ResumePiece resume, std::string who)
    : lines_(lines),
      resume_(std::move(resume)),
      who_(std::move(who)),
      memory_(lines.pieces, pool_),
      pool_(memory_) {}

// A pool that gets null frees what it has unused, and asks again.
std::byte* PieceCopies::PoolMemory::Make(size_t bytes) noexcept {
  std::byte* const pinned = memory_.TakePinned(bytes);
  const bool has_unused = pool_.bytes_held() > pool_.bytes_in_use();
  return pinned != nullptr || has_unused ? pinned : memory_.Make(bytes);
}

void PieceCopies::Begin(Way way, const protocol::PieceInHand& piece, const BufferRef& buffer,
                        std::byte* to, const std::byte* from, size_t bytes) {
  LetGoOfEnded();
  Copy& copy = NewCopy(way);
  copy.ticket = piece.ticket;
  copy.name.assign(piece.exchange.name);
  copy.buffer = buffer;
  copy.ended.store(false, std::memory_order_relaxed);
  device::CopyLine& line = way == Way::kDown ? lines_.down : lines_.up;
  try {
    // A function that is as small as this one needs no memory.
    line.Copy(piece.exchange.device.owner, to, from, bytes,
              [&copy](const Status& how) { copy.all->OnEnd(copy, how); });
  } catch (const std::bad_alloc&) {
    copy.ended.store(true, std::memory_order_relaxed);  // the next call lets go of it
    throw;
  }
}

// Takes a copy that nobody uses, and counts it as under way.
PieceCopies::Copy& PieceCopies::NewCopy(Way way) {
  if (unused_.empty()) {
    unused_.reserve(copies_.size() + 1);
    auto made = std::make_unique<Copy>();
    made->all = this;
    made->ended = true;
    copies_.push_back(std::move(made));
    unused_.push_back(copies_.back().get());
  }
  Copy& copy = *unused_.back();
  copy.way = way;
  under_way_[static_cast<size_t>(way)].push_back(&copy);
  unused_.pop_back();
  return copy;
}

// A line ends its copies in order.
void PieceCopies::LetGoOfEnded() {
  for (RingQueue<Copy*>& under_way : under_way_) {
    while (!under_way.empty() && under_way.front()->ended.load(std::memory_order_acquire)) {
      Copy& ended = *under_way.front();
      under_way.pop_front();
      ended.buffer = BufferRef();
      unused_.push_back(&ended);
    }
  }
}

void PieceCopies::CleanUp() {
  LetGoOfEnded();
  if (lines_.pieces.HasBetter()) (void)pool_.FreeUnused();
}

void PieceCopies::OnEnd(Copy& copy, const Status& how) const {
  if (how.ok()) {
    resume_(copy.ticket, StageVerdict::kDone, how);
  } else {
    try {
      resume_(copy.ticket, StageVerdict::kFailed, WhyFailed(copy, how));
    } catch (const std::bad_alloc&) {  // for the text
      resume_(copy.ticket, StageVerdict::kFailed, Status(how.code(), ""));
    }
  }
  copy.ended.store(true, std::memory_order_release);
}

Status PieceCopies::WhyFailed(const Copy& copy, const Status& how) const {
  const std::string tensor = "tensor '" + copy.name + "': ";
  return {how.code(),
          (copy.way == Way::kDown ? who_ + " has no input for " : "") + tensor + how.message()};
}

}  // namespace byteps::runtime
