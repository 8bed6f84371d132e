// What this process asks of TCP, and what it says of its long paths.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "src/base/log.h"
#include "src/config/options.h"
#include "src/transport/tcp/tcp_transport.h"

namespace byteps::session {

// `log` outlives what is made with them.
transport::TcpOptions TcpOptionsOf(const config::Options& options, Log& log);

// A process says once that it has a long path with the congestion control of long paths, and once
// that it has one without: the others are mostly like the first. Thread-safe.
class LongPathNews {
 public:
  struct Line {
    bool is_warning = false;
    std::string text;
  };
  std::optional<Line> On(const transport::LongPath& path);

 private:
  std::atomic_flag told_;
  std::atomic_flag warned_;
};

}  // namespace byteps::session
