// A virtual network in virtual time: hosts with links, connections that keep order, delays from a
// seed, cuts. One thread; nothing here waits.
//
// A link carries one frame at a time in each direction at its rate; the connections of a host take
// turns. A frame arrives one latency (and a random delay) after it left, when the receiver's link
// has carried what came before it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "src/base/buffer_pool.h"
#include "src/base/time.h"
#include "src/base/types.h"
#include "src/wire/control.h"
#include "src/wire/data.h"

namespace byteps::sim {

using HostId = uint32_t;
using ConnectionId = uint32_t;

enum class FrameType : uint8_t { kControl, kPush, kAnswer, kWant, kAck };

struct Frame {
  FrameType type = FrameType::kControl;
  int64_t urgency = 0;
  uint32_t wire_bytes = 0;
  wire::DataHeader header;         // push, answer
  std::vector<std::byte> payload;  // real bytes, if the network carries them
  uint32_t payload_bytes = 0;
  uint64_t count = 0;                  // ack
  std::vector<wire::PieceRef> pieces;  // want
  std::vector<std::byte> control;      // encoded
};

// One end of connections. Frames and the end of a connection are reported to it.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  // The frame has begun to arrive (its header is here); only if the network delivers in two steps.
  virtual void OnHead(ConnectionId connection, const Frame& frame) = 0;
  virtual void OnFrame(ConnectionId connection, Frame& frame) = 0;
  virtual void OnLost(ConnectionId connection) = 0;
};

struct NetworkOptions {
  uint64_t seed = 1;
  double link_bytes_per_second = 1.25e9;
  Duration latency = microseconds(20);
  Duration jitter_max = Duration::zero();
  bool carry_bytes = true;  // false: payloads are lengths only, delivered in one step
};

class Network {
 public:
  explicit Network(const NetworkOptions& options);
  ~Network();

  Time now() const { return now_; }
  std::mt19937_64& random() { return random_; }
  bool carries_bytes() const { return options_.carry_bytes; }
  uint64_t events() const { return events_; }

  HostId AddHost(double link_bytes_per_second);
  // `end` of a process that stops is replaced by null: it hears nothing any more.
  ConnectionId Connect(HostId from_host, Endpoint* from, HostId to_host, Endpoint* to);
  void Send(ConnectionId connection, const Endpoint* from, Frame frame);
  // Frames of this sender that have not begun are dropped; both ends are told, the peer a little
  // later.
  void Close(ConnectionId connection);
  void CloseAll(const Endpoint* end);
  // The process is dead: nothing is delivered to it, its peers see their connections close.
  void Kill(const Endpoint* end);
  // A frozen process takes nothing until it thaws.
  void Freeze(const Endpoint* end, bool frozen);
  bool Frozen(const Endpoint* end) const;

  void At(Time when, std::function<void()> work);

  // Runs one event; false when there is none.
  bool Step();

 private:
  struct Side {
    HostId host = 0;
    Endpoint* end = nullptr;
    std::vector<std::pair<uint64_t, std::unique_ptr<Frame>>> queue;  // heap by urgency, then age
    bool in_turn = false;                                            // stands in its host's line
    Time last_arrival{};
  };
  struct Connection {
    Side sides[2];
    bool open = true;
  };
  struct Link {
    double bytes_per_second = 0;
    bool sending = false;
    Time receive_free{};
    std::queue<std::pair<ConnectionId, int>> line;  // sides with something to send, in turn
  };
  enum class Kind : uint8_t { kSent, kHead, kArrived, kLost, kWork };
  struct Event {
    Time when;
    uint64_t order;
    Kind kind;
    ConnectionId connection;
    int side;  // the receiving side
    Frame* frame;
    uint64_t work;
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.when != b.when ? a.when > b.when : a.order > b.order;
    }
  };

  void Add(Event event);
  void Pump(HostId host);
  void Transmit(HostId host, ConnectionId connection, int side);
  void Run(const Event& event);
  void Deliver(const Event& event);

  NetworkOptions options_;
  std::mt19937_64 random_;
  Time now_{};
  uint64_t next_order_ = 0;
  uint64_t events_ = 0;
  std::vector<Link> links_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::priority_queue<Event, std::vector<Event>, Later> queue_;
  std::vector<std::function<void()>> works_;
  std::vector<uint64_t> free_works_;
  std::vector<const Endpoint*> frozen_;
  std::vector<Event> held_;  // for frozen endpoints
};

}  // namespace byteps::sim
