#include "src/protocol/worker/declaring.h"

#include <utility>

namespace byteps::protocol {
namespace {

bool IsDeclaring(const Tensor& tensor) {
  return tensor.task != nullptr && !tensor.task->withdrawn.has_value() &&
         tensor.task->stage() == Stage::kDeclare;
}

}  // namespace

Declaring::Failure Declaring::FailureOf(const Course& course) const {
  if (!course.failing.has_value()) return Failure::kNone;
  uint64_t next = joins_.NextRound(course.round);
  uint64_t failed = course.failing->use.round;
  if (next == failed) return Failure::kNext;
  return next < failed ? Failure::kLater : Failure::kPast;
}

bool Declaring::BeginUse(Tensor& tensor) const {
  if (!tensor.declared) {
    Ask(tensor);
    return false;
  }
  tensor.round = tensor.course.round = joins_.NextRound(tensor.course.round);
  return true;
}

void Declaring::Ask(const Tensor& tensor) const {
  const Course& course = tensor.course;
  send_(wire::Declare{tensor.name, course.attempt, tensor.spec, joins_.NextRound(course.round)});
}

Tensor* Declaring::OnDeclared(const wire::Declared& message) const {
  Name* name = names_.Find(message.name);
  if (name == nullptr || name->open == nullptr) return nullptr;
  Tensor& tensor = *name->open;
  Course& course = tensor.course;
  bool meant = course.process_set == message.group && course.attempt == message.attempt;
  if (!meant || !IsDeclaring(tensor) || names_.ById(message.tensor) != nullptr) return nullptr;
  names_.SetDeclared(tensor, message);
  tensor.round = course.round = joins_.NextRound(course.round);
  return &tensor;
}

Course* Declaring::OnFailed(const wire::DeclareFailed& message) {
  Name* name = names_.Find(message.name);
  if (name == nullptr) return nullptr;
  Course& course = Names::CourseOf(*name, message.use.group);
  if (message.use.attempt != course.attempt) return nullptr;
  bool known = course.failing.has_value();
  if (known && message.use.round >= course.failing->use.round) return nullptr;
  if (!known) failures_.push_back(message);
  course.failing = message;
  return &course;
}

// All ranks count its rounds from the one behind the failure. This rank may have used the name
// since that round ended here in another error.
std::vector<TensorId> Declaring::BeginAttempt(Course& course) {
  uint64_t failed = course.failing->use.round;
  uint64_t last = course.round;
  std::vector<TensorId> unknown = names_.Undeclare(course);
  bool since_join = failed > wire::FirstRoundAfter(joins_.done());
  if (since_join && last > failed) course.round = joins_.NextRound(0) - 1 + (last - failed);
  return unknown;
}

std::vector<TensorId> Declaring::EndAttempt(Course& course) {
  const wire::DeclareFailed why = *course.failing;
  std::vector<TensorId> unknown = BeginAttempt(course);
  for (const wire::NamedUse& also : why.also) {
    Course& other = Names::CourseOf(names_.NameOf(also.name), also.use.group);
    const Tensor* open = other.name.open;
    bool own_end = open != nullptr && &open->course == &other;  // it is told of that by itself
    if (other.attempt > also.use.attempt || own_end) continue;
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
    wire::Declared declared{tensor.name, tensor.course.process_set, tensor.course.attempt,
                            tensor.id, tensor.placement};
    size_t more = declared.name.size() + 8 * declared.placement.size();
    part(more).tensors.push_back({std::move(declared), tensor.spec});
  });
  return parts;
}

void Declaring::AskAgain() const {
  for (const Name* name : names_.in_order()) {
    if (name->open != nullptr && IsDeclaring(*name->open)) Ask(*name->open);
  }
}

}  // namespace byteps::protocol
