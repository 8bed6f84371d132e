#include "src/base/log_writer.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "src/base/thread_annotations.h"

namespace byteps {
namespace {

// Loses the text if the descriptor cannot be written to, because there is no other place to report
// it.
void WriteAll(int descriptor, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    ssize_t count = ::write(descriptor, text.data() + done, text.size() - done);
    if (count >= 0) {
      done += static_cast<size_t>(count);
    } else if (errno == EAGAIN) {  // somebody has made it non-blocking
      pollfd room{descriptor, POLLOUT, 0};
      ::poll(&room, 1, -1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

}  // namespace

struct LogWriter::State : std::enable_shared_from_this<LogWriter::State> {
  struct Line {
    Stream stream = Stream::kErr;
    std::string text;
    uint64_t dropped = 0;  // after this line
  };

  State(int out_descriptor, int err_descriptor) : out(out_descriptor), err(err_descriptor) {}

  void Run();
  int DescriptorOf(Stream stream) const { return stream == Stream::kOut ? out : err; }
  void Start() BYTEPS_REQUIRES(mutex);

  const int out;
  const int err;
  Mutex mutex;
  std::condition_variable changed;
  std::deque<Line> queue BYTEPS_GUARDED_BY(mutex);
  size_t queued_bytes BYTEPS_GUARDED_BY(mutex) = 0;
  uint64_t taken BYTEPS_GUARDED_BY(mutex) = 0;    // lines, since the beginning
  uint64_t written BYTEPS_GUARDED_BY(mutex) = 0;  // the same
  bool ends BYTEPS_GUARDED_BY(mutex) = false;
  bool cannot_start BYTEPS_GUARDED_BY(mutex) = false;
  std::thread thread BYTEPS_GUARDED_BY(mutex);
};

void LogWriter::State::Run() {
  for (;;) {
    Line line;
    {
      MutexLock lock(mutex);
      while (queue.empty() && !ends) lock.Wait(changed);
      if (queue.empty()) return;
      line = std::move(queue.front());
      queue.pop_front();
    }
    WriteAll(DescriptorOf(line.stream), line.text);
    if (line.dropped > 0) {
      WriteAll(DescriptorOf(line.stream), "[" + std::to_string(line.dropped) +
                                              (line.dropped == 1 ? " line is" : " lines are") +
                                              " missing here: nobody read the output]\n");
    }
    MutexLock lock(mutex);
    queued_bytes -= line.text.size();
    ++written;
    changed.notify_all();
  }
}

LogWriter::LogWriter(int out, int err) : state_(std::make_shared<State>(out, err)) {}

LogWriter::~LogWriter() {
  bool all = Flush(kLastWordsLimit);
  std::thread thread;
  {
    MutexLock lock(state_->mutex);
    state_->ends = true;
    if (!all) state_->queue.clear();
    state_->changed.notify_all();
    thread.swap(state_->thread);
  }
  if (!thread.joinable()) return;
  all ? thread.join() : thread.detach();
}

void LogWriter::Write(Stream stream, std::string line) {
  State& state = *state_;
  {
    MutexLock lock(state.mutex);
    if (!state.thread.joinable() && !state.cannot_start) state.Start();
    if (!state.cannot_start) {
      bool fits = state.queued_bytes + line.size() <= kQueuedBytesMax || state.queue.empty();
      if (!fits) return ++state.queue.back().dropped, void();
      state.queued_bytes += line.size();
      ++state.taken;
      state.queue.push_back({stream, std::move(line), 0});
      return state.changed.notify_all();
    }
  }
  WriteAll(state.DescriptorOf(stream), line);  // better late than never
}

// Starts the thread with all signals blocked, because signals are for the threads of the program.
// So a pipe without a reader is an error here and does not end the process.
void LogWriter::State::Start() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread = std::thread([self = shared_from_this()] { self->Run(); });
  } catch (const std::system_error&) {
    cannot_start = true;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool LogWriter::Flush(Duration limit) {
  auto until = std::chrono::steady_clock::now() + limit;
  MutexLock lock(state_->mutex);
  uint64_t last = state_->taken;
  while (state_->written < last) {
    if (!lock.WaitUntil(state_->changed, until) && state_->written < last) return false;
  }
  return true;
}

}  // namespace byteps
