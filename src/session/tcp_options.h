// The TCP options of this process, and its log lines about long paths.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "src/base/log.h"
#include "src/config/options.h"
#include "src/transport/tcp/tcp_transport.h"

namespace byteps::session {

// Makes the options. `log` must outlive all objects that are made with them.
transport::TcpOptions TcpOptionsOf(const config::Options& options, Log& log);

// Writes one line for the first long path with the congestion control of long paths, and one for
// the first path without it, because further paths are mostly like the first. Thread-safe.
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
