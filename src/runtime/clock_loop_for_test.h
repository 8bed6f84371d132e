// A loop for tests, with a clock that the test moves, and connections between two ends on the loop.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/transport/transport.h"

namespace byteps::runtime {

class ClockLoop final : public transport::Loop {
 public:
  using Connected = std::function<void(Result<std::unique_ptr<transport::Connection>>)>;
  struct Attempt {
    Duration at{};  // since the loop was made
    std::string own;
    std::string address;
    Duration timeout{};
    Connected done;
  };

  void Run() override { Settle(); }
  void Stop() override { ++stops; }
  void Post(std::function<void()> work) override { posted_.push_back(std::move(work)); }
  bool InLoop() const override { return true; }
  Time Now() const override { return kBegin + age_; }
  BufferPool& Buffers() override { return buffers_; }
  std::unique_ptr<Timer> Every(Duration period, std::function<void()> work) override {
    return Begin(period, period, std::move(work));
  }
  std::unique_ptr<Timer> After(Duration delay, std::function<void()> work) override {
    return Begin(delay, Duration::zero(), std::move(work));
  }
  Result<std::unique_ptr<transport::Listener>> Listen(
      const std::string&, std::function<void(std::unique_ptr<transport::Connection>)>) override {
    return Status(StatusCode::kUnavailable, "none");
  }
  void Connect(const std::string& address, Duration timeout, Connected done) override {
    ConnectFrom("", address, timeout, std::move(done));
  }
  void ConnectFrom(const std::string& own, const std::string& address, Duration timeout,
                   Connected done) override {
    attempts.push_back({age_, own, address, timeout, std::move(done)});
    Post([this, i = attempts.size() - 1] {
      const Connected ended = attempts[i].done;  // a copy: the call may begin another
      if (failure.has_value()) ended(*failure);
    });
  }

  // Runs the posted work, and the work that this work posts.
  void Settle() {
    while (!posted_.empty()) {
      std::function<void()> work = std::move(posted_.front());
      posted_.pop_front();
      work();
    }
  }
  // Moves the clock; each timer rings at its moment.
  void Advance(Duration by) {
    const Duration until = age_ + by;
    Settle();
    while (!rings_.empty() && rings_.begin()->first <= until) {
      auto [when, ring] = *rings_.begin();
      rings_.erase(rings_.begin());
      if (!ring->alive) continue;
      age_ = when;
      if (ring->period > Duration::zero()) rings_.emplace(when + ring->period, ring);
      ring->work();
      Settle();
    }
    age_ = until;
  }
  std::vector<Duration> AttemptTimes() const {
    std::vector<Duration> times;
    for (const Attempt& one : attempts) times.push_back(one.at);
    return times;
  }

  std::vector<Attempt> attempts;
  std::optional<Status> failure;  // of each attempt, at once; none: the test decides
  int stops = 0;

 private:
  static constexpr Time kBegin{seconds(1000)};

  struct Ring {
    Duration period;
    std::function<void()> work;
    bool alive = true;
  };
  class Handle final : public Timer {
   public:
    explicit Handle(std::shared_ptr<Ring> ring) : ring_(std::move(ring)) {}
    ~Handle() override { ring_->alive = false; }

   private:
    std::shared_ptr<Ring> ring_;
  };

  std::unique_ptr<Timer> Begin(Duration delay, Duration period, std::function<void()> work) {
    auto ring = std::make_shared<Ring>(Ring{period, std::move(work)});
    rings_.emplace(age_ + delay, ring);
    return std::make_unique<Handle>(std::move(ring));
  }

  BufferPool buffers_;  // before everything that holds its buffers
  Duration age_{};
  std::deque<std::function<void()>> posted_;
  std::multimap<Duration, std::shared_ptr<Ring>> rings_;
};

// One end of a connection. Frames, and the end of the connection, arrive when the loop runs its
// posted work.
class ClockConnection final : public transport::Connection {
 public:
  using Ends = std::pair<std::unique_ptr<ClockConnection>, std::unique_ptr<ClockConnection>>;
  static Ends Pair(ClockLoop& loop) {
    auto line = std::make_shared<Line>();
    return {std::make_unique<ClockConnection>(loop, line, 0),
            std::make_unique<ClockConnection>(loop, line, 1)};
  }

