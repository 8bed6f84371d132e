#include "src/device/pinned_memory.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <new>

#include "src/base/size_classes.h"
#include "src/base/thread_annotations.h"

namespace byteps::device {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr size_t kBlockBytesMin = 4096;
// The owner of what Pin asks for, which nobody calls off.
constexpr uint64_t kPinOwner = UINT64_MAX - 1;

uint32_t ClassOf(size_t bytes) { return SizeClassOf(std::max(bytes, kBlockBytesMin)); }

}  // namespace

struct PinnedMemory::State {
  // An unused block has the address of the next one in its own first bytes. So nobody needs memory
  // to give a block back.
  struct Unused {
    Unused* next;
  };
  // Memory from elsewhere. The mutex guards `is_answered`; the thread alone has `is_pinned`.
  struct Foreign {
    const std::shared_ptr<const void> memory;  // shared with the others who use it
    const ByteSpan bytes;
    const std::string remedy;
    bool is_answered = false;
    bool is_pinned = false;
  };
  struct Ask {
    uint64_t owner;
    size_t bytes;
    Made made;                  // null: called off, or there is memory to pin
    Foreign* to_pin = nullptr;  // null: a block is asked for
    bool is_held = false;       // by the thread
    Time held_since{};
  };

  State(std::shared_ptr<Device> of, size_t limit, std::function<void(const std::string&)> hears)
      : device(std::move(of)), bytes_max(limit), warn(std::move(hears)) {}

  void Run();
  void Answer(size_t bytes, const Status& entered);
  void PinForeign(Foreign& foreign, const Status& entered);
  Block BlockOf(size_t bytes);
  Result<std::byte*> Pinned(uint32_t size_class);
  void Warn(const Status& why);
  std::byte* TakeUnused(uint32_t size_class) BYTEPS_REQUIRES(mutex);
  Unused* MakeRoom(size_t size) BYTEPS_REQUIRES(mutex);
  void Free(Unused* blocks) const;

  const std::shared_ptr<Device> device;  // see the constructor of PinnedMemory
  const size_t bytes_max;
  const std::function<void(const std::string&)> warn;
  const Status no_memory{StatusCode::kExhausted, "the host has no memory"};
  Mutex mutex;
  std::condition_variable changed;
  std::deque<Ask> asks BYTEPS_GUARDED_BY(mutex);
  std::deque<Foreign> foreign BYTEPS_GUARDED_BY(mutex);
  Unused* unused[kSizeClasses] BYTEPS_GUARDED_BY(mutex) = {};
  size_t unused_bytes BYTEPS_GUARDED_BY(mutex) = 0;
  size_t held BYTEPS_GUARDED_BY(mutex) = 0;  // bytes of pinned memory
  bool has_warned BYTEPS_GUARDED_BY(mutex) = false;
  bool ends BYTEPS_GUARDED_BY(mutex) = false;
};

PinnedMemory::PinnedMemory(std::shared_ptr<Device> device, size_t bytes_max,
                           std::function<void(const std::string&)> warn, Duration end_limit)
    : state_(std::make_shared<State>(std::move(device), bytes_max, std::move(warn))),
      thread_(end_limit) {
  thread_.Start([state = state_] { state->Run(); });
}

PinnedMemory::~PinnedMemory() {
  {
    MutexLock lock(state_->mutex);
    state_->ends = true;
    state_->changed.notify_all();
  }
  state_.reset();  // so the device ends on the thread, if nobody else has it
  thread_.End();
}

PinnedMemory::Block PinnedMemory::TakeUnused(size_t bytes) {
  if (bytes == 0) return {};
  const uint32_t size_class = ClassOf(bytes);
  if (size_class >= kSizeClasses) return {};
  std::byte* taken = nullptr;
  {
    MutexLock lock(state_->mutex);
    taken = state_->TakeUnused(size_class);
  }
  if (taken == nullptr) return {};
  return {state_.get(), taken, size_class};
}

