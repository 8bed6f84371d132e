#include "sim/network.h"

#include <algorithm>

namespace byteps::sim {
namespace {

// Frames of one side leave by urgency, then by age: a heap with the next one on top.
struct LeavesLater {
  template <typename Entry>
  bool operator()(const Entry& a, const Entry& b) const {
    if (a.second->urgency != b.second->urgency) return a.second->urgency < b.second->urgency;
    return a.first > b.first;
  }
};

}  // namespace

Network::Network(const NetworkOptions& options) : options_(options), random_(options.seed) {}

Network::~Network() {
  for (; !queue_.empty(); queue_.pop()) held_.push_back(queue_.top());
  for (const Event& event : held_) {
    if (event.kind == Kind::kArrived) std::unique_ptr<Frame> owned(event.frame);
  }
}

HostId Network::AddHost(double link_bytes_per_second) {
  links_.emplace_back();
  links_.back().bytes_per_second = link_bytes_per_second;
  return static_cast<HostId>(links_.size() - 1);
}

ConnectionId Network::Connect(HostId from_host, Endpoint* from, HostId to_host, Endpoint* to) {
  auto connection = std::make_unique<Connection>();
  connection->sides[0].host = from_host;
  connection->sides[0].end = from;
  connection->sides[1].host = to_host;
  connection->sides[1].end = to;
  connections_.push_back(std::move(connection));
  return static_cast<ConnectionId>(connections_.size() - 1);
}

void Network::Add(Event event) {
  event.order = next_order_++;
  queue_.push(event);
}

void Network::At(Time when, std::function<void()> work) {
  uint64_t slot = works_.size();
  if (free_works_.empty()) {
    works_.push_back(std::move(work));
  } else {
    slot = free_works_.back();
    free_works_.pop_back();
    works_[slot] = std::move(work);
  }
  Add({std::max(when, now_), 0, Kind::kWork, 0, 0, nullptr, slot});
}

void Network::Send(ConnectionId id, const Endpoint* from, Frame frame) {
  Connection& connection = *connections_[id];
  if (!connection.open) return;
  int side = connection.sides[0].end == from ? 0 : 1;
  Side& sender = connection.sides[side];
  sender.queue.emplace_back(next_order_++, std::make_unique<Frame>(std::move(frame)));
  std::push_heap(sender.queue.begin(), sender.queue.end(), LeavesLater());
  if (!std::exchange(sender.in_turn, true)) links_[sender.host].line.emplace(id, side);
  Pump(sender.host);
}

void Network::Pump(HostId host) {
  Link& link = links_[host];
  while (!link.sending && !link.line.empty()) {
    auto [id, side] = link.line.front();
    link.line.pop();
    Side& sender = connections_[id]->sides[side];
    sender.in_turn = false;
    if (!sender.queue.empty()) Transmit(host, id, side);
  }
}

void Network::Transmit(HostId host, ConnectionId id, int side) {
  Connection& connection = *connections_[id];
  Side& sender = connection.sides[side];
  Side& receiver = connection.sides[1 - side];
  std::pop_heap(sender.queue.begin(), sender.queue.end(), LeavesLater());
  std::unique_ptr<Frame> frame = std::move(sender.queue.back().second);
  sender.queue.pop_back();
  Link& link = links_[host];
  Link& target = links_[receiver.host];
  bool local = receiver.host == host;  // stays on the host: takes no link
  double rate = std::min(link.bytes_per_second, target.bytes_per_second);
  auto bytes = static_cast<double>(frame->wire_bytes);
  auto sending = Duration(static_cast<int64_t>(bytes / link.bytes_per_second * 1e9));
  auto receiving = Duration(static_cast<int64_t>(bytes / rate * 1e9));
  Duration delay = options_.latency;
  if (options_.jitter_max > Duration::zero()) {
    auto span = static_cast<uint64_t>(options_.jitter_max.count());
    delay += Duration(static_cast<int64_t>(random_() % span));
  }
  Time head = now_ + delay;
  Time arrival = head;
  if (!local) {
    head = std::max(head, target.receive_free);
    arrival = head + receiving;
    target.receive_free = arrival;
  }
  arrival = std::max(arrival, receiver.last_arrival);
  head = std::max(head, receiver.last_arrival);
  receiver.last_arrival = arrival;
  Frame* raw = frame.release();
  bool two_steps = options_.carry_bytes && raw->type != FrameType::kControl;
  if (two_steps) Add({head, 0, Kind::kHead, id, 1 - side, raw, 0});
  Add({arrival, 0, Kind::kArrived, id, 1 - side, raw, 0});
  if (!sender.queue.empty() && !std::exchange(sender.in_turn, true)) link.line.emplace(id, side);
  if (!local) {
    link.sending = true;
    Add({now_ + sending, 0, Kind::kSent, id, side, nullptr, host});
  }
}

void Network::Close(ConnectionId id) {
  Connection& connection = *connections_[id];
  if (!std::exchange(connection.open, false)) return;
  for (int side = 0; side < 2; ++side) {
    connection.sides[side].queue.clear();
    Add({now_ + options_.latency, 0, Kind::kLost, id, side, nullptr, 0});
  }
}

void Network::CloseAll(const Endpoint* end) {
  for (ConnectionId id = 0; id < connections_.size(); ++id) {
    Connection& connection = *connections_[id];
    if (connection.sides[0].end == end || connection.sides[1].end == end) Close(id);
  }
}

void Network::Kill(const Endpoint* end) {
  CloseAll(end);
  for (auto& connection : connections_) {
    for (Side& side : connection->sides) {
      if (side.end == end) side.end = nullptr;
    }
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
  std::vector<Event> held = std::move(held_);
  held_.clear();
  for (Event& event : held) {
    event.when = now_;
    Add(event);
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

void Network::Run(const Event& event) {
  if (event.kind == Kind::kWork) {
    std::function<void()> work = std::move(works_[event.work]);
    works_[event.work] = nullptr;
    free_works_.push_back(event.work);
    return work();
  }
  if (event.kind == Kind::kSent) {
    links_[event.work].sending = false;
    return Pump(static_cast<HostId>(event.work));
  }
  const Endpoint* end = connections_[event.connection]->sides[event.side].end;
  if (!frozen_.empty() && Frozen(end)) {
    held_.push_back(event);
    return;
  }
  Deliver(event);
}

void Network::Deliver(const Event& event) {
  Connection& connection = *connections_[event.connection];
  Endpoint* end = connection.sides[event.side].end;
  if (event.kind == Kind::kLost) {
    if (end != nullptr) end->OnLost(event.connection);
    connection.sides[event.side].end = nullptr;
    return;
  }
  bool dead = end == nullptr || !connection.open;
  if (event.kind == Kind::kHead) {
    if (!dead) end->OnHead(event.connection, *event.frame);
    return;
  }
  std::unique_ptr<Frame> frame(event.frame);
  if (!dead) end->OnFrame(event.connection, *frame);
}

}  // namespace byteps::sim
