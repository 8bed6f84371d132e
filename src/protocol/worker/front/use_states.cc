#include "src/protocol/worker/front/use_states.h"

#include <algorithm>

namespace byteps::protocol {
namespace {

wire::UseStage StageOf(Stage stage) {
  switch (stage) {
    case Stage::kDeclare: return wire::UseStage::kDeclares;
    case Stage::kExchange: return wire::UseStage::kExchanges;
    case Stage::kLayout:  // the ranks exchange its sizes like bytes
    case Stage::kPartition:
    case Stage::kCopy:
    case Stage::kKeep:
    case Stage::kDeliver: break;
  }
  return wire::UseStage::kPrepares;
}

}  // namespace

// The round of a tensor that is being declared has not begun.
wire::UseState UseStates::StateOf(const Tensor& open) const {
  const Lifetime& lifetime = open.lifetime;
  const wire::UseStage stage = StageOf(open.task->stage());
  const bool declares = stage == wire::UseStage::kDeclares;
  const uint64_t round = declares ? joins_.NextRound(lifetime.round) : open.round;
  return {{open.name, lifetime.UseIn(round)}, open.declared ? open.id : UINT32_MAX, stage, 0};
}

std::map<OperationId, wire::UseState> UseStates::Open() const {
  std::map<OperationId, wire::UseState> states;
  for (const Name* name : names_.in_order()) {
    if (name->open != nullptr) states[name->open->task->operation.id] = StateOf(*name->open);
  }
  return states;
}

std::pair<wire::UseState, OperationId> UseStates::Of(const wire::NamedUse& use) const {
  wire::UseState state;
  state.use = use;
  const Name* name = names_.Find(use.name);
  const Tensor* open = name == nullptr ? nullptr : name->open;
  if (open != nullptr) {
    wire::UseState its = StateOf(*open);
    if (its.use.use.lifetime == 0)
      its.use.use.lifetime = use.use.lifetime;  // see Lifetime::IsBefore
    if (its.use == use) return {its, open->task->operation.id};
  }
  const Lifetime* lifetime = names_.FindLifetime(use);
  const bool passed = lifetime != nullptr && !lifetime->IsBefore(lifetime->round, use.use);
  if (passed) {
    state.stage = wire::UseStage::kEnded;
  } else if (std::ranges::find(device_waits_.late_inputs, use.name) !=
             device_waits_.late_inputs.end()) {
    state.stage = wire::UseStage::kAwaitsInput;
  } else if (joins_.has_joined()) {
    state.stage = wire::UseStage::kJoined;
  }
  return {state, 0};
}

std::vector<wire::ProcessSetRanks> UseStates::ProcessSetsOf(
    const std::vector<wire::UseState>& uses) const {
  std::map<uint32_t, wire::ProcessSetRanks> process_sets;
  for (const wire::UseState& one : uses) {
    const uint32_t number = one.use.use.process_set;
    const std::vector<uint32_t> known = sets_.Numbers();
    const bool is_known = std::find(known.begin(), known.end(), number) != known.end();
    if (number != 0 && is_known) process_sets[number] = {number, sets_.Of(number).ranks};
  }
  std::vector<wire::ProcessSetRanks> list;
  for (auto& [number, process_set] : process_sets) list.push_back(std::move(process_set));
  return list;
}

}  // namespace byteps::protocol