  struct Line {
    ClockConnection* ends[2] = {nullptr, nullptr};
    Status owner;  // the result of CheckSameUser at both ends
  };
  ClockConnection(ClockLoop& loop, std::shared_ptr<Line> line, int number)
      : loop_(loop), line_(std::move(line)), number_(number) {
    line_->ends[number_] = this;
  }
  ~ClockConnection() override {
    if (!closed_) TellPeer();
    line_->ends[number_] = nullptr;
  }

  void Start(transport::FrameReceiver* receiver) override {
    receiver_ = receiver;
    loop_.Post([line = line_, number = number_] {
      if (ClockConnection* end = line->ends[number]) end->HandOver();
    });
  }
  void SetLimits(const transport::Limits& limits) override { limits_ = limits; }
  void Send(transport::OutFrame frame) override {
    if (closed_) return;
    Frame sent{frame.kind,
               {frame.header, frame.header + frame.header_bytes},
               {frame.payload.begin(), frame.payload.end()}};
    loop_.Post([line = line_, other = 1 - number_, sent = std::move(sent)] {
      ClockConnection* end = line->ends[other];
      if (end == nullptr) return;
      end->arrived_.push_back(sent);
      end->HandOver();
    });
  }
  void Detach(ConstByteSpan, BufferPool&) override {}
  void Close() override { EndWith(Status::Ok()); }
  void CloseAfterFlush(Duration) override { EndWith(Status::Ok()); }
  size_t queued_bytes() const override { return 0; }
  std::string PeerName() const override { return "10.0.0.9:1"; }
  std::string LocalAddress() const override { return "10.0.0.1"; }
  ConstByteSpan ChannelBinding() const override { return {}; }
  std::string Medium() const override { return "clock"; }
  Status CheckSameUser() const override { return line_->owner; }
  void MoveTo(transport::Loop&,
              std::function<void(std::unique_ptr<transport::Connection>)>) override {
    ADD_FAILURE() << "there is one loop";
  }

  void SetOwner(const Status& owner) { line_->owner = owner; }

  // Closes the connection. This end's receiver hears `why`; the other end hears that its peer
  // closed.
  void EndWith(const Status& why) {
    if (std::exchange(closed_, true)) return;
    TellPeer();
    loop_.Post([line = line_, number = number_, why] {
      ClockConnection* end = line->ends[number];
      if (end != nullptr && end->receiver_ != nullptr) end->receiver_->OnClosed(why);
    });
  }

 private:
  struct Frame {
    uint8_t kind;
    std::vector<std::byte> header;
    std::vector<std::byte> payload;
  };

  void TellPeer() {
    loop_.Post([line = line_, other = 1 - number_] {
      ClockConnection* end = line->ends[other];
      if (end != nullptr) end->EndWith({StatusCode::kPeerLost, "the other end closed"});
    });
  }
  // Gives the frames that have arrived to the receiver. Each call of the receiver may destroy this
  // object or change the receiver.
  void HandOver() {
    auto line = line_;
    const int number = number_;
    while (line->ends[number] == this && receiver_ != nullptr && !closed_ && !arrived_.empty()) {
      Frame frame = std::move(arrived_.front());
      arrived_.pop_front();
      if (frame.payload.size() > limits_.payload_bytes_max) {
        return EndWith({StatusCode::kProtocol, "too much"});
      }
      Result<ByteSpan> place = receiver_->OnHeader(frame.kind, frame.header, frame.payload.size());
      if (line->ends[number] != this) return;
      if (!place.ok()) return EndWith(place.status());
      std::copy(frame.payload.begin(), frame.payload.end(), place->begin());
      receiver_->OnFrame();
    }
  }

  ClockLoop& loop_;
  const std::shared_ptr<Line> line_;  // shared by both ends and by posted work
  const int number_;
  transport::FrameReceiver* receiver_ = nullptr;
  transport::Limits limits_;
  std::deque<Frame> arrived_;
  bool closed_ = false;
};

}  // namespace byteps::runtime