void PinnedMemory::Make(uint64_t owner, size_t bytes, Made made) {
  MutexLock lock(state_->mutex);
  state_->asks.push_back({owner, bytes, std::move(made)});
  state_->changed.notify_all();
}

bool PinnedMemory::Pin(const std::shared_ptr<const void>& memory, ByteSpan bytes,
                       const std::string& remedy) {
  MutexLock lock(state_->mutex);
  for (const State::Foreign& one : state_->foreign) {
    if (one.bytes.data() == bytes.data()) return one.is_answered;
  }
  state_->foreign.push_back({memory, bytes, remedy});
  try {
    state_->asks.push_back({kPinOwner, 0, nullptr, &state_->foreign.back()});
  } catch (const std::bad_alloc&) {
    state_->foreign.pop_back();
    throw;
  }
  state_->changed.notify_all();
  return false;
}

bool PinnedMemory::CallOff(uint64_t owner) {
  Made dropped;  // destroyed outside of the lock
  MutexLock lock(state_->mutex);
  auto found = std::ranges::find(state_->asks, owner, &State::Ask::owner);
  if (found == state_->asks.end() || found->made == nullptr) return false;
  std::swap(found->made, dropped);
  if (!found->is_held) state_->asks.erase(found);
  return true;
}

bool PinnedMemory::HasWaited(Duration limit) {
  MutexLock lock(state_->mutex);
  if (state_->asks.empty() || !state_->asks.front().is_held) return false;
  return std::chrono::steady_clock::now() >= state_->asks.front().held_since + limit;
}

PinnedMemory::Block PinnedMemory::Ordinary(size_t bytes) {
  if (bytes == 0) return {};
  void* const memory = ::operator new(bytes, kAlignment, std::nothrow);
  return {nullptr, static_cast<std::byte*>(memory), 0};
}

void PinnedMemory::Give(State* owner, std::byte* bytes, uint32_t size_class) {
  if (owner == nullptr) return ::operator delete(bytes, kAlignment);
  MutexLock lock(owner->mutex);
  // tidy-allow(new): in memory that is there.
  owner->unused[size_class] = ::new (bytes) State::Unused{owner->unused[size_class]};
  owner->unused_bytes += BytesOfClass(size_class);
}

size_t PinnedMemory::bytes_held() {
  MutexLock lock(state_->mutex);
  return state_->held;
}

std::byte* PinnedMemory::State::TakeUnused(uint32_t size_class) {
  Unused* const block = unused[size_class];
  if (block == nullptr) return nullptr;
  unused[size_class] = block->next;
  unused_bytes -= BytesOfClass(size_class);
  return reinterpret_cast<std::byte*>(block);
}

// Takes unused blocks of other sizes out until `size` more bytes are within the limit: the largest
// ones first, so that few go. Takes none if all of them would not suffice.
PinnedMemory::State::Unused* PinnedMemory::State::MakeRoom(size_t size) {
  Unused* out = nullptr;
  if (size > bytes_max || held - unused_bytes > bytes_max - size) return out;
  for (uint32_t size_class = kSizeClasses; held + size > bytes_max && size_class-- > 0;) {
    while (held + size > bytes_max && unused[size_class] != nullptr) {
      // tidy-allow(new): in memory that is there.
      out = ::new (TakeUnused(size_class)) Unused{out};
      held -= BytesOfClass(size_class);
    }
  }
  return out;
}

void PinnedMemory::State::Free(Unused* blocks) const {
  while (blocks != nullptr) {
    device->GivePinned(reinterpret_cast<std::byte*>(std::exchange(blocks, blocks->next)));
  }
}

