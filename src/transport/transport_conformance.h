// Tests of the contract of every transport. A backend joins with one line in its own *_test.cc:
//
//   INSTANTIATE_TEST_SUITE_P(Inproc, TransportConformance, ::testing::Values(Backend{...}));
//
// The tests are in conformance_*_test.cc; this header has their common helpers.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "src/base/thread_annotations.h"
#include "src/transport/transport.h"

namespace byteps::transport {

struct Backend {
  std::string name;
  std::function<std::unique_ptr<Transport>()> make;
  std::string listen;  // an address with port 0
  std::string nobody;  // an address on which nobody listens
  // Whether connections may move once frames have passed (Connection::MoveTo).
  bool moves = true;
};

inline void PrintTo(const Backend& backend, std::ostream* out) { *out << backend.name; }

// The longest wait of a test, long enough for sanitizers on a busy machine.
inline constexpr auto kPatience = std::chrono::seconds(60);

inline constexpr size_t kMegabyte = size_t{1} << 20;

// Both functions work on many bytes at a time, because single bytes would be slow under a
// sanitizer.
std::vector<std::byte> Bytes(size_t size, uint8_t seed);
bool Same(ConstByteSpan left, ConstByteSpan right);

// A loop and its thread.
class LoopThread {
 public:
  explicit LoopThread(Transport& transport);
  ~LoopThread();
  Loop& loop() { return *loop_; }

  // Runs `work` on the loop's thread and waits for its result.
  template <typename Work>
  auto Do(Work work) {
    std::packaged_task<decltype(work())()> task(std::move(work));
    auto result = task.get_future();
    // The reference is safe, because this function waits for the future, or the program ends.
    loop_->Post([&task] { task(); });
    if (result.wait_for(kPatience) != std::future_status::ready) {
      ADD_FAILURE() << "the loop does not run what is posted";
      std::abort();
    }
    return result.get();
  }

  // Runs passes of the loop until `condition`, which runs on its thread, holds.
  bool RunUntil(const std::function<bool()>& condition);

 private:
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

// Keeps the calls of a connection. Thread-safe; the hooks run on the loop's thread and must be set
// before Start.
class Recorder final : public FrameReceiver {
 public:
  struct Frame {
    uint8_t kind;
    std::string header;
    std::vector<std::byte> payload;
  };

  Result<ByteSpan> OnHeader(uint8_t kind, ConstByteSpan header, size_t payload_bytes) override;
  void OnFrame() override;
  void OnClosed(const Status& why) override;

  // Each blocks up to kPatience and returns whether the event came.
  bool WaitForFrames(size_t count);
  bool WaitForClosed();

  size_t frame_count();
  std::vector<Frame> frames();
  int closed_count();
  Status why();

  // Answers a header in place of the recorder's own buffer.
  std::function<Result<ByteSpan>(uint8_t kind, size_t payload_bytes)> on_header;
  std::function<void()> on_frame;
  std::function<void()> on_closed;
  // If false, the recorder counts frames and does not keep them.
  bool keep_payloads = true;

 private:
  template <typename Condition>
  bool WaitFor(Condition condition);

  Frame current_;
  std::vector<std::byte> buffer_;
  Mutex mutex_;
  std::condition_variable changed_;
  std::vector<Frame> frames_ BYTEPS_GUARDED_BY(mutex_);
  size_t count_ BYTEPS_GUARDED_BY(mutex_) = 0;
  int closed_ BYTEPS_GUARDED_BY(mutex_) = 0;
  Status why_ BYTEPS_GUARDED_BY(mutex_);
};

OutFrame MakeFrame(uint8_t kind, std::string_view header, ConstByteSpan payload = {},
                   int64_t urgency = 0);

// One end of a connection in a test, with its recorder. The connection ends on its loop.
class End {
 public:
  explicit End(LoopThread& thread) : thread_(&thread) {}
  ~End();

  LoopThread& thread() { return *thread_; }
  Recorder& recorder() { return recorder_; }
  // Must be called on the loop's thread.
  std::unique_ptr<Connection>& connection() { return connection_; }

  void Start(size_t payload_bytes_max = size_t{1} << 30);
  void Send(uint8_t kind, std::string_view header, ConstByteSpan payload = {}, int64_t urgency = 0);
  void Close();
  void CloseAfterFlush(Duration patience);
  void Destroy();
  // Notes that the connection lives on another thread from now on.
  void Rehome(LoopThread& thread) { thread_ = &thread; }

 private:
  LoopThread* thread_;
  Recorder recorder_;
  std::unique_ptr<Connection> connection_;
};

class TransportConformance : public ::testing::TestWithParam<Backend> {
 protected:
  TransportConformance();
  ~TransportConformance() override;

  // Returns bytes that outlive the connections. A thread checker cannot see order through the
  // network, so for it the sender may still read a frame that has arrived.
  const std::vector<std::byte>& Payload(size_t size, uint8_t seed);

  Loop& ClientLoop() { return client_thread_.loop(); }
  Loop& ServerLoop() { return server_thread_.loop(); }

  // Connects client_ and server_, and does not start them.
  void Connect();
  void Start();
  void ConnectAndStart();

  std::list<std::vector<std::byte>> payloads_;
  std::unique_ptr<Transport> transport_;
  LoopThread server_thread_;
  LoopThread client_thread_;
  End server_;
  End client_;
};

}  // namespace byteps::transport
