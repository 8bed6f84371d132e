// Streams and events of the stand-in. Each stream is a thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <cuda.h>

namespace byteps::standin {

class StreamThread;
// Work of a stream: what it had been given up to this count.
struct Point {
  std::shared_ptr<StreamThread> stream;
  uint64_t count = 0;
};

// Does what it is given, one after the other, on a thread of its own. Thread-safe; shared by its
// handle and by the points in it.
class StreamThread {
 public:
  explicit StreamThread(std::function<void()> before_each);
  // REQUIRES: End was called.
  ~StreamThread();
  // Does `work` when all of `first` and all that was given before is done.
  void Give(std::vector<Point> first, std::function<void()> work);
  uint64_t given();
  // Blocks until the stream has done the first `count` items.
  void WaitFor(uint64_t count);
  void Drain() { WaitFor(given()); }
  // Blocks until all is done, and ends the thread.
  void End();

 private:
  struct Item {
    std::vector<Point> first;
    std::function<void()> work;
  };
  void Run();

  const std::function<void()> before_each_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
  uint64_t given_ = 0;
  uint64_t done_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

// An event and the streams that reach it share its state.
struct EventState {
  std::mutex mutex;
  std::condition_variable changed;
  uint64_t recorded = 0;
  uint64_t reached = 0;
  CUresult error = CUDA_SUCCESS;
  bool captured = false;
};

}  // namespace byteps::standin

struct CUstream_st {
  std::shared_ptr<byteps::standin::StreamThread> thread;
  bool is_blocking = true;  // waits for the default stream, and the default stream for it
  int device = 0;
  bool is_capturing = false;
  bool is_capture_broken = false;
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  std::thread::id capturer;
  // Opened by stand_in_let_go.
  std::deque<std::shared_ptr<byteps::standin::EventState>> holds;
};

struct CUevent_st {
  int device = 0;
  std::shared_ptr<byteps::standin::EventState> state =
      std::make_shared<byteps::standin::EventState>();
};

struct CUctx_st {
  int device = 0;
  int held = 0;
};
