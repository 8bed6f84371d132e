#include "src/device/copy_line.h"

#include <algorithm>
#include <utility>

namespace byteps::device {

CopyLine::CopyLine(Device& device) : device_(device), thread_([this] { Run(); }) {}

CopyLine::~CopyLine() {
  {
    MutexLock lock(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void CopyLine::Copy(uint64_t owner, std::byte* to, const std::byte* from, size_t bytes, Done done) {
  MutexLock lock(mutex_);
  queue_.push_back({owner, to, from, bytes, std::move(done), false, Status::Ok()});
  changed_.notify_all();
}

bool CopyLine::IsUnderWay(uint64_t owner) const {
  return std::ranges::any_of(batches_, [&](const Batch& batch) {
    return std::ranges::any_of(batch, [&](const Job& job) { return job.owner == owner; });
  });
}

void CopyLine::CallOff(uint64_t owner, std::function<void()> over) {
  std::vector<Job> dropped;  // destroyed outside of the lock
  {
    MutexLock lock(mutex_);
    for (Job& job : queue_) {
      if (job.owner == owner) dropped.push_back(std::move(job));
    }
    std::erase_if(queue_, [&](const Job& job) { return job.owner == owner; });
    if (IsUnderWay(owner)) {
      for (Batch& batch : batches_) {
        for (Job& job : batch) job.off = job.off || job.owner == owner;
      }
      called_off_.push_back({owner, std::move(over)});
      return;
    }
  }
  over();
}

Status CopyLine::Prepare(std::unique_ptr<CopyStream>& stream) {
  Status entered = device_.Enter();
  if (!entered.ok()) return entered;
  Result<std::unique_ptr<CopyStream>> made = device_.NewCopyStream();
  if (!made.ok()) return made.status();
  stream = std::move(made).value();
  return Status::Ok();
}

// Moves the next copies into the batch. Waits for some if none is under way. Returns false at the
// end.
bool CopyLine::TakeJobs(Batch& batch, bool under_way) {
  MutexLock lock(mutex_);
  while (queue_.empty() && !under_way && !ends_) lock.Wait(changed_);
  size_t bytes = 0;
  while (!queue_.empty() && batch.size() < kBatchCopies && bytes < kBatchBytes) {
    bytes += queue_.front().bytes;
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  return !batch.empty() || under_way;
}

void CopyLine::Begin(Batch& batch, int number, CopyStream& stream) {
  for (size_t first = 0; first < batch.size();) {
    size_t end = first + 1;
    size_t bytes = batch[first].bytes;
    while (end < batch.size() && batch[end].to == batch[first].to + bytes &&
           batch[end].from == batch[first].from + bytes) {
      bytes += batch[end++].bytes;
    }
    Status begun = stream.Copy(batch[first].to, batch[first].from, bytes);
    for (; first < end; ++first) batch[first].status = begun;
  }
  Status closed = stream.Close(number);
  if (closed.ok()) return;
  stream.Drain();
  for (Job& job : batch) job.status = closed;
}

// Waits for a batch and tells the owners of its copies. A copy stays in the batch until its owner
// has been told, so that CallOff sees it.
void CopyLine::Finish(int number, CopyStream* stream) {
  Batch& batch = batches_[number];
  Status ended = stream == nullptr ? Status::Ok() : stream->Wait(number);
  if (!ended.ok()) stream->Drain();
  for (Job& job : batch) {
    if (job.status.ok()) job.status = ended;
    Done done;
    {
      MutexLock lock(mutex_);
      if (!job.off) done = std::move(job.done);
    }
    if (done != nullptr) done(job.status);
  }
  Batch over;
  std::vector<CalledOff> tell;
  {
    MutexLock lock(mutex_);
    over.swap(batch);
    auto is_under_way = [&](const CalledOff& off)
                            BYTEPS_NO_THREAD_SAFETY_ANALYSIS { return IsUnderWay(off.owner); };
    auto rest = std::stable_partition(called_off_.begin(), called_off_.end(), is_under_way);
    std::move(rest, called_off_.end(), std::back_inserter(tell));
    called_off_.erase(rest, called_off_.end());
  }
  for (CalledOff& off : tell) off.over();
}

void CopyLine::Run() {
  std::unique_ptr<CopyStream> stream;
  Status prepared = Prepare(stream);
  int number = 0;
  bool under_way = false;
  while (TakeJobs(batches_[number], under_way)) {
    Batch& batch = batches_[number];
    if (!prepared.ok()) {
      for (Job& job : batch) job.status = prepared;
    } else if (!batch.empty()) {
      Begin(batch, number, *stream);
    }
    const int before = (number + 1) % CopyStream::kBatches;
    if (under_way) Finish(before, stream.get());
    under_way = !batch.empty();
    number = before;
  }
}

}  // namespace byteps::device
