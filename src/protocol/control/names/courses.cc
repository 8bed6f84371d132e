#include "src/protocol/control/names/courses.h"

#include <algorithm>

namespace byteps::protocol {

bool NameCourse::IsOver() const {
  return std::ranges::none_of(attempts, [&](const Attempt& one) {
    const bool failed = one.failed().has_value();
    return &one == &attempts.back() ? failed || !one.variants().empty()
                                    : !failed && !one.variants().empty();
  });
}

void Courses::Clear() {
  tensors_.clear();
  names_.clear();
}

NameCourse* Courses::Find(const std::string& name, uint32_t process_set) {
  auto courses = names_.find(name);
  if (courses == names_.end()) return nullptr;
  auto course = courses->second.find(process_set);
  return course == courses->second.end() ? nullptr : &course->second;
}

Attempt* Courses::FindAttempt(const std::string& name, const wire::Use& use) {
  NameCourse* course = Find(name, use.process_set);
  if (course == nullptr || course->number != use.course) return nullptr;
  return use.attempt < course->attempts.size() ? &course->attempts[use.attempt] : nullptr;
}

const Courses::Place* Courses::Find(TensorId tensor) const {
  auto found = tensors_.find(tensor);
  return found == tensors_.end() ? nullptr : &found->second;
}

NameCourse& Courses::Begin(const std::string& name, uint32_t process_set, uint32_t number) {
  auto& [text, courses] = *names_.try_emplace(name).first;
  return courses.emplace(process_set, NameCourse{text, process_set, number}).first->second;
}

Attempt& Courses::At(NameCourse& course, uint32_t attempt) {
  if (attempt >= course.attempts.size()) course.attempts.resize(attempt + 1);
  return course.attempts[attempt];
}

const Attempt::Entry& Courses::Add(NameCourse& course, uint32_t attempt,
                                   const wire::TensorSpec& spec, const Attempt::Variant& variant) {
  const Attempt::Entry& entry = At(course, attempt).Add(spec, variant);
  tensors_[entry.second.tensor] = {&course, attempt};
  return entry;
}

void Courses::EraseTensor(TensorId tensor) {
  auto found = tensors_.find(tensor);
  if (found == tensors_.end()) return;
  found->second.course->attempts[found->second.attempt].Erase(tensor);
  tensors_.erase(found);
}

Courses::Over Courses::Erase(const NameCourse& course) {
  Over over;
  for (const Attempt& attempt : course.attempts) {
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
  auto courses = names_.find(course.name);
  courses->second.erase(course.process_set);
  if (courses->second.empty()) names_.erase(courses);
  return over;
}

std::vector<TensorId> Courses::Unheld() const {
  std::vector<TensorId> unheld;
  ForEach([&](const NameCourse& course) {
    for (const Attempt& attempt : course.attempts) {
      if (attempt.failed().has_value()) continue;
      for (const auto& [spec, variant] : attempt.variants()) {
        if (variant.holders.empty()) unheld.push_back(variant.tensor);
      }
    }
  });
  return unheld;
}

}  // namespace byteps::protocol
