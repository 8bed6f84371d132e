#include "src/device/group_line.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <new>
#include <optional>
#include <utility>

#include "src/base/text.h"
#include "src/base/thread_annotations.h"

namespace byteps::device {
namespace {

constexpr Duration kAskEvery = milliseconds(100);  // for errors, while launches are under way
constexpr Duration kPauseMin = microseconds(20);   // between two questions whether a call has ended
constexpr Duration kPauseMax = milliseconds(1);

static_assert(CopyStream::kBatches == 2, "launches alternate between two batches");

Time Now() { return std::chrono::steady_clock::now(); }

}  // namespace

struct GroupLine::State {
  struct Job {
    Launch launch;
    Done done;
  };
  enum class Phase : uint8_t { kMeeting, kOpen, kLeaving, kAborting };

  // The permission to call the library. One thread has it at a time. While the line aborts, only
  // the thread that aborts gets it. Nobody gets it when the line has ended.
  class Call {
   public:
    explicit Call(State& state) : state_(state) {
      MutexLock lock(state.mutex);
      while (state.in_call && state.MayCall()) lock.Wait(state.changed);
      may_ = state.MayCall();
      if (may_) state.in_call = true;
    }
    ~Call() {
      if (!may_) return;
      MutexLock lock(state_.mutex);
      state_.in_call = false;
      state_.changed.notify_all();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    bool may() const { return may_; }

   private:
    State& state_;
    bool may_ = false;
  };

  State(std::shared_ptr<Device> of, std::shared_ptr<Groups> library, GroupPlace at, Owner hears,
        const Limits& all_limits)
      : device(std::move(of)),
        groups(std::move(library)),
        place(std::move(at)),
        owner(std::move(hears)),
        limits(all_limits),
        meets_until(Now() + all_limits.meet) {}

  // Any thread.
  void Submit(Launch launch, Done done);
  void Fail(const Status& reason, bool by_itself);
  bool BeginToLeave();
  Status LeftAlone() const {
    return {StatusCode::kShutdown, Where() + " has left its group alone"};
  }
  bool AwaitEnd();
  void Silence();
  bool MayCall() BYTEPS_REQUIRES(mutex) { return phase != Phase::kAborting && !is_over; }
  void Tell(const Done& done, const Status& status);
  Status reason();
  std::string Where() const;

  // The line's thread.
  void RunLine();
  Status MeetOthers();
  Status Join();
  Status AwaitLibrary();
  bool Open();
  Status Work();
  bool TakeJob(int number);
  Status BeginJob(int number);
  Status FinishJob(int number);
  Status LeaveOthers();
  void EndAborted();

  // The thread that asks for errors and aborts.
  void RunKeeper();
  bool AwaitQuestion();
  void AskForErrors();

  // The thread that keeps the limits.
  enum class Duty : uint8_t { kEnd, kEndMeeting, kTellAborted, kWarn };
  void RunWatch();
  Duty AwaitDuty();
  void TellAborted();

  const std::shared_ptr<Device> device;  // see the constructor of GroupLine
  const std::shared_ptr<Groups> groups;  // the same
  const GroupPlace place;
  const Owner owner;
  const Limits limits;
  const Time meets_until;
  const Status no_memory{StatusCode::kExhausted, "the host has no memory to begin a launch"};
  std::unique_ptr<Communicator> communicator;  // of the thread that has the call
  // The line's thread has the stream, and the launches that are under way in its batches.
  std::unique_ptr<CopyStream> stream;
  std::optional<Job> under_way[CopyStream::kBatches];

