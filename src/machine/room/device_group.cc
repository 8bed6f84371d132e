#include "src/machine/room/device_group.h"

#include <algorithm>
#include <deque>
#include <new>
#include <system_error>
#include <utility>

#include "src/base/thread_annotations.h"
#include "src/device/device_lines.h"

namespace byteps::machine {
namespace {

using Kind = device::Launch::Kind;

Status NoMemory() { return {StatusCode::kExhausted, "the host has no memory for a group of GPUs"}; }

// Says which library makes the groups that the carrier has planned.
void Prepare(const GroupTools& tools, PlannedSums& plan) {
  Result<std::shared_ptr<device::Groups>> groups = tools.find();
  Status status = groups.status();
  for (size_t i = 0; status.ok() && i < plan.groups.size(); ++i) {
    Result<device::GroupId> id = groups.value()->NewId();
    status = id.status();
    if (id.ok()) plan.ids.push_back(id.value());
  }
  if (status.ok()) {
    plan.library = groups.value()->name();
  } else {
    plan = {.text =
                "the ranks of this machine sum in the window, because there is no group of "
                "GPUs: " +
                status.message(),
            .is_warning = true};
  }
}

}  // namespace

struct DeviceGroup::State {
  // A launch that the rank has begun, and whose end it has not taken.
  struct Begun {
    device::DeviceLines* lines = nullptr;  // null: it uses the scratch unit
    uint64_t owner = 0;
    std::optional<Status> how;
  };

  State(local::Window& of, GroupTools all, size_t bytes,
        std::function<void(const std::string&)> teller)
      : tools(std::move(all)), scratch_bytes(bytes), warn(std::move(teller)), window(&of) {}

  void Tell() BYTEPS_REQUIRES(mutex) {
    if (window != nullptr) window->Notify(Bit(window->rank()));
  }
  void OnMet(const Status& how);
  void OnBroken(const Status& why);
  void OnEnd(uint64_t number, const Status& how);
  void OnLineEnded();

  const GroupTools tools;
  const size_t scratch_bytes;
  const std::function<void(const std::string&)> warn;
  device::DeviceLines* lines = nullptr;  // of the rank's device; used on the window's thread only

