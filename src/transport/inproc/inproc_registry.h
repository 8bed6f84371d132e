// The listeners of one in-process transport, by port.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "src/base/status.h"
#include "src/base/thread_annotations.h"
#include "src/transport/inproc/inproc_loop.h"
#include "src/transport/transport.h"

namespace byteps::transport {

// Thread-safe. The Transport, its loops and their listeners share it.
class InprocRegistry : public std::enable_shared_from_this<InprocRegistry> {
 public:
  using Accept = std::function<void(std::unique_ptr<Connection>)>;

  Result<std::unique_ptr<Listener>> Listen(InprocLoop& loop, const std::string& address,
                                           Accept accept);
  // Makes a pair of connected streams: returns one end and gives the other to the listener.
  Result<std::unique_ptr<Connection>> Connect(InprocLoop& loop, const std::string& address);
  void Remove(uint16_t port);

 private:
  // The way to the listener of a port. `accept` is called only on the loop's thread, and is empty
  // once the listener is gone. The listener and the connections on their way share the door.
  struct Door {
    InprocLoop* loop;
    Accept accept;
  };
  class InprocListener;

  Mutex mutex_;
  std::map<uint16_t, std::shared_ptr<Door>> doors_ BYTEPS_GUARDED_BY(mutex_);
  uint16_t next_port_ BYTEPS_GUARDED_BY(mutex_) = 1;
  uint64_t connections_ BYTEPS_GUARDED_BY(mutex_) = 0;
};

}  // namespace byteps::transport
