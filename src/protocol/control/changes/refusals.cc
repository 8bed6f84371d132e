#include "src/protocol/control/changes/refusals.h"

#include <algorithm>

#include "src/base/text.h"

namespace byteps::protocol {
namespace {

constexpr size_t kKept = 4;
constexpr size_t kToldMax = 16;  // for strangers, and as many for proven processes
constexpr size_t kWhoBytesMax = 120;
constexpr size_t kWhyBytesMax = 240;

std::string Cut(const std::string& text, size_t bytes_max) {
  return std::string(CutText(text, bytes_max)) + (text.size() > bytes_max ? "..." : "");
}

}  // namespace

std::string Describe(const Refusal& refusal) {
  return "refused " + refusal.who + ": " + refusal.why;
}

bool Refusals::Note(const Refusal& refusal) {
  Refusal cut = refusal;
  cut.who = Cut(refusal.who, kWhoBytesMax);
  cut.kind = Cut(refusal.kind, kWhoBytesMax);
  cut.why = Cut(refusal.why, kWhyBytesMax);
  std::erase_if(latest_, [&](const Refusal& one) {
    return one.proven == cut.proven && one.kind == cut.kind && one.why == cut.why;
  });
  latest_.push_back(cut);
  if (latest_.size() > kKept) {  // strangers do not push out processes of the job
    auto stranger = std::find_if(latest_.begin(), latest_.end(),
                                 [](const Refusal& one) { return !one.proven; });
    latest_.erase(stranger == latest_.end() ? latest_.begin() : stranger);
  }
  std::set<std::string>& told = told_[cut.proven ? 1 : 0];
  return told.size() < kToldMax && told.insert(cut.kind + ": " + cut.why).second;
}

std::string Refusals::Describe() const {
  std::string text;
  for (const Refusal& one : latest_) text += "; " + protocol::Describe(one);
  return text;
}

void Refusals::Forget() {
  latest_.clear();
  for (auto& told : told_) told.clear();
}

}  // namespace byteps::protocol
