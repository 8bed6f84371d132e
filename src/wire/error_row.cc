#include "src/wire/error_row.h"

#include <algorithm>
#include <cstring>

#include "src/base/check.h"
#include "src/base/text.h"
#include "src/wire/bytes.h"

namespace byteps::wire {
namespace {

// Byte positions in one error, from docs/wire-format.md.
constexpr size_t kFromAt = 0;
constexpr size_t kCodeAt = 8;
constexpr size_t kTextBytesAt = 12;
constexpr size_t kTextAt = 16;

Status MalformedRow(const std::string& what) {
  return {StatusCode::kProtocol, "malformed " + what};
}

}  // namespace

size_t ErrorRow::bytes() const {
  size_t total = 0;
  for (const Error& error : errors_) total += kTextAt + error.why.message().size();
  return total;
}

void ErrorRow::Add(uint64_t round, const Status& why) {
  BYTEPS_CHECK(!why.ok() && (errors_.empty() || round > errors_.back().from));
  std::string text(CutText(why.message(), kErrorTextBytesMax));
  bool same = !errors_.empty() && errors_.back().why.code() == why.code() &&
              errors_.back().why.message() == text;
  if (!same) errors_.push_back({round, Status(why.code(), std::move(text))});
  while (bytes() > kErrorRowBytesMax) {
    errors_[1].from = errors_[0].from;
    errors_.erase(errors_.begin());
  }
}

const Status* ErrorRow::Of(uint64_t round) const {
  auto after = std::upper_bound(errors_.begin(), errors_.end(), round,
                                [](uint64_t wanted, const Error& e) { return wanted < e.from; });
  return after == errors_.begin() ? nullptr : &std::prev(after)->why;
}

std::vector<std::byte> ErrorRow::Encode(uint64_t round) const {
  std::vector<std::byte> out;
  for (const Error& error : errors_) {
    if (error.from > round) break;
    const std::string& text = error.why.message();
    size_t at = out.size();
    out.resize(at + kTextAt + text.size());
    PutLittle(out.data() + at + kFromAt, error.from);
    PutLittle(out.data() + at + kCodeAt, static_cast<uint32_t>(error.why.code()));
    PutLittle(out.data() + at + kTextBytesAt, static_cast<uint32_t>(text.size()));
    if (!text.empty()) std::memcpy(out.data() + at + kTextAt, text.data(), text.size());
  }
  BYTEPS_CHECK(!out.empty());
  return out;
}

Result<ErrorRow> ErrorRow::Decode(ConstByteSpan bytes, uint64_t round) {
  if (bytes.empty() || bytes.size() > kErrorRowBytesMax)
    return MalformedRow("errors: wrong length");
  ErrorRow row;
  while (!bytes.empty()) {
    if (bytes.size() < kTextAt) return MalformedRow("errors: one breaks off");
    auto from = GetLittle<uint64_t>(bytes.data() + kFromAt);
    auto code = GetLittle<uint32_t>(bytes.data() + kCodeAt);
    auto text_bytes = GetLittle<uint32_t>(bytes.data() + kTextBytesAt);
    bool known = code > 0 && code <= static_cast<uint32_t>(kLastStatusCode);
    if (!known) return MalformedRow("error: unknown code " + std::to_string(code));
    if (text_bytes > std::min(bytes.size() - kTextAt, kErrorTextBytesMax)) {
      return MalformedRow("error: its text breaks off");
    }
    bool later = row.errors_.empty() || from > row.errors_.back().from;
    if (!later || from > round) return MalformedRow("errors: they are out of order");
    std::string text(reinterpret_cast<const char*>(bytes.data() + kTextAt), text_bytes);
    row.errors_.push_back({from, Status(static_cast<StatusCode>(code), std::move(text))});
    bytes = bytes.subspan(kTextAt + text_bytes);
  }
  return row;
}

}  // namespace byteps::wire
