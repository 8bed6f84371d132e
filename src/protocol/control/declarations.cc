#include "src/protocol/control/declarations.h"

#include <algorithm>
#include <utility>

#include "src/operations/row.h"
#include "src/operations/sizes.h"
#include "src/plan/partition.h"

namespace byteps::protocol {
namespace {

// More attempts at one name than any program makes.
constexpr uint32_t kAttemptsKnownMax = 4096;
// So many are named in one message: a megabyte.
constexpr size_t kStillKnownMax = size_t{1} << 18;

// What is known of the pieces before the first round. Where sizes are told first, pieces are dealt
// from the same state, but their number is not known here; that of scattered rows depends on the
// process set and is about this one.
Result<plan::Partition> CutOf(const wire::TensorSpec& spec, uint32_t members, uint32_t bytes_max) {
  std::optional<uint64_t> bytes = operations::DeclaredBytes(spec);
  if (!bytes.has_value()) {
    return Status(StatusCode::kInvalidArgument, "no tensor has this shape");
  }
  Result<plan::Partition> cut =
      plan::Partition::Cut(*bytes, plan::PieceBytes(*bytes, members, bytes_max));
  if (cut.ok() && cut->count() > operations::kPiecesMax) {
    return Status(StatusCode::kExhausted, "it has " + std::to_string(cut->count()) +
                                              " pieces; raise BYTEPS_PARTITION_BYTES");
  }
  return cut;
}

// The sides of a disagreement, in words.
std::string Side(uint32_t rank, const wire::TensorSpec& spec) {
  return "rank " + std::to_string(rank) + " has " + operations::Describe(spec);
}

}  // namespace

void Declarations::Begin(plan::PieceAssigner dealer, uint32_t workers, uint32_t piece_bytes_max) {
  dealer_ = std::move(dealer);
  workers_ = workers;
  piece_bytes_max_ = piece_bytes_max;
  names_.clear();
  heard_.clear();
  all_known_ = false;
  stuck_.Clear();
}

void Declarations::Number(TensorId first, uint32_t count) {
  first_tensor_ = next_tensor_ = first;
  end_tensor_ = first + count;
}

Declarations::Attempt* Declarations::FindAttempt(Name& name, uint32_t group, uint32_t number) {
  auto attempts = name.groups.find(group);
  if (attempts == name.groups.end() || number >= attempts->second.size()) return nullptr;
  return &attempts->second[number];
}

Declarations::Attempt& Declarations::At(Name& name, uint32_t group, uint32_t number) {
  Attempts& attempts = name.groups[group];
  if (number >= attempts.size()) attempts.resize(number + 1);
  return attempts[number];
}

const Declarations::Variants::value_type* Declarations::FindTensor(const Attempt& attempt,
                                                                   TensorId tensor) {
  auto found = std::find_if(attempt.variants.begin(), attempt.variants.end(),
                            [&](const auto& one) { return one.second.tensor == tensor; });
  return found == attempt.variants.end() ? nullptr : &*found;
}

Declarations::Answers Declarations::OnDeclare(const Rank& rank, const wire::Declare& declare) {
  Name& name = names_[declare.name];
  uint32_t group = declare.spec.group;
  // No correct worker skips an attempt.
  if (declare.attempt > name.groups[group].size()) return {};
  Attempt& attempt = At(name, group, declare.attempt);
  wire::Use use{group, declare.attempt, declare.round};
  if (attempt.failed.has_value()) return {{rank.incarnation, *attempt.failed}};
  attempt.told.insert(rank.incarnation);
  name.waits.erase(rank.number);  // the operation that it was in has ended
  bool stated = attempt.round == declare.round && attempt.meant != nullptr;
  if (stated && attempt.meant->first != declare.spec) {
    return Fail(name, Mismatch(declare.name, use, attempt, rank, declare.spec));
  }
  if (!attempt.variants.contains(declare.spec)) {
    Status added = AddVariant(declare.spec, attempt);
    if (!added.ok()) {
      std::string text = "tensor '" + declare.name + "': " + added.message();
      return Fail(name, {declare.name, use, {}, added.code(), text, {}});
    }
  }
  const auto& variant = *attempt.variants.find(declare.spec);
  if (declare.round > attempt.round) {
    attempt.round = declare.round;
    attempt.meant = &variant;
    attempt.by = rank.number;
  }
  return {{rank.incarnation, wire::Declared{declare.name, group, declare.attempt,
                                            variant.second.tensor, variant.second.placement}}};
}

Status Declarations::AddVariant(const wire::TensorSpec& spec, Attempt& attempt) {
  Result<plan::Partition> cut = CutOf(spec, workers_, piece_bytes_max_);
  if (!cut.ok()) return cut.status();
  if (attempt.variants.size() >= kVariantsMax) {
    return {
        StatusCode::kExhausted,
        "it has had " + std::to_string(kVariantsMax) +
            " shapes, types or operations; use several names, or the same shape again (pad it)"};
  }
  if (next_tensor_ >= end_tensor_) {
    return {StatusCode::kExhausted, "the job has declared too many tensors; use names again"};
  }
  attempt.variants[spec] = {next_tensor_++, dealer_->State()};
  dealer_->DealTensor(cut.value());
  return Status::Ok();
}

wire::DeclareFailed Declarations::Mismatch(const std::string& name, const wire::Use& use,
                                           const Attempt& attempt, const Rank& rank,
                                           const wire::TensorSpec& spec) {
  std::string text = "ranks disagree about tensor '" + name + "': ";
  text += Side(attempt.by, attempt.meant->first) + ", " + Side(rank.number, spec) +
          "; use the same name, shape, dtype, operation and process set on every rank";
  return {name, use, {}, StatusCode::kMismatch, text, {}};
}

// Ranks that have not asked yet will be answered when they do. Servers drop what they hold.
Declarations::Answers Declarations::Fail(Name& name, wire::DeclareFailed failed) {
  Attempt& attempt = At(name, failed.use.group, failed.use.attempt);
  failed.tensors = attempt.retired;
  for (const auto& [spec, variant] : attempt.variants) failed.tensors.push_back(variant.tensor);
  attempt.failed = std::move(failed);
  std::erase_if(name.waits, [&](const auto& entry) {
    const wire::Use& use = entry.second.use;
    return use.group == attempt.failed->use.group && use.attempt <= attempt.failed->use.attempt;
  });
  stuck_.RemoveIf([&](const StuckRanks::Wait& wait) {
    const wire::Use& use = wait.use.use;
    return wait.use.name == attempt.failed->name && use.group == attempt.failed->use.group &&
           use.attempt <= attempt.failed->use.attempt;
  });
  Answers answers;
  if (!attempt.failed->tensors.empty()) answers.push_back({kServers, *attempt.failed});
  for (uint64_t told : attempt.told) answers.push_back({told, *attempt.failed});
  return answers;
}

Declarations::Answers Declarations::OnKnown(const Rank& rank, const wire::Known& known) {
  Answers answers;
  for (const wire::KnownTensor& one : known.tensors) {
    const wire::Declared& declared = one.declared;
    if (declared.tensor < first_tensor_) heard_.insert(declared.tensor);
    if (declared.attempt >= kAttemptsKnownMax) continue;
    Attempt& attempt = At(names_[declared.name], declared.group, declared.attempt);
    attempt.variants.try_emplace(one.spec, Variant{declared.tensor, declared.placement});
    attempt.told.insert(rank.incarnation);
    if (attempt.failed.has_value()) answers.push_back({rank.incarnation, *attempt.failed});
  }
  for (const wire::DeclareFailed& failed : known.failed) {
    // A failure in one group is one in the others: perhaps nobody is left who was told of those.
    const wire::NamedUse itself = {failed.name, failed.use};
    std::vector<wire::NamedUse> uses = failed.also;
    uses.push_back(itself);
    for (const wire::NamedUse& one : uses) {
      if (one.use.attempt >= kAttemptsKnownMax) continue;
      Name& name = names_[one.name];
      Attempt& attempt = At(name, one.use.group, one.use.attempt);
      if (attempt.failed.has_value()) continue;
      wire::DeclareFailed here = failed;
      here.name = one.name;
      here.use = one.use;
      here.also = uses;
      std::erase(here.also, one);
      for (TensorId tensor : one == itself ? failed.tensors : std::vector<TensorId>()) {
        if (FindTensor(attempt, tensor) == nullptr) attempt.retired.push_back(tensor);
      }
      Answers more = Fail(name, std::move(here));
      answers.insert(answers.end(), more.begin(), more.end());
    }
  }
  return answers;
}

Status Declarations::OnAllKnown() {
  const Variants::value_type* last = nullptr;
  all_known_ = true;
  for (auto& [text, name] : names_) {
    for (auto& [group, attempts] : name.groups) {
      for (uint32_t i = 0; i < attempts.size(); ++i) {
        Attempt& attempt = attempts[i];
        // Whoever could have told of this attempt is gone; others went on from it.
        if (attempt.variants.empty() && !attempt.failed.has_value() && i + 1 < attempts.size()) {
          attempt.failed = {text, {group, i, 1}, {}, StatusCode::kMismatch, "", {}};
          attempt.failed->text =
              "an earlier declaration of tensor '" + text + "' failed; use it again";
        }
        for (const auto& one : attempt.variants) {
          if (last == nullptr || one.second.tensor > last->second.tensor) last = &one;
        }
      }
    }
  }
  if (last == nullptr) return Status::Ok();
  Status restored = dealer_->Restore(last->second.placement);
  if (!restored.ok()) return restored;
  Result<plan::Partition> cut = CutOf(last->first, workers_, piece_bytes_max_);
  if (cut.ok()) dealer_->DealTensor(cut.value());
  return Status::Ok();
}

Declarations::Answers Declarations::StillKnown(uint64_t to) const {
  if (!all_known_) return {};
  Answers answers;
  wire::StillKnown part;
  for (TensorId tensor : heard_) {
    if (part.tensors.size() == kStillKnownMax) {
      part.end = tensor;
      answers.push_back({to, std::exchange(part, {.first = tensor})});
    }
    part.tensors.push_back(tensor);
  }
  part.end = first_tensor_;
  answers.push_back({to, std::move(part)});
  return answers;
}

Declarations::Answers Declarations::ForServer(uint64_t server) const {
  Answers answers = StillKnown(server);
  for (const auto& [text, name] : names_) {
    for (const auto& [group, attempts] : name.groups) {
      for (const Attempt& attempt : attempts) {
        bool holds = attempt.failed.has_value() && !attempt.failed->tensors.empty();
        if (holds) answers.push_back({server, *attempt.failed});
      }
    }
  }
  return answers;
}

Declarations::Answers Declarations::FailedForWorker(uint64_t worker) const {
  Answers answers;
  for (const auto& [text, name] : names_) {
    for (const auto& [group, attempts] : name.groups) {
      for (const Attempt& attempt : attempts) {
        bool told = attempt.failed.has_value() && attempt.told.contains(worker);
        if (told) answers.push_back({worker, *attempt.failed});
      }
    }
  }
  return answers;
}

}  // namespace byteps::protocol
