#include "src/protocol/worker/front/names.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "src/operations/row.h"

namespace byteps::protocol {

Tensor::Tensor(Lifetime& owner, const wire::TensorSpec& what)
    : lifetime(owner), name(owner.name.text), spec(what) {}

Exchange Tensor::MakeExchange() const {
  Exchange exchange;
  exchange.name = name;
  exchange.tensor = {id, operations::CombineOf(spec), spec.dtype, spec.codec, spec.process_set};
  exchange.use = round;
  exchange.order = lifetime.name.order;
  exchange.priority = task->operation.priority;
  exchange.first_piece = deal.first_piece();
  exchange.count = deal.count();
  exchange.homes = &deal.homes();
  exchange.spans = task.get();
  if (task->stage() != Stage::kLayout) {
    exchange.memory = task->operation.memory;
    exchange.device = task->operation.device;
  }
  if (auto root = operations::RootPlace(task->work); root.has_value()) {
    exchange.root = task->set.slot_of[*root];
  }
  if (!task->operation.no_input.ok()) exchange.no_input = &task->operation.no_input;
  exchange.atomic = spec.atomic;
  exchange.others_wait = !task->layout.extent.sections.empty() && task->stage() != Stage::kLayout;
  return exchange;
}

Name& Names::NameOf(const std::string& text) {
  if (auto found = names_.find(text); found != names_.end()) return *found->second;
  auto name = std::make_unique<Name>();
  name->text = text;
  name->order = next_order_++;
  if (by_order_.size() == by_order_.capacity()) by_order_.reserve(2 * by_order_.size() + 1);
  Name& added = *names_.emplace(text, std::move(name)).first->second;
  by_order_.push_back(&added);
  return added;
}

Lifetime& Names::LifetimeOf(Name& name, uint32_t process_set) {
  return name.lifetimes.try_emplace(process_set, name, process_set).first->second;
}

Tensor& Names::TensorOf(Lifetime& lifetime, const wire::TensorSpec& spec) {
  if (auto found = lifetime.tensors.find(spec); found != lifetime.tensors.end())
    return *found->second;
  decltype(lifetime.tensors) one;  // the tensor refers to its key, which moves with its node
  auto added = one.try_emplace(spec).first;
  added->second = std::make_unique<Tensor>(lifetime, added->first);
  return *lifetime.tensors.insert(one.extract(added)).position->second;
}

Name* Names::Find(const std::string& text) const {
  auto found = names_.find(text);
  return found == names_.end() ? nullptr : found->second.get();
}

Name* Names::ByOrder(uint32_t order) const {
  auto found = std::ranges::lower_bound(by_order_, order, {}, &Name::order);
  return found == by_order_.end() || (*found)->order != order ? nullptr : *found;
}

const Lifetime* Names::FindLifetime(const wire::NamedUse& use) const {
  const Name* name = Find(use.name);
  if (name == nullptr) return nullptr;
  auto found = name->lifetimes.find(use.use.process_set);
  return found == name->lifetimes.end() ? nullptr : &found->second;
}

void Names::Clear() {
  for (Name* name : by_order_) name->lifetimes.clear();
  by_id_.clear();
}

void Names::SetDeclared(Tensor& tensor, const wire::Declared& declared) {
  tensor.declared = true;
  tensor.id = declared.tensor;
  tensor.placement = declared.placement;
  tensor.deal.Begin(declared.placement);
  by_id_[tensor.id] = &tensor;
}

void Names::Forget(Tensor& tensor) {
  by_id_.erase(tensor.id);
  tensor.declared = tensor.let_go = false;
  Lifetime& lifetime = tensor.lifetime;
  if (tensor.task == nullptr) lifetime.tensors.erase(lifetime.tensors.find(tensor.spec));
}

void Names::Forget(Lifetime& lifetime) {
  std::vector<Tensor*> tensors;
  for (const auto& [spec, tensor] : lifetime.tensors) {
    if (tensor->declared) tensors.push_back(tensor.get());
  }
  for (Tensor* tensor : tensors) Forget(*tensor);
  Name& name = lifetime.name;
  if (name.open != nullptr && &name.open->lifetime == &lifetime) {
    lifetime.number = lifetime.attempt = 0;
    lifetime.round = 0;
    lifetime.failing.reset();
  } else {
    name.lifetimes.erase(lifetime.process_set);
    Erase(name);
  }
}

void Names::Erase(Name& name) {
  if (name.open != nullptr || !name.lifetimes.empty()) return;
  by_order_.erase(std::ranges::lower_bound(by_order_, name.order, {}, &Name::order));
  names_.erase(names_.find(name.text));
}

Tensor* Names::ById(TensorId id) const {
  auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second;
}

std::vector<TensorId> Names::Undeclare(Lifetime& lifetime) {
  std::vector<TensorId> retired;
  for (const auto& [spec, tensor] : lifetime.tensors) {
    tensor->let_go = false;
    if (!std::exchange(tensor->declared, false)) continue;
    by_id_.erase(tensor->id);
    retired.push_back(tensor->id);
  }
  std::erase_if(lifetime.tensors, [](const auto& one) { return one.second->task == nullptr; });
  ++lifetime.attempt;
  lifetime.round = 0;
  lifetime.failing.reset();
  return retired;
}

}  // namespace byteps::protocol
