#include "src/runtime/seeing/status_request.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace byteps::runtime {
namespace {

constexpr std::string_view kGet = "GET ";
constexpr std::string_view kHead = "HEAD ";

bool EqualNames(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char one, char other) {
    return std::tolower(static_cast<unsigned char>(one)) ==
           std::tolower(static_cast<unsigned char>(other));
  });
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") + 1 - begin);
}

bool IsAddress(int family, const std::string& text) {
  in6_addr address;
  return ::inet_pton(family, text.c_str(), &address) == 1;
}

}  // namespace

void StatusRequest::Take(std::string_view bytes) {
  bytes_ += bytes.size();
  for (size_t at = 0; at < bytes.size() && !whole_;) {
    const size_t end = std::min(bytes.find('\n', at), bytes.size());
    const size_t room = kLineBytesMax - line_.size();
    line_is_cut_ = line_is_cut_ || end - at > room;
    line_.append(bytes.substr(at, std::min(room, end - at)));
    if (end < bytes.size()) EndLine();
    at = end + 1;
  }
}

void StatusRequest::End() {
  if (!whole_ && !line_.empty()) EndLine();
}

void StatusRequest::EndLine() {
  constexpr std::string_view kHost = "host:";
  std::string line = std::exchange(line_, {});
  const bool is_cut = std::exchange(line_is_cut_, false);
  if (line.ends_with('\r')) line.pop_back();
  if (line.empty()) {
    whole_ = true;
  } else if (!first_.has_value()) {
    first_ = std::move(line);
    first_is_cut_ = is_cut;
  } else if (EqualNames(std::string_view(line).substr(0, kHost.size()), kHost) && !host_) {
    host_ = Trimmed(std::string_view(line).substr(kHost.size()));
  }
}

bool StatusRequest::speaks_http() const {
  return first_.has_value() && first_->find(" HTTP/") != std::string::npos;
}

std::string StatusRequest::path() const {
  const std::string_view method = asks_for_head() ? kHead : kGet;
  if (!first_.has_value() || !first_->starts_with(method)) return "";
  const size_t end = first_->find_first_of(" ?", method.size());
  return first_->substr(method.size(), end == std::string::npos ? end : end - method.size());
}

bool StatusRequest::asks_for_head() const {
  return first_.has_value() && first_->starts_with(kHead);
}

bool MeansThisMachine(std::string_view host, const std::vector<std::string>& names) {
  if (host.starts_with('[')) {
    const size_t end = host.find(']');
    return end != std::string_view::npos &&
           IsAddress(AF_INET6, std::string(host.substr(1, end - 1)));
  }
  std::string name(host.substr(0, host.find(':')));
  if (name.ends_with('.')) name.pop_back();
  if (IsAddress(AF_INET, name)) return true;
  return std::ranges::any_of(names, [&](const std::string& one) { return EqualNames(one, name); });
}

}  // namespace byteps::runtime
