#include "sim/network.h"

#include <algorithm>
#include <utility>

namespace byteps::sim {
namespace {

// The least number of bytes that a connection may send in its turn.
constexpr uint32_t kPacketBytes = 1448;

}  // namespace

Network::Network(const NetworkOptions& options) : options_(options), random_(options.seed) {}

HostId Network::AddHost(double link_bytes_per_second) {
  links_.emplace_back();
  links_.back().bytes_per_second = link_bytes_per_second;
  return static_cast<HostId>(links_.size() - 1);
}

ConnectionId Network::Connect(HostId from_host, Endpoint* from, uint32_t from_tag, HostId to_host,
                              Endpoint* to, uint32_t to_tag) {
  auto connection = static_cast<ConnectionId>(sides_.size() / 2);
  sides_.push_back({.end = from, .host = from_host, .tag = from_tag});
  sides_.push_back({.end = to, .host = to_host, .tag = to_tag});
  return connection;
}

Network::SideId Network::SideOf(ConnectionId connection, const Endpoint* from) const {
  return sides_[2 * connection].end == from ? 2 * connection : 2 * connection + 1;
}

void Network::Add(Time when, Kind kind, SideId side, FrameId frame) {
  queue_.push({when, next_order_++, kind, side, frame});
}

void Network::At(Time when, const Endpoint* owner, std::function<void()> work) {
  auto place = static_cast<uint32_t>(works_.size());
  if (free_works_.empty()) {
    works_.push_back({owner, std::move(work)});
  } else {
    place = free_works_.back();
    free_works_.pop_back();
    works_[place] = {owner, std::move(work)};
  }
  Add(std::max(when, now_), Kind::kWork, place);
}

// Puts a frame into the queue, nearly always at the end: few frames are more urgent than the frames
// before them.
void Network::Enqueue(Side& side, Frame& frame) {
  frame.next = kNoFrame;
  if (side.first == kNoFrame) {
    side.first = side.last = frame.id;
    return;
  }
  if (frames_[side.last].urgency() >= frame.urgency()) {
    frames_[side.last].next = frame.id;
    side.last = frame.id;
    return;
  }
  FrameId* at = &side.first;
  while (frames_[*at].urgency() >= frame.urgency()) at = &frames_[*at].next;
  frame.next = *at;
  *at = frame.id;
}

FrameId Network::Dequeue(Side& side) {
  FrameId frame = side.first;
  side.first = frames_[frame].next;
  return frame;
}

void Network::Send(ConnectionId connection, const Endpoint* from, Frame& frame) {
  SideId id = SideOf(connection, from);
  Side& sender = sides_[id];
  if (!sender.open) return frames_.GiveBack(frame.id);
  Enqueue(sender, frame);
  if (!std::exchange(sender.in_turn, true)) links_[sender.host].line.push_back(id);
  Pump(sender.host);
}

void Network::Pump(HostId host) {
  Link& link = links_[host];
  while (!link.sending && (link.turn.has_value() || !link.line.empty())) {
    if (!link.turn.has_value()) {
      link.turn = link.line.front();
      link.turn_bytes = 0;
      link.line.pop_front();
    }
    SideId id = *link.turn;
    if (sides_[id].first != kNoFrame) {
      Transmit(id);
    } else {
      EndTurn(link, id);
    }
  }
}

void Network::EndTurn(Link& link, SideId side) {
  link.turn.reset();
  Side& sender = sides_[side];
  sender.in_turn = sender.first != kNoFrame;
  if (sender.in_turn) link.line.push_back(side);
}

void Network::Transmit(SideId from) {
  Side& sender = sides_[from];
  FrameId frame = Dequeue(sender);
  Link& link = links_[sender.host];
  bool local = sides_[Peer(from)].host == sender.host;  // stays on the host: takes no link
  link.turn_bytes += frames_[frame].wire_bytes;
  if (sender.first == kNoFrame || link.turn_bytes >= kPacketBytes) EndTurn(link, from);
  if (!local) {
    double bytes = frames_[frame].wire_bytes;
    link.sending = true;
    Add(now_ + Duration(static_cast<int64_t>(bytes / link.bytes_per_second * 1e9)), Kind::kSent,
        sender.host);
  }
  if (IsCut(from)) return StallFrame(from, frame);
  if (IsCut(Peer(from))) WatchStall(ConnectionOf(from));  // its acknowledgements do not come back
  Propagate(from, frame, local);
}

void Network::Propagate(SideId from, FrameId frame, bool local) {
  Side& receiver = sides_[Peer(from)];
  Time head = now_ + options_.latency;
  Time arrival = head;
  if (!local) {
    Link& target = links_[receiver.host];
    double rate = std::min(links_[sides_[from].host].bytes_per_second, target.bytes_per_second);
    head = std::max(head, target.receive_free);
    arrival = head + Duration(static_cast<int64_t>(frames_[frame].wire_bytes / rate * 1e9));
    target.receive_free = arrival;
  }
  Duration jitter = JitterOf(Peer(from));
  arrival = std::max(arrival + jitter, receiver.last_arrival);
  head = std::max(head + jitter, receiver.last_arrival);
  receiver.last_arrival = arrival;
  bool jitters = receiver.jitters || options_.jitter_max > Duration::zero();
  if (options_.carry_bytes || jitters) return Land(Peer(from), frame, arrival, head);
  RingQueue<Landing>& landing = local ? links_[receiver.host].local : links_[receiver.host].landing;
  LandInOrder(landing, {arrival, Peer(from), frame}, local ? Kind::kLocal : Kind::kLanding,
              receiver.host);
}

Duration Network::JitterOf(SideId side) {
  Duration most = options_.jitter_max;
  if (sides_[side].jitters) most += jitter_.at(side);
  if (most <= Duration::zero()) return Duration::zero();
  return Duration(static_cast<int64_t>(random_() % static_cast<uint64_t>(most.count())));
}

void Network::Land(SideId side, FrameId frame, Time arrival, Time head) {
  bool two_steps = options_.carry_bytes && frames_[frame].kind != wire::FrameKind::kControl;
  if (two_steps) Add(head, Kind::kHead, side, frame);
  Add(arrival, Kind::kArrived, side, frame);
}

// Uses one event for all frames on their way to a host, so that few events wait.
void Network::LandInOrder(RingQueue<Landing>& landing, const Landing& next, Kind kind,
                          HostId host) {
  landing.push_back(next);
  if (landing.size() == 1) Add(next.when, kind, host);
}

void Network::Landed(RingQueue<Landing>& landing, Kind kind, HostId host) {
  Landing landed = landing.front();
  landing.pop_front();
  if (!landing.empty()) Add(landing.front().when, kind, host);
  Run({now_, next_order_++, Kind::kArrived, landed.side, landed.frame});
}

void Network::Close(ConnectionId connection) { CloseBothEnds(connection, false); }

void Network::CloseBothEnds(ConnectionId connection, bool timed_out) {
  for (SideId id : {2 * connection, 2 * connection + 1}) {
    Side& side = sides_[id];
    if (!std::exchange(side.open, false)) return;
    while (side.first != kNoFrame) frames_.GiveBack(Dequeue(side));
    bool unheard = IsCut(Peer(id)) && !timed_out;
    Add(now_ + (unheard ? options_.timeout : options_.latency), Kind::kLost, id);
  }
  auto stall = stalls_.find(connection);
  if (stall == stalls_.end()) return;
  for (const auto& [side, frame] : stall->second.frames) frames_.GiveBack(frame);
  stalls_.erase(stall);
}

void Network::Kill(const Endpoint* end) {
  for (SideId id = 0; id < sides_.size(); ++id) {
    if (sides_[id].end != end) continue;
    Close(ConnectionOf(id));
    sides_[id].end = nullptr;
  }
}

bool Network::Frozen(const Endpoint* end) const {
  return std::find(frozen_.begin(), frozen_.end(), end) != frozen_.end();
}

void Network::Freeze(const Endpoint* end, bool frozen) {
  if (frozen) {
    frozen_.push_back(end);
    return;
  }
  std::erase(frozen_, end);
  std::vector<Event> held = std::exchange(held_, {});
  for (Event& event : held) {
    event.when = now_;  // before all later events of now, in the old order
    queue_.push(event);
  }
}

bool Network::Step() {
  if (queue_.empty()) return false;
  Event event = queue_.top();
  queue_.pop();
  now_ = event.when;
  ++events_;
  Run(event);
  return true;
}

const Endpoint* Network::OwnerOf(const Event& event) const {
  return event.kind == Kind::kWork ? works_[event.side].owner : sides_[event.side].end;
}

void Network::Run(const Event& event) {
  switch (event.kind) {
    case Kind::kSent: links_[event.side].sending = false; return Pump(event.side);
    case Kind::kLanding: return Landed(links_[event.side].landing, event.kind, event.side);
    case Kind::kLocal: return Landed(links_[event.side].local, event.kind, event.side);
    default: break;
  }
  if (!frozen_.empty() && Frozen(OwnerOf(event))) {
    held_.push_back(event);
    return;
  }
  if (event.kind != Kind::kWork) return Deliver(event);
  std::function<void()> work = std::exchange(works_[event.side].run, nullptr);
  free_works_.push_back(event.side);
  work();
}

void Network::Deliver(const Event& event) {
  // This is a copy, because a new connection moves the sides.
  Side side = sides_[event.side];
  ConnectionId connection = ConnectionOf(event.side);
  if (event.kind == Kind::kLost) {
    if (side.end != nullptr) side.end->OnLost(connection, side.tag);
    sides_[event.side].end = nullptr;
    return;
  }
  bool dead = side.end == nullptr || (!side.open && !options_.drains);
  Frame& frame = frames_[event.frame];
  if (event.kind == Kind::kHead) {
    if (!dead) side.end->OnHead(connection, side.tag, frame);
    return;
  }
  if (!dead) side.end->OnFrame(connection, side.tag, frame);
  frames_.GiveBack(event.frame);
}

}  // namespace byteps::sim
