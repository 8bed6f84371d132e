// Text of a job's members on status pages. Names of tensors and hosts cannot break a line or a
// quote.
#pragma once

#include <string>
#include <string_view>

namespace byteps::runtime {

// Returns the first 600 characters; "?" stands for each one that is not printable ASCII.
inline std::string Plain(std::string_view text) {
  std::string plain(text.substr(0, 600));
  for (char& c : plain) {
    if (c < ' ' || c > '~') c = '?';
  }
  return plain;
}

// Returns `text` in quotes, for JSON and for the labels of Prometheus.
inline std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (char c : Plain(text)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + '"';
}

}  // namespace byteps::runtime
