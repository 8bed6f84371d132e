#include "src/protocol/worker/front/declaring.h"

#include <algorithm>
#include <utility>

namespace byteps::protocol {
namespace {

bool IsDeclaring(const Tensor& tensor) {
  return tensor.task != nullptr && !tensor.task->withdrawn.has_value() &&
         tensor.task->stage() == Stage::kDeclare;
}

}  // namespace

void Declaring::Clear() {
  failures_.clear();
  idle_.Clear();
  for (auto& [begun, order] : reserved_) begun = 0;
}

void Declaring::Reserve(const std::string& name) {
  if (names_.Find(name) == nullptr)
    reserved_.emplace_back(idle_.begun(), names_.NameOf(name).order);
}

void Declaring::DropUnused() {
  while (!reserved_.empty() &&
         reserved_.front().first + idle_.patience_for_first() < idle_.begun()) {
    Name* name = names_.ByOrder(reserved_.front().second);
    reserved_.pop_front();
    if (name != nullptr) names_.Erase(*name);
  }
}

Declaring::Failure Declaring::FailureOf(const Lifetime& lifetime) const {
  if (!lifetime.failing.has_value()) return Failure::kNone;
  uint64_t next = joins_.NextRound(lifetime.round);
  uint64_t failed = lifetime.failing->use.round;
  if (next == failed) return Failure::kNext;
  return next < failed ? Failure::kLater : Failure::kPast;
}

bool Declaring::BeginUse(Tensor& tensor) {
  tensor.last_use = idle_.Begin(tensor.last_use);
  LetGo(idle_.TakeIdle());
  DropUnused();
  if (!tensor.declared || rules_.AsksAgain(tensor.let_go)) {
    Ask(tensor);
    return false;
  }
  tensor.let_go = false;
  tensor.round = tensor.lifetime.round = joins_.NextRound(tensor.lifetime.round);
  return true;
}

void Declaring::EndUse(const Tensor& tensor, bool well) {
  if (tensor.declared && rules_.MayLetGo(well)) idle_.End(tensor.last_use, tensor.id);
}

void Declaring::Ask(const Tensor& tensor) const {
  const Lifetime& lifetime = tensor.lifetime;
  send_(wire::Declare{tensor.name, lifetime.attempt, tensor.spec, joins_.NextRound(lifetime.round),
                      lifetime.number});
}

Tensor* Declaring::OnDeclared(const wire::Declared& message,
                              std::vector<TensorId>& replaced) const {
  Name* name = names_.Find(message.name);
  if (name == nullptr || name->open == nullptr) return nullptr;
  Tensor& tensor = *name->open;
  Lifetime& lifetime = tensor.lifetime;
  bool meant = lifetime.process_set == message.process_set && lifetime.attempt == message.attempt &&
               (lifetime.number == 0 || lifetime.number == message.lifetime);
  if (!meant || !IsDeclaring(tensor)) return nullptr;
  const bool again = tensor.let_go && tensor.id == message.tensor;
  if (!again && names_.ById(message.tensor) != nullptr) return nullptr;
  if (tensor.declared && !again) {
    replaced.push_back(tensor.id);
    names_.Forget(tensor);
  }
  tensor.let_go = false;
  lifetime.number = message.lifetime;
  if (!again) names_.SetDeclared(tensor, message);
  tensor.round = lifetime.round = joins_.NextRound(lifetime.round);
  return &tensor;
}

Lifetime* Declaring::OnFailed(const wire::DeclareFailed& message) {
  Name* name = names_.Find(message.name);
  if (name == nullptr) return nullptr;
  Lifetime& lifetime = Names::LifetimeOf(*name, message.use.process_set);
  bool meant = message.use.attempt == lifetime.attempt &&
               (lifetime.number == 0 || lifetime.number == message.use.lifetime);
  if (!meant) return nullptr;
  lifetime.number = message.use.lifetime;
  bool known = lifetime.failing.has_value();
  if (known && message.use.round >= lifetime.failing->use.round) return nullptr;
  if (!known) failures_.push_back(message);
  lifetime.failing = message;
  return &lifetime;
}

// All ranks count the rounds of the new attempt from the round behind the failure. If that round
// ended here in another error, this rank may have used the name since then. These uses count in the
// new attempt.
std::vector<TensorId> Declaring::BeginAttempt(Lifetime& lifetime) {
  uint64_t failed = lifetime.failing->use.round;
  uint64_t last = lifetime.round;
  std::vector<TensorId> unknown = names_.Undeclare(lifetime);
  bool since_join = failed > wire::FirstRoundAfter(joins_.done());
  if (since_join && last > failed) lifetime.round = joins_.NextRound(0) - 1 + (last - failed);
  return unknown;
}

std::vector<TensorId> Declaring::EndAttempt(Lifetime& lifetime) {
  const wire::DeclareFailed why = *lifetime.failing;
  std::vector<TensorId> unknown = BeginAttempt(lifetime);
  for (const wire::NamedUse& also : why.also) {
    Lifetime& other = Names::LifetimeOf(names_.NameOf(also.name), also.use.process_set);
    const Tensor* open = other.name.open;
    bool own_end = open != nullptr && &open->lifetime == &other;  // a failure of its own ends it
    bool another = other.number != 0 && other.number != also.use.lifetime;
    if (another || other.attempt > also.use.attempt || own_end) continue;
    other.number = also.use.lifetime;
    other.attempt = also.use.attempt;
    std::vector<TensorId> more = names_.Undeclare(other);
    unknown.insert(unknown.end(), more.begin(), more.end());
  }
  return unknown;
}

std::vector<wire::Known> Declaring::Known() const {
  std::vector<wire::Known> parts(1);
  size_t bytes = 0;
  auto part = [&](size_t more) -> wire::Known& {
    if (bytes + more > wire::kControlPartBytes && bytes > 0) {
      parts.emplace_back();
      bytes = 0;
    }
    bytes += more;
    return parts.back();
  };
  for (const wire::DeclareFailed& failed : failures_) {
    size_t more =
        failed.name.size() + failed.text.size() + wire::kControlUseBytes * (1 + failed.also.size());
    for (const wire::NamedUse& also : failed.also) more += also.name.size();
    part(more + sizeof(TensorId) * failed.tensors.size()).failed.push_back(failed);
  }
  names_.ForEachTensor([&](const Tensor& tensor) {
    if (!tensor.declared) return;
    const Lifetime& lifetime = tensor.lifetime;
    wire::Declared declared{tensor.name, lifetime.process_set, lifetime.attempt,
                            tensor.id,   tensor.placement,     lifetime.number};
    size_t more = declared.name.size() + 8 * declared.placement.size();
    part(more).tensors.push_back(
        {std::move(declared), tensor.spec, rules_.TellsLetGo(tensor.let_go)});
  });
  return parts;
}

void Declaring::AskAgain() const {
  for (const Name* name : names_.in_order()) {
    if (name->open != nullptr && IsDeclaring(*name->open)) Ask(*name->open);
  }
  wire::LetGo again;
  names_.ForEachTensor([&](const Tensor& tensor) {
    if (tensor.let_go && tensor.task == nullptr) again.tensors.push_back(tensor.id);
  });
  if (!again.tensors.empty()) send_(again);
}

// An id is unknown if the tensor was forgotten, or if its attempt has failed. Unknown ids are
// skipped.
void Declaring::LetGo(const std::vector<TensorId>& tensors) const {
  wire::LetGo message;
  for (TensorId id : tensors) {
    Tensor* tensor = names_.ById(id);
    if (tensor == nullptr || tensor->task != nullptr || tensor->let_go) continue;
    tensor->let_go = true;
    message.tensors.push_back(id);
  }
  if (!message.tensors.empty()) send_(message);
}

// The rank never uses these tensors again, so it does not matter how their last use ended.
void Declaring::LetGoOf(uint32_t process_set) const {
  std::vector<TensorId> tensors;
  for (const Name* name : names_.in_order()) {
    auto lifetime = name->lifetimes.find(process_set);
    if (lifetime == name->lifetimes.end()) continue;
    for (const auto& [spec, tensor] : lifetime->second.tensors) {
      if (tensor->declared) tensors.push_back(tensor->id);
    }
  }
  LetGo(tensors);
}

// If this rank has asked for one of these tensors again, the coordinator's answer follows this
// message and names a new tensor.
std::vector<TensorId> Declaring::OnForgotten(const wire::Forgotten& message) {
  std::vector<TensorId> unknown;
  for (TensorId id : message.tensors) {
    Tensor* tensor = names_.ById(id);
    if (tensor != nullptr && IsInUse(*tensor)) continue;  // no correct coordinator sends this
    if (tensor != nullptr) {
      const Lifetime& lifetime = tensor->lifetime;
      ForgetFailures(lifetime.name.text, lifetime.UseIn(0));
      names_.Forget(*tensor);
    }
    unknown.push_back(id);
  }
  for (const wire::LifetimeNumber& over : message.lifetimes) Forget(over);
  return unknown;
}

// A rank that has joined passes over a failure that the other ranks have gone on from. So a tensor
// of the failed attempt is not in use here, although this rank has not let go of it.
bool Declaring::IsInUse(const Tensor& tensor) const {
  const Lifetime& lifetime = tensor.lifetime;
  const bool passes_over = lifetime.failing.has_value() && tensor.task == nullptr &&
                           (joins_.has_joined() || FailureOf(lifetime) == Failure::kPast);
  return tensor.declared && !tensor.let_go && !passes_over;
}

// Forgets the failures of attempts before this use, because all ranks have gone on from there.
void Declaring::ForgetFailures(const std::string& name, const wire::Use& use) {
  auto is_over = [&](const std::string& text, const wire::Use& one) {
    return text == name && one.process_set == use.process_set && one.lifetime == use.lifetime &&
           one.attempt < use.attempt;
  };
  std::erase_if(failures_,
                [&](const wire::DeclareFailed& one) { return is_over(one.name, one.use); });
  for (wire::DeclareFailed& failed : failures_) {
    std::erase_if(failed.also,
                  [&](const wire::NamedUse& one) { return is_over(one.name, one.use); });
  }
}

// An operation that waits for the coordinator's answer has asked about the lifetime that is over
// now. It asks again.
void Declaring::Forget(const wire::LifetimeNumber& over) {
  ForgetFailures(over.name, {over.process_set, UINT32_MAX, 0, over.number});
  Name* name = names_.Find(over.name);
  if (name == nullptr) return;
  auto found = name->lifetimes.find(over.process_set);
  if (found == name->lifetimes.end() || found->second.number != over.number) return;
  const bool in_use = std::ranges::any_of(found->second.tensors,
                                          [&](const auto& one) { return IsInUse(*one.second); });
  if (in_use) return;  // no correct coordinator sends this
  Lifetime& lifetime = found->second;
  const Tensor* open = name->open;
  const bool asks = open != nullptr && &open->lifetime == &lifetime && IsDeclaring(*open);
  const uint64_t round = lifetime.round;
  names_.Forget(lifetime);
  if (asks && !rules_.CountsAnew()) lifetime.round = round;
  if (asks) Ask(*open);
}

}  // namespace byteps::protocol
