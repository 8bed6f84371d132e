#include "src/device/copy_line.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <list>
#include <new>
#include <utility>
#include <vector>

#include "src/base/ring_queue.h"
#include "src/base/thread_annotations.h"

namespace byteps::device {
// The thread allocates nothing of its own while it runs: it could not tell anybody of a failure.
struct CopyLine::State {
  struct Job {
    uint64_t owner = 0;
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    size_t bytes = 0;
    Done done;
    bool off = false;  // guarded by the mutex
    Status status;
  };
  using Batch = std::vector<Job>;
  // An owner that wants to know when its copies are over.
  struct Awaited {
    uint64_t owner;
    std::function<void()> over;
  };

  explicit State(std::shared_ptr<Device> of) : device(std::move(of)) {
    for (Batch& batch : batches) batch.reserve(kBatchCopies);
  }

  void Run();
  Status Prepare();
  bool TakeJobs(int number, bool under_way);
  void Begin(Batch& batch, int number);
  void BeginCopies(Batch& batch, int number) const;
  void Finish(int number);
  void TellOver();
  bool IsUnderWay(uint64_t owner) const BYTEPS_REQUIRES(mutex);
  bool HasCopy(uint64_t owner) BYTEPS_REQUIRES(mutex);
  std::vector<Job> TakeOut(uint64_t owner) BYTEPS_REQUIRES(mutex);

