#include "src/protocol/control/names/lifetimes.h"

#include <algorithm>

namespace byteps::protocol {

bool NameLifetime::IsOver() const {
  return std::ranges::none_of(attempts, [&](const Attempt& one) {
    const bool failed = one.failed().has_value();
    return &one == &attempts.back() ? failed || !one.variants().empty()
                                    : !failed && !one.variants().empty();
  });
}

void Lifetimes::Clear() {
  tensors_.clear();
  names_.clear();
}

NameLifetime* Lifetimes::Find(const std::string& name, uint32_t process_set) {
  auto lifetimes = names_.find(name);
  if (lifetimes == names_.end()) return nullptr;
  auto lifetime = lifetimes->second.find(process_set);
  return lifetime == lifetimes->second.end() ? nullptr : &lifetime->second;
}

Attempt* Lifetimes::FindAttempt(const std::string& name, const wire::Use& use) {
  NameLifetime* lifetime = Find(name, use.process_set);
  if (lifetime == nullptr || lifetime->number != use.lifetime) return nullptr;
  return use.attempt < lifetime->attempts.size() ? &lifetime->attempts[use.attempt] : nullptr;
}

const Lifetimes::Place* Lifetimes::Find(TensorId tensor) const {
  auto found = tensors_.find(tensor);
  return found == tensors_.end() ? nullptr : &found->second;
}

NameLifetime& Lifetimes::Begin(const std::string& name, uint32_t process_set, uint32_t number) {
  auto& [text, lifetimes] = *names_.try_emplace(name).first;
  return lifetimes.emplace(process_set, NameLifetime{text, process_set, number}).first->second;
}

Attempt& Lifetimes::At(NameLifetime& lifetime, uint32_t attempt) {
  if (attempt >= lifetime.attempts.size()) lifetime.attempts.resize(attempt + 1);
  return lifetime.attempts[attempt];
}

const Attempt::Entry& Lifetimes::Add(NameLifetime& lifetime, uint32_t attempt,
                                     const wire::TensorSpec& spec,
                                     const Attempt::Variant& variant) {
  const Attempt::Entry& entry = At(lifetime, attempt).Add(spec, variant);
  tensors_[entry.second.tensor] = {&lifetime, attempt};
  return entry;
}

void Lifetimes::EraseTensor(TensorId tensor) {
  auto found = tensors_.find(tensor);
  if (found == tensors_.end()) return;
  found->second.lifetime->attempts[found->second.attempt].Erase(tensor);
  tensors_.erase(found);
}

Lifetimes::Over Lifetimes::Erase(const NameLifetime& lifetime) {
  Over over;
  for (const Attempt& attempt : lifetime.attempts) {
    over.told.insert(attempt.told().begin(), attempt.told().end());
    if (attempt.failed().has_value()) {
      const std::vector<TensorId>& retired = attempt.failed()->tensors;
      over.tensors.insert(over.tensors.end(), retired.begin(), retired.end());
    }
    for (const auto& [spec, variant] : attempt.variants()) {
      if (!attempt.failed().has_value()) over.tensors.push_back(variant.tensor);
      tensors_.erase(variant.tensor);
    }
  }
  auto lifetimes = names_.find(lifetime.name);
  lifetimes->second.erase(lifetime.process_set);
  if (lifetimes->second.empty()) names_.erase(lifetimes);
  return over;
}

std::vector<TensorId> Lifetimes::Unheld() const {
  std::vector<TensorId> unheld;
  ForEach([&](const NameLifetime& lifetime) {
    for (const Attempt& attempt : lifetime.attempts) {
      if (attempt.failed().has_value()) continue;
      for (const auto& [spec, variant] : attempt.variants()) {
        if (variant.holders.empty()) unheld.push_back(variant.tensor);
      }
    }
  });
  return unheld;
}

}  // namespace byteps::protocol