Result<std::byte*> PinnedMemory::State::Pinned(uint32_t size_class) {
  const size_t size = BytesOfClass(size_class);
  Unused* too_many = nullptr;
  bool has_room = false;
  {
    MutexLock lock(mutex);
    too_many = MakeRoom(size);
    has_room = size <= bytes_max && held <= bytes_max - size;
    if (has_room) held += size;
  }
  Free(too_many);
  if (!has_room) {
    return Status(StatusCode::kExhausted,
                  "the limit of " + std::to_string(bytes_max) + " bytes is reached");
  }
  Result<std::byte*> pinned = no_memory;
  try {
    pinned = device->TakePinned(size);
  } catch (const std::bad_alloc&) {  // for the text of an error
  }
  if (!pinned.ok()) {
    MutexLock lock(mutex);
    held -= size;
  }
  return pinned;
}

void PinnedMemory::State::Warn(const Status& why) {
  {
    MutexLock lock(mutex);
    if (ends || std::exchange(has_warned, true)) return;
  }
  warn("there is no more pinned memory for copies from and to a device (" + why.message() +
       "); some copies use ordinary memory and are slower");
}

PinnedMemory::Block PinnedMemory::State::BlockOf(size_t bytes) {
  const uint32_t size_class = ClassOf(bytes);
  if (size_class >= kSizeClasses) return {};
  try {
    std::byte* taken = nullptr;
    {
      MutexLock lock(mutex);
      taken = TakeUnused(size_class);
    }
    if (taken != nullptr) return {this, taken, size_class};
    Result<std::byte*> pinned = Pinned(size_class);
    if (pinned.ok()) return {this, pinned.value(), size_class};
    Warn(pinned.status());
  } catch (const std::bad_alloc&) {  // for the text of an error
  }
  return Ordinary(bytes);
}

void PinnedMemory::State::PinForeign(Foreign& one, const Status& entered) {
  std::string why;
  try {
    const Status pinned = entered.ok() ? device->Pin(one.bytes.data(), one.bytes.size()) : entered;
    one.is_pinned = pinned.ok();
    why = pinned.message();
  } catch (const std::bad_alloc&) {  // for the text of an error
  }
  bool must_warn = !one.is_pinned;
  {
    MutexLock lock(mutex);
    one.is_answered = true;
    must_warn = must_warn && !ends;
    asks.pop_front();
  }
  if (!must_warn) return;
  warn("the memory that the workers of this machine share cannot be pinned (" + why +
       "), so copies between it and a device are slower; " + one.remedy);
}

// Gives the first one who asks a block.
void PinnedMemory::State::Answer(size_t bytes, const Status& entered) {
  Block block = entered.ok() ? BlockOf(bytes) : Ordinary(bytes);
  Made made;
  {
    MutexLock lock(mutex);
    std::swap(made, asks.front().made);
    asks.pop_front();
  }
  if (made != nullptr) made(std::move(block));
}

void PinnedMemory::State::Run() {
  const Status entered = device->Enter();
  for (;;) {
    size_t bytes = 0;
    Foreign* to_pin = nullptr;
    {
      MutexLock lock(mutex);
      while (asks.empty() && !ends) lock.Wait(changed);
      if (asks.empty()) break;
      asks.front().is_held = true;
      asks.front().held_since = std::chrono::steady_clock::now();
      bytes = asks.front().bytes;
      to_pin = asks.front().to_pin;
    }
    if (to_pin == nullptr) {
      Answer(bytes, entered);
    } else {
      PinForeign(*to_pin, entered);
    }
  }
  for (uint32_t size_class = 0; size_class < kSizeClasses; ++size_class) {
    Unused* blocks = nullptr;
    {
      MutexLock lock(mutex);
      blocks = std::exchange(unused[size_class], nullptr);
    }
    Free(blocks);
  }
  std::deque<Foreign> all;
  {
    MutexLock lock(mutex);
    all.swap(foreign);
  }
  for (const Foreign& one : all) {
    if (one.is_pinned) device->Unpin(one.bytes.data());
  }
}

}  // namespace byteps::device
