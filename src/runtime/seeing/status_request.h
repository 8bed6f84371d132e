// A guest's request at the status port: the first line of an HTTP request, and the name under which
// the guest reached the port. Takes bytes as they come, keeps these two lines, and drops the other
// headers: browsers send the cookies of all programs that use this name. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace byteps::runtime {

class StatusRequest {
 public:
  // The limits of a request; no guest needs more.
  static constexpr size_t kBytesMax = size_t{64} << 10;
  static constexpr size_t kLineBytesMax = 4096;

  void Take(std::string_view bytes);
  // Notes that no more bytes will come: the line that has begun ends here.
  void End();

  // Returns whether an empty line has ended the request.
  bool whole() const { return whole_; }
  // Returns whether the request, or its first line, has more bytes than a request needs.
  bool too_long() const { return bytes_ > kBytesMax || first_is_cut_; }
  // Returns whether the first line names a version of HTTP.
  bool speaks_http() const;
  // Returns "/path" of "GET /path?query HTTP/1.1", or of the same with HEAD. Returns an empty text
  // if the first line is not such a line.
  std::string path() const;
  // Returns whether the guest wants the headers of the answer alone.
  bool asks_for_head() const;
  // Returns the value of the header Host.
  const std::optional<std::string>& host() const { return host_; }

 private:
  void EndLine();

  size_t bytes_ = 0;
  bool whole_ = false;
  bool first_is_cut_ = false;
  bool line_is_cut_ = false;
  std::string line_;  // the first kLineBytesMax bytes of the line that has begun
  std::optional<std::string> first_;
  std::optional<std::string> host_;
};

// Returns whether a browser that asks for this host ("name:port") means this machine: an address
// always does, a name does if it is in `names`. A page of a browser may bind a name of its own to
// 127.0.0.1, and would then read the answer.
bool MeansThisMachine(std::string_view host, const std::vector<std::string>& names);

}  // namespace byteps::runtime
