#include "src/machine/room/device_mover.h"

#include <algorithm>
#include <array>
#include <utility>

#include "src/base/thread_annotations.h"

namespace byteps::machine {

struct DeviceMover::State {
  // The last copy of this rank in a block. The mutex guards its end; the rest belongs to the thread
  // of the window.
  struct Last {
    State* all = nullptr;
    device::CopyLine* line = nullptr;
    uint64_t owner = 0;
    const std::byte* to = nullptr;
    bool is_under_way = false;
    Status how;
  };

  State(local::Window& of, std::shared_ptr<const local::SharedMemory> lies_in)
      : memory(std::move(lies_in)), window(&of) {
    for (Last& one : last) one.all = this;
  }

  // On the thread of a line, too.
  void OnEnd(Last& one, const Status& how);
  void Tell() BYTEPS_REQUIRES(mutex);

  const std::shared_ptr<const local::SharedMemory> memory;  // kept for copies that are under way
  const Status called_off{StatusCode::kUnavailable, "the operation has ended before"};
  Mutex mutex;
  local::Window* window BYTEPS_GUARDED_BY(mutex);  // null: the engine has gone
  std::array<Last, local::kBlocksMax> last;        // by block
};

void DeviceMover::State::Tell() {
  if (window != nullptr) window->Notify(local::Bit(window->rank()));
}

void DeviceMover::State::OnEnd(Last& one, const Status& how) {
  MutexLock lock(mutex);
  one.how = how;
  one.is_under_way = false;
  Tell();
}

DeviceMover::DeviceMover(local::Window& window, std::shared_ptr<const local::SharedMemory> memory)
    : state_(std::make_shared<State>(window, std::move(memory))) {}

DeviceMover::~DeviceMover() {
  MutexLock lock(state_->mutex);
  state_->window = nullptr;
}

void DeviceMover::Begin(uint32_t block, const protocol::DeviceMemory& device, const Copy& copy) {
  device::DeviceLines& lines = *device.lines;
  if (std::ranges::find(knows_, &lines) == knows_.end()) {
    lines.Keep(state_);
    knows_.push_back(&lines);
  }
  device::CopyLine& line = copy.way == Way::kDown ? lines.down : lines.up;
  State::Last& last = state_->last[block];
  last.line = &line;
  last.owner = device.owner;
  last.to = copy.to;
  {
    MutexLock lock(state_->mutex);
    last.is_under_way = true;
  }
  // A function that is as small as this one needs no memory.
  line.Copy(device.owner, copy.to, copy.from, copy.bytes,
            [&last](const Status& how) { last.all->OnEnd(last, how); });
}

std::optional<Status> DeviceMover::EndOf(uint32_t block) {
  MutexLock lock(state_->mutex);
  const State::Last& last = state_->last[block];
  if (last.is_under_way) return std::nullopt;
  return last.how;
}

void DeviceMover::CallOff(uint32_t block) {
  State::Last& last = state_->last[block];
  if (last.line->TakeBack(last.owner, last.to)) state_->OnEnd(last, state_->called_off);
}

runtime::PrepareDevice PinsWindow(std::shared_ptr<const local::SharedMemory> memory,
                                  ByteSpan window, std::string remedy) {
  return [memory = std::move(memory), window, remedy = std::move(remedy)](
             device::DeviceLines& lines) { return lines.pinned.Pin(memory, window, remedy); };
}

}  // namespace byteps::machine
