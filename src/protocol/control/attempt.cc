#include "src/protocol/control/attempt.h"

#include <algorithm>
#include <utility>

namespace byteps::protocol {

const Attempt::Entry* Attempt::Find(const wire::TensorSpec& spec) const {
  auto found = variants_.find(spec);
  return found == variants_.end() ? nullptr : &*found;
}

const Attempt::Entry* Attempt::Find(TensorId tensor) const {
  auto found = std::find_if(variants_.begin(), variants_.end(),
                            [&](const Entry& one) { return one.second.tensor == tensor; });
  return found == variants_.end() ? nullptr : &*found;
}

const Attempt::Entry& Attempt::Add(const wire::TensorSpec& spec, const Variant& variant) {
  return *variants_.try_emplace(spec, variant).first;
}

bool Attempt::Contradicts(uint64_t round, const Entry* entry) const {
  return round == round_ && meant_ != nullptr && entry != meant_;
}

void Attempt::Mean(uint64_t round, const Entry& entry, uint32_t rank, uint64_t worker) {
  bool known = round < round_ || (round == round_ && meant_ != nullptr);
  if (known) return;
  round_ = round;
  meant_ = &entry;
  by_ = rank;
  worker_ = worker;
}

void Attempt::ForgetMeaningIf(const std::function<bool(uint64_t)>& gone) {
  if (meant_ != nullptr && gone(worker_)) meant_ = nullptr;
}

const wire::DeclareFailed& Attempt::Fail(wire::DeclareFailed failed) {
  failed.tensors = retired_;
  for (const auto& [spec, variant] : variants_) failed.tensors.push_back(variant.tensor);
  failed_ = std::move(failed);
  return *failed_;
}

void Attempt::Retire(TensorId tensor) {
  if (Find(tensor) == nullptr) retired_.push_back(tensor);
}

}  // namespace byteps::protocol
