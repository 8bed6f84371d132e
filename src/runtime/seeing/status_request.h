// What somebody asks at the status port: the first line of an HTTP request, and the name under
// which the port was reached. Takes bytes as they come, keeps these two lines, and drops the other
// headers: browsers send cookies of whatever else uses this name. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace byteps::runtime {

class StatusRequest {
 public:
  // Nobody needs more.
  static constexpr size_t kBytesMax = size_t{64} << 10;
  static constexpr size_t kLineBytesMax = 4096;

  void Take(std::string_view bytes);
  // Nothing more will come: the line that has begun ends here.
  void End();

  // An empty line has ended it.
  bool whole() const { return whole_; }
  // It has more bytes, or its first line has, than a request needs.
  bool too_long() const { return bytes_ > kBytesMax || first_is_cut_; }
  // Its first line names a version of HTTP.
  bool speaks_http() const;
  // "/path" of "GET /path?query HTTP/1.1"; empty: it is no such line.
  std::string path() const;
  // What the header Host says.
  const std::optional<std::string>& host() const { return host_; }

 private:
  void EndLine();

  size_t bytes_ = 0;
  bool whole_ = false;
  bool first_is_cut_ = false;
  bool line_is_cut_ = false;
  std::string line_;  // at most kLineBytesMax of the line that has begun
  std::optional<std::string> first_;
  std::optional<std::string> host_;
};

// Whether a browser that asks this host ("name:port") means this machine: an address always does, a
// name if it is one of these. A page may make another name, of its own, stand for 127.0.0.1, and
// would then read the answer.
bool MeansThisMachine(std::string_view host, const std::vector<std::string>& names);

}  // namespace byteps::runtime
