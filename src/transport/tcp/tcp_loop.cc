#include "src/transport/tcp/tcp_loop.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include <asio/executor_work_guard.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "src/transport/tcp/plain_channel.h"
#include "src/transport/tcp/tcp_connector.h"
#include "src/transport/tcp/tcp_listener.h"
#include "src/transport/tcp/tcp_stream.h"
#include "src/transport/tcp/tls_channel.h"

namespace byteps::transport {
namespace {

constexpr size_t kReadBufferBytes = size_t{64} * 1024;

class TcpTransport final : public Transport {
 public:
  TcpTransport(const TcpOptions& options, std::unique_ptr<ByteChannels> channels)
      : options_(options), channels_(std::move(channels)) {}
  std::unique_ptr<Loop> MakeLoop() override {
    return std::make_unique<TcpLoop>(options_, *channels_);
  }

 private:
  const TcpOptions options_;
  const std::unique_ptr<ByteChannels> channels_;
};

// The user's Timer object and the wait in progress share it, because each may go first.
class TimerState : public std::enable_shared_from_this<TimerState> {
 public:
  TimerState(asio::io_context& io, Duration period, std::function<void()> work)
      : timer_(io), period_(period), work_(std::move(work)) {}

  void Wait(Time when) {
    timer_.expires_at(std::chrono::time_point_cast<asio::steady_timer::duration>(when));
    timer_.async_wait([self = shared_from_this()](const std::error_code&) { self->OnExpiry(); });
  }

  void Cancel() {
    alive_ = false;
    timer_.cancel();
  }

 private:
  void OnExpiry() {
    if (!alive_) return;
    Time expected = timer_.expiry();
    work_();
    if (!alive_ || period_ == Duration::zero()) return;
    // A late loop ticks once, and not once for every tick that it missed.
    Time now = std::chrono::steady_clock::now();
    Wait(std::max<Time>(expected + period_, now));
  }

  asio::steady_timer timer_;
  const Duration period_;
  const std::function<void()> work_;
  bool alive_ = true;
};

class TcpTimer final : public Loop::Timer {
 public:
  explicit TcpTimer(std::shared_ptr<TimerState> state) : state_(std::move(state)) {}
  ~TcpTimer() override { state_->Cancel(); }

 private:
  std::shared_ptr<TimerState> state_;
};

std::unique_ptr<Loop::Timer> StartTimer(asio::io_context& io, Time first, Duration period,
                                        std::function<void()> work) {
  auto state = std::make_shared<TimerState>(io, period, std::move(work));
  state->Wait(first);
  return std::make_unique<TcpTimer>(std::move(state));
}

}  // namespace

std::unique_ptr<Transport> MakeTcpTransport(const TcpOptions& options) {
  return std::make_unique<TcpTransport>(options, MakePlainChannels());
}

Result<std::unique_ptr<Transport>> MakeTlsTransport(const TcpOptions& options, const TlsKey& key) {
  Result<std::unique_ptr<ByteChannels>> channels = MakeTlsChannels(key);
  if (!channels.ok()) return channels.status();
  return std::unique_ptr<Transport>(
      std::make_unique<TcpTransport>(options, std::move(channels).value()));
}

// The hint 1 tells Asio that one thread runs the loop. Other threads may still call Post.
TcpLoop::TcpLoop(const TcpOptions& options, const ByteChannels& channels,
                 std::unique_ptr<BufferSource> source)
    : options_(options),
      channels_(channels),
      source_(std::move(source)),
      buffers_(source_ == nullptr ? HeapMemory() : *source_),
      io_(1),
      opens_(io_),
      resolver_(io_),
      read_buffer_(kReadBufferBytes) {}

TcpLoop::~TcpLoop() = default;

void TcpLoop::Run() {
  thread_.store(std::this_thread::get_id());
  auto guard = asio::make_work_guard(io_);
  io_.restart();
  io_.run();
  thread_.store(std::thread::id());
}

void TcpLoop::Stop() {
  try {
    asio::post(io_, [this] { io_.stop(); });
  } catch (const std::bad_alloc&) {
    io_.stop();
  }
}

void TcpLoop::Post(std::function<void()> work) { asio::post(io_, std::move(work)); }

bool TcpLoop::InLoop() const { return thread_.load() == std::this_thread::get_id(); }

Time TcpLoop::Now() const { return std::chrono::steady_clock::now(); }

void TcpLoop::AfterEvent(std::function<void()> work) {
  if (!in_event_) return Post(std::move(work));
  after_event_.push_back(std::move(work));
}

std::unique_ptr<Loop::Timer> TcpLoop::Every(Duration period, std::function<void()> tick) {
  Duration least = std::max<Duration>(period, microseconds(1));
  return StartTimer(io_, Now() + least, least, std::move(tick));
}

std::unique_ptr<Loop::Timer> TcpLoop::After(Duration delay, std::function<void()> work) {
  return StartTimer(io_, Now() + delay, Duration::zero(), std::move(work));
}

Result<std::unique_ptr<Listener>> TcpLoop::Listen(
    const std::string& address, std::function<void(std::unique_ptr<Connection>)> accept) {
  return ListenTcp(*this, address, std::move(accept));
}

void TcpLoop::Connect(const std::string& address, Duration timeout,
                      std::function<void(Result<std::unique_ptr<Connection>>)> done) {
  ConnectFrom("", address, timeout, std::move(done));
}

void TcpLoop::ConnectFrom(const std::string& own, const std::string& address, Duration timeout,
                          std::function<void(Result<std::unique_ptr<Connection>>)> done) {
  ConnectTcp(*this, own, address, timeout, std::move(done));
}

void TcpLoop::FlushLater(std::shared_ptr<TcpStream> stream) {
  to_flush_.push_back(std::move(stream));
  if (flush_posted_ || in_event_) return;
  flush_posted_ = true;
  asio::post(io_, [this] {
    flush_posted_ = false;
    FlushAll();
  });
}

void TcpLoop::BeginEvent() {
  in_event_ = true;
  event_began_ = Now();
}

void TcpLoop::EndEvent() {
  for (size_t i = 0; i < after_event_.size(); ++i) {
    std::function<void()> work = std::move(after_event_[i]);  // it may add more
    work();
  }
  after_event_.clear();
  in_event_ = false;
  FlushAll();
}

void TcpLoop::FlushAll() {
  flushing_.swap(to_flush_);
  for (const auto& stream : flushing_) stream->Flush();
  flushing_.clear();
}

}  // namespace byteps::transport
