#include "src/session/tcp_options.h"

#include <fmt/format.h>

#include <memory>

#include "src/base/time.h"
#include "src/plan/network_threads.h"

namespace byteps::session {
namespace {

// This congestion control keeps its rate on a path that loses packets, where others shrink it
// (docs/decisions/0034-long-paths.md).
constexpr const char* kLongPathCongestion = "bbr";

}  // namespace

transport::TcpOptions TcpOptionsOf(const config::Options& options, Log& log) {
  transport::TcpOptions tcp;
  if (options.tcp_congestion == "auto") {
    tcp.long_path_congestion_control = kLongPathCongestion;
  } else if (options.tcp_congestion != "system") {
    tcp.congestion_control = options.tcp_congestion;
  }
  tcp.long_path = plan::kLongPath;
  // The teller is shared, because each loop has a copy of the options.
  tcp.on_long_path = [&log, teller = std::make_shared<LongPathNews>()](const auto& path) {
    const std::optional<LongPathNews::Line> line = teller->On(path);
    if (!line.has_value()) return;
    line->is_warning ? log.Warning("{}", line->text) : log.Info("{}", line->text);
  };
  tcp.not_sent_low_water_bytes = static_cast<size_t>(options.tcp_notsent_lowat);
  tcp.user_timeout = milliseconds(options.link_timeout_ms);
  tcp.keepalive_idle = seconds(1);
  tcp.keepalive_interval = seconds(1);
  tcp.on_shortage = [&log](const std::string& text) { log.Error("{}", text); };
  return tcp;
}

std::optional<LongPathNews::Line> LongPathNews::On(const transport::LongPath& path) {
  const bool trouble = !path.trouble.empty();
  if ((trouble ? warned_ : told_).test_and_set()) return std::nullopt;
  const std::string what =
      fmt::format("the path to {} is long, {:.1f} ms there and back; its congestion control is {}",
                  path.peer, 1e3 * ToSeconds(path.round_trip), path.congestion_control);
  if (!trouble) return Line{false, what};
  return Line{true, fmt::format("{}, because the system does not let this process choose {} ({}). "
                                "If the path loses packets, TCP carries a small part of its link; "
                                "`bps doctor` says what to do",
                                what, kLongPathCongestion, path.trouble)};
}

}  // namespace byteps::session
