#include "src/transport/transport_conformance.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace byteps::transport {

std::vector<std::byte> Bytes(size_t size, uint8_t seed) {
  std::vector<std::byte> bytes(size);
  uint64_t state = seed + uint64_t{1};
  for (size_t at = 0; at < size; at += sizeof(state)) {
    state = state * 6364136223846793005 + 1442695040888963407;
    std::memcpy(bytes.data() + at, &state, std::min(sizeof(state), size - at));
  }
  return bytes;
}

bool Same(ConstByteSpan left, ConstByteSpan right) {
  if (left.size() != right.size()) return false;
  return left.empty() || std::memcmp(left.data(), right.data(), left.size()) == 0;
}

LoopThread::LoopThread(Transport& transport)
    : loop_(transport.MakeLoop()), thread_([this] { loop_->Run(); }) {}

LoopThread::~LoopThread() {
  loop_->Stop();
  thread_.join();
}

bool LoopThread::RunUntil(const std::function<bool()>& condition) {
  auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (Do(condition)) return true;
    std::this_thread::yield();
  }
  return false;
}

Result<ByteSpan> Recorder::OnHeader(uint8_t kind, ConstByteSpan header, size_t payload_bytes) {
  current_.kind = kind;
  current_.header.assign(reinterpret_cast<const char*>(header.data()), header.size());
  if (on_header) return on_header(kind, payload_bytes);
  buffer_.resize(payload_bytes);
  return ByteSpan(buffer_);
}

void Recorder::OnFrame() {
  {
    MutexLock lock(mutex_);
    ++count_;
    if (keep_payloads) {
      current_.payload = on_header ? std::vector<std::byte>() : buffer_;
      frames_.push_back(current_);
    }
    changed_.notify_all();
  }
  if (on_frame) on_frame();
}

void Recorder::OnClosed(const Status& why) {
  {
    MutexLock lock(mutex_);
    ++closed_;
    why_ = why;
    changed_.notify_all();
  }
  if (on_closed) on_closed();
}

template <typename Condition>
bool Recorder::WaitFor(Condition condition) {
  auto deadline = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(mutex_);
  while (!condition()) {
    if (!lock.WaitUntil(changed_, deadline)) return condition();
  }
  return true;
}

bool Recorder::WaitForFrames(size_t count) {
  return WaitFor([&]() BYTEPS_NO_THREAD_SAFETY_ANALYSIS { return count_ >= count; });
}

bool Recorder::WaitForClosed() {
  return WaitFor([&]() BYTEPS_NO_THREAD_SAFETY_ANALYSIS { return closed_ > 0; });
}

size_t Recorder::frame_count() {
  MutexLock lock(mutex_);
  return count_;
}

std::vector<Recorder::Frame> Recorder::frames() {
  MutexLock lock(mutex_);
  return frames_;
}

int Recorder::closed_count() {
  MutexLock lock(mutex_);
  return closed_;
}

Status Recorder::why() {
  MutexLock lock(mutex_);
  return why_;
}

OutFrame MakeFrame(uint8_t kind, std::string_view header, ConstByteSpan payload, int64_t urgency) {
  OutFrame frame;
  frame.kind = kind;
  frame.header_bytes = static_cast<uint32_t>(header.size());
  std::memcpy(frame.header, header.data(), header.size());
  frame.payload = payload;
  frame.urgency = urgency;
  return frame;
}

End::~End() { Destroy(); }

void End::Start(size_t payload_bytes_max) {
  thread_->Do([&] {
    connection_->SetLimits({payload_bytes_max});
    connection_->Start(&recorder_);
  });
}

void End::Send(uint8_t kind, std::string_view header, ConstByteSpan payload, int64_t urgency) {
  thread_->Do([&] { connection_->Send(MakeFrame(kind, header, payload, urgency)); });
}

void End::Close() {
  thread_->Do([&] { connection_->Close(); });
}

void End::CloseAfterFlush(Duration patience) {
  thread_->Do([&] { connection_->CloseAfterFlush(patience); });
}

void End::Destroy() {
  thread_->Do([&] { connection_.reset(); });
}

TransportConformance::TransportConformance()
    : transport_(GetParam().make()),
      server_thread_(*transport_),
      client_thread_(*transport_),
      server_(server_thread_),
      client_(client_thread_) {}

TransportConformance::~TransportConformance() = default;

const std::vector<std::byte>& TransportConformance::Payload(size_t size, uint8_t seed) {
  return payloads_.emplace_back(Bytes(size, seed));
}

void TransportConformance::Connect() {
  std::promise<std::unique_ptr<Connection>> accepted;
  std::promise<Result<std::unique_ptr<Connection>>> connected;
  auto listener = server_thread_.Do([&] {
    return ServerLoop().Listen(GetParam().listen, [&](std::unique_ptr<Connection> connection) {
      accepted.set_value(std::move(connection));
    });
  });
  ASSERT_TRUE(listener.ok()) << listener.status().ToString();
  std::string address = listener.value()->Address();
  client_thread_.Do([&] {
    ClientLoop().Connect(address, kPatience, [&](Result<std::unique_ptr<Connection>> result) {
      connected.set_value(std::move(result));
    });
  });
  auto server = accepted.get_future();
  auto client = connected.get_future();
  ASSERT_EQ(server.wait_for(kPatience), std::future_status::ready);
  ASSERT_EQ(client.wait_for(kPatience), std::future_status::ready);
  auto result = client.get();
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  client_.connection() = std::move(result.value());
  server_.connection() = server.get();
  server_thread_.Do([&] { listener.value().reset(); });
}

void TransportConformance::ConnectAndStart() {
  Connect();
  if (!HasFatalFailure()) Start();
}

void TransportConformance::Start() {
  server_.Start();
  client_.Start();
}

}  // namespace byteps::transport
