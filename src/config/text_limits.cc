#include "src/config/text_limits.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "src/config/text.h"

namespace byteps::config {
namespace {

constexpr size_t kInterfacesMax = 8;

// Returns whether the text is a list of numbers from `least` to `most`.
bool AreNumbers(std::string_view text, int64_t least, int64_t most) {
  return std::ranges::all_of(SplitList(text), [least, most](std::string_view one) {
    int64_t number = 0;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), number);
    return error == std::errc() && end == one.data() + one.size() && number >= least &&
           number <= most;
  });
}

}  // namespace

bool IsPlainName(std::string_view text) {
  return !text.empty() && text.size() <= 64 && std::ranges::all_of(text, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-';
  });
}

bool IsPlainNameOrEmpty(std::string_view text) { return text.empty() || IsPlainName(text); }

bool IsHostOrEmpty(std::string_view text) {
  return text.size() <= 255 && std::ranges::all_of(text, [](char c) {
           return c > ' ' && c < 0x7f && c != '[' && c != ']' && c != '/' && c != ',';
         });
}

bool IsCidrOrEmpty(std::string_view text) {
  if (text.empty()) return true;
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string address(text.substr(0, slash));
  const std::string_view prefix = text.substr(slash + 1);
  unsigned bits = 0;
  const auto [end, error] = std::from_chars(prefix.data(), prefix.data() + prefix.size(), bits);
  if (error != std::errc() || end != prefix.data() + prefix.size()) return false;
  in_addr v4;
  in6_addr v6;
  if (inet_pton(AF_INET, address.c_str(), &v4) == 1) return bits <= 32;
  return inet_pton(AF_INET6, address.c_str(), &v6) == 1 && bits <= 128;
}

bool IsInterfacesOrEmpty(std::string_view text) {
  const std::vector<std::string_view> names = SplitList(text);
  return names.size() <= kInterfacesMax && std::ranges::all_of(names, [&](std::string_view name) {
           return IsPlainName(name) && std::ranges::count(names, name) == 1;
         });
}

bool IsLocalSizesOrEmpty(std::string_view text) {
  constexpr auto kCountMax = static_cast<size_t>(kMachinesMax);
  return SplitList(text).size() <= kCountMax && AreNumbers(text, 1, kLocalSizeMax);
}

bool IsLocalRanksOrEmpty(std::string_view text) { return AreNumbers(text, 0, kLocalSizeMax - 1); }

}  // namespace byteps::config
