// A process with ranks of a job, for tests: a disabled test of this program, which another test
// starts. It gets what it needs in variables of its environment.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace byteps::standin {

// Settings of a session as the value of a variable, and back.
inline std::string LinesOf(const std::vector<std::string>& settings) {
  std::string lines;
  for (const std::string& one : settings) lines += one + "\n";
  return lines;
}
inline std::vector<std::string> SettingsIn(const std::string& lines) {
  std::vector<std::string> settings;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) settings.push_back(line);
  return settings;
}

// Starts the disabled test `name` in a process of its own, with these variables. REQUIRES: no other
// thread reads the environment meanwhile.
inline pid_t StartTest(const std::string& name,
                       const std::map<std::string, std::string>& variables) {
  for (const auto& [variable, value] : variables) setenv(variable.c_str(), value.c_str(), 1);
  const std::string filter = "--gtest_filter=" + name;
  const pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "test_device_jobs", "--gtest_also_run_disabled_tests", filter.c_str(),
          nullptr);
    _exit(127);  // tidy-allow(exit): it must not go on with the tests
  }
  for (const auto& [variable, value] : variables) unsetenv(variable.c_str());
  return child;
}

}  // namespace byteps::standin
