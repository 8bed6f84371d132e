// A virtual network in virtual time: hosts with links, connections that keep order, delays from a
// seed, and the faults of real networks. One thread; nothing here blocks.
//
// A link carries one frame at a time in each direction at its rate. The connections of a host take
// turns, each with at least a packet, so that a small frame costs no whole turn, as on a real link.
// A frame arrives one latency after it left, when the receiver's link has carried the frames before
// it, and then perhaps a random delay later. Connections overtake each other; the frames of one
// connection do not.
//
// A direction that is cut carries nothing, and nobody is told. Frames that are sent there wait, as
// TCP sends again and again, and arrive after the cut has healed. Both ends lose the connection if
// the cut lasts for NetworkOptions::timeout after the first such frame.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <queue>
#include <random>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/frame.h"
#include "src/base/ring_queue.h"
#include "src/base/time.h"

namespace byteps::sim {

using HostId = uint32_t;
using ConnectionId = uint32_t;

// One end of connections. The network reports frames and the end of a connection to it. `tag` is
// the number that this end gave the connection.
class Endpoint {
 public:
  virtual ~Endpoint() = default;
  // The frame has begun to arrive (its header is here); only if the network delivers in two steps.
  virtual void OnHead(ConnectionId connection, uint32_t tag, const Frame& frame) = 0;
  virtual void OnFrame(ConnectionId connection, uint32_t tag, Frame& frame) = 0;
  virtual void OnLost(ConnectionId connection, uint32_t tag) = 0;
};

struct NetworkOptions {
  uint64_t seed = 1;
  Duration latency = microseconds(20);
  Duration jitter_max = Duration::zero();
  bool carry_bytes = true;  // false: of tensors only lengths (Pack), delivered in one step
  Duration timeout = seconds(1);
  // If set, frames that were on their way when a connection was closed still arrive, before its end
  // is reported.
  bool drains = false;
};

class Network {
 public:
  explicit Network(const NetworkOptions& options);

  Time now() const { return now_; }
  bool carries_bytes() const { return options_.carry_bytes; }
  uint64_t events() const { return events_; }

  HostId AddHost(double link_bytes_per_second);
  ConnectionId Connect(HostId from_host, Endpoint* from, uint32_t from_tag, HostId to_host,
                       Endpoint* to, uint32_t to_tag);
  // Returns a frame to fill and to Send; it is not cleared.
  Frame& NewFrame() { return frames_.Take(); }
  void Send(ConnectionId connection, const Endpoint* from, Frame& frame);
  // Closes a connection and drops frames that have not begun. Both ends are told one latency later,
  // or after the timeout if the direction is cut.
  void Close(ConnectionId connection);
  // Kills a process: the network delivers nothing to it, and its peers see their connections close.
  void Kill(const Endpoint* end);
  // Freezes or thaws a process. A frozen process takes nothing and does nothing until it thaws.
  void Freeze(const Endpoint* end, bool frozen);

  // Runs work of `owner` at this time; the work waits while `owner` is frozen. Null: the work has
  // no owner.
  void At(Time when, const Endpoint* owner, std::function<void()> work);

  // Makes faults (network_faults.cc). All can be made and undone at any time.
  void SetRate(HostId host, double bytes_per_second);
  // Makes frames of this connection later by at most this, beside the jitter of all.
  void SetJitter(ConnectionId connection, Duration jitter_max);
  // Cuts the direction from one end of this connection, or heals it. End 0 made the connection, the
  // other is end 1.
  void Cut(ConnectionId connection, uint32_t from_end, bool cut);
  // Cuts hosts of different groups off from each other; empty: heals all. REQUIRES: a group for
  // each host, or none at all.
  void Partition(std::vector<uint32_t> group_by_host);

  // Runs one event. Returns false if there is none.
  bool Step();

 private:
  // The side of a connection: side 2 * connection made it, the other one is side 2 * connection +
  // 1.
  using SideId = uint32_t;
  struct Side {
    Endpoint* end = nullptr;
    HostId host = 0;
    uint32_t tag = 0;
    FrameId first = kNoFrame;  // of its queue: by urgency, then by age
    FrameId last = kNoFrame;
    Time last_arrival{};
    bool open = true;
    bool in_turn = false;  // stands in its host's line, or it is its turn
    bool cut = false;      // it sends into a cut
    bool jitters = false;  // has an entry in jitter_
  };
  struct Landing {
    Time when{};
    SideId side = 0;
    FrameId frame = kNoFrame;
  };
  struct Link {
    double bytes_per_second = 0;
    bool sending = false;
    Time receive_free{};
    std::optional<SideId> turn;  // the side that has the turn
    uint32_t turn_bytes = 0;     // sent in it
    RingQueue<SideId> line;      // sides with something to send, in turn
    RingQueue<Landing> landing;  // on their way to this host in order of time, without jitter
    RingQueue<Landing> local;    // the same, from this host
  };
  // Frames that were sent into a cut.
  struct Stall {
    Time since{};
    std::vector<std::pair<SideId, FrameId>> frames;  // receiving sides
  };
  enum class Kind : uint8_t { kSent, kLanding, kLocal, kHead, kArrived, kLost, kWork };
  struct Event {
    Time when{};
    uint64_t order = 0;
    Kind kind = Kind::kSent;
    SideId side = 0;    // the receiving one; a host for kSent, kLanding, kLocal; work
    FrameId frame = 0;  // where there is one
  };
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return a.when != b.when ? a.when > b.when : a.order > b.order;
    }
  };
  struct Work {
    const Endpoint* owner = nullptr;
    std::function<void()> run;
  };

  static SideId Peer(SideId side) { return side ^ 1; }
  static ConnectionId ConnectionOf(SideId side) { return side / 2; }
  SideId SideOf(ConnectionId connection, const Endpoint* from) const;

  void Add(Time when, Kind kind, SideId side, FrameId frame = kNoFrame);
  void Enqueue(Side& side, Frame& frame);
  FrameId Dequeue(Side& side);
  void Pump(HostId host);
  void Transmit(SideId from);
  void EndTurn(Link& link, SideId side);
  void Propagate(SideId from, FrameId frame, bool local);
  Duration JitterOf(SideId side);
  void Land(SideId side, FrameId frame, Time arrival, Time head);
  void LandInOrder(RingQueue<Landing>& landing, const Landing& next, Kind kind, HostId host);
  void Landed(RingQueue<Landing>& landing, Kind kind, HostId host);
  void CloseBothEnds(ConnectionId connection, bool timed_out);
  bool IsCut(SideId from) const;
  bool Frozen(const Endpoint* end) const;
  const Endpoint* OwnerOf(const Event& event) const;
  void StallFrame(SideId from, FrameId frame);
  void WatchStall(ConnectionId connection);
  void ReleaseStalls();
  void Run(const Event& event);
  void Deliver(const Event& event);

  NetworkOptions options_;
  std::mt19937_64 random_;
  Time now_{};
  uint64_t next_order_ = 0;
  uint64_t events_ = 0;
  FramePool frames_;
  std::vector<Link> links_;
  std::vector<Side> sides_;
  std::priority_queue<Event, std::vector<Event>, Later> queue_;
  std::vector<Work> works_;
  std::vector<uint32_t> free_works_;
  std::vector<const Endpoint*> frozen_;
  std::vector<Event> held_;  // for frozen endpoints
  std::unordered_map<SideId, Duration> jitter_;
  std::vector<uint32_t> group_by_host_;
  uint32_t cuts_ = 0;  // sides that are cut
  std::unordered_map<ConnectionId, Stall> stalls_;
};

}  // namespace byteps::sim