  const std::shared_ptr<Device> device;  // see the constructor of CopyLine
  const Status no_memory{StatusCode::kExhausted, "the host has no memory to begin a copy"};
  std::unique_ptr<CopyStream> stream;  // the thread's own
  Mutex mutex;
  std::condition_variable changed;
  RingQueue<Job> queue BYTEPS_GUARDED_BY(mutex);
  // The thread changes a batch under the mutex, and reads its own batches without it.
  Batch batches[CopyStream::kBatches];
  Time since[CopyStream::kBatches] BYTEPS_GUARDED_BY(mutex);  // when a batch began
  std::list<Awaited> awaited BYTEPS_GUARDED_BY(mutex);
  bool has_work BYTEPS_GUARDED_BY(mutex) = false;  // copies that have not ended
  bool ends BYTEPS_GUARDED_BY(mutex) = false;
};

CopyLine::CopyLine(std::shared_ptr<Device> device)
    : state_(std::make_shared<State>(std::move(device))) {
  thread_.Start([state = state_] { state->Run(); });
}

CopyLine::~CopyLine() {
  {
    MutexLock lock(state_->mutex);
    state_->ends = true;
    state_->changed.notify_all();
    while (state_->has_work || !state_->queue.empty()) lock.Wait(state_->changed);
  }
  thread_.End();
}

void CopyLine::Copy(uint64_t owner, std::byte* to, const std::byte* from, size_t bytes, Done done) {
  MutexLock lock(state_->mutex);
  state_->queue.push_back({owner, to, from, bytes, std::move(done), false, Status::Ok()});
  state_->changed.notify_all();
}

bool CopyLine::State::IsUnderWay(uint64_t owner) const {
  return std::ranges::any_of(batches, [&](const Batch& batch) {
    return std::ranges::any_of(batch, [&](const Job& job) { return job.owner == owner; });
  });
}

// Returns whether the owner has a copy that waits or is under way.
bool CopyLine::State::HasCopy(uint64_t owner) {
  for (size_t i = 0; i < queue.size(); ++i) {
    if (queue[i].owner == owner) return true;
  }
  return IsUnderWay(owner);
}

// Takes the owner's copies out of the queue. The others keep their order.
std::vector<CopyLine::State::Job> CopyLine::State::TakeOut(uint64_t owner) {
  std::vector<Job> out;
  out.reserve(queue.size());
  for (size_t left = queue.size(); left > 0; --left) {
    Job job = std::move(queue.front());
    queue.pop_front();
    if (job.owner == owner) {
      out.push_back(std::move(job));
    } else {
      queue.push_back(std::move(job));
    }
  }
  return out;
}

void CopyLine::CallOff(uint64_t owner, std::function<void()> over) {
  std::list<State::Awaited> awaited;
  awaited.push_back({owner, std::move(over)});
  std::vector<State::Job> dropped;  // destroyed outside of the lock
  {
    MutexLock lock(state_->mutex);
    dropped = state_->TakeOut(owner);
    if (state_->IsUnderWay(owner)) {
      for (State::Batch& batch : state_->batches) {
        for (State::Job& job : batch) job.off = job.off || job.owner == owner;
      }
      state_->awaited.splice(state_->awaited.end(), awaited);
      return;
    }
    state_->changed.notify_all();
  }
  awaited.front().over();
}

bool CopyLine::TakeBack(uint64_t owner, const std::byte* to) {
  State::Job dropped;  // destroyed outside of the lock
  bool found = false;
  MutexLock lock(state_->mutex);
  for (size_t left = state_->queue.size(); left > 0; --left) {
    State::Job job = std::move(state_->queue.front());
    state_->queue.pop_front();
    if (!found && job.owner == owner && job.to == to) {
      found = true;
      dropped = std::move(job);
    } else {
      state_->queue.push_back(std::move(job));
    }
  }
  state_->changed.notify_all();
  return found;
}

std::optional<CopyLine::UnderWay> CopyLine::Oldest() {
  std::optional<UnderWay> oldest;
  MutexLock lock(state_->mutex);
  for (size_t i = 0; i < std::size(state_->batches); ++i) {
    const State::Batch& batch = state_->batches[i];
    if (batch.empty()) continue;
    if (oldest.has_value() && oldest->since <= state_->since[i]) continue;
    oldest = {batch.front().owner, state_->since[i]};
  }
  return oldest;
}

void CopyLine::WhenOver(uint64_t owner, std::function<void()> over) {
  std::list<State::Awaited> awaited;
  awaited.push_back({owner, std::move(over)});
  {
    MutexLock lock(state_->mutex);
    if (state_->HasCopy(owner)) {
      state_->awaited.splice(state_->awaited.end(), awaited);
      return;
    }
  }
  awaited.front().over();
}

Status CopyLine::State::Prepare() {
  Status entered = device->Enter();
  if (!entered.ok()) return entered;
  Result<std::unique_ptr<CopyStream>> made = device->NewCopyStream();
  if (!made.ok()) return made.status();
  stream = std::move(made).value();
  return Status::Ok();
}

// Moves the next copies into the batch. Waits for some if none is under way. Returns false at the
// end.
bool CopyLine::State::TakeJobs(int number, bool under_way) {
  Batch& batch = batches[number];
  MutexLock lock(mutex);
  has_work = under_way;
  if (!under_way) changed.notify_all();
  while (queue.empty() && !under_way && !ends) lock.Wait(changed);
  size_t bytes = 0;
  while (!queue.empty() && batch.size() < kBatchCopies && bytes < kBatchBytes) {
    bytes += queue.front().bytes;
    batch.push_back(std::move(queue.front()));
    queue.pop_front();
  }
  if (!batch.empty()) since[number] = std::chrono::steady_clock::now();
  has_work = !batch.empty() || under_way;
  return has_work;
}

void CopyLine::State::BeginCopies(Batch& batch, int number) const {
  for (size_t first = 0; first < batch.size();) {
    size_t end = first + 1;
    size_t bytes = batch[first].bytes;
    while (end < batch.size() && batch[end].to == batch[first].to + bytes &&
           batch[end].from == batch[first].from + bytes) {
      bytes += batch[end++].bytes;
    }
    Status begun = stream->Copy(batch[first].to, batch[first].from, bytes);
    for (; first < end; ++first) batch[first].status = begun;
  }
  Status closed = stream->Close(number);
  if (closed.ok()) return;
  stream->Drain();
  for (Job& job : batch) job.status = closed;
}

// Begins a batch. A line without a stream tries to get one for each batch.
void CopyLine::State::Begin(Batch& batch, int number) {
  try {
    Status prepared = stream == nullptr ? Prepare() : Status::Ok();
    if (prepared.ok()) return BeginCopies(batch, number);
    for (Job& job : batch) job.status = prepared;
  } catch (const std::bad_alloc&) {  // for the text of an error
    if (stream != nullptr) stream->Drain();
    for (Job& job : batch) job.status = no_memory;
  }
}

// Waits for a batch and tells the owners of its copies. A copy stays in the batch until its owner
// has been told, so that CallOff sees it.
void CopyLine::State::Finish(int number) {
  Batch& batch = batches[number];
  Status ended;
  try {
    if (stream != nullptr) ended = stream->Wait(number);
  } catch (const std::bad_alloc&) {
    ended = no_memory;
  }
  if (!ended.ok()) stream->Drain();
  for (Job& job : batch) {
    if (job.status.ok()) job.status = ended;
    Done done;
    bool is_off = false;
    {
      MutexLock lock(mutex);
      done = std::move(job.done);
      is_off = job.off;
    }
    if (!is_off) done(job.status);
  }
  {
    MutexLock lock(mutex);
    batch.clear();
  }
  TellOver();
}

// Tells the owners that wait for the end of their copies, and have none any more.
void CopyLine::State::TellOver() {
  for (;;) {
    std::list<Awaited> over;
    {
      MutexLock lock(mutex);
      auto found = awaited.begin();
      while (found != awaited.end() && HasCopy(found->owner)) ++found;
      if (found == awaited.end()) return;
      over.splice(over.end(), awaited, found);
    }
    over.front().over();
  }
}

void CopyLine::State::Run() {
  int number = 0;
  bool under_way = false;
  while (TakeJobs(number, under_way)) {
    if (!batches[number].empty()) Begin(batches[number], number);
    const int before = (number + 1) % CopyStream::kBatches;
    if (under_way) Finish(before);
    under_way = !batches[number].empty();
    number = before;
  }
  stream.reset();
}

}  // namespace byteps::device
