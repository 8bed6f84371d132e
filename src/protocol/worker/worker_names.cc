// What names stand for on this rank: which tensor is meant, what the coordinator is asked and told
// of it, and what follows when the ranks disagree (declarations.h).
#include <algorithm>
#include <utility>

#include "src/protocol/worker/worker.h"

namespace byteps::protocol {
namespace {

// What one message to a coordinator holds, well below wire::kControlBytesMax.
constexpr size_t kMessageBytes = size_t{1} << 20;

// What a use, or the number of a rank, takes in a message at most.
constexpr size_t kUseBytes = 32;

}  // namespace

Worker::Tensor::Tensor(Course& owner, const wire::TensorSpec& what)
    : course(owner), name(owner.name.text), spec(what) {}

// Whole or not at all, should memory not suffice; so is TensorOf.
Worker::Name& Worker::NameOf(const std::string& text) {
  if (auto found = names_.find(text); found != names_.end()) return *found->second;
  auto name = std::make_unique<Name>();
  name->text = text;
  name->order = static_cast<uint32_t>(by_order_.size());
  if (by_order_.size() == by_order_.capacity()) by_order_.reserve(2 * by_order_.size() + 1);
  Name& added = *names_.emplace(text, std::move(name)).first->second;
  by_order_.push_back(&added);
  return added;
}

void Worker::Declare(const std::string& name) { NameOf(name); }

Worker::Course& Worker::CourseOf(Name& name, uint32_t group) {
  return name.courses.try_emplace(group, name, group).first->second;
}

Worker::Tensor& Worker::TensorOf(Course& course, const wire::TensorSpec& spec) {
  if (alone_) course.tensors.clear();  // there a name never stands for anything
  if (auto found = course.tensors.find(spec); found != course.tensors.end()) return *found->second;
  decltype(course.tensors) one;  // the tensor refers to its key, which moves with its node
  auto added = one.try_emplace(spec).first;
  added->second = std::make_unique<Tensor>(course, added->first);
  return *course.tensors.insert(one.extract(added)).position->second;
}

std::vector<Worker::Tensor*> Worker::Tensors() const {
  std::vector<Tensor*> all;
  for (Name* name : by_order_) {
    for (auto& [group, course] : name->courses) {
      for (auto& [spec, tensor] : course.tensors) all.push_back(tensor.get());
    }
  }
  return all;
}

// Rounds count from 1 again after each join: ranks that had joined have missed some.
uint64_t Worker::NextRound(const Course& course) const {
  uint64_t begin = wire::FirstRoundAfter(joins_);
  return course.round < begin ? begin + options_.first_round : course.round + 1;
}

bool Worker::IsDeclaring(const Tensor& tensor) {
  return tensor.task.has_value() && tensor.task->path[tensor.task->at] == Stage::kDeclare;
}

StageVerdict Worker::EnterDeclare(Tensor& tensor) {
  Course& course = tensor.course;
  // What broke while this rank had joined concerned the others only.
  bool missed =
      course.doomed.has_value() && course.doomed->use.round <= wire::FirstRoundAfter(joins_);
  if (missed) Undeclare(course);
  if (course.doomed.has_value()) {
    FailDoomed(tensor);
    return StageVerdict::kFailed;
  }
  if (!tensor.declared) {
    SendDeclare(tensor);
    return StageVerdict::kPending;
  }
  tensor.round = course.round = NextRound(course);
  return StageVerdict::kDone;
}

void Worker::SendDeclare(const Tensor& tensor) {
  const Course& course = tensor.course;
  driver_.SendControl(wire::Declare{tensor.name, course.attempt, tensor.spec, NextRound(course)});
}

void Worker::OnDeclared(const wire::Declared& message) {
  auto found = names_.find(message.name);
  if (found == names_.end() || found->second->open == nullptr) return;
  Tensor& tensor = *found->second->open;
  Course& course = tensor.course;
  bool meant = course.group == message.group && course.attempt == message.attempt;
  if (!meant || !IsDeclaring(tensor) || by_id_.contains(message.tensor)) return;
  tensor.declared = true;
  tensor.id = message.tensor;
  tensor.placement = message.placement;
  tensor.round = course.round = NextRound(course);
  by_id_[tensor.id] = &tensor;
  tensor.wanted_early.clear();
  if (auto wanted = wanted_unknown_.extract(tensor.id); !wanted.empty()) {
    wanted_unknown_count_ -= wanted.mapped().size();
    tensor.wanted_early = std::move(wanted.mapped());
  }
  Resume(tensor);
}

// A failure concerns the operation that begins its round; an earlier one, whose answers are still
// coming in, is none of its business.
void Worker::OnDeclareFailed(const wire::DeclareFailed& message) {
  auto found = names_.find(message.name);
  if (found == names_.end()) return;
  Course& course = CourseOf(*found->second, message.use.group);
  if (message.use.attempt != course.attempt || course.doomed.has_value()) return;
  failures_.push_back(message);
  course.doomed = message;
  Tensor* open = found->second->open;
  if (open == nullptr || &open->course != &course) return;
  if (IsDeclaring(*open)) return Advance(*open);
  if (open->round < message.use.round) return;
  FailDoomed(*open);
  PushWhatFits();  // nobody else may ever ask for what waited for this credit
}

// One failure is raised once, whatever groups it is told of.
void Worker::FailDoomed(Tensor& tensor) {
  Course& course = tensor.course;
  const wire::DeclareFailed why = *course.doomed;
  tensor.task->reported = false;  // the coordinator knows
  Fail(tensor, Status(why.code, why.text));
  Undeclare(course);
  for (const wire::NamedUse& also : why.also) {
    Course& other = CourseOf(NameOf(also.name), also.use.group);
    const Tensor* open = other.name.open;
    bool own_end = open != nullptr && &open->course == &other;  // it is told of that by itself
    if (other.attempt > also.use.attempt || own_end) continue;
    other.attempt = also.use.attempt;
    Undeclare(other);
  }
}

// The next attempt begins: with no tensor but the one that waits to be declared.
void Worker::Undeclare(Course& course) {
  for (const auto& [spec, tensor] : course.tensors) {
    if (tensor->declared) by_id_.erase(tensor->id);
    tensor->declared = false;
    tensor->pieces.clear();
    tensor->dealt_id.reset();
  }
  std::erase_if(course.tensors, [](const auto& one) { return !one.second->task.has_value(); });
  ++course.attempt;
  course.round = 0;
  course.doomed.reset();
}

void Worker::LookForOverdue(Time now) {
  next_look_ = now + options_.overdue_after;
  looks_ = false;
  std::vector<const Tensor*> late;
  for (const Name* name : by_order_) {
    if (name->open == nullptr) continue;
    Task& task = *name->open->task;
    // What has no number yet was told when that was asked for.
    if (task.seen && !task.reported && name->open->declared && !IsDeclaring(*name->open)) {
      task.reported = true;
      late.push_back(name->open);
    }
    task.seen = true;
    looks_ = looks_ || !task.reported;
  }
  if (!looks_) next_look_.reset();
  ReportOverdue(late);
}

// In messages of bounded size.
void Worker::ReportOverdue(const std::vector<const Tensor*>& late) {
  wire::Overdue overdue;
  size_t bytes = 0;
  auto send = [&] {
    if (!overdue.uses.empty()) driver_.SendControl(overdue);
    overdue = wire::Overdue();
    bytes = 0;
  };
  for (const Tensor* tensor : late) {
    const Course& course = tensor->course;
    wire::OverdueUse use{tensor->name,
                         {course.group, course.attempt, tensor->round},
                         tensor->id,
                         {},
                         IsStuckIn(*tensor)};
    for (const auto& [group, other] : course.name.courses) {
      if (group != course.group) use.elsewhere.push_back({group, other.attempt, other.round});
    }
    bytes += use.name.size() + kUseBytes * (2 + use.elsewhere.size());
    overdue.uses.push_back(std::move(use));
    bool told = std::any_of(overdue.groups.begin(), overdue.groups.end(),
                            [&](const auto& group) { return group.number == course.group; });
    if (course.group != 0 && !told) {
      const Group& group = groups_.at(course.group);
      overdue.groups.push_back({course.group, group.ranks});
      bytes += kUseBytes + sizeof(uint32_t) * group.ranks.size();
    }
    if (bytes > kMessageBytes) send();
  }
  send();
}

// It may be waited for in another way soon.
void Worker::TakeBackOverdue(const Tensor& tensor) {
  if (!tensor.task->reported || stopped_.has_value()) return;
  const Course& course = tensor.course;
  wire::Use use{course.group, course.attempt, tensor.round};
  driver_.SendControl(wire::Overdue{{{tensor.name, use, UINT32_MAX, {}}}, {}});
}

void Worker::SetStuck(const std::string& name) {
  if (name == stuck_) return;
  std::string before = std::exchange(stuck_, name);
  ReportAgain(before);
  ReportAgain(name);
}

// What was told of its open operation is not the whole truth any more.
void Worker::ReportAgain(const std::string& name) {
  auto found = names_.find(name);
  const Tensor* open = found == names_.end() ? nullptr : found->second->open;
  if (open != nullptr && open->task->reported) ReportOverdue({open});
}

// Not in a join: who has joined keeps nobody waiting.
bool Worker::IsStuckIn(const Tensor& tensor) const {
  return !stuck_.empty() && tensor.name == stuck_ && tensor.spec.op != wire::Op::kJoin;
}

void Worker::OnUnbegun(const wire::Unbegun& question) {
  auto found = names_.find(question.stuck.name);
  const Tensor* open = found == names_.end() ? nullptr : found->second->open;
  if (open == nullptr || !open->task->reported || !IsStuckIn(*open)) return;
  const wire::Use use{open->course.group, open->course.attempt, open->round};
  if (use != question.stuck.use) return;
  wire::Unbegun answer{question.stuck, {}};
  for (const wire::NamedUse& one : question.uses) {
    if (!HasBegun(one)) answer.uses.push_back(one);
  }
  if (!answer.uses.empty()) driver_.SendControl(answer);
}

// This use or a later one.
bool Worker::HasBegun(const wire::NamedUse& use) const {
  auto found = names_.find(use.name);
  if (found == names_.end()) return false;
  const Name& name = *found->second;
  auto at = name.courses.find(use.use.group);
  if (at == name.courses.end()) return false;
  const Course& course = at->second;
  bool begins = name.open != nullptr && &name.open->course == &course && IsDeclaring(*name.open);
  uint64_t round = begins ? NextRound(course) : course.round;
  return !(wire::Use{course.group, course.attempt, round} < use.use);
}

std::vector<wire::Known> Worker::Known() const {
  std::vector<wire::Known> parts(1);
  size_t bytes = 0;
  auto part = [&](size_t more) -> wire::Known& {
    if (bytes + more > kMessageBytes && bytes > 0) {
      parts.emplace_back();
      bytes = 0;
    }
    bytes += more;
    return parts.back();
  };
  for (const wire::DeclareFailed& failed : failures_) {
    size_t more = failed.name.size() + failed.text.size() + kUseBytes * (1 + failed.also.size());
    for (const wire::NamedUse& also : failed.also) more += also.name.size();
    part(more + sizeof(TensorId) * failed.tensors.size()).failed.push_back(failed);
  }
  for (const Tensor* tensor : Tensors()) {
    if (!tensor->declared) continue;
    const Course& course = tensor->course;
    wire::Declared declared{tensor->name, course.group, course.attempt, tensor->id,
                            tensor->placement};
    size_t more = declared.name.size() + 8 * declared.placement.size();
    part(more).tensors.push_back({std::move(declared), tensor->spec});
  }
  return parts;
}

void Worker::AskAgain() {
  std::vector<const Tensor*> late;
  for (const Name* name : by_order_) {
    if (name->open == nullptr) continue;
    if (IsDeclaring(*name->open)) SendDeclare(*name->open);
    if (name->open->task->reported) late.push_back(name->open);
  }
  ReportOverdue(late);
}

}  // namespace byteps::protocol