  Mutex mutex;
  std::condition_variable changed;
  Phase phase BYTEPS_GUARDED_BY(mutex) = Phase::kMeeting;
  bool in_call BYTEPS_GUARDED_BY(mutex) = false;
  std::deque<Job> queue BYTEPS_GUARDED_BY(mutex);
  bool is_busy BYTEPS_GUARDED_BY(mutex) = false;    // a launch is under way
  bool is_over BYTEPS_GUARDED_BY(mutex) = false;    // the line's thread has ended
  bool is_silent BYTEPS_GUARDED_BY(mutex) = false;  // the owner hears nothing any more
  // Of a line that aborts:
  Status why BYTEPS_GUARDED_BY(mutex);
  Time aborts_since BYTEPS_GUARDED_BY(mutex);
  bool was_meeting BYTEPS_GUARDED_BY(mutex) = false;
  bool has_broken BYTEPS_GUARDED_BY(mutex) = false;  // by itself
  bool is_told BYTEPS_GUARDED_BY(mutex) = false;     // the owner knows
  bool has_warned BYTEPS_GUARDED_BY(mutex) = false;
  bool is_aborted BYTEPS_GUARDED_BY(mutex) = false;  // nothing is left in the library
};

GroupLine::GroupLine(std::shared_ptr<Device> device, std::shared_ptr<Groups> groups,
                     GroupPlace place, Owner owner, const Limits& limits)
    : state_(std::make_shared<State>(std::move(device), std::move(groups), std::move(place),
                                     std::move(owner), limits)),
      threads_(limits.end) {
  try {
    threads_.Start([state = state_] { state->RunWatch(); });
    threads_.Start([state = state_] { state->RunKeeper(); });
    threads_.Start([state = state_] { state->RunLine(); });
  } catch (...) {
    state_->Silence();
    threads_.End();
    throw;
  }
}

GroupLine::~GroupLine() {
  if (!state_->BeginToLeave() || !state_->AwaitEnd()) {
    state_->Fail(state_->LeftAlone(), false);
    state_->AwaitEnd();
  }
  state_->Silence();
  threads_.End();
}

void GroupLine::Reduce(const std::byte* from, std::byte* to, std::vector<GroupRun> runs,
                       DataType type, Combine how, Done done) {
  state_->Submit({Launch::Kind::kReduce, from, to, std::move(runs), 0, type, how}, std::move(done));
}

void GroupLine::ReduceAll(const std::byte* from, std::byte* to, size_t bytes, DataType type,
                          Combine how, Done done) {
  state_->Submit({Launch::Kind::kReduceAll, from, to, {}, bytes, type, how}, std::move(done));
}

void GroupLine::Gather(std::byte* memory, std::vector<GroupRun> runs, Done done) {
  state_->Submit({Launch::Kind::kGather, memory, memory, std::move(runs)}, std::move(done));
}

void GroupLine::Leave() {
  if (!state_->BeginToLeave()) state_->Fail(state_->LeftAlone(), false);
}

void GroupLine::Abort(const Status& why) { state_->Fail(why, false); }

void GroupLine::State::Submit(Launch launch, Done done) {
  MutexLock lock(mutex);
  queue.push_back({std::move(launch), std::move(done)});
  changed.notify_all();
}

// Begins to abort. The first reason stays.
void GroupLine::State::Fail(const Status& reason, bool by_itself) {
  MutexLock lock(mutex);
  if (phase == Phase::kAborting) return;
  was_meeting = phase == Phase::kMeeting;
  has_broken = by_itself && !was_meeting;  // also while it leaves: others may wait in a launch
  phase = Phase::kAborting;
  why = reason;
  aborts_since = Now();
  changed.notify_all();
}

// Begins to leave an open group. Returns false if the ranks have not met.
bool GroupLine::State::BeginToLeave() {
  MutexLock lock(mutex);
  if (phase == Phase::kMeeting) return false;
  if (phase == Phase::kOpen) phase = Phase::kLeaving;
  changed.notify_all();
  return true;
}

bool GroupLine::State::AwaitEnd() {
  const Time deadline = Now() + limits.end;
  MutexLock lock(mutex);
  while (!is_over || (phase == Phase::kAborting && !is_told)) {
    if (!lock.WaitUntil(changed, deadline)) return false;
  }
  return true;
}

void GroupLine::State::Silence() {
  MutexLock lock(mutex);
  is_silent = true;
  changed.notify_all();
}

void GroupLine::State::Tell(const Done& done, const Status& status) {
  {
    MutexLock lock(mutex);
    if (is_silent) return;
  }
  done(status);
}

Status GroupLine::State::reason() {
  MutexLock lock(mutex);
  return why;
}

std::string GroupLine::State::Where() const {
  return "rank " + std::to_string(place.rank) + " of a group of " + std::to_string(place.size) +
         " on " + place.device;
}

void GroupLine::State::RunLine() {
  Status met = MeetOthers();
  if (!met.ok()) {
    Fail(met, true);
  } else if (Open()) {
    Tell(owner.met, Status::Ok());
    Status left = Work();
    if (!left.ok()) Fail(left, true);
  }
  EndAborted();
  communicator.reset();
  stream.reset();
  {
    MutexLock lock(mutex);
    is_over = true;
    changed.notify_all();
    if (is_silent || owner.ended == nullptr) return;
  }
  owner.ended();
}

Status GroupLine::State::MeetOthers() {
  try {
    Status entered = device->Enter();
    if (!entered.ok()) return entered;
    Result<std::unique_ptr<CopyStream>> made = device->NewCopyStream();
    if (!made.ok()) return made.status();
    stream = std::move(made).value();
    Status joined = Join();
    return joined.ok() ? AwaitLibrary() : joined;
  } catch (const std::bad_alloc&) {
    return no_memory;
  }
}

Status GroupLine::State::Join() {
  const Call call(*this);
  if (!call.may()) return reason();
  Result<std::unique_ptr<Communicator>> joined = groups->Join(place.id, place.rank, place.size);
  if (!joined.ok()) return joined.status();
  communicator = std::move(joined).value();
  return Status::Ok();
}

// Asks until the last call has ended.
Status GroupLine::State::AwaitLibrary() {
  const Time begun = Now();
  for (;;) {
    {
      const Call call(*this);
      if (!call.may()) return reason();
      Result<bool> ended = communicator->Ask();
      if (!ended.ok()) return ended.status();
      if (ended.value()) return Status::Ok();
    }
    const Time now = Now();
    const Time until = now + std::clamp((now - begun) / 4, kPauseMin, kPauseMax);
    MutexLock lock(mutex);
    while (phase != Phase::kAborting && lock.WaitUntil(changed, until)) {
    }
  }
}

bool GroupLine::State::Open() {
  MutexLock lock(mutex);
  if (phase != Phase::kMeeting) return false;
  phase = Phase::kOpen;
  return true;
}

// Does launches until the owner lets go of the line, and leaves then. Returns an error if the line
// must abort.
Status GroupLine::State::Work() {
  for (int number = 0; TakeJob(number); number = 1 - number) {
    Status status;
    if (under_way[number].has_value()) status = BeginJob(number);
    if (status.ok() && under_way[1 - number].has_value()) status = FinishJob(1 - number);
    if (!status.ok()) return status;
  }
  return LeaveOthers();
}

// Moves the next launch into the batch. Waits for one if the other batch is empty. Returns false at
// the end.
bool GroupLine::State::TakeJob(int number) {
  const bool has_other = under_way[1 - number].has_value();
  MutexLock lock(mutex);
  is_busy = has_other;
  while (queue.empty() && !has_other && phase == Phase::kOpen) lock.Wait(changed);
  if (phase == Phase::kAborting) return false;
  if (queue.empty()) return has_other;
  under_way[number] = std::move(queue.front());
  queue.pop_front();
  is_busy = true;
  changed.notify_all();
  return true;
}

Status GroupLine::State::BeginJob(int number) {
  try {
    {
      const Call call(*this);
      if (!call.may()) return reason();
      Status begun = communicator->Begin(under_way[number]->launch, *stream);
      if (!begun.ok()) return begun;
    }
    Status given = AwaitLibrary();
    return given.ok() ? stream->Close(number) : given;
  } catch (const std::bad_alloc&) {
    return no_memory;
  }
}

// Waits for the end of a launch. It has succeeded if the library has no error behind it: a kernel
// may also end because of an error.
Status GroupLine::State::FinishJob(int number) {
  Status ended = stream->Wait(number);
  if (ended.ok()) ended = AwaitLibrary();
  if (!ended.ok()) return ended;
  Tell(std::exchange(under_way[number], std::nullopt)->done, ended);
  return ended;
}

Status GroupLine::State::LeaveOthers() {
  {
    const Call call(*this);
    if (!call.may()) return reason();
    if (Status left = communicator->Leave(); !left.ok()) return left;
  }
  return AwaitLibrary();
}

// Ends all calls. Behind an abort: tells the owners of launches when nothing touches their memory.
void GroupLine::State::EndAborted() {
  {
    MutexLock lock(mutex);
    while (in_call && phase != Phase::kAborting) lock.Wait(changed);
    if (phase != Phase::kAborting) {
      in_call = true;  // for ever
      return;
    }
    while (!is_aborted) lock.Wait(changed);
  }
  if (stream != nullptr) stream->Drain();
  for (std::optional<Job>& job : under_way) {
    if (job.has_value()) Tell(job->done, reason());
    job.reset();
  }
}

void GroupLine::State::RunKeeper() {
  while (AwaitQuestion()) AskForErrors();
  {
    MutexLock lock(mutex);
    while (phase == Phase::kAborting && in_call && !is_over) lock.Wait(changed);
    if (phase != Phase::kAborting || is_over) return;
    in_call = true;
  }
  if (communicator != nullptr) {
    // A broken device cannot be entered. The library must hear of the end nevertheless.
    static_cast<void>(device->Enter());
    communicator->Abort();
  }
  MutexLock lock(mutex);
  is_aborted = true;
  changed.notify_all();
}

// Waits for the time of the next question. Returns false if the line aborts or has ended.
bool GroupLine::State::AwaitQuestion() {
  const Time next = Now() + kAskEvery;
  MutexLock lock(mutex);
  while (phase != Phase::kAborting && !is_over && !is_silent) {
    if (!is_busy) {
      lock.Wait(changed);
    } else if (!lock.WaitUntil(changed, next)) {
      return true;
    }
  }
  return false;
}

void GroupLine::State::AskForErrors() {
  Status status;
  {
    const Call call(*this);
    if (!call.may()) return;
    status = communicator->Ask().status();
  }
  if (!status.ok()) Fail(status, true);
}

void GroupLine::State::RunWatch() {
  for (;;) {
    switch (AwaitDuty()) {
      case Duty::kEnd: return;
      case Duty::kEndMeeting:
        Fail({StatusCode::kDeadlineExceeded,
              Where() + " has waited " + DurationText(limits.meet) +
                  " for the other ranks: one of them is missing, or " + groups->name() +
                  " does not reach it; look at the logs of the other ranks, and at that of " +
                  groups->name()},
             true);
        break;
      case Duty::kTellAborted: TellAborted(); break;
      case Duty::kWarn:
        owner.warn(Where() + " has aborted the group, but " + groups->name() +
                   " does not return for " + DurationText(limits.abort) +
                   ": probably another rank of this machine has not aborted. The operations under "
                   "way stay open, because the GPU may still use their memory; end this process");
        break;
    }
  }
}

// Waits until there is something to do for the thread that keeps the limits.
GroupLine::State::Duty GroupLine::State::AwaitDuty() {
  MutexLock lock(mutex);
  for (;;) {
    const Time now = Now();
    const bool is_aborting = phase == Phase::kAborting;
    const bool may_warn = is_aborting && !is_over && !has_warned;
    const Time warns_at = aborts_since + limits.abort;
    if (is_silent) return Duty::kEnd;
    if (phase == Phase::kMeeting && now >= meets_until) return Duty::kEndMeeting;
    if (is_aborting && (!is_told || !queue.empty())) return Duty::kTellAborted;
    if (may_warn && now >= warns_at) {
      has_warned = true;
      return Duty::kWarn;
    }
    if (phase == Phase::kMeeting) {
      lock.WaitUntil(changed, meets_until);
    } else if (may_warn) {
      lock.WaitUntil(changed, warns_at);
    } else {
      lock.Wait(changed);
    }
  }
}

// Tells the owner that the line aborts, and ends all that was not begun.
void GroupLine::State::TellAborted() {
  std::deque<Job> dropped;
  const Done* first = nullptr;
  Status status;
  {
    MutexLock lock(mutex);
    dropped.swap(queue);
    status = why;
    if (!is_told && was_meeting) first = &owner.met;
    if (!is_told && has_broken) first = &owner.broken;
  }
  if (first != nullptr) Tell(*first, status);
  for (const Job& job : dropped) Tell(job.done, status);
  MutexLock lock(mutex);
  is_told = true;
  changed.notify_all();
}

}  // namespace byteps::device
