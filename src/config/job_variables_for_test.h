// The variables of a complete job, as users of `bpslaunch` set them.
#pragma once

#include "src/config/environment.h"

namespace byteps::config {

// Returns those of worker 1, with these changes.
inline Environment::Variables JobVariables(const Environment::Variables& changes = {}) {
  Environment::Variables variables = {
      {"DMLC_ROLE", "worker"},          {"DMLC_NUM_WORKER", "2"},      {"DMLC_NUM_SERVER", "3"},
      {"DMLC_PS_ROOT_URI", "10.0.0.1"}, {"DMLC_PS_ROOT_PORT", "1234"}, {"DMLC_WORKER_ID", "1"}};
  for (const auto& [name, value] : changes) variables[name] = value;
  return variables;
}

}  // namespace byteps::config