  Mutex mutex;
  local::Window* window BYTEPS_GUARDED_BY(mutex);    // null: the engine has gone
  bool is_over BYTEPS_GUARDED_BY(mutex) = false;     // let go; so the next two
  bool is_aborted BYTEPS_GUARDED_BY(mutex) = false;  // by its owner
  bool has_ended BYTEPS_GUARDED_BY(mutex) = false;   // the line
  std::optional<PlannedSums> plan BYTEPS_GUARDED_BY(mutex);
  std::optional<Met> met BYTEPS_GUARDED_BY(mutex);
  std::optional<Broken> broken BYTEPS_GUARDED_BY(mutex);
  std::shared_ptr<std::byte> scratch BYTEPS_GUARDED_BY(mutex);  // the last user gives it back
  std::unique_ptr<device::GroupLine> line BYTEPS_GUARDED_BY(mutex);
  std::deque<Begun> begun BYTEPS_GUARDED_BY(mutex);
  uint64_t taken BYTEPS_GUARDED_BY(mutex) = 0;  // launches whose ends were taken
};

void DeviceGroup::State::OnMet(const Status& how) {
  MutexLock lock(mutex);
  met = Met{how};
  Tell();
}

void DeviceGroup::State::OnBroken(const Status& why) {
  MutexLock lock(mutex);
  broken = Broken{why};
  Tell();
}

void DeviceGroup::State::OnEnd(uint64_t number, const Status& how) {
  device::DeviceLines* used = nullptr;
  uint64_t owner = 0;
  {
    MutexLock lock(mutex);
    Begun& one = begun[number - taken];
    one.how = how;
    used = one.lines;
    owner = one.owner;
    Tell();
  }
  if (used != nullptr) used->launches.End(owner);
}

void DeviceGroup::State::OnLineEnded() {
  MutexLock lock(mutex);
  has_ended = true;
  Tell();
}

DeviceGroup::DeviceGroup(local::Window& window, GroupTools tools, size_t scratch_bytes,
                         std::function<void(const std::string&)> warn)
    : has_tools_(tools.find != nullptr),
      state_(std::make_shared<State>(window, std::move(tools), scratch_bytes, std::move(warn))),
      threads_(device::LineThreads::kEndLimit) {}

DeviceGroup::~DeviceGroup() {
  std::unique_ptr<device::GroupLine> line;
  {
    MutexLock lock(state_->mutex);
    state_->window = nullptr;
    state_->is_over = true;
    line = std::move(state_->line);
  }
  line.reset();
  GiveScratch();
  threads_.End();
}

// The driver may take long to free memory. A launch that is not over keeps the memory for ever.
void DeviceGroup::GiveScratch() {
  {
    MutexLock lock(state_->mutex);
    const auto is_over = [](const State::Begun& one) { return one.how.has_value(); };
    if (state_->scratch == nullptr || !std::ranges::all_of(state_->begun, is_over)) return;
  }
  try {
    Start([](const std::shared_ptr<State>& state) {
      std::shared_ptr<std::byte> scratch;
      MutexLock lock(state->mutex);
      scratch.swap(state->scratch);
    });
  } catch (const std::system_error&) {
    return;  // then whoever is the last user of the state gives it back
  }
}

bool DeviceGroup::Takes(const protocol::DeviceMemory& device, std::optional<HasDevice>& first) {
  if (!has_tools_) return false;
  State& state = *state_;
  if (state.lines == nullptr) {
    state.lines = device.lines;
    device.lines->Keep(state_);
    first = HasDevice{device.lines->device.facts().uuid};
  }
  return state.lines == device.lines;
}

// Runs `work` on a thread that nobody waits for.
void DeviceGroup::Start(std::function<void(const std::shared_ptr<State>&)> work) {
  threads_.Start([state = state_, work = std::move(work)] { work(state); });
}

void DeviceGroup::Plan(const std::vector<HasDevice>& devices, transport::Loop& loop,
                       std::function<void(const std::string& limit)> late) {
  const Duration ready = state_->tools.ready;
  limit_ = loop.After(
      ready, [late = std::move(late), ready] { late(std::to_string(ready / seconds(1)) + " s"); });
  const auto work = [devices](const std::shared_ptr<State>& state) {
    PlannedSums plan;
    try {
      plan = state->tools.plan(devices);
      if (!plan.groups.empty()) Prepare(state->tools, plan);
    } catch (const std::bad_alloc&) {
      plan = {.text = NoMemory().message()};
    }
    MutexLock lock(state->mutex);
    state->plan = std::move(plan);
    state->Tell();
  };
  try {
    Start(work);
  } catch (const std::system_error&) {
    MutexLock lock(state_->mutex);
    state_->plan = {.text = "this system has no thread for a plan of groups of GPUs"};
    state_->Tell();
  }
}

std::optional<PlannedSums> DeviceGroup::TakePlan() {
  MutexLock lock(state_->mutex);
  return std::exchange(state_->plan, std::nullopt);
}

// A thread that NVIDIA's libraries hold up may go on when the lines have gone.
void DeviceGroup::Meet(const SumsSo& word) {
  const auto work = [word, device = state_->lines->shared_device,
                     where = state_->lines->name](const std::shared_ptr<State>& state) {
    const auto fail = [&state](const Status& why) { state->OnMet(why); };
    try {
      Result<std::shared_ptr<device::Groups>> groups = state->tools.find();
      if (!groups.ok()) return fail(groups.status());
      if (groups.value()->name() != word.library) {
        return fail({StatusCode::kUnavailable, "it has " + groups.value()->name() +
                                                   ", and the first rank of the machine " +
                                                   word.library + ": give all ranks one version"});
      }
      Result<std::byte*> scratch = device->TakePinned(state->scratch_bytes);
      if (!scratch.ok()) return fail(scratch.status());
      std::shared_ptr<std::byte> unit(scratch.value(),
                                      [device](std::byte* bytes) { device->GivePinned(bytes); });
      device::GroupPlace place{{}, word.place, word.size(), where};
      std::ranges::copy(std::as_bytes(std::span(word.id)), place.id.begin());
      auto line = std::make_unique<device::GroupLine>(
          device, groups.value(), std::move(place),
          device::GroupLine::Owner{[state](const Status& how) { state->OnMet(how); },
                                   [state](const Status& why) { state->OnBroken(why); },
                                   state->warn, [state] { state->OnLineEnded(); }},
          state->tools.limits);
      MutexLock lock(state->mutex);
      if (state->is_over) return;  // the destructor of the line ends it
      state->scratch = std::move(unit);
      state->line = std::move(line);
      state->Tell();
    } catch (const std::bad_alloc&) {
      fail(NoMemory());
    } catch (const std::system_error&) {
      fail({StatusCode::kExhausted, "this system has no thread for a group of GPUs"});
    }
  };
  try {
    Start(work);
  } catch (const std::system_error&) {
    state_->OnMet({StatusCode::kExhausted, "this system has no thread for a group of GPUs"});
  }
}

// The others may launch as soon as they hear it, so the line must be there.
std::optional<Met> DeviceGroup::TakeMet() {
  MutexLock lock(state_->mutex);
  if (!state_->met.has_value() || (state_->met->how.ok() && state_->line == nullptr)) return {};
  return std::exchange(state_->met, std::nullopt);
}

std::optional<Broken> DeviceGroup::TakeBroken() {
  MutexLock lock(state_->mutex);
  return std::exchange(state_->broken, std::nullopt);
}

void DeviceGroup::Launch(device::Launch launch, const protocol::DeviceMemory* owner) {
  State& state = *state_;
  if (owner != nullptr) owner->lines->launches.Begin(owner->owner);
  device::GroupLine* line = nullptr;
  uint64_t number = 0;
  {
    MutexLock lock(state.mutex);
    number = state.taken + state.begun.size();
    State::Begun& one = state.begun.emplace_back();
    if (owner != nullptr) one = {owner->lines, owner->owner, std::nullopt};
    if (owner == nullptr) launch.from = launch.to = state.scratch.get();
    line = state.line.get();
  }
  const auto done = [state = state_, number](const Status& how) { state->OnEnd(number, how); };
  if (line == nullptr) return done({StatusCode::kInternal, "the group has not met"});
  if (launch.kind == Kind::kReduce) {
    line->Reduce(launch.from, launch.to, std::move(launch.runs), launch.type, launch.how, done);
  } else if (launch.kind == Kind::kReduceAll) {
    line->ReduceAll(launch.from, launch.to, launch.bytes, launch.type, launch.how, done);
  } else {
    line->Gather(launch.to, std::move(launch.runs), done);
  }
}

std::optional<Status> DeviceGroup::TakeEnd() {
  MutexLock lock(state_->mutex);
  if (state_->begun.empty() || !state_->begun.front().how.has_value()) return std::nullopt;
  const Status how = *state_->begun.front().how;
  state_->begun.pop_front();
  ++state_->taken;
  return how;
}

void DeviceGroup::End(const Status& why) {
  MutexLock lock(state_->mutex);
  state_->is_over = true;
  state_->is_aborted = state_->is_aborted || !why.ok();
  if (state_->line == nullptr) return;
  if (why.ok()) {
    state_->line->Leave();
  } else {
    state_->line->Abort(why);
  }
}

void DeviceGroup::Leave(transport::Loop& loop, std::function<void(const Status& why)> late) {
  End(Status::Ok());
  limit_ = loop.After(state_->tools.limits.end, [late = std::move(late)] {
    late({StatusCode::kShutdown, "the other ranks of a group of GPUs have not left it in time"});
  });
}

bool DeviceGroup::IsLeaving() const {
  MutexLock lock(state_->mutex);
  const State& state = *state_;
  return state.is_over && !state.is_aborted && state.line != nullptr && !state.has_ended;
}

void TellOfGroups(Log& log, const std::string& line, bool is_warning) {
  if (is_warning) {
    log.Warning("sums on GPUs: {}", line);
  } else {
    log.Info("sums on GPUs: {}", line);
  }
}

}  // namespace byteps::machine
