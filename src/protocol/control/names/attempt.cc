#include "src/protocol/control/names/attempt.h"

#include <utility>

namespace byteps::protocol {

const Attempt::Entry* Attempt::Find(const wire::TensorSpec& spec) const {
  auto found = variants_.find(spec);
  return found == variants_.end() ? nullptr : &*found;
}

const Attempt::Entry* Attempt::Find(TensorId tensor) const {
  auto found = by_tensor_.find(tensor);
  return found == by_tensor_.end() ? nullptr : found->second;
}

const Attempt::Entry& Attempt::Add(const wire::TensorSpec& spec, const Variant& variant) {
  auto [place, fresh] = variants_.try_emplace(spec, variant);
  if (fresh) by_tensor_[variant.tensor] = &*place;
  return *place;
}

void Attempt::Hold(TensorId tensor, uint32_t rank) {
  by_tensor_.at(tensor)->second.holders.Insert(rank);
}

void Attempt::LetGo(TensorId tensor, uint32_t rank) {
  by_tensor_.at(tensor)->second.holders.Remove(rank);
}

void Attempt::LetGoOfAll(const std::vector<uint32_t>& ranks) {
  for (auto& [spec, variant] : variants_) {
    for (uint32_t rank : ranks) variant.holders.Remove(rank);
  }
}

void Attempt::Erase(TensorId tensor) {
  auto found = by_tensor_.find(tensor);
  if (found == by_tensor_.end()) return;
  if (meant_ == found->second) meant_ = nullptr;
  variants_.erase(found->second->first);
  by_tensor_.erase(found);
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
