#include "src/transport/inproc/inproc_registry.h"

#include <charconv>
#include <utility>

#include "src/transport/inproc/inproc_stream.h"

namespace byteps::transport {
namespace {

std::string NameOf(uint16_t port) { return "inproc:" + std::to_string(port); }

Result<uint16_t> ParsePort(const std::string& address) {
  size_t colon = address.rfind(':');
  uint16_t port = 0;
  const char* end = address.data() + address.size();
  const char* begin = colon == std::string::npos ? end : address.data() + colon + 1;
  auto [stop, error] = std::from_chars(begin, end, port);
  if (error != std::errc() || stop != end) {
    return Status(StatusCode::kInvalidArgument,
                  "cannot read the address '" + address + "'; write host:port");
  }
  return port;
}

}  // namespace

class InprocRegistry::InprocListener final : public Listener {
 public:
  InprocListener(std::shared_ptr<InprocRegistry> registry, std::shared_ptr<Door> door,
                 uint16_t port)
      : registry_(std::move(registry)), door_(std::move(door)), port_(port) {}
  ~InprocListener() override {
    registry_->Remove(port_);
    door_->accept = nullptr;
  }
  std::string Address() const override { return NameOf(port_); }
  uint16_t Port() const override { return port_; }

 private:
  std::shared_ptr<InprocRegistry> registry_;
  std::shared_ptr<Door> door_;
  uint16_t port_;
};

Result<std::unique_ptr<Listener>> InprocRegistry::Listen(InprocLoop& loop,
                                                         const std::string& address,
                                                         Accept accept) {
  Result<uint16_t> port = ParsePort(address);
  if (!port.ok()) return port.status();
  auto door = std::make_shared<Door>(Door{&loop, std::move(accept)});
  MutexLock lock(mutex_);
  uint16_t chosen = port.value();
  for (int tries = 0; port.value() == 0 && tries <= UINT16_MAX; ++tries) {
    chosen = next_port_++;
    if (chosen != 0 && !doors_.contains(chosen)) break;
  }
  if (chosen == 0 || !doors_.emplace(chosen, door).second) {
    return Status(StatusCode::kUnavailable,
                  "cannot listen on " + address + ": somebody listens there already");
  }
  return std::unique_ptr<Listener>(
      std::make_unique<InprocListener>(shared_from_this(), std::move(door), chosen));
}

void InprocRegistry::Remove(uint16_t port) {
  MutexLock lock(mutex_);
  doors_.erase(port);
}

Result<std::unique_ptr<Connection>> InprocRegistry::Connect(InprocLoop& loop,
                                                            const std::string& address) {
  Result<uint16_t> port = ParsePort(address);
  if (!port.ok()) return port.status();
  std::shared_ptr<Door> door;
  std::string own_name;
  // Holds the lock while it uses the listener's loop, so that the loop cannot go meanwhile.
  MutexLock lock(mutex_);
  if (auto found = doors_.find(port.value()); found != doors_.end()) door = found->second;
  if (door == nullptr) {
    return Status(StatusCode::kUnavailable,
                  "cannot connect to " + address + ": nobody listens there");
  }
  own_name = "inproc:client-" + std::to_string(++connections_);
  InprocPair pair = MakeInprocPair(loop, NameOf(port.value()), *door->loop, own_name);
  // The holder exists because std::function is copied. A connection that is not accepted closes
  // with its holder.
  auto holder = std::make_shared<std::unique_ptr<Connection>>(std::move(pair.second));
  door->loop->Post([door, holder] {
    if (auto accept = door->accept) accept(std::move(*holder));
  });
  return std::move(pair.first);
}

}  // namespace byteps::transport
