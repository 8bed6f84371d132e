#pragma once

#include <string>
#include <vector>

namespace byteps::python {

// Returns the texts in the form of the C interface; valid as long as `settings` is unchanged.
inline std::vector<const char*> PointersTo(const std::vector<std::string>& settings) {
  std::vector<const char*> pointers;
  pointers.reserve(settings.size());
  for (const std::string& setting : settings) pointers.push_back(setting.c_str());
  return pointers;
}

}  // namespace byteps::python
